// The native engine where only records of a schema may be asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "attack/attack.h"
#include "native/engine.h"
#include "native/region_search.h"
#include "pair/test_support.h"
#include "support/oracle.h"

namespace lucid {
namespace {

constexpr double kGap = 0.01, kAbsoluteGap = 1e-6;

// Inputs: a number, then three of a one-hot group, or two on a quarter circle; and a binary one.
Schema AnySchema(bool circle) {
  return *Schema::Parse(
      std::string("column,kind,offset,divisor,categories\n"
                  "a,numeric,0,1,\n") +
          (circle ? "b,quarter-circle,,,u|v|w|x|y|z\n" : "b,categorical,,,x|y|z\n") +
          "c,binary,,,0|1\n"
          "label,label,,,0|1\n",
      "schema");
}

struct Problem {
  Problem(std::uint64_t seed, bool circle) : domain(Domain::OfSchema(AnySchema(circle))) {
    Stream stream(seed, "domain search");
    network = RandomNetwork(Hidden({{.units = 4}, {.units = 3}}, domain.features(), 2), stream);
    Balance(network, stream);
    networks = RandomMembers(network, 3, seed % 3 == 0 ? 0.4 : 0.1, stream);
  }
  Domain domain;
  Network network;
  std::vector<Network> networks;
};

// The network as a function of the first input, the others being fixed; biases are rounded where
// these are on a circle.
Network Restricted(const Network& network, const std::vector<float>& rest) {
  const Layer& first = network.architecture.layers().front();
  Network small{Hidden({{.units = 4}, {.units = 3}}, 1, 2), {}};
  std::vector<float> biases;
  for (std::int64_t unit = 0; unit < first.outputs; ++unit) {
    const float* weights = network.parameters.data() + first.weight_at + unit * first.inputs;
    small.parameters.push_back(weights[0]);
    float bias = network.parameters[first.bias_at + unit];
    for (std::size_t j = 0; j < rest.size(); ++j) bias += weights[j + 1] * rest[j];
    biases.push_back(bias);
  }
  small.parameters.insert(small.parameters.end(), biases.begin(), biases.end());
  small.parameters.insert(small.parameters.end(),
                          network.parameters.begin() + first.bias_at + first.outputs,
                          network.parameters.end());
  return small;
}

double TrueBeta(const Problem& problem, std::int32_t label, double allowance) {
  double beta = 0;
  for (const auto& colour : problem.domain.groups()[0].points) {
    for (const auto& binary : problem.domain.groups()[1].points) {
      std::vector<float> rest = colour;
      rest.push_back(binary[0]);
      std::vector<Network> members;
      for (const Network& member : problem.networks) members.push_back(Restricted(member, rest));
      const TrueLeak leak =
          BruteForceBeta(Restricted(problem.network, rest), members, label, 0, allowance);
      beta = std::max(beta, static_cast<double>(leak.beta));
    }
  }
  return beta;
}

class DomainSearch : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(OneHotAndCircle, DomainSearch, testing::Bool());

TEST_P(DomainSearch, EqualsBruteForceOverAllRecords) {
  const double oracle_rounding = GetParam() ? 1e-5 : 1e-12;
  int leaking = 0, smaller = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Problem problem(seed, GetParam());
    const MemoryMembers members(problem.networks);
    const double error = LargestError(members, 1).value();
    const auto label = static_cast<std::int32_t>(seed % 2);
    const double beta = TrueBeta(problem, label, error);
    AttackOptions attack;
    attack.threads = 1;
    attack.pool = 200;
    attack.local_searches = 100;
    attack.domain = &problem.domain;
    const AttackResult found = Attack(problem.network, members, label, {}, attack).value();
    WitnessKeeper witnesses(problem.network, members, label, found.beta_lower, found.witness);
    RegionSearchOptions options;
    options.gap = kGap;
    options.absolute_gap = kAbsoluteGap;
    options.threads = 1;
    options.domain = &problem.domain;
    const RegionSearchSummary summary =
        SearchRegions(problem.network, members, label, error, options, witnesses, "").value();
    EXPECT_GE(summary.verdict.upper(), beta - oracle_rounding) << "UNSOUND";
    EXPECT_LE(witnesses.beta_lower(), beta + oracle_rounding) << "a witness of nothing";
    if (const auto witness = witnesses.best()) {
      const Status inside = problem.domain.Contains(witness->x);
      EXPECT_TRUE(inside.ok()) << inside.error().message;
    }
    ASSERT_TRUE(summary.verdict.finished());
    EXPECT_LE(summary.verdict.upper(),
              std::max(beta / (1 - kGap), beta + kAbsoluteGap) + oracle_rounding);
    leaking += beta > 0.001;
    attack.domain = nullptr;  // the box holds more
    const AttackResult box = Attack(problem.network, members, label, {}, attack).value();
    smaller += summary.verdict.upper() < 0.9 * box.beta_lower;
  }
  EXPECT_GT(leaking, 10) << "the test has become easy";
  EXPECT_GT(smaller, 5) << "the domain shows nowhere";
}

}  // namespace
}  // namespace lucid
