// Where label-only access to a network of two inputs leaks a row of its training set: a picture of
// the problem that the later certificate answers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

struct LeakMapOptions {
  std::int64_t grid = 160;         // points per axis; both ends of [0,1] are points
  std::int64_t drawn_members = 8;  // the members that differ most from N keep their values
  int threads = 0;                 // 0: all cores

  Status Validate() const;
};

// An input at which N gives `label` and the network trained without `row` gives another one.
struct LeakWitness {
  std::array<float, 2> x{};
  double confidence = 0;  // of N, as computed
  std::int64_t row = 0;   // of the training set, from 0
};

// What was seen where N gives one label. Shares are of grid points or of test rows.
struct ClassLeak {
  std::int32_t label = 0;
  std::string name;
  std::int64_t points = 0;   // of the grid with this label
  std::int64_t leaking = 0;  // of these, those with another label from some member
  std::int64_t test_rows = 0, test_leaking = 0;
  // A lower bound of the paper's beta_c, and where it was seen: N is at least this confident at an
  // input that leaks. Rounding errors of both networks are accounted for. There is no upper bound
  // here: between the points of the grid there may be leaking inputs of larger confidence.
  double beta_lower = 0;
  std::optional<LeakWitness> witness;  // empty: no grid point of this class leaks beyond rounding
  std::int64_t rows_that_matter = 0;  // rows whose removal alone changes a grid point of this class
  std::int64_t strongest_row = -1;    // the row that changes most of them; -1: none does
  std::int64_t strongest_points = 0;  // how many it changes
};

// A member that differs from N, most points first (then by row).
struct RowInfluence {
  std::int64_t member = 0, row = 0;
  std::int64_t points = 0;  // grid points with another label than N's
};

// A function on the grid for every class c: its output minus the largest other output. Positive
// where c is the label. Value of class c at column i (first input), row j (second input):
// values[(c * grid + j) * grid + i].
struct ConfidenceField {
  std::vector<double> values;
};

struct LeakMap {
  std::int64_t grid = 0;
  std::int64_t members = 0, rows = 0;  // members < rows: a partial run, more rows may leak
  std::vector<ClassLeak> classes;
  std::vector<std::int32_t> labels;      // of N, [j * grid + i]
  std::vector<std::int32_t> flips;       // members with another label, same order
  std::vector<double> margin;            // the least of the members' outputs for N's label minus
                                         // their largest other one; <= 0 where the point leaks
  ConfidenceField network;               // N
  std::vector<RowInfluence> influences;  // every member that changes a grid point
  std::vector<ConfidenceField> drawn;    // of the first of `influences`
  std::int64_t test_rows = 0, test_leaking = 0;

  std::int64_t points() const { return grid * grid; }
  std::int64_t leaking() const;
  double Coordinate(std::int64_t i) const {  // of column or row i, exactly what was evaluated
    return static_cast<float>(static_cast<double>(i) / static_cast<double>(grid - 1));
  }
};

// Evaluates N and every member at every grid point of [0,1]^2 and at every test row. The numbers do
// not depend on the number of threads. Memory: some fields of the grid per thread; no more for more
// members. Cost: members * grid^2 forward passes.
// Errors: not two features, a data set that is not the one of the run, options; kInterrupted.
Result<LeakMap> ComputeLeakMap(const Ensemble& ensemble, const Dataset& dataset,
                               const LeakMapOptions& options = {},
                               const ProgressCallback& progress = {}, std::stop_token stop = {});

}  // namespace lucid
