#include "native/pace.h"

#include <gtest/gtest.h>

namespace lucid {
namespace {

// A gap that halves every two seconds.
TEST(Pace, ExpectsWhatASteadySearchNeeds) {
  Pace pace;
  EXPECT_FALSE(pace.SecondsLeft(3, 0.64, 0.01));
  for (int halvings = 1; halvings <= 5; ++halvings) {
    const double gap = std::ldexp(0.64, -halvings);
    EXPECT_NEAR(pace.SecondsLeft(3 + 2 * halvings, gap, 0.01).value(), 2 * (6 - halvings), 1e-9);
  }
  EXPECT_EQ(pace.SecondsLeft(15, 0.01, 0.01), 0.0);
}

TEST(Pace, SaysNothingWhereNothingShrinks) {
  Pace pace;
  EXPECT_FALSE(pace.SecondsLeft(0, 0.5, 0.01));
  EXPECT_FALSE(pace.SecondsLeft(9, 0.5, 0.01));
  EXPECT_FALSE(pace.SecondsLeft(9, 0.6, 0.01));
  EXPECT_FALSE(pace.SecondsLeft(9, 0.4, 0));
  EXPECT_TRUE(pace.SecondsLeft(9, 0.4, 0.01));
}

}  // namespace
}  // namespace lucid
