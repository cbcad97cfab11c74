#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "guard/packed_networks.cc"
#include "numeric/simd_targets.h"
// Vectors have at most 4 lanes, so AVX-512 would add nothing but registers.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (LUCID_UNUSED_TARGETS | HWY_AVX3)

#include <hwy/foreach_target.h>  // IWYU pragma: keep: includes this file once per instruction set

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "guard/packed_networks.h"

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, 4>;
using V = hn::Vec<D>;

// Sums that are in registers at once: enough of them to hide an addition's latency.
constexpr std::int64_t kMostVectors = 8;

// Writes sums, or their ReLU, which lets NaN through as Evaluator's does.
template <int Vectors>
HWY_INLINE void StoreUnits(const V (&sum)[Vectors], bool relu, double* out) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // A layer without a ReLU has a floor that nothing is below.
  const V floor = hn::Set(d, relu ? 0.0 : -std::numeric_limits<double>::infinity());
  for (int v = 0; v < Vectors; ++v) {
    hn::StoreU(hn::IfThenElse(hn::Lt(sum[v], floor), floor, sum[v]), d, out + v * lanes);
  }
}

// The sums of `Vectors` vectors of filters over the active taps. Vectors run over filters, which
// leaves every sum in Evaluator's order. Multiply, then add: a fused one would round once less.
template <int Vectors>
void SumFilters(const float* HWY_RESTRICT biases, const float* HWY_RESTRICT weights,
                const ActiveTap* HWY_RESTRICT taps, std::int64_t active, bool relu,
                double* HWY_RESTRICT out) {
  const D d;
  const hn::Rebind<float, D> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum[Vectors];
  for (int v = 0; v < Vectors; ++v) {
    sum[v] = hn::PromoteTo(d, hn::LoadU(narrow, biases + v * lanes));
  }
  for (std::int64_t a = 0; a < active; ++a) {
    const V h = hn::Set(d, taps[a].value);
    const float* const row = weights + taps[a].row;
    for (int v = 0; v < Vectors; ++v) {
      const V w = hn::PromoteTo(d, hn::LoadU(narrow, row + v * lanes));
      sum[v] = hn::Add(sum[v], hn::Mul(w, h));
    }
  }
  StoreUnits<Vectors>(sum, relu, out);
}

// One filter at `Vectors` vectors of positions. No term is left out.
template <int Vectors>
void SumPositions(const float* HWY_RESTRICT bias, const float* HWY_RESTRICT weights,
                  const PackedLayer& layer, const double* HWY_RESTRICT in,
                  double* HWY_RESTRICT out) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum[Vectors];
  for (int v = 0; v < Vectors; ++v) sum[v] = hn::Set(d, static_cast<double>(*bias));
  for (std::int64_t k = 0; k < layer.shape.taps; ++k) {
    const V w = hn::Set(d, static_cast<double>(weights[k * layer.width]));
    const double* const place = in + layer.offsets[k];
    for (int v = 0; v < Vectors; ++v) {
      sum[v] = hn::Add(sum[v], hn::Mul(w, hn::LoadU(d, place + v * lanes)));
    }
  }
  StoreUnits<Vectors>(sum, layer.shape.relu, out);
}

using FilterPart = decltype(&SumFilters<1>);
constexpr FilterPart kFilterParts[kMostVectors] = {&SumFilters<1>, &SumFilters<2>, &SumFilters<3>,
                                                   &SumFilters<4>, &SumFilters<5>, &SumFilters<6>,
                                                   &SumFilters<7>, &SumFilters<8>};
using PositionPart = decltype(&SumPositions<1>);
constexpr PositionPart kPositionParts[kMostVectors] = {
    &SumPositions<1>, &SumPositions<2>, &SumPositions<3>, &SumPositions<4>,
    &SumPositions<5>, &SumPositions<6>, &SumPositions<7>, &SumPositions<8>};

// Cuts `left` vectors into parts of nearly equal size: a last part of one vector would wait for its
// own additions.
class Parts {
 public:
  explicit Parts(std::int64_t vectors)
      : left_(vectors), parts_((vectors + kMostVectors - 1) / kMostVectors) {}
  std::int64_t Next() {  // vectors of the next part; 0 at the end
    if (parts_ == 0) return 0;
    const std::int64_t vectors = (left_ + parts_ - 1) / parts_;
    left_ -= vectors;
    --parts_;
    return vectors;
  }

 private:
  std::int64_t left_, parts_;
};

// All filters at one position. Writes `width` units.
void AllFilters(const PackedLayer& layer, const float* network, const ActiveTap* taps,
                std::int64_t active, double* out) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const float* const biases = network + layer.at;
  const float* const weights = biases + layer.width;
  Parts parts(layer.width / lanes);
  std::int64_t o = 0;
  while (const std::int64_t vectors = parts.Next()) {
    kFilterParts[vectors - 1](biases + o, weights + o, taps, active, layer.shape.relu, out + o);
    o += vectors * lanes;
  }
}

// All filters at all positions of a layer that slides. The last vector of a filter reaches up to 3
// places too far: what it reads there counts for nothing, what it writes there the next filter
// writes again.
void AllPositions(const PackedLayer& layer, const float* network, const double* in, double* out) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const float* const biases = network + layer.at;
  const float* const weights = biases + layer.width;
  const std::int64_t positions = layer.shape.positions;
  for (std::int64_t o = 0; o < layer.shape.filters; ++o) {
    Parts parts((positions + lanes - 1) / lanes);
    std::int64_t t = 0;
    while (const std::int64_t vectors = parts.Next()) {
      kPositionParts[vectors - 1](biases + o, weights + o, layer, in + t, out + o * positions + t);
      t += vectors * lanes;
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lucid {
namespace {

HWY_EXPORT(AllFilters);
HWY_EXPORT(AllPositions);

constexpr std::int64_t kLanes = 4;  // at most; see D

// Ensures: the taps of one position whose input is not 0, in order; returns how many. Written
// without a branch, for which input is 0 cannot be predicted.
std::int64_t GatherActive(const PackedLayer& layer, const double* place, ActiveTap* taps) {
  std::int64_t active = 0;
  for (std::int64_t k = 0; k < layer.shape.taps; ++k) {
    const double h = place[layer.offsets[k]];
    taps[active] = {h, k * layer.width};
    active += h != 0 ? 1 : 0;
  }
  return active;
}

}  // namespace

PackedNetworks::PackedNetworks(const Architecture& architecture, std::int64_t count) {
  for (const Layer& shape : architecture.layers()) {
    PackedLayer layer{shape, 0, stride_, {}};
    layer.width = (shape.filters + kLanes - 1) / kLanes * kLanes;
    for (std::int64_t k = 0; k < shape.taps; ++k) layer.offsets.push_back(shape.TapOffset(k));
    stride_ += (shape.taps + 1) * layer.width;
    widest_ = std::max({widest_, shape.inputs, layer.width * shape.positions});
    most_taps_ = std::max(most_taps_, shape.taps);
    layers_.push_back(std::move(layer));
  }
  widest_ += kLanes;  // AllPositions goes too far
  values_.resize(static_cast<std::size_t>(stride_ * count));
}

Status PackedNetworks::Set(std::int64_t network, std::span<const float> parameters) {
  if (!std::ranges::all_of(parameters, [](float value) { return std::isfinite(value); })) {
    return InvalidInput("a parameter is not finite");
  }
  float* const values = values_.data() + network * stride_;
  for (const PackedLayer& layer : layers_) {
    const Layer& shape = layer.shape;
    float* const weights = values + layer.at + layer.width;
    for (std::int64_t o = 0; o < shape.filters; ++o) {
      values[layer.at + o] = parameters[shape.bias_at + o];
      for (std::int64_t k = 0; k < shape.taps; ++k) {
        weights[k * layer.width + o] = parameters[shape.weight_at + o * shape.taps + k];
      }
    }
  }
  return Ok();
}

void PackedNetworks::SetInput(std::span<const float> x, PassMemory& memory) const {
  const PackedLayer& layer = layers_.front();
  const auto positions = static_cast<std::size_t>(layer.shape.positions);
  const auto taps = static_cast<std::size_t>(layer.shape.taps);
  const auto grow = [](auto& values, std::size_t size) {
    if (values.size() < size) values.resize(size);
  };
  grow(memory.input, static_cast<std::size_t>(widest_));
  grow(memory.front, static_cast<std::size_t>(widest_));
  grow(memory.back, static_cast<std::size_t>(widest_));
  grow(memory.filters, static_cast<std::size_t>(widest_));
  grow(memory.taps, static_cast<std::size_t>(most_taps_));
  grow(memory.first, positions * taps);
  grow(memory.first_active, positions);
  std::ranges::copy(x, memory.input.begin());
  if (layer.Slides()) return;
  for (std::size_t t = 0; t < positions; ++t) {
    const double* const place =
        memory.input.data() + static_cast<std::int64_t>(t) * layer.shape.stride;
    memory.first_active[t] = GatherActive(layer, place, memory.first.data() + t * taps);
  }
}

std::span<const double> PackedNetworks::Logits(std::int64_t network, PassMemory& memory) const {
  const auto all_filters = HWY_DYNAMIC_DISPATCH(AllFilters);
  const float* const values = values_.data() + network * stride_;
  const double* in = memory.input.data();
  double *out = memory.front.data(), *other = memory.back.data();
  for (const PackedLayer& layer : layers_) {
    const Layer& shape = layer.shape;
    const bool first = &layer == &layers_.front();  // its taps were gathered with the input
    if (layer.Slides()) HWY_DYNAMIC_DISPATCH(AllPositions)(layer, values, in, out);
    for (std::int64_t t = 0; t < shape.positions && !layer.Slides(); ++t) {
      const ActiveTap* taps = first ? memory.first.data() + t * shape.taps : memory.taps.data();
      const std::int64_t active =
          first ? memory.first_active[t]
                : GatherActive(layer, in + t * shape.stride, memory.taps.data());
      if (shape.positions == 1) {
        all_filters(layer, values, taps, active, out);
        continue;
      }
      all_filters(layer, values, taps, active, memory.filters.data());
      for (std::int64_t o = 0; o < shape.filters; ++o) {
        out[o * shape.positions + t] = memory.filters[o];
      }
    }
    in = out;
    std::swap(out, other);
  }
  return {in, static_cast<std::size_t>(classes())};
}

}  // namespace lucid
#endif  // HWY_ONCE
