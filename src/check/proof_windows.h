// The bound that the cases of a claim by windows give, recomputed. The checker's own code.
// docs/proof.md has the mathematics.
//
// A network that begins with convolutions sees its input through windows of a few inputs, which
// lie `stride` apart. Lines in the layers above leave, at every input x that leaks,
//   f <= rest + sum_p h_p(x of window p),
// h_p being a linear function of the last convolution's z and delta at place p. Every input's
// interval is cut into pieces, a cell is a choice of pieces for a window's inputs, and over a cell
// h_p <= constant + slopes . x. With any tilts t_p, whose sum over the windows that see input i is
// T_i,
//   sum_p h_p <= sum_p max over the cell of (constant + (slopes - t_p) . x) + sum_i max(T_i x_i).
// An input x has one cell in every window, and neighbours have the same pieces of the inputs that
// they share: its sum is at most the largest sum along such chains of cells, which is found from
// left to right. A cell through which every chain's sum is at most `value` holds no input that
// leaks above `value`, nor does any cell that is cut from it: it is dropped. So a claim is true if
// rounds of cutting and dropping leave no cell, whatever was cut and however windows were tilted.
//
// Rounding. A cell's value is a sum of 1 + width terms, each rounded at most three times; T_i is a
// sum of at most as many terms as there are windows. With gamma = gamma_(2 width + windows + 16)
// and the sum of all terms' absolute values, 4 gamma of it is more than they can be off by, and
// 2^-500 more than all underflow. Sums along chains are rounded upwards one by one.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "check/proof_bounder.h"
#include "lucid/certificate/proof.h"
#include "lucid/nn/network.h"

namespace lucid {

// Which windows an architecture begins with: `count` of them, each of `width` inputs, the next one
// `stride` further on, seen through the first `layers` layers.
struct WindowLayout {
  static constexpr std::size_t kWidest = 6;
  explicit WindowLayout(const Architecture& architecture);
  std::size_t layers = 0, width = 1, stride = 1, count = 0;
  bool Fits() const { return layers > 0 && width <= kWidest; }
};

// One per thread.
class ProofWindows {
 public:
  // Regions are parts of the domain (null: of [0,1]^d), which is not kept. Requires: the layout of
  // the architecture fits.
  explicit ProofWindows(const Network& network, const Domain* domain = nullptr);
  ~ProofWindows();
  ProofWindows(ProofWindows&&) noexcept;

  struct Pair {
    ProofRegion region;
    std::optional<ProofBounder::Band> band;
    std::span<const float> member;  // its parameters
    ProofBounder::Question question;
    Ties ties = Ties::kRule;
  };
  // Ensures: no x of the pair's region and band with f(x) > result leaks. Cells that are no more
  // than `value` are dropped, so that the result is worth nothing where it is larger, and at most
  // `value` otherwise. Requires: the cases are as ReadCases and ProofTree let them pass.
  double Bound(const Pair& pair, std::span<const ProofCase> cases, double value);

 private:
  struct Chain;
  std::unique_ptr<Chain> chain_;
};

}  // namespace lucid
