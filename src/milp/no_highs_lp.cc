#include "milp/lp.h"

namespace lucid {

Result<std::unique_ptr<LpSolver>> MakeHighsLp(const MilpModel&) {
  return InvalidInput(
      "this LUCID was built without HiGHS, which the MILP engine needs: run `./dev setup`, then "
      "`./dev build`");
}

}  // namespace lucid
