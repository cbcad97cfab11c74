#include "audit/recertified.h"

#include <gtest/gtest.h>

#include "guard/test_support.h"

namespace lucid {
namespace {

// Class 1 where x_0 > boundary.
Network Threshold(double boundary) {
  return {Architecture::FromCanonical("2 > 2").value(),
          {0, 0, 1, 0, 0, static_cast<float>(-boundary)}};
}

class Recertified : public testing::Test {
 protected:
  // For linear networks the estimate is the truth: leaving out i and j moves the boundary by what
  // each of them moves it. From 0.5, they move by +0.1, +0.03 and -0.02.
  Recertified()
      : ensemble_(MakeRun(folder_, "run", Threshold(0.5),
                          {Threshold(0.6), Threshold(0.53), Threshold(0.48)})) {}

  bool Noised(std::int64_t member, float x0) const {
    const float x[] = {x0, 0.5f};
    const PointWithout points[] = {{member, x}};
    return NoisedWithoutRow(ensemble_, points).value()[0];
  }

  TemporaryFolder folder_;
  Ensemble ensemble_;
};

TEST_F(Recertified, TheRegionIsAroundTheOtherNetwork) {
  // Without row 0 the boundary is 0.6, and without another one it is 0.63 or 0.58.
  EXPECT_FALSE(Noised(0, 0.57f));
  EXPECT_TRUE(Noised(0, 0.59f));
  EXPECT_TRUE(Noised(0, 0.62f));
  EXPECT_FALSE(Noised(0, 0.64f));
  // Without row 1: 0.53; then 0.63 or 0.51. Row 0 does count here.
  EXPECT_FALSE(Noised(1, 0.50f));
  EXPECT_TRUE(Noised(1, 0.52f));
  EXPECT_TRUE(Noised(1, 0.62f));
  EXPECT_FALSE(Noised(1, 0.64f));
}

TEST_F(Recertified, PointsDoNotBearOnEachOther) {
  std::vector<std::vector<float>> inputs;
  for (int i = 0; i <= 100; ++i) inputs.push_back({static_cast<float>(i) / 100, 0.5f});
  std::vector<PointWithout> points;
  for (std::int64_t member = 0; member < 3; ++member) {
    for (const auto& x : inputs) points.push_back({member, x});
  }
  const std::vector<bool> all = NoisedWithoutRow(ensemble_, points).value();
  ASSERT_EQ(all.size(), points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(all[i], Noised(points[i].member, points[i].x[0])) << i;
  }
}

TEST_F(Recertified, StopsOnRequest) {
  std::stop_source stop;
  stop.request_stop();
  const float x[] = {0.5f, 0.5f};
  const PointWithout points[] = {{0, x}};
  const auto stopped = NoisedWithoutRow(ensemble_, points, nullptr, 1, {}, stop.get_token());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace lucid
