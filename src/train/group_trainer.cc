#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "train/group_trainer.cc"
#include "numeric/simd_targets.h"

#include <hwy/foreach_target.h>  // IWYU pragma: keep: includes this file once per instruction set

#include <hwy/highway.h>

#include "train/clipping-inl.h"
#include "train/group_trainer.h"
#include "train/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {
namespace {

// All vectors of a group in one block, in huge pages where the system gives them: weights and
// gradients fill more small pages than the first-level TLB has entries (6 % of the time on Zen 3).
class Arena {
 public:
  explicit Arena(std::int64_t vectors)
      : size_((static_cast<std::size_t>(vectors * L) * sizeof(float) + kPage - 1) / kPage * kPage),
        block_(static_cast<char*>(::operator new (size_, std::align_val_t{kPage}))),
        next_(block_.get()) {
    // Advice only: where it is refused everything works, a little slower.
    madvise(block_.get(), size_, MADV_HUGEPAGE);
  }

  // Zeros. Requires: no more in all than the constructor was told.
  float* Take(std::int64_t vectors) {
    const auto floats = static_cast<std::size_t>(vectors * L);
    float* memory = reinterpret_cast<float*>(next_);
    std::fill_n(memory, floats, 0.0f);
    next_ += floats * sizeof(float);
    return memory;
  }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  struct Delete {
    void operator()(char* p) const { ::operator delete (p, std::align_val_t{kPage}); }
  };

  std::size_t size_;
  std::unique_ptr<char, Delete> block_;
  char* next_;
};

std::vector<std::int32_t> Upto(std::int64_t count) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// What the kernels need for one layer, beyond its shape.
struct LayerMemory {
  float* units;       // [unit][row]; those of the last layer become its gradient
  float* delta;       // gradient with respect to `units` (hidden layers)
  ActiveList active;  // units that are not zero in some row and lane
  // Convolutions skip nothing (their filters see every place), nor does the last layer.
  std::vector<std::int32_t> all_taps, all_filters;
};

class Group {
 public:
  Group(const TrainPlan& plan, std::span<const LayerState> layers,
        std::span<const std::int64_t> left_out)
      : plan_(plan), layers_(layers), arena_(VectorsOf(plan)) {
    const std::int64_t parameters = plan.architecture().parameters();
    weights_ = arena_.Take(parameters);
    gradients_ = arena_.Take(parameters);
    if (plan.options().momentum != 0) velocity_ = arena_.Take(parameters);
    if (plan.options().average_epochs > 0) average_ = arena_.Take(parameters);
    if (plan.clipping()) StartClipping();
    const auto features = static_cast<std::size_t>(plan.architecture().inputs());
    no_row_.resize(features);
    inputs_.resize(features * kStrip);
    active_inputs_.items.resize(features);
    for (const LayerState& layer : layers_) {
      const Layer& shape = layer.shape;
      memory_.push_back({arena_.Take(kStrip * shape.outputs), arena_.Take(kStrip * shape.outputs),
                         ActiveList{Upto(shape.outputs)}, Upto(shape.taps), Upto(shape.filters)});
    }
    for (std::int64_t i = 0; i < parameters; ++i) {
      StoreAt(hn::Set(D(), plan.initial()[i]), weights_, i);
    }
    for (std::int64_t lane = 0; lane < L; ++lane) {
      left_out_[lane] = static_cast<std::int32_t>(left_out[lane]);
    }
  }

  bool Train(const std::stop_token& stop) {
    PlanReader reader(plan_);
    for (std::int64_t step = 0; step < plan_.steps(); ++step) {
      if (stop.stop_requested()) return false;
      if (plan_.clipping()) {
        AddClipped(reader.Rows(step));
        CollectIntegers(step, reader);
      } else {
        AddGradients(reader.Rows(step));
      }
      Step(plan_.Rate(step));
      if (plan_.IsAveraged(step)) AddToAverage();
    }
    return true;
  }

  // The integer sums of one step at these weights.
  void Sums(std::span<const float> weights, std::int64_t step, std::span<std::int32_t> out) {
    const std::int64_t parameters = plan_.architecture().parameters();
    const auto networks = static_cast<std::int64_t>(out.size()) / parameters;
    for (std::int64_t i = 0; i < parameters; ++i) StoreAt(hn::Set(D(), weights[i]), weights_, i);
    PlanReader reader(plan_);
    AddClipped(reader.Rows(step));
    alignas(64) std::int32_t sums[L];
    for (std::int64_t i = 0; i < parameters; ++i) {
      hn::Store(hn::Add(hn::Load(DI(), integers_ + i * L), WholePart(i)), DI(), sums);
      for (std::int64_t n = 0; n < networks; ++n) out[n * parameters + i] = sums[n];
    }
  }

  void Result(std::span<float> out) const {
    const std::int64_t parameters = plan_.architecture().parameters();
    const auto networks = static_cast<std::int64_t>(out.size()) / parameters;
    const float* result = average_ != nullptr ? average_ : weights_;
    for (std::int64_t i = 0; i < parameters; ++i) {
      for (std::int64_t n = 0; n < networks; ++n) {
        out[n * parameters + i] = result[i * L + n] + 0.0f;  // -0 becomes +0
      }
    }
  }

 private:
  static std::int64_t VectorsOf(const TrainPlan& plan) {
    const TrainOptions& options = plan.options();
    const int copies =
        2 + (options.momentum != 0) + (options.average_epochs > 0) + (plan.clipping() ? 2 : 0);
    std::int64_t vectors = copies * plan.architecture().parameters();
    if (plan.clipping()) vectors += kStrip * FilterParameters(plan.architecture());
    for (const Layer& layer : plan.architecture().layers()) vectors += 2 * kStrip * layer.outputs;
    return vectors;
  }

  void AddGradients(std::span<const std::int32_t> rows) {
    const V share = RowWeight(rows);
    for (std::size_t at = 0; at < rows.size(); at += kStrip) {
      const auto strip = rows.subspan(at, std::min<std::size_t>(rows.size() - at, kStrip));
      Prefetch(rows.subspan(at + strip.size()));
      Predict(strip);
      OutputGradient(strip, share);
      for (std::size_t l = layers_.size(); l-- > 0;) {
        WeightGradientOf(l);
        if (l > 0) InputGradientOf(l);
      }
    }
  }

  // Adds the clipped gradients of units to the sums on the grid.
  void AddClipped(std::span<const std::int32_t> rows) {
    const V one = hn::Set(D(), 1.0f);
    std::int64_t used = 0;
    for (std::size_t at = 0; at < rows.size();) {
      const auto strip = WholeUnits(rows.subspan(at));
      at += strip.size();
      Prefetch(rows.subspan(at));
      // A unit of several rows may be as large as kMaxRowsPerUnit clipped rows while it is summed.
      const bool single = segments_.size() == strip.size();
      const auto cost =
          static_cast<std::int64_t>(single ? strip.size() : segments_.size() * kMaxRowsPerUnit);
      if (used + cost > plan_.clipping()->room) {
        MoveToIntegers();
        used = 0;
      }
      used += cost;
      Predict(strip);
      OutputGradient(strip, one);
      for (std::size_t l = layers_.size(); l-- > 1;) InputGradientOf(l);
      Clip();
      for (std::size_t l = layers_.size(); l-- > 0;) {
        if (IsDense(l)) {
          WeightGradientOf(l);
        } else {
          AddFilters(l);
        }
      }
    }
  }

  // As many of the rows as fit into a strip without cutting a unit; `segments_` gets where each
  // unit ends. Requires: no unit is larger than a strip.
  std::span<const std::int32_t> WholeUnits(std::span<const std::int32_t> rows) {
    segments_.clear();
    std::size_t whole = 0;
    for (std::size_t r = 1; r <= std::min<std::size_t>(rows.size(), kStrip); ++r) {
      if (r < rows.size() && plan_.UnitOf(rows[r]) == plan_.UnitOf(rows[r - 1])) continue;
      segments_.push_back(static_cast<std::int64_t>(r));
      whole = r;
    }
    return rows.first(whole);
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

  // Per network, 1 / (rows of the batch that are not left out).
  V RowWeight(std::span<const std::int32_t> rows) const {
    const D d;
    const V one = hn::Set(d, 1.0f);
    V missing = hn::Zero(d);
    for (const std::int32_t row : rows) {
      missing = hn::Add(missing, hn::IfThenElseZero(LeftOut(row), one));
    }
    const V present = hn::Sub(hn::Set(d, static_cast<float>(rows.size())), missing);
    return hn::IfThenElseZero(hn::Gt(present, hn::Zero(d)), hn::Div(one, present));
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
    for (std::int64_t r = 0; r < kStrip; ++r) {
      const float* row = r < count ? plan_.table().x.data() + rows[r] * features : no_row_.data();
      float* column = inputs_.data() + r;
      for (std::int64_t k = 0; k < features; ++k) column[k * kStrip] = row[k];
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

  void ForwardLayer(std::size_t l) {
    if (l == 0 && IsDense(l)) ForwardLayerAs<true, true>(l);
    if (l == 0 && !IsDense(l)) ForwardLayerAs<true, false>(l);
    if (l > 0 && IsDense(l)) ForwardLayerAs<false, true>(l);
    if (l > 0 && !IsDense(l)) ForwardLayerAs<false, false>(l);
  }

  template <bool kShared, bool kDense>
  void ForwardLayerAs(std::size_t l) {
    Forward<kShared, kDense>{layers_[l],       weights_, InputOf(l),       TapsOf(l),
                             memory_[l].units, rows_,    memory_[l].active}
        .Run();
  }

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

  float* DeltaOf(std::size_t l) const {
    return l + 1 == layers_.size() ? memory_[l].units : memory_[l].delta;
  }
  std::span<const std::int32_t> FiltersOf(std::size_t l) const {
    if (IsDense(l) && l + 1 < layers_.size()) return memory_[l].active.span();
    return memory_[l].all_filters;
  }

  void WeightGradientOf(std::size_t l) {
    if (l == 0 && IsDense(l)) WeightGradientAs<true, true>(l);
    if (l == 0 && !IsDense(l)) WeightGradientAs<true, false>(l);
    if (l > 0 && IsDense(l)) WeightGradientAs<false, true>(l);
    if (l > 0 && !IsDense(l)) WeightGradientAs<false, false>(l);
  }

  template <bool kShared, bool kDense>
  void WeightGradientAs(std::size_t l) {
    WeightGradient<kShared, kDense>{layers_[l],   InputOf(l), DeltaOf(l), TapsOf(l),
                                    FiltersOf(l), gradients_, rows_}
        .Run();
  }

  void InputGradientOf(std::size_t l) {
    if (IsDense(l)) InputGradientAs<true>(l);
    if (!IsDense(l)) InputGradientAs<false>(l);
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

  // ---- clipping (train/clipping.h) ----

  static std::int64_t FilterParameters(const Architecture& architecture) {
    std::int64_t count = 0;
    for (const Layer& layer : architecture.layers()) {
      if (layer.kind != HiddenLayer::Kind::kDense) count += layer.filters * (layer.taps + 1);
    }
    return count;
  }

  void StartClipping() {
    const std::int64_t parameters = plan_.architecture().parameters();
    integers_ = reinterpret_cast<std::int32_t*>(arena_.Take(parameters));
    for (const LayerState& layer : layers_) {
      const Layer& shape = layer.shape;
      const bool dense = shape.kind == HiddenLayer::Kind::kDense;
      alone_.push_back(layer);
      alone_.back().shape.weight_at = 0;
      alone_.back().shape.bias_at = shape.filters * shape.taps;
      filters_.push_back(dense ? nullptr : arena_.Take(kStrip * shape.filters * (shape.taps + 1)));
    }
    const V offset = hn::Set(D(), plan_.clipping()->offset);
    for (std::int64_t i = 0; i < parameters; ++i) StoreAt(offset, gradients_, i);
  }

  // Scales the gradients of each unit of the strip to a norm of at most C: those of dense layers
  // through their deltas, those of convolutions in `factors_` when they are added.
  void Clip() {
    UnitNorms norms(*plan_.clipping(), segments_);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      if (!IsDense(l)) {
        NormsOfFilters(l, norms);
      } else if (l == 0) {
        norms.AddDense<true>(InputOf(l), TapsOf(l), DeltaOf(l), FiltersOf(l));
      } else {
        norms.AddDense<false>(InputOf(l), TapsOf(l), DeltaOf(l), FiltersOf(l));
      }
    }
    std::int64_t r = 0;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      const auto factor = norms.Factor(s);
      StoreAt(factor.scale, factors_, static_cast<std::int64_t>(s));
      const auto gone = hn::Not(factor.finite);
      for (; r < segments_[s]; ++r) {
        if (!hn::AllFalse(D(), gone)) ZeroHidden(r, gone);
        for (std::size_t l = 0; l < layers_.size(); ++l) {
          if (!IsDense(l)) continue;
          float* const delta = DeltaOf(l);
          for (const std::int32_t j : FiltersOf(l)) {
            const V scaled = hn::Mul(LoadAt(delta, j * kStrip + r), factor.scale);
            StoreAt(hn::IfThenElseZero(factor.finite, scaled), delta, j * kStrip + r);
          }
        }
      }
    }
  }

  void NormsOfFilters(std::size_t l, UnitNorms& norms) {
    const std::int64_t parameters = layers_[l].shape.filters * (layers_[l].shape.taps + 1);
    std::int64_t first = 0;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      float* const out = FiltersOfUnit(l, s);
      std::fill_n(out, parameters * L, 0.0f);
      if (l == 0) FilterGradientAs<true>(l, first, segments_[s], out);
      if (l > 0) FilterGradientAs<false>(l, first, segments_[s], out);
      norms.AddFilters(s, out, parameters);
      first = segments_[s];
    }
  }

  // The gradient of rows first .. end - 1 alone, weights and then biases.
  template <bool kShared>
  void FilterGradientAs(std::size_t l, std::int64_t first, std::int64_t end, float* out) {
    WeightGradient<kShared, false>{alone_[l],
                                   InputOf(l) + first * (kShared ? 1 : L),
                                   DeltaOf(l) + first * L,
                                   TapsOf(l),
                                   FiltersOf(l),
                                   out,
                                   end - first}
        .Run();
  }

  float* FiltersOfUnit(std::size_t l, std::size_t unit) const {
    const Layer& shape = layers_[l].shape;
    return filters_[l] + static_cast<std::int64_t>(unit) * shape.filters * (shape.taps + 1) * L;
  }

  void AddFilters(std::size_t l) {
    const Layer& shape = layers_[l].shape;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      const float* const filters = FiltersOfUnit(l, s);
      const V scale = LoadAt(factors_, static_cast<std::int64_t>(s));
      const auto used = hn::Gt(scale, hn::Zero(D()));
      for (std::int64_t i = 0; i < shape.filters * (shape.taps + 1); ++i) {
        // Weights, then biases: as in `gradients_`, where they follow one another.
        const std::int64_t at = shape.weight_at + i;
        const V own = hn::IfThenElseZero(used, LoadAt(filters, i));
        StoreAt(Fma(scale, own, LoadAt(gradients_, at)), gradients_, at);
      }
    }
  }

  // k = (S - M) / g, exact.
  HWY_INLINE hn::Vec<DI> WholePart(std::int64_t i) const {
    const D d;
    const V inverse = hn::Set(d, 1.0f / plan_.clipping()->grid);
    const V offset = hn::Set(d, plan_.clipping()->offset);
    return hn::ConvertTo(DI(), hn::Mul(hn::Sub(LoadAt(gradients_, i), offset), inverse));
  }

  void MoveToIntegers() {
    const D d;
    const DI di;
    const V grid = hn::Set(d, plan_.clipping()->grid);
    const V offset = hn::Set(d, plan_.clipping()->offset);
    const auto one = hn::Set(di, 1);
    for (std::int64_t i = 0; i < plan_.architecture().parameters(); ++i) {
      const auto k = WholePart(i);
      const auto parity = hn::And(k, one);
      hn::Store(hn::Add(hn::Load(di, integers_ + i * L), hn::Sub(k, parity)), di,
                integers_ + i * L);
      StoreAt(Fma(hn::ConvertTo(d, parity), grid, offset), gradients_, i);
    }
  }

  // The integer sums, with noise if there is any, become the gradients of the step.
  void CollectIntegers(std::int64_t step, PlanReader& reader) {
    const D d;
    const DI di;
    const bool noisy = plan_.options().method == TrainOptions::Method::kPrivate;
    const std::span<const std::int32_t> noise =
        noisy ? reader.Noise(step) : std::span<const std::int32_t>();
    const V scale = hn::Set(d, plan_.clipping()->scale);
    for (std::int64_t i = 0; i < plan_.architecture().parameters(); ++i) {
      auto sum = hn::Add(hn::Load(di, integers_ + i * L), WholePart(i));
      if (noisy) sum = hn::Add(sum, hn::Set(di, noise[static_cast<std::size_t>(i)]));
      StoreAt(hn::Mul(hn::ConvertTo(d, sum), scale), gradients_, i);
      hn::Store(hn::Zero(di), di, integers_ + i * L);
    }
  }

  const float* InputOf(std::size_t l) const {
    return l == 0 ? inputs_.data() : memory_[l - 1].units;
  }
  std::span<const std::int32_t> TapsOf(std::size_t l) const {
    if (!IsDense(l)) return memory_[l].all_taps;
    return l == 0 ? active_inputs_.span() : memory_[l - 1].active.span();
  }

  void Step(float rate) {
    const D d;
    const V decay = hn::Set(d, static_cast<float>(plan_.options().weight_decay));
    const V momentum = hn::Set(d, static_cast<float>(plan_.options().momentum));
    const V step = hn::Set(d, -rate);
    const V zero = hn::Set(d, plan_.clipping() ? plan_.clipping()->offset : 0.0f);
    for (std::int64_t i = 0; i < plan_.architecture().parameters(); ++i) {
      const V w = LoadAt(weights_, i);
      V g = Fma(decay, w, LoadAt(gradients_, i));
      StoreAt(zero, gradients_, i);
      if (velocity_ != nullptr) {
        g = Fma(momentum, LoadAt(velocity_, i), g);
        StoreAt(g, velocity_, i);
      }
      StoreAt(Fma(step, g, w), weights_, i);
    }
  }

  void AddToAverage() {
    const V share = hn::Set(D(), 1.0f / static_cast<float>(plan_.options().average_epochs));
    for (std::int64_t i = 0; i < plan_.architecture().parameters(); ++i) {
      StoreAt(Fma(share, LoadAt(weights_, i), LoadAt(average_, i)), average_, i);
    }
  }

  bool IsDense(std::size_t l) const { return layers_[l].shape.kind == HiddenLayer::Kind::kDense; }

  const TrainPlan& plan_;
  std::span<const LayerState> layers_;
  alignas(64) std::int32_t left_out_[L];
  Arena arena_;
  float *weights_, *gradients_;
  float *velocity_ = nullptr, *average_ = nullptr;  // where the options ask for them
  std::vector<LayerMemory> memory_;
  std::int64_t rows_ = 0;      // of the present strip, filled up to a whole block
  std::vector<float> no_row_;  // zeros: what fills up a short strip
  std::vector<float> inputs_;  // [feature][row], shared by all networks
  ActiveList active_inputs_;   // features that are not zero in some row
  // Clipping.
  std::int32_t* integers_ = nullptr;    // what was moved out of `gradients_`, in grid units
  std::vector<LayerState> alone_;       // the layers with their parameters at 0
  std::vector<float*> filters_;         // per convolution: [unit of the strip][parameter]
  std::vector<std::int64_t> segments_;  // where each unit of the strip ends
  alignas(64) float factors_[kStrip * L] = {};
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

void SumGroup(const TrainPlan& plan, std::span<const LayerState> layers,
              std::span<const std::int64_t> left_out, std::span<const float> weights,
              std::int64_t step, std::span<std::int32_t> out) {
  Group(plan, layers, left_out).Sums(weights, step, out);
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
  std::int64_t target;  // Highway's bit, 0: always there
  int lanes;
  TrainGroupFunction train;
  SumGroupFunction sum;
};

constexpr Path kPaths[] = {
#if HWY_TARGETS & HWY_AVX3
    {InstructionSet::kAvx512, HWY_AVX3, N_AVX3::kLanes, N_AVX3::TrainGroup, N_AVX3::SumGroup},
#endif
#if HWY_TARGETS & HWY_AVX2
    {InstructionSet::kAvx2, HWY_AVX2, N_AVX2::kLanes, N_AVX2::TrainGroup, N_AVX2::SumGroup},
#endif
    {InstructionSet::kPortable, 0, HWY_STATIC_DISPATCH(kLanes), HWY_STATIC_DISPATCH(TrainGroup),
     HWY_STATIC_DISPATCH(SumGroup)},
};

const Path& PathOf(InstructionSet set) {
  return *std::ranges::find_if(kPaths, [&](const Path& path) { return path.set == set; });
}

}  // namespace

std::vector<InstructionSet> AvailableInstructionSets() {
  std::vector<InstructionSet> sets;
  for (const Path& path : kPaths) {
    if (path.target == 0 || (hwy::SupportedTargets() & path.target) != 0) sets.push_back(path.set);
  }
  return sets;
}

GroupTrainer::GroupTrainer(const TrainPlan& plan, InstructionSet set)
    : plan_(&plan), set_(set), lanes_(PathOf(set).lanes) {}

namespace {

std::vector<LayerState> LayersOf(const Architecture& architecture) {
  std::vector<LayerState> layers;
  for (const Layer& shape : architecture.layers()) {
    LayerState layer{shape, {}};
    for (std::int64_t k = 0; k < shape.taps; ++k) {
      layer.offsets.push_back(static_cast<std::int32_t>(shape.TapOffset(k)));
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace

Result<std::vector<std::int64_t>> GroupTrainer::UnitsOfLanes(std::span<const std::int64_t> left_out,
                                                             std::size_t outputs) const {
  const auto parameters = static_cast<std::size_t>(plan_->architecture().parameters());
  if (left_out.empty() || left_out.size() > static_cast<std::size_t>(lanes_) ||
      outputs != left_out.size() * parameters) {
    return InternalError(fmt::format("a group of {} networks and {} numbers for {} lanes",
                                     left_out.size(), outputs, lanes_));
  }
  if (plan_->clipping() && plan_->largest_unit() > plan_->options().rows_per_unit) {
    return InternalError(fmt::format("a unit of {} rows where clipping charges for {}",
                                     plan_->largest_unit(), plan_->options().rows_per_unit));
  }
  const auto unit_of = [&](std::int64_t row) {
    return row == kNoRow ? kNoRow : plan_->UnitOf(row);
  };
  std::vector<std::int64_t> lanes(static_cast<std::size_t>(lanes_), unit_of(left_out.front()));
  std::ranges::transform(left_out, lanes.begin(), unit_of);
  return lanes;
}

Status GroupTrainer::StepSums(std::span<const float> weights, std::int64_t step,
                              std::span<const std::int64_t> left_out,
                              std::span<std::int32_t> out) const {
  LUCID_ASSIGN(const auto lanes, UnitsOfLanes(left_out, out.size()));
  if (!plan_->clipping() || step < 0 || step >= plan_->steps() ||
      std::ssize(weights) != plan_->architecture().parameters()) {
    return InternalError(fmt::format("no sums of step {} of this plan", step));
  }
  PathOf(set_).sum(*plan_, LayersOf(plan_->architecture()), lanes, weights, step, out);
  return Ok();
}

Status GroupTrainer::Train(std::span<const std::int64_t> left_out, std::span<float> out,
                           std::stop_token stop) const {
  const auto parameters = static_cast<std::size_t>(plan_->architecture().parameters());
  LUCID_ASSIGN(const auto lanes, UnitsOfLanes(left_out, out.size()));
  if (!PathOf(set_).train(*plan_, LayersOf(plan_->architecture()), lanes, out, stop)) {
    return Interrupted("training stopped on request");
  }
  if (plan_->options().method == TrainOptions::Method::kPrivate) return Ok();
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
