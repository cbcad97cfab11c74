#include "check/witness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/exact.h"

namespace lucid {

ExactPoint EvaluateExactly(const Ensemble& ensemble, std::span<const float> x, std::int64_t member,
                           std::int32_t label) {
  const std::vector<mpq_class> own = ExactLogits(ensemble.network(), x);
  const std::vector<mpq_class> other = ExactLogits(ensemble.Member(member), x);
  return {ExactLabel(own), ExactMargin(own, label), ExactMargin(other, label)};
}

Check CheckWitness(const ClassBound& bound, const Ensemble& ensemble) {
  Check check{fmt::format("witness of class {}", bound.label), Check::Outcome::kPassed, ""};
  if (!bound.witness.has_value()) {
    if (bound.beta_lower > 0) {
      return {check.name, Check::Outcome::kFailed,
              fmt::format("beta_lower is {} but there is no witness", bound.beta_lower)};
    }
    check.detail = "there is none, and beta_lower claims none";
    return check;
  }
  const Witness& witness = *bound.witness;
  const ExactPoint exact = EvaluateExactly(ensemble, witness.x, witness.member, bound.label);
  std::string problem;
  if (exact.label != bound.label) {
    problem = fmt::format("N gives it class {}", exact.label);
  } else if (exact.f < mpq_class(bound.beta_lower)) {
    problem = fmt::format("its confidence is {}, below beta_lower {}", RoundedDown(exact.f),
                          bound.beta_lower);
  } else if (exact.g > 0) {
    problem = fmt::format("member {} gives it the same class (margin {})", witness.member,
                          exact.g.get_d());
  } else if (std::isfinite(bound.beta_upper) && exact.f > mpq_class(bound.beta_upper)) {
    problem = fmt::format("its confidence is {}, above beta_upper {}", RoundedDown(exact.f),
                          bound.beta_upper);
  }
  if (!problem.empty()) return {check.name, Check::Outcome::kFailed, problem};
  check.detail =
      fmt::format("exact confidence {}, member {}", RoundedDown(exact.f), witness.member);
  return check;
}

Status CheckSizes(const Certificate& certificate, const Ensemble& ensemble) {
  const Architecture& architecture = ensemble.network().architecture;
  if (static_cast<std::int64_t>(certificate.classes.size()) != architecture.classes()) {
    return Mismatch(fmt::format("the certificate has {} classes, the run {}",
                                certificate.classes.size(), architecture.classes()));
  }
  for (std::size_t c = 0; c < certificate.classes.size(); ++c) {
    const ClassBound& bound = certificate.classes[c];
    const bool good =
        bound.label == static_cast<std::int32_t>(c) &&
        (!bound.witness.has_value() ||
         (static_cast<std::int64_t>(bound.witness->x.size()) == architecture.inputs() &&
          std::ranges::all_of(bound.witness->x, [](float v) { return std::isfinite(v); }) &&
          bound.witness->member >= 0 && bound.witness->member < ensemble.members()));
    if (!good) return Mismatch(fmt::format("the certificate's class {} does not fit the run", c));
  }
  return Ok();
}

}  // namespace lucid
