#include "ensemble/command_source.h"

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
#include <filesystem>

#include "base/files.h"
#include "base/text.h"
#include "lucid/nn/import.h"

namespace lucid {
namespace {

namespace fs = std::filesystem;

constexpr int kGraceMilliseconds = 3000;  // between SIGTERM and SIGKILL
constexpr std::uint64_t kMaxLastLine = 300;

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string RowName(std::int64_t row) { return row < 0 ? "all" : fmt::format("row-{}", row); }
std::string RowText(std::int64_t row) {
  return row < 0 ? "the network on all rows" : fmt::format("the network without row {}", row);
}

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

// Starts /bin/sh -c `command` in a process group of its own, with everything it prints in `log`.
// The signals that this program blocks or ignores are the command's own again.
Result<pid_t> Start(const std::string& command, const std::vector<std::string>& environment,
                    const std::string& log) {
  std::vector<char*> variables;
  variables.reserve(environment.size() + 1);
  for (const std::string& text : environment) variables.push_back(const_cast<char*>(text.c_str()));
  variables.push_back(nullptr);
  std::string shell = "/bin/sh", option = "-c", text = command;
  std::array<char*, 4> arguments = {shell.data(), option.data(), text.data(), nullptr};

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
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
  if (code == 0) return child;
  return IoError(fmt::format("cannot start the trainer command (its output goes to '{}'): {}", log,
                             std::strerror(code)));
}

int PollAll(std::span<pollfd> polled, int milliseconds) {
  int ready = -1;
  do {
    ready = ::poll(polled.data(), polled.size(), milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready;
}

// Waits for the child, and for a stop, which ends its process group. Ensures: the child is gone and
// reaped. Its wait status.
Result<int> Wait(pid_t child, const std::stop_token& stop) {
  // The system call itself: glibc 2.36 declares pidfd_open in a way that C++ cannot link.
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const Descriptor event(::eventfd(0, EFD_CLOEXEC));
  const bool watching = process.get() >= 0 && event.get() >= 0;
  const int problem = errno;
  if (watching) {
    const std::stop_callback wake(stop, [&] { ::eventfd_write(event.get(), 1); });
    std::array polled = {pollfd{process.get(), POLLIN, 0}, pollfd{event.get(), POLLIN, 0}};
    PollAll(polled, -1);
    if (stop.stop_requested()) {
      ::killpg(child, SIGTERM);
      PollAll(std::span(polled).first(1), kGraceMilliseconds);
    }
  }
  // Not reaped yet, so the number is still the group's: what the command left running goes too.
  if (stop.stop_requested() || !watching) ::killpg(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return IoError(fmt::format("cannot wait for the trainer command: {}", std::strerror(errno)));
    }
  }
  if (!watching) {
    return IoError(fmt::format("cannot watch the trainer command: {}", std::strerror(problem)));
  }
  return status;
}

// The last line with anything in it, for messages.
std::string LastLine(const std::string& path) {
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

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("failed with exit code {}", WEXITSTATUS(status));
}

}  // namespace

std::string CommandSource::Folder() const { return (fs::path(job_.run) / "trainer").string(); }

CommandSource::~CommandSource() {
  std::error_code ignored;
  fs::remove(Folder(), ignored);  // only if nothing is in it
}

Status CommandSource::Make(std::span<const std::int64_t> left_out, std::span<float> out,
                           std::stop_token stop) const {
  const std::int64_t row = left_out.front();
  std::error_code code;
  const fs::path folder = fs::absolute(Folder(), code);
  LUCID_TRY(MakeDirectories(folder.string()));
  const std::string log = folder / (RowName(row) + ".log");
  const std::string file = folder / (RowName(row) + ".safetensors");
  fs::remove(file, code);

  const std::vector<std::string> environment = Environment({
      "LUCID_DATA=" + fs::absolute(job_.dataset.directory, code).string(),
      fmt::format("LUCID_ROWS={}", job_.dataset.train.rows()),
      row < 0 ? "LUCID_LEAVE_OUT=none" : fmt::format("LUCID_LEAVE_OUT={}", row),
      fmt::format("LUCID_SEED={}", job_.options.train.seed),
      "LUCID_ARCH=" + job_.spec.architecture.Canonical(),
      "LUCID_OUT=" + file,
  });
  LUCID_ASSIGN(const pid_t child, Start(job_.options.trainer, environment, log));
  LUCID_ASSIGN(const int status, Wait(child, stop));
  if (stop.stop_requested()) {
    fs::remove(file, code);
    fs::remove(log, code);
    return Interrupted("stopped on request");
  }
  const auto failed = [&](const std::string& what) {
    const std::string last = LastLine(log);
    return InvalidInput(fmt::format("the trainer command for {} {} (its output: '{}'{}{})",
                                    RowText(row), what, log,
                                    last.empty() ? "" : ", last line: ", last));
  };
  if (status != 0) return failed(HowItEnded(status));
  if (!fs::exists(file, code)) {
    return failed(fmt::format("ended well but did not write LUCID_OUT, '{}'", file));
  }
  const Result<Network> network = ImportNetwork(
      file, {job_.dataset.features(), job_.dataset.classes(), job_.spec.architecture});
  if (!network.ok()) return failed("wrote a bad network: " + network.error().message);
  std::ranges::copy(network->parameters, out.begin());
  fs::remove(file, code);
  fs::remove(log, code);
  return Ok();
}

}  // namespace lucid
