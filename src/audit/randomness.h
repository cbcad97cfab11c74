// Whether coins and noise of a private training look like what the accountant was told. Every test
// is an exact tail or a proved inequality; all tests of an object share one level.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lucid {

// "no" with what was found, or nothing to say.
struct RandomnessVerdict {
  bool holds = true;
  std::int64_t tests = 0;
  std::string worst;  // the least likely thing that was seen, in words
};

// Who was in which step, each independently with probability `rate`: how many in a step, in how
// many steps a unit, how many in two steps in a row, in how many steps a unit and the next one.
class CoinTest {
 public:
  CoinTest(std::int64_t units, double rate);

  // The units of the next step, each once.
  void Add(std::span<const std::int32_t> units_in);
  // Wrongly "no" with probability at most `level`.
  RandomnessVerdict Judge(double level) const;

 private:
  std::int64_t units_;
  double rate_;
  std::vector<std::int64_t> in_step_, in_both_, of_unit_, of_pair_;
  std::vector<char> before_, now_;
};

// Integers of a discrete Gaussian of variance s2, independent of each other: how many lie in each
// of 32 equally likely cells, their variance, and the products of steps 2k and 2k + 1. Requires: s2
// above 2^16, where the discrete and the continuous one differ by nothing that shows.
class NoiseTest {
 public:
  explicit NoiseTest(double s2);

  void Add(std::span<const std::int32_t> noise_of_step);
  RandomnessVerdict Judge(double level) const;

 private:
  double deviation_;
  std::vector<double> edges_;
  std::vector<std::int64_t> cells_;
  std::int64_t count_ = 0, pairs_ = 0, steps_ = 0;
  double squares_ = 0, products_ = 0;  // in units of s2
  std::vector<std::int32_t> before_;
};

}  // namespace lucid
