// A strip of rows through all networks of a group, forwards and backwards. Included once per
// instruction set like kernels-inl.h.

#if defined(LUCID_TRAIN_STRIP_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LUCID_TRAIN_STRIP_PASS_INL_H_
#undef LUCID_TRAIN_STRIP_PASS_INL_H_
#else
#define LUCID_TRAIN_STRIP_PASS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <numeric>

#include "train/arena.h"
#include "train/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {

HWY_INLINE float* TakeVectors(Arena& arena, std::int64_t vectors) {
  return arena.Take(static_cast<std::size_t>(vectors * L));
}

// What is known of one strip: inputs, units and their gradients. Order of calls for a strip:
// Predict, OutputGradient, then from the last layer down WeightGradientOf and InputGradientOf.
class StripPass {
 public:
  // `weights` are the group's and may change between strips; `left_out` has a unit per lane.
  StripPass(const TrainPlan& plan, std::span<const LayerState> layers, const float* weights,
            std::span<const std::int64_t> left_out, std::span<const Standardisation> inputs,
            Arena& arena)
      : plan_(plan), layers_(layers), weights_(weights) {
    const auto features = static_cast<std::size_t>(plan.architecture().inputs());
    no_row_.resize(features);
    inputs_.resize(features * kStrip);
    active_inputs_.items.resize(features);
    for (const LayerState& layer : layers_) {
      const Layer& shape = layer.shape;
      float* const units = TakeVectors(arena, kStrip * shape.outputs);
      float* const delta = TakeVectors(arena, kStrip * shape.outputs);
      memory_.push_back(
          {units, delta, ActiveList{Upto(shape.outputs)}, Upto(shape.taps), Upto(shape.filters)});
    }
    for (std::int64_t lane = 0; lane < L; ++lane) {
      left_out_[lane] = static_cast<std::int32_t>(left_out[lane]);
    }
    if (inputs.empty()) return;
    const auto count = static_cast<std::int64_t>(features);
    own_inputs_ = TakeVectors(arena, kStrip * count);
    centers_ = TakeVectors(arena, count);
    factors_ = TakeVectors(arena, count);
    for (std::int64_t lane = 0; lane < L; ++lane) {
      const Standardisation& own = inputs[static_cast<std::size_t>(lane)];
      for (std::size_t k = 0; k < features; ++k) {
        centers_[k * L + lane] = own.centers[k];
        factors_[k * L + lane] = own.factors[k];
      }
    }
  }

  // How many vectors the constructor takes from the arena.
  static std::int64_t VectorsOf(const TrainPlan& plan) {
    std::int64_t vectors = 0;
    if (plan.moments()) vectors += (kStrip + 2) * plan.architecture().inputs();
    for (const Layer& layer : plan.architecture().layers()) vectors += 2 * kStrip * layer.outputs;
    return vectors;
  }

  std::size_t layers() const { return layers_.size(); }
  const LayerState& layer(std::size_t l) const { return layers_[l]; }
  bool IsDense(std::size_t l) const { return layers_[l].shape.kind == HiddenLayer::Kind::kDense; }

  // Whether all networks read the same values in layer l.
  bool IsShared(std::size_t l) const { return l == 0 && own_inputs_ == nullptr; }
  // What layer l reads, and its inputs that are not zero.
  const float* InputOf(std::size_t l) const {
    if (l > 0) return memory_[l - 1].units;
    return own_inputs_ != nullptr ? own_inputs_ : inputs_.data();
  }
  std::span<const std::int32_t> TapsOf(std::size_t l) const {
    if (!IsDense(l) || (l == 0 && own_inputs_ != nullptr)) return memory_[l].all_taps;
    return l == 0 ? active_inputs_.span() : memory_[l - 1].active.span();
  }
  // The gradient by the sums of layer l, and its filters that are not zero.
  float* DeltaOf(std::size_t l) const {
    return l + 1 == layers_.size() ? memory_[l].units : memory_[l].delta;
  }
  std::span<const std::int32_t> FiltersOf(std::size_t l) const {
    if (IsDense(l) && l + 1 < layers_.size()) return memory_[l].active.span();
    return memory_[l].all_filters;
  }

  // The lanes that leave the row out.
  hn::Mask<D> LeftOut(std::int32_t row) const {
    const DI di;
    return hn::RebindMask(D(), hn::Eq(hn::Load(di, left_out_), hn::Set(di, plan_.UnitOf(row))));
  }

  void ZeroHidden(std::int64_t row, hn::Mask<D> lanes) {
    for (std::size_t l = 0; l + 1 < layers_.size(); ++l) {
      for (std::int64_t unit = 0; unit < layers_[l].shape.outputs; ++unit) {
        const std::int64_t at = unit * kStrip + row;
        StoreAt(hn::IfThenZeroElse(lanes, LoadAt(memory_[l].units, at)), memory_[l].units, at);
      }
    }
  }

  // The rows of the next strip lie anywhere in memory: ask for them one strip ahead.
  void Prefetch(std::span<const std::int32_t> rows) const {
    const std::int64_t features = plan_.table().features;
    for (std::size_t r = 0; r < std::min<std::size_t>(rows.size(), kStrip); ++r) {
      const float* row = plan_.table().x.data() + rows[r] * features;
      for (std::int64_t k = 0; k < features; k += 16) __builtin_prefetch(row + k);
      __builtin_prefetch(row + features - 1);
    }
  }

  // The units of all layers for the rows of a strip. Rows that fill up the strip, and in each lane
  // the rows that are left out there, get hidden units of 0: whatever the weights are, nothing of
  // them reaches a sum.
  void Predict(std::span<const std::int32_t> strip) {
    ReadStrip(strip);
    for (std::size_t l = 0; l < layers_.size(); ++l) ForwardLayer(l);
    const auto count = static_cast<std::int64_t>(strip.size());
    for (std::int64_t r = 0; r < count; ++r) {
      const auto masked = LeftOut(strip[static_cast<std::size_t>(r)]);
      if (!hn::AllFalse(D(), masked)) ZeroHidden(r, masked);
    }
    for (std::int64_t r = count; r < rows_; ++r) ZeroHidden(r, hn::FirstN(D(), L));
  }

  // The gradient of the loss by the last layer's sums, times `share`.
  void OutputGradient(std::span<const std::int32_t> rows, V share) {
    const std::int64_t classes = plan_.architecture().classes();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      SoftmaxGradient(memory_.back().units + r * L, classes, plan_.table().y[rows[r]], share,
                      LeftOut(rows[r]));
    }
    for (auto r = static_cast<std::int64_t>(rows.size()); r < rows_; ++r) {
      for (std::int64_t c = 0; c < classes; ++c) {
        StoreAt(hn::Zero(D()), memory_.back().units, c * kStrip + r);
      }
    }
  }

  // Adds the gradient by the parameters of layer l to `gradients`.
  void WeightGradientOf(std::size_t l, float* gradients) const {
    const bool shared = IsShared(l);
    if (shared && IsDense(l)) WeightGradientAs<true, true>(l, gradients);
    if (shared && !IsDense(l)) WeightGradientAs<true, false>(l, gradients);
    if (!shared && IsDense(l)) WeightGradientAs<false, true>(l, gradients);
    if (!shared && !IsDense(l)) WeightGradientAs<false, false>(l, gradients);
  }

  // The gradient by the units that layer l reads. Requires: l > 0.
  void InputGradientOf(std::size_t l) {
    if (IsDense(l)) InputGradientAs<true>(l);
    if (!IsDense(l)) InputGradientAs<false>(l);
  }

 private:
  // What the kernels need for one layer, beyond its shape.
  struct LayerMemory {
    float* units;       // [unit][row]; those of the last layer become its gradient
    float* delta;       // gradient with respect to `units` (hidden layers)
    ActiveList active;  // units that are not zero in some row and lane
    // Convolutions skip nothing (their filters see every place), nor does the last layer.
    std::vector<std::int32_t> all_taps, all_filters;
  };

  static std::vector<std::int32_t> Upto(std::int64_t count) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  // Turns the rows to [feature][row]. A short strip (the last of a batch) is filled up with zeros
  // to a whole block; such rows weigh nothing.
  void ReadStrip(std::span<const std::int32_t> rows) {
    const auto count = static_cast<std::int64_t>(rows.size());
    rows_ = (count + kInner - 1) / kInner * kInner;
    const std::int64_t features = plan_.table().features;
    for (std::int64_t r = 0; r < kStrip; ++r) {
      const float* row = r < count ? plan_.table().x.data() + rows[r] * features : no_row_.data();
      float* column = inputs_.data() + r;
      for (std::int64_t k = 0; k < features; ++k) column[k * kStrip] = row[k];
    }
    if (own_inputs_ != nullptr) {
      Standardise(count);
      return;
    }
    active_inputs_.size = 0;
    const hn::CappedTag<float, kStrip> d;
    for (std::int64_t k = 0; k < features; ++k) {
      const float* column = inputs_.data() + k * kStrip;
      auto any = hn::LoadU(d, column);
      for (std::size_t r = hn::Lanes(d); r < kStrip; r += hn::Lanes(d)) {
        any = hn::Or(any, hn::LoadU(d, column + r));
      }
      active_inputs_.Offer(k, !hn::AllTrue(d, hn::Eq(any, hn::Zero(d))));
    }
  }

  // Each network's own inputs; rows that fill up the strip are zeros.
  void Standardise(std::int64_t count) {
    const D d;
    for (std::int64_t k = 0; k < plan_.table().features; ++k) {
      const V center = LoadAt(centers_, k), factor = LoadAt(factors_, k);
      for (std::int64_t r = 0; r < rows_; ++r) {
        const V x = hn::Set(d, inputs_[static_cast<std::size_t>(k * kStrip + r)]);
        const V own = hn::Mul(hn::Sub(x, center), factor);
        StoreAt(r < count ? own : hn::Zero(d), own_inputs_, k * kStrip + r);
      }
    }
  }

  // Only the last layer, which is dense, has no ReLU.
  void ForwardLayer(std::size_t l) {
    const bool relu = layers_[l].shape.relu, shared = IsShared(l);
    if (shared && !relu) ForwardLayerAs<true, true, false>(l);
    if (!shared && !relu) ForwardLayerAs<false, true, false>(l);
    if (shared && relu && IsDense(l)) ForwardLayerAs<true, true, true>(l);
    if (shared && relu && !IsDense(l)) ForwardLayerAs<true, false, true>(l);
    if (!shared && relu && IsDense(l)) ForwardLayerAs<false, true, true>(l);
    if (!shared && relu && !IsDense(l)) ForwardLayerAs<false, false, true>(l);
  }
  template <bool kShared, bool kDense, bool kRelu>
  void ForwardLayerAs(std::size_t l) {
    Forward<kShared, kDense, kRelu>{layers_[l],       weights_, InputOf(l),       TapsOf(l),
                                    memory_[l].units, rows_,    memory_[l].active}
        .Run();
  }

  template <bool kShared, bool kDense>
  void WeightGradientAs(std::size_t l, float* gradients) const {
    WeightGradient<kShared, kDense>{layers_[l],   InputOf(l), DeltaOf(l), TapsOf(l),
                                    FiltersOf(l), gradients,  rows_}
        .Run();
  }

  template <bool kDense>
  void InputGradientAs(std::size_t l) {
    // A convolution below reads the gradients of all its units, so they must all be written.
    const auto written =
        IsDense(l - 1) ? TapsOf(l) : std::span<const std::int32_t>(memory_[l].all_taps);
    InputGradient<kDense>{layers_[l],   weights_,   DeltaOf(l),           written,
                          FiltersOf(l), InputOf(l), memory_[l - 1].delta, rows_}
        .Run();
  }

  const TrainPlan& plan_;
  std::span<const LayerState> layers_;
  const float* weights_;
  alignas(64) std::int32_t left_out_[L];
  std::vector<LayerMemory> memory_;
  std::int64_t rows_ = 0;      // of the present strip, filled up to a whole block
  std::vector<float> no_row_;  // zeros: what fills up a short strip
  std::vector<float> inputs_;  // [feature][row], shared by all networks
  ActiveList active_inputs_;   // features that are not zero in some row
  // Where inputs are standardised: [feature][row], and per feature what is done to it.
  float *own_inputs_ = nullptr, *centers_ = nullptr, *factors_ = nullptr;
};

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#endif  // toggle
