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
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/files.h"
#include "base/text.h"
#include "data/csv.h"
#include "data/table_reader.h"
#include "lucid/nn/import.h"
#include "random/stream.h"

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
                                   kOwnerOnly);
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
  // The process is not reaped yet, so its number is still that of the group: whatever the command
  // left running ends, too.
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

// The rows that go, with commas between them.
std::string CommandSource::RowsOfUnit(std::int64_t row) const {
  const auto unit = std::ranges::find(job_.units, row, &Unit::row);
  return unit == job_.units.end() ? "none" : fmt::format("{}", fmt::join(unit->rows, ","));
}

CommandSource::Call CommandSource::CallFor(std::int64_t row) const {
  return {job_.dataset.directory, RowsOfUnit(row), RowName(row), RowText(row),
          job_.dataset.train.rows()};
}

Status CommandSource::Make(std::span<const std::int64_t> left_out, std::span<float> out,
                           std::stop_token stop) const {
  const Call call = CallFor(left_out.front());
  Result<std::vector<float>> parameters = Run(call, stop);
  if (!parameters.ok() && parameters.error().kind != ErrorKind::kInterrupted) {
    parameters = Run(call, stop);
  }
  if (!parameters.ok()) return parameters.error();
  std::ranges::copy(*parameters, out.begin());
  return Ok();
}

Result<std::vector<float>> CommandSource::Run(const Call& call, const std::stop_token& stop) const {
  std::error_code code;
  const fs::path folder = fs::absolute(Folder(), code);
  LUCID_TRY(MakeDirectories(folder.string()));
  const std::string log = folder / (call.name + ".log");
  const std::string file = folder / (call.name + ".safetensors");
  fs::remove(file, code);

  const std::vector<std::string> environment = Environment({
      "LUCID_DATA=" + fs::absolute(call.data, code).string(),
      fmt::format("LUCID_ROWS={}", call.rows),
      "LUCID_LEAVE_OUT=" + call.left_out,
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
                                    call.what, what, log,
                                    last.empty() ? "" : ", last line: ", last));
  };
  if (status != 0) return failed(HowItEnded(status));
  if (!fs::exists(file, code)) {
    return failed(fmt::format("ended well but did not write LUCID_OUT, '{}'", file));
  }
  Result<Network> network = ImportNetwork(
      file, {job_.dataset.features(), job_.dataset.classes(), job_.spec.architecture});
  if (!network.ok()) return failed("wrote a bad network: " + network.error().message);
  fs::remove(file, code);
  fs::remove(log, code);
  return std::move(network->parameters);
}

namespace {

// A copy of a data folder whose training rows are those of `rows`, in that order.
Status CopyData(const std::string& from, const std::vector<std::int64_t>& rows,
                const std::string& to) {
  LUCID_ASSIGN(const DatasetFiles files, FindDatasetFiles(from));
  LUCID_TRY(MakeDirectories(to));
  std::error_code code;
  for (const std::string& file : {files.schema, files.test}) {
    if (file.empty()) continue;
    fs::copy_file(file, fs::path(to) / fs::path(file).filename(),
                  fs::copy_options::overwrite_existing, code);
    if (code) return IoError(fmt::format("cannot copy '{}': {}", file, code.message()));
  }
  LUCID_ASSIGN(auto source, OpenSource(files.train));
  CsvReader csv(std::move(source), files.train);
  std::vector<std::string> records;  // the header first
  while (true) {
    LUCID_ASSIGN(const bool more, csv.Next());
    if (!more) break;
    AppendCsvRecord(records.emplace_back(), csv.cells());
  }
  std::string text = records.front();
  for (const std::int64_t row : rows) text += records[static_cast<std::size_t>(row) + 1];
  const std::string path = fs::path(to) / fs::path(files.train).filename();
  if (!path.ends_with(".gz")) return WriteFileAtomically(path, text);
  gzFile gzip = ::gzopen(path.c_str(), "wb");
  const bool good =
      gzip != nullptr && ::gzwrite(gzip, text.data(), static_cast<unsigned>(text.size())) ==
                             static_cast<int>(text.size());
  if (gzip == nullptr || ::gzclose(gzip) != Z_OK || !good) {
    return IoError(fmt::format("cannot write '{}'", path));
  }
  return Ok();
}

}  // namespace

Status CommandSource::Check() const {
  constexpr std::int64_t kTried = 3;
  const std::string copy = (fs::path(Folder()) / "data").string();
  const auto train = [&](std::int64_t row) { return Run(CallFor(row), job_.stop); };
  // Trained on a file that holds the rows but for those of a unit, in another order.
  const auto train_really =
      [&](const std::vector<std::int64_t>& left_out) -> Result<std::vector<float>> {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(job_.dataset.train.rows()));
    std::iota(rows.begin(), rows.end(), 0);
    std::erase_if(
        rows, [&](std::int64_t row) { return std::ranges::find(left_out, row) != left_out.end(); });
    Stream(0, "order of a tried file").Shuffle(rows);
    LUCID_TRY(CopyData(job_.dataset.directory, rows, copy));
    auto result =
        Run({copy, "none", "tried", "a file with fewer rows in another order", std::ssize(rows)},
            job_.stop);
    std::error_code ignored;
    fs::remove_all(copy, ignored);
    return result;
  };
  const auto refuse = [](std::string_view what) {
    return InvalidInput(fmt::format("the trainer command {}", what));
  };
  LUCID_ASSIGN(const std::vector<float> n, train(-1));
  LUCID_ASSIGN(const std::vector<float> again, train(-1));
  if (n != again) {
    return refuse("is unseeded: two trainings on the same rows differ (use LUCID_SEED)");
  }
  LUCID_ASSIGN(const std::vector<float> shuffled, train_really({}));
  if (n != shuffled) {
    return refuse(
        "depends on the order of the rows: a file with its lines shuffled gives another "
        "network, and so would a file without one of them");
  }
  const auto units = static_cast<std::int64_t>(job_.units.size());
  bool ignored = true;
  std::vector<const Unit*> differ;
  for (std::int64_t i = 0; i < std::min(kTried, units); ++i) {
    const Unit& unit = job_.units[static_cast<std::size_t>(i * units / std::min(kTried, units))];
    LUCID_ASSIGN(const std::vector<float> member, train(unit.row));
    LUCID_ASSIGN(const std::vector<float> really, train_really(unit.rows));
    ignored = ignored && member == n;
    if (member != really) differ.push_back(&unit);
  }
  if (differ.empty()) return Ok();
  if (ignored) {
    return refuse(
        "ignores LUCID_LEAVE_OUT: what it trains without a unit is the network on all "
        "rows");
  }
  return refuse(
      fmt::format("does not leave out what LUCID_LEAVE_OUT says: training on a file "
                  "without row {} gives another network",
                  differ.front()->row));
}

}  // namespace lucid
