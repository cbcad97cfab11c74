// What the checker knows of N and one member in a region: intervals of every sum and difference,
// by interval arithmetic and by rows of lines (proof_bounder.h has the notation and the rounding).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "check/proof_form.h"
#include "check/proof_lines.h"
#include "check/proof_region.h"
#include "lucid/nn/network.h"

namespace lucid {

// One per thread. Enter a region, then members.
class ProofFacts {
 public:
  explicit ProofFacts(const Network& network);

  // Inputs with f in [least, most], f being N's confidence in class `label`.
  struct Band {
    std::int32_t label = 0;
    double least = 0, most = 0;  // most may be +inf
  };
  // ProofBounder says what these do; it passes them on.
  bool EnterRegion(const ProofRegion& region, const std::optional<Band>& band, Ties ties);
  bool EnterMember(std::span<const float> parameters, bool quick);
  bool EnterMemberAgain(bool quick);

  // False: numbers are too large, and no interval means anything.
  bool usable() const { return !overflow_; }
  const std::vector<ProofLayer>& hidden() const { return hidden_; }
  const ProofMatrix& output() const { return output_; }
  const ProofMatrix& member_output() const { return member_output_; }
  const ProofRegion& region() const { return region_; }
  const ProofRanges& x() const { return x_; }
  std::int64_t terms() const { return terms_; }  // n

 private:
  bool EnterNetwork();  // all layers
  bool EnterNetworkLayer(std::size_t m);
  bool EnterMemberLayer(std::size_t m, bool quick);
  void FinishMemberLayer(ProofLayer& layer, bool quick);
  void AddHalfSpace(std::span<const double> a, double sign, double at_least);
  void AddPhases(bool member);
  bool AddBand();
  void NarrowByBand();
  // A line over x that is at or above sign (N_label - N_other). Its coefficients are in form_.cz,
  // and its constant is returned.
  double LineOfOutput(std::int32_t label, std::int32_t other, double sign);
  // False: the numbers are too large to go on; overflow_ is set.
  bool WidenForRounding(std::vector<double>& low, std::vector<double>& high,
                        const std::vector<double>& scale);
  // An upper bound of factor times (the sum of N, or the member's difference) of a unit of layer m.
  double RowBound(std::size_t m, std::size_t unit, double factor, bool member);

  const Architecture architecture_;
  const std::int64_t terms_;
  const double gamma_;
  std::vector<ProofLayer> hidden_;
  ProofMatrix output_, member_output_;
  ProofRegion region_;
  Ties ties_ = Ties::kRule;
  std::optional<Band> band_;
  std::vector<ProofHalfSpace> half_spaces_;  // N's, then the member's
  std::size_t network_half_spaces_ = 0;      // how many are N's
  ProofRanges x_;
  ProofForm form_;         // of the row in hand
  bool overflow_ = false;  // since EnterRegion: every bound is +inf
};

}  // namespace lucid
