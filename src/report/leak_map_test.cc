#include "lucid/report/leak_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "report/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;

// Everything again in the plainest way: one decision at a time, points outside, members inside.
struct BruteForce {
  std::vector<std::int32_t> labels, flips;
  std::map<std::int64_t, std::int64_t> points_of_row;
  std::vector<double> largest_confidence;  // per class, over leaking points
  std::vector<std::set<std::int64_t>> rows;
  std::int64_t test_leaking = 0;

  BruteForce(const SmallRun& run, std::int64_t grid)
      : largest_confidence(static_cast<std::size_t>(run.dataset.classes()), 0),
        rows(static_cast<std::size_t>(run.dataset.classes())) {
    const Evaluator network(run.ensemble.network());
    for (std::int64_t j = 0; j < grid; ++j) {
      for (std::int64_t i = 0; i < grid; ++i) {
        const double steps = static_cast<double>(grid - 1);
        const float x[2] = {static_cast<float>(static_cast<double>(i) / steps),
                            static_cast<float>(static_cast<double>(j) / steps)};
        const Decision decision = network.Decide(x);
        const auto label = static_cast<std::size_t>(decision.label);
        labels.push_back(decision.label);
        flips.push_back(0);
        for (std::int64_t m = 0; m < run.ensemble.members(); ++m) {
          if (Evaluator(run.ensemble.Member(m)).Decide(x).label == decision.label) continue;
          ++flips.back();
          ++points_of_row[run.ensemble.RowOf(m)];
          rows[label].insert(run.ensemble.RowOf(m));
          largest_confidence[label] = std::max(largest_confidence[label], decision.confidence);
        }
      }
    }
    for (std::int64_t r = 0; r < run.dataset.test.rows(); ++r) {
      bool leaks = false;
      for (std::int64_t m = 0; m < run.ensemble.members(); ++m) {
        const auto x = run.dataset.test.row(r);
        leaks |= Evaluator(run.ensemble.Member(m)).Decide(x).label != network.Decide(x).label;
      }
      test_leaking += leaks;
    }
  }
};

void ExpectEqualsBruteForce(const SmallRun& run) {
  LeakMapOptions options;
  options.grid = 15;
  options.threads = 3;
  const LeakMap map = ComputeLeakMap(run.ensemble, run.dataset, options).value();
  const BruteForce truth(run, options.grid);
  EXPECT_EQ(map.labels, truth.labels);
  EXPECT_EQ(map.flips, truth.flips);
  EXPECT_GT(map.leaking(), 0) << "nothing leaks: the test shows nothing";
  EXPECT_EQ(map.test_leaking, truth.test_leaking);
  ASSERT_EQ(map.influences.size(), truth.points_of_row.size());
  for (std::size_t k = 0; k < map.influences.size(); ++k) {
    EXPECT_EQ(map.influences[k].points, truth.points_of_row.at(map.influences[k].row));
    EXPECT_LE(map.influences[k].points, map.influences[k == 0 ? 0 : k - 1].points);
  }
  for (std::size_t k = 0; k < map.flips.size(); ++k) {
    EXPECT_EQ(map.flips[k] > 0, map.margin[k] <= 0) << k;
  }
  std::int64_t points = 0;
  for (const ClassLeak& leak : map.classes) {
    const auto c = static_cast<std::size_t>(leak.label);
    points += leak.points;
    EXPECT_EQ(leak.rows_that_matter, static_cast<std::int64_t>(truth.rows[c].size()));
    EXPECT_EQ(leak.witness.has_value(), leak.leaking > 0);
    if (!leak.witness) continue;
    EXPECT_LE(leak.beta_lower, truth.largest_confidence[c]);
    EXPECT_NEAR(leak.beta_lower, truth.largest_confidence[c], 1e-10);
  }
  EXPECT_EQ(points, map.points());
}

TEST(LeakMap, EqualsBruteForceOnTheBuiltInData) {
  ExpectEqualsBruteForce(SyntheticRun(ScratchFolder()));
}
TEST(LeakMap, EqualsBruteForceOnThreeClasses) {
  ExpectEqualsBruteForce(HostileRun(ScratchFolder()));
}

TEST(LeakMap, WitnessIsAnInputWhereTheMemberGivesAnotherLabel) {
  const SmallRun run = SyntheticRun(ScratchFolder());
  LeakMapOptions options;
  options.grid = 31;
  const LeakMap map = ComputeLeakMap(run.ensemble, run.dataset, options).value();
  for (const ClassLeak& leak : map.classes) {
    ASSERT_TRUE(leak.witness.has_value());
    const Decision decision = Evaluator(run.ensemble.network()).Decide(leak.witness->x);
    EXPECT_EQ(decision.label, leak.label);
    EXPECT_EQ(decision.confidence, leak.witness->confidence);
    EXPECT_LT(leak.beta_lower, decision.confidence);
    ASSERT_EQ(run.ensemble.RowOf(leak.witness->row), leak.witness->row);
    EXPECT_NE(Evaluator(run.ensemble.Member(leak.witness->row)).Decide(leak.witness->x).label,
              leak.label);
  }
}

TEST(LeakMap, ThreadsDoNotShowInTheResult) {
  const SmallRun run = SyntheticRun(ScratchFolder());
  LeakMapOptions one, four;
  one.grid = four.grid = 20;
  one.threads = 1;
  four.threads = 4;
  const LeakMap a = ComputeLeakMap(run.ensemble, run.dataset, one).value();
  const LeakMap b = ComputeLeakMap(run.ensemble, run.dataset, four).value();
  EXPECT_EQ(a.flips, b.flips);
  EXPECT_EQ(a.margin, b.margin);
  for (std::size_t c = 0; c < a.classes.size(); ++c) {
    EXPECT_EQ(a.classes[c].beta_lower, b.classes[c].beta_lower);
    EXPECT_EQ(a.classes[c].strongest_row, b.classes[c].strongest_row);
    EXPECT_EQ(a.classes[c].witness->row, b.classes[c].witness->row);
  }
}

TEST(LeakMap, RefusesWhatItCannotDraw) {
  const SmallRun run = SyntheticRun(ScratchFolder());
  Dataset three = run.dataset;
  three.train.features = 3;
  const auto features = ComputeLeakMap(run.ensemble, three);
  ASSERT_FALSE(features.ok());
  EXPECT_THAT(features.error().message, HasSubstr("needs 2 features"));
  Dataset other = run.dataset;
  other.train_digest = Sha256Of("another");
  const auto mismatch = ComputeLeakMap(run.ensemble, other);
  ASSERT_FALSE(mismatch.ok());
  EXPECT_EQ(mismatch.error().kind, ErrorKind::kMismatch);
  LeakMapOptions options;
  options.grid = 1;
  EXPECT_FALSE(ComputeLeakMap(run.ensemble, run.dataset, options).ok());
}

TEST(LeakMap, StopsOnRequestAndReportsProgress) {
  const SmallRun run = SyntheticRun(ScratchFolder());
  std::stop_source stop;
  LeakMapOptions options;
  options.threads = 1;
  options.grid = 8;
  std::int64_t last = 0;
  const auto result = ComputeLeakMap(
      run.ensemble, run.dataset, options,
      [&](const Progress& progress) {
        EXPECT_EQ(progress.done, last + 1);
        EXPECT_EQ(progress.total, run.ensemble.members());
        last = progress.done;
        if (last == 5) stop.request_stop();
      },
      stop.get_token());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(last, 5);
}

}  // namespace
}  // namespace lucid
