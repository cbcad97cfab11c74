#include "paper/box_search.h"

#include <gtest/gtest.h>

#include <numeric>

#include "paper/test_support.h"

namespace lucid {
namespace {

constexpr std::uint64_t kSeed = 11;

// A random network, a few members around it, and their hyper-network.
struct Problem {
  explicit Problem(std::uint64_t index) : stream(kSeed, "box search", index) {
    const auto width = static_cast<std::int64_t>(2 + stream.Below(4));
    network = RandomNetwork(
        Hidden({{HiddenLayer::Kind::kDense, width}, {HiddenLayer::Kind::kDense, width}},
               static_cast<std::int64_t>(1 + stream.Below(3)),
               static_cast<std::int64_t>(2 + stream.Below(2))),
        stream);
    Balance(network, stream);
    members = RandomMembers(network, 3, 0.05, stream);
    all.resize(members.size());
    std::iota(all.begin(), all.end(), 0);
  }

  Stream stream;
  Network network;
  std::vector<Network> members;
  Subset all;
};

// The best of many random inputs at which N gives the label and a member disagrees; 0 if none.
double Sampled(Problem& problem, std::int32_t label) {
  double best = 0;
  for (int i = 0; i < 300; ++i) {
    const Point x = RandomPoint(UnitBox(problem.network.architecture.inputs()), problem.stream);
    const Exact f = ConfidenceOf(Evaluate(problem.network, x).pre.back(), label);
    for (const Network& member : problem.members) {
      if (ConfidenceOf(Evaluate(member, x).pre.back(), label) <= 0) {
        best = std::max(best, static_cast<double>(f));
      }
    }
  }
  return best;
}

struct Setting {
  bool tighten = false;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop = {};
};

MilpResult Solve(const Problem& problem, std::int32_t label, const Setting& setting) {
  const MemoryMembers members(problem.members);
  const HyperNetwork hyper = HyperNetwork::Of(members, problem.all);
  const NetworkFacts facts =
      FactsOf(problem.network, UnitBox(problem.network.architecture.inputs()));
  WitnessKeeper witnesses(problem.network, members, label, 0, std::nullopt);
  Repair repair(problem.network, hyper, problem.all, label, witnesses);
  BoxSearchOptions options;
  options.tighten = setting.tighten;
  options.encoding.relax_if_similar = false;
  options.milp.gap = 1e-3;
  options.milp.deadline = setting.deadline;
  options.milp.stop = setting.stop;
  options.milp.incumbent = repair.Anywhere(0);
  MilpResult result = MaximiseOverBoxes(facts, hyper, label, options, repair).value();
  result.bound = std::max(result.bound, UpperBound::Proved(0));  // the floor
  return result;
}

TEST(BoxSearch, BoundsEveryLeakAndMeetsItsOwnFeasiblePoint) {
  int with_leak = 0;
  for (std::uint64_t index = 0; index < 40; ++index) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " index " << index);
    Problem problem(index);
    const double sampled = Sampled(problem, 0);
    const MilpResult plain = Solve(problem, 0, {});
    EXPECT_EQ(plain.end, MilpResult::End::kSolved);
    EXPECT_GE(plain.bound.value(), sampled);
    EXPECT_GE(plain.bound.value(), plain.incumbent - 1e-6);
    if (plain.incumbent > 0 && plain.unproved == 0) {
      EXPECT_LE(plain.bound.value(), plain.incumbent + 1e-3 * std::abs(plain.incumbent) + 1e-5);
    }
    const MilpResult tight = Solve(problem, 0, {.tighten = true});
    EXPECT_GE(tight.bound.value(), sampled);
    if (plain.incumbent > 0) {
      const double slack = 2e-3 * plain.incumbent + 2e-5;
      EXPECT_NEAR(tight.bound.value(), plain.bound.value(), slack);
    }
    with_leak += sampled > 0;
  }
  EXPECT_GT(with_leak, 10) << "networks without a leak show nothing";
}

TEST(BoxSearch, OutOfTimeOrStoppedItStillBoundsEveryLeak) {
  std::stop_source stopped;
  stopped.request_stop();
  for (std::uint64_t index = 0; index < 10; ++index) {
    Problem problem(index);
    const double sampled = Sampled(problem, 0);
    const MilpResult late = Solve(problem, 0, {.deadline = std::chrono::steady_clock::now()});
    EXPECT_GE(late.bound.value(), sampled) << index;
    const MilpResult stop = Solve(problem, 0, {.stop = stopped.get_token()});
    EXPECT_GE(stop.bound.value(), sampled) << index;
    EXPECT_TRUE(std::isfinite(stop.bound.value())) << index;
  }
}

TEST(BoxSearch, NeverReportsLessThanItProves) {
  Stream stream(kSeed, "slow box search");
  Network network = RandomNetwork(
      Hidden({{HiddenLayer::Kind::kDense, 14}, {HiddenLayer::Kind::kDense, 14}}, 6, 2), stream);
  Balance(network, stream);
  const std::vector<Network> networks = RandomMembers(network, 3, 0.05, stream);
  const MemoryMembers members(networks);
  const Subset all = {0, 1, 2};
  const HyperNetwork hyper = HyperNetwork::Of(members, all);
  const NetworkFacts facts = FactsOf(network, UnitBox(6));
  WitnessKeeper witnesses(network, members, 0, 0, std::nullopt);
  Repair repair(network, hyper, all, 0, witnesses);
  BoxSearchOptions options;
  options.milp.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
  std::vector<double> reports;
  options.milp.report = [&](double bound, std::int64_t) { reports.push_back(bound); };
  const MilpResult result = MaximiseOverBoxes(facts, hyper, 0, options, repair).value();
  for (std::size_t i = 0; i < reports.size(); ++i) {
    EXPECT_GE(reports[i], result.bound.value());
    if (i > 0) {
      EXPECT_LE(reports[i], reports[i - 1]);
    }
  }
}

TEST(WorstNetwork, LiesInsideAndDisagreesAtLeastAsMuchAsTheCentre) {
  for (std::uint64_t index = 0; index < 40; ++index) {
    Problem problem(index);
    const HyperNetwork hyper = HyperNetwork::Of(MemoryMembers(problem.members), problem.all);
    WorstNetwork worst(hyper, 0);
    std::vector<double> x;
    for (std::int64_t j = 0; j < problem.network.architecture.inputs(); ++j) {
      x.push_back(problem.stream.Uniform());
    }
    const std::vector<float> found(worst.At(x).begin(), worst.At(x).end());
    EXPECT_TRUE(hyper.Contains(found));
    std::vector<float> centre;
    for (std::size_t i = 0; i < found.size(); ++i) {
      centre.push_back(0.5F * hyper.lower()[i] + 0.5F * hyper.upper()[i]);
    }
    NetworkGradient at_found(problem.network.architecture, found, 0);
    NetworkGradient at_centre(problem.network.architecture, centre, 0);
    EXPECT_LE(at_found.Evaluate(x), at_centre.Evaluate(x) + 1e-9) << index;
  }
}

}  // namespace
}  // namespace lucid
