// lucid completion: what shells and man read, made from the commands' own options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "command.h"
#include "lucid/base/version.h"

namespace lucid::app {
namespace {

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> LongOptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// A case of the shell's function for every command: "lucid data fetch".
std::string BashCases(const CLI::App& app, const std::string& path) {
  std::vector<std::string> words;
  std::string below;
  for (const CLI::App* command : CommandsOf(app)) {
    words.push_back(command->get_name());
    below += BashCases(*command, path + " " + command->get_name());
  }
  for (const std::string& name : LongOptionsOf(app)) words.push_back(name);
  return fmt::format("    '{}') words='{}' ;;\n", path, fmt::join(words, " ")) + below;
}

// Words of the command line that are commands choose the list; files complete beside options.
std::string Bash(const CLI::App& root) {
  return fmt::format(R"(# bash completion of {0}: {0} completion bash > /etc/bash_completion.d/{0}
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} path={0} next words=
  for next in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case " $(_{0}_words "$path") " in *" $next "*) [[ $next == -* ]] || path="$path $next" ;; esac
  done
  words=$(_{0}_words "$path")
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current"; [[ $current == -* ]] || compgen -f -- "$current")
}}
_{0}_words() {{
  local words=
  case $1 in
{1}  esac
  echo "$words"
}}
complete -o filenames -F _{0} {0}
)",
                     root.get_name(), BashCases(root, root.get_name()));
}

// A text as roff shows it: backslashes, and points and quotes at the start of a line, mean nothing.
std::string Roff(const std::string& text) {
  std::string shown = "\\&";
  for (const char c : text) {
    if (c == '\\') {
      shown += "\\e";
    } else if (c == '-') {
      shown += "\\-";
    } else if (c == '\n') {
      shown += "\n\\&";
    } else {
      shown += c;
    }
  }
  return shown;
}

std::string ManOf(const CLI::App& app, const std::string& path) {
  std::string text;
  if (CommandsOf(app).empty()) {
    text += fmt::format(".SS {}\n{}.\n", Roff(path), Roff(app.get_description()));
    for (const CLI::Option* option : app.get_options()) {
      const std::string type = option->get_type_name();
      text += fmt::format(".TP\n.B {}\n{}\n",
                          Roff(option->get_name(false, true) + (type.empty() ? "" : " " + type)),
                          Roff(option->get_description()));
    }
    text += fmt::format(".PP\n.nf\n{}\n.fi\n", Roff(app.get_footer()));
  }
  for (const CLI::App* command : CommandsOf(app)) {
    text += ManOf(*command, path + " " + command->get_name());
  }
  return text;
}

std::string Man(const CLI::App& root) {
  return fmt::format(
             ".TH {} 1 \"\" \"lucid {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n"
             ".B {}\nCOMMAND [OPTIONS]\n.SH COMMANDS\n",
             root.get_name(), Version(), root.get_name(), Roff(root.get_description()),
             root.get_name()) +
         ManOf(root, root.get_name()) +
         ".SH EXIT STATUS\n"
         "0 done; 1 the answer is no (a check failed, a bound was not met); 2 bad usage or bad "
         "input; 3 stopped early with a valid result that could be tighter; 4 internal error.\n";
}

}  // namespace

void AddCompletionCommand(CLI::App& root, Session& session) {
  auto what = std::make_shared<std::string>();
  CLI::App* command = AddCommand(
      root, session, "completion", "Prints the completion for bash, or the manual page",
      "lucid completion man", [&root, &session, what]() -> Result<ExitCode> {
        const std::string text = *what == "bash" ? Bash(root) : Man(root);
        LUCID_TRY(session.json ? PrintJson({{"what", *what}, {"text", text}}) : Print(text));
        return kDone;
      });
  command->add_option("WHAT", *what, "bash or man")
      ->required()
      ->check(CLI::IsMember({"bash", "man"}));
}

}  // namespace lucid::app
