// The manual page of a program, made from its own commands and options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lucid::app {

// In roff, as `man` reads it.
std::string ManualOf(const CLI::App& root);

}  // namespace lucid::app
