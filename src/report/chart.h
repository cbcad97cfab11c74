// A chart as an <svg> element: a frame with two axes, and marks in it. Colours come from the style
// sheet of the page: marks name a class.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lucid {

enum class Scale { kLinear, kSquareRoot, kLogarithmic };

struct Tick {
  double value = 0;
  std::string text;
};

struct Axis {
  std::string label;  // with its unit; escaped when it is drawn
  double low = 0, high = 1;
  Scale scale = Scale::kLinear;
  std::vector<Tick> ticks;

  // Where `value` lies between low (0) and high (1); what is outside is moved to the nearer end.
  double Share(double value) const;
};

// Around every value: round ends, ticks at 1, 2 or 5 times a power of ten, about `count` of them.
// One value or none gets a span around it. On a square-root scale from 0; on a logarithmic one at
// powers of ten, values <= 0 left out. Requires: finite values.
Axis AxisAround(std::string label, std::span<const double> values, Scale scale = Scale::kLinear,
                int count = 5);

// Few significant digits, no trailing zeros: "0.25", "1,500", "2e-05".
std::string ShortNumber(double value);

struct ChartPoint {
  double x = 0, y = 0;
};

class Chart {
 public:
  // `title`: for people who do not see the picture. Sizes in pixels of the page at full width.
  Chart(std::string_view title, double width, double height, Axis x, Axis y);

  double X(double value) const { return left_ + (right_ - left_) * x_.Share(value); }
  double Y(double value) const { return bottom_ - (bottom_ - top_) * y_.Share(value); }
  double left() const { return left_; }
  double right() const { return right_; }
  double top() const { return top_; }
  double bottom() const { return bottom_; }

  void Line(std::string_view style, std::span<const ChartPoint> points);
  // Level from each point to the x of the next one.
  void Steps(std::string_view style, std::span<const ChartPoint> points);
  // A dot with a text that shows under the pointer.
  void Dot(std::string_view style, const ChartPoint& at, std::string_view hint);
  void Horizontal(std::string_view style, double y);
  // At a place of the page, not of the axes.
  void Text(std::string_view style, double x, double y, std::string_view anchor,
            std::string_view text);
  void Raw(std::string_view markup) { marks_ += markup; }

  std::string Element() const;

 private:
  std::string Frame() const;

  std::string title_;
  double width_, height_, left_, right_, top_, bottom_;
  Axis x_, y_;
  std::string marks_;
};

}  // namespace lucid
