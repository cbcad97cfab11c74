#include "check/claim_checker.h"

#include <algorithm>
#include <utility>

#include "numeric/rounding.h"

namespace lucid {

double ValueOf(const ProofClosing& closing) {
  const double least = closing.band ? closing.band->least : -kInfinity;
  return closing.kind == ProofClosing::Kind::kNoInput ? least : std::max(least, closing.value);
}

ClaimChecker::ClaimChecker(const Network& network, const Domain* domain)
    : network_(network), domain_(domain), bounder_(network, domain) {}

void ClaimChecker::Enter(ProofRegion region) {
  if (region == region_) return;
  region_ = std::move(region);
  place_.reset();
  member_ = -1;
}

// The engine may have chosen the other one of two lines that are as good as equal. So where the
// bound is larger than the claim says, the other choices are tried, too. Each of them is valid.
double ClaimChecker::Bound(std::int32_t label, const ProofClosing& closing, double member_error,
                           std::span<const float> parameters) {
  double bound = kInfinity;
  for (const Ties ties : {Ties::kRule, Ties::kAsComputed, Ties::kLast}) {
    bound = std::min(bound, BoundWith(ties, label, closing, member_error, parameters));
    if (bound <= ValueOf(closing)) return bound;
  }
  if (domain_ == nullptr || domain_->groups().empty()) return bound;
  // Engines of before bounded the box around a group's points. Narrower intervals choose other
  // lines, so that such a claim may need to be looked at as it was made. The box holds more inputs.
  if (!over_boxes_) over_boxes_ = std::make_unique<ClaimChecker>(network_);
  over_boxes_->Enter(region_);
  return std::min(bound, over_boxes_->Bound(label, closing, member_error, parameters));
}

double ClaimChecker::BoundWith(Ties ties, std::int32_t label, const ProofClosing& closing,
                               double member_error, std::span<const float> parameters) {
  using enum ProofClosing::Kind;
  std::optional<ProofBounder::Band> band;
  if (closing.band) band = {label, closing.band->least, closing.band->most};
  if (closing.kind == kWindows) {
    if (!windows_) windows_ = std::make_unique<ProofWindows>(network_, domain_);
    const ProofBounder::Question question{label, closing.other, closing.other, member_error};
    return windows_->Bound({region_, band, parameters, question, ties}, closing.cases,
                           ValueOf(closing));
  }
  const Place place{label, closing.band, ties};
  if (place_ != place) {
    place_ = place;
    member_ = -1;
    region_empty_ = !bounder_.EnterRegion(region_, band, ties);
  }
  if (region_empty_) return -kInfinity;
  if (closing.member == ProofClosing::kEveryPair) return kInfinity;
  const bool quick = closing.kind == kIntervals;
  if (member_ != closing.member || quick_ != quick) {
    member_empty_ = !bounder_.EnterMember(parameters, quick);
    member_ = closing.member;
    quick_ = quick;
  }
  if (member_empty_) return -kInfinity;
  const bool lines = closing.kind == kLines || closing.kind == kMultipliers;
  ProofBounder::Question question{label, closing.other, lines ? closing.below : closing.other,
                                  member_error};
  if (lines) question.weights = closing.weights;
  switch (closing.kind) {
    case kNoInput:
      return kInfinity;
    case kIntervals:
      return bounder_.BoundByIntervals(question);
    case kLines:
      return bounder_.BoundByLines(question, closing.lambda);
    case kMultipliers:
      return bounder_.Bound(question, closing.lambda, closing.multipliers);
    case kMoments:
      if (!moments_) moments_ = std::make_unique<ProofMoments>(network_);
      // Of more than two classes, N_label - N_other may be more than f, which the band is about.
      if (band && network_.architecture.classes() > 2) {
        band->most = bounder_.BoundByLines(question, 1);
      }
      return moments_->Bound(bounder_, question, band, parameters, closing.multipliers);
    case kWindows:
      break;
  }
  return kInfinity;
}

}  // namespace lucid
