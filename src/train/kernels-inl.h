// The arithmetic of training, one network per lane. Included once per instruction set by
// group_trainer.cc (Highway's foreach_target), hence no ordinary include guard.
//
// Layout: a parameter or gradient of all networks of a group is one vector (index i below means the
// vector at i * L). Rows go through the network in strips of kStrip; the values of one unit for the
// rows of a strip lie side by side: [unit][row].
//
// Order: every sum runs in one fixed order - over taps k in a layer's output, over filters j in its
// input gradient, over rows then positions in its weight gradient - whatever the blocking, so block
// sizes are free to follow the machine.
//
// Zeros: the networks of a group are siblings and their neurons are active together, so about half
// of the neurons are zero in all rows of a strip and in all lanes at once. Sums skip those terms:
// adding 0 * w changes no value (it could only turn -0 into +0, which no later step can see).

#if defined(LUCID_TRAIN_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LUCID_TRAIN_KERNELS_INL_H_
#undef LUCID_TRAIN_KERNELS_INL_H_
#else
#define LUCID_TRAIN_KERNELS_INL_H_
#endif

#include <hwy/highway.h>

#include "numeric/portable_fma.h"
#include "train/group_state.h"

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
constexpr std::int64_t L = hn::MaxLanes(D());

// Accumulators of a block: kOuter x kInner of them and kOuter operands live in registers (16 on
// AVX2, 32 on AVX-512), for at most kOuter + kInner loads per kOuter * kInner multiply-adds.
constexpr int kInner = 4;
#if HWY_TARGET <= HWY_AVX3
constexpr int kOuter = 6;
#else
constexpr int kOuter = 3;
#endif
static_assert(kStrip % kInner == 0);

HWY_INLINE V Fma(V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  alignas(64) float x[L], y[L], z[L];
  const D d;
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (std::int64_t i = 0; i < L; ++i) z[i] = PortableFma(x[i], y[i], z[i]);
  return hn::Load(d, z);
#endif
}

HWY_INLINE V LoadAt(const float* base, std::int64_t index) {
  return hn::Load(D(), base + index * L);
}
HWY_INLINE void StoreAt(V v, float* base, std::int64_t index) {
  hn::Store(v, D(), base + index * L);
}

// 0 where v is not a number, too. hn::Max treats that as the machine likes, and the list of active
// units must not depend on which rows share a strip.
HWY_INLINE V Relu(V v) { return hn::IfThenElseZero(hn::Gt(v, hn::Zero(D())), v); }
// The larger and the smaller one; not a number stays what it is in `a`.
HWY_INLINE V LargerOf(V a, V b) { return hn::IfThenElse(hn::Lt(a, b), b, a); }
HWY_INLINE V SmallerOf(V a, V b) { return hn::IfThenElse(hn::Lt(b, a), b, a); }

// What a layer reads: the data, shared by all networks (one float, broadcast), or the layer below.
template <bool kShared>
HWY_INLINE V ReadInput(const float* in, std::int64_t index) {
  if constexpr (kShared) {
    return hn::Set(D(), in[index]);
  } else {
    return LoadAt(in, index);
  }
}

template <bool kDense>
HWY_INLINE std::int64_t Tap(const std::int32_t* offsets, std::int64_t k) {
  if constexpr (kDense) {
    return k;
  } else {
    return offsets[k];
  }
}

// Calls f.template Block<B>(i0, arguments...) for blocks [i0, i0 + B) that cover [0, count): as
// many as possible of kMax, then one smaller.
template <int kMax, typename F, typename... Arguments>
HWY_INLINE void RestBlock(std::int64_t i0, std::int64_t rest, const F& f, Arguments... arguments) {
  if constexpr (kMax > 0) {
    if (rest == kMax) {
      f.template Block<kMax>(i0, arguments...);
    } else {
      RestBlock<kMax - 1>(i0, rest, f, arguments...);
    }
  }
}
template <int kMax, typename F, typename... Arguments>
HWY_INLINE void ForBlocks(std::int64_t count, const F& f, Arguments... arguments) {
  std::int64_t i = 0;
  for (; i + kMax <= count; i += kMax) f.template Block<kMax>(i, arguments...);
  RestBlock<kMax - 1>(i, count - i, f, arguments...);
}

// A list of units or features that are not zero in some row and lane, in rising order.
struct ActiveList {
  std::vector<std::int32_t> items;  // of which the first `size` count
  std::size_t size = 0;

  // Written first and kept or not afterwards: which ones are active is not predictable.
  HWY_INLINE void Offer(std::int64_t item, bool active) {
    items[size] = static_cast<std::int32_t>(item);
    size += active;
  }
  std::span<const std::int32_t> span() const { return {items.data(), size}; }
};

// The blocks below copy what their loops need into locals: read through `this`, it would be read
// again after every store.

// out[j, t] = relu(bias[j] + sum_k weight[j, k] in[t * stride + tap k]) over the taps in `taps`,
// and the list of the units that are active. Without kRelu, as in the last layer, the sums are left
// as they are and nothing is listed. (A choice in the loop, instead of two kernels, took a fifth of
// the time of small layers.)
template <bool kShared, bool kDense, bool kRelu>
struct Forward {
  const LayerState& layer;
  const float* parameters;
  const float* in;
  std::span<const std::int32_t> taps;
  float* out;
  std::int64_t rows;  // a multiple of kInner
  ActiveList& active;

  template <int J>
  HWY_INLINE void Block(std::int64_t j0, std::int64_t t) const {
    const D d;
    constexpr std::int64_t kIn = kShared ? 1 : L;
    const Layer& shape = layer.shape;
    const std::int32_t* const offsets = layer.offsets.data();
    const std::int32_t* const first = taps.data();
    const std::int32_t* const last = first + taps.size();
    const float* const place = in + t * shape.stride * kStrip * kIn;
    const std::int64_t end = rows, positions = shape.positions;
    const float* const bias_of = parameters + (shape.bias_at + j0) * L;
    const float* weights_of[J];
    float* const unit = out + (j0 * positions + t) * kStrip * L;
    V top[J];
    for (int j = 0; j < J; ++j) {
      weights_of[j] = parameters + (shape.weight_at + (j0 + j) * shape.taps) * L;
      top[j] = hn::Zero(d);
    }
    for (std::int64_t r0 = 0; r0 < end; r0 += kInner) {
      V sum[J][kInner];
      for (int j = 0; j < J; ++j) {
        const V bias = LoadAt(bias_of, j);
        for (int r = 0; r < kInner; ++r) sum[j][r] = bias;
      }
      const float* const block = place + r0 * kIn;
      for (const std::int32_t* tap = first; tap != last; ++tap) {
        const std::int64_t k = *tap;
        V w[J];
        for (int j = 0; j < J; ++j) w[j] = LoadAt(weights_of[j], k);
        const float* const values = block + Tap<kDense>(offsets, k) * kStrip * kIn;
        for (int r = 0; r < kInner; ++r) {
          const V h = ReadInput<kShared>(values, r);
          for (int j = 0; j < J; ++j) sum[j][r] = Fma(w[j], h, sum[j][r]);
        }
      }
      for (int j = 0; j < J; ++j) {
        for (int r = 0; r < kInner; ++r) {
          const V value = kRelu ? Relu(sum[j][r]) : sum[j][r];
          if constexpr (kRelu) top[j] = hn::Or(top[j], value);
          StoreAt(value, unit, j * positions * kStrip + r0 + r);
        }
      }
    }
    if constexpr (kDense && kRelu) {
      for (int j = 0; j < J; ++j) {
        // Values are 0 or positive: some bit is set unless all are 0.
        active.Offer(j0 + j, !hn::AllTrue(d, hn::Eq(top[j], hn::Zero(d))));
      }
    }
  }
  void Run() const {
    active.size = 0;
    for (std::int64_t t = 0; t < layer.shape.positions; ++t) {
      ForBlocks<kOuter>(layer.shape.filters, *this, t);
    }
    if constexpr (!kDense && kRelu) ListActive();
  }
  void ListActive() const {
    const D d;
    for (std::int64_t i = 0; i < layer.shape.outputs; ++i) {
      V top = hn::Zero(d);
      for (std::int64_t r = 0; r < rows; ++r) top = hn::Max(top, LoadAt(out, i * kStrip + r));
      active.Offer(i, !hn::AllTrue(d, hn::Eq(top, hn::Zero(d))));
    }
  }
};

// gradient[j, k] += sum over rows, then positions, of delta[j, t] in[t * stride + tap k], and
// gradient of bias[j] += that of delta[j, t], for the filters and taps listed.
template <bool kShared, bool kDense>
struct WeightGradient {
  const LayerState& layer;
  const float* in;
  const float* delta;
  std::span<const std::int32_t> taps, filters;
  float* gradients;
  std::int64_t rows;

  template <int J>
  struct Filters {
    const std::int32_t* taps;
    const std::int32_t* offsets;
    const float* in;
    std::int64_t rows, positions, stride;
    const float* d_of[J];
    float* gradient_of[J];

    template <int K>
    HWY_INLINE void Block(std::int64_t k0) const {
      constexpr std::int64_t kIn = kShared ? 1 : L;
      const float* h_of[K];
      std::int64_t tap[K];
      V sum[J][K];
      for (int k = 0; k < K; ++k) {
        tap[k] = taps[k0 + k];
        h_of[k] = in + Tap<kDense>(offsets, tap[k]) * kStrip * kIn;
        for (int j = 0; j < J; ++j) sum[j][k] = LoadAt(gradient_of[j], tap[k]);
      }
      const auto add = [&](std::int64_t d_at, std::int64_t h_at) HWY_ATTR {
        V d[J];
        for (int j = 0; j < J; ++j) d[j] = LoadAt(d_of[j], d_at);
        for (int k = 0; k < K; ++k) {
          const V h = ReadInput<kShared>(h_of[k], h_at);
          for (int j = 0; j < J; ++j) sum[j][k] = Fma(d[j], h, sum[j][k]);
        }
      };
      if constexpr (kDense) {
        for (std::int64_t r0 = 0; r0 < rows; r0 += kInner) {
          for (int r = 0; r < kInner; ++r) add(r0 + r, r0 + r);
        }
      } else {
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t t = 0; t < positions; ++t) add(t * kStrip + r, t * stride * kStrip + r);
        }
      }
      for (int j = 0; j < J; ++j) {
        for (int k = 0; k < K; ++k) StoreAt(sum[j][k], gradient_of[j], tap[k]);
      }
    }
  };
  template <int J>
  HWY_INLINE void Block(std::int64_t first) const {
    const Layer& shape = layer.shape;
    Filters<J> block{taps.data(),     layer.offsets.data(), in, rows,
                     shape.positions, shape.stride,         {}, {}};
    float* bias_of[J];
    V sum[J];
    for (int j = 0; j < J; ++j) {
      const std::int64_t filter = filters[first + j];
      block.d_of[j] = delta + filter * shape.positions * kStrip * L;
      block.gradient_of[j] = gradients + (shape.weight_at + filter * shape.taps) * L;
      bias_of[j] = gradients + (shape.bias_at + filter) * L;
      sum[j] = LoadAt(bias_of[j], 0);
    }
    for (std::int64_t r = 0; r < block.rows; ++r) {
      for (std::int64_t t = 0; t < block.positions; ++t) {
        for (int j = 0; j < J; ++j) sum[j] = hn::Add(sum[j], LoadAt(block.d_of[j], t * kStrip + r));
      }
    }
    for (int j = 0; j < J; ++j) StoreAt(sum[j], bias_of[j], 0);
    ForBlocks<kInner>(static_cast<std::int64_t>(taps.size()), block);
  }
  void Run() const { ForBlocks<kOuter>(static_cast<std::int64_t>(filters.size()), *this); }
};

// below[tap k at t] (+)= sum_j weight[j, k] delta[j, t] over the filters listed, for the taps
// listed, 0 where the layer below was not active. A dense layer writes each input once (those not
// listed are read by nobody); a convolution adds its positions in order.
template <bool kDense>
struct InputGradient {
  const LayerState& layer;
  const float* parameters;
  const float* delta;
  std::span<const std::int32_t> taps, filters;
  const float* in;
  float* below;
  std::int64_t rows;

  template <int K>
  HWY_INLINE void Block(std::int64_t first, std::int64_t t) const {
    const Layer& shape = layer.shape;
    const V zero = hn::Zero(D());
    const std::int32_t* const first_filter = filters.data();
    const std::int32_t* const last_filter = first_filter + filters.size();
    const std::int64_t end = rows, row_of_weights = shape.taps;
    const std::int64_t positions = kDense ? 1 : shape.positions;
    const float *weight_of[K], *in_of[K];
    float* below_of[K];
    for (int k = 0; k < K; ++k) {
      const std::int64_t tap = taps[first + k];
      const std::int64_t input = t * shape.stride + Tap<kDense>(layer.offsets.data(), tap);
      weight_of[k] = parameters + (shape.weight_at + tap) * L;
      in_of[k] = in + input * kStrip * L;
      below_of[k] = below + input * kStrip * L;
    }
    for (std::int64_t r0 = 0; r0 < end; r0 += kInner) {
      const float* const block = delta + (t * kStrip + r0) * L;
      V sum[K][kInner];
      for (int k = 0; k < K; ++k) {
        for (int r = 0; r < kInner; ++r) sum[k][r] = zero;
      }
      for (const std::int32_t* filter = first_filter; filter != last_filter; ++filter) {
        const std::int64_t j = *filter;
        V w[K];
        for (int k = 0; k < K; ++k) w[k] = LoadAt(weight_of[k], j * row_of_weights);
        const float* const unit = block + j * positions * kStrip * L;
        for (int r = 0; r < kInner; ++r) {
          const V d = LoadAt(unit, r);
          for (int k = 0; k < K; ++k) sum[k][r] = Fma(w[k], d, sum[k][r]);
        }
      }
      for (int k = 0; k < K; ++k) {
        for (int r = 0; r < kInner; ++r) {
          if constexpr (kDense) {
            const auto on = hn::Gt(LoadAt(in_of[k], r0 + r), zero);
            StoreAt(hn::IfThenElseZero(on, sum[k][r]), below_of[k], r0 + r);
          } else {
            StoreAt(hn::Add(LoadAt(below_of[k], r0 + r), sum[k][r]), below_of[k], r0 + r);
          }
        }
      }
    }
  }
  void Run() const {
    const Layer& shape = layer.shape;
    const V zero = hn::Zero(D());
    if constexpr (!kDense) {
      for (std::int64_t i = 0; i < shape.inputs * kStrip; ++i) StoreAt(zero, below, i);
    }
    // Positions outside, blocks inside: the order of a convolution's sums may not depend on blocks.
    for (std::int64_t t = 0; t < shape.positions; ++t) {
      ForBlocks<kOuter>(static_cast<std::int64_t>(taps.size()), *this, t);
    }
    if constexpr (!kDense) {
      for (std::int64_t i = 0; i < shape.inputs * kStrip; ++i) {
        const auto on = hn::Gt(LoadAt(in, i), zero);
        StoreAt(hn::IfThenElseZero(on, LoadAt(below, i)), below, i);
      }
    }
  }
};

// e^x for x <= 0, within 2 ulp; below -87 it stays at e^-87. Reduction by ln 2 in two parts, a
// polynomial of degree 6 (Cephes' expf coefficients), 2^n through the exponent bits.
HWY_INLINE V ExpOfNegative(V x) {
  const D d;
  const V magic = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  x = LargerOf(x, hn::Set(d, -87.0f));
  const V shifted = Fma(x, hn::Set(d, 1.44269504088896341f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = Fma(n, hn::Set(d, -0.693359375f), x);
  r = Fma(n, hn::Set(d, 2.12194440e-4f), r);
  V p = hn::Set(d, 1.9875691500e-4f);
  p = Fma(p, r, hn::Set(d, 1.3981999507e-3f));
  p = Fma(p, r, hn::Set(d, 8.3334519073e-3f));
  p = Fma(p, r, hn::Set(d, 4.1665795894e-2f));
  p = Fma(p, r, hn::Set(d, 1.6666665459e-1f));
  p = Fma(p, r, hn::Set(d, 5.0000001201e-1f));
  p = Fma(p, hn::Mul(r, r), r);
  p = hn::Add(p, hn::Set(d, 1.0f));
  const DI di;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
}

// logits[c] of one row <- (softmax_c - [c is the label]) * weight: the gradient of the batch's mean
// loss. 0 in the lanes that leave the row out.
HWY_INLINE void SoftmaxGradient(float* logits, std::int64_t classes, std::int32_t label, V weight,
                                hn::Mask<D> left_out) {
  const D d;
  V top = LoadAt(logits, 0);
  for (std::int64_t c = 1; c < classes; ++c) top = LargerOf(top, LoadAt(logits, c * kStrip));
  V total = hn::Zero(d);
  for (std::int64_t c = 0; c < classes; ++c) {
    const V e = ExpOfNegative(hn::Sub(LoadAt(logits, c * kStrip), top));
    StoreAt(e, logits, c * kStrip);
    total = hn::Add(total, e);
  }
  for (std::int64_t c = 0; c < classes; ++c) {
    V p = hn::Div(LoadAt(logits, c * kStrip), total);
    if (c == label) p = hn::Sub(p, hn::Set(d, 1.0f));
    StoreAt(hn::IfThenZeroElse(left_out, hn::Mul(p, weight)), logits, c * kStrip);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#endif  // toggle
