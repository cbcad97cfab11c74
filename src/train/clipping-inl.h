// Norms of the gradients of units, one network per lane. Included once per instruction set like
// kernels-inl.h.
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

#include <limits>

#include "train/clipping.h"
#include "train/kernels-inl.h"

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

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#endif  // toggle
