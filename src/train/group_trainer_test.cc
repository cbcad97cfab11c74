// The oracle: T as a plain scalar loop over one network, written from its definition. The kernels
// must give the same bits.
#include "train/group_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "random/stream.h"
#include "train/test_support.h"

namespace lucid {
namespace {

// e^x as the kernels define it.
float Exp(float x) {
  x = std::max(x, -87.0f);
  const float shifted = std::fma(x, 1.44269504088896341f, 12582912.0f);
  const float n = shifted - 12582912.0f;
  float r = std::fma(n, -0.693359375f, x);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  for (float c :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = std::fma(p, r, c);
  }
  p = std::fma(p, r * r, r) + 1.0f;
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(p) +
                              (std::bit_cast<std::int32_t>(shifted) << 23));
}

class Reference {
 public:
  explicit Reference(const TrainPlan& plan) : plan_(plan), layers_(plan.architecture().layers()) {}

  std::vector<float> Train(std::int64_t left_out) {
    const TrainOptions& options = plan_.options();
    w_.assign(plan_.initial().begin(), plan_.initial().end());
    std::vector<float> velocity(w_.size()), average(w_.size());
    std::vector<std::int32_t> order;
    for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
      plan_.Order(epoch, order);
      for (std::int64_t b = 0; b < plan_.batches_per_epoch(); ++b) {
        std::vector<std::int32_t> rows;  // the row is really gone, not masked
        for (std::int32_t row : plan_.Batch(order, b)) {
          if (row != left_out) rows.push_back(row);
        }
        gradient_.assign(w_.size(), 0);
        for (std::int32_t row : rows) AddRow(row, 1.0f / static_cast<float>(rows.size()));
        for (std::size_t i = 0; i < w_.size(); ++i) {
          float g = std::fma(static_cast<float>(options.weight_decay), w_[i], gradient_[i]);
          if (options.momentum != 0) {
            velocity[i] = g = std::fma(static_cast<float>(options.momentum), velocity[i], g);
          }
          w_[i] = std::fma(-plan_.Rate(epoch, b), g, w_[i]);
        }
      }
      if (epoch >= options.epochs - options.average_epochs) {
        const float share = 1.0f / static_cast<float>(options.average_epochs);
        for (std::size_t i = 0; i < w_.size(); ++i) average[i] = std::fma(share, w_[i], average[i]);
      }
    }
    return options.average_epochs > 0 ? average : w_;
  }

 private:
  void AddRow(std::int32_t row, float weight) {
    const auto x = plan_.table().row(row);
    std::vector<std::vector<float>> units = {{x.begin(), x.end()}};
    for (const Layer& layer : layers_) units.push_back(Apply(layer, units.back()));
    std::vector<float> delta = LossGradient(units.back(), plan_.table().y[row], weight);
    for (std::size_t l = layers_.size(); l-- > 0;) delta = Back(layers_[l], units[l], delta);
  }

  std::vector<float> Apply(const Layer& layer, const std::vector<float>& in) const {
    std::vector<float> out(static_cast<std::size_t>(layer.outputs));
    for (std::int64_t j = 0; j < layer.filters; ++j) {
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        float sum = w_[layer.bias_at + j];
        for (std::int64_t k = 0; k < layer.taps; ++k) {
          sum = std::fma(w_[layer.weight_at + j * layer.taps + k],
                         in[t * layer.stride + layer.TapOffset(k)], sum);
        }
        out[j * layer.positions + t] = layer.relu ? std::max(sum, 0.0f) : sum;
      }
    }
    return out;
  }

  static std::vector<float> LossGradient(std::vector<float> z, std::int32_t label, float weight) {
    const float top = *std::max_element(z.begin(), z.end());
    float total = 0;
    for (float& v : z) total += v = Exp(v - top);
    for (std::size_t c = 0; c < z.size(); ++c) {
      z[c] = (z[c] / total - (static_cast<std::int32_t>(c) == label ? 1.0f : 0.0f)) * weight;
    }
    return z;
  }

  // Adds the layer's parameter gradients; returns the gradient of its input (0 where inactive).
  std::vector<float> Back(const Layer& layer, const std::vector<float>& in,
                          const std::vector<float>& delta) {
    std::vector<float> below(in.size());
    for (std::int64_t t = 0; t < layer.positions; ++t) {
      for (std::int64_t j = 0; j < layer.filters; ++j) {
        const float d = delta[j * layer.positions + t];
        gradient_[layer.bias_at + j] += d;
        for (std::int64_t k = 0; k < layer.taps; ++k) {
          float& g = gradient_[layer.weight_at + j * layer.taps + k];
          g = std::fma(d, in[t * layer.stride + layer.TapOffset(k)], g);
        }
      }
      for (std::int64_t k = 0; k < layer.taps; ++k) {
        float sum = 0;
        for (std::int64_t j = 0; j < layer.filters; ++j) {
          sum = std::fma(w_[layer.weight_at + j * layer.taps + k], delta[j * layer.positions + t],
                         sum);
        }
        below[t * layer.stride + layer.TapOffset(k)] += sum;
      }
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!(in[i] > 0)) below[i] = 0;
    }
    return below;
  }

  const TrainPlan& plan_;
  std::span<const Layer> layers_;
  std::vector<float> w_, gradient_;
};

struct Case {
  std::string name, arch;
  std::int64_t rows, features, classes;
  TrainOptions options;
};

std::vector<Case> Cases() {
  const auto with = [](std::int64_t epochs, std::int64_t batch, auto change) {
    TrainOptions options;
    options.epochs = epochs;
    options.batch = batch;
    change(options);
    return options;
  };
  const auto plain = [](TrainOptions&) {};
  return {
      {"Dense", "2x13", 45, 5, 2, with(4, 16, plain)},
      {"WideDense", "2x100", 40, 7, 2, with(2, 40, plain)},
      {"Deep", "4x30", 30, 6, 3, with(3, 11, plain)},
      {"Conv", "conv", 33, 9, 2, with(3, 10, plain)},
      {"Linear", "0x1", 20, 4, 5, with(3, 8, plain)},
      {"OneRowBatches", "1x5", 9, 3, 2, with(3, 1, plain)},
      {"BatchLargerThanData", "1x9", 21, 3, 2, with(3, 100, plain)},
      {"Momentum", "2x8", 25, 4, 2, with(4, 8, [](auto& o) { o.momentum = 0.9; })},
      {"Cosine", "2x8", 25, 4, 2,
       with(4, 8, [](auto& o) { o.schedule = TrainOptions::Schedule::kCosine; })},
      {"Averaged", "2x8", 25, 4, 2, with(5, 8, [](auto& o) { o.average_epochs = 3; })},
      {"NoDecay", "2x8", 25, 4, 2, with(4, 8, [](auto& o) { o.weight_decay = 0; })},
  };
}

class GroupTrainerTest : public testing::TestWithParam<Case> {
 protected:
  GroupTrainerTest()
      : table_(RandomTable(GetParam().rows, GetParam().features, GetParam().classes, 3)),
        plan_(Architecture::FromName(GetParam().arch, GetParam().features, GetParam().classes)
                  .value(),
              table_, GetParam().options) {}

  std::vector<float> Train(InstructionSet set, const std::vector<std::int64_t>& left_out) const {
    std::vector<float> out(left_out.size() *
                           static_cast<std::size_t>(plan_.architecture().parameters()));
    const Status status = GroupTrainer(plan_, set).Train(left_out, out);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return out;
  }

  Table table_;
  TrainPlan plan_;
};

TEST_P(GroupTrainerTest, EveryInstructionSetGivesTheBitsOfThePlainLoop) {
  Reference reference(plan_);
  const auto parameters = static_cast<std::size_t>(plan_.architecture().parameters());
  for (InstructionSet set : AvailableInstructionSets()) {
    const int lanes = GroupTrainer(plan_, set).lanes();
    std::vector<std::int64_t> left_out = {kNoRow};
    for (int i = 1; i < lanes; ++i) left_out.push_back((5 * i) % table_.rows());
    const std::vector<float> out = Train(set, left_out);
    for (std::size_t k = 0; k < left_out.size(); ++k) {
      const std::vector<float> expected = reference.Train(left_out[k]);
      for (std::size_t i = 0; i < parameters; ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out[k * parameters + i]),
                  std::bit_cast<std::uint32_t>(expected[i]))
            << InstructionSetName(set) << ", without row " << left_out[k] << ", parameter " << i
            << ": " << out[k * parameters + i] << " != " << expected[i];
      }
    }
  }
}

TEST_P(GroupTrainerTest, ANetworkDoesNotDependOnItsNeighboursInTheGroup) {
  const InstructionSet set = AvailableInstructionSets().front();
  const auto parameters = static_cast<std::size_t>(plan_.architecture().parameters());
  const std::vector<float> alone = Train(set, {2});
  const int lanes = GroupTrainer(plan_, set).lanes();
  std::vector<std::int64_t> others(static_cast<std::size_t>(lanes));
  for (int i = 0; i < lanes; ++i) others[i] = (7 * i + 1) % table_.rows();
  others.back() = 2;
  const std::vector<float> together = Train(set, others);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.end() - parameters));
}

TEST_P(GroupTrainerTest, LeavingARowOutMatters) {
  const std::vector<float> all = Train(AvailableInstructionSets().front(), {kNoRow});
  EXPECT_NE(all, Train(AvailableInstructionSets().front(), {0}));
}

INSTANTIATE_TEST_SUITE_P(All, GroupTrainerTest, testing::ValuesIn(Cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(GroupTrainer, DivergenceIsAnErrorThatSaysWhatToDo) {
  const Table table = RandomTable(40, 4, 2, 1);
  TrainOptions options;
  options.epochs = 30;
  options.batch = 8;
  options.rate = 1000;
  options.weight_decay = 10;
  const TrainPlan plan(Architecture::FromName("2x8", 4, 2).value(), table, options);
  std::vector<float> out(static_cast<std::size_t>(plan.architecture().parameters()));
  const std::int64_t none = kNoRow;
  const Status status =
      GroupTrainer(plan, AvailableInstructionSets().front()).Train(std::span(&none, 1), out);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, testing::HasSubstr("--lr"));
}

TEST(GroupTrainer, StopIsHonouredBetweenBatches) {
  const Table table = RandomTable(40, 4, 2, 1);
  const TrainPlan plan(Architecture::FromName("2x8", 4, 2).value(), table, {});
  std::vector<float> out(static_cast<std::size_t>(plan.architecture().parameters()));
  std::stop_source stop;
  stop.request_stop();
  const std::int64_t none = kNoRow;
  const Status status = GroupTrainer(plan, AvailableInstructionSets().front())
                            .Train(std::span(&none, 1), out, stop.get_token());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kInterrupted);
}

TEST(GroupTrainer, TheReferencesExpIsAnExp) {
  for (float x = 0; x > -80; x -= 0.37f) {
    EXPECT_NEAR(Exp(x) / std::exp(static_cast<double>(x)), 1, 3e-7) << x;
  }
  EXPECT_EQ(Exp(0), 1.0f);
}

TEST(TrainPlan, OrderIsAPermutationThatChangesWithTheEpochAndTheSeed) {
  const Table table = RandomTable(100, 2, 2, 1);
  const Architecture net = Architecture::FromName("1x2", 2, 2).value();
  TrainOptions options;
  options.batch = 10;  // the rows of a batch stand in one order, whatever the epoch
  const TrainPlan plan(net, table, options);
  std::vector<std::int32_t> first, second, other;
  plan.Order(0, first);
  plan.Order(1, second);
  EXPECT_NE(first, second);
  options.seed = 1;
  TrainPlan(net, table, options).Order(0, other);
  EXPECT_NE(first, other);
  std::sort(first.begin(), first.end());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first[i], i);
}

TEST(TrainPlan, CosineFallsFromTheRateTowardsZero) {
  const Table table = RandomTable(100, 2, 2, 1);
  TrainOptions options;
  options.schedule = TrainOptions::Schedule::kCosine;
  options.batch = 10;
  const TrainPlan plan(Architecture::FromName("1x2", 2, 2).value(), table, options);
  EXPECT_EQ(plan.Rate(0, 0), 0.1f);
  EXPECT_NEAR(plan.Rate(25, 0), 0.05, 1e-7);
  EXPECT_LT(plan.Rate(49, 9), 1e-5);
}

}  // namespace
}  // namespace lucid
