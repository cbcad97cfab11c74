// What every bound assumes of the machine's arithmetic. The compiler is asked here; the processor's
// mode, which a library or a caller may have changed, is asked when a program starts and before
// every search.
#pragma once

#include <cfloat>
#include <limits>

#include "lucid/base/result.h"

#if defined(__FAST_MATH__) || defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ != 0
#error "LUCID's bounds do not hold with -ffast-math or -ffinite-math-only"
#endif
#if !defined(FLT_EVAL_METHOD) || FLT_EVAL_METHOD != 0
#error "LUCID's bounds need float and double arithmetic without extra precision (not x87)"
#endif

namespace lucid {

static_assert(std::numeric_limits<double>::is_iec559 && std::numeric_limits<float>::is_iec559);

// kInternal names the assumption that does not hold in this thread: rounding to nearest, and
// subnormal numbers that are neither flushed to zero nor read as zero.
Status CheckFloatingPoint();

}  // namespace lucid
