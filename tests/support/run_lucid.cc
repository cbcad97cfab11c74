#include "support/run_lucid.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace lucid::test {
namespace {

// What the child does between fork and exec: only system calls.
struct Launch {
  std::vector<char*> arguments, environment;
  const RunOptions* options = nullptr;
  int out = -1, err = -1;

  [[noreturn]] void Exec() const {
    const auto redirect = [](const std::string& path, int pipe, int to) {
      const int fd = path.empty() ? pipe : ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (::dup2(fd, to) < 0) ::_exit(126);
    };
    redirect(options->stdout_to, out, STDOUT_FILENO);
    redirect(options->stderr_to, err, STDERR_FILENO);
    if (!options->folder.empty() && ::chdir(options->folder.c_str()) != 0) ::_exit(126);
    if (options->file_size_limit > 0) {
      const struct rlimit limit = {options->file_size_limit, options->file_size_limit};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(126);
    }
    const std::string& program = options->program;
    ::execve(program.empty() ? LUCID_PROGRAM : program.c_str(), arguments.data(),
             environment.data());
    ::_exit(127);
  }
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const std::map<std::string, std::string>& extra) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!extra.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : extra)
    all.push_back(std::string(name).append("=").append(value));
  return all;
}

}  // namespace

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void SleepSeconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

nlohmann::json Outcome::Json() const {
  return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false);
}

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << "exit code " << outcome.code << ", signal " << outcome.signal
             << (outcome.timed_out ? ", timed out" : "") << "\nstdout: " << outcome.out
             << "\nstderr: " << outcome.err;
}

Process::Process(const std::vector<std::string>& arguments, const RunOptions& options)
    : options_(options) {
  int out[2] = {}, err[2] = {};
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "no pipe";
    return;
  }
  std::vector<std::string> command = std::vector<std::string>{"lucid"} + arguments;
  const bool trains = options_.program.empty() && !arguments.empty() && arguments[0] == "train";
  const auto names_seed = [](const std::string& word) {
    return word == "--seed" || word.starts_with("--seed=") || word.starts_with("--config");
  };
  if (trains && options_.seeded && std::ranges::none_of(arguments, names_seed)) {
    command.insert(command.begin() + 2, {"--seed", "0"});
  }
  std::vector<std::string> environment = Environment(options_.env);
  const Launch launch{Pointers(command), Pointers(environment), &options_, out[1], err[1]};
  start_ = Now();
  pid_ = ::fork();
  if (pid_ == 0) launch.Exec();
  EXPECT_GT(pid_, 0) << "no fork";
  ::close(out[1]);
  ::close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
}

Process::~Process() {
  if (pid_ > 0 && !ended_) {
    Signal(SIGKILL);
    Wait();
  }
  for (const int fd : {out_fd_, err_fd_}) {
    if (fd >= 0) ::close(fd);
  }
}

void Process::Signal(int signal) const {
  if (pid_ > 0 && !ended_) ::kill(pid_, signal);
}

bool Process::Ended() {
  if (ended_ || pid_ <= 0) return true;
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

const std::string& Process::Err() {
  Drain(0);
  return outcome_.err;
}

void Process::Drain(int milliseconds) {
  while (true) {
    pollfd fds[] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};
    if (::poll(fds, 2, milliseconds) <= 0) return;
    milliseconds = 0;
    for (pollfd& entry : fds) {
      if (entry.revents == 0) continue;
      char block[65536];
      const ssize_t n = ::read(entry.fd, block, sizeof(block));
      int& fd = entry.fd == out_fd_ ? out_fd_ : err_fd_;
      if (n > 0) {
        (entry.fd == out_fd_ ? outcome_.out : outcome_.err).append(block, static_cast<size_t>(n));
      } else {
        ::close(fd);
        fd = -1;  // poll ignores it from now on
      }
    }
    if (out_fd_ < 0 && err_fd_ < 0) return;
  }
}

Outcome Process::Wait() {
  if (ended_ || pid_ <= 0) return outcome_;
  while (out_fd_ >= 0 || err_fd_ >= 0) {
    Drain(50);
    if (Now() - start_ > options_.timeout && !outcome_.timed_out) {
      outcome_.timed_out = true;
      Signal(SIGKILL);
    }
  }
  int status = 0;
  struct rusage usage {};
  EXPECT_EQ(::wait4(pid_, &status, 0, &usage), pid_);
  ended_ = true;
  outcome_.seconds = Now() - start_;
  outcome_.peak_megabytes = static_cast<double>(usage.ru_maxrss) / 1024;
  if (WIFEXITED(status)) outcome_.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome_.signal = WTERMSIG(status);
  EXPECT_NE(outcome_.code, 127) << "cannot run " << LUCID_PROGRAM << " " << options_.program;
  return outcome_;
}

Outcome RunLucid(const std::vector<std::string>& arguments, const RunOptions& options) {
  return Process(arguments, options).Wait();
}

nlohmann::json ReadJson(const std::string& path) {
  return nlohmann::json::parse(ReadBytes(path), nullptr, /*allow_exceptions=*/false);
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace lucid::test
