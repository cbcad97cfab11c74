// What the checker knows of N and one member in a region: intervals of every sum and difference,
// by interval arithmetic and by rows of lines (proof_bounder.h has the notation and the rounding).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "check/proof_form.h"
#include "check/proof_lines.h"
#include "check/proof_region.h"
#include "check/proof_rows.h"
#include "lucid/nn/network.h"

namespace lucid {

// One per thread. Enter a region, then members.
class ProofFacts {
 public:
  // Regions are parts of the domain (null: of [0,1]^d).
  ProofFacts(const Network& network, const Domain* domain);

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
  const ProofBox& box() const { return box_; }
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
  void FindLinesOfOutput();
  // False: the numbers are too large to go on; overflow_ is set.
  bool WidenForRounding(std::vector<double>& low, std::vector<double>& high,
                        const std::vector<double>& scale);
  // Makes low and high of the units in units_ of layer m narrower by rows of lines: the sums of N,
  // or the member's differences.
  void NarrowByRows(std::size_t m, bool member, std::vector<double>& low,
                    std::vector<double>& high);
  double LineOfRow(std::size_t r);

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
  ProofBox box_;    // the same, and the domain's points in it
  ProofForm form_;  // of the row in hand
  ProofRows rows_;  // of a layer's units
  std::vector<std::size_t> units_;
  bool overflow_ = false;  // since EnterRegion: every bound is +inf
};

}  // namespace lucid
