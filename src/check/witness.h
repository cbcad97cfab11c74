// What rational arithmetic says about an input of a certificate: facts, for any level of checking.
#pragma once

#include <gmpxx.h>

#include <cstdint>
#include <span>

#include "lucid/check/check.h"

namespace lucid {

// What is true of an input, a class and a member.
struct ExactPoint {
  std::int32_t label = 0;  // N's
  mpq_class f, g;          // margins of the class: N's and the member's
};

// Requires: sizes that CheckSizes takes.
ExactPoint EvaluateExactly(const Ensemble& ensemble, std::span<const float> x, std::int64_t member,
                           std::int32_t label);

// "witness of class c": N's label, f >= beta_lower, f <= beta_upper and g <= 0 there, exactly.
Check CheckWitness(const ClassBound& bound, const Ensemble& ensemble);

// Higher levels rely on what CheckBinding checks; indices out of range would be worse than an
// error. Errors: kMismatch.
Status CheckSizes(const Certificate& certificate, const Ensemble& ensemble);

}  // namespace lucid
