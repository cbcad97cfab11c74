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
HWY_INLINE std::int64_t Tap(const LayerState& layer, std::int64_t k) {
  if constexpr (kDense) {
    return k;
  } else {
    return layer.offsets[k];
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

// out[j, t] = relu(bias[j] + sum_k weight[j, k] in[t * stride + tap k]) over the taps in `taps`.
template <bool kShared, bool kDense>
struct Forward {
  const LayerState& layer;
  const float* parameters;
  const float* in;
  std::span<const std::int32_t> taps;
  float* out;
  std::int64_t rows;  // a multiple of kInner

  template <int J>
  HWY_INLINE void Block(std::int64_t j0, std::int64_t t) const {
    const Layer& shape = layer.shape;
    const float* weights = parameters + (shape.weight_at + j0 * shape.taps) * L;
    const float* place = in + t * shape.stride * kStrip * (kShared ? 1 : L);
    const V zero = hn::Zero(D());
    for (std::int64_t r0 = 0; r0 < rows; r0 += kInner) {
      V sum[J][kInner];
      for (int j = 0; j < J; ++j) {
        const V bias = LoadAt(parameters, shape.bias_at + j0 + j);
        for (int r = 0; r < kInner; ++r) sum[j][r] = bias;
      }
      for (const std::int64_t k : taps) {
        V w[J];
        for (int j = 0; j < J; ++j) w[j] = LoadAt(weights, j * shape.taps + k);
        for (int r = 0; r < kInner; ++r) {
          const V h = ReadInput<kShared>(place, Tap<kDense>(layer, k) * kStrip + r0 + r);
          for (int j = 0; j < J; ++j) sum[j][r] = Fma(w[j], h, sum[j][r]);
        }
      }
      for (int j = 0; j < J; ++j) {
        float* unit = out + ((j0 + j) * shape.positions + t) * kStrip * L;
        for (int r = 0; r < kInner; ++r) {
          StoreAt(shape.relu ? hn::Max(sum[j][r], zero) : sum[j][r], unit, r0 + r);
        }
      }
    }
  }
  void Run() const {
    for (std::int64_t t = 0; t < layer.shape.positions; ++t) {
      ForBlocks<kOuter>(layer.shape.filters, *this, t);
    }
  }
};

// gradient[j, k] += sum over rows, then positions, of delta[j, t] in[t * stride + tap k], for the
// filters and taps listed.
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
    const WeightGradient& owner;
    std::int64_t first;  // in the list of filters

    template <int K>
    HWY_INLINE void Block(std::int64_t k0) const {
      const Layer& shape = owner.layer.shape;
      constexpr std::int64_t kIn = kShared ? 1 : L;
      const std::int64_t positions = kDense ? 1 : shape.positions;
      const float *d_of[J], *h_of[K];
      float* gradient_of[J];
      std::int64_t taps[K];
      for (int j = 0; j < J; ++j) {
        const std::int64_t filter = owner.filters[first + j];
        d_of[j] = owner.delta + filter * positions * kStrip * L;
        gradient_of[j] = owner.gradients + (shape.weight_at + filter * shape.taps) * L;
      }
      for (int k = 0; k < K; ++k) {
        taps[k] = owner.taps[k0 + k];
        h_of[k] = owner.in + Tap<kDense>(owner.layer, taps[k]) * kStrip * kIn;
      }
      V sum[J][K];
      for (int j = 0; j < J; ++j) {
        for (int k = 0; k < K; ++k) sum[j][k] = LoadAt(gradient_of[j], taps[k]);
      }
      for (std::int64_t r = 0; r < owner.rows; ++r) {
        for (std::int64_t t = 0; t < positions; ++t) {
          V d[J];
          for (int j = 0; j < J; ++j) d[j] = LoadAt(d_of[j], t * kStrip + r);
          for (int k = 0; k < K; ++k) {
            const V h = ReadInput<kShared>(h_of[k], t * shape.stride * kStrip + r);
            for (int j = 0; j < J; ++j) sum[j][k] = Fma(d[j], h, sum[j][k]);
          }
        }
      }
      for (int j = 0; j < J; ++j) {
        for (int k = 0; k < K; ++k) StoreAt(sum[j][k], gradient_of[j], taps[k]);
      }
    }
  };
  template <int J>
  HWY_INLINE void Block(std::int64_t first) const {
    ForBlocks<kInner>(static_cast<std::int64_t>(taps.size()), Filters<J>{*this, first});
  }
  void Run() const {
    ForBlocks<kOuter>(static_cast<std::int64_t>(filters.size()), *this);
    const Layer& shape = layer.shape;
    for (const std::int64_t j : filters) {
      V sum = LoadAt(gradients, shape.bias_at + j);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t t = 0; t < shape.positions; ++t) {
          sum = hn::Add(sum, LoadAt(delta, (j * shape.positions + t) * kStrip + r));
        }
      }
      StoreAt(sum, gradients, shape.bias_at + j);
    }
  }
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
    const float* weight_of[K];
    for (int k = 0; k < K; ++k) weight_of[k] = parameters + (shape.weight_at + taps[first + k]) * L;
    for (std::int64_t r0 = 0; r0 < rows; r0 += kInner) {
      V sum[K][kInner];
      for (int k = 0; k < K; ++k) {
        for (int r = 0; r < kInner; ++r) sum[k][r] = zero;
      }
      for (const std::int64_t j : filters) {
        V w[K];
        for (int k = 0; k < K; ++k) w[k] = LoadAt(weight_of[k], j * shape.taps);
        const float* unit = delta + (kDense ? j : j * shape.positions + t) * kStrip * L;
        for (int r = 0; r < kInner; ++r) {
          const V d = LoadAt(unit, r0 + r);
          for (int k = 0; k < K; ++k) sum[k][r] = Fma(w[k], d, sum[k][r]);
        }
      }
      for (int k = 0; k < K; ++k) {
        const std::int64_t input = t * shape.stride + Tap<kDense>(layer, taps[first + k]);
        for (int r = 0; r < kInner; ++r) {
          const std::int64_t at = input * kStrip + r0 + r;
          if constexpr (kDense) {
            const auto on = hn::Gt(LoadAt(in, at), zero);
            StoreAt(hn::IfThenElseZero(on, sum[k][r]), below, at);
          } else {
            StoreAt(hn::Add(LoadAt(below, at), sum[k][r]), below, at);
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

// The units that are not zero in some lane of some row. Requires: values >= 0 (after a ReLU).
inline void ListActive(const float* units, std::int64_t count, std::int64_t rows,
                       std::vector<std::int32_t>& active) {
  const V zero = hn::Zero(D());
  active.resize(static_cast<std::size_t>(count));
  std::size_t size = 0;
  for (std::int64_t j = 0; j < count; ++j) {
    V top = LoadAt(units, j * kStrip);
    for (std::int64_t r = 1; r < rows; ++r) top = hn::Max(top, LoadAt(units, j * kStrip + r));
    // Written first and kept or not afterwards: which units are active is not predictable.
    active[size] = static_cast<std::int32_t>(j);
    size += !hn::AllTrue(D(), hn::Eq(top, zero));
  }
  active.resize(size);
}

// e^x for x <= 0, within 2 ulp; below -87 it stays at e^-87. Reduction by ln 2 in two parts, a
// polynomial of degree 6 (Cephes' expf coefficients), 2^n through the exponent bits.
HWY_INLINE V ExpOfNegative(V x) {
  const D d;
  const V magic = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  x = hn::Max(x, hn::Set(d, -87.0f));
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
// loss.
HWY_INLINE void SoftmaxGradient(float* logits, std::int64_t classes, std::int32_t label, V weight) {
  const D d;
  V top = LoadAt(logits, 0);
  for (std::int64_t c = 1; c < classes; ++c) top = hn::Max(top, LoadAt(logits, c * kStrip));
  V total = hn::Zero(d);
  for (std::int64_t c = 0; c < classes; ++c) {
    const V e = ExpOfNegative(hn::Sub(LoadAt(logits, c * kStrip), top));
    StoreAt(e, logits, c * kStrip);
    total = hn::Add(total, e);
  }
  for (std::int64_t c = 0; c < classes; ++c) {
    V p = hn::Div(LoadAt(logits, c * kStrip), total);
    if (c == label) p = hn::Sub(p, hn::Set(d, 1.0f));
    StoreAt(hn::Mul(p, weight), logits, c * kStrip);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#endif  // toggle
