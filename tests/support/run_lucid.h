// Runs the real program the way a shell would, for tests.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/files.h"

#include "support/scratch_folder.h"

namespace lucid::test {

struct RunOptions {
  std::string folder = {};                      // to run in; empty: here
  std::string program = {};                     // its path; empty: lucid
  std::map<std::string, std::string> env = {};  // beside what this process has
  std::string stdout_to = {}, stderr_to = {};   // files instead of pipes ("/dev/full")
  std::uint64_t file_size_limit = 0;            // RLIMIT_FSIZE; 0: none
  bool seeded = true;                           // `train` without a --seed gets --seed 0
  double timeout = 120;                         // seconds, then it is killed and `timed_out` is set
};

struct Outcome {
  int code = -1;   // exit code; -1 if a signal ended it
  int signal = 0;  // the signal that did
  bool timed_out = false;
  std::string out, err;
  double seconds = 0;
  double peak_megabytes = 0;  // resident

  nlohmann::json Json() const;  // of `out`; discarded if it is not exactly one document
};
std::ostream& operator<<(std::ostream& out, const Outcome& outcome);

// A running program. Waited for in the destructor (killed first).
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const RunOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  bool Ended();  // without waiting
  // Reads what it has written so far.
  const std::string& Err();
  Outcome Wait();

 private:
  void Drain(int milliseconds);  // waits at most so long for output

  RunOptions options_;
  pid_t pid_ = -1;
  int out_fd_ = -1, err_fd_ = -1;
  double start_ = 0;
  bool ended_ = false;
  Outcome outcome_;
};

Outcome RunLucid(const std::vector<std::string>& arguments, const RunOptions& options = {});

// What a program runs in.
using Scratch = TemporaryFolder;

nlohmann::json ReadJson(const std::string& path);
std::vector<std::string> Words(const std::string& text);  // split at blanks
std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b);
// Waits until `condition` holds; false after `seconds`.
template <typename Condition>
bool WaitFor(Condition condition, double seconds);
double Now();  // seconds of a steady clock
void SleepSeconds(double seconds);

template <typename Condition>
bool WaitFor(Condition condition, double seconds) {
  for (const double end = Now() + seconds; !condition(); SleepSeconds(0.001)) {
    if (Now() > end) return false;
  }
  return true;
}

}  // namespace lucid::test
