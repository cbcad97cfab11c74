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

double CloserBounder::Bound(RegionBounder& bounder, const PairFacts& pair, const Band& band,
                            std::span<const float> parameters, const PairQuestion& question, By by,
                            double enough, std::vector<float>& multipliers,
                            const std::function<bool()>& expired) {
  if (windows_ && (by == By::kWindows || !moments_)) {
    widest_ = LongestSide(pair.box());
    return windows_->Bound(bounder, pair.region->region, &band, parameters, question, enough,
                           expired);
  }
  const double bound =
      moments_->Bound(pair, parameters, question, band, enough, multipliers, expired);
  widest_ = moments_->WidestInput();
  return bound;
}

}  // namespace lucid
