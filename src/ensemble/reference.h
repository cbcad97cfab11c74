// The median confidence of N that declared bounds are a share of.
#pragma once

#include <optional>

#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/nn/network.h"

namespace lucid {

inline constexpr std::int64_t kReferenceInputs = 10'000;

// What DeclaredBounds::reference says of these rows.
std::string ReferenceName(const std::optional<Table>& reference);

// A function of N and public numbers: r times the lower median of N's confidence over `reference`,
// or over kReferenceInputs inputs of the schema's domain that a public hash draws.
DeclaredBounds DeclareBounds(const Network& network, const Schema& schema, double r,
                             const std::optional<Table>& reference);

}  // namespace lucid
