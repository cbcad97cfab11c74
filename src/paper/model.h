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
  // Requires: finite bounds (a safe dual bound needs them), lower <= upper. A tag names what a
  // column or row is in a family of models, so that one model's basis can start another's LP.
  std::int32_t AddColumn(Interval bounds, double cost = 0, std::int64_t tag = kNoTag);
  std::int32_t AddBinary(std::int64_t tag = kNoTag);
  // Requires: columns that exist, each at most once; finite coefficients; lower may be -inf, upper
  // +inf.
  void AddRow(double lower, double upper, std::span<const Term> terms, std::int64_t tag = kNoTag);
  void AddRow(double lower, double upper, std::initializer_list<Term> terms,
              std::int64_t tag = kNoTag) {
    AddRow(lower, upper, std::span<const Term>(terms.begin(), terms.size()), tag);
  }
  static constexpr std::int64_t kNoTag = -1;
  void SetCost(std::int32_t column, double cost) { cost_[column] = cost; }

  std::int32_t columns() const { return static_cast<std::int32_t>(bounds_.size()); }
  std::int32_t rows() const { return static_cast<std::int32_t>(row_bounds_.size()); }
  std::int64_t nonzeros() const { return static_cast<std::int64_t>(terms_.size()); }
  std::span<const Interval> bounds() const { return bounds_; }
  std::span<const double> cost() const { return cost_; }
  std::span<const std::int32_t> binaries() const { return binaries_; }
  std::span<const std::int64_t> column_tags() const { return column_tags_; }
  std::span<const std::int64_t> row_tags() const { return row_tags_; }
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
  std::vector<std::int64_t> column_tags_, row_tags_;
};

// The model in free MPS format, for other solvers (as a minimisation of -cost, which every reader
// understands; columns x0, x1, ..., rows r0, r1, ...). Numbers round-trip exactly.
std::string ToMps(const MilpModel& model);

}  // namespace lucid
