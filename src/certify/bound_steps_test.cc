#include "lucid/certify/bound_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lucid {
namespace {

TEST(BoundSteps, AreReadBackAsTheyWere) {
  const std::vector<BoundStep> steps = {
      {0, 0, 0, std::numeric_limits<double>::infinity()}, {0, 0.1, 1.0 / 3, 2e30}, {7, 1e-9, 0, 0}};
  EXPECT_EQ(ParseBoundSteps(EncodeBoundSteps(steps), "f").value(), steps);
  EXPECT_EQ(ParseBoundSteps(EncodeBoundSteps({}), "f").value(), std::vector<BoundStep>{});
}

TEST(BoundSteps, WhatIsWrongIsNamed) {
  const std::string heading = "class,seconds,lower,upper\n";
  EXPECT_TRUE(ParseBoundSteps(heading + "0,1,2,2\n", "f").ok());
  for (const char* line : {"0,1,3,2", "-1,1,2,3", "0,-1,2,3", "0,nan,2,3", "0,1,nan,3", "0,1,2,nan",
                           "0,1,2", "0,1,2,3,4", "0,1,2,3x", "", "a,1,2,3", "0,1,inf,inf"}) {
    const auto steps = ParseBoundSteps(heading + "0,1,2,2\n" + line + "\n", "f");
    ASSERT_FALSE(steps.ok()) << line;
    EXPECT_THAT(steps.error().message, testing::HasSubstr("f:3: ")) << line;
  }
  EXPECT_THAT(ParseBoundSteps("0,1,2,2\n", "f").error().message, testing::HasSubstr("f:1: "));
}

}  // namespace
}  // namespace lucid
