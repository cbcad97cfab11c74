// lucid completion: what a shell reads to complete words, made from the commands' own options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "command.h"

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

}  // namespace

void AddCompletionCommand(CLI::App& root, Session& session) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = AddCommand(
      root, session, "completion", "Prints what a shell reads to complete words of this program",
      "lucid completion bash", [&root, &session, shell]() -> Result<ExitCode> {
        const std::string text = Bash(root);
        LUCID_TRY(session.json ? PrintJson({{"shell", *shell}, {"text", text}}) : Print(text));
        return kDone;
      });
  command->add_option("SHELL", *shell, "bash")->required()->check(CLI::IsMember({"bash"}));
}

}  // namespace lucid::app
