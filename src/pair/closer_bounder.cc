#include "pair/closer_bounder.h"

#include <algorithm>

namespace lucid {
namespace {

std::int32_t LongestSide(const Box& box) {
  const auto longest = std::ranges::max_element(box, {}, &Interval::Width);
  return longest->Width() > 0 ? static_cast<std::int32_t>(longest - box.begin()) : -1;
}

}  // namespace

CloserBounder::CloserBounder(const Network& network) {
  const Architecture& architecture = network.architecture;
  if (WindowBounder::Fits(architecture)) windows_ = std::make_unique<WindowBounder>(network);
  if (MomentBounder::Fits(architecture)) moments_ = std::make_unique<MomentBounder>(network);
}

CloserBounder::By CloserBounder::Means(const Architecture& architecture, By wanted) {
  if (!WindowBounder::Fits(architecture)) return By::kMoments;
  return MomentBounder::Fits(architecture) ? wanted : By::kWindows;
}

double CloserBounder::Bound(RegionBounder& bounder, const PairFacts& pair, const Band& band,
                            std::span<const float> parameters, const PairQuestion& question, By by,
                            double enough, Why& why, const std::function<bool()>& expired) {
  if (windows_ && (by == By::kWindows || !moments_)) {
    widest_ = LongestSide(pair.box());
    return windows_->Bound(bounder, pair.region->region, &band, parameters, question, enough,
                           why.cases, expired);
  }
  const double bound = moments_->Bound(pair, parameters, question, band, enough, why.multipliers,
                                       expired, &why.half_way);
  widest_ = moments_->WidestInput();
  return bound;
}

}  // namespace lucid
