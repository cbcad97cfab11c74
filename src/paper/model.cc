#include "paper/model.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace lucid {

std::int32_t MilpModel::AddColumn(Interval bounds, double cost, std::int64_t tag) {
  bounds_.push_back(bounds);
  cost_.push_back(cost);
  column_tags_.push_back(tag);
  return columns() - 1;
}

std::int32_t MilpModel::AddBinary(std::int64_t tag) {
  binaries_.push_back(AddColumn({0, 1}, 0, tag));
  return binaries_.back();
}

void MilpModel::AddRow(double lower, double upper, std::span<const Term> terms, std::int64_t tag) {
  for (const Term& term : terms) {
    if (term.coefficient != 0) terms_.push_back(term);
  }
  row_start_.push_back(terms_.size());
  row_bounds_.push_back({lower, upper});
  row_tags_.push_back(tag);
}

namespace {

struct Entry {
  std::int32_t row;
  double coefficient;
};

void WriteRows(const MilpModel& model, std::string& text) {
  text += "ROWS\n N cost\n";
  for (std::int32_t i = 0; i < model.rows(); ++i) {
    const auto [lower, upper] = model.RowBounds(i);
    const char kind = lower == upper      ? 'E'
                      : std::isinf(lower) ? (std::isinf(upper) ? 'N' : 'L')
                                          : 'G';
    text += fmt::format(" {} r{}\n", kind, i);
  }
}

void WriteColumns(const MilpModel& model, std::string& text) {
  std::vector<std::vector<Entry>> columns(static_cast<std::size_t>(model.columns()));
  for (std::int32_t i = 0; i < model.rows(); ++i) {
    for (const Term& term : model.Row(i)) columns[term.column].push_back({i, term.coefficient});
  }
  std::vector<char> binary(columns.size(), 0);
  for (const std::int32_t j : model.binaries()) binary[j] = 1;
  text += "COLUMNS\n";
  bool integer = false;
  int markers = 0;
  const auto mark = [&](bool want) {
    if (want == integer) return;
    integer = want;
    text += fmt::format(" M{} 'MARKER' '{}'\n", markers++, want ? "INTORG" : "INTEND");
  };
  for (std::int32_t j = 0; j < model.columns(); ++j) {
    mark(binary[j] != 0);
    text += fmt::format(" x{} cost {}\n", j, -model.cost()[j]);
    for (const Entry& entry : columns[j]) {
      text += fmt::format(" x{} r{} {}\n", j, entry.row, entry.coefficient);
    }
  }
  mark(false);
}

}  // namespace

std::string ToMps(const MilpModel& model) {
  std::string text = "NAME lucid FREE\n";  // CBC takes short lines for fixed format without FREE
  WriteRows(model, text);
  WriteColumns(model, text);
  text += "RHS\n";
  for (std::int32_t i = 0; i < model.rows(); ++i) {
    const auto [lower, upper] = model.RowBounds(i);
    if (std::isinf(lower) && std::isinf(upper)) continue;
    text += fmt::format(" RHS r{} {}\n", i, std::isinf(lower) ? upper : lower);
  }
  text += "RANGES\n";
  for (std::int32_t i = 0; i < model.rows(); ++i) {
    const auto [lower, upper] = model.RowBounds(i);
    // Rounded up, so that the file's feasible set contains the model's.
    if (std::isfinite(lower) && std::isfinite(upper) && lower != upper) {
      text += fmt::format(" RNG r{} {}\n", i, NextUp(upper - lower));
    }
  }
  text += "BOUNDS\n";
  for (std::int32_t j = 0; j < model.columns(); ++j) {
    text += fmt::format(" LO BND x{} {}\n UP BND x{} {}\n", j, model.bounds()[j].lower, j,
                        model.bounds()[j].upper);
  }
  return text + "ENDATA\n";
}

}  // namespace lucid
