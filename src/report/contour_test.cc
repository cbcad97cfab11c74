#include "report/contour.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "report/markup.h"

namespace lucid {
namespace {

std::vector<double> Sample(std::int64_t grid, const std::function<double(double, double)>& f) {
  std::vector<double> values;
  for (std::int64_t j = 0; j < grid; ++j) {
    for (std::int64_t i = 0; i < grid; ++i) {
      values.push_back(f(static_cast<double>(i), static_cast<double>(j)));
    }
  }
  return values;
}

// Positive for a ring that goes counter-clockwise: positive values lie on its left, inside.
double Area(const std::vector<Contour>& rings) {
  double twice = 0;
  for (const Contour& ring : rings) {
    for (std::size_t k = 0; k < ring.points.size(); ++k) {
      const ContourPoint& a = ring.points[k];
      const ContourPoint& b = ring.points[(k + 1) % ring.points.size()];
      twice += a.x * b.y - b.x * a.y;
    }
  }
  return twice / 2;
}

TEST(Contour, CircleIsOneRingOnTheCircle) {
  const auto values =
      Sample(41, [](double x, double y) { return 15 - std::hypot(x - 20, y - 20); });
  for (const ContourEnds ends : {ContourEnds::kOpen, ContourEnds::kClosed}) {
    const auto contours = ZeroContours(values, 41, ends);
    ASSERT_EQ(contours.size(), 1u);
    EXPECT_TRUE(contours[0].closed);
    for (const ContourPoint& p : contours[0].points) {
      EXPECT_NEAR(std::hypot(p.x - 20, p.y - 20), 15, 0.02);
    }
    EXPECT_NEAR(Area(contours), M_PI * 15 * 15, 2);
  }
}

TEST(Contour, LineThroughTheGridHasEndsUnlessClosedAroundThePositiveSide) {
  const auto values = Sample(11, [](double x, double) { return x - 2.5; });
  const auto open = ZeroContours(values, 11, ContourEnds::kOpen);
  ASSERT_EQ(open.size(), 1u);
  EXPECT_FALSE(open[0].closed);
  EXPECT_EQ(open[0].points.size(), 11u);
  EXPECT_DOUBLE_EQ(open[0].points.front().x, 2.5);
  EXPECT_DOUBLE_EQ(open[0].points.front().y, 10) << "the positive side is on the left of the way";
  const auto closed = ZeroContours(values, 11, ContourEnds::kClosed);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_TRUE(closed[0].closed);
  EXPECT_NEAR(Area(closed), 7.5 * 10, 1e-9);
}

TEST(Contour, AHoleIsASecondRingTheOtherWayRound) {
  const auto values = Sample(61, [](double x, double y) {
    const double r = std::hypot(x - 30, y - 30);
    return (r - 10) * (25 - r);
  });
  const auto rings = ZeroContours(values, 61, ContourEnds::kClosed);
  EXPECT_EQ(rings.size(), 2u);
  EXPECT_NEAR(Area(rings), M_PI * (25 * 25 - 10 * 10), 8);
}

// Even-odd: how often a ray to the right crosses the rings.
bool Inside(const std::vector<Contour>& rings, double x, double y) {
  bool inside = false;
  for (const Contour& ring : rings) {
    for (std::size_t k = 0; k < ring.points.size(); ++k) {
      const ContourPoint& a = ring.points[k];
      const ContourPoint& b = ring.points[(k + 1) % ring.points.size()];
      if ((a.y > y) == (b.y > y)) continue;
      inside ^= a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x) > x;
    }
  }
  return inside;
}

TEST(Contour, EverySignPatternOfThreeByThreeIsFilledWhereItIsPositive) {
  for (int pattern = 0; pattern < 512; ++pattern) {
    std::vector<double> values(9);
    for (int k = 0; k < 9; ++k) values[k] = (pattern >> k & 1) != 0 ? 1 + 0.1 * k : -1;
    const auto rings = ZeroContours(values, 3, ContourEnds::kClosed);
    for (const Contour& ring : rings) EXPECT_TRUE(ring.closed) << pattern;
    for (int k = 0; k < 9; ++k) {
      // A little inside the edge of the grid, on which rings run.
      const int column = k % 3 - 1, row = k / 3 - 1;
      const double x = 1 + 0.99 * column, y = 1 + 0.99 * row;
      EXPECT_EQ(Inside(rings, x, y), values[static_cast<std::size_t>(k)] > 0)
          << pattern << " " << k;
    }
    EXPECT_GE(Area(rings), -1e-12) << pattern;
  }
  EXPECT_NEAR(Area(ZeroContours(std::vector<double>(9, 1.0), 3, ContourEnds::kClosed)), 4, 1e-12);
}

TEST(Contour, ZeroIsNotPositive) {
  EXPECT_TRUE(ZeroContours(std::vector<double>(16, 0.0), 4, ContourEnds::kClosed).empty());
}

TEST(Contour, SimplifiedLeavesOutOnlyWhatIsOnTheLine) {
  const Contour bent{{{0, 0}, {1, 0}, {2, 0.001}, {3, 0}, {3, 5}}, false};
  const Contour simple = Simplified(bent, 0.01);
  ASSERT_EQ(simple.points.size(), 3u);
  EXPECT_EQ(simple.points[1].x, 3);
  EXPECT_EQ(Simplified(bent, 1e-6).points.size(), 5u);
}

TEST(Markup, EscapesWhatIsSpecialAndReplacesWhatXmlForbids) {
  EXPECT_EQ(EscapedMarkup("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(EscapedMarkup(std::string_view("\0\x1b", 2)), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(EscapedMarkup("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(EscapedMarkup("\xC0\xBC"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "an overlong '<'";
  EXPECT_EQ(EscapedMarkup("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "cut off";
  EXPECT_EQ(EscapedMarkup("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "a surrogate";
}

TEST(Markup, ShortensByCharacters) {
  EXPECT_EQ(Shortened("abc", 3), "abc");
  EXPECT_EQ(Shortened("abcd", 3), "ab\xE2\x80\xA6");
  EXPECT_EQ(Shortened("\xC3\xA9\xC3\xA9\xC3\xA9", 2), "\xC3\xA9\xE2\x80\xA6");
}

TEST(Markup, NumbersForPeople) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(-1234567), "-1,234,567");
  EXPECT_EQ(Percent(1, 8), "12.5 %");
  EXPECT_EQ(Percent(1, 250), "0.40 %");
  EXPECT_EQ(Percent(1, 25600), "0.0039 %");
  EXPECT_EQ(Percent(0, 5), "0.0 %");
  EXPECT_EQ(Percent(0, 0), "-");
}

}  // namespace
}  // namespace lucid
