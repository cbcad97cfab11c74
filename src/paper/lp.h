// The seam to the linear-programming solver. What comes back is advice: nothing in it is trusted
// before SafeUpperBound or ProvesInfeasible has confirmed it.
#pragma once

#include <memory>
#include <vector>

#include "lucid/base/result.h"
#include "paper/model.h"

namespace lucid {

struct LpAdvice {
  enum class Kind {
    kOptimal,     // point and multipliers
    kInfeasible,  // multipliers are a Farkas ray
    kFailed,      // time, iterations or numbers ran out; multipliers may still be there
  };
  Kind kind = Kind::kFailed;
  std::vector<double> point;        // of the columns
  std::vector<double> multipliers;  // of the rows, signed as in SafeUpperBound
  std::int64_t iterations = 0;
};

// A status per column, then per row.
using LpBasis = std::vector<std::uint8_t>;

// A basis that remembers the tags of its model (see MilpModel), to start a related model's LP from.
struct TaggedBasis {
  std::vector<std::pair<std::int64_t, std::uint8_t>> columns, rows;  // sorted by tag
};
TaggedBasis WithTags(const LpBasis& basis, const MilpModel& model);
// What has no counterpart is nonbasic (a column) or basic (a row); solvers repair the rest.
LpBasis Translate(const TaggedBasis& basis, const MilpModel& model);

// The LP relaxation of one model, solved again and again with other column bounds, each time from
// the last basis. Not thread-safe.
class LpSolver {
 public:
  virtual ~LpSolver() = default;
  virtual void SetBounds(std::int32_t column, Interval bounds) = 0;
  virtual void SetCost(std::int32_t column, double cost) = 0;
  // Stops trying after about `seconds`, or after so many simplex iterations.
  virtual LpAdvice Maximise(double seconds, std::int32_t iterations = kManyIterations) = 0;
  static constexpr std::int32_t kManyIterations = 1'000'000'000;
  // Where the last Maximise ended, to start another one from. Opaque; of this solver only.
  virtual LpBasis Basis() const = 0;
  virtual void StartFrom(const LpBasis& basis) = 0;
};

// HiGHS's dual simplex. Errors: a model that HiGHS refuses; a LUCID that was built without HiGHS.
Result<std::unique_ptr<LpSolver>> MakeHighsLp(const MilpModel& model);

// Never solves anything: every bound stays as loose as the column bounds make it.
std::unique_ptr<LpSolver> MakeNullLp();

}  // namespace lucid
