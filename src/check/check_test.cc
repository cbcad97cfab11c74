#include "lucid/check/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "certificate/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;

// Three inputs of which one counts. N: class 1 with confidence relu(a) - 0.5; the member the same
// of relu(a - shift).
Network Shifted(float shift) {
  return {Architecture::FromCanonical("3 > dense 1 > 2").value(),
          {1, 0, 0, -shift, -0.5F, 0.5F, 0.25F, -0.25F}};
}

std::vector<Network> FiveAndShifted(float shift) {
  std::vector<Network> members(5, Shifted(0.001F));
  members.push_back(Shifted(shift));
  return members;
}

std::set<std::string> Failed(const CheckReport& report) {
  std::set<std::string> names;
  for (const Check& check : report.checks) {
    if (check.outcome == Check::Outcome::kFailed) names.insert(check.name);
  }
  return names;
}

TEST(CheckReport, AcceptsOnlyWhatWasChecked) {
  CheckReport report;
  EXPECT_FALSE(report.accepted()) << "no check at all";
  report.checks = {{"a", Check::Outcome::kPassed, ""}};
  EXPECT_TRUE(report.accepted());
  report.checks.push_back({"b", Check::Outcome::kNotDone, ""});
  EXPECT_FALSE(report.accepted());
  EXPECT_EQ(report.FirstProblem()->name, "b");
  report.checks.push_back({"c", Check::Outcome::kFailed, ""});
  EXPECT_EQ(report.FirstProblem()->name, "c");
}

TEST(CheckBinding, NamesWhatDoesNotFit) {
  const ImportedRun run = RandomRun("3 > dense 4 > 2", 1, 6, 0.1);
  const Ensemble ensemble = run.Open();
  Certificate good = Claim(ensemble, 1);
  good.classes[1].witness = Witness{{0, 0.5F, 1}, 2, 2};
  const auto accepted = CheckBinding(good, run.path());
  ASSERT_TRUE(accepted.ok());
  EXPECT_TRUE(accepted->accepted()) << accepted->FirstProblem()->detail;

  const auto failed = [&](auto change) {
    Certificate c = good;
    change(c);
    const auto report = CheckBinding(c, ensemble);
    EXPECT_FALSE(report->accepted());
    return Failed(*report);
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(failed([](auto& c) { c.run_key = Digest(); }), Names{"run key"});
  EXPECT_EQ(failed([](auto& c) { c.schema_digest = Digest(); }), Names{"schema"});
  EXPECT_EQ(failed([](auto& c) { c.train_digest = Digest(); }), Names{"training data"});
  EXPECT_EQ(failed([](auto& c) { c.architecture_digest = Digest(); }), Names{"architecture"});
  EXPECT_EQ(failed([](auto& c) { c.network_digest = Digest(); }), Names{"network"});
  EXPECT_EQ(failed([](auto& c) { c.ensemble_digest = Digest(); }), Names{"ensemble"});
  EXPECT_EQ(failed([](auto& c) { c.rows = 7; }), Names{"rows"});
  EXPECT_EQ(failed([](auto& c) { c.members = 5; }), Names{"members"});
  EXPECT_EQ(failed([](auto& c) { c.partial = true; }), Names{"partial"});
  EXPECT_EQ(failed([](auto& c) { c.network_error *= 2; }), Names{"forward error of N"});
  EXPECT_EQ(failed([](auto& c) { c.classes[1].label = 0; }), Names{"class 1"});
  EXPECT_EQ(failed([](auto& c) { c.classes[0].beta_upper = std::nan(""); }), Names{"class 0"});
  EXPECT_EQ(failed([](auto& c) { c.classes[0].beta_upper = -1; }), Names{"class 0"});
  EXPECT_EQ(failed([](auto& c) { c.classes[1].beta_lower = 2; }), Names{"class 1"});
  EXPECT_EQ(failed([](auto& c) { c.classes[1].witness->member = 6; }), Names{"class 1"});
  EXPECT_EQ(failed([](auto& c) { c.classes[1].witness->member = -1; }), Names{"class 1"});
  EXPECT_EQ(failed([](auto& c) { c.classes[1].witness->row = 3; }), Names{"class 1"});
  EXPECT_EQ(failed([](auto& c) { c.classes[1].witness->x.pop_back(); }), Names{"class 1"});
  EXPECT_EQ(failed([](auto& c) { c.classes[1].witness->x[0] = -0.01F; }), Names{"class 1"});
  EXPECT_EQ(failed([](auto& c) { c.classes[1].witness->x[0] = std::nanf(""); }), Names{"class 1"});
  EXPECT_EQ(failed([](auto& c) { c.classes.pop_back(); }), Names{"number of classes"});

  double largest = 0;
  for (std::int64_t i = 0; i < ensemble.members(); ++i) {
    largest = std::max(largest, Evaluator(ensemble.Member(i)).ConfidenceErrorBound());
  }
  const auto with_error = [&](double error) {
    Certificate c = good;
    c.member_error = error;
    return CheckBinding(c, ensemble)->accepted();
  };
  EXPECT_TRUE(with_error(largest));
  EXPECT_FALSE(with_error(std::nextafter(largest, 0.0)));
  EXPECT_FALSE(with_error(std::nan("")));
}

TEST(CheckBinding, ARunThatIsNotWholeIsAFailedCheckAndNoRunAnError) {
  const ImportedRun run = RandomRun("3 > dense 4 > 2", 1, 6, 0.1);
  const Certificate certificate = Claim(run.Open(), 1);
  std::filesystem::resize_file(run.path() + "/" + kEnsembleFile, 100);
  const auto report = CheckBinding(certificate, run.path());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(Failed(*report), std::set<std::string>{"files of the run"});
  EXPECT_THAT(report->FirstProblem()->detail, HasSubstr("tampered"));
  EXPECT_FALSE(CheckBinding(certificate, run.path() + "/none").ok());
}

TEST(Falsify, FindsAPlantedLeakAndNoneBelowTheTruth) {
  const ImportedRun run(Shifted(0), FiveAndShifted(0.3F));
  const Ensemble ensemble = run.Open();
  const double truth = 0.3F;  // at a = 0.8: f = a - 0.5, g = a - 0.3 - 0.5

  Certificate low = Claim(ensemble, 0.2);
  const auto leaking = Falsify(low, ensemble, {.seed = 1, .starts = 50});
  ASSERT_TRUE(leaking.ok()) << leaking.error().message;
  ASSERT_EQ(leaking->leaks.size(), 1U);
  const Leak& leak = leaking->leaks[0];
  EXPECT_EQ(leak.label, 1);
  EXPECT_EQ(leak.witness.member, 5);
  EXPECT_EQ(leak.witness.row, 5);
  EXPECT_GT(leak.confidence, 0.2999);
  EXPECT_LE(leak.confidence, truth);
  EXPECT_EQ(Failed(leaking->checks), std::set<std::string>{"search of class 1"});

  Certificate honest = low;
  honest.classes[0].beta_upper = 0;
  honest.classes[1].beta_upper = truth;
  const auto found = Falsify(honest, ensemble, {.seed = 1, .starts = 50});
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->checks.accepted());
  EXPECT_TRUE(found->leaks.empty());
  EXPECT_FALSE(found->largest[0].has_value()) << "members give class 0 to more inputs, never fewer";
  EXPECT_NEAR(found->largest[1]->confidence, truth, 1e-5);
}

TEST(Falsify, SeesAMemberThatDisagreesWhereNHasNoBoundary) {
  Network constant = Shifted(0);
  constant.parameters[6] = 1;  // always class 0, with confidence 1.25 - relu(a)
  const ImportedRun run(constant, {constant, Shifted(0)});
  const auto found = Falsify(Claim(run.Open(), 0.6), run.Open(), {.starts = 50});
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->leaks.size(), 1U);
  EXPECT_NEAR(found->leaks[0].confidence, 0.75, 1e-5);
}

TEST(Falsify, ComesAtLeastAsFarAsAGrid) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const ImportedRun run = RandomRun("2 > dense 8 > dense 6 > 3", seed, 8, 0.15);
    const Ensemble ensemble = run.Open();
    const Evaluator network(ensemble.network());
    std::vector<Evaluator> members;
    for (std::int64_t i = 0; i < 8; ++i) members.emplace_back(ensemble.Member(i));
    std::vector<double> grid(3, 0.0);
    constexpr int kSteps = 150;
    for (int i = 0; i <= kSteps * (kSteps + 2); ++i) {
      const int column = i % (kSteps + 1), row = i / (kSteps + 1);
      const std::vector<float> x = {static_cast<float>(column) / kSteps,
                                    static_cast<float>(row) / kSteps};
      const Decision own = network.Decide(x);
      for (const Evaluator& member : members) {
        if (member.Decide(x).label == own.label) continue;
        grid[own.label] = std::max(grid[own.label], own.confidence);
      }
    }
    const auto found = Falsify(Claim(ensemble, kInfinity), ensemble, {.seed = seed, .starts = 200});
    ASSERT_TRUE(found.ok());
    for (std::size_t c = 0; c < 3; ++c) {
      const auto& largest = found->largest[c];
      EXPECT_GE(largest.has_value() ? largest->confidence : 0.0, grid[c] - 1e-6)
          << "seed " << seed << " class " << c;
    }
  }
}

TEST(Falsify, TheNumberOfThreadsDoesNotShow) {
  const ImportedRun run = RandomRun("3 > dense 8 > 2", 3, 9, 0.1);
  const Ensemble ensemble = run.Open();
  const auto with = [&](int threads) {
    std::string text;
    const auto report =
        Falsify(Claim(ensemble, 0.001), ensemble, {.seed = 5, .starts = 80, .threads = threads});
    for (const Check& check : report->checks.checks) text += check.name + check.detail + "\n";
    for (const auto& largest : report->largest) {
      if (!largest.has_value()) continue;
      text += std::to_string(largest->witness.member);
      for (const float value : largest->witness.x) text += " " + std::to_string(value);
    }
    return text + std::to_string(report->points) + " " + std::to_string(report->ascents);
  };
  const std::string one = with(1);
  EXPECT_EQ(with(2), one);
  EXPECT_EQ(with(5), one);
}

TEST(Falsify, WitnessesAreCheckedExactly) {
  const ImportedRun run(Shifted(0), FiveAndShifted(0.25F));
  const Ensemble ensemble = run.Open();
  const auto problem = [&](Witness witness, double lower, double upper) {
    Certificate c = Claim(ensemble, 1);
    c.classes[1].witness = std::move(witness);
    c.classes[1].beta_lower = lower;
    c.classes[1].beta_upper = upper;
    const auto report = Falsify(c, ensemble, {.starts = 1});
    const Check& check = report->checks.checks[1];
    EXPECT_EQ(check.name, "witness of class 1");
    return check.outcome == Check::Outcome::kPassed ? "" : check.detail;
  };
  // f = 0.25 and g = 0, to the bit.
  EXPECT_EQ(problem({{0.75F, 0, 0}, 5, 5}, 0.25, 0.25), "");
  EXPECT_THAT(problem({{0.75F, 0, 0}, 5, 5}, 0.25 + 0x1p-54, 1), HasSubstr("below beta_lower"));
  EXPECT_THAT(problem({{0.75F, 0, 0}, 5, 5}, 0, 0.25 - 0x1p-54), HasSubstr("above beta_upper"));
  EXPECT_THAT(problem({{0.75F, 0, 0}, 4, 4}, 0.25, 1), HasSubstr("same class"));
  EXPECT_THAT(problem({{std::nextafter(0.75F, 1.0F), 0, 0}, 5, 5}, 0.25, 1),
              HasSubstr("same class"));
  EXPECT_THAT(problem({{0.25F, 0, 0}, 5, 5}, 0, 1), HasSubstr("N gives it class 0"));
}

TEST(Falsify, RefusesBadSizesAndOptionsAndStops) {
  const ImportedRun run = RandomRun("3 > dense 4 > 2", 1, 3, 0.1);
  const Ensemble ensemble = run.Open();
  Certificate c = Claim(ensemble, 1);
  EXPECT_EQ(Falsify(c, ensemble, {.starts = 0}).error().kind, ErrorKind::kInvalidInput);
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(Falsify(c, ensemble, {}, {}, source.get_token()).error().kind, ErrorKind::kInterrupted);
  c.classes[0].witness = Witness{{0, 0, 0}, 3, 3};
  EXPECT_EQ(Falsify(c, ensemble).error().kind, ErrorKind::kMismatch);
  c.classes.pop_back();
  EXPECT_EQ(Falsify(c, ensemble).error().kind, ErrorKind::kMismatch);
}

}  // namespace
}  // namespace lucid
