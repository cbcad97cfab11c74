// Many networks of one architecture in memory, laid out for a forward pass that gives Evaluator's
// numbers and does less work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/nn/network.h"
#include "nn/decision.h"

namespace lucid {

// An input of a layer that is not 0, and where its weights begin.
struct ActiveTap {
  double value;
  std::int64_t row;
};

// A layer as it lies in a packed network, from `at` on: `width` biases, then [tap][width] weights.
// The places behind the last filter hold 0.
struct PackedLayer {
  Layer shape;
  std::int64_t width = 0;             // filters, rounded up to whole vectors
  std::int64_t at = 0;                // of its biases
  std::vector<std::int64_t> offsets;  // TapOffset(k)

  // Several places side by side: vectors run over them instead of over filters, which are few.
  bool Slides() const { return shape.positions > 1 && shape.stride == 1; }
};

// What one thread needs to run networks at one input. Any object fits any networks: it grows.
struct PassMemory {
  std::vector<double> input;               // x
  std::vector<ActiveTap> first;            // the first layer's, [position][tap]: all networks'
  std::vector<std::int64_t> first_active;  // of them, per position
  std::vector<ActiveTap> taps;             // another layer's, one position
  std::vector<double> front, back;         // the units of two layers that follow each other
  std::vector<double> filters;             // at one position
};

// Memory: 4 bytes per parameter and network (filters rounded up to a multiple of 4); a weight is
// widened to double when it is used. Thread-safe once every network is set.
class PackedNetworks {
 public:
  PackedNetworks(const Architecture& architecture, std::int64_t count);

  // Requires: 0 <= network < count, parameters.size() == architecture.parameters(). Thread-safe for
  // different networks. Errors: a parameter that is not finite.
  Status Set(std::int64_t network, std::span<const float> parameters);

  // Fixes the input of the passes that follow. Requires: x.size() == inputs.
  void SetInput(std::span<const float> x, PassMemory& memory) const;

  // The logits of one network at that input, valid until the next pass. Ensures: equal, as numbers,
  // to what Evaluator::Logits computes, for finite inputs. Proof: each sum is ((b + w_0 h_0) + w_1
  // h_1) + ... with every product and every sum rounded once, as there, except that terms with h =
  // 0 are left out. Weights are finite, so such a term is +-0, and adding it changes at most the
  // sign of a sum that is zero; the sign of a zero reaches other numbers only as the sign of a
  // zero. (Inputs that are not finite give the same numbers too: only h = 0 is left out, and w is
  // finite.)
  std::span<const double> Logits(std::int64_t network, PassMemory& memory) const;

  std::int64_t classes() const { return layers_.back().shape.outputs; }

 private:
  std::vector<PackedLayer> layers_;
  std::int64_t stride_ = 0;  // floats per network
  std::int64_t widest_ = 0;  // doubles that hold the units of any layer
  std::int64_t most_taps_ = 0;
  std::vector<float> values_;
};

}  // namespace lucid
