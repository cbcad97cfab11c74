// Commands of the user's as processes, which end when they should and take along what they started.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lucid/base/result.h"

namespace lucid {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Close();

 private:
  int fd_;
};

// /bin/sh -c COMMAND in a process group of its own. The signals that this program blocks or ignores
// are the command's own again. What it writes is its owner's (umask 077).
class ShellProcess {
 public:
  struct Setup {
    std::string command;
    std::vector<std::string> environment;  // NAME=value, instead of what this process has there
    std::string log;              // takes what it prints: stderr, and stdout if there is no output
    int input = -1, output = -1;  // become its stdin and stdout; -1: stdin is empty
  };
  static Result<std::unique_ptr<ShellProcess>> Start(const Setup& setup);
  // Ends it if it has not ended: SIGTERM, three seconds later SIGKILL, each for the whole group.
  ~ShellProcess();
  ShellProcess(const ShellProcess&) = delete;
  ShellProcess& operator=(const ShellProcess&) = delete;

  // Waits until it ends; a stop ends it as the destructor does. Ensures: it is gone and reaped, and
  // after a stop its whole group is. Its wait status. Requires: called once.
  Result<int> Wait(const std::stop_token& stop);
  // The same, after at most so long; then it is ended. Ensures: its whole group is gone.
  Result<int> WaitAtMost(int milliseconds);

  // A descriptor that becomes readable when it has ended.
  int ended() const { return pidfd_.get(); }

 private:
  ShellProcess(pid_t child, int pidfd) : child_(child), pidfd_(pidfd) {}
  void Terminate();
  Result<int> Reap();
  pid_t child_;
  Descriptor pidfd_;
  bool reaped_ = false;
};

// "was killed by signal 9", "failed with exit code 3".
std::string HowItEnded(int wait_status);

// The last line of a log with anything in it, for messages.
std::string LastLineOf(const std::string& path);

// A trainer that stays alive: a line with a request on its stdin, a line with the answer on its
// stdout, one after another (docs/ensemble.md).
class TrainerWorker {
 public:
  static Result<std::unique_ptr<TrainerWorker>> Start(const std::string& command, std::string log);
  // Sends the line and waits for the answer. Ok: it was "done". Errors: another answer, or none;
  // kInterrupted after a stop. After an error the worker is of no use any more.
  Status Ask(const std::string& request, const std::stop_token& stop);
  // Closes its stdin: a worker that reads on sees the end.
  void SayGoodbye();
  // Says goodbye; a worker that does not end within three seconds is ended.
  ~TrainerWorker();
  TrainerWorker(const TrainerWorker&) = delete;
  TrainerWorker& operator=(const TrainerWorker&) = delete;

  const std::string& log() const { return log_; }

 private:
  TrainerWorker(int requests, int answers, std::string log)
      : requests_(requests), answers_(answers), log_(std::move(log)) {}
  Status Send(std::string_view line, const std::stop_token& stop, int stopped);
  Result<std::string> ReadLine(const std::stop_token& stop, int stopped);
  Error Ended();
  Descriptor requests_, answers_;  // our ends of two pipes
  std::unique_ptr<ShellProcess> process_;
  std::string log_;
  std::string unread_;  // what came after the last answer
};

}  // namespace lucid
