#include "paper/encoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "paper/branch_and_bound.h"
#include "paper/lp.h"
#include "paper/test_support.h"
#include "paper/tighten.h"

namespace lucid {
namespace {

double RoundedUp(Exact value) {
  const auto near = static_cast<double>(value);
  return static_cast<Exact>(near) < value ? NextUp(near) : near;
}
double RoundedDown(Exact value) { return -RoundedUp(-value); }

// An input, a network of the hyper-network, and what both compute there, exactly.
struct Planted {
  Point x;
  ExactValues network, member;
  std::int32_t label;  // N's, so that f >= 0
  Exact f, g;
};

Planted Plant(const Network& network, const Network& member, const Point& x) {
  Planted planted{x, Evaluate(network, x), Evaluate(member, x), 0, 0, 0};
  const std::vector<Exact>& outputs = planted.network.pre.back();
  planted.label = static_cast<std::int32_t>(std::ranges::max_element(outputs) - outputs.begin());
  planted.f = ConfidenceOf(outputs, planted.label);
  planted.g = ConfidenceOf(planted.member.pre.back(), planted.label);
  return planted;
}

// The value of every column of an encoding at a planted point: sums, outputs, phases as binaries,
// beta = f, and the class `chosen` as the one that disagrees. Knows the order in which an open
// neuron's columns are made: sum, output, binary.
class Assignment {
 public:
  Assignment(const Encoding& encoding, const NetworkFacts& facts, const NeuronBounds& bounds,
             const Planted& planted, std::size_t chosen)
      : model_(encoding.model),
        values_(static_cast<std::size_t>(model_.columns())),
        times_set_(values_.size(), 0) {
    for (std::size_t j = 0; j < planted.x.size(); ++j) Set(encoding.input[j], planted.x[j]);
    const Architecture& architecture = facts.network.architecture;
    SetNeurons(architecture, encoding.network_sums, facts.bounds, planted.network);
    SetNeurons(architecture, encoding.member_sums, bounds, planted.member);
    Set(encoding.beta, planted.f);
    std::int32_t column = encoding.beta + 1;
    for (std::size_t other = 0; column < model_.columns(); ++other) {
      if (other == static_cast<std::size_t>(planted.label)) continue;
      Set(column++, other == chosen ? 1 : 0);
    }
  }

  // Nothing is rounded but the products with the slope of a relaxed neuron, by 2^-113 of them: far
  // less than the 2^-53 by which that slope itself was rounded outward.
  testing::AssertionResult Satisfies() const {
    for (std::size_t j = 0; j < values_.size(); ++j) {
      if (times_set_[j] != 1) {
        return testing::AssertionFailure()
               << "column " << j << " set " << times_set_[j] << " times";
      }
      if (const auto inside = Holds(model_.bounds()[j], values_[j]); !inside) {
        return testing::AssertionFailure() << "column " << j << ": " << inside.message();
      }
    }
    for (std::int32_t i = 0; i < model_.rows(); ++i) {
      Exact sum = 0;
      for (const Term& term : model_.Row(i)) {
        sum += static_cast<Exact>(term.coefficient) * values_[term.column];
      }
      if (const auto inside = Holds(model_.RowBounds(i), sum); !inside) {
        return testing::AssertionFailure() << "row " << i << ": " << inside.message();
      }
    }
    return testing::AssertionSuccess();
  }

 private:
  void Set(std::int32_t column, Exact value) {
    values_[column] = value;
    ++times_set_[column];
  }

  void SetNeurons(const Architecture& architecture, const SumColumns& sums,
                  const NeuronBounds& bounds, const ExactValues& exact) {
    for (std::size_t m = 0; m < sums.size(); ++m) {
      for (std::size_t k = 0; k < sums[m].size(); ++k) {
        const std::int32_t sum = sums[m][k];
        if (sum < 0) {
          EXPECT_TRUE(exact.pre[m][k] <= 0) << "an active neuron has no column";
          continue;
        }
        Set(sum, exact.pre[m][k]);
        const Interval range = bounds.pre[m][k];
        if (!architecture.layers()[m].relu || range.lower >= 0) continue;
        Set(sum + 1, exact.post[m][k]);
        if (std::ranges::find(model_.binaries(), sum + 2) != model_.binaries().end()) {
          Set(sum + 2, exact.pre[m][k] > 0 ? 1 : 0);
        }
      }
    }
  }

  const MilpModel& model_;
  std::vector<Exact> values_;
  std::vector<int> times_set_;
};

// Under every choice of a class that disagrees.
void ExpectFeasible(const NetworkFacts& facts, const HyperNetwork& hyper,
                    const NeuronBounds& bounds, const Planted& planted,
                    const EncodingOptions& options) {
  const Encoding encoding = Encode(facts, hyper, bounds, planted.label, options);
  const std::vector<Exact>& outputs = planted.member.pre.back();
  for (std::size_t other = 0; other < outputs.size(); ++other) {
    if (other == static_cast<std::size_t>(planted.label)) continue;
    if (outputs[planted.label] - outputs[other] > static_cast<Exact>(options.member_error))
      continue;
    EXPECT_TRUE(Assignment(encoding, facts, bounds, planted, other).Satisfies())
        << "class " << planted.label << " against " << other
        << (options.matching_dependencies ? ", matching dependencies" : "")
        << (options.relax_if_similar ? ", relaxed up to " : "") << options.tau << ", floor "
        << options.floor << ", error " << options.member_error;
  }
}

// A problem and points of it. The constraints are made to touch each point: the members' error is
// g (or 0 where g < 0), the floor up to f.
struct Problem {
  Network network;
  HyperNetwork hyper;
  NetworkFacts facts;
  NeuronBounds bounds;
  std::vector<Planted> points;

  Problem(const Network& n, const HyperNetwork& h, const Box& box)
      : network(n), hyper(h), facts(FactsOf(network, box)), bounds(LinearBounds(hyper, box)) {}
  Problem(const Problem&) = delete;  // facts refer to network
};

std::unique_ptr<Problem> RandomProblem(const Architecture& architecture, Stream& stream) {
  Network network = RandomNetwork(architecture, stream);
  Balance(network, stream);
  const double distance = std::vector{0.001, 0.01, 0.1, 0.5}[stream.Below(4)];
  const MemoryMembers members(RandomMembers(network, 4, distance, stream));
  Subset subset;
  for (std::int32_t i = 0; i < 4; ++i) {
    if (stream.Below(2) == 0) subset.push_back(i);
  }
  if (subset.empty()) subset = {2};
  const Box box = stream.Below(2) == 0 ? UnitBox(architecture.inputs())
                                       : RandomBox(architecture.inputs(), stream);
  auto problem = std::make_unique<Problem>(network, HyperNetwork::Of(members, subset), box);
  for (const Point& x : PointsToTry(network, box, stream)) {
    const Network member = stream.Below(2) == 0
                               ? members.Member(subset[stream.Below(subset.size())])
                               : RandomInside(problem->hyper, stream);
    EXPECT_TRUE(problem->hyper.Contains(member.parameters));
    problem->points.push_back(Plant(network, member, x));
  }
  return problem;
}

EncodingOptions Touching(const Planted& planted, double share_of_f) {
  EncodingOptions options;
  options.member_error = std::max(0.0, RoundedUp(planted.g));
  options.floor = std::max(0.0, RoundedDown(share_of_f * planted.f));
  return options;
}

TEST(Encode, NeverCutsOffAPlantedPoint) {
  int disagreeing = 0;
  for (const Architecture& architecture : SmallArchitectures()) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(testing::Message() << architecture.Canonical() << ", seed " << seed);
      Stream stream(seed, "planted point");
      const auto problem = RandomProblem(architecture, stream);
      for (const Planted& planted : problem->points) {
        disagreeing += planted.g <= 0;
        for (const double share : {0.0, 0.5, 1.0}) {
          EncodingOptions options = Touching(planted, share);
          for (const bool match : {false, true}) {
            options.matching_dependencies = match;
            options.relax_if_similar = false;
            ExpectFeasible(problem->facts, problem->hyper, problem->bounds, planted, options);
            options.relax_if_similar = true;
            for (const double tau : {0.0, 0.01, 100.0}) {
              options.tau = tau;
              ExpectFeasible(problem->facts, problem->hyper, problem->bounds, planted, options);
            }
          }
        }
        if (testing::Test::HasFailure()) return;  // one is enough to read
      }
    }
  }
  EXPECT_GE(disagreeing, 40) << "hardly a point leaks by itself";
}

TEST(TightenByLp, KeepsAPlantedPointAndItsSolverBoundIsAboveIt) {
  int tighter = 0;
  for (const Architecture& architecture : SmallArchitectures()) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE(testing::Message() << architecture.Canonical() << ", seed " << seed);
      Stream stream(seed, "planted point in tightened bounds");
      const auto problem = RandomProblem(architecture, stream);
      const Planted& planted = problem->points[stream.Below(problem->points.size())];
      EncodingOptions options = Touching(planted, 0.5 * static_cast<double>(stream.Below(3)));
      options.matching_dependencies = stream.Below(4) != 0;
      options.relax_if_similar = stream.Below(2) == 0;
      options.tau = stream.Below(2) == 0 ? 0.02 : 100;
      NetworkFacts facts = problem->facts;
      NeuronBounds bounds = problem->bounds;
      ASSERT_TRUE(TightenByLp(facts, problem->hyper, bounds, planted.label, options, {}).ok());
      for (std::size_t m = 0; m < bounds.pre.size(); ++m) {
        for (std::size_t k = 0; k < bounds.pre[m].size(); ++k) {
          EXPECT_TRUE(Holds(facts.bounds.pre[m][k], planted.network.pre[m][k]));
          EXPECT_TRUE(Holds(bounds.pre[m][k], planted.member.pre[m][k]));
          EXPECT_TRUE(Within(facts.bounds.pre[m][k], problem->facts.bounds.pre[m][k]));
          EXPECT_TRUE(Within(bounds.pre[m][k], problem->bounds.pre[m][k]));
          tighter += bounds.pre[m][k] != problem->bounds.pre[m][k];
        }
      }
      ExpectFeasible(facts, problem->hyper, bounds, planted, options);
      const Encoding encoding = Encode(facts, problem->hyper, bounds, planted.label, options);
      const auto lp = MakeHighsLp(encoding.model);
      ASSERT_TRUE(lp.ok()) << lp.error().message;
      MilpOptions milp;
      milp.max_nodes = 60;
      const MilpResult result = Maximise(encoding.model, **lp, milp);
      EXPECT_TRUE(static_cast<Exact>(result.bound.value()) >= planted.f);
    }
  }
  EXPECT_GE(tighter, 100);
}

// The open neurons of a network (both signs are possible), among those that count.
std::int64_t OpenNeurons(const Architecture& architecture, const NeuronBounds& bounds,
                         const auto& counts) {
  std::int64_t open = 0;
  for (std::size_t m = 0; m < bounds.pre.size(); ++m) {
    for (std::size_t k = 0; k < bounds.pre[m].size(); ++k) {
      const Interval range = bounds.pre[m][k];
      open += architecture.layers()[m].relu && range.lower < 0 && range.upper > 0 && counts(m, k);
    }
  }
  return open;
}

TEST(Encode, HasABinaryForEveryOpenNeuronThatIsNotRelaxed) {
  int fewer = 0;
  for (const Architecture& architecture : SmallArchitectures()) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(testing::Message() << architecture.Canonical() << ", seed " << seed);
      Stream stream(seed, "binaries");
      const auto problem = RandomProblem(architecture, stream);
      const DifferenceBounds differences =
          PropagateDifferences(problem->network, problem->hyper, problem->facts.bounds);
      const std::int64_t classes = architecture.classes() > 2 ? architecture.classes() - 1 : 0;
      const auto any = [](std::size_t, std::size_t) { return true; };
      const std::int64_t of_network = OpenNeurons(architecture, problem->facts.bounds, any);
      const std::int64_t of_member = OpenNeurons(architecture, problem->bounds, any);
      const auto binaries = [&](bool relax, double tau) {
        EncodingOptions options;
        options.relax_if_similar = relax;
        options.tau = tau;
        return std::ssize(
            Encode(problem->facts, problem->hyper, problem->bounds, 0, options).model.binaries());
      };
      EXPECT_EQ(binaries(false, 100), of_network + of_member + classes);
      EXPECT_EQ(binaries(true, 100), of_network + classes);
      for (const double tau : {0.01, 0.1, 0.5}) {
        const auto different = [&](std::size_t m, std::size_t k) {
          return differences.post[m][k].upper - differences.post[m][k].lower > tau;
        };
        const std::int64_t kept = OpenNeurons(architecture, problem->bounds, different);
        EXPECT_EQ(binaries(true, tau), of_network + kept + classes);
        fewer += kept > 0 && kept < of_member;
      }
    }
  }
  EXPECT_GE(fewer, 10) << "tau never separates anything";
}

// The paper's example of section 4.4 as far as its text goes: z11^ = -x1 + x2 in N, and
// -x1 + [1, 1.1] x2 + [0, 0.1] in the hyper-network, so z11 <= z11# <= z11 + 0.2; z12 - 0.02 <=
// z12# <= z12, here by its bias. (The outputs are not in the text.)
class PaperExample : public testing::Test {
 protected:
  static Network Make(float w, float b, float other_b) {
    return HandMade("2 > dense 2 > 2", {-1, w, 1, -0.5F, b, other_b, 1, -1, 0, 0, 0, 0});
  }

  // The bounds of the row  z# - z  of a neuron of the first layer.
  static std::vector<Interval> MatchingRows(const Encoding& encoding, std::size_t unit) {
    const std::int32_t z = encoding.network_sums[0][unit] + 1;
    const std::int32_t z_member = encoding.member_sums[0][unit] + 1;
    std::vector<Interval> found;
    for (std::int32_t i = 0; i < encoding.model.rows(); ++i) {
      const auto row = encoding.model.Row(i);
      if (row.size() == 2 && row[0].column == z_member && row[0].coefficient == 1 &&
          row[1].column == z && row[1].coefficient == -1) {
        found.push_back(encoding.model.RowBounds(i));
      }
    }
    return found;
  }

  const Network network_ = Make(1, 0, 0);
  const MemoryMembers members_ =
      MemoryMembers({Make(1, 0.1F, -0.02F), Make(1.1F, 0, 0), Make(1, 0.1F, 0)});
  const NetworkFacts facts_ = FactsOf(network_, UnitBox(2));
  const HyperNetwork hyper_ = HyperNetwork::Of(members_, {0, 1, 2});
  const NeuronBounds bounds_ = LinearBounds(hyper_, UnitBox(2));
};

TEST_F(PaperExample, HasTheMatchingDependenciesOfTheText) {
  const Encoding encoding = Encode(facts_, hyper_, bounds_, 0, {});
  const auto first = MatchingRows(encoding, 0), second = MatchingRows(encoding, 1);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].lower, 0);
  EXPECT_NEAR(first[0].upper, 0.2, 1e-7);  // 1.1 and 0.1 are float32
  ASSERT_EQ(second.size(), 1U);
  EXPECT_NEAR(second[0].lower, -0.02, 1e-8);
  EXPECT_EQ(second[0].upper, 0);
  EncodingOptions without;
  without.matching_dependencies = false;
  EXPECT_TRUE(MatchingRows(Encode(facts_, hyper_, bounds_, 0, without), 0).empty());
}

TEST_F(PaperExample, RelaxesTheSimilarNeuronOnly) {
  EncodingOptions options;
  options.relax_if_similar = false;
  EXPECT_EQ(Encode(facts_, hyper_, bounds_, 0, options).model.binaries().size(), 4U);
  options.relax_if_similar = true;
  options.tau = 0.05;
  const Encoding encoding = Encode(facts_, hyper_, bounds_, 0, options);
  EXPECT_EQ(encoding.model.binaries().size(), 3U);
  const auto has_binary = [&](std::int32_t sum) {
    return std::ranges::find(encoding.model.binaries(), sum + 2) != encoding.model.binaries().end();
  };
  EXPECT_TRUE(has_binary(encoding.member_sums[0][0]));
  EXPECT_FALSE(has_binary(encoding.member_sums[0][1]));
}

// The true beta, worked by hand, is found by every variant that is exact, and no variant is below.
void ExpectBeta(const Network& network, const std::vector<Network>& members, double beta) {
  for (const Variant variant : kVariants) {
    for (const bool tighten : {false, true}) {
      SCOPED_TRACE(testing::Message() << NameOf(variant) << (tighten ? ", tightened" : ""));
      MilpBoundOptions options;
      options.variant = variant;
      options.tighten = tighten;
      options.common.gap = 0;
      options.common.threads = 1;
      const auto bound = BoundOf(network, MemoryMembers(members), 0, options);
      ASSERT_TRUE(bound.ok()) << bound.error().message;
      EXPECT_GE(bound->beta_upper, beta);
      if (members.size() == 1 || variant == Variant::kNaive || UsesBranchAndBound(variant)) {
        EXPECT_NEAR(bound->beta_upper, beta, 1e-5);
      }
    }
  }
}

// Mistake 1 of the published code: no bias interval I_b. N: z = relu(x), P: z = relu(x - 0.3),
// confidence z - 0.5. g <= 0 up to x = 0.8, where f = 0.3. Without I_b the rows say z# = z, and
// f > 0 >= g has no solution.
TEST(MilpBound, SeesALeakOfTheBiasAlone) {
  const auto shifted = [](float shift) {
    return HandMade("1 > dense 1 > 2", {1, -shift, 1, 0, -0.5F, 0});
  };
  ExpectBeta(shifted(0), {shifted(0.3F)}, 0.3F);
  ExpectBeta(shifted(0), {shifted(0.3F), shifted(0.125F), shifted(0)}, 0.3F);
}

// Mistake 2: (w + I_w) I_z with one end of the weight interval. N: z1 = relu(x), z2 = relu(z1),
// f = 2.375 - z2. Members: z1 = relu(x + 0.25), z2 = relu(w z1), w = 1 or 2, so w# = [1, 2], I_w =
// [0, 1], I_z1 = [0, 0.25]. w = 2 leaks where 2.375 <= 2 (x + 0.25): from x = 0.9375 on, f =
// 1.4375. There z2# - z2 = 2.375 - 0.9375 = 1.4375. The right row allows up to w I_z1 + I_w (z1 +
// I_z1) = 0.25 + 1.25 = 1.5; with the lower end, 1 I_z1 + I_w z1 = 0.25 + 1 = 1.25: cut off.
TEST(MilpBound, UsesTheWholeIntervalOfAWeightAboveAShiftedNeuron) {
  const auto make = [](float bias, float w) {
    return HandMade("1 > dense 1 > dense 1 > 2", {1, bias, w, 0, -1, 0, 2.375F, 0});
  };
  ExpectBeta(make(0, 1), {make(0.25F, 1), make(0.25F, 2)}, 1.4375);
}

// The same with the upper end: z2 = relu(4 - w z1), f = z2 - 1.625, so w# = [-2, -1] and z2# - z2 =
// -1.4375 at x = 0.9375. Right: down to -1.5; with the upper end, -1 I_z1 + I_w z1: -1.25.
TEST(MilpBound, UsesTheWholeIntervalOfANegativeWeightAboveAShiftedNeuron) {
  const auto make = [](float bias, float w) {
    return HandMade("1 > dense 1 > dense 1 > 2", {1, bias, -w, 4, 1, 0, -1.625F, 0});
  };
  ExpectBeta(make(0, 1), {make(0.25F, 1), make(0.25F, 2)}, 1.4375);
}

// Mistake 3: weighted sums where the formula has outputs. Next to z = relu(x) (relu(x - 0.25) in
// the member) stands a dead neuron d = relu(-0.5 x - 1.5) = 0 whose weight in the output is 0 in N
// and 1 in the member. f = x - 0.5, g = relu(x - 0.25) - 0.5: beta = 0.25 at x = 0.75. With d's sum
// in [-2, -1.5] instead of its output 0, I_w d = [-2, -1.5], the outputs' difference is said to be
// in [-2.25, -1.5], and nothing is feasible.
TEST(MilpBound, ADeadNeuronContributesNothing) {
  const auto make = [](float shift, float weight) {
    return HandMade("1 > dense 2 > 2", {1, -0.5F, -shift, -1.5F, 1, weight, 0, 0, -0.5F, 0});
  };
  ExpectBeta(make(0, 0), {make(0.25F, 1)}, 0.25);
}

// A member that only just disagrees, in one point: g = |x - 0.5| as two neurons. A margin on the
// unsafe side of g <= 0 loses it.
TEST(MilpBound, SeesALeakInASinglePoint) {
  const Network network = HandMade("1 > dense 2 > 2", {1, -1, -0.5F, 0.5F, 0, 0, 0, 0, 0.5F, 0});
  const Network member = HandMade("1 > dense 2 > 2", {1, -1, -0.5F, 0.5F, 1, 1, 0, 0, 0, 0});
  ExpectBeta(network, {member}, 0.5);
}

}  // namespace
}  // namespace lucid
