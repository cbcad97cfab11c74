// Every variant of the MILP engine and the native engine against brute force, on random tiny
// networks.
//
// LUCID_SOUNDNESS_INSTANCES and LUCID_SOUNDNESS_SEED (decimal) say how many instances to run
// (default 800) and the seed of the first one (default 1); the others follow it. A failure names
// the seed of its instance, which alone makes it again.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stop_token>
#include <vector>

#include "native/region_search.h"
#include "numeric/rounding.h"
#include "paper/milp_bound.h"
#include "paper/test_support.h"
#include "support/oracle.h"

namespace lucid {
namespace {

// Of ExactConfidence (see there): how far the oracle may be above the truth.
constexpr double kOracleRounding = 1e-25;

constexpr double kGap = 1e-3;
// LP tolerances (1e-7 per row) and binaries that count as integral within 1e-6, times weights: how
// much the engine may give away beyond the gap. Bounds tightness only.
constexpr double kSolverSlack = 2e-5;
// Rounds for one search of the native engine. It need not come to an end (it knows no exact end for
// three classes, and may have no witness to start from); what it has proved by then has to hold.
constexpr int kNativeRounds = 60;
constexpr int kBlindRounds = 15;

std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Instance {
  Network network;
  std::vector<Network> members;
  std::int32_t label = 0;
  double tau = 0;
  std::size_t known = 0;  // how much of the answer is given away
};

Architecture RandomArchitecture(Stream& stream) {
  // The larger ones are rarer: an instance of every larger size costs several of the smallest.
  const auto sometimes = [&](int more) { return stream.Below(6) == 0 ? more : 0; };
  std::vector<HiddenLayer> hidden;
  const int layers = 1 + sometimes(1);
  hidden.reserve(2);
  for (int m = 0; m < layers; ++m) {
    hidden.push_back({HiddenLayer::Kind::kDense, 2 + sometimes(1)});
  }
  return Hidden(hidden, static_cast<std::int64_t>(1 + stream.Below(3)), 2 + sometimes(1));
}

Instance RandomInstance(std::uint64_t seed) {
  Stream stream(seed, "soundness");
  Instance instance{RandomNetwork(RandomArchitecture(stream), stream), {}};
  if (stream.Below(8) == 0) {  // degenerate: dead neurons, equal outputs, ties
    for (float& p : instance.network.parameters) {
      if (stream.Below(3) == 0) p = 0;
    }
  }
  Balance(instance.network, stream);
  constexpr std::array kDistances = {0.003, 0.03, 0.1, 0.3, 0.6};
  const auto members = 1 + std::min({stream.Below(5), stream.Below(5), stream.Below(5)});
  for (std::uint64_t i = 0; i < members; ++i) {
    const double distance = kDistances[stream.Below(kDistances.size())];
    instance.members.push_back(stream.Below(16) == 0 ? instance.network
                                                     : NearTo(instance.network, distance, stream));
  }
  instance.label = static_cast<std::int32_t>(
      stream.Below(static_cast<std::uint64_t>(instance.network.architecture.classes())));
  constexpr std::array kTaus = {0.0, 0.01, 0.1, 10.0};
  instance.tau = kTaus[stream.Below(kTaus.size())];
  instance.known = stream.Below(3);
  return instance;
}

// What has been seen over all instances, so that nobody fools himself with a trivial test.
struct Tally {
  std::int64_t instances = 0, leaking = 0, bounds = 0, milps = 0, splits = 0, exact = 0;
  std::int64_t near_degenerate = 0, unproved = 0;
  std::int64_t native = 0, native_blind = 0, native_unfinished = 0, regions = 0;
};

class Checker {
 public:
  Checker(const Instance& instance, Tally& tally)
      : instance_(instance),
        tally_(tally),
        members_(instance.members),
        facts_(FactsOf(instance.network, UnitBox(instance.network.architecture.inputs()))),
        error_(LargestError(members_, 1).value()),
        leak_(BruteForceBeta(instance.network, instance.members, instance.label, 0, error_)) {}

  void Run() {
    ++tally_.instances;
    tally_.leaking += leak_.beta > 0.001;
    for (const bool tighten : {true, false}) {
      // With what a perfect attack knows, with half of it, with nothing.
      const double share = 0.5 * static_cast<double>((instance_.known + (tighten ? 1 : 0)) % 3);
      const double known = NextDown(share * static_cast<double>(leak_.beta));
      std::array<double, std::size(kVariants)> bounds = {};
      for (const Variant variant : kVariants) {
        SCOPED_TRACE(testing::Message() << NameOf(variant) << (tighten ? ", tightened" : ""));
        bounds[static_cast<std::size_t>(variant)] = Bound(members_, variant, tighten, known);
      }
      const auto of = [&](Variant v) { return bounds[static_cast<std::size_t>(v)]; };
      ExpectTight(of(Variant::kNaive), "naive");
      ExpectTight(of(Variant::kHMB), "HMB");
      // On dense networks both have the same solutions: those of every network inside.
      EXPECT_LE(of(Variant::kHM), WithSlack(of(Variant::kH)));
      EXPECT_LE(of(Variant::kHMB), WithSlack(of(Variant::kHM)));
      EXPECT_LE(of(Variant::kFull), WithSlack(of(Variant::kHMRiS)));
      if (!tighten) CheckSubset(of(Variant::kHM));
      CheckNative(/*cut_phases=*/tighten, known);
    }
  }

 private:
  static double WithSlack(double bound) { return bound * (1 + kGap) + kSolverSlack; }

  double Bound(const MemoryMembers& members, Variant variant, bool tighten, double known) {
    MilpBoundOptions options;
    options.variant = variant;
    options.tau = instance_.tau;
    options.common.gap = kGap;
    options.tighten = tighten;
    options.common.threads = 1;
    AttackResult attack;
    attack.beta_lower = std::max(known, 0.0);
    const Result<ClassBound> result =
        BoundClassByMilp({members, facts_, options, error_}, instance_.label, attack,
                         std::chrono::steady_clock::time_point::max(), {});
    if (!result.ok()) {
      ADD_FAILURE() << result.error().message;
      return 0;
    }
    ++tally_.bounds;
    tally_.exact += result->status == BoundStatus::kExact;
    for (const auto& [name, count] : result->counters) {
      if (name == "milps") tally_.milps += count;
      if (name == "splits") tally_.splits += count;
      if (name == "unproved") tally_.unproved += count;
    }
    EXPECT_NE(result->status, BoundStatus::kDeadline);
    if (&members == &members_) ExpectAboveTheLeak(result->beta_upper);
    CheckWitness(*result, members);
    return result->beta_upper;
  }

  // As it is, boxes are cut; with more copies of its inputs, phases. A search that knows no witness
  // gets none on the way either: no lower bound props up what it proves, its bounds stand alone.
  void CheckNative(bool cut_phases, double known) {
    SCOPED_TRACE(cut_phases ? "native, phases" : "native, boxes");
    constexpr std::array<std::int64_t, 4> kCopies = {1, 16, 8, 4};
    const std::int64_t copies =
        cut_phases ? kCopies[static_cast<std::size_t>(instance_.network.architecture.inputs())] : 1;
    const Network network = Repeated(instance_.network, copies);
    std::vector<Network> networks;
    for (const Network& member : instance_.members) networks.push_back(Repeated(member, copies));
    const MemoryMembers members(networks);
    const double error = std::max(error_, LargestError(members, 1).value());
    RegionSearchOptions options;
    options.gap = kGap;
    options.absolute_gap = 1e-6;
    options.threads = 1;
    options.improve_witnesses = known > 0;
    std::stop_source source;
    int rounds = 0;
    options.stop = source.get_token();
    options.save_every = 0;
    options.save = [&](const std::string&) {
      if (++rounds == (known > 0 ? kNativeRounds : kBlindRounds)) source.request_stop();
      return Ok();
    };
    WitnessKeeper witnesses(network, members, instance_.label, std::max(known, 0.0), std::nullopt);
    const auto found =
        SearchRegions(network, members, instance_.label, error, options, witnesses, "");
    ASSERT_TRUE(found.ok()) << found.error().message;
    tally_.regions += found->regions;
    ExpectAboveTheLeak(found->verdict.upper());
    ++(known > 0 ? tally_.native : tally_.native_blind);
    if (found->verdict.finished()) {
      ExpectTight(found->verdict.upper(), "native");
    } else if (known > 0) {
      ++tally_.native_unfinished;
    }
    ClassBound bound;
    bound.beta_upper = found->verdict.upper();
    bound.beta_lower = witnesses.beta_lower();
    bound.witness = witnesses.best();
    EXPECT_TRUE(static_cast<Exact>(bound.beta_lower) <= leak_.beta + 1e-12);
    if (copies == 1) CheckWitness(bound, members);
    const std::vector<double> each =
        UpperOfMembers(BoundEachMember(network, members, instance_.label, error, 5).value(),
                       members.count(), network.architecture.classes());
    ExpectAboveTheLeak(*std::ranges::max_element(each));
  }

  // The claim of the whole project. leak_.x has f = leak_.beta and g <= member_error.
  void ExpectAboveTheLeak(double upper) const {
    EXPECT_TRUE(static_cast<Exact>(upper) >= leak_.beta - kOracleRounding)
        << "UNSOUND: " << upper << " < " << static_cast<double>(leak_.beta);
  }

  void CheckWitness(const ClassBound& bound, const MemoryMembers& members) const {
    if (!bound.witness) return;
    const Point x(bound.witness->x.begin(), bound.witness->x.end());
    for (const double v : x) EXPECT_TRUE(v >= 0 && v <= 1) << v;
    const Network member = members.Member(bound.witness->member);
    EXPECT_TRUE(ExactConfidence(instance_.network, instance_.label, x) >= bound.beta_lower);
    EXPECT_TRUE(ExactConfidence(member, instance_.label, x) <= 0);
    EXPECT_LE(bound.beta_lower, bound.beta_upper);
  }

  // At or below the truth, up to gap and slack. What almost leaks may leak for a solver with
  // tolerances: then it is the truth of g <= slack that counts.
  void ExpectTight(double bound, const char* name) {
    if (bound <= WithSlack(static_cast<double>(leak_.beta))) return;
    ++tally_.near_degenerate;
    const TrueLeak almost = BruteForceBeta(instance_.network, instance_.members, instance_.label,
                                           kSolverSlack, kSolverSlack);
    EXPECT_LE(bound, WithSlack(static_cast<double>(almost.beta)))
        << name << " is loose; the truth is " << static_cast<double>(leak_.beta);
  }

  // S within T gives beta_S <= beta_T: of the truth, and of the engine's hyper-networks.
  void CheckSubset(double of_all) {
    if (instance_.members.size() < 2) return;
    std::vector<Network> some(instance_.members.begin() + 1, instance_.members.end());
    const TrueLeak part = BruteForceBeta(instance_.network, some, instance_.label, 0, error_);
    EXPECT_TRUE(part.beta <= leak_.beta + kOracleRounding + 1e-12);
    const MemoryMembers fewer(std::move(some));
    const double of_some = Bound(fewer, Variant::kHM, false, 0);
    EXPECT_TRUE(static_cast<Exact>(of_some) >= part.beta - kOracleRounding) << "UNSOUND";
    EXPECT_LE(of_some, WithSlack(of_all));
  }

  const Instance& instance_;
  Tally& tally_;
  const MemoryMembers members_;
  const NetworkFacts facts_;
  const double error_;
  const TrueLeak leak_;
};

double BetaOf(const Network& network, const std::vector<Network>& members) {
  return static_cast<double>(BruteForceBeta(network, members, 0, 0, 1e-15).beta);
}

// The numbers are worked out in src/paper/encoding_test.cc.
TEST(Oracle, FindsTheBetasWorkedByHand) {
  const auto shifted = [](float shift) {
    return HandMade("1 > dense 1 > 2", {1, -shift, 1, 0, -0.5F, 0});
  };
  EXPECT_NEAR(BetaOf(shifted(0), {shifted(0.125F), shifted(0.3F)}), 0.3F, 1e-12);
  EXPECT_EQ(BetaOf(shifted(0), {shifted(0)}), 0);
  const auto deep = [](float bias, float w) {
    return HandMade("1 > dense 1 > dense 1 > 2", {1, bias, w, 0, -1, 0, 2.375F, 0});
  };
  EXPECT_NEAR(BetaOf(deep(0, 1), {deep(0.25F, 1), deep(0.25F, 2)}), 1.4375, 1e-12);
  // g = |x - 0.5| touches 0 in one point.
  EXPECT_NEAR(BetaOf(HandMade("1 > dense 2 > 2", {1, -1, -0.5F, 0.5F, 0, 0, 0, 0, 0.5F, 0}),
                     {HandMade("1 > dense 2 > 2", {1, -1, -0.5F, 0.5F, 1, 1, 0, 0, 0, 0})}),
              0.5, 1e-12);
}

// Members with N's own neurons: their hyperplanes coincide. Points of a face that are no vertices
// once bred on this one until the memory was full.
TEST(Oracle, StaysSmallWhereHyperplanesCoincide) {
  const Instance instance = RandomInstance(76238);
  const TrueLeak leak =
      BruteForceBeta(instance.network, instance.members, instance.label, 0, 1e-15);
  EXPECT_GT(leak.beta, 0);
}

TEST(Soundness, EveryEngineIsAtOrAboveBruteForceAndTheExactOnesEqualIt) {
  const std::uint64_t first = FromEnvironment("LUCID_SOUNDNESS_SEED", 1);
  const std::uint64_t count = FromEnvironment("LUCID_SOUNDNESS_INSTANCES", 800);
  Tally tally;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Instance instance = RandomInstance(seed);
    Checker(instance, tally).Run();
    if (testing::Test::HasFatalFailure()) return;
  }
  std::printf(
      "seeds %llu to %llu: %lld instances, %lld leak; %lld bounds (%lld exact), %lld MILPs, "
      "%lld splits, %lld unproved leaves, %lld near degenerate; %lld native searches, "
      "%lld unfinished, and %lld blind ones; %lld regions\n",
      static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + count - 1),
      static_cast<long long>(tally.instances), static_cast<long long>(tally.leaking),
      static_cast<long long>(tally.bounds), static_cast<long long>(tally.exact),
      static_cast<long long>(tally.milps), static_cast<long long>(tally.splits),
      static_cast<long long>(tally.unproved), static_cast<long long>(tally.near_degenerate),
      static_cast<long long>(tally.native), static_cast<long long>(tally.native_unfinished),
      static_cast<long long>(tally.native_blind), static_cast<long long>(tally.regions));
  if (count >= 100) {
    EXPECT_GE(4 * tally.leaking, tally.instances) << "the test has become easy";
    EXPECT_GT(tally.splits, 0);
    EXPECT_GT(tally.regions, 2 * tally.native) << "the native engine had nothing to split";
    EXPECT_GT(4 * tally.native_blind, tally.native);
    EXPECT_LE(2 * tally.native_unfinished, tally.native) << "the native engine is loose";
    EXPECT_LE(100 * tally.near_degenerate, tally.bounds) << "the exact variants are loose";
  }
}

}  // namespace
}  // namespace lucid
