// The checker's bounds beside the engine's, which are other code, and beside what networks really
// do.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "check/claim_checker.h"
#include "check/proof_bounder.h"
#include "check/proof_moments.h"
#include "lucid/data/domain.h"
#include "pair/moment_bounder.h"
#include "pair/region_bounder.h"
#include "random/stream.h"
#include "support/pair_cases.h"

namespace lucid {
namespace {

constexpr std::uint64_t kSeed = 20240229;

const char* const kShapes[] = {
    "3 > dense 5 > 2", "2 > dense 8 > dense 6 > 3", "7 > dense 20 > dense 20 > 2",
    "4 > dense 6 > dense 6 > dense 6 > dense 6 > 2", "8 > conv 3 width 3 stride 2 > dense 4 > 2"};

// Inputs some of which take one of a few points together: a category, one-hot or on a quarter
// circle, and in the seven inputs both.
Domain DomainWithGroups(std::int64_t inputs) {
  std::string text = "column,kind,offset,divisor,categories\n";
  std::int64_t left = inputs;
  if (inputs == 2 || inputs == 7) text += "q,quarter-circle,,,a|b|c|d\n", left -= 2;
  if (inputs > 2) text += "h,categorical,,,x|y|z\n", left -= 3;
  for (; left > 0; --left) text += fmt::format("n{},numeric,0,1,\n", left);
  text += "label,label,,,0|1\n";
  return Domain::OfSchema(*Schema::Parse(text, "schema"));
}

// A network, a member near it, a region with an input in it, a question and multipliers. Every
// other region is a part of a domain with groups.
struct Instance {
  explicit Instance(std::uint64_t seed)
      : stream(seed, "proof agreement"),
        network{Architecture::FromCanonical(kShapes[seed % std::size(kShapes)]).value(), {}} {
    const double distance = std::pow(10.0, -3 * stream.Uniform());
    for (std::int64_t i = 0; i < network.architecture.parameters(); ++i) {
      network.parameters.push_back(static_cast<float>(stream.Uniform(-1, 1)));
      member.push_back(network.parameters.back() +
                       static_cast<float>(distance * stream.Uniform(-1, 1)));
    }
    const double width = std::pow(10.0, -2 * stream.Uniform());
    for (std::int64_t j = 0; j < network.architecture.inputs(); ++j) {
      const double low = stream.Uniform(0, 1 - width);
      region.box.push_back({low, low + width});
    }
    if (seed / std::size(kShapes) % 2 == 1) PutIntoGroups();
    inside = RandomPoint();
    FixPhases();
    const auto classes = static_cast<std::uint64_t>(network.architecture.classes());
    question.label = static_cast<std::int32_t>(stream.Below(classes));
    question.other =
        static_cast<std::int32_t>((question.label + 1 + stream.Below(classes - 1)) % classes);
    question.below =
        static_cast<std::int32_t>((question.label + 1 + stream.Below(classes - 1)) % classes);
    question.member_error = 1e-9;
    if (classes > 2 && stream.Below(2) == 0) {
      question.weights = RandomWeights(network.architecture, question.label, stream);
    }
    // A band around what the network does somewhere in the region.
    if (stream.Below(2) == 0) return;
    const auto sums = Sums(network.parameters, inside).back();
    double f = std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < sums.size(); ++c) {
      if (c != static_cast<std::size_t>(question.label)) {
        f = std::min(f, sums[question.label] - sums[c]);
      }
    }
    const double least = std::max(f - 0.2 * stream.Uniform(), 0.0);
    const bool open = stream.Below(3) == 0;
    band = Band{question.label, least,
                open ? std::numeric_limits<double>::infinity()
                     : std::max(least, f + 0.2 * stream.Uniform())};
  }

  RegionBounder::EnteredPair EnterEngine(RegionBounder& engine) const {
    return engine.EnterPair(region, member, band ? &*band : nullptr);
  }
  bool EnterChecker(ProofBounder& checker, Ties ties = Ties::kRule) const {
    std::optional<ProofBounder::Band> same;
    if (band) same = ProofBounder::Band{band->label, band->least, band->most};
    return checker.EnterRegion(CheckersRegion(), same, ties) && checker.EnterMember(member);
  }
  ProofBounder::Question CheckersQuestion() const {
    return {question.label, question.other, question.below, question.member_error,
            question.weights};
  }
  // Whether N's confidence at these sums is in the band.
  bool InBand(const std::vector<double>& outputs) const {
    if (!band) return true;
    double f = std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < outputs.size(); ++c) {
      if (c != static_cast<std::size_t>(question.label)) {
        f = std::min(f, outputs[question.label] - outputs[c]);
      }
    }
    return band->least <= f && f <= band->most;
  }

  // The groups' features of the box become the hull of some of their points, at least one.
  void PutIntoGroups() {
    domain = DomainWithGroups(network.architecture.inputs());
    for (const Domain::Group& group : domain->groups()) {
      std::vector<const std::vector<float>*> some;
      while (some.empty()) {
        for (const auto& point : group.points) {
          if (stream.Below(2) == 0) some.push_back(&point);
        }
      }
      for (std::int64_t j = 0; j < group.width; ++j) {
        Interval& side = region.box[group.first + j];
        side = Interval::Point((*some.front())[j]);
        for (const auto* point : some) {
          side = {std::min<double>(side.lower, (*point)[j]),
                  std::max<double>(side.upper, (*point)[j])};
        }
      }
    }
  }
  const Domain* TheDomain() const { return domain ? &*domain : nullptr; }

  // Of the domain, in the box; or a corner of it in the inputs that are free.
  std::vector<double> RandomPoint(bool corner = false) {
    std::vector<double> x;
    for (const Interval& range : region.box) {
      const double inner = stream.Uniform(range.lower, range.upper);
      x.push_back(!corner ? inner : stream.Below(2) == 0 ? range.lower : range.upper);
    }
    if (!domain) return x;
    for (const Domain::Group& group : domain->groups()) {
      for (bool in_box = false; !in_box;) {
        const std::vector<float>& point = group.points[stream.Below(group.points.size())];
        in_box = true;
        for (std::int64_t j = 0; j < group.width; ++j) {
          const Interval side = region.box[group.first + j];
          x[group.first + j] = point[j];
          in_box = in_box && side.lower <= point[j] && point[j] <= side.upper;
        }
      }
    }
    return x;
  }

  // Weighted sums of all layers.
  std::vector<std::vector<double>> Sums(std::span<const float> parameters,
                                        const std::vector<double>& x) const {
    std::vector<std::vector<double>> sums;
    std::vector<double> z = x;
    for (const Layer& layer : network.architecture.layers()) {
      std::vector<double>& next = sums.emplace_back();
      for (std::int64_t o = 0; o < layer.filters; ++o) {
        for (std::int64_t t = 0; t < layer.positions; ++t) {
          double sum = parameters[layer.bias_at + o];
          for (std::int64_t k = 0; k < layer.taps; ++k) {
            sum += static_cast<double>(parameters[layer.weight_at + o * layer.taps + k]) *
                   z[t * layer.stride + layer.TapOffset(k)];
          }
          next.push_back(sum);
        }
      }
      z.clear();
      for (const double sum : next) z.push_back(std::max(sum, 0.0));
    }
    return sums;
  }

  // Some neurons' phases, as they are at `inside`.
  void FixPhases() {
    const auto ours = Sums(network.parameters, inside), theirs = Sums(member, inside);
    for (std::uint64_t n = stream.Below(6); n > 0; --n) {
      const std::size_t layer = stream.Below(ours.size() - 1);
      const std::size_t unit = stream.Below(ours[layer].size());
      const bool of_member = stream.Below(2) == 1;
      const double sum = (of_member ? theirs : ours)[layer][unit];
      region.phases.push_back(
          {static_cast<std::int32_t>(layer), static_cast<std::int32_t>(unit), of_member, sum >= 0});
    }
  }

  ProofRegion CheckersRegion() const {
    ProofRegion result;
    for (const Interval& range : region.box) {
      result.lower.push_back(range.lower);
      result.upper.push_back(range.upper);
    }
    for (const PhaseSplit& phase : region.phases) {
      result.phases.push_back({phase.layer, phase.unit, phase.member, phase.active});
    }
    return result;
  }

  bool HasPhases(const std::vector<std::vector<double>>& ours,
                 const std::vector<std::vector<double>>& theirs) const {
    return std::ranges::all_of(region.phases, [&](const PhaseSplit& phase) {
      const double sum = (phase.member ? theirs : ours)[phase.layer][phase.unit];
      return phase.active ? sum >= 0 : sum <= 0;
    });
  }

  Stream stream;
  Network network;
  std::optional<Domain> domain;
  std::vector<float> member;
  Region region;
  std::vector<double> inside;
  PairQuestion question;
  std::optional<Band> band;
};

// Multipliers as a search leaves them, or random ones, which feel every end of every interval.
std::vector<float> SomeDual(Instance& instance, RegionBounder& engine, const PairFacts& pair,
                            double& lambda) {
  Multipliers multipliers;
  std::vector<float> dual;
  engine.Bound(pair, instance.question, multipliers, 8, -1e9, &dual);
  lambda = multipliers.lambda;
  if (instance.stream.Below(2) == 0) return dual;
  lambda = 3 * instance.stream.Uniform();
  for (float& value : dual) value += static_cast<float>(instance.stream.Uniform(-1, 1));
  return dual;
}

TEST(ProofAgreement, CheckerAndEngineFindTheSameBounds) {
  double worst = 0;
  int inhabited_regions = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Instance instance(seed);
    RegionBounder engine(instance.network, instance.TheDomain());
    ProofBounder checker(instance.network, instance.TheDomain());
    const auto pair = instance.EnterEngine(engine);
    ASSERT_EQ(static_cast<bool>(pair), instance.EnterChecker(checker));
    if (!pair) continue;
    ++inhabited_regions;
    double lambda = 0;
    const std::vector<float> dual = SomeDual(instance, engine, *pair, lambda);
    const double theirs = engine.BoundOfDual(*pair, instance.question, lambda, dual).value;
    const double ours = checker.Bound(instance.CheckersQuestion(), lambda, dual);
    // Large multipliers amplify what the two programs charge for rounding.
    double scale = 1 + std::abs(theirs);
    for (const float value : dual) scale += 0.1 * std::abs(value);
    const double difference = std::abs(ours - theirs) / scale;
    worst = std::max(worst, difference);
    EXPECT_LT(difference, 1e-9) << ours << " and the engine's " << theirs;
    Multipliers multipliers;
    const double by_lines = engine.Bound(*pair, instance.question, multipliers, 0, -1e9).value;
    // Two lines that meet are chosen now this way, now that, by rounding: the checker tries both.
    EXPECT_NEAR(checker.BoundByLines(instance.CheckersQuestion(), multipliers.lambda), by_lines,
                1e-8 * (1 + std::abs(by_lines)));
    // Intervals: the checker's are at least as good as the engine's.
    PairQuestion same = instance.question;
    same.below = same.other;
    same.weights.clear();
    ASSERT_TRUE(checker.EnterMember(instance.member, /*quick=*/true));
    const double quick =
        checker.BoundByIntervals({same.label, same.other, same.below, same.member_error});
    const double screen = engine.IntervalBound(*pair.region, instance.member, same).value;
    EXPECT_LE(quick, screen + 1e-9 * (1 + std::abs(screen)));
  }
  EXPECT_GT(inhabited_regions, 700);
  RecordProperty("worst", testing::PrintToString(worst));
}

// What a domain is worth: its points give smaller bounds than the box around them, to both.
TEST(ProofAgreement, PointsGiveSmallerBoundsThanTheirBox) {
  int smaller = 0, with_groups = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Instance instance(seed);
    if (!instance.domain) continue;
    instance.band.reset();
    RegionBounder engine(instance.network, instance.TheDomain());
    const auto pair = instance.EnterEngine(engine);
    if (!pair) continue;
    ++with_groups;
    double lambda = 0;
    const std::vector<float> dual = SomeDual(instance, engine, *pair, lambda);
    ProofBounder checker(instance.network, instance.TheDomain()), of_box(instance.network);
    ASSERT_TRUE(instance.EnterChecker(checker));
    ASSERT_TRUE(instance.EnterChecker(of_box));
    const auto question = instance.CheckersQuestion();
    const double points = checker.Bound(question, lambda, dual);
    const double box = of_box.Bound(question, lambda, dual);
    EXPECT_LE(points, box + 1e-9 * (1 + std::abs(box)));
    smaller += points < box - 0.01;
  }
  EXPECT_GT(with_groups, 150);
  EXPECT_GT(smaller, 60);
}

// If the checker forgot a class of a mixture, gave it another's weight, or took the heaviest class
// alone, it would find another bound.
TEST(ProofAgreement, EveryWeightCounts) {
  int weighed = 0, moved = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Instance instance(seed);
    if (instance.question.weights.empty()) continue;
    ProofBounder checker(instance.network, instance.TheDomain());
    if (!instance.EnterChecker(checker)) continue;
    const double bound = checker.BoundByLines(instance.CheckersQuestion(), 0.5);
    const std::vector<std::uint8_t> given = instance.question.weights;
    for (std::size_t j = 0; j < given.size(); ++j) {
      if (given[j] == 0) continue;
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (i == j || static_cast<std::int32_t>(i) == instance.question.label) continue;
        std::vector<std::uint8_t>& weights = instance.question.weights;
        weights = given;
        const auto part = static_cast<std::uint8_t>(std::min<int>(weights[j], 255 - weights[i]));
        weights[j] -= part;
        weights[i] += part;
        ++weighed;
        moved += std::abs(checker.BoundByLines(instance.CheckersQuestion(), 0.5) - bound) >
                 1e-9 * (1 + std::abs(bound));
      }
    }
  }
  EXPECT_GT(weighed, 100);
  EXPECT_GT(moved, 9 * weighed / 10);
}

void UseInstructionSets(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Calls body(instance, lambda, dual) for each of so many random instances whose region holds an
// input, with multipliers for the engine's pair.
template <class Body>
void ForEachInstance(std::uint64_t count, const Body& body) {
  for (std::uint64_t seed = kSeed; seed < kSeed + count; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Instance instance(seed);
    RegionBounder engine(instance.network, instance.TheDomain());
    const auto pair = instance.EnterEngine(engine);
    if (!pair) continue;
    double lambda = 0;
    const std::vector<float> dual = SomeDual(instance, engine, *pair, lambda);
    body(instance, lambda, dual);
  }
}

// A claim may hold with no room at all, so a proof that one machine accepts must not depend on what
// another machine's vectors and multiply-adds round.
TEST(ProofAgreement, TheCheckersBoundsHaveTheSameBitsOnEveryInstructionSet) {
  std::vector<std::int64_t> targets;
  for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_NEON, HWY_STATIC_TARGET}) {
    if ((hwy::SupportedTargets() & target) != 0) targets.push_back(target);
  }
  if (targets.size() < 2) GTEST_SKIP() << "one instruction set only";
  int compared = 0;
  ForEachInstance(400, [&](Instance& instance, double lambda, const std::vector<float>& dual) {
    std::vector<double> first;
    for (const std::int64_t target : targets) {
      UseInstructionSets(target);
      ProofBounder checker(instance.network, instance.TheDomain());
      ASSERT_TRUE(instance.EnterChecker(checker));
      const auto question = instance.CheckersQuestion();
      std::vector<double> found = {checker.Bound(question, lambda, dual),
                                   checker.BoundByLines(question, lambda),
                                   checker.BoundByLines(question, 1)};
      ASSERT_TRUE(checker.EnterMember(instance.member, /*quick=*/true));
      found.push_back(checker.BoundByIntervals(question));
      if (first.empty()) first = found;
      EXPECT_EQ(first, found) << hwy::TargetName(target);
    }
    UseInstructionSets(0);
    ++compared;
  });
  EXPECT_GT(compared, 250);
}

// Points of the region, their sums inside the intervals, and f - lambda (g - e) below every bound,
// whatever the multipliers.
TEST(ProofAgreement, NoInputContradictsTheChecker) {
  constexpr double kRounding = 1e-12;  // of this test's own evaluation
  std::int64_t points = 0;
  ForEachInstance(500, [&](Instance& instance, double lambda, const std::vector<float>& dual) {
    for (const Ties ties : {Ties::kRule, Ties::kAsComputed, Ties::kLast}) {
      ProofBounder checker(instance.network, instance.TheDomain());
      ASSERT_TRUE(instance.EnterChecker(checker, ties));
      const PairQuestion& q = instance.question;
      const double bound = checker.Bound(instance.CheckersQuestion(), lambda, dual);
      const double by_lines = checker.BoundByLines(instance.CheckersQuestion(), lambda);
      for (int n = 0; n < 100; ++n) {
        // Corners, where bounds are tight.
        const std::vector<double> x =
            n == 0 ? instance.inside : instance.RandomPoint(/*corner=*/n % 3 == 1);
        const auto ours = instance.Sums(instance.network.parameters, x);
        const auto theirs = instance.Sums(instance.member, x);
        if (!instance.HasPhases(ours, theirs) || !instance.InBand(ours.back())) continue;
        ++points;
        for (std::size_t m = 0; m + 1 < ours.size(); ++m) {
          for (std::size_t k = 0; k < ours[m].size(); ++k) {
            const Interval sum = checker.Sum(m, k), difference = checker.Difference(m, k);
            const double d = theirs[m][k] - ours[m][k];
            EXPECT_GE(ours[m][k], sum.lower - kRounding);
            EXPECT_LE(ours[m][k], sum.upper + kRounding);
            EXPECT_GE(d, difference.lower - kRounding);
            EXPECT_LE(d, difference.upper + kRounding);
          }
        }
        double f = ours.back()[q.label] - ours.back()[q.below];
        if (!q.weights.empty()) {
          f = 0;
          for (std::size_t j = 0; j < q.weights.size(); ++j) {
            f += q.weights[j] * (ours.back()[q.label] - ours.back()[j]) / kWholeWeight;
          }
        }
        const double g = theirs.back()[q.label] - theirs.back()[q.other];
        EXPECT_LE(f - lambda * (g - q.member_error), bound + kRounding * (1 + lambda));
        EXPECT_LE(f - lambda * (g - q.member_error), by_lines + kRounding * (1 + lambda));
      }
    }
  });
  EXPECT_GT(points, 20'000);
}

// Of f - g + e over the band, by moments: what an engine's solver leaves, or that and noise.
TEST(ProofAgreement, MomentsAreThoseOfTheEngineAndAboveEveryInput) {
  constexpr double kRounding = 1e-11;
  int found = 0, close = 0;
  std::int64_t points = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Instance instance(seed);
    instance.region.phases.clear();
    instance.question.below = instance.question.other;
    instance.question.weights.clear();
    if (instance.network.architecture.classes() > 2) instance.band.reset();
    RegionBounder engine(instance.network, instance.TheDomain());
    ProofBounder checker(instance.network, instance.TheDomain());
    const auto pair = instance.EnterEngine(engine);
    if (!pair) continue;
    ASSERT_TRUE(instance.EnterChecker(checker));
    std::optional<ProofBounder::Band> band;
    if (instance.band) {
      band = ProofBounder::Band{instance.band->label, instance.band->least, instance.band->most};
    }
    // Without a band an engine speaks of all that there is.
    const Band all{instance.question.label, -100, 100};
    MomentBounder moments(instance.network);
    std::vector<float> multipliers;
    const double theirs =
        moments.Bound(*pair, instance.member, instance.question,
                      instance.band && std::isfinite(instance.band->most) ? *instance.band : all,
                      -1e9, multipliers);
    if (!std::isfinite(theirs) || multipliers.empty()) continue;  // the solver found none
    if (!band || !std::isfinite(band->most)) multipliers.back() = 0;
    ProofMoments form(instance.network);
    const auto ask = [&] {
      return form.Bound(checker, instance.CheckersQuestion(), band, instance.member, multipliers);
    };
    const double ours = ask();
    if (band && std::isfinite(band->most) && theirs < 1000) {  // what is above says nothing
      // Where a solver comes to its end the matrix is nearly singular, and multipliers rounded to
      // float32 may prove less.
      ++found;
      close += std::abs(ours - theirs) <= 1e-3 * std::abs(theirs) + 1e-6;
    }
    std::vector<double> bounds = {ours};
    for (float& y : multipliers) y *= static_cast<float>(1 + 0.02 * instance.stream.Normal());
    bounds.push_back(ask());
    const double lowest = std::ranges::min(bounds);
    for (int n = 0; n < 200; ++n) {
      const std::vector<double> x = n == 0 ? instance.inside : instance.RandomPoint();
      const auto ours_at = instance.Sums(instance.network.parameters, x).back();
      const auto theirs_at = instance.Sums(instance.member, x).back();
      if (!instance.InBand(ours_at)) continue;
      ++points;
      const PairQuestion& q = instance.question;
      const double f = ours_at[q.label] - ours_at[q.other];
      const double g = theirs_at[q.label] - theirs_at[q.other];
      ASSERT_LE(f - g + q.member_error, lowest + kRounding);
    }
  }
  EXPECT_GT(found, 15);
  EXPECT_GT(close, 0.8 * found);
  EXPECT_GT(points, 3000);
}

// Of three classes the band is about f, and the form's product about N_c - N_c'', which may be
// larger: with the band's `most` in its place, bounds would fall below leaks.
TEST(ProofAgreement, MomentsOfThreeClassesAreAboveEveryLeak) {
  constexpr double kRounding = 1e-11;
  int found = 0, finite = 0;
  std::int64_t leaks = 0, beyond = 0;
  for (std::uint64_t seed = kSeed + 1; seed < kSeed + 1501; seed += std::size(kShapes)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Instance instance(seed - kSeed % std::size(kShapes));
    ASSERT_EQ(instance.network.architecture.classes(), 3);
    if (!instance.band) continue;
    instance.region.phases.clear();
    instance.question.below = instance.question.other;
    instance.question.weights.clear();
    instance.question.member_error = 2;  // so that much leaks
    instance.band->most = instance.band->least + 0.3;
    RegionBounder engine(instance.network, instance.TheDomain());
    const auto pair = instance.EnterEngine(engine);
    if (!pair) continue;
    Multipliers lines;
    const double most = engine.Bound(*pair, instance.question, lines, 0, 0).value;
    const Band band{instance.question.label, instance.band->least, most};
    ProofClosing claim;
    claim.kind = ProofClosing::Kind::kMoments;
    claim.other = instance.question.other;
    claim.band = ProofBand{instance.band->least, instance.band->most};
    claim.value = 1e9;
    MomentBounder moments(instance.network);
    const double theirs =
        moments.Bound(*pair, instance.member, instance.question, band, -1e9, claim.multipliers);
    if (!std::isfinite(theirs) || claim.multipliers.empty()) continue;
    ++found;
    ClaimChecker checker(instance.network, instance.TheDomain());
    checker.Enter(instance.CheckersRegion());
    double lowest = std::numeric_limits<double>::infinity();
    // A large multiplier of the product makes the most of what is wrong with it.
    for (const float of_product : {claim.multipliers.back(), 1.0F, 10.0F, 1000.0F}) {
      claim.multipliers.back() = of_product;
      lowest = std::min(lowest, checker.Bound(instance.question.label, claim,
                                              instance.question.member_error, instance.member));
    }
    finite += std::isfinite(lowest);
    for (int n = 0; n < 200; ++n) {
      const std::vector<double> x = n == 0 ? instance.inside : instance.RandomPoint();
      const auto ours = instance.Sums(instance.network.parameters, x).back();
      const auto theirs_at = instance.Sums(instance.member, x).back();
      const PairQuestion& q = instance.question;
      const double h = ours[q.label] - ours[q.other];
      if (!instance.InBand(ours)) continue;
      if (theirs_at[q.label] - theirs_at[q.other] > q.member_error) continue;
      ++leaks;
      beyond += h > instance.band->most;
      const double third = ours[q.label] - ours[3 - q.label - q.other];
      ASSERT_LE(std::min(h, third), lowest + kRounding);
    }
  }
  EXPECT_GT(found, 30);
  EXPECT_GT(finite, 0.8 * found);
  EXPECT_GT(leaks, 1000);
  EXPECT_GT(beyond, 100);
}

// A corner of the polygon that is not looked at shows here: random points of random polygons.
TEST(ProofAgreement, PeakIsAboveEveryPairAndReached) {
  Stream stream(kSeed, "proof polygons");
  for (int n = 0; n < 20'000; ++n) {
    SumPolygon p;
    const double l = stream.Uniform(-1, 1), a = stream.Uniform(-1, 1);
    p = {l, l + stream.Uniform(), a, a + stream.Uniform(), static_cast<int>(stream.Below(3)) - 1};
    double c[4];
    for (double& value : c) value = stream.Uniform(-1, 1);
    const double peak = PeakUp(p, c[0], c[1], c[2], c[3]);
    for (int i = 0; i < 30; ++i) {
      const double z_hat = stream.Uniform(p.l, p.u), d_hat = stream.Uniform(p.a, p.b);
      if (p.sign * (z_hat + d_hat) < 0) continue;
      const double z = std::max(z_hat, 0.0), delta = std::max(z_hat + d_hat, 0.0) - z;
      ASSERT_LE(c[0] * z + c[1] * delta - c[2] * z_hat - c[3] * d_hat, peak + 1e-15);
      for (const bool split : {false, true}) {
        const NeuronLines lines = ChooseLines(p, split, Ties::kRule);
        const auto at = [&](const DifferenceLine& line) {
          return line.q * d_hat + line.p * z_hat + line.r * z + line.t;
        };
        ASSERT_LE(delta, at(lines.over) + 1e-14);
        ASSERT_GE(delta, at(lines.under) - 1e-14);
        ASSERT_LE(z, lines.output.su * z_hat + lines.output.tu + 1e-15);
        ASSERT_GE(z, lines.output.sl * z_hat - 1e-15);
      }
    }
  }
}

}  // namespace
}  // namespace lucid
