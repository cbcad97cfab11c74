#include "numeric/floating_point.h"

#include <cfenv>
#include <string>

namespace lucid {

Status CheckFloatingPoint() {
  const auto refuse = [](const char* what) {
    return InternalError(std::string("this processor's floating-point mode is not the one that "
                                     "bounds are proved for: ") +
                         what);
  };
  // `volatile` keeps the compiler from computing these.
  volatile double one = 1, tiny = 0x1p-60;
  const bool nearest = one + tiny == 1 && -one - tiny == -1 && one - tiny == 1;
  if (std::fegetround() != FE_TONEAREST || !nearest) return refuse("it does not round to nearest");
  volatile double smallest = std::numeric_limits<double>::min();
  volatile float smallest_float = std::numeric_limits<float>::min();
  if (smallest / 2 == 0 || smallest_float / 2 == 0) return refuse("subnormal results become zero");
  volatile double subnormal = std::numeric_limits<double>::denorm_min();
  volatile float subnormal_float = std::numeric_limits<float>::denorm_min();
  volatile double large = 0x1p1000;
  volatile float large_float = 0x1p100F;
  if (subnormal * large == 0 || subnormal_float * large_float == 0) {
    return refuse("subnormal operands are read as zero");
  }
  return Ok();
}

}  // namespace lucid
