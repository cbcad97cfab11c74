// Hand-made and random problems for the tests of this folder and of tests/soundness.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "pair/test_support.h"
#include "paper/milp_bound.h"

namespace lucid {

// One class on the unit box, without an attack unless something is known already, on one thread.
inline Result<ClassBound> BoundOf(const Network& network, const Members& members,
                                  std::int32_t label, const MilpBoundOptions& options,
                                  const AttackResult& known = {}) {
  const NetworkFacts facts = FactsOf(network, UnitBox(network.architecture.inputs()));
  const double error = LargestError(members, 1).value();
  return BoundClassByMilp({members, facts, options, error}, label, known,
                          std::chrono::steady_clock::time_point::max(), {});
}

}  // namespace lucid
