#include "numeric/dense_algebra.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace lucid {
namespace {

using Matrix = std::vector<double>;  // column by column

Matrix Random(std::int64_t count, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Matrix m(static_cast<std::size_t>(count));
  for (double& v : m) v = normal(random);
  return m;
}

// The definition, in rising order and with fused multiply-adds.
Matrix PlainProduct(const Matrix& a, const Matrix& b, std::int64_t rows, std::int64_t depth,
                    std::int64_t columns) {
  Matrix out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::int64_t p = 0; p < depth; ++p) {
        sum = std::fma(a[p * rows + i], b[j * depth + p], sum);
      }
      out[j * rows + i] = sum;
    }
  }
  return out;
}

// A positive definite matrix.
Matrix Positive(std::int64_t n, std::mt19937_64& random) {
  const Matrix b = Random(n * n, random);
  Matrix transposed(b.size());
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) transposed[i * n + j] = b[j * n + i];
  }
  Matrix out = PlainProduct(b, transposed, n, n, n);
  for (std::int64_t i = 0; i < n; ++i) out[i * n + i] += 0.5;
  return out;
}

TEST(DenseAlgebra, ProductsAreTheDefinition) {
  std::mt19937_64 random(1);
  for (const std::int64_t rows : {1, 2, 3, 7, 8, 9, 16, 31, 65}) {
    for (const std::int64_t columns : {1, 3, 4, 5, 12, 33}) {
      for (const std::int64_t depth : {1, 2, 17, 50}) {
        const Matrix a = Random(rows * depth, random), b = Random(depth * columns, random);
        Matrix out(static_cast<std::size_t>(rows * columns), -1.0);
        MultiplyMatrices(a.data(), b.data(), rows, depth, columns, out.data());
        const Matrix plain = PlainProduct(a, b, rows, depth, columns);
        for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], plain[i], 1e-12);
      }
    }
  }
}

TEST(DenseAlgebra, FactorSolvesAndInverts) {
  std::mt19937_64 random(2);
  for (const std::int64_t n : {1, 2, 3, 7, 8, 9, 15, 47, 48, 49, 50, 96, 130, 201}) {
    const Matrix a = Positive(n, random);
    CholeskyFactor factor;
    ASSERT_TRUE(factor.Compute(a.data(), n)) << n;
    const Matrix right = Random(n, random);
    Matrix x = right;
    factor.Solve(x.data());
    const Matrix back = PlainProduct(a, x, n, n, 1);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_NEAR(back[i], right[i], 1e-8) << n;
    Matrix inverse(a.size());
    factor.Inverse(inverse.data());
    const Matrix identity = PlainProduct(a, inverse, n, n, n);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        EXPECT_NEAR(identity[j * n + i], i == j ? 1 : 0, 1e-8) << n;
        EXPECT_EQ(inverse[j * n + i], inverse[i * n + j]) << n;
      }
    }
  }
}

TEST(DenseAlgebra, WhatIsNotPositiveDefiniteHasNoFactor) {
  std::mt19937_64 random(3);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (const std::int64_t n : {1, 5, 48, 60, 100}) {
    for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
      for (const double wrong : {-1e3, 0.0, std::nan(""), kInfinite, -kInfinite}) {
        Matrix a = Positive(n, random);
        a[at * n + at] = wrong;
        EXPECT_FALSE(CholeskyFactor().Compute(a.data(), n)) << n << " " << at << " " << wrong;
      }
    }
    if (n == 1) continue;
    for (const double wrong : {1e200, kInfinite, std::nan("")}) {
      Matrix a = Positive(n, random);
      a[n - 1] = wrong;  // row n - 1 of column 0
      EXPECT_FALSE(CholeskyFactor().Compute(a.data(), n)) << n << " " << wrong;
    }
  }
}

TEST(DenseAlgebra, OnlyTheLowerHalfIsRead) {
  std::mt19937_64 random(4);
  const std::int64_t n = 53;
  const Matrix a = Positive(n, random);
  Matrix lower = a;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) lower[j * n + i] = std::nan("");
  }
  CholeskyFactor one, two;
  ASSERT_TRUE(one.Compute(a.data(), n) && two.Compute(lower.data(), n));
  Matrix x = Random(n, random), y = x;
  one.Solve(x.data());
  two.Solve(y.data());
  EXPECT_EQ(x, y);
}

}  // namespace
}  // namespace lucid
