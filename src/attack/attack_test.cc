#include "attack/attack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "attack/attack_ascent.h"
#include "attack/attack_score.h"
#include "attack/network_gradient.h"
#include "ensemble/members.h"
#include "random/stream.h"
#include "support/exact_pass.h"

namespace lucid {
namespace {

Architecture Dense(std::int64_t inputs, std::int64_t classes) {
  return Architecture::FromName("2x6", inputs, classes).value();
}
Architecture Conv(std::int64_t inputs, std::int64_t classes, std::int64_t width) {
  const std::vector<HiddenLayer> hidden = {{HiddenLayer::Kind::kConv, 3, width, 1},
                                           {HiddenLayer::Kind::kConv, 2, 1, 2},
                                           {HiddenLayer::Kind::kDense, 5, 0, 1}};
  return Architecture::Build(hidden, inputs, classes).value();
}

Network RandomNetwork(const Architecture& architecture, Stream& stream) {
  Network network{architecture, {}};
  for (std::int64_t i = 0; i < architecture.parameters(); ++i) {
    network.parameters.push_back(static_cast<float>(stream.Normal()));
  }
  // Outputs that are balanced at the centre of the box, so that several classes occur.
  std::vector<double> logits(static_cast<std::size_t>(architecture.classes()));
  const std::vector<float> centre(static_cast<std::size_t>(architecture.inputs()), 0.5f);
  Evaluator(network).Logits(centre, logits);
  const Layer& last = architecture.layers().back();
  for (std::size_t c = 0; c < logits.size(); ++c) {
    network.parameters[last.bias_at + c] -= static_cast<float>(logits[c]);
  }
  return network;
}

MemoryMembers NearMembers(const Network& network, int count, double noise, Stream& stream) {
  std::vector<Network> members;
  for (int i = 0; i < count; ++i) {
    members.push_back(network);
    for (float& p : members.back().parameters) p += static_cast<float>(noise * stream.Normal());
  }
  return MemoryMembers(std::move(members));
}

void ExpectCertified(const Network& network, const Members& members, std::int32_t label,
                     const AttackResult& result) {
  if (!result.witness) {
    EXPECT_EQ(result.beta_lower, 0);
    return;
  }
  const Witness& witness = *result.witness;
  ASSERT_EQ(witness.x.size(), static_cast<std::size_t>(network.architecture.inputs()));
  for (const float v : witness.x) EXPECT_TRUE(v >= 0 && v <= 1) << v;
  ASSERT_TRUE(witness.member >= 0 && witness.member < members.count());
  EXPECT_EQ(witness.row, 0);
  EXPECT_GT(result.beta_lower, 0);
  const Exact f = ExactConfidence(network, label, witness.x);
  const Exact g = ExactConfidence(members.Member(witness.member), label, witness.x);
  EXPECT_TRUE(f >= static_cast<Exact>(result.beta_lower));
  EXPECT_TRUE(static_cast<double>(f) - result.beta_lower < 1e-9) << "the bound gives too much away";
  EXPECT_TRUE(g <= 0);
}

// max { f : g_i <= 0 for some i } over a grid of the unit square.
double GridBeta(const Network& network, const Members& members, std::int32_t label, int grid) {
  std::vector<float> points;
  for (int i = 0; i <= grid; ++i) {
    for (int j = 0; j <= grid; ++j) {
      points.push_back(static_cast<float>(i) / static_cast<float>(grid));
      points.push_back(static_cast<float>(j) / static_cast<float>(grid));
    }
  }
  const PointBatch batch(points, 2);
  PointScorer scorer(network.architecture, label);
  std::vector<float> f(points.size() / 2), g(f.size());
  scorer.Score(network.parameters, batch, f);
  float best = 0;
  for (std::int64_t m = 0; m < members.count(); ++m) {
    scorer.Score(members.Member(m).parameters, batch, g);
    for (std::size_t p = 0; p < f.size(); ++p) {
      if (g[p] <= 0) best = std::max(best, f[p]);
    }
  }
  return best;
}

AttackResult MustAttack(const Network& network, const Members& members, std::int32_t label,
                        const AttackOptions& options = {}, std::span<const float> data = {}) {
  return Attack(network, members, label, data, options).value();
}

// N: z = relu(x), member: z = relu(x - 0.3), confidence z - 0.5 in both.
Network ByHand(float shift) {
  return {Architecture::FromName("1x1", 1, 2).value(), {1, -shift, /*output*/ 1, 0, -0.5f, 0}};
}

TEST(Attack, FindsTheBiasLeakWorkedByHand) {
  const Network network = ByHand(0);
  const MemoryMembers members({ByHand(0.3f)});
  const AttackResult result = MustAttack(network, members, 0);
  ExpectCertified(network, members, 0, result);
  ASSERT_TRUE(result.witness);
  EXPECT_NEAR(result.beta_lower, 0.3, 1e-6);
  EXPECT_NEAR(result.witness->x[0], 0.8, 1e-6);
  // Class 1 is -f: where N says 1 (x < 0.5), the member says 1 too.
  EXPECT_FALSE(MustAttack(network, members, 1).witness);
}

TEST(Attack, EqualsBruteForceOnTinyNetworksAndIsCertified) {
  int leaking = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    for (const std::int64_t classes : {2, 3}) {
      for (const bool conv : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << "seed " << seed << ", " << classes << " classes" << (conv ? ", conv" : ""));
        Stream stream(seed, "attack test", static_cast<std::uint64_t>(2 * classes + conv));
        const Architecture architecture = conv ? Conv(2, classes, 1) : Dense(2, classes);
        const Network network = RandomNetwork(architecture, stream);
        const MemoryMembers members = NearMembers(network, 5, 0.05, stream);
        for (std::int32_t label = 0; label < classes; ++label) {
          const double beta = GridBeta(network, members, label, 500);
          const AttackResult result = MustAttack(network, members, label, {.seed = seed});
          ExpectCertified(network, members, label, result);
          EXPECT_GE(result.beta_lower, 0.97 * beta - 1e-6) << "label " << label;
          leaking += beta > 0.01;
        }
      }
    }
  }
  EXPECT_GE(leaking, 25) << "the test has become easy";
}

TEST(Attack, WitnessOfAConvolutionOnMoreInputsIsCertified) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Stream stream(seed, "attack conv test");
    const Network network = RandomNetwork(Conv(9, 3, 3), stream);
    const MemoryMembers members = NearMembers(network, 40, 0.02, stream);
    const std::vector<float> data(18, 0.5f);
    bool found = false;
    for (std::int32_t label = 0; label < 3; ++label) {
      const AttackResult result = MustAttack(network, members, label, {}, data);
      ExpectCertified(network, members, label, result);
      found |= result.witness.has_value();
    }
    EXPECT_TRUE(found);
  }
}

TEST(Attack, NothingToFindGivesNoWitness) {
  const std::uint64_t seed = 3;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Stream stream(seed, "attack test");
  Network network = RandomNetwork(Dense(4, 2), stream);
  const MemoryMembers same({network, network});
  for (const std::int32_t label : {0, 1}) {
    const AttackResult result = MustAttack(network, same, label);
    EXPECT_FALSE(result.witness);
    EXPECT_EQ(result.beta_lower, 0);
  }
  // A class that N never gives, and, the other way round, one that all networks always give.
  network.parameters.back() -= 1000;
  const MemoryMembers near = NearMembers(network, 5, 0.05, stream);
  for (const std::int32_t label : {0, 1}) {
    const AttackResult result = MustAttack(network, near, label);
    EXPECT_FALSE(result.witness);
    EXPECT_EQ(result.beta_lower, 0);
  }
}

// N always gives class 0, a member does not: there is no boundary of N to start from.
TEST(Attack, FindsALeakOfAClassWithoutBoundary) {
  Network network = ByHand(0), member = ByHand(0);
  network.parameters[4] = 0.125f;  // f = x + 0.125
  member.parameters[4] = -0.25f;   // g = x - 0.25
  const MemoryMembers members({member});
  const AttackResult result = MustAttack(network, members, 0);
  ExpectCertified(network, members, 0, result);
  EXPECT_NEAR(result.beta_lower, 0.375, 1e-6);
}

// The class fills a corner of [0,1]^8 that drawing points does not hit.
TEST(Attack, FindsARareClass) {
  const auto corner = [](float bias) {
    Network network{Architecture::FromName("0x1", 8, 2).value(), std::vector<float>(18, 0.0f)};
    for (int j = 0; j < 8; ++j) network.parameters[j] = j % 2 == 0 ? 1.0f : -1.0f;
    network.parameters[16] = bias;
    return network;
  };
  const Network network = corner(-3.96875f);  // f = x0 - x1 + ... - x7 - 3.96875 <= 0.03125
  const MemoryMembers members({corner(-3.984375f)});
  const AttackResult result = MustAttack(network, members, 0);
  ExpectCertified(network, members, 0, result);
  EXPECT_NEAR(result.beta_lower, 0.015625, 1e-6);
}

TEST(Attack, SameBitsOnAnyNumberOfThreads) {
  const std::uint64_t seed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Stream stream(seed, "attack test");
  const Network network = RandomNetwork(Dense(10, 3), stream);
  const MemoryMembers members = NearMembers(network, 100, 0.03, stream);
  for (std::int32_t label = 0; label < 3; ++label) {
    const AttackResult one = MustAttack(network, members, label, {.threads = 1});
    for (const int threads : {2, 3}) {
      const AttackResult many = MustAttack(network, members, label, {.threads = threads});
      EXPECT_EQ(one.beta_lower, many.beta_lower);
      ASSERT_EQ(one.witness.has_value(), many.witness.has_value());
      if (!one.witness) continue;
      EXPECT_EQ(one.witness->x, many.witness->x);
      EXPECT_EQ(one.witness->member, many.witness->member);
    }
  }
}

// Another member leaks far more; the witness is the asked one's, under its own number.
TEST(Attack, OfOneMemberIsItsOwn) {
  Stream stream(7, "one member");
  const Network network = RandomNetwork(Dense(4, 3), stream);
  std::vector<Network> networks;
  for (const double noise : {0.3, 0.02, 0.1}) {
    networks.push_back(NearMembers(network, 1, noise, stream).Member(0));
  }
  const MemoryMembers members(networks);
  int found = 0;
  for (std::int32_t label = 0; label < 3; ++label) {
    const double all = Attack(network, members, label, {}, {}).value().beta_lower;
    for (std::int64_t member = 0; member < members.count(); ++member) {
      const AttackResult result = AttackMember(network, members, label, member, {});
      ExpectCertified(network, members, label, result);
      if (!result.witness) continue;
      ++found;
      EXPECT_EQ(result.witness->member, member);
      EXPECT_LE(result.beta_lower, all * 1.05);
    }
  }
  EXPECT_GE(found, 4);
}

TEST(Attack, StopsOnRequest) {
  std::stop_source source;
  source.request_stop();
  const auto result =
      Attack(ByHand(0), MemoryMembers({ByHand(0.3f)}), 0, {}, {}, source.get_token());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kInterrupted);
}

TEST(Attack, RefusesWhatDoesNotFit) {
  const Network network = ByHand(0);
  const MemoryMembers members({ByHand(0.3f)});
  EXPECT_FALSE(Attack(network, members, 2, {}, {}).ok());
  EXPECT_FALSE(Attack(network, members, -1, {}, {}).ok());
  EXPECT_FALSE(Attack(network, members, 0, {}, {.pool = 0}).ok());
  EXPECT_FALSE(Attack(network, members, 0, {}, {.local_searches = 0}).ok());
  Stream stream(1, "attack test");
  const Network other = RandomNetwork(Dense(2, 2), stream);
  EXPECT_FALSE(Attack(other, members, 0, {}, {}).ok());
  EXPECT_FALSE(Attack(other, MemoryMembers({other}), 0, std::vector<float>(3), {}).ok());
}

TEST(NetworkGradient, EqualsEvaluatorAndDifferenceQuotients) {
  for (const bool conv : {false, true}) {
    SCOPED_TRACE(conv ? "seed 7, conv" : "seed 7");
    Stream stream(7, "gradient test");
    const Network network = RandomNetwork(conv ? Conv(9, 3, 3) : Dense(9, 3), stream);
    const Evaluator evaluator(network);
    NetworkGradient gradient(network.architecture, network.parameters, 1);
    for (int i = 0; i < 50; ++i) {
      std::vector<float> x(9);
      for (float& v : x) v = static_cast<float>(stream.Uniform());
      std::vector<double> logits(3), wide(x.begin(), x.end()), slope(9);
      evaluator.Logits(x, logits);
      const double f = gradient.Evaluate(wide);
      EXPECT_NEAR(f, logits[1] - std::max(logits[0], logits[2]), 1e-12);
      gradient.Gradient(slope);
      for (std::size_t j = 0; j < 9; ++j) {
        // Small enough that no kink lies between, except by an accident of probability ~1e-5.
        constexpr double kStep = 1e-7;
        std::vector<double> moved = wide;
        moved[j] += kStep;
        EXPECT_NEAR((gradient.Evaluate(moved) - f) / kStep, slope[j], 1e-6);
      }
    }
  }
}

TEST(PointScorer, EqualsEvaluatorToFloatAccuracy) {
  for (const bool conv : {false, true}) {
    SCOPED_TRACE(conv ? "seed 8, conv" : "seed 8");
    Stream stream(8, "score test");
    const Network network = RandomNetwork(conv ? Conv(9, 3, 3) : Dense(9, 3), stream);
    std::vector<float> points(150 * 9);
    for (float& v : points) v = static_cast<float>(stream.Uniform());
    std::vector<float> f(150);
    PointScorer(network.architecture, 2).Score(network.parameters, PointBatch(points, 9), f);
    const Evaluator evaluator(network);
    for (std::size_t p = 0; p < f.size(); ++p) {
      std::vector<double> logits(3);
      evaluator.Logits(std::span(points).subspan(9 * p, 9), logits);
      EXPECT_NEAR(f[p], logits[2] - std::max(logits[0], logits[1]), 1e-4);
    }
  }
}

TEST(ScoreMembers, KeepsTheLeastConfidentOfEveryPoint) {
  Stream stream(9, "score test");
  const Network network = RandomNetwork(Dense(3, 2), stream);
  const MemoryMembers members = NearMembers(network, 70, 0.1, stream);
  std::vector<float> points(20 * 3);
  for (float& v : points) v = static_cast<float>(stream.Uniform());
  const PointBatch batch(points, 3);
  std::vector<std::vector<MemberScore>> all(20);
  std::vector<float> g(20);
  for (std::int64_t m = 0; m < 70; ++m) {
    PointScorer(network.architecture, 0).Score(members.Member(m).parameters, batch, g);
    for (std::size_t p = 0; p < 20; ++p) all[p].push_back({g[p], m});
  }
  for (auto& scores : all) {
    std::ranges::sort(scores);
    scores.resize(4);
  }
  for (const int threads : {1, 3}) {
    EXPECT_EQ(ScoreMembers(members, 0, batch, 4, threads, {}).value(), all);
  }
}

// Against vertices by enumeration: an optimum has at most one coordinate off its bounds.
TEST(BoxKnapsack, EqualsEnumeration) {
  const std::uint64_t seed = 10;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Stream stream(seed, "knapsack test");
  for (int round = 0; round < 500; ++round) {
    constexpr std::size_t kSize = 4;
    std::vector<double> a(kSize), b(kSize), low(kSize), high(kSize), s(kSize);
    for (std::size_t j = 0; j < kSize; ++j) {
      a[j] = stream.Below(5) == 0 ? 0 : stream.Normal();
      b[j] = stream.Below(5) == 0 ? 0 : stream.Normal();
      low[j] = stream.Below(3) == 0 ? 0 : -stream.Uniform();
      high[j] = stream.Below(3) == 0 ? 0 : stream.Uniform();
    }
    const double limit = stream.Normal();
    BoxKnapsack().Solve(a, b, limit, low, high, s);
    const auto dot = [](const std::vector<double>& u, const std::vector<double>& v) {
      double sum = 0;
      for (std::size_t j = 0; j < kSize; ++j) sum += u[j] * v[j];
      return sum;
    };
    double best = -std::numeric_limits<double>::infinity(), least = -best;
    for (int corner = 0; corner < (1 << kSize); ++corner) {
      std::vector<double> v(kSize);
      for (std::size_t j = 0; j < kSize; ++j) v[j] = (corner >> j & 1) != 0 ? high[j] : low[j];
      least = std::min(least, dot(b, v));
      if (dot(b, v) <= limit) best = std::max(best, dot(a, v));
      for (std::size_t j = 0; j < kSize; ++j) {
        if (b[j] == 0) continue;
        std::vector<double> edge = v;
        edge[j] += (limit - dot(b, v)) / b[j];
        if (edge[j] >= low[j] && edge[j] <= high[j]) best = std::max(best, dot(a, edge));
      }
    }
    for (std::size_t j = 0; j < kSize; ++j) EXPECT_TRUE(s[j] >= low[j] && s[j] <= high[j]);
    if (least > limit) {
      EXPECT_NEAR(dot(b, s), least, 1e-12);
    } else {
      EXPECT_LE(dot(b, s), limit + 1e-12);
      EXPECT_NEAR(dot(a, s), best, 1e-9);
    }
  }
}

}  // namespace
}  // namespace lucid
