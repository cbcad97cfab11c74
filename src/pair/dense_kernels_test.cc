#include "pair/dense_kernels.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "random/stream.h"

namespace lucid {
namespace {

using Wide = long double;

constexpr std::int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 50, 67};

PaddedArray RandomArray(std::int64_t n, Stream& stream) {
  PaddedArray array(n);
  for (std::int64_t i = 0; i < n; ++i) array[i] = stream.Uniform(-2, 2);
  return array;
}

PaddedMatrix RandomMatrix(std::int64_t rows, std::int64_t columns, Stream& stream) {
  PaddedMatrix m;
  m.Reset(rows, columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) m.row(r)[c] = stream.Uniform(-2, 2);
  }
  return m;
}

// Every number of [0, n) with probability 2/3.
std::vector<std::int32_t> RandomSome(std::int64_t n, Stream& stream) {
  std::vector<std::int32_t> some;
  for (std::int32_t i = 0; i < n; ++i) {
    if (stream.Below(3) != 0) some.push_back(i);
  }
  return some;
}

// Equal up to the rounding of a sum whose absolute values add up to at most `size`.
void ExpectSum(double found, Wide wanted, Wide size) {
  EXPECT_LE(std::abs(found - wanted), 0x1p-44L * (size + 1))
      << found << " not " << static_cast<double>(wanted);
}

class Kernels : public testing::TestWithParam<std::int64_t> {
 protected:
  // An odd size of its own for the other dimension.
  std::int64_t Other() const { return 2 * (GetParam() * 5 % 23) + 1; }
};
INSTANTIATE_TEST_SUITE_P(Sizes, Kernels, testing::ValuesIn(kSizes));

TEST_P(Kernels, AddTransposedEqualsTheLoop) {
  Stream stream(1, "kernels", static_cast<std::uint64_t>(GetParam()));
  const std::int64_t rows = Other(), columns = GetParam();
  const PaddedMatrix m = RandomMatrix(rows, columns, stream);
  const PaddedArray c = RandomArray(rows, stream);
  const auto some = RandomSome(rows, stream);
  PaddedArray out = RandomArray(columns, stream);
  std::vector<Wide> wanted(out.data(), out.data() + columns);
  for (const std::int32_t r : some) {
    for (std::int64_t j = 0; j < columns; ++j) wanted[j] += static_cast<Wide>(c[r]) * m.row(r)[j];
  }
  AddTransposed(c.data(), m, some, out.data());
  for (std::int64_t j = 0; j < columns; ++j) ExpectSum(out[j], wanted[j], 4.0L * rows);
  for (std::int64_t j = columns; j < Padded(columns); ++j) EXPECT_EQ(out[j], 0);
}

TEST_P(Kernels, AddProductAndAddAbsoluteProductEqualTheLoop) {
  Stream stream(2, "kernels", static_cast<std::uint64_t>(GetParam()));
  const std::int64_t rows = Other(), columns = GetParam();
  const PaddedMatrix m = RandomMatrix(rows, columns, stream);
  const PaddedArray v = RandomArray(columns, stream);
  PaddedArray out = RandomArray(rows, stream), absolute(rows);
  for (std::int64_t r = 0; r < rows; ++r) absolute[r] = out[r];
  std::vector<Wide> sums(out.data(), out.data() + rows), absolute_sums = sums;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < columns; ++j) {
      sums[r] += static_cast<Wide>(m.row(r)[j]) * v[j];
      absolute_sums[r] += std::abs(static_cast<Wide>(m.row(r)[j])) * v[j];
    }
  }
  AddProduct(m, v.data(), out.data());
  AddAbsoluteProduct(m, v.data(), absolute.data());
  for (std::int64_t r = 0; r < rows; ++r) {
    ExpectSum(out[r], sums[r], 4.0L * columns);
    ExpectSum(absolute[r], absolute_sums[r], 4.0L * columns);
  }
}

TEST_P(Kernels, AddMatrixProductEqualsTheLoopAndLeavesOtherRowsAlone) {
  Stream stream(3, "kernels", static_cast<std::uint64_t>(GetParam()));
  const std::int64_t inner = Other(), columns = GetParam();
  for (const std::int64_t rows : {1, 3, 4, 6, 9}) {
    const PaddedMatrix a = RandomMatrix(rows, inner, stream);
    const PaddedMatrix m = RandomMatrix(inner, columns, stream);
    PaddedMatrix c = RandomMatrix(rows, columns, stream);
    const auto some = RandomSome(inner, stream);
    const std::int64_t count = rows - rows / 3;
    std::vector<std::vector<Wide>> wanted(static_cast<std::size_t>(rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      wanted[r].assign(c.row(r), c.row(r) + columns);
      for (const std::int32_t k : some) {
        if (r >= count) break;
        for (std::int64_t j = 0; j < columns; ++j) {
          wanted[r][j] += static_cast<Wide>(a.row(r)[k]) * m.row(k)[j];
        }
      }
    }
    AddMatrixProduct(a, count, m, some, c);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < columns; ++j) {
        ExpectSum(c.row(r)[j], wanted[r][j], r < count ? 4.0L * inner : 0);
      }
    }
  }
}

TEST_P(Kernels, MaximiseOverBoxEqualsTheLoop) {
  Stream stream(4, "kernels", static_cast<std::uint64_t>(GetParam()));
  const std::int64_t rows = Other(), columns = GetParam();
  const PaddedMatrix c = RandomMatrix(rows, columns, stream);
  PaddedArray centre = RandomArray(columns, stream), radius(columns), scale(columns);
  for (std::int64_t j = 0; j < columns; ++j) {
    radius[j] = stream.Uniform();
    scale[j] = stream.Uniform();
  }
  PaddedArray value(rows), magnitude(rows);
  for (std::int64_t r = 0; r < rows; ++r) magnitude[r] = 1, value[r] = 17;
  MaximiseOverBox(c, rows, centre.data(), radius.data(), scale.data(), value.data(),
                  magnitude.data());
  for (std::int64_t r = 0; r < rows; ++r) {
    Wide most = 0, size = 1;
    for (std::int64_t j = 0; j < columns; ++j) {
      const Wide x = c.row(r)[j];
      most += std::max(x * (static_cast<Wide>(centre[j]) - radius[j]),
                       x * (static_cast<Wide>(centre[j]) + radius[j]));
      size += std::abs(x) * scale[j];
    }
    ExpectSum(value[r], most, 6.0L * columns);
    ExpectSum(magnitude[r], size, 2.0L * columns);
  }
}

TEST_P(Kernels, SubstituteLinesReplacesEveryTermByItsLine) {
  Stream stream(5, "kernels", static_cast<std::uint64_t>(GetParam()));
  const std::int64_t rows = 1 + Other() % 5, columns = GetParam();
  PairLines lines;
  lines.Reset(columns);
  for (PaddedArray* array : {&lines.uq, &lines.up, &lines.ur, &lines.ut, &lines.lq, &lines.lp,
                             &lines.lr, &lines.lt, &lines.su, &lines.tu, &lines.sl}) {
    *array = RandomArray(columns, stream);
  }
  const PaddedArray scale = RandomArray(columns, stream);
  PaddedMatrix cz = RandomMatrix(rows, columns, stream), cd = RandomMatrix(rows, columns, stream);
  std::vector<double> old_z(cz.row(0), cz.row(0) + rows * cz.stride);
  std::vector<double> old_d(cd.row(0), cd.row(0) + rows * cd.stride);
  PaddedArray constant(rows), magnitude(rows);
  for (std::int64_t r = 0; r < rows; ++r) constant[r] = 3, magnitude[r] = 5;
  SubstituteLines(rows, lines, scale.data(), cz, cd, constant.data(), magnitude.data());
  for (std::int64_t r = 0; r < rows; ++r) {
    Wide added = 3, size = 5;
    for (std::int64_t k = 0; k < columns; ++k) {
      const Wide z = old_z[r * cz.stride + k], d = old_d[r * cz.stride + k];
      const bool over = d > 0;
      const Wide z_all = z + d * (over ? lines.ur[k] : lines.lr[k]);
      const Wide big_a =
          d * (over ? lines.up[k] : lines.lp[k]) + z_all * (z_all > 0 ? lines.su[k] : lines.sl[k]);
      added += d * (over ? lines.ut[k] : lines.lt[k]) + (z_all > 0 ? z_all * lines.tu[k] : 0);
      size += (std::abs(z) + std::abs(d)) * scale[k];
      ExpectSum(cz.row(r)[k], big_a, 20);
      ExpectSum(cd.row(r)[k], d * (over ? lines.uq[k] : lines.lq[k]), 4);
    }
    ExpectSum(constant[r], added, 20.0L * columns);
    ExpectSum(magnitude[r], size, 8.0L * columns);
  }
}

TEST(PaddedArray, IsZeroedEveryTimeAndAligned) {
  PaddedArray array(5);
  for (const std::int64_t size : {5, 3, 17, 0, 8, 40, 1}) {
    array.Reset(size);
    EXPECT_EQ(array.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data()) % 64, 0U);
    for (std::int64_t i = 0; i < Padded(size); ++i) {
      EXPECT_EQ(array[i], 0) << i;
      array[i] = 1;
    }
  }
}

// One neuron of FindPeaks.
struct Neuron {
  double l = 0, u = 0, a = 0, b = 0, sign = 0;
  double cz = 0, cd = 0, big_a = 0, big_d = 0;

  Wide Term(Wide sum, Wide difference) const {
    const Wide z = std::max<Wide>(sum, 0), p = std::max<Wide>(sum + difference, 0);
    return cz * z + cd * (p - z) - big_a * sum - big_d * difference;
  }
  // What the header allows FindPeaks to be off by.
  Wide Rounding() const {
    const Wide z = std::max(std::abs(l), std::abs(u)), d = std::max(std::abs(a), std::abs(b));
    return 16 * 0x1p-53L * (std::abs(cz) + std::abs(cd) + std::abs(big_a) + std::abs(big_d)) *
           (z + d);
  }
  bool Allows(Wide sum, Wide difference) const {
    if (sum < l || sum > u || difference < a || difference > b) return false;
    return sign == 0 || (sign > 0 ? sum + difference >= 0 : sum + difference <= 0);
  }

  // The maximum over a grid and over every crossing of two of the lines z^ = l, u, 0, d^ = a, b, 0
  // and y = 0, hence over a superset of the vertices of the pieces on which the term is linear.
  Wide BruteForce(Stream& stream) const {
    Wide best = -std::numeric_limits<Wide>::infinity();
    const auto at = [&](Wide sum, Wide difference) {
      if (Allows(sum, difference)) best = std::max(best, Term(sum, difference));
    };
    const Wide sums[] = {l, u, 0}, differences[] = {a, b, 0};
    for (const Wide sum : sums) {
      for (const Wide difference : differences) at(sum, difference);
      at(sum, -sum);
    }
    for (const Wide difference : differences) at(-difference, difference);
    constexpr int kGrid = 24;
    for (int i = 0; i <= kGrid; ++i) {
      const Wide sum = l + (static_cast<Wide>(u) - l) * i / kGrid;
      for (int j = 0; j <= kGrid; ++j) at(sum, a + (static_cast<Wide>(b) - a) * j / kGrid);
      at(sum, -sum);
    }
    for (int i = 0; i < 50; ++i) {
      const Wide sum = l + (static_cast<Wide>(u) - l) * stream.Uniform();
      at(sum, a + (static_cast<Wide>(b) - a) * stream.Uniform());
    }
    return best;
  }
};

double RandomSize(Stream& stream) {
  switch (stream.Below(8)) {
    case 0:
      return 0;
    case 1:
      return std::exp2(stream.Uniform(-40, 0));
    case 2:
      return std::exp2(stream.Uniform(0, 20));
    default:
      return stream.Uniform();
  }
}
double RandomSigned(Stream& stream) {
  const double size = RandomSize(stream);
  return stream.Below(2) == 0 ? size : -size;
}
double RandomFactor(Stream& stream) { return stream.Below(5) == 0 ? 0 : RandomSigned(stream); }

// Ranges as FindPeaks requires them. A member's sign needs a polygon that is not empty.
Neuron RandomNeuron(Stream& stream) {
  while (true) {
    Neuron n;
    n.l = RandomSigned(stream);
    n.a = RandomSigned(stream);
    n.u = n.l + RandomSize(stream);
    n.b = n.a + RandomSize(stream);
    if (stream.Below(6) == 0) n.u = n.l;
    if (stream.Below(6) == 0) n.b = n.a;
    if (stream.Below(10) == 0) n.l = std::min(-n.b, n.u);  // meets a corner exactly
    if (stream.Below(10) == 0) n.a = std::min(-n.l, n.b);
    n.sign = static_cast<double>(stream.Below(3)) - 1;
    if (n.sign > 0) {
      n.l = std::max(n.l, -n.b);
      n.a = std::max(n.a, -n.u);
    } else if (n.sign < 0) {
      n.u = std::min(n.u, -n.a);
      n.b = std::min(n.b, -n.l);
    }
    if (n.l > n.u || n.a > n.b) continue;
    n.cz = RandomFactor(stream), n.cd = RandomFactor(stream);
    n.big_a = RandomFactor(stream), n.big_d = RandomFactor(stream);
    if (stream.Below(4) == 0) n.big_a = n.cz;  // terms that cancel over a whole piece
    if (stream.Below(4) == 0) n.big_d = n.cd;
    return n;
  }
}

// The soundness of every bound of the native engine rests on this.
TEST(FindPeaks, IsTheMaximumOfTheTermOverThePolygon) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "find peaks");
    const auto count = static_cast<std::int64_t>(1 + stream.Below(19));
    PairRanges ranges;
    ranges.Reset(count);
    PairPeaks peaks;
    peaks.Reset(count);
    PaddedArray cz(count), cd(count), big_a(count), big_d(count);
    std::vector<Neuron> neurons;
    for (std::int64_t k = 0; k < count; ++k) {
      const Neuron n = neurons.emplace_back(RandomNeuron(stream));
      ranges.l[k] = n.l, ranges.u[k] = n.u, ranges.a[k] = n.a, ranges.b[k] = n.b;
      ranges.sign[k] = n.sign;
      cz[k] = n.cz, cd[k] = n.cd, big_a[k] = n.big_a, big_d[k] = n.big_d;
    }
    FindPeaks(count, ranges, cz.data(), cd.data(), big_a.data(), big_d.data(), peaks);
    for (std::int64_t k = 0; k < count; ++k) {
      const Neuron& n = neurons[k];
      SCOPED_TRACE(testing::Message() << "z^ in [" << n.l << ", " << n.u << "], d^ in [" << n.a
                                      << ", " << n.b << "], sign " << n.sign << ", cz " << n.cz
                                      << " cd " << n.cd << " A " << n.big_a << " D " << n.big_d);
      const Wide truth = n.BruteForce(stream), rounding = n.Rounding();
      ASSERT_GE(peaks.value[k], truth - rounding) << "UNSOUND";
      ASSERT_LE(peaks.value[k], truth + rounding) << "loose";
      // The pair it names is one of the polygon's, and attains it.
      const double sum = peaks.sum[k], difference = peaks.difference[k];
      ASSERT_TRUE(n.Allows(sum, difference)) << sum << " " << difference;
      ASSERT_LE(std::abs(n.Term(sum, difference) - peaks.value[k]), rounding);
    }
  }
}

TEST(FindPeaks, OfRangesThatArePointsIsTheTermThere) {
  Stream stream(1, "point peaks");
  for (int i = 0; i < 200; ++i) {
    Neuron n = RandomNeuron(stream);
    n.u = n.l, n.b = n.a, n.sign = 0;
    PairRanges ranges;
    ranges.Reset(1);
    ranges.l[0] = ranges.u[0] = n.l;
    ranges.a[0] = ranges.b[0] = n.a;
    PaddedArray cz(1), cd(1), big_a(1), big_d(1);
    cz[0] = n.cz, cd[0] = n.cd, big_a[0] = n.big_a, big_d[0] = n.big_d;
    PairPeaks peaks;
    peaks.Reset(1);
    FindPeaks(1, ranges, cz.data(), cd.data(), big_a.data(), big_d.data(), peaks);
    EXPECT_EQ(peaks.sum[0], n.l);
    EXPECT_EQ(peaks.difference[0], n.a);
    EXPECT_LE(std::abs(n.Term(n.l, n.a) - peaks.value[0]), n.Rounding());
  }
}

// Column j goes into the sum number j % kPad, of two sets in turn, fused; then in one order.
double SumInOrder(std::span<const double> sums) {
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}
double ProductInOrder(const double* a, const double* b, std::int64_t padded) {
  double sums[2][kPad] = {};
  for (std::int64_t j = 0; j < padded; ++j) {
    double& sum = sums[j / kPad % 2][j % kPad];
    sum = std::fma(a[j], b[j], sum);
  }
  for (std::int64_t i = 0; i < kPad; ++i) sums[0][i] += sums[1][i];
  return SumInOrder(sums[0]);
}

TEST_P(Kernels, SumsHaveTheSameBitsOnEveryInstructionSetThatFuses) {
  constexpr std::int64_t kFused[] = {HWY_AVX3, HWY_AVX2, HWY_NEON};
  const std::int64_t all = hwy::SupportedTargets();
  int tried = 0;
  for (const std::int64_t target : kFused) {
    if ((all & target) == 0) continue;
    ++tried;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    Stream stream(9, "kernels", static_cast<std::uint64_t>(GetParam()));
    const std::int64_t rows = Other(), columns = GetParam();
    const PaddedMatrix m = RandomMatrix(rows, columns, stream);
    const PaddedArray v = RandomArray(columns, stream);
    PaddedArray out(rows), value(rows), size(rows), zero(columns);
    AddProduct(m, v.data(), out.data());
    MaximiseOverBox(m, rows, v.data(), zero.data(), zero.data(), value.data(), size.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      EXPECT_EQ(out[r], ProductInOrder(m.row(r), v.data(), m.stride)) << hwy::TargetName(target);
      double sums[kPad] = {};
      for (std::int64_t j = 0; j < m.stride; ++j) {
        sums[j % kPad] = std::fma(m.row(r)[j], v[j], sums[j % kPad]);
      }
      EXPECT_EQ(value[r], SumInOrder(sums)) << hwy::TargetName(target);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  if (tried == 0) GTEST_SKIP() << "no fused multiply-add here";
}

}  // namespace
}  // namespace lucid
