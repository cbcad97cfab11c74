#include "check/proof_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "numeric/rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "check/proof_rows.cc"
#include "numeric/simd_targets.h"

#include <hwy/foreach_target.h>  // IWYU pragma: keep: includes this file once per instruction set

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kLanes = kProofLanes;
using D = hn::CappedTag<double, kLanes>;
using V = hn::Vec<D>;
constexpr std::size_t L = hn::MaxLanes(D());
constexpr std::size_t kParts = kLanes / L;  // vectors that hold the kLanes sums
static_assert(kParts * L == kLanes);

HWY_INLINE V Load(const double* p) { return hn::LoadU(D(), p); }
// a b + c, rounded twice: machines without a fused multiply-add get the same bits.
HWY_INLINE V ProductPlus(V a, V b, V c) { return hn::Add(hn::Mul(a, b), c); }
HWY_INLINE void Store(V v, double* p) { hn::StoreU(v, D(), p); }

struct Sums {
  V parts[kParts];
  Sums() {
    for (V& part : parts) part = hn::Zero(D());
  }
  double Total() const {
    double s[kLanes];
    for (std::size_t i = 0; i < kParts; ++i) Store(parts[i], s + i * L);
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  }
};

// One function of N's z alone: A = s cz.
void LinesOfNetwork(const ProofLayer& layer, double* z, double* constant, double* size) {
  const LineTable& lines = layer.network_table;
  Sums totals, sizes;
  for (std::size_t first = 0; first < lines.size(); first += kLanes) {
    for (std::size_t i = 0; i < kParts; ++i) {
      const std::size_t k = first + i * L;
      const V of_z = Load(z + k);
      const auto over = hn::Gt(of_z, hn::Zero(D()));
      const V s = hn::IfThenElse(over, Load(lines.su.data() + k), Load(lines.sl.data() + k));
      const V a = hn::Mul(of_z, s);
      const V intercept = hn::IfThenElseZero(over, hn::Mul(of_z, Load(lines.tu.data() + k)));
      totals.parts[i] = hn::Add(totals.parts[i], intercept);
      totals.parts[i] = ProductPlus(a, Load(layer.network.bias.data() + k), totals.parts[i]);
      sizes.parts[i] = hn::Add(sizes.parts[i], intercept);
      sizes.parts[i] = ProductPlus(hn::Add(hn::Abs(of_z), hn::Abs(a)), Load(lines.scale.data() + k),
                                   sizes.parts[i]);
      Store(a, z + k);
    }
  }
  *constant += totals.Total();
  *size += sizes.Total();
}

// One function of z and delta: A = s (cz + cd r) + cd p, D = cd q.
void LinesOfPair(const ProofLayer& layer, double* z, double* d, double* constant, double* size) {
  const LineTable& lines = layer.pair_table;
  const V zero = hn::Zero(D());
  Sums totals, sizes;
  for (std::size_t first = 0; first < lines.size(); first += kLanes) {
    for (std::size_t i = 0; i < kParts; ++i) {
      const std::size_t k = first + i * L;
      const V of_z = Load(z + k), of_d = Load(d + k);
      const auto over = hn::Gt(of_d, zero);
      const auto none = hn::Eq(of_d, zero);
      const auto pick = [&](const std::vector<double>& above,
                            const std::vector<double>& below) HWY_ATTR {
        const V line = hn::IfThenElse(over, Load(above.data() + k), Load(below.data() + k));
        return hn::IfThenZeroElse(none, line);
      };
      const V q = pick(lines.over_q, lines.under_q), p = pick(lines.over_p, lines.under_p);
      const V r = pick(lines.over_r, lines.under_r), t = pick(lines.over_t, lines.under_t);
      const V both = ProductPlus(of_d, r, of_z);
      const auto z_over = hn::Gt(both, zero);
      const V s = hn::IfThenElse(z_over, Load(lines.su.data() + k), Load(lines.sl.data() + k));
      const V a = ProductPlus(both, s, hn::Mul(of_d, p)), dual = hn::Mul(of_d, q);
      const V from_z = hn::IfThenElseZero(z_over, hn::Mul(both, Load(lines.tu.data() + k)));
      const V from_d = hn::Mul(of_d, t);
      V total = hn::Add(totals.parts[i], hn::Add(from_z, from_d));
      total = ProductPlus(a, Load(layer.network.bias.data() + k), total);
      totals.parts[i] = ProductPlus(dual, Load(layer.difference.bias.data() + k), total);
      const V slopes =
          hn::Add(hn::Add(hn::Abs(of_z), hn::Abs(of_d)), hn::Add(hn::Abs(a), hn::Abs(dual)));
      const V added = hn::Add(sizes.parts[i], hn::Add(from_z, hn::Abs(from_d)));
      sizes.parts[i] = ProductPlus(slopes, Load(lines.scale.data() + k), added);
      Store(a, z + k);
      Store(dual, d + k);
    }
  }
  *constant += totals.Total();
  *size += sizes.Total();
}

// The factors of some functions, and what they are factors of.
struct Operand {
  const double* c;       // of the first function
  std::size_t c_stride;  // from one function to the next
  const ProofMatrix& matrix;
  std::span<const std::uint32_t> units;  // the others' factors are 0
};

// out += sum over units k of c[k] (row k of the matrix), for kRows functions and kVectors vectors
// of columns, whose sums stay in registers.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void Tile(const Operand& in, std::size_t j, double* out) {
  const std::size_t out_stride = in.matrix.stride;
  V sums[kRows][kVectors];
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[r][v] = Load(out + r * out_stride + j + v * L);
    }
  }
  for (const std::uint32_t k : in.units) {
    const double* weights = in.matrix.row(k) + j;
    V row[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) row[v] = Load(weights + v * L);
    for (std::size_t r = 0; r < kRows; ++r) {
      const V c = hn::Set(D(), in.c[r * in.c_stride + k]);
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = ProductPlus(c, row[v], sums[r][v]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      Store(sums[r][v], out + r * out_stride + j + v * L);
    }
  }
}
template <std::size_t kRows>
HWY_INLINE void AllColumns(const Operand& in, double* out) {
  std::size_t j = 0;
  for (; j + 2 * L <= in.matrix.stride; j += 2 * L) Tile<kRows, 2>(in, j, out);
  for (; j < in.matrix.stride; j += L) Tile<kRows, 1>(in, j, out);
}
void AddProduct(std::size_t count, const double* c, std::size_t c_stride, const ProofMatrix& matrix,
                std::span<const std::uint32_t> units, double* out) {
  std::size_t r = 0;
  for (; r + 4 <= count; r += 4) {
    AllColumns<4>({c + r * c_stride, c_stride, matrix, units}, out + r * matrix.stride);
  }
  for (; r < count; ++r) {
    AllColumns<1>({c + r * c_stride, c_stride, matrix, units}, out + r * matrix.stride);
  }
}

void RangeOf(const ProofMatrix& matrix, const double* from, const double* to, double* low,
             double* high, double* size) {
  for (std::size_t k = 0; k < matrix.rows; ++k) {
    const double* row = matrix.row(k);
    Sums below, above, sizes;
    for (std::size_t first = 0; first < matrix.stride; first += kLanes) {
      for (std::size_t i = 0; i < kParts; ++i) {
        const std::size_t j = first + i * L;
        const V w = Load(row + j);
        const V one = hn::Mul(w, Load(from + j)), two = hn::Mul(w, Load(to + j));
        below.parts[i] = hn::Add(below.parts[i], hn::Min(one, two));
        above.parts[i] = hn::Add(above.parts[i], hn::Max(one, two));
        // Max drops what is no number; 0 times it does not, and is 0 for all that is finite.
        const V nothing = hn::Mul(hn::Zero(D()), hn::Add(one, two));
        sizes.parts[i] =
            hn::Add(sizes.parts[i], hn::Add(hn::Max(hn::Abs(one), hn::Abs(two)), nothing));
      }
    }
    low[k] += below.Total();
    high[k] += above.Total();
    size[k] += sizes.Total();
  }
}

// The sum of high[j] where c[j] > 0, and of low[j] elsewhere.
double SumAtCorner(const double* c, const double* low, const double* high, std::size_t count) {
  Sums sums;
  for (std::size_t first = 0; first < count; first += kLanes) {
    for (std::size_t i = 0; i < kParts; ++i) {
      const std::size_t j = first + i * L;
      const auto up = hn::Gt(Load(c + j), hn::Zero(D()));
      sums.parts[i] = hn::Add(sums.parts[i], hn::IfThenElse(up, Load(high + j), Load(low + j)));
    }
  }
  return sums.Total();
}

// The largest c . x over the features that the box alone speaks of, and the sum of |c_j| |x_j| over
// all of them.
void SumOverBox(const double* c, const ProofBox& x, double* value, double* size) {
  Sums values, sizes;
  for (std::size_t first = 0; first < x.low.size(); first += kLanes) {
    for (std::size_t i = 0; i < kParts; ++i) {
      const std::size_t j = first + i * L;
      const V of = Load(c + j);
      const V one = hn::Mul(of, Load(x.free_low.data() + j));
      const V two = hn::Mul(of, Load(x.free_high.data() + j));
      // Not Max: what is no number has to stay that.
      values.parts[i] = hn::Add(values.parts[i], hn::IfThenElse(hn::Gt(one, two), one, two));
      sizes.parts[i] = ProductPlus(hn::Abs(of), Load(x.size.data() + j), sizes.parts[i]);
    }
  }
  *value = values.Total();
  *size = sizes.Total();
}

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lucid {

HWY_EXPORT(LinesOfNetwork);
HWY_EXPORT(LinesOfPair);
HWY_EXPORT(AddProduct);
HWY_EXPORT(RangeOf);
HWY_EXPORT(SumAtCorner);
HWY_EXPORT(SumOverBox);

ProofHalfSpace::ProofHalfSpace(const ProofBox& x, std::span<const double> of, double sign,
                               double least)
    : a(x.low.size()), at_low(a.size()), at_high(a.size()), at_least(least), smallest(-least) {
  for (std::size_t j = 0; j < of.size(); ++j) {
    a[j] = sign * of[j];
    at_low[j] = a[j] * x.low[j];
    at_high[j] = a[j] * x.high[j];
    smallest += std::min(at_low[j], at_high[j]);
  }
}

void ProofRows::Start(std::size_t count, std::size_t units, bool pair) {
  count_ = count;
  units_ = units;
  stride_ = ProofLanes(units);
  pair_ = pair;
  z_.assign(count * stride_, 0.0);
  d_.assign(pair ? count * stride_ : 0, 0.0);
  constant.assign(count, 0.0);
  size.assign(count, 0.0);
}

void ProofRows::Substitute(const ProofLayer& layer, bool first) {
  const LineTable& lines = pair_ ? layer.pair_table : layer.network_table;
  for (std::size_t r = 0; r < count_; ++r) {
    double* z = z_.data() + r * stride_;
    if (pair_) {
      double* d = d_.data() + r * stride_;
      HWY_DYNAMIC_DISPATCH(LinesOfPair)(layer, z, d, &constant[r], &size[r]);
    } else {
      HWY_DYNAMIC_DISPATCH(LinesOfNetwork)(layer, z, &constant[r], &size[r]);
    }
  }
  const std::size_t next = layer.network.stride;
  next_z_.assign(count_ * next, 0.0);
  const auto add = [&](const std::vector<double>& c, const ProofMatrix& matrix,
                       std::vector<double>& out) {
    HWY_DYNAMIC_DISPATCH(AddProduct)
    (count_, c.data(), stride_, matrix, lines.alive, out.data());
  };
  add(z_, layer.network, next_z_);
  if (pair_) {
    add(d_, layer.difference, next_z_);
    next_d_.assign(count_ * next, 0.0);
    if (!first) add(d_, layer.member, next_d_);
    std::swap(d_, next_d_);
  }
  std::swap(z_, next_z_);
  stride_ = next;
  units_ = layer.network.columns;
}

const std::vector<double>& ProofRows::Largest(const ProofBox& x,
                                              std::span<const ProofHalfSpace> halves) {
  // The new coefficients are sums of so many more products.
  const auto more = 8 * static_cast<std::int64_t>(halves.size());
  const double gamma = GammaUp(terms_), gamma_of_more = GammaUp(terms_ + more);
  largest_.resize(count_);
  for (std::size_t r = 0; r < count_; ++r) {
    const BoxSums plain = OverBox(r, x);
    largest_[r] = Charged(r, plain, gamma);
    bool changed = false;
    for (const ProofHalfSpace& half : halves) {
      if (LeanOn(r, half, x)) changed = true;
    }
    if (!changed) continue;
    size[r] += plain.size;  // the new row is made of the one that it was
    largest_[r] = std::min(largest_[r], Charged(r, OverBox(r, x), gamma_of_more));
  }
  return largest_;
}

ProofRows::BoxSums ProofRows::OverBox(std::size_t r, const ProofBox& x) const {
  BoxSums sums;
  const double* c = z_.data() + r * stride_;
  HWY_DYNAMIC_DISPATCH(SumOverBox)(c, x, &sums.value, &sums.size);
  sums.value += x.points.Largest(c);
  return sums;
}

double ProofRows::Charged(std::size_t r, const BoxSums& sums, double gamma) const {
  const double charge = Up(4 * gamma * (size[r] + sums.size) + ProofForm::kUnderflow);
  const double result = Up(constant[r] + sums.value + charge);
  return std::isnan(result) ? kInfinity : result;
}

// Adds mu times the half space to row r, mu >= 0 where its largest value over the box is smallest:
// the slope in mu is a . x - at_least at the corner x that is best, and grows where the row's
// coefficients change their signs. False: mu is 0. (Advice: whatever mu is, the bound holds.)
bool ProofRows::LeanOn(std::size_t r, const ProofHalfSpace& half, const ProofBox& x) {
  double* c = z_.data() + r * stride_;
  double slope =
      HWY_DYNAMIC_DISPATCH(SumAtCorner)(c, half.at_low.data(), half.at_high.data(), half.a.size()) -
      half.at_least;
  if (!(slope < 0)) return false;
  breaks_.clear();
  const auto width = [&](std::size_t j) { return std::abs(half.at_high[j] - half.at_low[j]); };
  for (std::size_t j = 0; j < units_; ++j) {
    if (width(j) > 0 && (c[j] * half.a[j] < 0 || (c[j] == 0 && half.a[j] > 0))) {
      breaks_.emplace_back(-c[j] / half.a[j], j);
    }
  }
  std::ranges::sort(breaks_);
  double mu = 0;
  for (const auto& [at, j] : breaks_) {
    mu = at;
    slope += width(j);
    if (slope >= 0) break;
  }
  if (!(mu > 0)) return false;
  double added = std::abs(half.at_least);
  for (std::size_t j = 0; j < units_; ++j) {
    c[j] += mu * half.a[j];
    added += std::abs(half.a[j]) * x.size[j];
  }
  constant[r] -= mu * half.at_least;
  size[r] += mu * added;
  return true;
}

void AddRange(const ProofMatrix& matrix, const ProofRanges& in, std::span<double> low,
              std::span<double> high, std::span<double> size) {
  std::vector<double> from(in.low), to(in.high);
  from.resize(matrix.stride);
  to.resize(matrix.stride);
  HWY_DYNAMIC_DISPATCH(RangeOf)
  (matrix, from.data(), to.data(), low.data(), high.data(), size.data());
}

}  // namespace lucid
#endif  // HWY_ONCE
