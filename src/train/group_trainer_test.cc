// The oracle is scalar_trainer.h: T as a plain scalar loop over one network, written from its
// definition. The kernels must give the same bits.
#include "train/group_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numbers>

#include "random/stream.h"
#include "train/scalar_trainer.h"
#include "train/test_support.h"

namespace lucid {
namespace {

// The rows that are left out are really gone: the plan is made of a table without them.
std::vector<float> TrainedByDefinition(const TrainPlan& plan) {
  PlanReader reader(plan);
  std::vector<std::int32_t> unit_of;
  for (std::int64_t i = 0; i < plan.table().rows(); ++i) unit_of.push_back(plan.UnitOf(i));
  ScalarPlan scalar{plan.architecture(),
                    plan.table(),
                    plan.options(),
                    plan.clipping(),
                    {plan.initial().begin(), plan.initial().end()},
                    std::move(unit_of),
                    plan.steps(),
                    [&](std::int64_t step) { return plan.Rate(step); },
                    [&](std::int64_t step) { return plan.IsAveraged(step); },
                    [&](std::int64_t step) { return reader.Rows(step); },
                    [&](std::int64_t step) { return reader.Noise(step); }};
  if (plan.moments()) scalar.inputs = plan.moments()->Without(kNoRow);
  return ScalarTrainer(scalar).Train();
}

// The table without the unit of a row (kNoRow: with all), its rows in another order.
Table ReducedAndShuffled(const Table& table, const TrainPlan& plan, std::int64_t left_out,
                         std::uint64_t seed) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    if (left_out == kNoRow || plan.UnitOf(i) != plan.UnitOf(left_out)) rows.push_back(i);
  }
  Stream(seed, "order of the file").Shuffle(rows);
  Table result;
  result.features = table.features;
  for (const std::int64_t i : rows) {
    result.x.insert(result.x.end(), table.row(i).begin(), table.row(i).end());
    result.y.push_back(table.y[i]);
    if (table.has_units()) result.unit_ids.push_back(table.unit_ids[i]);
  }
  return result;
}

struct Case {
  std::string name, arch;
  std::int64_t rows, features, classes;
  TrainOptions options;
  bool units = false;  // of 1 to 5 rows
};

std::vector<Case> Cases() {
  using Method = TrainOptions::Method;
  const auto with = [](std::int64_t epochs, std::int64_t batch, auto change) {
    TrainOptions options;
    options.epochs = epochs;
    options.batch = batch;
    change(options);
    return options;
  };
  const auto plain = [](TrainOptions&) {};
  const auto clipped = [](TrainOptions& o) {
    o.method = Method::kClipped;
    o.rate = 1;
  };
  const auto secret = [](TrainOptions& o) {
    o.method = Method::kPrivate;
    o.rate = 1;
    o.noise_variance = std::uint64_t{1} << 30;
  };
  const auto standardised = [&secret](TrainOptions& o) {
    secret(o);
    o.standardise = true;
    o.moments_variance = 1 << 20;
  };
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
      {"Units", "2x8", 60, 4, 2, with(4, 8, plain), true},
      {"Clipped", "2x13", 45, 5, 3, with(4, 16, clipped)},
      {"ClippedInManyMoves", "1x6", 400, 4, 2, with(2, 400, clipped)},
      {"ClippedTinyNorm", "1x6", 300, 4, 2,
       with(2, 300,
            [](auto& o) {
              o.method = Method::kClipped;
              o.clip = 1e-5;
            })},
      {"ClippedConv", "conv", 33, 9, 2, with(3, 10, clipped)},
      {"ClippedUnits", "2x8", 60, 4, 2,
       with(4, 16,
            [](auto& o) {
              o.method = Method::kClipped;
              o.rows_per_unit = 5;
            }),
       true},
      {"Private", "2x13", 45, 5, 3, with(4, 16, secret)},
      {"PrivateWithMomentum", "2x8", 45, 5, 2,
       with(4, 16,
            [](auto& o) {
              o.method = Method::kPrivate;
              o.momentum = 0.5;
              o.average_epochs = 2;
              o.noise_variance = 1 << 20;
            })},
      {"PrivateEverybody", "1x8", 30, 5, 2, with(4, 64, secret)},
      {"ClippedStandardised", "2x13", 45, 5, 3,
       with(4, 16,
            [](auto& o) {
              o.method = Method::kClipped;
              o.standardise = true;
            })},
      {"PrivateStandardised", "2x13", 45, 5, 3, with(4, 16, standardised)},
      {"PrivateStandardisedLinear", "0x1", 45, 7, 2, with(4, 16, standardised)},
      {"PrivateStandardisedConvUnits", "conv", 60, 9, 3,
       with(3, 16,
            [&](auto& o) {
              standardised(o);
              o.rows_per_unit = 5;
            }),
       true},
      {"PrivateConvUnits", "conv", 60, 9, 3,
       with(3, 16,
            [](auto& o) {
              o.method = Method::kPrivate;
              o.rows_per_unit = 5;
              o.noise_variance = std::uint64_t{1} << 30;
            }),
       true},
  };
}

std::optional<Secret> SecretOf(const TrainOptions& options) {
  if (options.method != TrainOptions::Method::kPrivate) return std::nullopt;
  return Secret::FromSeed(5);
}

class GroupTrainerTest : public testing::TestWithParam<Case> {
 protected:
  GroupTrainerTest()
      : table_(TableOf(GetParam())),
        net_(Architecture::FromName(GetParam().arch, GetParam().features, GetParam().classes)
                 .value()),
        options_(GetParam().options),
        plan_(net_, table_, Resolved(), SecretOf(options_)) {}

  static Table TableOf(const Case& c) {
    Table table = RandomTable(c.rows, c.features, c.classes, 3);
    // Some rows are there twice, as in real data.
    std::copy_n(table.x.begin(), c.features, table.x.begin() + 3 * c.features);
    table.y[3] = table.y[0];
    for (std::int64_t i = 0; c.units && i < c.rows; ++i) {
      table.unit_ids.push_back("person " + std::to_string(i % 5 < i / 12 ? i % 12 : i % 15 + 20));
    }
    return c.units ? KeepRows(table, 0, 5) : table;
  }
  const TrainOptions& Resolved() {
    options_.expected_rows = GetParam().rows;
    options_.batches = (GetParam().rows + options_.batch - 1) / options_.batch;
    return options_;
  }
  std::vector<float> Train(const TrainPlan& plan, InstructionSet set,
                           const std::vector<std::int64_t>& left_out) const {
    std::vector<float> out(left_out.size() *
                           static_cast<std::size_t>(plan.architecture().parameters()));
    const Status status = GroupTrainer(plan, set).Train(left_out, out);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return out;
  }
  std::vector<float> Train(InstructionSet set, const std::vector<std::int64_t>& left_out) const {
    return Train(plan_, set, left_out);
  }

  Table table_;
  Architecture net_;
  TrainOptions options_;
  TrainPlan plan_;
};

// Rule R: a member is what training on the file without the unit gives, whatever the order of its
// lines, to the bit; with every instruction set, and for N, too.
TEST_P(GroupTrainerTest, AMemberIsTrainingWithoutTheUnitAsThePlainLoopDoesIt) {
  const auto parameters = static_cast<std::size_t>(net_.parameters());
  std::map<std::int64_t, std::vector<float>> expected;
  for (InstructionSet set : AvailableInstructionSets()) {
    const int lanes = GroupTrainer(plan_, set).lanes();
    std::vector<std::int64_t> left_out = {kNoRow};
    // Row 3 equals row 0, which is the one of them that a member leaves out.
    for (int i = 1; i < lanes; ++i) {
      const std::int64_t row = (5 * i) % table_.rows();
      left_out.push_back(row == 3 && !table_.has_units() ? 0 : row);
    }
    const std::vector<float> out = Train(set, left_out);
    for (std::size_t k = 0; k < left_out.size(); ++k) {
      if (!expected.contains(left_out[k])) {
        const Table reduced = ReducedAndShuffled(table_, plan_, left_out[k], k);
        const TrainPlan plan(net_, reduced, options_, SecretOf(options_));
        expected[left_out[k]] = TrainedByDefinition(plan);
        const std::vector<float> n = Train(plan, set, {kNoRow});
        ASSERT_EQ(n, expected[left_out[k]]) << "N of the reduced file";
      }
      for (std::size_t i = 0; i < parameters; ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out[k * parameters + i]),
                  std::bit_cast<std::uint32_t>(expected[left_out[k]][i] + 0.0f))
            << NameOf(set) << ", without row " << left_out[k] << ", parameter " << i;
      }
    }
  }
}

TEST_P(GroupTrainerTest, ANetworkDoesNotDependOnItsNeighboursInTheGroup) {
  const InstructionSet set = AvailableInstructionSets().front();
  const auto parameters = static_cast<std::size_t>(net_.parameters());
  const std::vector<float> alone = Train(set, {2});
  const int lanes = GroupTrainer(plan_, set).lanes();
  std::vector<std::int64_t> others(static_cast<std::size_t>(lanes));
  for (int i = 0; i < lanes; ++i) others[i] = (7 * i + 1) % table_.rows();
  others.back() = 2;
  const std::vector<float> together = Train(set, others);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.end() - parameters));
}

TEST_P(GroupTrainerTest, LeavingAUnitOutMatters) {
  const std::vector<float> all = Train(AvailableInstructionSets().front(), {kNoRow});
  EXPECT_NE(all, Train(AvailableInstructionSets().front(), {1}));
}

TEST_P(GroupTrainerTest, EqualRowsHaveEqualMembers) {
  if (table_.has_units()) GTEST_SKIP() << "rows of a unit go together";
  // Rows 0 and 3 are equal: whichever goes, the same set of rows is left, under other keys.
  const Table first = ReducedAndShuffled(table_, plan_, 0, 1);
  const Table second = ReducedAndShuffled(table_, plan_, 3, 2);
  const TrainPlan a(net_, first, options_, SecretOf(options_));
  const TrainPlan b(net_, second, options_, SecretOf(options_));
  const InstructionSet set = AvailableInstructionSets().front();
  EXPECT_EQ(Train(a, set, {kNoRow}), Train(b, set, {kNoRow}));
  EXPECT_EQ(Train(set, {0}), Train(a, set, {kNoRow})) << "the first of them is the one that goes";
}

// A fault that is planted: keys of where rows stand instead of what they are. The comparison above
// must see it.
TEST_P(GroupTrainerTest, APlanByPositionIsCaught) {
  if (plan_.batches_per_epoch() == 1) GTEST_SKIP() << "one batch of all rows knows no keys";
  const auto by_position = [](const Table& table) {
    TableKeys keys = TableKeys::Of(table);
    for (std::size_t i = 0; i < keys.rows.size(); ++i) {
      keys.rows[i] = Sha256Of("row " + std::to_string(i));
      if (!table.has_units()) keys.units[i] = keys.rows[i];
    }
    if (table.has_units()) {  // units by the place of their first row
      std::map<Digest, Digest> first;
      for (std::size_t i = 0; i < keys.units.size(); ++i) {
        keys.units[i] = first.emplace(keys.units[i], keys.rows[i]).first->second;
      }
    }
    return keys;
  };
  const InstructionSet set = AvailableInstructionSets().front();
  const TrainPlan plan(net_, table_, by_position(table_), options_, SecretOf(options_));
  int different = 0;
  for (const std::int64_t left_out : {1, 2, 5, 7}) {
    const Table reduced = ReducedAndShuffled(table_, plan_, left_out, 1);
    const TrainPlan less(net_, reduced, by_position(reduced), options_, SecretOf(options_));
    different += Train(plan, set, {left_out}) != Train(less, set, {kNoRow});
  }
  EXPECT_EQ(different, 4);
}

INSTANTIATE_TEST_SUITE_P(All, GroupTrainerTest, testing::ValuesIn(Cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(GroupTrainer, DivergenceIsAnErrorThatSaysWhatToDo) {
  const Table table = RandomTable(40, 4, 2, 1);
  TrainOptions options;
  options.epochs = 30;
  options.batch = 8;
  options.batches = 5;
  options.rate = 1000;
  options.weight_decay = 10;
  const TrainPlan plan(Architecture::FromName("2x8", 4, 2).value(), table, options);
  std::vector<float> out(static_cast<std::size_t>(plan.architecture().parameters()));
  const std::int64_t none = kNoRow;
  const Status status =
      GroupTrainer(plan, AvailableInstructionSets().front()).Train(std::span(&none, 1), out);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, testing::HasSubstr("a smaller learning rate"));
}

// Weights so large that sums overflow in the middle of some networks, and rows that are nothing to
// them. Members are still training without the row, with every instruction set.
TEST(GroupTrainer, RowsThatOverflowReachNobody) {
  const Table table = RandomTable(60, 6, 3, 2);
  const Architecture net = Architecture::FromName("4x12", 6, 3).value();
  TrainOptions options;
  options.method = TrainOptions::Method::kPrivate;
  options.epochs = 6;
  options.batch = 20;
  options.batches = 3;
  options.expected_rows = 60;
  options.rate = 1000;
  options.clip = 0x1p20;
  options.noise_variance = std::uint64_t{1} << 52;
  const TrainPlan plan(net, table, options, Secret::FromSeed(5));
  const auto parameters = static_cast<std::size_t>(net.parameters());
  const std::vector<std::int64_t> left_out = {kNoRow, 4, 17, 40};
  std::map<std::int64_t, std::vector<float>> expected;
  for (const InstructionSet set : AvailableInstructionSets()) {
    for (const std::int64_t row : left_out) {
      std::vector<float> member(parameters), n(parameters);
      ASSERT_TRUE(GroupTrainer(plan, set).Train(std::span(&row, 1), member).ok());
      const Table reduced = ReducedAndShuffled(table, plan, row, 1);
      const TrainPlan less(net, reduced, options, Secret::FromSeed(5));
      const std::int64_t none = kNoRow;
      ASSERT_TRUE(GroupTrainer(less, set).Train(std::span(&none, 1), n).ok());
      EXPECT_EQ(n, member) << NameOf(set) << " without " << row;
      EXPECT_EQ(expected.emplace(row, member).first->second, member) << NameOf(set);
    }
  }
  // The largest weights really are that large: four layers of them leave the range of floats.
  EXPECT_GT(std::ranges::max(expected[kNoRow]), 1e10F);
  EXPECT_LT(std::ranges::max(expected[kNoRow]), std::numeric_limits<float>::infinity());
}

// The sensitivity as it is: one step of the real trainer with and without a unit. The step's
// integers differ by at most what is charged, and nearly as much where the clip decides.
TEST(GroupTrainer, LeavingAUnitOutMovesAStepByAtMostWhatIsCharged) {
  struct Kind {
    const char* arch;
    std::int64_t rows_per_unit;
    double clip;
  };
  for (const Kind& kind : {Kind{"2x13", 1, 0.05}, Kind{"2x13", 5, 0.05}, Kind{"conv", 1, 0.05},
                           Kind{"conv", 5, 0.05}, Kind{"0x1", 8, 0.01}}) {
    Table table = RandomTable(300, 9, 3, 4);
    if (kind.rows_per_unit > 1) {
      for (std::int64_t i = 0; i < table.rows(); ++i) {
        table.unit_ids.push_back("p" + std::to_string(i / kind.rows_per_unit));
      }
    }
    TrainOptions options;
    options.method = TrainOptions::Method::kClipped;
    options.epochs = options.batches = 1;
    options.batch = options.expected_rows = table.rows();
    options.rate = 1000;
    options.weight_decay = 0;
    options.clip = kind.clip;
    options.rows_per_unit = kind.rows_per_unit;
    const Architecture net = Architecture::FromName(kind.arch, 9, 3).value();
    double largest = 0;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      options.seed = seed;
      const TrainPlan plan(net, table, options);
      const auto parameters = static_cast<std::size_t>(net.parameters());
      const GroupTrainer trainer(plan, AvailableInstructionSets().front());
      std::vector<std::int64_t> left_out = {kNoRow};
      while (std::ssize(left_out) < trainer.lanes()) {
        left_out.push_back(std::ssize(left_out) * 7 * kind.rows_per_unit % table.rows());
      }
      std::vector<float> out(left_out.size() * parameters);
      ASSERT_TRUE(trainer.Train(left_out, out).ok());
      const double unit = 1000 * static_cast<double>(plan.clipping()->scale);
      for (std::size_t k = 1; k < left_out.size(); ++k) {
        double square = 0;
        for (std::size_t i = 0; i < parameters; ++i) {
          const double moved = out[k * parameters + i] - out[i];
          square += moved * moved / (unit * unit);
        }
        largest = std::max(largest, std::sqrt(square));
      }
      // Weights are floats: what they were moved by is known to a few parts in 10^5.
      EXPECT_LE(largest, plan.clipping()->sensitivity * (1 + 1e-4)) << kind.arch;
      EXPECT_GT(largest, 0.9 * kind.clip / static_cast<double>(plan.clipping()->grid))
          << kind.arch << ", units of " << kind.rows_per_unit;
    }
  }
}

// The same of standardised inputs, which may be negative so that rows of a unit may cancel: the
// sums themselves, because members have other centers than N.
TEST(GroupTrainer, LeavingAUnitOutMovesAStepOfStandardisedInputsByAtMostWhatIsCharged) {
  for (const char* arch : {"2x13", "conv", "0x1"}) {
    for (const std::int64_t rows_per_unit : {1, 5}) {
      Table table = RandomTable(300, 9, 3, 4);
      for (std::int64_t i = 0; rows_per_unit > 1 && i < table.rows(); ++i) {
        table.unit_ids.push_back("p" + std::to_string(i / rows_per_unit));
      }
      TrainOptions options;
      options.method = TrainOptions::Method::kClipped;
      options.epochs = options.batches = 1;
      options.batch = options.expected_rows = table.rows();
      options.clip = 0.05;
      options.rows_per_unit = rows_per_unit;
      options.standardise = true;
      const Architecture net = Architecture::FromName(arch, 9, 3).value();
      const TrainPlan plan(net, table, options);
      const auto parameters = static_cast<std::size_t>(net.parameters());
      for (const InstructionSet set : AvailableInstructionSets()) {
        const GroupTrainer trainer(plan, set);
        std::vector<std::int64_t> left_out = {kNoRow};
        while (std::ssize(left_out) < trainer.lanes()) {
          left_out.push_back(std::ssize(left_out) * 7 * rows_per_unit % table.rows());
        }
        std::vector<std::int32_t> sums(left_out.size() * parameters);
        ASSERT_TRUE(trainer.StepSums(plan.initial(), 0, left_out, sums).ok());
        double largest = 0;
        for (std::size_t k = 1; k < left_out.size(); ++k) {
          double square = 0;
          for (std::size_t i = 0; i < parameters; ++i) {
            square += std::pow(static_cast<double>(sums[k * parameters + i]) - sums[i], 2);
          }
          largest = std::max(largest, std::sqrt(square));
        }
        EXPECT_LE(largest, plan.clipping()->sensitivity) << arch << ", units of " << rows_per_unit;
        if (left_out.size() > 1) {
          EXPECT_GT(largest, 0.9 * options.clip / static_cast<double>(plan.clipping()->grid))
              << arch << ", units of " << rows_per_unit;
        }
      }
    }
  }
}

TEST(GroupTrainer, StopIsHonouredBetweenBatches) {
  const Table table = RandomTable(40, 4, 2, 1);
  TrainOptions options;
  options.batches = 1;
  const TrainPlan plan(Architecture::FromName("2x8", 4, 2).value(), table, options);
  std::vector<float> out(static_cast<std::size_t>(plan.architecture().parameters()));
  std::stop_source stop;
  stop.request_stop();
  const std::int64_t none = kNoRow;
  const Status status = GroupTrainer(plan, AvailableInstructionSets().front())
                            .Train(std::span(&none, 1), out, stop.get_token());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kInterrupted);
}

TEST(GroupTrainer, TheDefinitionsExpIsAnExp) {
  for (float x = 0; x > -80; x -= 0.37f) {
    EXPECT_NEAR(ScalarExp(x) / std::exp(static_cast<double>(x)), 1, 3e-7) << x;
  }
  EXPECT_EQ(ScalarExp(0), 1.0f);
}

TrainOptions PlanOptions(std::int64_t batches) {
  TrainOptions options;
  options.batch = 10;
  options.batches = batches;
  return options;
}

TEST(TrainPlan, EveryRowIsInOneBatchOfAnEpochAndTheSeedDecidesWhich) {
  const Table table = RandomTable(100, 2, 2, 1);
  const Architecture net = Architecture::FromName("1x2", 2, 2).value();
  TrainOptions options = PlanOptions(10);
  const auto batches_of = [&](std::int64_t epoch) {
    const TrainPlan plan(net, table, options);
    PlanReader reader(plan);
    std::vector<std::int64_t> batch_of(100, -1);
    for (std::int64_t b = 0; b < 10; ++b) {
      for (const std::int32_t row : reader.Rows(10 * epoch + b)) {
        EXPECT_EQ(batch_of[row], -1) << "twice";
        batch_of[row] = b;
      }
    }
    EXPECT_EQ(std::ranges::count(batch_of, -1), 0);
    return batch_of;
  };
  const auto first = batches_of(0), second = batches_of(1);
  EXPECT_NE(first, second);
  options.seed = 1;
  EXPECT_NE(first, batches_of(0));
}

// Statistical, with a fixed seed: 6 standard deviations.
TEST(TrainPlan, PoissonSamplingTakesEveryRowWithItsProbability) {
  const Table table = RandomTable(300, 2, 2, 1);
  TrainOptions options = PlanOptions(10);
  options.method = TrainOptions::Method::kPrivate;
  options.epochs = 40;
  options.batch = 100;
  options.expected_rows = 1000;
  options.noise_variance = 1;
  const TrainPlan plan(Architecture::FromName("1x2", 2, 2).value(), table, options,
                       Secret::FromSeed(1));
  ASSERT_EQ(plan.steps(), 400);
  PlanReader reader(plan);
  std::int64_t count = 0;
  for (std::int64_t step = 0; step < plan.steps(); ++step) count += std::ssize(reader.Rows(step));
  const double draws = 300.0 * 400;
  EXPECT_NEAR(static_cast<double>(count), 0.1 * draws, 6 * std::sqrt(0.09 * draws));
}

TEST(TrainPlan, CosineFallsFromTheRateTowardsZero) {
  const Table table = RandomTable(100, 2, 2, 1);
  TrainOptions options = PlanOptions(10);
  options.schedule = TrainOptions::Schedule::kCosine;
  const TrainPlan plan(Architecture::FromName("1x2", 2, 2).value(), table, options);
  EXPECT_EQ(plan.Rate(0), 0.1f);
  EXPECT_NEAR(plan.Rate(250), 0.05, 1e-7);
  EXPECT_LT(plan.Rate(499), 1e-5);
}

}  // namespace
}  // namespace lucid
