#include "ensemble/reference.h"

#include <algorithm>
#include <cmath>

#include "lucid/data/domain.h"
#include "lucid/data/units.h"
#include "random/stream.h"

namespace lucid {
namespace {

Table InputsOfTheDomain(const Schema& schema) {
  const Domain domain = Domain::OfSchema(schema);
  Stream stream(0, "reference inputs");
  Table table;
  table.features = schema.features();
  std::vector<float> x(static_cast<std::size_t>(table.features));
  for (std::int64_t i = 0; i < kReferenceInputs; ++i) {
    for (float& value : x) value = static_cast<float>(stream.Uniform());
    domain.Project(std::span(x));
    table.x.insert(table.x.end(), x.begin(), x.end());
    table.y.push_back(0);
  }
  return table;
}

}  // namespace

std::string ReferenceName(const std::optional<Table>& reference) {
  return reference ? TableDigest(*reference).Hex() : "domain";
}

DeclaredBounds DeclareBounds(const Network& network, const Schema& schema, double r,
                             const std::optional<Table>& reference) {
  const Table inputs = reference ? *reference : InputsOfTheDomain(schema);
  const Evaluator evaluator(network);
  std::vector<double> confidences;
  for (std::int64_t i = 0; i < inputs.rows(); ++i) {
    confidences.push_back(evaluator.Decide(inputs.row(i)).confidence);
  }
  const bool finite = std::ranges::all_of(confidences, [](double c) { return std::isfinite(c); });
  const auto middle = confidences.begin() + (std::ssize(confidences) - 1) / 2;
  if (finite) std::nth_element(confidences.begin(), middle, confidences.end());
  return {r, finite ? *middle : 0, ReferenceName(reference)};
}

}  // namespace lucid
