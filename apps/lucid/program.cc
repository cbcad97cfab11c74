#include "program.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>
#include <thread>
#include <vector>

#include "lucid/base/version.h"
#include "manual.h"
#include "numeric/floating_point.h"

namespace lucid::app {
namespace {

// Ctrl-C and SIGTERM ask for a stop; a thread waits for them, so no work happens in a handler. A
// second one ends the process at once (what is on disk is resumable at any moment).
class SignalWatcher {
 public:
  SignalWatcher() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);  // inherited by every later thread
    thread_ = std::jthread([this](const std::stop_token& done) { Watch(done); });
  }
  ~SignalWatcher() {
    thread_.request_stop();
    // Blocked everywhere: it wakes the thread, which sees that the work is done.
    // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
    pthread_kill(thread_.native_handle(), SIGTERM);
  }
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  std::stop_token token() const { return stop_.get_token(); }

 private:
  void Watch(const std::stop_token& done) {
    int signal = 0;
    while (sigwait(&signals_, &signal) == 0 && !done.stop_requested()) {
      if (stop_.stop_requested()) std::_Exit(128 + signal);
      Complain("stopping (once more to stop at once)");
      stop_.request_stop();
    }
  }

  sigset_t signals_{};
  std::stop_source stop_;
  std::jthread thread_;
};

// How many letters have to be changed, added, left out or swapped with the next one.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

// ", did you mean '--label'?" of what the command knows, if something is close enough.
std::string Suggestion(const CLI::App& command, std::string_view unknown) {
  const std::string_view word = unknown.substr(0, unknown.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const CLI::App* other : command.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(other->get_name());
  }
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& name : known) {
    const std::size_t distance = Distance(word, name);
    if (distance < least) least = distance, best = name;
  }
  return best.empty() ? "" : fmt::format(", did you mean '{}'?", best);
}

// What is wrong with the command line. An unknown word is named before what is missing: it may be
// why.
std::string UsageError(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App* command = &root;
  std::string path = root.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  std::string problem = error.what();
  if (const std::vector<std::string> unknown = root.remaining(/*recurse=*/true); !unknown.empty()) {
    const bool option = unknown.front().starts_with('-');
    const bool group = command->get_require_subcommand_min() > 0;
    problem = fmt::format("unknown {} '{}'{}",
                          option  ? "option"
                          : group ? "command"
                                  : "argument",
                          unknown.front(), Suggestion(*command, unknown.front()));
  }
  return fmt::format("{}: {} (see '{} --help')", root.get_name(), problem, path);
}

int Parse(CLI::App& root, const Session& session, int argc, char** argv) {
  try {
    root.parse(argc, argv);
  } catch (const CLI::RuntimeError& e) {
    return e.get_exit_code();
  } catch (const CLI::Success& e) {
    const int code = root.exit(e);  // --help, --version, --man
    return std::cout.flush()
               ? code
               : ReportError(IoError("cannot write to standard output"), root.get_name());
  } catch (const CLI::ParseError& e) {
    // Every process of a team has the same command line: one of them says what is wrong with it.
    if (session.Speaks()) Complain(UsageError(root, e));
    return kBadInput;
  }
  return kDone;
}

}  // namespace

int RunProgram(int argc, char** argv, const std::string& name, const std::string& description,
               const std::function<Status(CLI::App& root, Session& session)>& add) {
  try {
    if (const Status mode = CheckFloatingPoint(); !mode.ok()) {
      Complain(name + ": " + mode.error().message);
      return 2;
    }
    const SignalWatcher watcher;
    std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error with a message
    std::signal(SIGXFSZ, SIG_IGN);  // so is a file size limit
    Session session;
    session.stop = watcher.token();
    session.arguments.assign(argv, argv + argc);
    CLI::App root(description, name);
    root.set_version_flag("--version", Version());
    root.add_flag_callback(
        "--man", [&root] { throw CLI::CallForVersion(ManualOf(root), kDone); },
        "Print the manual page, for `man -l`, and exit");
    if (const Status added = add(root, session); !added.ok()) {
      return ReportError(added.error(), name);
    }
    return Parse(root, session, argc, argv);
  } catch (const std::bad_alloc&) {
    Complain(name + ": out of memory");
  } catch (const std::exception& e) {
    Complain(fmt::format("{}: internal error: {}", name, e.what()));
  }
  return kInternalError;
}

}  // namespace lucid::app
