// Sound bounds for a MemberIndex that need no search: loose, for tests and benchmarks, and for
// whoever has nothing better.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "bounds/difference.h"
#include "lucid/ensemble/ensemble.h"
#include "numeric/rounding.h"

namespace lucid {

inline double LargestMemberError(const Ensemble& ensemble) {
  double largest = 0;
  for (std::int64_t i = 0; i < ensemble.members(); ++i) {
    largest = std::max(largest, Evaluator(ensemble.Member(i)).ConfidenceErrorBound());
  }
  return largest;
}

// U[class][member]. Let D_k in [l_k, u_k] be output k of the member minus that of N, on [0,1]^d.
// For every other class k the member has
//   M_c - M_k = (N_c - N_k) + (D_c - D_k) >= f + (l_c - u_k),
// so g >= f - max_k (u_k - l_c), and g <= member_error implies f <= member_error + max_k (u_k -
// l_c). That number, rounded up, is U.
inline std::vector<std::vector<double>> DifferenceUpper(const Ensemble& ensemble,
                                                        double member_error) {
  const Network& network = ensemble.network();
  const auto classes = static_cast<std::size_t>(network.architecture.classes());
  const NeuronBounds bounds =
      LinearBounds(HyperNetwork(network), UnitBox(network.architecture.inputs()));
  std::vector<std::vector<double>> upper(classes);
  for (std::int64_t i = 0; i < ensemble.members(); ++i) {
    const DifferenceBounds differences =
        PropagateDifferences(network, HyperNetwork(ensemble.Member(i)), bounds);
    const std::vector<Interval>& outputs = differences.post.back();
    for (std::size_t c = 0; c < classes; ++c) {
      double most = -std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < classes; ++k) {
        if (k != c) most = std::max(most, SumUp(outputs[k].upper, -outputs[c].lower));
      }
      upper[c].push_back(SumUp(member_error, most));
    }
  }
  return upper;
}

}  // namespace lucid
