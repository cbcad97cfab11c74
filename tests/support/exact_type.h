// A floating-point type of 113 bits for oracles: products of two doubles are exact in it.
#pragma once

#include <cfloat>

namespace lucid {

#if LDBL_MANT_DIG == 113
using Exact = long double;  // arm64
#else
__extension__ using Exact = __float128;  // x86-64, where long double has 64 bits
#endif

}  // namespace lucid
