// Stands in for highs_lp.cc where the part HIGHS is left out.
#include "base/left_out.h"
#include "paper/lp.h"

namespace lucid {

Result<std::unique_ptr<LpSolver>> MakeHighsLp(const MilpModel&) {
  return LeftOut("HiGHS, which the MILP engine needs", "LUCID_HIGHS", "it with `./dev setup`");
}

}  // namespace lucid
