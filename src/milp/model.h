// A mixed-integer linear program as plain data: maximise cost . x subject to lower <= A x <= upper
// and column bounds, some columns binary. Every number means exactly the double it is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "numeric/interval.h"

namespace lucid {

struct Term {
  std::int32_t column;
  double coefficient;
};

class MilpModel {
 public:
  // Requires: finite bounds (a safe dual bound needs them), lower <= upper.
  std::int32_t AddColumn(Interval bounds, double cost = 0);
  std::int32_t AddBinary();
  // Requires: columns that exist, each at most once; finite coefficients; lower may be -inf, upper
  // +inf.
  void AddRow(double lower, double upper, std::span<const Term> terms);
  void AddRow(double lower, double upper, std::initializer_list<Term> terms) {
    AddRow(lower, upper, std::span<const Term>(terms.begin(), terms.size()));
  }
  void SetCost(std::int32_t column, double cost) { cost_[column] = cost; }

  std::int32_t columns() const { return static_cast<std::int32_t>(bounds_.size()); }
  std::int32_t rows() const { return static_cast<std::int32_t>(row_bounds_.size()); }
  std::int64_t nonzeros() const { return static_cast<std::int64_t>(terms_.size()); }
  std::span<const Interval> bounds() const { return bounds_; }
  std::span<const double> cost() const { return cost_; }
  std::span<const std::int32_t> binaries() const { return binaries_; }
  Interval RowBounds(std::int32_t row) const { return row_bounds_[row]; }
  std::span<const Term> Row(std::int32_t row) const {
    return std::span(terms_).subspan(row_start_[row], row_start_[row + 1] - row_start_[row]);
  }

 private:
  std::vector<Interval> bounds_;
  std::vector<double> cost_;
  std::vector<std::int32_t> binaries_;
  std::vector<Interval> row_bounds_;
  std::vector<std::size_t> row_start_ = {0};
  std::vector<Term> terms_;
};

// The model in free MPS format, for other solvers (as a minimisation of -cost, which every reader
// understands; columns x0, x1, ..., rows r0, r1, ...). Numbers round-trip exactly.
std::string ToMps(const MilpModel& model);

}  // namespace lucid
