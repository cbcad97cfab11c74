// The exponential mechanism over labels, in exact integers.
#pragma once

#include <cstdint>
#include <string_view>

#include "lucid/base/result.h"

namespace lucid {

enum class MechanismKind {
  kPaper,  // returns the predicted class with probability e^(eps/2) / (e^(eps/2) + K - 1)
  kKrr,    // k-ary randomised response: e^eps / (e^eps + K - 1), all of eps spent
};
std::string_view NameOf(MechanismKind kind);  // "paper", "krr"
Result<MechanismKind> MechanismNamed(std::string_view name);

// 192 bits of randomness, uniform.
struct Draw {
  std::uint64_t lie = 0;                      // w0
  std::uint64_t pick_high = 0, pick_low = 0;  // w1 = pick_high * 2^64 + pick_low
};

// Immutable, thread-safe.
class Mechanism {
 public:
  // Errors: epsilon negative, NaN or infinite; classes < 2.
  static Result<Mechanism> Create(MechanismKind kind, double epsilon, std::int64_t classes);

  // noised: lie < T ? floor(w1 * K / 2^128) : label, with T = ceil(2^64 K / (e^e' + K - 1)), e' =
  // epsilon / 2 or epsilon, rounded up by MPFR (and up by one more where rounding alone would not
  // make up for picks whose probability is up to 2^-128 below 1/K). T >= 1: epsilon is finite. Not
  // noised: label. One path for both: T is 0.
  // Requires: 0 <= label < classes.
  std::int32_t Answer(std::int32_t label, bool noised, const Draw& draw) const;

  MechanismKind kind() const { return kind_; }
  double epsilon() const { return epsilon_; }  // as claimed
  std::int64_t classes() const { return classes_; }
  // The loss of the integer mechanism itself, rounded upward: at most epsilon (at most epsilon / 2
  // for kPaper, whose normaliser is the same for every data set).
  double EffectiveEpsilon() const { return effective_epsilon_; }
  // Probability that a noised answer is the predicted class, and each other class (nearest double).
  double ProbabilityOfLabel() const { return label_; }
  double ProbabilityOfEachOther() const { return each_other_; }

 private:
  Mechanism() = default;
  MechanismKind kind_ = MechanismKind::kPaper;
  double epsilon_ = 0;
  std::int64_t classes_ = 0;
  bool always_ = false;          // T = 2^64
  std::uint64_t threshold_ = 0;  // T otherwise
  double effective_epsilon_ = 0, label_ = 0, each_other_ = 0;
};

}  // namespace lucid
