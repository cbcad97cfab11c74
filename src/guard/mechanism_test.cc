#include "lucid/guard/mechanism.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "random/stream.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using enum MechanismKind;
__extension__ using Wide = unsigned __int128;  // ISO C++ has none

constexpr double kEpsilons[] = {0,
                                5e-324,
                                1.5e-323,
                                1e-300,
                                1e-19,
                                1e-10,
                                0.01,
                                0.1,
                                0.2,
                                0.5,
                                1,
                                2,
                                5,
                                10,
                                40,
                                88.72,
                                89,
                                100,
                                710,
                                1e4,
                                1e18,
                                1e300,
                                std::numeric_limits<double>::max()};
constexpr std::int64_t kClasses[] = {2, 3, 4, 5, 7, 10, 100, 1000, 65537, 2147483647};

Mechanism Make(MechanismKind kind, double epsilon, std::int64_t classes) {
  return Mechanism::Create(kind, epsilon, classes).value();
}

Draw RandomDraw(Stream& stream) { return {stream.Next(), stream.Next(), stream.Next()}; }

// T, found from outside: the number of `lie` at which the pick is taken, [0, T).
Wide ThresholdOf(const Mechanism& mechanism) {
  const auto lies = [&](std::uint64_t at) {  // the pick is 0, the label 1
    return mechanism.Answer(1, true, {at, 0, 0}) == 0;
  };
  constexpr std::uint64_t kLast = ~std::uint64_t{0};
  if (lies(kLast)) return static_cast<Wide>(kLast) + 1;
  std::uint64_t low = 0, high = kLast;  // lies(high) is false
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (lies(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

TEST(MechanismTest, TheIntegersLoseAtMostTheClaim) {
  for (const MechanismKind kind : {kPaper, kKrr}) {
    for (const double epsilon : kEpsilons) {
      for (const std::int64_t classes : kClasses) {
        SCOPED_TRACE(testing::Message() << NameOf(kind) << " " << epsilon << " " << classes);
        const Mechanism mechanism = Make(kind, epsilon, classes);
        const double claimed = kind == kPaper ? epsilon / 2 : epsilon;
        EXPECT_LE(mechanism.EffectiveEpsilon(), claimed);
        EXPECT_GE(mechanism.EffectiveEpsilon(), 0);
        // Nothing is given away either: where 64 bits can tell, they do.
        const bool representable = claimed > 1e-9 && claimed < 20;
        if (representable) {
          EXPECT_GT(mechanism.EffectiveEpsilon(), claimed - 1e-7);
        }
      }
    }
  }
}

TEST(MechanismTest, ManyRandomEpsilonsAreWithinTheClaim) {
  Stream stream(1, "epsilons");
  for (int i = 0; i < 3000; ++i) {
    const double epsilon = std::exp(stream.Uniform(-45, 5));
    const auto classes = static_cast<std::int64_t>(2 + stream.Below(50));
    SCOPED_TRACE(testing::Message() << epsilon << " " << classes);
    EXPECT_LE(Make(kKrr, epsilon, classes).EffectiveEpsilon(), epsilon);
    EXPECT_LE(Make(kPaper, epsilon, classes).EffectiveEpsilon(), epsilon / 2);
  }
}

// The exact ratio of every answer's probabilities between two labels, in long double, from the
// threshold that Answer itself shows.
TEST(MechanismTest, NoAnswerTellsTwoLabelsApartBeyondTheClaim) {
  for (const MechanismKind kind : {kPaper, kKrr}) {
    for (const double epsilon : {0.0, 1e-6, 0.1, 1.0, 3.0, 20.0}) {
      for (const std::int64_t classes : {2, 3, 10, 1000}) {
        const Mechanism mechanism = Make(kind, epsilon, classes);
        const auto threshold = static_cast<long double>(ThresholdOf(mechanism));
        const long double lie = threshold / 0x1p64L;
        const long double ratio =
            ((0x1p64L - threshold) / 0x1p64L + lie / static_cast<long double>(classes)) /
            (lie / static_cast<long double>(classes));
        const long double claimed = kind == kPaper ? epsilon / 2 : epsilon;
        EXPECT_LE(std::log(ratio), claimed * (1 + 1e-15L) + 1e-18L) << epsilon << " " << classes;
        EXPECT_NEAR(static_cast<double>(std::log(ratio)), mechanism.EffectiveEpsilon(), 1e-12);
      }
    }
  }
}

TEST(MechanismTest, ThresholdsAreThoseOfTheFormula) {
  // ceil(2^64 K / (e^e' + K - 1)), worked out with 60 digits of Python's decimal.
  EXPECT_EQ(ThresholdOf(Make(kKrr, 1, 2)), 9922187141663961708U);
  EXPECT_EQ(ThresholdOf(Make(kPaper, 2, 2)), 9922187141663961708U);
  EXPECT_EQ(ThresholdOf(Make(kKrr, 0.1, 10)), 18254757117183338179U);
  EXPECT_EQ(ThresholdOf(Make(kKrr, 40, 3)), 236U);
  EXPECT_EQ(ThresholdOf(Make(kKrr, 1e6, 3)), 1U) << "a finite epsilon always lies";
  EXPECT_EQ(ThresholdOf(Make(kKrr, 0, 2)), static_cast<Wide>(1) << 64);
}

TEST(MechanismTest, AtZeroEveryAnswerIsThePick) {
  Stream stream(2, "draws");
  for (const std::int64_t classes : kClasses) {
    const Mechanism mechanism = Make(kPaper, 0, classes);
    EXPECT_EQ(mechanism.EffectiveEpsilon(), 0);
    EXPECT_EQ(mechanism.ProbabilityOfLabel(), mechanism.ProbabilityOfEachOther());
    for (int i = 0; i < 200; ++i) {
      const Draw draw = RandomDraw(stream);
      const auto last = static_cast<std::int32_t>(classes - 1);
      EXPECT_EQ(mechanism.Answer(0, true, draw), mechanism.Answer(last, true, draw));
    }
    EXPECT_EQ(mechanism.Answer(1, true, {~0ULL, 0, 0}), 0);
    EXPECT_EQ(mechanism.Answer(0, true, {~0ULL, ~0ULL, ~0ULL}), classes - 1);
  }
}

TEST(MechanismTest, PicksAreTheWholePartOfTheProduct) {
  // w1 = ceil(j 2^128 / 3): the first one that picks j.
  const Mechanism mechanism = Make(kKrr, 0, 3);
  constexpr std::uint64_t kThird = 0x5555555555555555;
  EXPECT_EQ(mechanism.Answer(2, true, {0, kThird, kThird}), 0);
  EXPECT_EQ(mechanism.Answer(2, true, {0, kThird, kThird + 1}), 1);
  EXPECT_EQ(mechanism.Answer(0, true, {0, 2 * kThird, 2 * kThird}), 1);
  EXPECT_EQ(mechanism.Answer(0, true, {0, 2 * kThird, 2 * kThird + 1}), 2);
}

TEST(MechanismTest, WhatIsNotNoisedIsTheLabel) {
  Stream stream(3, "draws");
  for (const double epsilon : {0.0, 0.5, 50.0}) {
    const Mechanism mechanism = Make(kPaper, epsilon, 7);
    for (int i = 0; i < 1000; ++i) {
      const auto label = static_cast<std::int32_t>(stream.Below(7));
      EXPECT_EQ(mechanism.Answer(label, false, RandomDraw(stream)), label);
    }
    EXPECT_EQ(mechanism.Answer(5, false, {0, 0, 0}), 5);
  }
}

// Frequencies of n answers against probability p. By Hoeffding's inequality a right mechanism is
// further off than sqrt(ln(2 / a) / (2 n)) with a probability of at most a = 1e-12; the 12 + 28
// comparisons here raise a false alarm with one of at most 4e-11. (The draws have a fixed seed, so
// that the test either always passes or never does.)
TEST(MechanismTest, FrequenciesAreThoseStated) {
  constexpr int kCount = 400000;
  const double margin = std::sqrt(std::log(2 / 1e-12) / (2.0 * kCount));
  Stream stream(4, "draws");
  for (const MechanismKind kind : {kPaper, kKrr}) {
    for (const double epsilon : {0.0, 0.7, 3.0}) {
      for (const std::int64_t classes : {2, 5}) {
        const Mechanism mechanism = Make(kind, epsilon, classes);
        const auto label = static_cast<std::int32_t>(classes - 1);
        std::vector<int> count(static_cast<std::size_t>(classes));
        for (int i = 0; i < kCount; ++i) {
          ++count[mechanism.Answer(label, true, RandomDraw(stream))];
        }
        for (std::int32_t c = 0; c < classes; ++c) {
          const double expected =
              c == label ? mechanism.ProbabilityOfLabel() : mechanism.ProbabilityOfEachOther();
          EXPECT_NEAR(static_cast<double>(count[c]) / kCount, expected, margin);
        }
        const double power = std::exp(kind == kPaper ? epsilon / 2 : epsilon);
        EXPECT_NEAR(mechanism.ProbabilityOfLabel(),
                    power / (power + static_cast<double>(classes) - 1), 1e-15);
      }
    }
  }
}

TEST(MechanismTest, RefusesWhatHasNoMeaning) {
  const auto message = [](double epsilon, std::int64_t classes) {
    const auto made = Mechanism::Create(kPaper, epsilon, classes);
    return made.ok() ? std::string("accepted") : made.error().message;
  };
  EXPECT_THAT(message(-1e-9, 2), HasSubstr("epsilon is -1e-09"));
  EXPECT_THAT(message(std::nan(""), 2), HasSubstr("epsilon is nan"));
  EXPECT_THAT(message(std::numeric_limits<double>::infinity(), 2), HasSubstr("epsilon is inf"));
  EXPECT_THAT(message(1, 1), HasSubstr("1 classes"));
  EXPECT_THAT(message(1, std::int64_t{1} << 31), HasSubstr("2147483648 classes"));
  EXPECT_FALSE(std::signbit(Make(kPaper, -0.0, 2).epsilon()));
}

TEST(MechanismTest, NamesAreReadBack) {
  for (const MechanismKind kind : {kPaper, kKrr}) {
    EXPECT_EQ(MechanismNamed(NameOf(kind)).value(), kind);
  }
  EXPECT_THAT(MechanismNamed("laplace").error().message, HasSubstr("'laplace'"));
}

}  // namespace
}  // namespace lucid
