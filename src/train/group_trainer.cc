#include <algorithm>
#include <cmath>
#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "train/group_trainer.cc"
// Three paths are kept: AVX-512, AVX2 and the compiler's baseline. SSE4 would be the baseline with
// another name (no fused multiply-add there either).
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>  // IWYU pragma: keep: includes this file once per instruction set

#include <hwy/highway.h>

#include "train/group_trainer.h"
#include "train/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {
namespace {

AlignedFloats Vectors(std::int64_t count) {
  const auto floats = static_cast<std::size_t>(count * L);
  AlignedFloats memory = hwy::AllocateAligned<float>(floats);
  std::fill_n(memory.get(), floats, 0.0f);
  return memory;
}

std::vector<std::int32_t> Upto(std::int64_t count) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// What the kernels need for one layer, beyond its shape.
struct LayerMemory {
  AlignedFloats units;               // [unit][row]; those of the last layer become its gradient
  AlignedFloats delta;               // gradient with respect to `units` (hidden layers)
  std::vector<std::int32_t> active;  // units that are not zero in some row and lane
  // Convolutions skip nothing (their filters see every place), nor does the last layer.
  std::vector<std::int32_t> all_taps, all_filters;
};

class Group {
 public:
  Group(const TrainPlan& plan, std::span<const LayerState> layers,
        std::span<const std::int64_t> left_out)
      : plan_(plan), layers_(layers) {
    const std::int64_t parameters = plan.architecture().parameters();
    weights_ = Vectors(parameters);
    gradients_ = Vectors(parameters);
    if (plan.options().momentum != 0) velocity_ = Vectors(parameters);
    if (plan.options().average_epochs > 0) average_ = Vectors(parameters);
    inputs_.resize(static_cast<std::size_t>(kStrip * plan.architecture().inputs()));
    for (const LayerState& layer : layers_) {
      const Layer& shape = layer.shape;
      memory_.push_back({Vectors(kStrip * shape.outputs),
                         Vectors(kStrip * shape.outputs),
                         {},
                         Upto(shape.taps),
                         Upto(shape.filters)});
    }
    for (std::int64_t i = 0; i < parameters; ++i) {
      StoreAt(hn::Set(D(), plan.initial()[i]), weights_.get(), i);
    }
    for (std::int64_t lane = 0; lane < L; ++lane) {
      left_out_[lane] = static_cast<std::int32_t>(left_out[lane]);
    }
  }

  bool Train(const std::stop_token& stop) {
    const TrainOptions& options = plan_.options();
    std::vector<std::int32_t> order;
    for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
      plan_.Order(epoch, order);
      for (std::int64_t batch = 0; batch < plan_.batches_per_epoch(); ++batch) {
        if (stop.stop_requested()) return false;
        AddGradients(plan_.Batch(order, batch));
        Step(plan_.Rate(epoch, batch));
      }
      if (epoch >= options.epochs - options.average_epochs) AddToAverage();
    }
    return true;
  }

  void Result(std::span<float> out) const {
    const std::int64_t parameters = plan_.architecture().parameters();
    const auto networks = static_cast<std::int64_t>(out.size()) / parameters;
    const float* result = average_ ? average_.get() : weights_.get();
    for (std::int64_t i = 0; i < parameters; ++i) {
      for (std::int64_t n = 0; n < networks; ++n) {
        out[n * parameters + i] = result[i * L + n] + 0.0f;  // -0 becomes +0
      }
    }
  }

 private:
  void AddGradients(std::span<const std::int32_t> rows) {
    const V share = RowWeight(rows);
    for (std::size_t at = 0; at < rows.size(); at += kStrip) {
      const auto strip = rows.subspan(at, std::min<std::size_t>(rows.size() - at, kStrip));
      Prefetch(rows.subspan(at + strip.size()));
      ReadStrip(strip);
      for (std::size_t l = 0; l < layers_.size(); ++l) ForwardLayer(l);
      OutputGradient(strip, share);
      for (std::size_t l = layers_.size(); l-- > 0;) BackwardLayer(l);
    }
  }

  // Per network, 1 / (rows of the batch that are not left out).
  V RowWeight(std::span<const std::int32_t> rows) const {
    alignas(64) float share[L];
    for (std::int64_t lane = 0; lane < L; ++lane) {
      const auto missing = std::count(rows.begin(), rows.end(), left_out_[lane]);
      const auto present = static_cast<std::int64_t>(rows.size()) - missing;
      share[lane] = present > 0 ? 1.0f / static_cast<float>(present) : 0.0f;
    }
    return hn::Load(D(), share);
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

  // Turns the rows to [feature][row]. A short strip (the last of a batch) is filled up with zeros
  // to a whole block; such rows weigh nothing.
  void ReadStrip(std::span<const std::int32_t> rows) {
    const auto count = static_cast<std::int64_t>(rows.size());
    rows_ = (count + kInner - 1) / kInner * kInner;
    const std::int64_t features = plan_.table().features;
    active_inputs_.clear();
    for (std::int64_t r = 0; r < rows_; ++r) {
      const float* row = r < count ? plan_.table().x.data() + rows[r] * features : nullptr;
      for (std::int64_t k = 0; k < features; ++k) {
        inputs_[k * kStrip + r] = row != nullptr ? row[k] : 0.0f;
      }
    }
    for (std::int64_t k = 0; k < features; ++k) {
      bool active = false;
      for (std::int64_t r = 0; r < rows_; ++r) active |= inputs_[k * kStrip + r] != 0;
      if (active) active_inputs_.push_back(static_cast<std::int32_t>(k));
    }
  }

  void ForwardLayer(std::size_t l) {
    if (l == 0 && IsDense(l)) ForwardLayerAs<true, true>(l);
    if (l == 0 && !IsDense(l)) ForwardLayerAs<true, false>(l);
    if (l > 0 && IsDense(l)) ForwardLayerAs<false, true>(l);
    if (l > 0 && !IsDense(l)) ForwardLayerAs<false, false>(l);
  }

  template <bool kShared, bool kDense>
  void ForwardLayerAs(std::size_t l) {
    const Layer& shape = layers_[l].shape;
    float* units = memory_[l].units.get();
    Forward<kShared, kDense>{layers_[l], weights_.get(), InputOf(l), TapsOf(l), units, rows_}.Run();
    if (shape.relu) ListActive(units, shape.outputs, rows_, memory_[l].active);
  }

  void OutputGradient(std::span<const std::int32_t> rows, V share) {
    const std::int64_t classes = plan_.architecture().classes();
    const DI di;
    const auto left_out = hn::Load(di, left_out_);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      // The left-out row weighs nothing in its own network's lane.
      const auto masked = hn::RebindMask(D(), hn::Eq(left_out, hn::Set(di, rows[r])));
      SoftmaxGradient(memory_.back().units.get() + r * L, classes, plan_.table().y[rows[r]],
                      hn::IfThenZeroElse(masked, share));
    }
    for (auto r = static_cast<std::int64_t>(rows.size()); r < rows_; ++r) {
      for (std::int64_t c = 0; c < classes; ++c) {
        StoreAt(hn::Zero(D()), memory_.back().units.get(), c * kStrip + r);
      }
    }
  }

  void BackwardLayer(std::size_t l) {
    if (l == 0 && IsDense(l)) BackwardLayerAs<true, true>(l);
    if (l == 0 && !IsDense(l)) BackwardLayerAs<true, false>(l);
    if (l > 0 && IsDense(l)) BackwardLayerAs<false, true>(l);
    if (l > 0 && !IsDense(l)) BackwardLayerAs<false, false>(l);
  }

  template <bool kShared, bool kDense>
  void BackwardLayerAs(std::size_t l) {
    const bool last = l + 1 == layers_.size();
    const float* delta = last ? memory_[l].units.get() : memory_[l].delta.get();
    const auto& filters = kDense && !last ? memory_[l].active : memory_[l].all_filters;
    WeightGradient<kShared, kDense>{layers_[l], InputOf(l),       delta, TapsOf(l),
                                    filters,    gradients_.get(), rows_}
        .Run();
    if constexpr (!kShared) {
      // A convolution below reads the gradients of all its units, so they must all be written.
      const auto& written = IsDense(l - 1) ? TapsOf(l) : memory_[l].all_taps;
      InputGradient<kDense>{layers_[l],
                            weights_.get(),
                            delta,
                            written,
                            filters,
                            InputOf(l),
                            memory_[l - 1].delta.get(),
                            rows_}
          .Run();
    }
  }

  const float* InputOf(std::size_t l) const {
    return l == 0 ? inputs_.data() : memory_[l - 1].units.get();
  }
  const std::vector<std::int32_t>& TapsOf(std::size_t l) const {
    if (!IsDense(l)) return memory_[l].all_taps;
    return l == 0 ? active_inputs_ : memory_[l - 1].active;
  }

  void Step(float rate) {
    const D d;
    const V decay = hn::Set(d, static_cast<float>(plan_.options().weight_decay));
    const V momentum = hn::Set(d, static_cast<float>(plan_.options().momentum));
    const V step = hn::Set(d, -rate), zero = hn::Zero(d);
    for (std::int64_t i = 0; i < plan_.architecture().parameters(); ++i) {
      const V w = LoadAt(weights_.get(), i);
      V g = Fma(decay, w, LoadAt(gradients_.get(), i));
      StoreAt(zero, gradients_.get(), i);
      if (velocity_) {
        g = Fma(momentum, LoadAt(velocity_.get(), i), g);
        StoreAt(g, velocity_.get(), i);
      }
      StoreAt(Fma(step, g, w), weights_.get(), i);
    }
  }

  void AddToAverage() {
    const V share = hn::Set(D(), 1.0f / static_cast<float>(plan_.options().average_epochs));
    for (std::int64_t i = 0; i < plan_.architecture().parameters(); ++i) {
      StoreAt(Fma(share, LoadAt(weights_.get(), i), LoadAt(average_.get(), i)), average_.get(), i);
    }
  }

  bool IsDense(std::size_t l) const { return layers_[l].shape.kind == HiddenLayer::Kind::kDense; }

  const TrainPlan& plan_;
  std::span<const LayerState> layers_;
  alignas(64) std::int32_t left_out_[L];
  AlignedFloats weights_, gradients_, velocity_, average_;
  std::vector<LayerMemory> memory_;
  std::int64_t rows_ = 0;                    // of the present strip, filled up to a whole block
  std::vector<float> inputs_;                // [feature][row], shared by all networks
  std::vector<std::int32_t> active_inputs_;  // features that are not zero in some row
};

}  // namespace

constexpr int kLanes = static_cast<int>(L);

bool TrainGroup(const TrainPlan& plan, std::span<const LayerState> layers,
                std::span<const std::int64_t> left_out, std::span<float> out,
                const std::stop_token& stop) {
  Group group(plan, layers, left_out);
  if (!group.Train(stop)) return false;
  group.Result(out);
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <fmt/format.h>

namespace lucid {
namespace {

struct Path {
  InstructionSet set;
  std::string_view name;
  std::int64_t target;  // Highway's bit, 0: always there
  int lanes;
  TrainGroupFunction train;
};

constexpr Path kPaths[] = {
#if HWY_TARGETS & HWY_AVX3
    {InstructionSet::kAvx512, "avx512", HWY_AVX3, N_AVX3::kLanes, N_AVX3::TrainGroup},
#endif
#if HWY_TARGETS & HWY_AVX2
    {InstructionSet::kAvx2, "avx2", HWY_AVX2, N_AVX2::kLanes, N_AVX2::TrainGroup},
#endif
    {InstructionSet::kPortable, "portable", 0, HWY_STATIC_DISPATCH(kLanes),
     HWY_STATIC_DISPATCH(TrainGroup)},
};

const Path& PathOf(InstructionSet set) {
  return *std::ranges::find_if(kPaths, [&](const Path& path) { return path.set == set; });
}

}  // namespace

std::string InstructionSetName(InstructionSet set) { return std::string(PathOf(set).name); }

std::vector<InstructionSet> AvailableInstructionSets() {
  std::vector<InstructionSet> sets;
  for (const Path& path : kPaths) {
    if (path.target == 0 || (hwy::SupportedTargets() & path.target) != 0) sets.push_back(path.set);
  }
  return sets;
}

GroupTrainer::GroupTrainer(const TrainPlan& plan, InstructionSet set)
    : plan_(&plan), set_(set), lanes_(PathOf(set).lanes) {}

Status GroupTrainer::Train(std::span<const std::int64_t> left_out, std::span<float> out,
                           std::stop_token stop) const {
  std::vector<LayerState> layers;
  for (const Layer& shape : plan_->architecture().layers()) {
    LayerState layer{shape, {}};
    for (std::int64_t k = 0; k < shape.taps; ++k) {
      layer.offsets.push_back(static_cast<std::int32_t>(shape.TapOffset(k)));
    }
    layers.push_back(std::move(layer));
  }
  std::vector<std::int64_t> lanes(static_cast<std::size_t>(lanes_), left_out.front());
  std::ranges::copy(left_out, lanes.begin());
  if (!PathOf(set_).train(*plan_, layers, lanes, out, stop)) {
    return Interrupted("training stopped on request");
  }
  const auto parameters = static_cast<std::size_t>(plan_->architecture().parameters());
  for (std::size_t k = 0; k < left_out.size(); ++k) {
    const auto network = out.subspan(k * parameters, parameters);
    if (std::ranges::all_of(network, [](float v) { return std::isfinite(v); })) continue;
    return InvalidInput(fmt::format(
        "training diverged: the network {} has weights that are not finite; use a smaller --lr",
        left_out[k] == kNoRow ? std::string("on all rows")
                              : fmt::format("without row {}", left_out[k])));
  }
  return Ok();
}

}  // namespace lucid

#endif  // HWY_ONCE
