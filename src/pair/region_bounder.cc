#include "pair/region_bounder.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "numeric/rounding.h"

namespace lucid {

RegionBounder::RegionBounder(const Network& network, const Domain* domain)
    : network_(network),
      groups_(InputPoints::GroupsOf(domain)),
      finder_(network_),
      work_(network_),
      no_pushes_(network_) {}

Recycled<RegionFacts> RegionBounder::Enter(const Region& region, const Band* band) {
  return regions_.Take([&] { return std::make_unique<RegionFacts>(network_, groups_); },
                       [&](RegionFacts& facts) { return finder_.Find(region, band, facts); });
}

Recycled<PairFacts> RegionBounder::Enter(const RegionFacts& region,
                                         std::span<const float> parameters) {
  return pairs_.Take([&] { return std::make_unique<PairFacts>(network_); },
                     [&](PairFacts& facts) { return finder_.Find(region, parameters, facts); });
}

RegionBounder::EnteredPair RegionBounder::EnterPair(const Region& region,
                                                    std::span<const float> parameters,
                                                    const Band* band) {
  EnteredPair entered{Enter(region, band), {}};
  if (entered.region) entered.pair = Enter(*entered.region, parameters);
  return entered;
}

// f <= f - (g - err): the difference of the two networks' output rows, for c' = c''.
ChargedBound RegionBounder::IntervalBound(const RegionFacts& region,
                                          std::span<const float> parameters,
                                          const PairQuestion& question) {
  const Recycled<PairFacts> pair =
      pairs_.Take([&] { return std::make_unique<PairFacts>(network_); },
                  [&](PairFacts& facts) {
                    finder_.FindIntervals(region, parameters, facts);
                    return true;
                  });
  const PairFacts::Layer& top = pair->layers.back();
  const std::int32_t c = question.label, other = question.other;
  const DenseLayer& ours = network_.output();
  const DenseLayer& theirs = pair->member_output;
  const double our_bias = ours.bias[c] - ours.bias[other];
  const double their_bias = theirs.bias[c] - theirs.bias[other];
  double value = our_bias - their_bias + question.member_error;
  double size = std::abs(ours.bias[c]) + std::abs(ours.bias[other]) + std::abs(theirs.bias[c]) +
                std::abs(theirs.bias[other]) + question.member_error;
  for (std::int64_t k = 0; k < top.units(); ++k) {
    const double w = ours.weights.row(c)[k] - ours.weights.row(other)[k];
    const double v = theirs.weights.row(c)[k] - theirs.weights.row(other)[k];
    value += (w - v) * top.z.centre[k] + std::abs(w - v) * top.z.radius[k] -
             v * top.delta.centre[k] + std::abs(v) * top.delta.radius[k];
    size +=
        (std::abs(w) + 2 * std::abs(v)) * std::max({top.size[k], top.z.size[k], top.delta.size[k]});
  }
  return Charge(*pair, value, size);
}

ChargedBound RegionBounder::Bound(const PairFacts& pair, const PairQuestion& question,
                                  Multipliers& multipliers, int steps, double enough,
                                  std::vector<float>* dual) {
  const ChargedBound bound = SearchMultipliers(pair, question, multipliers, steps, enough, work_);
  if (dual == nullptr) return bound;
  dual->clear();
  dual->reserve(static_cast<std::size_t>(2 * network_.units));
  for (const DualTerms::Layer& layer : work_.terms.layers) {
    for (const PaddedArray* part : {&layer.big_a, &layer.big_d}) {
      for (std::int64_t k = 0; k < part->size(); ++k) {
        dual->push_back(static_cast<float>((*part)[k]));
      }
    }
  }
  return bound;
}

ChargedBound RegionBounder::BoundOfDual(const PairFacts& pair, const PairQuestion& question,
                                        double lambda, std::span<const float> dual) {
  std::size_t at = 0;
  for (DualTerms::Layer& layer : work_.terms.layers) {
    for (PaddedArray* part : {&layer.big_a, &layer.big_d}) {
      for (std::int64_t k = 0; k < part->size(); ++k) (*part)[k] = dual[at++];
    }
  }
  return EvaluateGivenDual(pair, question, lambda, work_.terms);
}

RegionBounder::Rest RegionBounder::RestOf(const PairFacts& pair, std::size_t layer,
                                          const PairQuestion& question, double lambda,
                                          std::span<const float> pushes) {
  work_.point.SetPushes(pair.region->region, pushes);
  const ChargedBound whole =
      EvaluateDual(pair, question, lambda, work_.point, OpenSlopes::kDefault, work_.terms);
  const DualTerms::Layer& at = work_.terms.layers[layer];
  const auto count = static_cast<std::size_t>(at.cz.size());
  return {pair.bounded && at.above < kInfinity ? at.above : kInfinity,
          whole.charge,
          {at.cz.data(), count},
          {at.cd.data(), count}};
}

RegionBounder::Line RegionBounder::LineOver(const PairFacts& pair, std::span<const double> z,
                                            std::span<const double> delta, OpenSlopes lines) {
  DualTerms::Layer& top = work_.terms.layers.back();
  std::ranges::copy(z, top.cz.data());
  std::ranges::copy(delta, top.cd.data());
  const ChargedBound constant = EvaluateLine(pair, no_pushes_, lines, work_.terms);
  return {constant.value,
          constant.charge,
          {work_.terms.cx.data(), static_cast<std::size_t>(network_.inputs)}};
}

}  // namespace lucid
