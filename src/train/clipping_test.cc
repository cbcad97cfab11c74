// What the sensitivity of a private step rests on: sums on the grid, and norms. The kernels do
// exactly what is tried here (group_trainer_test.cc compares them bit for bit).
#include "train/clipping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "lucid/train/accountant.h"
#include "random/discrete_gaussian.h"
#include "random/stream.h"
#include "support/exact_type.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using Method = TrainOptions::Method;

TrainOptions OptionsOf(Method method) {
  TrainOptions options;
  options.method = method;
  options.batch = 512;
  options.epochs = 20;
  options.expected_rows = 30000;
  options.batches = 59;
  options.delta = 1e-5;
  return options;
}
Architecture Net(const std::string& name = "2x50") {
  return Architecture::FromName(name, 21, 2).value();
}

// The accumulator as the kernels have it: float sums from the offset, moved to integers when told.
class Accumulator {
 public:
  explicit Accumulator(const Clipping& c) : c_(c), sum_(c.offset) {}
  void Add(float a, float b) { sum_ = std::fma(a, b, sum_); }
  void Move() {
    const auto k = static_cast<std::int32_t>((sum_ - c_.offset) / c_.grid);
    moved_ += k - (k & 1);
    sum_ = c_.offset + static_cast<float>(k & 1) * c_.grid;
  }
  std::int64_t Total() const {
    return moved_ + static_cast<std::int32_t>((sum_ - c_.offset) / c_.grid);
  }

 private:
  const Clipping& c_;
  float sum_;
  std::int64_t moved_ = 0;
};

TEST(Clipping, TheGridIsAPowerOfTwoBelowTheClip) {
  for (const double clip : {0.3, 1.0, 0.5, 1e-5, 700.0}) {
    TrainOptions options = OptionsOf(Method::kClipped);
    options.clip = clip;
    const Clipping c = Clipping::Of(options, Net());
    EXPECT_EQ(std::exp2(std::ilogb(c.grid)), c.grid);
    EXPECT_LE(c.grid, 0x1p-14 * clip * (1 + 1e-7));
    EXPECT_GT(2 * c.grid, 0x1p-14 * clip * (1 - 1e-7));
    EXPECT_GE(c.room, 127);
  }
}

// One coordinate of a sum, with and without a row, among others of which many are exact ties: the
// difference is what the row adds, within 1.5 grid units. Where sums are moved to the integers
// changes nothing.
TEST(Clipping, LeavingARowOutMovesASumByItsOwnPartAndOneAndAHalf) {
  const Clipping c = Clipping::Of(OptionsOf(Method::kPrivate), Net());
  Stream stream(1, "grid sums");
  double worst = 0;
  for (int trial = 0; trial < 50'000; ++trial) {
    const std::size_t rows = 1 + stream.Below(40);
    std::vector<float> a, b;
    for (std::size_t r = 0; r < rows; ++r) {
      if (stream.Below(2) == 0) {  // an exact tie: an odd number of halves of the grid
        a.push_back((static_cast<float>(stream.Below(64)) - 32 + 0.5f) * c.grid);
        b.push_back(1);
      } else {
        a.push_back(static_cast<float>(stream.Uniform(-1, 1)) * c.clip);
        b.push_back(static_cast<float>(stream.Uniform()));
      }
    }
    const std::size_t left_out = stream.Below(rows);
    Accumulator with(c), moved(c), without(c);
    for (std::size_t r = 0; r < rows; ++r) {
      with.Add(a[r], b[r]);
      moved.Add(a[r], b[r]);
      if (stream.Below(3) == 0) moved.Move();
      if (r != left_out) without.Add(a[r], b[r]);
    }
    ASSERT_EQ(with.Total(), moved.Total());
    const double own = static_cast<double>(a[left_out]) * static_cast<double>(b[left_out]) /
                       static_cast<double>(c.grid);
    worst = std::max(worst, std::abs(static_cast<double>(with.Total() - without.Total()) - own));
  }
  EXPECT_LE(worst, 1.5);
  EXPECT_GT(worst, 1.4) << "ties that turn are among what was tried";
}

// The scale of a unit as the kernels compute it, beside its norm in 113 bits: one to three dense
// layers, one to eight rows that cancel or do not, and the gradient of a convolution's filters.
class UnitInFloats {
 public:
  using Values = std::vector<float>;

  UnitInFloats(std::size_t rows, std::size_t layers, std::size_t width, bool cancel, bool filters,
               Stream& stream)
      : h_(layers), d_(layers) {
    const double size = std::exp2(stream.Uniform(-8, 8));
    for (std::size_t l = 0; l < layers; ++l) {
      for (std::size_t r = 0; r < rows; ++r) {
        Values h, d;
        for (std::size_t i = 0; i < width; ++i) {
          h.push_back(r > 0 && cancel ? h_[l][0][i] : static_cast<float>(stream.Uniform()));
          const auto fresh = static_cast<float>(size * stream.Uniform(-1, 1));
          d.push_back(r % 2 == 1 && cancel ? -d_[l][r - 1][i] * (1 + 0x1p-20F) : fresh);
        }
        h_[l].push_back(h);
        d_[l].push_back(d);
      }
    }
    for (std::size_t i = 0; filters && i < 3 * width; ++i) {
      filters_.push_back(static_cast<float>(size * stream.Uniform(-1, 1)));
    }
  }

  float Scale(const Clipping& c) const {
    const std::size_t rows = h_[0].size();
    float squared = 0, sum = 0, cross = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      float own = 0;
      for (std::size_t l = 0; l < h_.size(); ++l) {
        own += Dot(d_[l][r], d_[l][r]) * (Dot(h_[l][r], h_[l][r]) + 1);
      }
      squared += own;
      sum += std::sqrt(own);
    }
    for (std::size_t l = 0; l < h_.size(); ++l) {
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t s = 0; s < r; ++s) {
          cross += 2 * (Dot(d_[l][s], d_[l][r]) * (Dot(h_[l][s], h_[l][r]) + 1));
        }
      }
    }
    if (rows > 1) squared = std::fma(sum * sum, c.unit_slack, std::max(squared + cross, 0.0F));
    squared += Dot(filters_, filters_);
    const float scale = std::min(1.0F, c.clip / std::sqrt(squared));
    return rows > 1 ? std::min(scale, 8 * c.clip / sum) : scale;
  }

  // Of what is added: products of scaled deltas and inputs, scaled filters; exactly.
  double Norm(float scale) const {
    Exact square = 0;
    for (std::size_t l = 0; l < h_.size(); ++l) {
      const std::size_t width = h_[l][0].size();
      for (std::size_t j = 0; j < width; ++j) {
        for (std::size_t i = 0; i <= width; ++i) {
          Exact g = 0;
          for (std::size_t r = 0; r < h_[l].size(); ++r) {
            g += static_cast<Exact>(d_[l][r][j] * scale) *
                 (i < width ? static_cast<Exact>(h_[l][r][i]) : 1);
          }
          square += g * g;
        }
      }
    }
    for (const float f : filters_) {
      const Exact g = static_cast<Exact>(scale) * static_cast<Exact>(f);
      square += g * g;
    }
    return std::sqrt(static_cast<double>(square));
  }

 private:
  static float Dot(const Values& x, const Values& y) {
    float sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum = std::fma(x[i], y[i], sum);
    return sum;
  }

  std::vector<std::vector<Values>> h_, d_;  // [layer][row][value]
  Values filters_;
};

TEST(Clipping, NoUnitIsLargerThanTheClipByMoreThanIsCharged) {
  Stream stream(2, "norms");
  double largest = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t rows = 1 + stream.Below(8), layers = 1 + stream.Below(3),
                      width = 2 + stream.Below(40);
    TrainOptions options = OptionsOf(Method::kPrivate);
    options.rows_per_unit = static_cast<std::int64_t>(rows);
    const auto neurons = static_cast<std::int64_t>(width);
    const std::vector<HiddenLayer> hidden(layers - 1, {.units = neurons});
    const Architecture net = Architecture::Build(hidden, neurons, neurons).value();
    const Clipping c = Clipping::Of(options, net);
    const UnitInFloats unit(rows, layers, width, trial % 2 == 0, trial % 3 == 0, stream);
    const double norm = unit.Norm(unit.Scale(c));
    // Delta without the part of the grid's own roundings is (1 + eta) C / g.
    const double roundings =
        1.5 * static_cast<double>(rows) * std::sqrt(static_cast<double>(net.parameters()));
    const double charged = (c.sensitivity - roundings) * static_cast<double>(c.grid);
    ASSERT_LE(norm, charged * (1 + 1e-12)) << "trial " << trial;
    largest = std::max(largest, norm / static_cast<double>(c.clip));
  }
  EXPECT_GT(largest, 0.999) << "units that are clipped are among what was tried";
}

TEST(Sampling, IsInIntegers) {
  TrainOptions options = OptionsOf(Method::kPrivate);
  options.batch = 3;
  options.expected_rows = 12;
  options.epochs = 5;
  const Sampling s = Sampling::Of(options);
  EXPECT_EQ(s.threshold, std::uint64_t{1} << 62);
  EXPECT_EQ(s.steps, 20);
  EXPECT_GE(s.rate, 0.25);
  options.batch = 12;
  EXPECT_TRUE(Sampling::Of(options).everybody);
  EXPECT_EQ(Sampling::Of(options).steps, 5);
}

TEST(ResolveOptions, KnowsTheDataByOneDigitThatNoUnitDecides) {
  EXPECT_EQ(RoundedToOneDigit(238), 200);
  EXPECT_EQ(RoundedToOneDigit(32561), 30000);
  EXPECT_EQ(RoundedToOneDigit(950), 1000);
  EXPECT_EQ(RoundedToOneDigit(7), 7);
  TrainOptions options;
  options.batch = 16;
  EXPECT_EQ(ResolveOptions(options, Net(), {238, 1, false})->batches, 13);
  const auto decided = ResolveOptions(options, Net(), {250, 1, false});
  ASSERT_FALSE(decided.ok());
  EXPECT_THAT(decided.error().message, HasSubstr("expected_rows"));
  EXPECT_FALSE(ResolveOptions(options, Net(), {253, 4, true}).ok()) << "a unit of four rows";
  options.batch = 1024;
  EXPECT_EQ(ResolveOptions(options, Net(), {250, 1, false})->batches, 1) << "nothing follows";
  options.method = Method::kClipped;
  EXPECT_FALSE(ResolveOptions(options, Net(), {250, 1, false}).ok()) << "the divisor follows";
  options.expected_rows = 250;
  EXPECT_TRUE(ResolveOptions(options, Net(), {250, 1, false}).ok());
  const auto units = ResolveOptions(options, Net(), {250, 3, true});
  ASSERT_FALSE(units.ok());
  EXPECT_THAT(units.error().message, HasSubstr("rows_per_unit"));
}

TEST(ResolveOptions, PrivateTrainingSpendsWhatItSays) {
  TrainOptions options = OptionsOf(Method::kPrivate);
  options.expected_rows = 0;
  EXPECT_THAT(ResolveOptions(options, Net(), {30000, 1, false}).error().message,
              HasSubstr("expected_rows"));
  for (const double epsilon : {0.2, 1.0, 8.0}) {
    for (const std::int64_t unit : {1, 5}) {
      options = OptionsOf(Method::kPrivate);
      options.epsilon = epsilon;
      options.delta = 0;
      options.rows_per_unit = unit;
      const auto resolved = ResolveOptions(options, Net(), {30000, unit, unit > 1});
      ASSERT_TRUE(resolved.ok()) << resolved.error().message;
      EXPECT_EQ(resolved->delta, 1e-6);
      const PrivacyStatement statement = PrivacyOf(*resolved, Net()).value();
      EXPECT_LE(statement.spent, epsilon);
      EXPECT_GT(statement.spent, 0.999 * epsilon);
      // The noise really is sigma times the sensitivity, and not less.
      const double deviation = std::sqrt(static_cast<double>(resolved->noise_variance));
      EXPECT_GE(deviation,
                statement.sigma * Clipping::Of(*resolved, Net()).sensitivity * (1 - 1e-12));
      EXPECT_GE(statement.sigma,
                NoiseFor(epsilon, statement.sampling_rate, statement.steps, 1e-6).value() * 0.9999);
    }
  }
}

TEST(TrainOptions, EveryFieldOfAPrivateTrainingIsInTheKeyAndReadBack) {
  TrainOptions base = OptionsOf(Method::kPrivate);
  base.noise_variance = 12345;
  const auto differs = [&](auto change) {
    TrainOptions options = base;
    change(options);
    const auto read = TrainOptions::FromCanonical(options.Canonical());
    return read.ok() && read->Canonical() == options.Canonical() &&
           options.Canonical() != base.Canonical();
  };
  EXPECT_TRUE(differs([](auto& o) { o.method = Method::kClipped; }));
  EXPECT_TRUE(differs([](auto& o) { o.method = Method::kPlain; }));
  EXPECT_TRUE(differs([](auto& o) { o.batches = 60; }));
  EXPECT_TRUE(differs([](auto& o) { o.expected_rows = 30001; }));
  EXPECT_TRUE(differs([](auto& o) { o.clip = 0.4; }));
  EXPECT_TRUE(differs([](auto& o) { o.rows_per_unit = 2; }));
  EXPECT_TRUE(differs([](auto& o) { o.epsilon = 0.5; }));
  EXPECT_TRUE(differs([](auto& o) { o.delta = 1e-6; }));
  EXPECT_TRUE(differs([](auto& o) { o.noise_variance = 12346; }));
  EXPECT_TRUE(differs([](auto& o) { o.seed = 9; }));
  TrainOptions blanked;
  EXPECT_TRUE(TrainOptions::FromCanonical(blanked.Canonical()).ok()) << "runs of format 1";
  EXPECT_FALSE(TrainOptions::FromCanonical(blanked.Canonical()).value().IsResolved());
}

}  // namespace
}  // namespace lucid
