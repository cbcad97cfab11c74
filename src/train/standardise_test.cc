#include "train/standardise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lucid/nn/network.h"
#include "random/stream.h"
#include "train/test_support.h"

namespace lucid {
namespace {

Architecture Net(const std::string& name, std::int64_t inputs) {
  return Architecture::FromName(name, inputs, 2).value();
}

TrainOptions Options(std::int64_t expected_rows, std::int64_t rows_per_unit = 1) {
  TrainOptions options;
  options.method = TrainOptions::Method::kPrivate;
  options.standardise = true;
  options.expected_rows = expected_rows;
  options.rows_per_unit = rows_per_unit;
  return options;
}

// Unit i / size of row i.
std::vector<std::int32_t> UnitsOfSize(std::int64_t rows, std::int64_t size) {
  std::vector<std::int32_t> units;
  for (std::int64_t i = 0; i < rows; ++i) units.push_back(static_cast<std::int32_t>(i / size));
  return units;
}

// What T does to its inputs without a unit is what it does on the table without its rows.
TEST(InputMoments, WithoutAUnitTheyAreThoseOfTheOtherRows) {
  const Table table = RandomTable(90, 6, 2, 1);
  const std::vector<std::int32_t> unit_of = UnitsOfSize(90, 3);
  for (const char* name : {"2x5", "conv"}) {
    const Architecture net = Net(name, 6);
    WipedVector<std::int64_t> noise;
    Stream stream(1, "noise");
    for (int i = 0; i < 13; ++i) noise.push_back(static_cast<std::int64_t>(stream.Below(9000)));
    const InputMoments all(net, table, unit_of, Options(90), noise);
    for (const std::int64_t unit : {0, 7, 29}) {
      Table rest;
      rest.features = 6;
      std::vector<std::int32_t> others;
      for (std::int64_t i = 90; i-- > 0;) {  // in another order, too
        if (unit_of[i] == unit) continue;
        rest.x.insert(rest.x.end(), table.row(i).begin(), table.row(i).end());
        rest.y.push_back(0);
        others.push_back(unit_of[i]);
      }
      const Standardisation a = all.Without(unit);
      const Standardisation b = InputMoments(net, rest, others, Options(90), noise).Without(-1);
      EXPECT_EQ(a.centers, b.centers);
      EXPECT_EQ(a.factors, b.factors);
      EXPECT_NE(a.centers, all.Without(-1).centers);
    }
  }
}

TEST(InputMoments, CentersAreMeansAndFactorsMakeOneDeviation) {
  Table table;
  table.features = 12;
  for (int i = 0; i < 400; ++i) {
    // Always a quarter; nothing or all; a uniform number. The others are 0.
    table.x.insert(table.x.end(), {0.25F, static_cast<float>(i % 2), static_cast<float>(i) / 400});
    table.x.insert(table.x.end(), 9, 0.0F);
    table.y.push_back(0);
  }
  const std::vector<std::int32_t> unit_of = UnitsOfSize(400, 1);
  const Standardisation own =
      InputMoments(Net("1x2", 12), table, unit_of, Options(300), {}).Without(-1);
  const float mean = 0.5F * 399 / 400;
  EXPECT_NEAR(own.centers[0], 0.25, 1e-6);
  EXPECT_EQ(own.factors[0], 8) << "the largest factor";
  EXPECT_NEAR(own.centers[1], 0.5, 1e-6);
  EXPECT_NEAR(own.factors[1], 1, 1e-6);
  EXPECT_NEAR(own.centers[2], mean, 1e-3);
  EXPECT_NEAR(own.factors[2], 0.5 * std::sqrt(12.0), 1e-2);
  const Standardisation pooled =
      InputMoments(Net("conv", 12), table, unit_of, Options(300), {}).Without(-1);
  for (int k = 0; k < 12; ++k) {
    EXPECT_NEAR(pooled.centers[k], (0.25 + 0.5 + mean) / 12, 1e-3);
    EXPECT_EQ(pooled.factors[k], pooled.factors[0]);
  }
}

TEST(InputMoments, NoUnitAddsMoreThanIsCharged) {
  for (const std::int64_t rows_per_unit : {1, 5}) {
    for (const std::int64_t inputs : {1, 6, 40}) {
      Table table = RandomTable(100, inputs, 2, 2);
      // Rows of ones are the largest; some values are no numbers, or outside of the range.
      std::fill_n(table.x.begin(), 5 * inputs, 1.0F);
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
            -std::numeric_limits<float>::infinity(), 1e30F, -1.6e-16F}) {
        table.x[static_cast<std::size_t>(std::abs(bad) > 1 ? 7 * inputs : 8 * inputs)] = bad;
      }
      const std::vector<std::int32_t> unit_of = UnitsOfSize(100, rows_per_unit);
      const Architecture net = Net("1x2", inputs);
      const TrainOptions options = Options(100, rows_per_unit);
      const InputMoments moments(net, table, unit_of, options, {});
      double largest = 0;
      for (std::int64_t unit = 0; unit <= unit_of.back(); ++unit) {
        double square = 0;
        for (const std::int64_t v : moments.OfUnit(unit)) {
          square += static_cast<double>(v) * static_cast<double>(v);
        }
        largest = std::max(largest, std::sqrt(square));
      }
      EXPECT_LE(largest, MomentSensitivity(options, net)) << inputs;
      EXPECT_GE(largest, 0.99 * MomentSensitivity(options, net)) << inputs;
    }
  }
}

// Nobody at all, and noise of any size: what is done to inputs stays within its limits.
TEST(InputMoments, AnyNoiseGivesFiniteNumbersInTheirLimits) {
  Table nobody;
  nobody.features = 4;
  for (const std::int64_t size :
       {std::int64_t{0}, std::int64_t{1} << 30, -(std::int64_t{1} << 30)}) {
    const WipedVector<std::int64_t> noise(9, size);
    const Standardisation own =
        InputMoments(Net("1x2", 4), nobody, {}, Options(1), noise).Without(-1);
    for (int k = 0; k < 4; ++k) {
      EXPECT_GE(own.centers[k], 0);
      EXPECT_LE(own.centers[k], 1);
      EXPECT_GE(own.factors[k], 1);
      EXPECT_LE(own.factors[k], 8);
    }
  }
}

TEST(FoldInputs, TheNetworkSaysTheSameOfInputsAsTheyAre) {
  for (const char* name : {"2x9", "conv", "0x1"}) {
    const Architecture net = Net(name, 12);
    Stream stream(4, "weights");
    Network on_standardised{net, {}};
    for (std::int64_t i = 0; i < net.parameters(); ++i) {
      on_standardised.parameters.push_back(static_cast<float>(stream.Uniform(-0.5, 0.5)));
    }
    Standardisation own;
    const bool pooled = std::string(name) == "conv";
    for (int k = 0; k < 12; ++k) {
      own.centers.push_back(pooled ? 0.3F : static_cast<float>(stream.Uniform()));
      own.factors.push_back(pooled ? 3 : static_cast<float>(stream.Uniform(1, 8)));
    }
    Network folded = on_standardised;
    FoldInputs(net, own, folded.parameters);
    const Evaluator a(on_standardised), b(folded);
    for (int i = 0; i < 50; ++i) {
      std::vector<float> x(12), z(12);
      for (std::size_t k = 0; k < 12; ++k) {
        x[k] = static_cast<float>(stream.Uniform());
        z[k] = (x[k] - own.centers[k]) * own.factors[k];
      }
      std::vector<double> of_z(2), of_x(2);
      a.Logits(z, of_z);
      b.Logits(x, of_x);
      EXPECT_NEAR(of_z[0], of_x[0], 1e-4);
      EXPECT_NEAR(of_z[1], of_x[1], 1e-4);
    }
  }
}

}  // namespace
}  // namespace lucid
