#include "numeric/dense_algebra.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numeric/dense_algebra.cc"
#include "numeric/simd_targets.h"

#include <hwy/foreach_target.h>  // IWYU pragma: keep: includes this file once per instruction set

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kPanel = 48;  // columns that are factored together
// The sums of a tile stay in registers: so many vectors of so many columns, or of one.
constexpr int kColumns = 4, kVectors = 2, kVectorsOfOne = 8;

using Wide = hn::CappedTag<double, CholeskyFactor::kPadding>;
using One = hn::CappedTag<double, 1>;

// An operand whose entry (p, j) is read as one number.
struct Spread {
  const double* data;
  std::int64_t step_p, step_j;
};

enum class Sum { kFresh, kSubtract };  // out = a b, or out -= a b

// The rows of V vectors and J columns, over `depth` terms.
template <Sum kSum, int V, int J, class D>
HWY_INLINE void Tile(D d, std::int64_t depth, const double* a, std::int64_t stride_a, Spread b,
                     double* out, std::int64_t stride_out) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<D> sum[J][V];
  for (int j = 0; j < J; ++j) {
    for (int v = 0; v < V; ++v) {
      sum[j][v] =
          kSum == Sum::kFresh ? hn::Zero(d) : hn::LoadU(d, out + j * stride_out + v * lanes);
    }
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    hn::Vec<D> left[V];
    for (int v = 0; v < V; ++v) left[v] = hn::LoadU(d, a + p * stride_a + v * lanes);
    for (int j = 0; j < J; ++j) {
      const auto right = hn::Set(d, b.data[p * b.step_p + j * b.step_j]);
      for (int v = 0; v < V; ++v) {
        sum[j][v] = kSum == Sum::kFresh ? hn::MulAdd(left[v], right, sum[j][v])
                                        : hn::NegMulAdd(left[v], right, sum[j][v]);
      }
    }
  }
  for (int j = 0; j < J; ++j) {
    for (int v = 0; v < V; ++v) hn::StoreU(sum[j][v], d, out + j * stride_out + v * lanes);
  }
}

// J columns of a product. Rows that do not fill a vector are the end of one that begins earlier, if
// the product is a fresh one; rows of other products are whole vectors.
template <Sum kSum, int J>
HWY_INLINE void ColumnsOf(std::int64_t rows, std::int64_t depth, const double* a,
                          std::int64_t stride_a, Spread b, double* out, std::int64_t stride_out) {
  constexpr int kMany = J == 1 ? kVectorsOfOne : kVectors;
  const Wide d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + kMany * lanes <= rows; i += kMany * lanes) {
    Tile<kSum, kMany, J>(d, depth, a + i, stride_a, b, out + i, stride_out);
  }
  for (; i + lanes <= rows; i += lanes) {
    Tile<kSum, 1, J>(d, depth, a + i, stride_a, b, out + i, stride_out);
  }
  if constexpr (kSum == Sum::kFresh) {
    if (i < rows && rows >= lanes) {
      i = rows - lanes;
      Tile<kSum, 1, J>(d, depth, a + i, stride_a, b, out + i, stride_out);
      i = rows;
    }
    for (; i < rows; ++i) Tile<kSum, 1, J>(One(), depth, a + i, stride_a, b, out + i, stride_out);
  }
}

void Multiply(const double* a, const double* b, std::int64_t rows, std::int64_t depth,
              std::int64_t columns, double* out) {
  std::int64_t j = 0;
  for (; j + kColumns <= columns; j += kColumns) {
    ColumnsOf<Sum::kFresh, kColumns>(rows, depth, a, rows, {b + j * depth, 1, depth},
                                     out + j * rows, rows);
  }
  for (; j < columns; ++j) {
    ColumnsOf<Sum::kFresh, 1>(rows, depth, a, rows, {b + j * depth, 1, depth}, out + j * rows,
                              rows);
  }
}

// The first row of the vector that row i lies in.
std::int64_t VectorOf(std::int64_t i) {
  return i / CholeskyFactor::kPadding * CholeskyFactor::kPadding;
}

// Factors columns first .. end - 1, of which all columns before `first` are taken away already.
bool FactorPanel(double* lower, std::int64_t stride, std::int64_t first, std::int64_t end) {
  const Wide d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = first; j < end; ++j) {
    double* const column = lower + j * stride;
    const std::int64_t top = VectorOf(j);
    ColumnsOf<Sum::kSubtract, 1>(stride - top, j - first, lower + first * stride + top, stride,
                                 {lower + first * stride + j, stride, 1}, column + top, stride);
    const double pivot = column[j];
    if (!(pivot > 0 && pivot <= std::numeric_limits<double>::max())) return false;
    const auto root = hn::Set(d, std::sqrt(pivot));
    for (std::int64_t i = top; i < stride; i += lanes) {
      hn::StoreU(hn::Div(hn::LoadU(d, column + i), root), d, column + i);
    }
    // What stands above the diagonal belongs to no factor.
    std::fill(column + top, column + j, 0.0);
    column[j] = std::sqrt(pivot);
  }
  return true;
}

bool Factor(double* lower, std::int64_t n, std::int64_t stride) {
  for (std::int64_t first = 0; first < n; first += kPanel) {
    const std::int64_t end = std::min(first + kPanel, n);
    if (!FactorPanel(lower, stride, first, end)) return false;
    std::int64_t j = end;
    const auto take_away = [&]<int kCount>(std::integral_constant<int, kCount>) HWY_ATTR {
      const std::int64_t top = VectorOf(j);
      ColumnsOf<Sum::kSubtract, kCount>(stride - top, end - first, lower + first * stride + top,
                                        stride, {lower + first * stride + j, stride, 1},
                                        lower + j * stride + top, stride);
    };
    for (; j + kColumns <= n; j += kColumns) take_away(std::integral_constant<int, kColumns>());
    for (; j < n; ++j) take_away(std::integral_constant<int, 1>());
  }
  return true;
}

// Row by row, Y = L^-1: row i of Y is (e_i - sum over p < i of L_ip Y_p) / L_ii, which is 0 right
// of the diagonal. Then A^-1 = Y' Y, whose entry (i, j) has terms from row max(i, j) on.
void Inverse(const double* lower, std::int64_t n, std::int64_t stride, double* y, double* out) {
  const Wide d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::fill_n(y, n * stride, 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    double* const row = y + i * stride;
    row[i] = 1;
    const std::int64_t width = VectorOf(i) + CholeskyFactor::kPadding;
    ColumnsOf<Sum::kSubtract, 1>(width, i, y, stride, {lower + i, stride, 1}, row, stride);
    const auto pivot = hn::Set(d, lower[i * stride + i]);
    for (std::int64_t j = 0; j < width; j += lanes) {
      hn::StoreU(hn::Div(hn::LoadU(d, row + j), pivot), d, row + j);
    }
  }
  std::int64_t j = 0;
  for (; j + kColumns <= n; j += kColumns) {
    ColumnsOf<Sum::kFresh, kColumns>(n, n - j, y + j * stride, stride,
                                     {y + j * stride + j, stride, 1}, out + j * n, n);
  }
  for (; j < n; ++j) {
    ColumnsOf<Sum::kFresh, 1>(n, n - j, y + j * stride, stride, {y + j * stride + j, stride, 1},
                              out + j * n, n);
  }
}

// column of y -= factor * column of L, from row `from` on.
void SubtractColumn(const double* column, double factor, std::int64_t from, std::int64_t to,
                    double* y) {
  const Wide d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto many = hn::Set(d, factor);
  std::int64_t i = from;
  for (; i + lanes <= to; i += lanes) {
    hn::StoreU(hn::NegMulAdd(many, hn::LoadU(d, column + i), hn::LoadU(d, y + i)), d, y + i);
  }
  const One one;
  for (; i < to; ++i) {
    hn::StoreU(
        hn::NegMulAdd(hn::Set(one, factor), hn::LoadU(one, column + i), hn::LoadU(one, y + i)), one,
        y + i);
  }
}

// L y = b, then L' x = y. The sums of the second run over rising rows, too: it works on columns of
// L' that are rows of L, from the last one up, and takes each away as soon as it is known.
void Solve(const double* lower, std::int64_t n, std::int64_t stride, double* b) {
  for (std::int64_t j = 0; j < n; ++j) {
    b[j] /= lower[j * stride + j];
    SubtractColumn(lower + j * stride, b[j], j + 1, n, b);
  }
  for (std::int64_t j = n; j-- > 0;) {
    const One one;
    auto sum = hn::LoadU(one, b + j);
    for (std::int64_t i = j + 1; i < n; ++i) {
      sum = hn::NegMulAdd(hn::LoadU(one, lower + j * stride + i), hn::LoadU(one, b + i), sum);
    }
    b[j] = hn::GetLane(sum) / lower[j * stride + j];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace lucid {

HWY_EXPORT(Multiply);
HWY_EXPORT(Factor);
HWY_EXPORT(Inverse);
HWY_EXPORT(Solve);

void MultiplyMatrices(const double* a, const double* b, std::int64_t rows, std::int64_t depth,
                      std::int64_t columns, double* out) {
  HWY_DYNAMIC_DISPATCH(Multiply)(a, b, rows, depth, columns, out);
}

bool CholeskyFactor::Compute(const double* a, std::int64_t n) {
  n_ = n;
  stride_ = (n + kPadding - 1) / kPadding * kPadding;
  lower_.assign(static_cast<std::size_t>(n_ * stride_), 0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    std::copy(a + j * n + j, a + j * n + n, lower_.begin() + j * stride_ + j);
  }
  return HWY_DYNAMIC_DISPATCH(Factor)(lower_.data(), n_, stride_);
}

void CholeskyFactor::Solve(double* b) const {
  HWY_DYNAMIC_DISPATCH(Solve)(lower_.data(), n_, stride_, b);
}

void CholeskyFactor::Inverse(double* out) const {
  scratch_.resize(lower_.size());
  HWY_DYNAMIC_DISPATCH(Inverse)(lower_.data(), n_, stride_, scratch_.data(), out);
}

}  // namespace lucid

#endif  // HWY_ONCE
