#include "ensemble/trainer_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/text.h"

namespace lucid {
namespace {

constexpr int kGraceMilliseconds = 3000;  // between asking for an end and forcing it
constexpr std::uint64_t kMaxLastLine = 300;
constexpr std::size_t kMaxAnswer = 1 << 16;

// This process's environment with `own` (NAME=value) instead of what it has of those names.
std::vector<std::string> Environment(const std::vector<std::string>& own) {
  std::vector<std::string> all = own;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const bool replaced = std::ranges::any_of(
        own, [&](const std::string& mine) { return !name.empty() && mine.starts_with(name); });
    if (!replaced) all.emplace_back(text);
  }
  return all;
}

// Where its three standard files come from and go to.
void AddFiles(const ShellProcess::Setup& setup, posix_spawn_file_actions_t& files) {
  if (setup.input < 0) {
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  } else {
    posix_spawn_file_actions_adddup2(&files, setup.input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, setup.output, STDOUT_FILENO);
  }
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, setup.log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, kOwnerOnly);
  if (setup.output < 0) {
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  }
}

int PollAll(std::span<pollfd> polled, int milliseconds) {
  int ready = -1;
  do {
    ready = ::poll(polled.data(), polled.size(), milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready;
}

// write(2), whose signal is held back where nobody reads any more: EPIPE says it, too.
ssize_t WriteToPipe(int fd, std::string_view bytes) {
  sigset_t broken, before;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken, &before);
  const ssize_t written = ::write(fd, bytes.data(), bytes.size());
  const int problem = errno;
  if (written < 0 && problem == EPIPE) {
    const timespec now{};
    ::sigtimedwait(&broken, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = problem;
  return written;
}

}  // namespace

Descriptor::~Descriptor() { Close(); }

void Descriptor::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<std::unique_ptr<ShellProcess>> ShellProcess::Start(const Setup& setup) {
  const std::vector<std::string> environment = Environment(setup.environment);
  std::vector<char*> variables;
  variables.reserve(environment.size() + 1);
  for (const std::string& text : environment) variables.push_back(const_cast<char*>(text.c_str()));
  variables.push_back(nullptr);
  std::string shell = "/bin/sh", option = "-c", text = "umask 077; " + setup.command;
  std::array<char*, 4> arguments = {shell.data(), option.data(), text.data(), nullptr};

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  AddFiles(setup, files);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t child = -1;
  const int code =
      ::posix_spawn(&child, shell.c_str(), &files, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) {
    return IoError(fmt::format("cannot start the trainer command (its output goes to '{}'): {}",
                               setup.log, std::strerror(code)));
  }
  // The system call itself: glibc 2.36 declares pidfd_open in a way that C++ cannot link.
  const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  const int problem = errno;
  std::unique_ptr<ShellProcess> process(new ShellProcess(child, pidfd));
  if (pidfd >= 0) return process;
  return IoError(fmt::format("cannot watch the trainer command: {}", std::strerror(problem)));
}

ShellProcess::~ShellProcess() {
  if (reaped_) return;
  Terminate();
  static_cast<void>(Reap());
}

// The process is not reaped yet, so its number is still that of the group: whatever the command
// left running ends, too.
void ShellProcess::Terminate() {
  if (pidfd_.get() >= 0) {
    ::killpg(child_, SIGTERM);
    pollfd polled{pidfd_.get(), POLLIN, 0};
    PollAll(std::span(&polled, 1), kGraceMilliseconds);
  }
  ::killpg(child_, SIGKILL);
}

Result<int> ShellProcess::Reap() {
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0) {
    if (errno != EINTR) {
      reaped_ = true;
      return IoError(fmt::format("cannot wait for the trainer command: {}", std::strerror(errno)));
    }
  }
  reaped_ = true;
  return status;
}

Result<int> ShellProcess::Wait(const std::stop_token& stop) {
  const Descriptor event(::eventfd(0, EFD_CLOEXEC));
  if (event.get() < 0) {
    return IoError(fmt::format("cannot watch the trainer command: {}", std::strerror(errno)));
  }
  {
    const std::stop_callback wake(stop, [&] { ::eventfd_write(event.get(), 1); });
    std::array polled = {pollfd{pidfd_.get(), POLLIN, 0}, pollfd{event.get(), POLLIN, 0}};
    PollAll(polled, -1);
  }
  if (stop.stop_requested()) Terminate();
  return Reap();
}

Result<int> ShellProcess::WaitAtMost(int milliseconds) {
  pollfd polled{pidfd_.get(), POLLIN, 0};
  if (PollAll(std::span(&polled, 1), milliseconds) == 0) {
    Terminate();
  } else {
    ::killpg(child_, SIGKILL);  // what it left running
  }
  return Reap();
}

std::string HowItEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return fmt::format("was killed by signal {}", WTERMSIG(wait_status));
  }
  return fmt::format("failed with exit code {}", WEXITSTATUS(wait_status));
}

std::string LastLineOf(const std::string& path) {
  const Result<std::string> text = ReadTextFile(path);
  if (!text.ok()) return "";
  const std::size_t end = text->find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "";
  const std::size_t start = text->find_last_of("\r\n", end);
  std::string line = text->substr(start == std::string::npos ? 0 : start + 1);
  line.resize(std::min<std::size_t>(line.find_last_not_of(" \t\r\n") + 1, kMaxLastLine));
  if (!IsUtf8(line)) return Quoted(line);
  std::ranges::replace_if(
      line, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, ' ');
  return line;
}

Result<std::unique_ptr<TrainerWorker>> TrainerWorker::Start(const std::string& command,
                                                            std::string log) {
  // Two pipes, so that the end of its output is seen although its input is open. Pipes rather than
  // sockets, because those cannot be opened as /dev/stdin.
  std::array<int, 2> requests = {-1, -1}, answers = {-1, -1};
  const bool made =
      ::pipe2(requests.data(), O_CLOEXEC) == 0 && ::pipe2(answers.data(), O_CLOEXEC) == 0;
  const int problem = errno;
  const Descriptor input(requests[0]), output(answers[1]);
  std::unique_ptr<TrainerWorker> worker(new TrainerWorker(requests[1], answers[0], std::move(log)));
  if (!made || ::fcntl(requests[1], F_SETFL, O_NONBLOCK) != 0 ||
      ::fcntl(answers[0], F_SETFL, O_NONBLOCK) != 0) {
    return IoError(
        fmt::format("cannot make pipes to the worker: {}", std::strerror(made ? errno : problem)));
  }
  LUCID_ASSIGN(worker->process_,
               ShellProcess::Start({command, {}, worker->log_, input.get(), output.get()}));
  return worker;
}

Status TrainerWorker::Ask(const std::string& request, const std::stop_token& stop) {
  const Descriptor event(::eventfd(0, EFD_CLOEXEC));
  if (event.get() < 0) {
    return IoError(fmt::format("cannot watch the worker: {}", std::strerror(errno)));
  }
  const std::stop_callback wake(stop, [&] { ::eventfd_write(event.get(), 1); });
  if (!unread_.empty()) {
    return InvalidInput(
        fmt::format("printed {} after its answer (stdout is for answers only)", Quoted(unread_)));
  }
  Status sent = Send(request + "\n", stop, event.get());
  Result<std::string> read = sent.ok() ? ReadLine(stop, event.get()) : sent.error();
  if (!read.ok()) {
    process_.reset();  // nobody waits for it: it is ended now
    return read.error();
  }
  std::string answer = std::move(*read);
  if (answer.ends_with('\r')) answer.pop_back();
  if (answer == "done") return Ok();
  constexpr std::string_view kFailed = "failed:";
  if (answer.starts_with(kFailed)) {
    const std::size_t why = answer.find_first_not_of(' ', kFailed.size());
    return InvalidInput("failed: " + (why == std::string::npos ? std::string("it did not say why")
                                                               : Escaped(answer.substr(why))));
  }
  return InvalidInput(fmt::format(
      "answered {} where 'done' or 'failed: WHY' is expected (stdout is for answers only)",
      Quoted(answer)));
}

// The whole line, as far as the worker lives.
Status TrainerWorker::Send(std::string_view line, const std::stop_token& stop, int stopped) {
  while (!line.empty()) {
    const ssize_t sent = WriteToPipe(requests_.get(), line);
    if (sent > 0) {
      line.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Ended();
    std::array polled = {pollfd{requests_.get(), POLLOUT, 0}, pollfd{stopped, POLLIN, 0},
                         pollfd{process_->ended(), POLLIN, 0}};
    PollAll(polled, -1);
    if (stop.stop_requested()) return Interrupted("stopped on request");
    if (polled[2].revents != 0) return Ended();
  }
  return Ok();
}

Result<std::string> TrainerWorker::ReadLine(const std::stop_token& stop, int stopped) {
  while (true) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > kMaxAnswer) {
      return InvalidInput(fmt::format("answered {} and no end of the line", Quoted(unread_)));
    }
    // What it wrote before it ended counts, so its end is looked at last.
    std::array polled = {pollfd{answers_.get(), POLLIN, 0}, pollfd{stopped, POLLIN, 0},
                         pollfd{process_->ended(), POLLIN, 0}};
    PollAll(polled, -1);
    if (stop.stop_requested()) return Interrupted("stopped on request");
    std::array<char, 4096> bytes{};
    const ssize_t count = ::read(answers_.get(), bytes.data(), bytes.size());
    if (count > 0) {
      unread_.append(bytes.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || polled[2].revents != 0) {
      return Ended();
    }
  }
}

// It closed its stdin or stdout, or is gone.
Error TrainerWorker::Ended() {
  pollfd polled{process_->ended(), POLLIN, 0};
  const bool lives = PollAll(std::span(&polled, 1), kGraceMilliseconds) == 0;
  const Result<int> status = process_->WaitAtMost(0);
  if (!status.ok()) return status.error();
  if (lives) return InvalidInput("closed its stdin or stdout without an answer and lived on");
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) {
    return InvalidInput(
        "ended without an answer (a worker reads a request line, prints 'done', and reads on: "
        "docs/ensemble.md)");
  }
  return InvalidInput(HowItEnded(*status));
}

void TrainerWorker::SayGoodbye() { requests_.Close(); }

TrainerWorker::~TrainerWorker() {
  if (process_ == nullptr) return;
  SayGoodbye();
  static_cast<void>(process_->WaitAtMost(kGraceMilliseconds));
}

}  // namespace lucid
