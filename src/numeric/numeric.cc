// The module is header-only; a static library wants one object file.
#include "numeric/portable_fma.h"
#include "numeric/rounding.h"
