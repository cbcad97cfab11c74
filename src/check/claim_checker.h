// Recomputes what single claims of a proof say (docs/proof.md), with the checker's own arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "check/proof_bounder.h"
#include "check/proof_moments.h"
#include "check/proof_region.h"
#include "check/proof_windows.h"
#include "lucid/certificate/proof.h"
#include "lucid/nn/network.h"

namespace lucid {

// What a claim says about leaks of its pair up to its `most`: none of them is above this.
double ValueOf(const ProofClosing& closing);

// One per thread. It keeps what it knows of the last region and member, so claims about the same
// ones should come one after the other.
class ClaimChecker {
 public:
  // Claims are about inputs of the domain (null: of [0,1]^d). Keeps both.
  explicit ClaimChecker(const Network& network, const Domain* domain = nullptr);

  // The region that the next claims are about.
  void Enter(ProofRegion region);

  // Ensures: no leak of the claim's pair in the region that is in its band has f above the result,
  // by the means that the claim names. -inf: there is no such input. The claim is true if the
  // result is at most its ValueOf. `parameters` are the member's (not looked at if the claim is
  // about every pair). Requires: Enter; a claim that fits the network.
  double Bound(std::int32_t label, const ProofClosing& closing, double member_error,
               std::span<const float> parameters);

 private:
  double BoundWith(Ties ties, std::int32_t label, const ProofClosing& closing, double member_error,
                   std::span<const float> parameters);

  // The region and the member that the bounder was entered with.
  struct Place {
    std::int32_t label = -1;
    std::optional<ProofBand> band;
    Ties ties = Ties::kRule;
    bool operator==(const Place&) const = default;
  };

  const Network& network_;
  const Domain* domain_;
  std::unique_ptr<ClaimChecker> over_boxes_;  // one that knows of no domain, once it is needed
  ProofBounder bounder_;
  std::unique_ptr<ProofMoments> moments_;  // these two once they are needed
  std::unique_ptr<ProofWindows> windows_;
  ProofRegion region_;
  std::optional<Place> place_;
  bool region_empty_ = false, member_empty_ = false, quick_ = false;
  std::int32_t member_ = -1;  // in the bounder; -1: none is
};

}  // namespace lucid
