#include "lucid/fit/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"

namespace lucid {
namespace {

// Whether exactly one unit of the table is at this end of the feature's range.
bool IsLonelyEnd(const Table& table, std::int64_t feature, float end) {
  std::set<std::string> units;
  for (std::int64_t i = 0; i < table.rows() && units.size() < 2; ++i) {
    if (table.row(i)[static_cast<std::size_t>(feature)] != end) continue;
    units.insert(table.has_units() ? table.unit_ids[static_cast<std::size_t>(i)]
                                   : std::to_string(i));
  }
  return units.size() == 1;
}

// The class that most of these have, and how many.
struct Most {
  std::size_t label = 0;
  std::int64_t count = 0;
};
Most MostCommon(const std::vector<std::int32_t>& labels) {
  std::vector<std::int64_t> counts;
  for (const std::int32_t label : labels) {
    const auto at = static_cast<std::size_t>(std::max(label, 0));
    if (at >= counts.size()) counts.resize(at + 1);
    ++counts[at];
  }
  const auto most = std::ranges::max_element(counts);
  return {static_cast<std::size_t>(most - counts.begin()), *most};
}

double Share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::vector<std::string> DataWarnings(const Dataset& dataset, bool is_private) {
  std::vector<std::string> warnings;
  if (is_private && dataset.schema.origin() == SchemaOrigin::kUnmarked) {
    warnings.push_back(
        "schema.csv does not say who decided it, and counts as declared: the promise full does not "
        "hold if it was made by looking at these rows. '# declared = true' as its last line says "
        "that it was not, '# declared = false' that it was");
  }
  std::int64_t feature = 0;
  for (const Column& column : dataset.schema.columns()) {
    for (const float end : {0.0F, 1.0F}) {
      if (column.kind != ColumnKind::kNumeric || !IsLonelyEnd(dataset.train, feature, end))
        continue;
      warnings.push_back(fmt::format(
          "column {}: a single {} is at the {} end of its range: was the range taken from the "
          "data? "
          "A declared one is wider",
          column.name, dataset.train.has_units() ? "unit" : "row", end == 0 ? "lower" : "upper"));
    }
    feature += column.width();
  }
  return warnings;
}

std::vector<std::string> NetworkWarnings(const Network& network, const Dataset& dataset) {
  constexpr double kNearlyAlways = 0.99;
  const bool test = dataset.test.rows() > 0;
  const Table& table = test ? dataset.test : dataset.train;
  if (table.rows() == 0) return {};
  const std::vector<std::string>& names = dataset.schema.label().categories;
  const std::string rows = test ? "test rows" : "training rows";
  const Evaluator evaluator(network);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    labels.push_back(evaluator.Decide(table.row(i)).label);
  }
  std::vector<std::string> warnings;
  const Most said = MostCommon(labels), truth = MostCommon(table.y);
  if (Share(said.count, table.rows()) >= kNearlyAlways &&
      Share(truth.count, table.rows()) < kNearlyAlways) {
    warnings.push_back(fmt::format("N says {} to {:.1f} % of the {}: it learned next to nothing",
                                   Quoted(names[said.label]), 100 * Share(said.count, table.rows()),
                                   rows));
  }
  const double accuracy = Accuracy(evaluator, table);
  if (accuracy <= Share(truth.count, table.rows())) {
    warnings.push_back(fmt::format(
        "N is right on {:.1f} % of the {}; always saying {} would be right on {:.1f} %",
        100 * accuracy, rows, Quoted(names[truth.label]), 100 * Share(truth.count, table.rows())));
  }
  return warnings;
}

}  // namespace lucid
