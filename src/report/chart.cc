#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/markup.h"

namespace lucid {
namespace {

double Scaled(Scale scale, double value) {
  if (scale == Scale::kSquareRoot) return std::sqrt(std::max(value, 0.0));
  return scale == Scale::kLogarithmic ? std::log10(value) : value;
}

// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

void LinearTicks(Axis& axis, int count) {
  const double step = RoundStep((axis.high - axis.low) / count);
  axis.low = std::floor(axis.low / step + 1e-9) * step;
  axis.high = std::ceil(axis.high / step - 1e-9) * step;
  const auto steps = static_cast<int>(std::lround((axis.high - axis.low) / step));
  for (int k = 0; k <= steps; ++k) {
    // Not 0.30000000000000004: what is meant is a multiple of the step.
    const double value = std::round(axis.low / step + k) * step;
    axis.ticks.push_back({value, ShortNumber(value)});
  }
  // Steps so small that few digits do not show them: 99.74, 99.745, 99.75.
  const auto same = [](const Tick& a, const Tick& b) { return a.text == b.text; };
  if (std::ranges::adjacent_find(axis.ticks, same) == axis.ticks.end()) return;
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 12);
  for (Tick& tick : axis.ticks) tick.text = fmt::format("{:.{}f}", tick.value, decimals);
}

// Numbers crowd towards the upper end of a square-root scale, so each tick is at least twice the
// one before.
void SquareRootTicks(Axis& axis) {
  axis.low = 0;
  axis.ticks.push_back({0, "0"});
  for (double value = RoundStep(axis.high / 50); value < axis.high; value = RoundStep(2 * value)) {
    axis.ticks.push_back({value, ShortNumber(value)});
  }
}

void LogarithmicTicks(Axis& axis) {
  const int first = static_cast<int>(std::floor(std::log10(axis.low) + 1e-9));
  const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(axis.high) - 1e-9)));
  axis.low = std::pow(10, first);
  axis.high = std::pow(10, last);
  const int step = (last - first + 5) / 6;
  for (int k = first; k <= last; k += step) {
    axis.ticks.push_back({std::pow(10, k), ShortNumber(std::pow(10, k))});
  }
}

}  // namespace

double Axis::Share(double value) const {
  const double from = Scaled(scale, low), to = Scaled(scale, high);
  if (scale == Scale::kLogarithmic && value <= 0) return 0;
  return std::clamp((Scaled(scale, value) - from) / (to - from), 0.0, 1.0);
}

Axis AxisAround(std::string label, std::span<const double> values, Scale scale, int count) {
  Axis axis;
  axis.label = std::move(label);
  axis.scale = scale;
  bool any = false;
  for (const double value : values) {
    if (scale == Scale::kLogarithmic && value <= 0) continue;
    axis.low = any ? std::min(axis.low, value) : value;
    axis.high = any ? std::max(axis.high, value) : value;
    any = true;
  }
  if (scale == Scale::kLogarithmic) {
    if (!any) axis.low = axis.high = 1;
    LogarithmicTicks(axis);
    return axis;
  }
  if (scale == Scale::kSquareRoot) {
    axis.high = axis.high > 0 ? axis.high : 1;
    SquareRootTicks(axis);
    return axis;
  }
  if (axis.high <= axis.low) {
    const double around = axis.low == 0 ? 1 : std::abs(axis.low) / 10;
    axis.low -= around;
    axis.high += around;
  }
  LinearTicks(axis, count);
  return axis;
}

std::string ShortNumber(double value) {
  if (std::abs(value) >= 1000 && std::abs(value) < 1e6) return Grouped(std::llround(value));
  return fmt::format("{:.4g}", value == 0 ? 0 : value);
}

Chart::Chart(std::string_view title, double width, double height, Axis x, Axis y)
    : title_(title),
      width_(width),
      height_(height),
      left_(y.ticks.empty() ? 16 : 62),
      right_(width - 16),
      top_(14),
      bottom_(height - 50),
      x_(std::move(x)),
      y_(std::move(y)) {}

void Chart::Line(std::string_view style, std::span<const ChartPoint> points) {
  std::string path;
  for (const ChartPoint& p : points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', X(p.x), Y(p.y));
  }
  marks_ += fmt::format("<path class=\"line {}\" d=\"{}\"/>\n", style, path);
}

void Chart::Steps(std::string_view style, std::span<const ChartPoint> points) {
  std::string path;
  for (const ChartPoint& p : points) {
    if (path.empty()) {
      path = fmt::format("M{:.1f} {:.1f}", X(p.x), Y(p.y));
    } else {
      path += fmt::format("H{:.1f}V{:.1f}", X(p.x), Y(p.y));
    }
  }
  marks_ += fmt::format("<path class=\"line {}\" d=\"{}\"/>\n", style, path);
}

void Chart::Dot(std::string_view style, const ChartPoint& at, std::string_view hint) {
  marks_ += fmt::format(
      "<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}</title></circle>\n",
      style, X(at.x), Y(at.y), EscapedMarkup(hint));
}

void Chart::Horizontal(std::string_view style, double y) {
  marks_ += fmt::format("<path class=\"line {}\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", style, left_,
                        Y(y), right_);
}

void Chart::Text(std::string_view style, double x, double y, std::string_view anchor,
                 std::string_view text) {
  marks_ +=
      fmt::format("<text class=\"{}\" text-anchor=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                  style, anchor, x, y, EscapedMarkup(text));
}

std::string Chart::Frame() const {
  std::string out;
  const auto text = [&](double x, double y, std::string_view anchor, std::string_view what) {
    out +=
        fmt::format("<text class=\"tick\" text-anchor=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                    anchor, x, y, EscapedMarkup(what));
  };
  for (const Tick& tick : y_.ticks) {
    out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", left_, Y(tick.value),
                       right_);
    text(left_ - 8, Y(tick.value) + 4, "end", tick.text);
  }
  for (const Tick& tick : x_.ticks) {
    out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v5\"/>\n", X(tick.value), bottom_);
    text(X(tick.value), bottom_ + 19, "middle", tick.text);
  }
  out +=
      fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", left_, bottom_, right_);
  text((left_ + right_) / 2, bottom_ + 41, "middle", x_.label);
  if (!y_.label.empty()) {
    out += fmt::format(
        "<text class=\"tick\" text-anchor=\"middle\" transform=\"translate(14 {:.1f}) "
        "rotate(-90)\">{}</text>\n",
        (top_ + bottom_) / 2, EscapedMarkup(y_.label));
  }
  return out;
}

std::string Chart::Element() const {
  return fmt::format(
      "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
      "role=\"img\" aria-label=\"{}\">\n{}{}</svg>\n",
      width_, height_, EscapedMarkup(title_), Frame(), marks_);
}

}  // namespace lucid
