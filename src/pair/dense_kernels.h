// Small dense linear algebra in double for the linear bounds, in SIMD (Highway, chosen at run
// time). Rows are padded to kPad doubles with zeros, which every kernel may read and write.
// Callers charge the rounding of sums a priori, for any order and fused or not (see
// region_bounder.h). The order is nevertheless fixed, so that every machine with a fused
// multiply-add (AVX2, AVX-512, NEON) finds the same bounds to the bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lucid {

inline constexpr std::int64_t kPad = 8;
inline constexpr std::int64_t Padded(std::int64_t n) { return (n + kPad - 1) / kPad * kPad; }

// A zeroed array of doubles, its size padded and its start aligned for any vector unit.
class PaddedArray {
 public:
  PaddedArray() = default;
  explicit PaddedArray(std::int64_t size) { Reset(size); }
  void Reset(std::int64_t size);

  std::int64_t size() const { return size_; }
  double* data() { return data_.get(); }
  const double* data() const { return data_.get(); }
  double& operator[](std::int64_t i) { return data_[i]; }
  double operator[](std::int64_t i) const { return data_[i]; }

 private:
  struct Free {
    void operator()(double* p) const;
  };
  std::int64_t size_ = 0, capacity_ = 0;  // as asked for; in doubles
  std::unique_ptr<double[], Free> data_;
};

// Row-major, every row padded.
struct PaddedMatrix {
  std::int64_t rows = 0, columns = 0, stride = 0;
  PaddedArray values;

  void Reset(std::int64_t new_rows, std::int64_t new_columns);
  double* row(std::int64_t r) { return values.data() + r * stride; }
  const double* row(std::int64_t r) const { return values.data() + r * stride; }
};

// out += c^T M, over the rows of M in `rows` only.
void AddTransposed(const double* c, const PaddedMatrix& m, std::span<const std::int32_t> rows,
                   double* out);
// out[r] += M[r] . v for every row.
void AddProduct(const PaddedMatrix& m, const double* v, double* out);
// out[r] += |M[r]| . v, the weights' absolute values.
void AddAbsoluteProduct(const PaddedMatrix& m, const double* v, double* out);
// C[0..count) += A[0..count) M over the columns of A (= rows of M) in `inner` only.
// Requires: C.stride == M.stride.
void AddMatrixProduct(const PaddedMatrix& a, std::int64_t count, const PaddedMatrix& m,
                      std::span<const std::int32_t> inner, PaddedMatrix& c);

// Per neuron of a layer: the possible pairs (z^, d^) of N's weighted sum and the member's
// difference: z^ in [l, u], d^ in [a, b], and y = z^ + d^ >= 0 (sign 1), <= 0 (sign -1) or either
// (sign 0). Requires of sign 1: l >= -b, a >= -u; of sign -1: u <= -a, b <= -l (what y's sign
// implies), so that every z^ of [l, u] has a d^.
struct PairRanges {
  PaddedArray l, u, a, b, sign;
  void Reset(std::int64_t size);
};
// The pair at which a neuron's term is largest.
struct PairPeaks {
  PaddedArray value, sum, difference;  // the term's maximum, z^ and d^ there
  void Reset(std::int64_t size);
};
// The maximum over each neuron's polygon of
//   cz relu(z^) + cd (relu(z^ + d^) - relu(z^)) - A z^ - D d^,
// which is piecewise linear, so that one of at most eleven vertices of its pieces attains it.
// Not rounded outward: off by less than 16 roundings of (|cz| + |cd| + |A| + |D|) (|z^| + |d^|).
void FindPeaks(std::int64_t count, const PairRanges& ranges, const double* cz, const double* cd,
               const double* big_a, const double* big_d, PairPeaks& peaks);

// Lines over and under delta = relu(z^ + d^) - relu(z^) and z = relu(z^), one of each per neuron:
//   delta <= uq d^ + up z^ + ur z + ut,   delta >= lq d^ + lp z^ + lr z + lt,
//   z <= su z^ + tu,                      z >= sl z^.
struct PairLines {
  PaddedArray uq, up, ur, ut, lq, lp, lr, lt, su, tu, sl;
  void Reset(std::int64_t size);
};
// One layer of a backward substitution for `count` rows: cz z + cd delta of each row is at most
// A z^ + D d^ + constant. A replaces cz and D replaces cd; adds to constant[r], and to
// magnitude[r] the sum of (|cz| + |cd|) scale.
void SubstituteLines(std::int64_t count, const PairLines& lines, const double* scale,
                     PaddedMatrix& cz, PaddedMatrix& cd, double* constant, double* magnitude);
// value[r] = c[r] . centre + |c[r]| . radius, the maximum of c . x over a box, up to rounding;
// magnitude[r] += |c[r]| . scale.
void MaximiseOverBox(const PaddedMatrix& c, std::int64_t count, const double* centre,
                     const double* radius, const double* scale, double* value, double* magnitude);

}  // namespace lucid
