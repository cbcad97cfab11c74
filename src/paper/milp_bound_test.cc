#include "paper/milp_bound.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "base/task_team.h"
#include "certificate/test_support.h"
#include "native/bound_team.h"
#include "paper/test_support.h"
#include "support/local_team.h"

namespace lucid {
namespace {

// A run that takes some splits: several members each leak a little.
class RunTest : public testing::Test {
 protected:
  static ImportedRun Make() {
    Stream stream(4, "run for bounds");
    Network network = RandomNetwork(
        Hidden({{HiddenLayer::Kind::kDense, 4}, {HiddenLayer::Kind::kDense, 3}}, 3, 2), stream);
    Balance(network, stream);
    return {network, RandomMembers(network, 12, 0.03, stream)};
  }

  MilpBoundOptions Options(Variant variant) const {
    MilpBoundOptions options;
    options.variant = variant;
    options.common.gap = 1e-4;
    options.common.threads = 1;
    options.tighten = variant != Variant::kHMB;
    return options;
  }
  Certificate Bounds(const MilpBoundOptions& options) const {
    return ComputeBoundsByMilp(ensemble_, options).value();
  }
  static void ExpectSameBits(const Certificate& a, const Certificate& b) {
    ASSERT_EQ(a.classes.size(), b.classes.size());
    for (std::size_t c = 0; c < a.classes.size(); ++c) {
      EXPECT_EQ(a.classes[c].beta_upper, b.classes[c].beta_upper) << "class " << c;
    }
  }
  // Of one search, by whomever it was done.
  static void ExpectSameCertificate(const Certificate& a, const Certificate& b) {
    ExpectSameBits(a, b);
    for (std::size_t c = 0; c < a.classes.size(); ++c) {
      EXPECT_EQ(a.classes[c].beta_lower, b.classes[c].beta_lower) << "class " << c;
      EXPECT_EQ(a.classes[c].status, b.classes[c].status) << "class " << c;
      EXPECT_EQ(a.classes[c].counters, b.classes[c].counters) << "class " << c;
      ASSERT_EQ(a.classes[c].witness.has_value(), b.classes[c].witness.has_value());
      if (!a.classes[c].witness) continue;
      EXPECT_EQ(a.classes[c].witness->x, b.classes[c].witness->x) << "class " << c;
      EXPECT_EQ(a.classes[c].witness->member, b.classes[c].witness->member) << "class " << c;
    }
  }
  // A helper that knows no other tasks.
  Status Help(Team& team) const {
    MilpHelper helper(ensemble_);
    const TeamService service{[&](std::string_view topic, std::stop_token nobody_waits) {
                                return helper.Begin(topic, std::move(nobody_waits));
                              },
                              [&](ByteCursor& in, int worker, std::string& out) {
                                return helper.Answer(in, worker, out);
                              }};
    return HelpTaskTeam(team, SubjectOf(ensemble_), 1, service, {});
  }
  static std::int64_t Counter(const ClassBound& bound, const std::string& name) {
    for (const auto& [key, value] : bound.counters) {
      if (key == name) return value;
    }
    return -1;
  }

  const ImportedRun run_ = Make();
  const Ensemble ensemble_ = run_.Open();
  const TemporaryFolder folder_;
};

TEST_F(RunTest, OneWorkerAndEightGiveTheSameBits) {
  std::int64_t splits = 0;
  for (const Variant variant : {Variant::kNaive, Variant::kHMB, Variant::kFull}) {
    SCOPED_TRACE(NameOf(variant));
    MilpBoundOptions options = Options(variant);
    const Certificate one = Bounds(options);
    options.common.threads = 8;
    const Certificate eight = Bounds(options);
    ExpectSameCertificate(one, eight);
    for (const ClassBound& bound : one.classes) {
      EXPECT_NE(bound.status, BoundStatus::kDeadline);
      EXPECT_GE(bound.beta_upper, bound.beta_lower);
      splits += Counter(bound, "splits");
    }
  }
  EXPECT_GT(splits, 0) << "the test has become easy";
}

TEST_F(RunTest, AnyNumberOfProcessesGivesTheCertificateOfOne) {
  for (const Variant variant : {Variant::kNaive, Variant::kH, Variant::kHMB, Variant::kFull}) {
    const Certificate alone = Bounds(Options(variant));
    for (const int processes : {2, 3, 5}) {
      SCOPED_TRACE(testing::Message() << NameOf(variant) << ", " << processes << " processes");
      LocalTeamOf team(processes, [this](Team& helper) { return Help(helper); });
      MilpBoundOptions options = Options(variant);
      options.common.team = &team.leader();
      ExpectSameCertificate(alone, Bounds(options));
    }
  }
}

// What several processes left in the journal is gone on with by another number.
TEST_F(RunTest, AnotherNumberOfProcessesGoesOn) {
  const Certificate whole = Bounds(Options(Variant::kHMB));
  std::int64_t milps = 1;
  bool stopped_early = false;
  for (const int processes : {3, 2, 1, 4}) {
    MilpBoundOptions options = Options(Variant::kHMB);
    options.common.journal = folder_ / "bound.journal";
    options.common.resume = milps > 1;
    LocalTeamOf team(processes, [this](Team& helper) { return Help(helper); });
    options.common.team = &team.leader();
    std::stop_source source;
    const bool last = processes == 4;
    const auto found = ComputeBoundsByMilp(
        ensemble_, options,
        [&](const Progress& progress) {
          if (!last && progress.done >= milps) source.request_stop();
        },
        source.get_token());
    ASSERT_TRUE(found.ok()) << found.error().message;
    milps += 2;
    for (std::size_t c = 0; c < whole.classes.size(); ++c) {
      EXPECT_GE(found->classes[c].beta_upper, whole.classes[c].beta_lower) << "UNSOUND";
      stopped_early |= found->classes[c].status == BoundStatus::kDeadline;
    }
    if (last) ExpectSameBits(whole, *found);
  }
  EXPECT_TRUE(stopped_early);
}

// With a team, too, a time limit gives looser bounds that hold.
TEST_F(RunTest, ATeamOutOfTimeGivesBoundsThatHold) {
  const Certificate whole = Bounds(Options(Variant::kFull));
  for (const double limit : {1e-9, 1e-3, 0.02, 0.1}) {
    LocalTeamOf team(3, [this](Team& helper) { return Help(helper); });
    MilpBoundOptions options = Options(Variant::kFull);
    options.common.team = &team.leader();
    options.common.time_limit = limit;
    const Certificate hurried = Bounds(options);
    for (std::size_t c = 0; c < whole.classes.size(); ++c) {
      EXPECT_GE(hurried.classes[c].beta_upper, whole.classes[c].beta_lower) << "UNSOUND";
    }
  }
}

TEST_F(RunTest, ResumedAfterAStopItEndsWithTheSameBits) {
  MilpBoundOptions options = Options(Variant::kHMB);
  const Certificate whole = Bounds(options);
  options.common.journal = folder_ / "bound.journal";
  bool stopped_early = false;
  for (const std::int64_t milps : {1, 2, 4, 7}) {
    SCOPED_TRACE(testing::Message() << "stopped after " << milps << " MILPs");
    options.common.resume = false;
    std::stop_source source;
    const auto stopped = ComputeBoundsByMilp(
        ensemble_, options,
        [&](const Progress& progress) {
          if (progress.done >= milps) source.request_stop();
        },
        source.get_token());
    ASSERT_TRUE(stopped.ok()) << stopped.error().message;
    for (std::size_t c = 0; c < whole.classes.size(); ++c) {
      EXPECT_GE(stopped->classes[c].beta_upper, whole.classes[c].beta_lower);
      stopped_early |= stopped->classes[c].status == BoundStatus::kDeadline;
    }
    EXPECT_TRUE(std::filesystem::exists(options.common.journal));
    options.common.resume = true;
    ExpectSameBits(Bounds(options), whole);
    EXPECT_FALSE(std::filesystem::exists(options.common.journal)) << "nothing is left to resume";
  }
  EXPECT_TRUE(stopped_early);
}

// Resumed again and again, one MILP at a time: what is in the journal is not solved twice.
TEST_F(RunTest, EveryResumeGoesFurther) {
  MilpBoundOptions options = Options(Variant::kHMB);
  options.common.label = 0;
  const Certificate whole = Bounds(options);
  options.common.journal = folder_ / "bound.journal";
  options.common.resume = true;
  std::int64_t before = 0;
  for (int round = 0; round < 200; ++round) {
    std::stop_source source;
    const auto part = ComputeBoundsByMilp(
        ensemble_, options,
        [&](const Progress& progress) {
          if (progress.done > before) source.request_stop();
        },
        source.get_token());
    ASSERT_TRUE(part.ok()) << part.error().message;
    if (part->classes[0].status != BoundStatus::kDeadline) {
      ExpectSameBits(*part, whole);
      EXPECT_GT(before, 0);
      return;
    }
    ++before;
  }
  FAIL() << "does not come to an end";
}

TEST_F(RunTest, AStopBeforeTheStartGivesACeilingAndNoError) {
  std::stop_source source;
  source.request_stop();
  const auto found =
      ComputeBoundsByMilp(ensemble_, Options(Variant::kFull), {}, source.get_token());
  ASSERT_TRUE(found.ok()) << found.error().message;
  const Certificate whole = Bounds(Options(Variant::kFull));
  for (std::size_t c = 0; c < whole.classes.size(); ++c) {
    EXPECT_GE(found->classes[c].beta_upper, whole.classes[c].beta_lower);
    EXPECT_EQ(found->classes[c].status, BoundStatus::kDeadline);
  }
}

TEST_F(RunTest, NoTimeGivesACeilingAndNoError) {
  MilpBoundOptions options = Options(Variant::kFull);
  options.common.time_limit = 1e-9;
  const Certificate hurried = Bounds(options);
  for (const ClassBound& bound : hurried.classes) {
    EXPECT_EQ(bound.status, BoundStatus::kDeadline);
    EXPECT_LT(bound.beta_upper, 1e6);
    EXPECT_GE(bound.beta_upper, bound.beta_lower);
  }
}

TEST_F(RunTest, OnlyTheClassThatIsAskedForIsBounded) {
  MilpBoundOptions options = Options(Variant::kFull);
  options.common.label = 1;
  const Certificate one = Bounds(options);
  ASSERT_EQ(one.classes.size(), 2U);
  EXPECT_EQ(one.classes[0].beta_upper, std::numeric_limits<double>::infinity());
  EXPECT_LT(one.classes[1].beta_upper, 100);
}

TEST_F(RunTest, AJournalOfOtherOptionsIsRefused) {
  MilpBoundOptions options = Options(Variant::kHMB);
  options.common.journal = folder_ / "bound.journal";
  std::stop_source source;
  const auto stopped = ComputeBoundsByMilp(
      ensemble_, options, [&](const Progress&) { source.request_stop(); }, source.get_token());
  ASSERT_TRUE(stopped.ok()) << stopped.error().message;
  options.common.resume = true;
  options.tau = 0.5;
  const auto other = ComputeBoundsByMilp(ensemble_, options);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::kMismatch);
}

}  // namespace
}  // namespace lucid
