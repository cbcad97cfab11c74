#include "audit/randomness.h"

#include <gtest/gtest.h>

#include <cmath>

#include "random/stream.h"

namespace lucid {
namespace {

constexpr double kLevel = 1e-6;  // of a false alarm in each test below

std::vector<std::int32_t> In(std::int64_t units, const auto& coin) {
  std::vector<std::int32_t> in;
  for (std::int32_t u = 0; u < units; ++u) {
    if (coin(u)) in.push_back(u);
  }
  return in;
}

TEST(CoinTest, FairCoinsPassAndSharedOnesDoNot) {
  Stream stream(5, "coins");
  CoinTest fair(300, 0.1), rare(300, 0.1), by_unit(300, 0.1), by_step(300, 0.1), pairs(300, 0.1);
  std::vector<bool> of_unit;
  for (int u = 0; u < 300; ++u) of_unit.push_back(stream.Uniform() < 0.1);
  for (int step = 0; step < 200; ++step) {
    fair.Add(In(300, [&](int) { return stream.Uniform() < 0.1; }));
    rare.Add(In(300, [&](int) { return stream.Uniform() < 0.08; }));
    by_unit.Add(In(300, [&](int u) { return of_unit[static_cast<std::size_t>(u)]; }));
    const bool all = stream.Uniform() < 0.1;
    by_step.Add(In(300, [&](int) { return all; }));
    bool first = false;  // of a pair: the next one does what it did
    pairs.Add(In(300, [&](int u) {
      if (u % 2 == 0) first = stream.Uniform() < 0.1;
      return first;
    }));
  }
  EXPECT_TRUE(fair.Judge(kLevel).holds) << fair.Judge(kLevel).worst;
  EXPECT_FALSE(by_unit.Judge(kLevel).holds);
  EXPECT_FALSE(by_step.Judge(kLevel).holds);
  EXPECT_FALSE(pairs.Judge(kLevel).holds);
  // A tenth less of everything is too little to be seen in so few tosses of one unit or step.
  EXPECT_EQ(rare.Judge(kLevel).tests, fair.Judge(kLevel).tests);
}

TEST(NoiseTest, GaussianNoisePassesAndLessOrSharedNoiseDoesNot) {
  Stream stream(6, "noise");
  const double deviation = 1000;
  const auto step = [&](double factor) {
    std::vector<std::int32_t> noise;
    for (int i = 0; i < 200; ++i) {
      noise.push_back(static_cast<std::int32_t>(std::lround(factor * deviation * stream.Normal())));
    }
    return noise;
  };
  const double s2 = deviation * deviation;
  NoiseTest fair(s2), less(s2), shared(s2), uniform(s2);
  for (int k = 0; k < 100; ++k) {
    const auto noise = step(1);
    fair.Add(noise);
    less.Add(step(0.9));
    shared.Add(noise);
    shared.Add(noise);
    std::vector<std::int32_t> flat;
    for (int i = 0; i < 200; ++i) {
      flat.push_back(static_cast<std::int32_t>(std::sqrt(3.0) * deviation * stream.Uniform(-1, 1)));
    }
    uniform.Add(flat);
  }
  EXPECT_TRUE(fair.Judge(kLevel).holds) << fair.Judge(kLevel).worst;
  EXPECT_FALSE(less.Judge(kLevel).holds);
  EXPECT_FALSE(shared.Judge(kLevel).holds);
  EXPECT_FALSE(uniform.Judge(kLevel).holds) << "of the right variance";
}

}  // namespace
}  // namespace lucid
