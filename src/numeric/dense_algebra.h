// Products, Cholesky factors and inverses of dense matrices of doubles, for every instruction set.
//
// A matrix lies column by column without gaps. Every entry of a result is one sum whose terms are
// added in rising order, so block sizes and the width of vectors change no bits: all machines with
// a fused multiply-add give the same ones.
#pragma once

#include <cstdint>
#include <vector>

namespace lucid {

// out = a b, with a of rows x depth, b of depth x columns and out of rows x columns. `out` must not
// overlap the others.
void MultiplyMatrices(const double* a, const double* b, std::int64_t rows, std::int64_t depth,
                      std::int64_t columns, double* out);

// The factor L of a symmetric positive definite matrix, L L' = A.
class CholeskyFactor {
 public:
  static constexpr std::int64_t kPadding = 8;  // doubles: a whole vector of every instruction set

  // Reads the lower half of the n x n matrix. False: a pivot is not positive or not finite, and
  // there is no factor. Every operation is rounded to nearest, so a factor that exists is exact for
  // a matrix A + E with |E_ij| <= gamma_(n+1) sqrt(A_ii A_jj) (but for underflow), as for any order
  // of the sums (Demmel 1989; Rump 2006).
  bool Compute(const double* a, std::int64_t n);

  // Solves A x = b in place. Requires: Compute was true.
  void Solve(double* b) const;
  // A^-1, n x n, both halves. Requires: Compute was true.
  void Inverse(double* out) const;

 private:
  std::int64_t n_ = 0, stride_ = 0;  // columns are padded to a multiple of kPadding
  std::vector<double> lower_;
  mutable std::vector<double> scratch_;
};

}  // namespace lucid
