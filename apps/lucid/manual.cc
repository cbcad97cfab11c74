#include "manual.h"

#include <fmt/format.h>

#include <vector>

#include "lucid/base/version.h"

namespace lucid::app {
namespace {

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

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string OptionsOf(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    text += fmt::format(".TP\n.B {}\n{}\n",
                        Roff(option->get_name(false, true) + (type.empty() ? "" : " " + type)),
                        Roff(option->get_description()));
  }
  return text + fmt::format(".PP\n.nf\n{}\n.fi\n", Roff(app.get_footer()));
}

// A part for every command that does something itself.
std::string CommandsBelow(const CLI::App& app, const std::string& path) {
  std::string text;
  for (const CLI::App* command : CommandsOf(app)) {
    const std::string name = path + " " + command->get_name();
    text += CommandsOf(*command).empty()
                ? fmt::format(".SS {}\n{}.\n{}", Roff(name), Roff(command->get_description()),
                              OptionsOf(*command))
                : CommandsBelow(*command, name);
  }
  return text;
}

// "certificate --run DIR": what the command line cannot do without.
std::string RequiredBy(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_required()) continue;
    text += option->get_positional() ? option->get_name(true)
                                     : option->get_name() + " " + option->get_type_name();
    text += " ";
  }
  return text;
}

}  // namespace

std::string ManualOf(const CLI::App& root) {
  const std::string& name = root.get_name();
  const bool commands = !CommandsOf(root).empty();
  return fmt::format(
             ".TH {0} 1 \"\" \"{0} {1}\" \"User Commands\"\n.SH NAME\n{0} \\- {2}\n"
             ".SH SYNOPSIS\n.B {0}\n{3}[OPTIONS]\n",
             name, Version(), Roff(root.get_description()),
             commands ? "COMMAND " : Roff(RequiredBy(root))) +
         (commands ? ".SH COMMANDS\n" + CommandsBelow(root, name)
                   : ".SH OPTIONS\n" + OptionsOf(root)) +
         ".SH EXIT STATUS\n"
         "0 done; 1 the answer is no (a check failed, a bound was not met); 2 bad usage or bad "
         "input; 3 stopped early with a valid result that could be tighter; 4 internal error.\n";
}

}  // namespace lucid::app
