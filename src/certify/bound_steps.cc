#include "lucid/certify/bound_steps.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace lucid {
namespace {

constexpr std::string_view kHeading = "class,seconds,lower,upper";

template <typename T>
bool Read(std::string_view text, T& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

// The next of `text` up to `separator`, which is taken away with it.
std::string_view Take(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

bool ReadStep(std::string_view line, BoundStep& step) {
  std::array<std::string_view, 4> cells;
  for (std::string_view& cell : cells) cell = Take(line, ',');
  return line.empty() && Read(cells[0], step.label) && Read(cells[1], step.seconds) &&
         Read(cells[2], step.lower) && Read(cells[3], step.upper) && step.label >= 0 &&
         std::isfinite(step.seconds) && step.seconds >= 0 && std::isfinite(step.lower) &&
         step.lower <= step.upper;
}

}  // namespace

std::string EncodeBoundSteps(std::span<const BoundStep> steps) {
  std::string csv = fmt::format("{}\n", kHeading);
  for (const BoundStep& step : steps) {
    csv += fmt::format("{},{},{},{}\n", step.label, step.seconds, step.lower, step.upper);
  }
  return csv;
}

Result<std::vector<BoundStep>> ParseBoundSteps(std::string_view text, const std::string& source) {
  std::vector<BoundStep> steps;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::string_view content = Take(text, '\n');
    if (line == 1 && content == kHeading) continue;
    BoundStep step;
    if (line == 1 || !ReadStep(content, step)) {
      return InvalidInput(fmt::format("{}:{}: must be '{}'{}", source, line, kHeading,
                                      line == 1 ? "" : " with lower <= upper"));
    }
    steps.push_back(step);
  }
  return steps;
}

}  // namespace lucid
