// Norms and sums of the clipped gradients of units, one network per lane. Included once per
// instruction set like kernels-inl.h.
//
// With d the derivative by a dense layer's sums and h its inputs, the gradient of row r has the
// squared norm |d_r|^2 (|h_r|^2 + 1), and the inner product of those of rows r and s is
// (d_r . d_s)(h_r . h_s + 1). A convolution's gradient is made for each unit, and its norm taken.

#if defined(LUCID_TRAIN_CLIPPING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LUCID_TRAIN_CLIPPING_INL_H_
#undef LUCID_TRAIN_CLIPPING_INL_H_
#else
#define LUCID_TRAIN_CLIPPING_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "train/clipping.h"
#include "train/kernels-inl.h"
#include "train/strip_pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {

// The squared norms of a strip's units, layer by layer.
class UnitNorms {
 public:
  // `ends`: where each unit of the strip ends.
  UnitNorms(const Clipping& clipping, std::span<const std::int64_t> ends)
      : clipping_(clipping), ends_(ends) {
    const V zero = hn::Zero(D());
    for (std::int64_t r = 0; r < kStrip; ++r) {
      StoreAt(zero, own_, r);
      StoreAt(zero, cross_, r);
      StoreAt(zero, filters_, r);
      StoreAt(zero, largest_, r);
    }
  }

  template <bool kShared>
  void AddDense(const float* in, std::span<const std::int32_t> taps, const float* delta,
                std::span<const std::int32_t> filters) {
    const V one = hn::Set(D(), 1.0f);
    std::int64_t first = 0;
    for (std::size_t s = 0; s < ends_.size(); ++s) {
      for (std::int64_t r = first; r < ends_[s]; ++r) {
        const V inputs = hn::Add(Dot<kShared>(in, taps, r, r), one);
        const V product = hn::Mul(Dot<false>(delta, filters, r, r), inputs);
        StoreAt(hn::Add(LoadAt(own_, r), product), own_, r);
        StoreAt(LargerOf(LoadAt(largest_, r), inputs), largest_, r);
        for (std::int64_t other = first; other < r; ++other) {
          const V twice =
              hn::Mul(hn::Set(D(), 2.0f), hn::Mul(Dot<false>(delta, filters, other, r),
                                                  hn::Add(Dot<kShared>(in, taps, other, r), one)));
          const auto at = static_cast<std::int64_t>(s);
          StoreAt(hn::Add(LoadAt(cross_, at), twice), cross_, at);
        }
      }
      first = ends_[s];
    }
  }

  // The gradient of a convolution's parameters, of one unit.
  void AddFilters(std::size_t unit, const float* gradient, std::int64_t count) {
    V sum = hn::Zero(D());
    for (std::int64_t i = 0; i < count; ++i) {
      const V g = LoadAt(gradient, i);
      sum = Fma(g, g, sum);
    }
    const auto at = static_cast<std::int64_t>(unit);
    StoreAt(hn::Add(LoadAt(filters_, at), sum), filters_, at);
  }

  struct Clipped {
    V scale;  // 0 where not finite
    hn::Mask<D> finite;
  };
  // min(1, C / norm). A unit of several rows is also held to kMaxRowsPerUnit C in the sum of its
  // rows' norms, so that nothing it adds on the way leaves the grid.
  Clipped Factor(std::size_t unit) const {
    const D d;
    const V most = hn::Set(d, kMaxSquaredNorm), one = hn::Set(d, 1.0f);
    const V clip = hn::Set(d, clipping_.clip);
    const std::int64_t first = unit == 0 ? 0 : ends_[unit - 1], end = ends_[unit];
    const auto at = static_cast<std::int64_t>(unit);
    V squared = hn::Zero(d), sum = hn::Zero(d);
    auto finite = hn::FirstN(d, L);
    for (std::int64_t r = first; r < end; ++r) {
      const V own = LoadAt(own_, r);
      squared = hn::Add(squared, own);
      sum = hn::Add(sum, hn::Sqrt(own));
      finite = hn::And(finite, hn::Le(LoadAt(largest_, r), most));
    }
    if (end - first > 1) {
      squared = hn::Add(squared, LoadAt(cross_, at));
      squared = hn::IfThenElseZero(hn::Gt(squared, hn::Zero(d)), squared);
      squared = Fma(hn::Mul(sum, sum), hn::Set(d, clipping_.unit_slack), squared);
    }
    squared = hn::Add(squared, LoadAt(filters_, at));
    finite = hn::And(finite, hn::Le(squared, hn::Set(d, std::numeric_limits<float>::max())));
    V scale = SmallerOf(one, hn::Div(clip, hn::Sqrt(squared)));
    if (end - first > 1) {
      scale = SmallerOf(scale, hn::Div(hn::Mul(hn::Set(d, kMaxRowsPerUnit), clip), sum));
    }
    return {hn::IfThenElseZero(finite, scale), finite};
  }

 private:
  template <bool kShared>
  static HWY_INLINE V Dot(const float* values, std::span<const std::int32_t> items, std::int64_t r,
                          std::int64_t s) {
    V sum = hn::Zero(D());
    for (const std::int32_t i : items) {
      sum = Fma(ReadInput<kShared>(values, i * kStrip + r),
                ReadInput<kShared>(values, i * kStrip + s), sum);
    }
    return sum;
  }

  const Clipping& clipping_;
  std::span<const std::int64_t> ends_;
  // Per row: the squared norm over dense layers, the largest |h|^2 + 1. Per unit: twice the inner
  // products of different rows, the squared norm over convolutions.
  alignas(64) float own_[kStrip * L], largest_[kStrip * L], cross_[kStrip * L],
      filters_[kStrip * L];
};

// The sum of clipped gradients of a step, in integers of the grid (train/clipping.h). While rows
// are added, a sum stands partly in floats (`gradients`, around the grid's offset, where every
// addition is exact) and partly in integers.
class ClippedSums {
 public:
  // `gradients` are the group's, one vector per parameter. Requires: plan.clipping().
  ClippedSums(const TrainPlan& plan, StripPass& pass, float* gradients, Arena& arena)
      : plan_(plan), clipping_(*plan.clipping()), pass_(pass), gradients_(gradients) {
    const std::int64_t parameters = plan.architecture().parameters();
    integers_ = reinterpret_cast<std::int32_t*>(TakeVectors(arena, parameters));
    for (std::size_t l = 0; l < pass.layers(); ++l) {
      alone_.push_back(pass.layer(l));
      Layer& shape = alone_.back().shape;
      shape.weight_at = 0;
      shape.bias_at = shape.filters * shape.taps;
      filters_.push_back(pass.IsDense(l)
                             ? nullptr
                             : TakeVectors(arena, kStrip * shape.filters * (shape.taps + 1)));
    }
    const V offset = hn::Set(D(), clipping_.offset);
    for (std::int64_t i = 0; i < parameters; ++i) StoreAt(offset, gradients_, i);
  }

  // How many vectors the constructor takes from the arena.
  static std::int64_t VectorsOf(const TrainPlan& plan) {
    std::int64_t vectors = plan.architecture().parameters();
    for (const Layer& layer : plan.architecture().layers()) {
      if (layer.kind == HiddenLayer::Kind::kDense) continue;
      vectors += kStrip * layer.filters * (layer.taps + 1);
    }
    return vectors;
  }

  // Adds the clipped gradients of the units of these rows.
  void Add(std::span<const std::int32_t> rows) {
    const V one = hn::Set(D(), 1.0f);
    std::int64_t used = 0;
    for (std::size_t at = 0; at < rows.size();) {
      const auto strip = WholeUnits(rows.subspan(at));
      at += strip.size();
      pass_.Prefetch(rows.subspan(at));
      // A unit of several rows may be as large as kMaxRowsPerUnit clipped rows while it is summed.
      const bool single = segments_.size() == strip.size();
      const auto cost =
          static_cast<std::int64_t>(single ? strip.size() : segments_.size() * kMaxRowsPerUnit);
      if (used + cost > clipping_.room) {
        MoveToIntegers();
        used = 0;
      }
      used += cost;
      pass_.Predict(strip);
      pass_.OutputGradient(strip, one);
      for (std::size_t l = pass_.layers(); l-- > 1;) pass_.InputGradientOf(l);
      Clip();
      for (std::size_t l = pass_.layers(); l-- > 0;) {
        if (pass_.IsDense(l)) {
          pass_.WeightGradientOf(l, gradients_);
        } else {
          AddFilters(l);
        }
      }
    }
  }

  // The sum of parameter i, in grid units.
  HWY_INLINE hn::Vec<DI> Sum(std::int64_t i) const {
    return hn::Add(hn::Load(DI(), integers_ + i * L), WholePart(i));
  }

  // The sums, with noise if there is any, become the gradients of the step; the integers are 0
  // then.
  void Collect(std::span<const std::int32_t> noise) {
    const D d;
    const DI di;
    const V scale = hn::Set(d, clipping_.scale);
    for (std::int64_t i = 0; i < plan_.architecture().parameters(); ++i) {
      auto sum = Sum(i);
      if (!noise.empty()) sum = hn::Add(sum, hn::Set(di, noise[static_cast<std::size_t>(i)]));
      StoreAt(hn::Mul(hn::ConvertTo(d, sum), scale), gradients_, i);
      hn::Store(hn::Zero(di), di, integers_ + i * L);
    }
  }

 private:
  // Takes as many of the rows as fit into a strip without cutting a unit; `segments_` gets where
  // each unit ends. Requires: no unit is larger than a strip.
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

  // Scales the gradients of each unit of the strip to a norm of at most C: those of dense layers
  // through their deltas, those of convolutions in `factors_` when they are added.
  void Clip() {
    UnitNorms norms(clipping_, segments_);
    for (std::size_t l = 0; l < pass_.layers(); ++l) {
      if (!pass_.IsDense(l)) {
        NormsOfFilters(l, norms);
      } else if (pass_.IsShared(l)) {
        norms.AddDense<true>(pass_.InputOf(l), pass_.TapsOf(l), pass_.DeltaOf(l),
                             pass_.FiltersOf(l));
      } else {
        norms.AddDense<false>(pass_.InputOf(l), pass_.TapsOf(l), pass_.DeltaOf(l),
                              pass_.FiltersOf(l));
      }
    }
    std::int64_t r = 0;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      const auto factor = norms.Factor(s);
      StoreAt(factor.scale, factors_, static_cast<std::int64_t>(s));
      const auto gone = hn::Not(factor.finite);
      for (; r < segments_[s]; ++r) {
        if (!hn::AllFalse(D(), gone)) pass_.ZeroHidden(r, gone);
        for (std::size_t l = 0; l < pass_.layers(); ++l) {
          if (!pass_.IsDense(l)) continue;
          float* const delta = pass_.DeltaOf(l);
          for (const std::int32_t j : pass_.FiltersOf(l)) {
            const V scaled = hn::Mul(LoadAt(delta, j * kStrip + r), factor.scale);
            StoreAt(hn::IfThenElseZero(factor.finite, scaled), delta, j * kStrip + r);
          }
        }
      }
    }
  }

  void NormsOfFilters(std::size_t l, UnitNorms& norms) {
    const Layer& shape = pass_.layer(l).shape;
    const std::int64_t parameters = shape.filters * (shape.taps + 1);
    std::int64_t first = 0;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      float* const out = FiltersOfUnit(l, s);
      std::fill_n(out, parameters * L, 0.0f);
      if (pass_.IsShared(l)) FilterGradientAs<true>(l, first, segments_[s], out);
      if (!pass_.IsShared(l)) FilterGradientAs<false>(l, first, segments_[s], out);
      norms.AddFilters(s, out, parameters);
      first = segments_[s];
    }
  }

  // The gradient of rows first .. end - 1 alone, weights and then biases.
  template <bool kShared>
  void FilterGradientAs(std::size_t l, std::int64_t first, std::int64_t end, float* out) {
    WeightGradient<kShared, false>{alone_[l],
                                   pass_.InputOf(l) + first * (kShared ? 1 : L),
                                   pass_.DeltaOf(l) + first * L,
                                   pass_.TapsOf(l),
                                   pass_.FiltersOf(l),
                                   out,
                                   end - first}
        .Run();
  }

  float* FiltersOfUnit(std::size_t l, std::size_t unit) const {
    const Layer& shape = pass_.layer(l).shape;
    return filters_[l] + static_cast<std::int64_t>(unit) * shape.filters * (shape.taps + 1) * L;
  }

  void AddFilters(std::size_t l) {
    const Layer& shape = pass_.layer(l).shape;
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
    const V inverse = hn::Set(d, 1.0f / clipping_.grid);
    const V offset = hn::Set(d, clipping_.offset);
    return hn::ConvertTo(DI(), hn::Mul(hn::Sub(LoadAt(gradients_, i), offset), inverse));
  }

  void MoveToIntegers() {
    const D d;
    const DI di;
    const V grid = hn::Set(d, clipping_.grid);
    const V offset = hn::Set(d, clipping_.offset);
    const auto one = hn::Set(di, 1);
    for (std::int64_t i = 0; i < plan_.architecture().parameters(); ++i) {
      const auto k = WholePart(i);
      const auto parity = hn::And(k, one);
      hn::Store(hn::Add(hn::Load(di, integers_ + i * L), hn::Sub(k, parity)), di,
                integers_ + i * L);
      StoreAt(Fma(hn::ConvertTo(d, parity), grid, offset), gradients_, i);
    }
  }

  const TrainPlan& plan_;
  const Clipping& clipping_;
  StripPass& pass_;
  float* gradients_;
  std::int32_t* integers_ = nullptr;    // what was moved out of `gradients_`, in grid units
  std::vector<LayerState> alone_;       // the layers with their parameters at 0
  std::vector<float*> filters_;         // per convolution: [unit of the strip][parameter]
  std::vector<std::int64_t> segments_;  // where each unit of the strip ends
  alignas(64) float factors_[kStrip * L] = {};
};

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#endif  // toggle
