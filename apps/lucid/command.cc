#include "command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>

#include "base/files.h"
#include "base/parallel.h"
#include "base/text.h"

namespace lucid::app {
namespace {

using Clock = std::chrono::steady_clock;

std::string Duration(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string Count(double value) {
  if (value >= 1e9) return fmt::format("{:.1f} G", value / 1e9);
  if (value >= 1e7) return fmt::format("{:.1f} M", value / 1e6);
  return fmt::format("{:.0f}", value);
}

// As much of the line as fits into a row of the terminal: a longer one would go on in the next row,
// which the next drawing does not clear.
std::string FittingTheTerminal(std::string line) {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  std::size_t columns = known ? size.ws_col - 1U : 79U;
  if (line.size() <= columns) return line;
  const auto goes_on = [&](std::size_t at) { return (line[at] & 0xC0) == 0x80; };
  while (columns > 0 && goes_on(columns)) --columns;  // no part of a letter
  line.resize(columns);
  return line;
}

// The line that is drawn again and again, of which a terminal has one.
class LiveLine {
 public:
  void Draw(const std::string& line, bool finished) {
    const std::lock_guard lock(mutex_);
    std::fputs(fmt::format("\r{}\x1b[K", FittingTheTerminal(line)).c_str(), stderr);
    std::fflush(stderr);
    state_ = finished ? State::kFinished : State::kDrawn;
  }
  // Makes room for other lines: it stays above them if it is finished, and gives its place up if
  // not, because what it says will soon be wrong.
  void End() { WriteBeside(""); }
  void WriteBeside(const std::string& lines) {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kFinished) std::fputs("\n", stderr);
    if (state_ == State::kDrawn) std::fputs("\r\x1b[K", stderr);
    state_ = State::kNone;
    std::fputs(lines.c_str(), stderr);
  }

 private:
  enum class State { kNone, kDrawn, kFinished };
  std::mutex mutex_;
  State state_ = State::kNone;
};

LiveLine& TheLiveLine() {
  static LiveLine line;
  return line;
}

// The state behind Session::Progress(): when to draw, and how fast it goes.
class ProgressRenderer {
 public:
  void operator()(const lucid::Progress& p) {
    const auto now = Clock::now();
    if (p.what != what_) {
      Finish();
      what_ = p.what;
      start_ = now;
      last_ = now;
      shown_ = false;
    }
    const bool finished = p.total > 0 && p.done >= p.total;
    const double elapsed = Seconds(now - start_);
    const double interval = terminal_ ? 0.1 : 5.0;
    if (elapsed < 2 || (Seconds(now - last_) < interval && !(finished && shown_))) return;
    last_ = now;
    shown_ = true;
    Draw(p, elapsed, finished);
  }

  ~ProgressRenderer() { Finish(); }

 private:
  static double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

  void Finish() {
    if (terminal_ && shown_) TheLiveLine().End();
    shown_ = false;
  }

  void Draw(const lucid::Progress& p, double elapsed, bool finished) const {
    const double rate = elapsed > 0 ? static_cast<double>(p.done - p.done_before) / elapsed : 0;
    std::string line = fmt::format("{}: {}", p.what, Count(static_cast<double>(p.done)));
    if (p.total > 0) {
      const double share = static_cast<double>(p.done) / static_cast<double>(p.total);
      line += fmt::format("/{} {} ({:.0f} %)", Count(static_cast<double>(p.total)), p.unit,
                          100 * share);
      if (terminal_) {
        const int width = 24, full = static_cast<int>(share * width);
        line =
            fmt::format("[{}{}] {}", std::string(full, '#'), std::string(width - full, '.'), line);
      }
    } else {
      line += fmt::format(" {}", p.unit);
    }
    if (rate > 0) {
      line += rate >= 10 ? fmt::format(", {}/s", Count(rate)) : fmt::format(", {:.2f}/s", rate);
    }
    if (finished) {
      line += fmt::format(", {}", Duration(elapsed));
    } else if (p.total > 0 && rate > 0) {
      line += fmt::format(", ETA {}", Duration(static_cast<double>(p.total - p.done) / rate));
    }
    if (!p.detail.empty()) line += fmt::format(", {}", p.detail);
    if (terminal_) return TheLiveLine().Draw(line, finished);
    std::fputs((line + "\n").c_str(), stderr);
    std::fflush(stderr);
  }

  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  std::string what_;
  Clock::time_point start_, last_;
  bool shown_ = false;
};

// "lucid data fetch", "lucid-check".
std::string NameOf(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : NameOf(*parent) + " " + command.get_name();
}

std::string ProgramOf(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : ProgramOf(*parent);
}

// Every option that the command line does not give gets what the file says.
void ReadConfig(CLI::App& command, const std::string& path) {
  const auto refuse = [&](std::uint32_t line, std::string_view rule) {
    return CLI::ConfigError(fmt::format("{}:{}: {}", path, line, rule),
                            CLI::ExitCodes::ConfigError);
  };
  const Result<std::string> text = ReadTextFile(path, 1 << 20);
  if (!text.ok()) throw CLI::FileError(text.error().message, CLI::ExitCodes::FileError);
  toml::table document;
  try {
    document = toml::parse(*text, path);
  } catch (const toml::parse_error& e) {
    throw refuse(e.source().begin.line, e.description());
  }
  for (const auto& [key, value] : document) {
    const std::uint32_t line = key.source().begin.line;
    const std::string name(key.str());
    CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option == nullptr || !option->get_configurable()) {
      throw refuse(line, fmt::format("'{}' is not an option of '{}'", name, NameOf(command)));
    }
    if (option->count() > 0) continue;
    std::vector<std::string> results;
    const auto append = [&](const toml::node& item) {
      if (const auto whole = item.value_exact<std::int64_t>()) {
        results.push_back(std::to_string(*whole));
      } else if (const auto number = item.value_exact<double>()) {
        results.push_back(fmt::format("{}", *number));
      } else if (const auto flag = item.value_exact<bool>()) {
        results.emplace_back(*flag ? "true" : "false");
      } else if (const auto word = item.value_exact<std::string>()) {
        results.push_back(*word);
      } else {
        throw refuse(line, fmt::format("'{}' must be a number, a text, true or false", name));
      }
    };
    if (const toml::array* list = value.as_array()) {
      for (const toml::node& item : *list) append(item);
    } else {
      append(value);
    }
    option->add_result(results);
  }
}

// The threads of one of several processes: the cores it is bound to, or its share of all.
int ThreadsInTeam(int processes_here) {
  const int usable = EffectiveThreads(0);
  const bool bound = usable < static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return bound ? usable : std::max(1, usable / processes_here);
}

Result<ExitCode> RunInTeam(const CLI::App& command, Session& session, const Run& run,
                           Processes processes) {
  if (session.team->size() > 1 && processes == Processes::kOne) {
    return InvalidInput(
        fmt::format("'{}' works in one process: start it without mpirun", NameOf(command)));
  }
  if (session.threads == 0) session.threads = ThreadsInTeam(session.processes_here);
  session.quiet = session.quiet || !session.Speaks();
  return run();
}

// CLI11 makes the nearest number of one that is out of range, and a large one of -1.
CLI::Validator WholeNumber() {
  return {[](const std::string& text) {
            std::uint64_t value = 0;
            const char* end = text.data() + text.size();
            const auto [stop, code] = std::from_chars(text.data(), end, value);
            const bool good = code == std::errc() && stop == end;
            return good ? "" : fmt::format("'{}' is not a whole number from 0 to 2^64 - 1", text);
          },
          ""};
}

}  // namespace

ProgressCallback Session::Progress() const {
  if (quiet || !LogsAtLeast("info")) return {};
  return [renderer = std::make_shared<ProgressRenderer>()](const lucid::Progress& p) {
    (*renderer)(p);
  };
}

void Session::Say(const std::string& line) const {
  if (!quiet && LogsAtLeast("info")) Complain(line);
}

bool Session::LogsAtLeast(std::string_view level) const {
  static constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error"};
  const auto rank = [](std::string_view name) {
    for (int i = 0; i < 4; ++i) {
      if (kLevels[i] == name) return i;
    }
    return 1;
  };
  return rank(level) >= rank(log_level);
}

CLI::App* AddCommand(CLI::App& parent, Session& session, const std::string& name,
                     const std::string& description, const std::string& example, Run run,
                     Processes processes) {
  CLI::App* command = parent.add_subcommand(name, description);
  MakeCommand(*command, session, example, std::move(run), processes);
  return command;
}

void MakeCommand(CLI::App& app, Session& session, const std::string& example, Run run,
                 Processes processes) {
  CLI::App* command = &app;
  command->footer("Example:\n  " + example);
  // The first option, because CLI11 runs their callbacks in this order: what the file says is there
  // when the others are looked at.
  command
      ->add_option("--config", "Read options from a TOML file (key = value; the command line wins)")
      ->configurable(false)
      ->type_name("FILE")
      ->each([command](const std::string& path) { ReadConfig(*command, path); });
  command->add_option("--threads", session.threads, "Threads to use (0: all cores)")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_option("--seed", session.seed, "Seed of everything random that is not privacy noise")
      ->check(WholeNumber())
      ->capture_default_str();
  command->add_flag("--quiet,-q", session.quiet, "No progress, no remarks");
  command->add_flag("--json", session.json, "Print one JSON document on stdout");
  command->add_option("--log-level", session.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  command->final_callback([command, &session, run = std::move(run), processes] {
    const Result<ExitCode> code =
        session.team ? RunInTeam(*command, session, run, processes) : run();
    if (!code.ok() && !session.Speaks()) {  // the leader says it
      session.team->Send(0, GivingUp(*session.team, code.error()));
      throw CLI::RuntimeError(kBadInput);
    }
    if (!code.ok()) {
      const Error said{code.error().kind, WithFlags(code.error().message, *command)};
      throw CLI::RuntimeError(ReportError(said, ProgramOf(*command)));
    }
    if (*code != kDone) throw CLI::RuntimeError(*code);
  });
}

void Complain(std::string_view line) { TheLiveLine().WriteBeside(Escaped(line) + "\n"); }

ExitCode ReportError(const Error& error, std::string_view program) {
  Complain(fmt::format("{}: {}", program, error.message));
  switch (error.kind) {
    case ErrorKind::kInvalidInput:
    case ErrorKind::kIo:
      return kBadInput;
    case ErrorKind::kMismatch:
      return kAnswerIsNo;
    case ErrorKind::kInterrupted:
      return kStoppedEarly;
    case ErrorKind::kInternal:
      break;
  }
  return kInternalError;
}

std::string WithFlags(const std::string& message, const CLI::App& command) {
  static constexpr std::string_view kOption = "the option ";
  const auto in_name = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  std::string said;
  std::size_t from = 0;
  for (std::size_t at = 0; (at = message.find(kOption, from)) != std::string::npos;) {
    const std::size_t begin = at + kOption.size();
    std::size_t end = begin;
    while (end < message.size() && in_name(message[end])) ++end;
    std::string flag = "--" + message.substr(begin, end - begin);
    std::ranges::replace(flag, '_', '-');
    const bool known = command.get_option_no_throw(flag) != nullptr;
    said += message.substr(from, at - from) + (known ? flag : message.substr(at, end - at));
    from = end;
  }
  return said + message.substr(from);
}

std::string GivenOrInRun(const std::string& given, const std::string& run, const char* name) {
  return given.empty() ? (std::filesystem::path(run) / name).string() : given;
}

bool ColoursStdout() {
  const char* const no_colour = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

Status Print(const std::string& text) {
  TheLiveLine().End();
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return IoError(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
  return Ok();
}

Status PrintJson(const nlohmann::ordered_json& document) {
  return Print(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace lucid::app
