#include "command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

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
    if (terminal_ && shown_) std::fputs("\n", stderr);
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
    line += rate >= 10 ? fmt::format(", {}/s", Count(rate)) : fmt::format(", {:.2f}/s", rate);
    if (finished) {
      line += fmt::format(", {}", Duration(elapsed));
    } else if (p.total > 0 && rate > 0) {
      line += fmt::format(", ETA {}", Duration(static_cast<double>(p.total - p.done) / rate));
    }
    if (terminal_) {
      fmt::print(stderr, "\r{}\x1b[K", line);
    } else {
      fmt::print(stderr, "{}\n", line);
    }
    std::fflush(stderr);
  }

  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  std::string what_;
  Clock::time_point start_, last_;
  bool shown_ = false;
};

}  // namespace

ProgressCallback Session::Progress() const {
  if (quiet || !LogsAtLeast("info")) return {};
  return [renderer = std::make_shared<ProgressRenderer>()](const lucid::Progress& p) {
    (*renderer)(p);
  };
}

void Session::Say(const std::string& line) const {
  if (!quiet && LogsAtLeast("info")) fmt::print(stderr, "{}\n", line);
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
                     const std::string& description, const std::string& example, Run run) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->footer("Example:\n  " + example);
  command->add_option("--threads", session.threads, "Threads to use (0: all cores)")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_option("--seed", session.seed, "Seed of everything random that is not privacy noise")
      ->capture_default_str();
  command->add_flag("--quiet,-q", session.quiet, "No progress, no remarks");
  command->add_flag("--json", session.json, "Print one JSON document on stdout");
  command->add_option("--log-level", session.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  command->set_config("--config", "", "Read options from a TOML file");
  command->allow_config_extras(CLI::config_extras_mode::error);
  command->final_callback([run = std::move(run)] {
    const Result<ExitCode> code = run();
    if (!code.ok()) throw CLI::RuntimeError(ReportError(code.error()));
    if (*code != kDone) throw CLI::RuntimeError(*code);
  });
  return command;
}

ExitCode ReportError(const Error& error) {
  fmt::print(stderr, "lucid: {}\n", error.message);
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

Status Print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return IoError(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
  return Ok();
}

Status PrintJson(const nlohmann::ordered_json& document) {
  return Print(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace lucid::app
