#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "command.h"

namespace lucid::app {

Result<double> ParseDuration(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const double scale = unit.empty() || unit == "s" ? 1
                       : unit == "ms"              ? 1e-3
                       : unit == "m"               ? 60
                       : unit == "h"               ? 3600
                       : unit == "d"               ? 86400
                                                   : 0;
  const double seconds = value * scale;
  if (error != std::errc() || !(seconds > 0) || !std::isfinite(seconds)) {
    return InvalidInput(
        fmt::format("'{}' is not a duration: use a number above 0 with ms, s, m, h or d", text));
  }
  return seconds;
}

CLI::Option* AddDuration(CLI::App& command, const std::string& name, double& seconds,
                         const std::string& description) {
  const auto check = [](const std::string& text) {
    const Result<double> parsed = ParseDuration(text);
    return parsed.ok() ? std::string() : parsed.error().message;
  };
  return command
      .add_option_function<std::string>(
          name, [&seconds](const std::string& text) { seconds = ParseDuration(text).value(); },
          description)
      ->check(CLI::Validator(check, "DURATION"))
      ->type_name("");
}

}  // namespace lucid::app
