// The bounds of region_bounder.h for networks that begin with convolutions, from what single
// windows of the input can give.
//
// Every place of the last convolution sees a window of a few inputs, through the same small
// network. What the layers above leave to be bounded (RegionBounder::RestOf) is therefore a sum
// over windows,
//   f <= constant + sum_p h_p(x of window p).
// A search over regions pays for every combination of cuts of all inputs; here each window is cut
// by itself. Every input's interval is cut into pieces; a cell is a choice of pieces for a window's
// inputs, over which a line bounds h_p; and the largest sum of cells of all windows that agree on
// the pieces of the inputs they share is found by dynamic programming along the windows. For any
// tilts t_p, with rest_j what those of input j add up to,
//   sum_p h_p <= sum_p (h_p - t_p . x) + sum_j max(rest_j x_j),
// so tilts decide how tight a bound is and never whether it holds: they make windows agree on where
// in a piece an input is. Cells through which no sum is above what is enough are dropped, the
// others cut into smaller ones. The layers above have few neurons, so there is a case for each
// choice of their phases. Every phase that a case fixes has a multiplier, its push. Pushes and
// lambda are chosen while the cells are still coarse.
//
// All of it is written down for a proof (docs/proof.md): whoever makes the same cuts, tilts and
// drops comes to the same bound. Every number here leaves room for another program's rounding, as
// ChargedBound::ForChecker does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lucid/certificate/proof.h"
#include "lucid/nn/network.h"
#include "pair/region_bounder.h"
#include "pair/window_chain.h"

namespace lucid {

// One per thread.
class WindowBounder {
 public:
  // Whether such networks can be bounded here: they begin with a convolution, and a place of the
  // last one sees at most so many inputs.
  static bool Fits(const Architecture& architecture);
  static constexpr std::int64_t kWidest = WindowChain::kWidest;

  // Requires: Fits.
  explicit WindowBounder(const Network& network);
  ~WindowBounder();

  // Ensures: no input of the region in the band (null: any) has f > result and
  // P_c - P_c'' <= member_error, P being the member with these parameters. -inf: there is no such
  // input. Ends when the bound is at or below `enough`, when that is out of reach, when there are
  // too many cells, or when expired() says so. `why` shows to a checker that nothing leaks above
  // the larger one of the result and `enough`, if that is finite. `bounder` is of the same network.
  double Bound(RegionBounder& bounder, const Region& region, const Band* band,
               std::span<const float> parameters, const PairQuestion& question, double enough,
               std::vector<ProofCase>& why, const std::function<bool()>& expired = {});

 private:
  struct Search;
  struct Cases;
  const std::unique_ptr<Search> search_;
};

}  // namespace lucid
