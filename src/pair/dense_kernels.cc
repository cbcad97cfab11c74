#include "pair/dense_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pair/dense_kernels.cc"
#include "numeric/simd_targets.h"

#include <hwy/foreach_target.h>  // IWYU pragma: keep: includes this file once per instruction set

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kPad>;
using V = hn::Vec<D>;
constexpr std::int64_t L = hn::MaxLanes(D());

HWY_INLINE V Load(const double* p) { return hn::Load(D(), p); }
HWY_INLINE void Store(V v, double* p) { hn::Store(v, D(), p); }
HWY_INLINE V Zero() { return hn::Zero(D()); }

// Sums over columns go through kPad partial sums, column j into number j % kPad, whatever the width
// of a vector: kParts vectors hold them. They are added in one order, so that a sum has the same
// bits on every machine that has a fused multiply-add.
constexpr int kParts = static_cast<int>(kPad / L);
static_assert(kParts * L == kPad);

HWY_INLINE double Total(const V (&parts)[kParts]) {
  alignas(64) double s[kPad];
  for (int i = 0; i < kParts; ++i) Store(parts[i], s + i * L);
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

void AddTransposed(const double* c, const PaddedMatrix& m, std::span<const std::int32_t> rows,
                   double* out) {
  const double* base = m.values.data();
  std::int64_t j = 0;
  for (; j + 4 * L <= m.stride; j += 4 * L) {
    V s0 = Load(out + j), s1 = Load(out + j + L), s2 = Load(out + j + 2 * L),
      s3 = Load(out + j + 3 * L);
    for (const std::int32_t r : rows) {
      const V cr = hn::Set(D(), c[r]);
      const double* row = base + r * m.stride + j;
      s0 = hn::MulAdd(cr, Load(row), s0);
      s1 = hn::MulAdd(cr, Load(row + L), s1);
      s2 = hn::MulAdd(cr, Load(row + 2 * L), s2);
      s3 = hn::MulAdd(cr, Load(row + 3 * L), s3);
    }
    Store(s0, out + j);
    Store(s1, out + j + L);
    Store(s2, out + j + 2 * L);
    Store(s3, out + j + 3 * L);
  }
  for (; j < m.stride; j += L) {
    V s0 = Load(out + j);
    for (const std::int32_t r : rows) {
      s0 = hn::MulAdd(hn::Set(D(), c[r]), Load(base + r * m.stride + j), s0);
    }
    Store(s0, out + j);
  }
}

template <bool kAbsolute>
HWY_INLINE V Weight(const double* p) {
  if constexpr (kAbsolute) return hn::Abs(Load(p));
  return Load(p);
}

template <bool kAbsolute>
void AddProductOf(const PaddedMatrix& m, const double* v, double* out) {
  for (std::int64_t r = 0; r < m.rows; ++r) {
    const double* row = m.row(r);
    // Two sets of sums, so that no multiply-add waits for the one before.
    V even[kParts], odd[kParts];
    for (int i = 0; i < kParts; ++i) even[i] = odd[i] = Zero();
    std::int64_t j = 0;
    for (; j + 2 * kPad <= m.stride; j += 2 * kPad) {
      for (int i = 0; i < kParts; ++i) {
        const std::int64_t a = j + i * L, b = a + kPad;
        even[i] = hn::MulAdd(Weight<kAbsolute>(row + a), Load(v + a), even[i]);
        odd[i] = hn::MulAdd(Weight<kAbsolute>(row + b), Load(v + b), odd[i]);
      }
    }
    for (int i = 0; j < m.stride && i < kParts; ++i) {
      even[i] = hn::MulAdd(Weight<kAbsolute>(row + j + i * L), Load(v + j + i * L), even[i]);
    }
    for (int i = 0; i < kParts; ++i) even[i] = hn::Add(even[i], odd[i]);
    out[r] += Total(even);
  }
}
void AddProduct(const PaddedMatrix& m, const double* v, double* out) {
  AddProductOf<false>(m, v, out);
}
void AddAbsoluteProduct(const PaddedMatrix& m, const double* v, double* out) {
  AddProductOf<true>(m, v, out);
}

// kRows x kVectors accumulators stay in registers.
template <int kRows, int kVectors>
HWY_INLINE void Block(const PaddedMatrix& a, std::int64_t r, const PaddedMatrix& m, std::int64_t j,
                      std::span<const std::int32_t> inner, PaddedMatrix& c) {
  V sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) sums[i][v] = Load(c.row(r + i) + j + v * L);
  }
  for (const std::int32_t k : inner) {
    V row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = Load(m.row(k) + j + v * L);
    for (int i = 0; i < kRows; ++i) {
      const V x = hn::Set(D(), a.row(r + i)[k]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(x, row[v], sums[i][v]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) Store(sums[i][v], c.row(r + i) + j + v * L);
  }
}
template <int kRows>
HWY_INLINE void Rows(const PaddedMatrix& a, std::int64_t r, const PaddedMatrix& m,
                     std::span<const std::int32_t> inner, PaddedMatrix& c) {
  std::int64_t j = 0;
  for (; j + 2 * L <= m.stride; j += 2 * L) Block<kRows, 2>(a, r, m, j, inner, c);
  for (; j < m.stride; j += L) Block<kRows, 1>(a, r, m, j, inner, c);
}
void AddMatrixProduct(const PaddedMatrix& a, std::int64_t count, const PaddedMatrix& m,
                      std::span<const std::int32_t> inner, PaddedMatrix& c) {
  std::int64_t r = 0;
  for (; r + 4 <= count; r += 4) Rows<4>(a, r, m, inner, c);
  for (; r < count; ++r) Rows<1>(a, r, m, inner, c);
}

HWY_INLINE V Clamp(V x, V low, V high) { return hn::Min(hn::Max(x, low), high); }

void FindPeaks(std::int64_t count, const PairRanges& ranges, const double* cz, const double* cd,
               const double* big_a, const double* big_d, PairPeaks& peaks) {
  const V zero = Zero();
  for (std::int64_t k = 0; k < count; k += L) {
    const V l = Load(ranges.l.data() + k), u = Load(ranges.u.data() + k);
    const V a = Load(ranges.a.data() + k), b = Load(ranges.b.data() + k);
    const V sign = Load(ranges.sign.data() + k);
    const auto member_on = hn::Gt(sign, zero), member_off = hn::Lt(sign, zero);
    const V z_gain = Load(cz + k), d_gain = Load(cd + k);
    const V z_cost = Load(big_a + k), d_cost = Load(big_d + k);
    V best = hn::Set(D(), -std::numeric_limits<double>::infinity()), best_sum = l, best_diff = a;
    const auto consider = [&](V sum, V diff) HWY_ATTR {
      const V z = hn::Max(sum, zero), p = hn::Max(hn::Add(sum, diff), zero);
      V value = hn::Mul(z_gain, z);
      value = hn::MulAdd(d_gain, hn::Sub(p, z), value);
      value = hn::NegMulAdd(z_cost, sum, value);
      value = hn::NegMulAdd(d_cost, diff, value);
      const auto better = hn::Gt(value, best);
      best = hn::IfThenElse(better, value, best);
      best_sum = hn::IfThenElse(better, sum, best_sum);
      best_diff = hn::IfThenElse(better, diff, best_diff);
    };
    // The d^ that z^ = v leaves. Clamped points are points of the polygon, too.
    const auto low_of = [&](V v) HWY_ATTR {
      return hn::IfThenElse(member_on, hn::Max(a, hn::Neg(v)), a);
    };
    const auto high_of = [&](V v) HWY_ATTR {
      return hn::IfThenElse(member_off, hn::Min(b, hn::Neg(v)), b);
    };
    for (const V v : {l, u, Clamp(zero, l, u)}) {
      const V low = low_of(v), high = high_of(v);
      consider(v, low);
      consider(v, high);
      consider(v, Clamp(hn::Neg(v), low, high));
    }
    const V on_low = Clamp(hn::Neg(a), l, u), on_high = Clamp(hn::Neg(b), l, u);
    consider(on_low, low_of(on_low));
    consider(on_high, high_of(on_high));
    Store(best, peaks.value.data() + k);
    Store(best_sum, peaks.sum.data() + k);
    Store(best_diff, peaks.difference.data() + k);
  }
}

void SubstituteLines(std::int64_t count, const PairLines& lines, const double* scale,
                     PaddedMatrix& cz, PaddedMatrix& cd, double* constant, double* magnitude) {
  const V zero = Zero();
  for (std::int64_t r = 0; r < count; ++r) {
    double* z_row = cz.row(r);
    double* d_row = cd.row(r);
    V totals[kParts], sizes[kParts];
    for (int i = 0; i < kParts; ++i) totals[i] = sizes[i] = zero;
    for (std::int64_t first = 0; first < cz.stride; first += kPad) {
      for (int i = 0; i < kParts; ++i) {
        const std::int64_t k = first + i * L;
        const V z = Load(z_row + k), d = Load(d_row + k);
        const auto over = hn::Gt(d, zero);
        const auto pick = [&](const PaddedArray& upper, const PaddedArray& lower) HWY_ATTR {
          return hn::IfThenElse(over, Load(upper.data() + k), Load(lower.data() + k));
        };
        const V q = pick(lines.uq, lines.lq), p = pick(lines.up, lines.lp);
        const V through_z = pick(lines.ur, lines.lr), t = pick(lines.ut, lines.lt);
        sizes[i] = hn::MulAdd(hn::Add(hn::Abs(z), hn::Abs(d)), Load(scale + k), sizes[i]);
        const V z_all = hn::MulAdd(d, through_z, z);
        const auto z_over = hn::Gt(z_all, zero);
        const V s = hn::IfThenElse(z_over, Load(lines.su.data() + k), Load(lines.sl.data() + k));
        const V z_t = hn::IfThenElse(z_over, Load(lines.tu.data() + k), zero);
        totals[i] = hn::MulAdd(d, t, totals[i]);
        totals[i] = hn::MulAdd(z_all, z_t, totals[i]);
        Store(hn::MulAdd(z_all, s, hn::Mul(d, p)), z_row + k);
        Store(hn::Mul(d, q), d_row + k);
      }
    }
    constant[r] += Total(totals);
    magnitude[r] += Total(sizes);
  }
}

void MaximiseOverBox(const PaddedMatrix& c, std::int64_t count, const double* centre,
                     const double* radius, const double* scale, double* value, double* magnitude) {
  for (std::int64_t r = 0; r < count; ++r) {
    V totals[kParts], sizes[kParts];
    for (int i = 0; i < kParts; ++i) totals[i] = sizes[i] = Zero();
    for (std::int64_t j = 0; j < c.stride; j += kPad) {
      for (int i = 0; i < kParts; ++i) {
        const std::int64_t at = j + i * L;
        const V x = Load(c.row(r) + at), absolute = hn::Abs(x);
        totals[i] = hn::MulAdd(x, Load(centre + at), totals[i]);
        totals[i] = hn::MulAdd(absolute, Load(radius + at), totals[i]);
        sizes[i] = hn::MulAdd(absolute, Load(scale + at), sizes[i]);
      }
    }
    value[r] = Total(totals);
    magnitude[r] += Total(sizes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lucid {

void PaddedArray::Free::operator()(double* p) const { std::free(p); }

void PaddedArray::Reset(std::int64_t size) {
  constexpr std::size_t kAlignment = 64;
  const std::int64_t padded = std::max(Padded(size), kPad);
  if (padded > capacity_) {
    const auto bytes = static_cast<std::size_t>(padded) * sizeof(double);
    data_.reset(static_cast<double*>(std::aligned_alloc(kAlignment, bytes)));
    if (data_ == nullptr) throw std::bad_alloc();
    capacity_ = padded;
  }
  size_ = size;
  std::fill_n(data_.get(), padded, 0.0);
}

void PaddedMatrix::Reset(std::int64_t new_rows, std::int64_t new_columns) {
  rows = new_rows;
  columns = new_columns;
  stride = Padded(new_columns);
  values.Reset(rows * stride);
}

void PairRanges::Reset(std::int64_t size) {
  for (PaddedArray* array : {&l, &u, &a, &b, &sign}) array->Reset(size);
}
void PairPeaks::Reset(std::int64_t size) {
  for (PaddedArray* array : {&value, &sum, &difference}) array->Reset(size);
}
void PairLines::Reset(std::int64_t size) {
  for (PaddedArray* array : {&uq, &up, &ur, &ut, &lq, &lp, &lr, &lt, &su, &tu, &sl}) {
    array->Reset(size);
  }
}

HWY_EXPORT(AddTransposed);
HWY_EXPORT(AddProduct);
HWY_EXPORT(AddAbsoluteProduct);
HWY_EXPORT(AddMatrixProduct);
HWY_EXPORT(FindPeaks);
HWY_EXPORT(SubstituteLines);
HWY_EXPORT(MaximiseOverBox);

void AddTransposed(const double* c, const PaddedMatrix& m, std::span<const std::int32_t> rows,
                   double* out) {
  HWY_DYNAMIC_DISPATCH(AddTransposed)(c, m, rows, out);
}
void AddProduct(const PaddedMatrix& m, const double* v, double* out) {
  HWY_DYNAMIC_DISPATCH(AddProduct)(m, v, out);
}
void AddAbsoluteProduct(const PaddedMatrix& m, const double* v, double* out) {
  HWY_DYNAMIC_DISPATCH(AddAbsoluteProduct)(m, v, out);
}
void AddMatrixProduct(const PaddedMatrix& a, std::int64_t count, const PaddedMatrix& m,
                      std::span<const std::int32_t> inner, PaddedMatrix& c) {
  HWY_DYNAMIC_DISPATCH(AddMatrixProduct)(a, count, m, inner, c);
}
void FindPeaks(std::int64_t count, const PairRanges& ranges, const double* cz, const double* cd,
               const double* big_a, const double* big_d, PairPeaks& peaks) {
  HWY_DYNAMIC_DISPATCH(FindPeaks)(count, ranges, cz, cd, big_a, big_d, peaks);
}
void SubstituteLines(std::int64_t count, const PairLines& lines, const double* scale,
                     PaddedMatrix& cz, PaddedMatrix& cd, double* constant, double* magnitude) {
  HWY_DYNAMIC_DISPATCH(SubstituteLines)(count, lines, scale, cz, cd, constant, magnitude);
}
void MaximiseOverBox(const PaddedMatrix& c, std::int64_t count, const double* centre,
                     const double* radius, const double* scale, double* value, double* magnitude) {
  HWY_DYNAMIC_DISPATCH(MaximiseOverBox)(c, count, centre, radius, scale, value, magnitude);
}

}  // namespace lucid
#endif  // HWY_ONCE
