#include "lucid/guard/mechanism.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#define MPFR_USE_INTMAX_T
#include <mpfr.h>

namespace lucid {
namespace {

// A number of MPFR. 320 bits hold every integer of this file exactly; what is rounded is rounded
// in the direction that each call names.
class Real {
 public:
  Real() { mpfr_init2(value_, 320); }
  explicit Real(double value) : Real() { mpfr_set_d(value_, value, MPFR_RNDN); }
  ~Real() { mpfr_clear(value_); }
  Real(const Real&) = delete;
  Real& operator=(const Real&) = delete;
  operator mpfr_ptr() { return value_; }

 private:
  mpfr_t value_;
};

// The smallest probability of any pick floor(w1 * K / 2^128): floor(2^128 / K) / 2^128, exactly.
void SmallestPick(std::int64_t classes, Real& out) {
  mpfr_set_ui_2exp(out, 1, 128, MPFR_RNDN);
  mpfr_div_si(out, out, classes, MPFR_RNDD);  // its integer part is exact: it has 128 bits of 320
  mpfr_floor(out, out);
  mpfr_div_2ui(out, out, 128, MPFR_RNDN);
}

// T = ceil(2^64 / (1 + (e^e' - 1) q)), with q the smallest probability of a pick. (With q = 1/K
// this is 2^64 K / (e^e' + K - 1).)
void Threshold(MechanismKind kind, double epsilon, Real& pick, Real& out) {
  Real power(epsilon);
  if (kind == MechanismKind::kPaper) mpfr_div_2ui(power, power, 1, MPFR_RNDD);
  mpfr_expm1(power, power, MPFR_RNDD);  // beyond MPFR's range: its largest number, not infinity
  mpfr_mul(power, power, pick, MPFR_RNDD);
  mpfr_add_ui(power, power, 1, MPFR_RNDD);
  mpfr_ui_div(out, 1, power, MPFR_RNDU);
  mpfr_mul_2ui(out, out, 64, MPFR_RNDU);
  mpfr_ceil(out, out);
}

// The largest log-ratio of the probabilities of one answer j between two labels. It is that of the
// label j to another: (1 - p + p q_j) / (p q_j) = 1 + (1 - p) / (p q_j) with p = T / 2^64, largest
// for the smallest q_j; (between two labels other than j the ratio is 1). The choice of T makes it
// at most e^e': p >= 1 / (1 + (e^e' - 1) q) is the same as 1 + (1 - p) / (p q) <= e^e'.
double Loss(Real& threshold, Real& pick) {
  Real truth;  // (2^64 - T) / (T q)
  mpfr_ui_pow_ui(truth, 2, 64, MPFR_RNDN);
  mpfr_sub(truth, truth, threshold, MPFR_RNDU);
  mpfr_div(truth, truth, threshold, MPFR_RNDU);
  mpfr_div(truth, truth, pick, MPFR_RNDU);
  mpfr_log1p(truth, truth, MPFR_RNDU);
  return mpfr_get_d(truth, MPFR_RNDU);
}

}  // namespace

std::string_view NameOf(MechanismKind kind) {
  return kind == MechanismKind::kPaper ? "paper" : "krr";
}

Result<MechanismKind> MechanismNamed(std::string_view name) {
  for (const MechanismKind kind : {MechanismKind::kPaper, MechanismKind::kKrr}) {
    if (NameOf(kind) == name) return kind;
  }
  return InvalidInput(fmt::format("mechanism '{}' is not one of: paper, krr", name));
}

Result<Mechanism> Mechanism::Create(MechanismKind kind, double epsilon, std::int64_t classes) {
  if (!std::isfinite(epsilon) || epsilon < 0) {
    return InvalidInput(fmt::format("epsilon is {}, must be a finite number >= 0", epsilon));
  }
  if (classes < 2 || classes > std::numeric_limits<std::int32_t>::max()) {
    return InvalidInput(fmt::format("mechanism: {} classes, must be 2 to 2^31 - 1", classes));
  }
  Mechanism mechanism;
  mechanism.kind_ = kind;
  mechanism.epsilon_ = epsilon + 0.0;  // never -0: one epsilon has one spelling
  mechanism.classes_ = classes;
  {
    Real pick, threshold, probability;
    SmallestPick(classes, pick);
    Threshold(kind, epsilon, pick, threshold);
    mechanism.always_ = mpfr_cmp_ui_2exp(threshold, 1, 64) >= 0;
    if (!mechanism.always_) mechanism.threshold_ = mpfr_get_uj(threshold, MPFR_RNDU);
    mechanism.effective_epsilon_ = Loss(threshold, pick);
    mpfr_div_2ui(probability, threshold, 64, MPFR_RNDN);
    mpfr_div_si(probability, probability, classes, MPFR_RNDN);
    mechanism.each_other_ = mpfr_get_d(probability, MPFR_RNDN);
    mpfr_mul_si(probability, probability, classes - 1, MPFR_RNDN);
    mpfr_ui_sub(probability, 1, probability, MPFR_RNDN);
    mechanism.label_ = mpfr_get_d(probability, MPFR_RNDN);
  }
  mpfr_free_cache();  // of this thread, which may never come back
  return mechanism;
}

std::int32_t Mechanism::Answer(std::int32_t label, bool noised, const Draw& draw) const {
  __extension__ using Wide = unsigned __int128;
  const auto classes = static_cast<std::uint64_t>(classes_);
  const Wide low = Wide{draw.pick_low} * classes;
  const Wide high = Wide{draw.pick_high} * classes + (low >> 64);
  const auto pick = static_cast<std::uint32_t>(high >> 64);
  // Bits instead of branches: what was decided may not show in the time it took.
  const std::uint32_t lies =
      static_cast<std::uint32_t>(noised) &
      (static_cast<std::uint32_t>(always_) | static_cast<std::uint32_t>(draw.lie < threshold_));
  const auto truth = static_cast<std::uint32_t>(label);
  return static_cast<std::int32_t>(truth ^ ((truth ^ pick) & (0U - lies)));
}

}  // namespace lucid
