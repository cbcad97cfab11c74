#include "report/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>

#include "report/markup_check.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> Texts(const Axis& axis) {
  std::vector<std::string> texts;
  for (const Tick& tick : axis.ticks) texts.push_back(tick.text);
  return texts;
}

TEST(Axis, HasRoundTicksAroundTheValues) {
  const double values[] = {0.13, 0.58};
  EXPECT_THAT(Texts(AxisAround("", values)),
              testing::ElementsAre("0.1", "0.2", "0.3", "0.4", "0.5", "0.6"));
  const double times[] = {0, 0.004, 70};
  EXPECT_THAT(Texts(AxisAround("", times, Scale::kLogarithmic)),
              testing::ElementsAre("0.001", "0.01", "0.1", "1", "10", "100"));
  const double confidences[] = {0.2, 24};
  EXPECT_THAT(Texts(AxisAround("", confidences, Scale::kSquareRoot)),
              testing::ElementsAre("0", "0.5", "1", "2", "5", "10", "20"));
}

TEST(Axis, PlacesItsTicksInAscendingOrderFromEndToEnd) {
  const std::vector<std::vector<double>> cases = {
      {}, {0}, {5}, {-3, 4}, {99.97, 99.98}, {1e-12, 1e12}, {0, 0}, {1e-300}};
  for (const auto& values : cases) {
    for (const Scale scale : {Scale::kLinear, Scale::kSquareRoot, Scale::kLogarithmic}) {
      const Axis axis = AxisAround("", values, scale);
      ASSERT_GE(axis.ticks.size(), 2u) << testing::PrintToString(values);
      EXPECT_LE(axis.ticks.size(), 14u) << testing::PrintToString(values);
      double before = -1;
      for (const Tick& tick : axis.ticks) {
        EXPECT_GT(axis.Share(tick.value), before) << testing::PrintToString(values);
        before = axis.Share(tick.value);
      }
      for (const double value : values) {
        EXPECT_TRUE(axis.Share(value) >= 0 && axis.Share(value) <= 1);
      }
    }
  }
}

TEST(Axis, NoTwoTicksReadTheSame) {
  for (const auto& [low, high] : {std::pair(99.7333, 99.75), std::pair(99.97, 99.98),
                                  std::pair(1234.5671, 1234.5679), std::pair(0.12345, 0.123456)}) {
    const double values[] = {low, high};
    const std::vector<std::string> texts = Texts(AxisAround("", values));
    EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size())
        << testing::PrintToString(texts);
  }
}

TEST(Axis, SharesFollowTheScale) {
  const Axis linear{.label = {}, .low = 10, .high = 30, .ticks = {}};
  EXPECT_DOUBLE_EQ(linear.Share(15), 0.25);
  EXPECT_DOUBLE_EQ(linear.Share(1e9), 1);
  const Axis root{.label = {}, .low = 0, .high = 16, .scale = Scale::kSquareRoot, .ticks = {}};
  EXPECT_DOUBLE_EQ(root.Share(4), 0.5);
  const Axis log{.label = {}, .low = 0.01, .high = 100, .scale = Scale::kLogarithmic, .ticks = {}};
  EXPECT_DOUBLE_EQ(log.Share(1), 0.5);
  EXPECT_DOUBLE_EQ(log.Share(0), 0);
}

TEST(Chart, IsWellFormedAndEscapesItsTexts) {
  const double values[] = {0, 1};
  Chart chart("<title>", 400, 300, AxisAround("a & b", values), AxisAround("<y>", values));
  const ChartPoint points[] = {{0, 0}, {0.5, 1}, {1, 0.25}};
  chart.Line("l", points);
  chart.Steps("s", points);
  chart.Dot("d", points[1], "\"hint\" <b>");
  chart.Text("t", 1, 2, "end", "</text>");
  const std::string svg = chart.Element();
  EXPECT_EQ(Problem(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, HasSubstr("a &amp; b"));
  // Steps are level first, then upright.
  EXPECT_THAT(svg, HasSubstr(fmt::format("H{:.1f}V{:.1f}", chart.X(0.5), chart.Y(1))));
  EXPECT_LT(chart.Y(1), chart.Y(0)) << "larger values stand higher";
}

}  // namespace
}  // namespace lucid
