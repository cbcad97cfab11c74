#include "baselines/example_gradients.h"

#include <gtest/gtest.h>

#include <numeric>

#include "baselines/test_support.h"

namespace lucid {
namespace {

// A dense one, a narrow deep one with three classes, the paper's convolution, and convolutions of
// several channels and strides.
const std::string kArchitectures[] = {
    "9 > dense 13 > dense 7 > 2",
    "9 > dense 5 > dense 6 > dense 4 > 3",
    "9 > conv 3 width 3 stride 1 > dense 5 > 2",
    "12 > conv 2 width 4 stride 2 > conv 3 width 2 stride 1 > 3",
};

class Gradients : public testing::TestWithParam<std::string> {
 protected:
  const Architecture architecture_ = Architecture::FromCanonical(GetParam()).value();
  const Table table_ = RandomTable(300, architecture_.inputs(), architecture_.classes(), 5);
  const std::vector<float> weights_ = RandomWeights(architecture_, 6);
  const CrossEntropy loss_{table_};

  std::vector<float> Sum(InstructionSet set, std::span<const std::int32_t> rows,
                         double clip) const {
    const auto gradients = ExampleGradients::Create(architecture_, table_, set);
    std::vector<float> sum(weights_.size(), 1e30f);
    gradients->Sum(weights_, rows, loss_, clip, sum);
    return sum;
  }
};
INSTANTIATE_TEST_SUITE_P(Architectures, Gradients, testing::ValuesIn(kArchitectures));

std::vector<std::int32_t> FirstRows(std::int64_t count) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// The oracle itself: against the slope of the loss.
TEST_P(Gradients, OracleEqualsFiniteDifferences) {
  std::vector<double> weights = Widen(weights_);
  for (const std::int32_t row : {0, 1, 2}) {
    const auto value = [&] {
      const auto logits = UnitsOf(architecture_, weights, table_.row(row)).back();
      double total = 0;
      for (const double z : logits) total += std::exp(z);
      return std::log(total) - logits[table_.y[row]];
    };
    const auto gradient = GradientOf(architecture_, weights, table_, row, loss_);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double h = 1e-6, kept = weights[i];
      weights[i] = kept + h;
      const double up = value();
      weights[i] = kept - h;
      const double down = value();
      weights[i] = kept;
      EXPECT_NEAR(gradient[i], (up - down) / (2 * h), 1e-7) << "row " << row << " weight " << i;
    }
  }
}

TEST_P(Gradients, SumEqualsOneExampleAfterTheOther) {
  for (const InstructionSet set : AvailableInstructionSets()) {
    for (const std::int64_t count : {0, 1, 3, 17, 64, 65, 300}) {
      // Norms are around 1: clipping at 0.5 touches most, at 1.5 some.
      for (const double clip : {kNoClip, 0.5, 1.5, 100.0}) {
        const auto rows = FirstRows(count);
        const auto expected = ClippedSum(architecture_, weights_, table_, rows, loss_, clip);
        const std::vector<float> sum = Sum(set, rows, clip);
        // The margin of the clip (2^-13) and float32.
        const double tolerance = 2e-4 * (1 + NormOf(expected));
        for (std::size_t i = 0; i < sum.size(); ++i) {
          ASSERT_NEAR(sum[i], expected[i], tolerance)
              << NameOf(set) << " rows " << count << " clip " << clip << " at " << i;
        }
      }
    }
  }
}

TEST_P(Gradients, RowsMayRepeatAndComeInAnyOrder) {
  const std::vector<std::int32_t> rows = {7, 3, 7, 299, 0};
  const auto expected = ClippedSum(architecture_, weights_, table_, rows, loss_, 0.5);
  const std::vector<float> sum = Sum(AvailableInstructionSets().front(), rows, 0.5);
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], expected[i], 1e-3);
}

// What privacy rests on.
TEST_P(Gradients, NoClippedGradientIsLongerThanTheClip) {
  for (const InstructionSet set : AvailableInstructionSets()) {
    int clipped = 0;
    for (const double clip : {1e-3, 0.1, 1.0}) {
      for (std::int32_t row = 0; row < 100; ++row) {
        const double norm = NormOf(Widen(Sum(set, std::span(&row, 1), clip)));
        EXPECT_LE(norm, clip);
        clipped += norm > 0.99 * clip;
      }
    }
    EXPECT_GT(clipped, 100) << "a clip that touches nothing shows nothing";
  }
}

TEST(ExampleGradientsState, ABatchAfterAnotherStartsAnew) {
  const Architecture architecture = Architecture::FromCanonical(kArchitectures[0]).value();
  const Table table = RandomTable(200, 9, 2, 1);
  const std::vector<float> weights = RandomWeights(architecture, 2);
  const CrossEntropy loss(table);
  const auto gradients =
      ExampleGradients::Create(architecture, table, AvailableInstructionSets().front());
  std::vector<float> first(weights.size()), second(weights.size());
  gradients->Sum(weights, FirstRows(5), loss, 0.5, first);
  gradients->Sum(weights, FirstRows(200), loss, 0.5, second);
  gradients->Sum(weights, FirstRows(5), loss, 0.5, second);
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace lucid
