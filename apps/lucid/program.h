// What every program does around its commands: signals, the command line's errors, the last resort.
#pragma once

#include <functional>
#include <string>

#include "command.h"

namespace lucid::app {

// Runs the program and returns its exit code. `add` adds commands (or makes the root one); its
// error ends the program. Ctrl-C and SIGTERM ask session.stop for a stop; a second one ends the
// process at once.
int RunProgram(int argc, char** argv, const std::string& name, const std::string& description,
               const std::function<Status(CLI::App& root, Session& session)>& add);

}  // namespace lucid::app
