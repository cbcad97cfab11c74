// The paper's ablation study (Table 4) on any run: what each part of LUCID-Compute is worth.
#pragma once

#include <limits>
#include <stop_token>
#include <string>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/paper/bound.h"

namespace lucid {

struct AblationOptions {
  std::vector<Variant> variants = {std::begin(kVariants), std::end(kVariants)};
  // What every variant is run with (each replaces bound.variant); bound.class_limit is the time per
  // variant and class.
  MilpBoundOptions bound;
  // Folder for a certificate per variant. With bound.resume, variants whose certificate is there,
  // made with the same options of the same run, are not computed again.
  std::string folder;
};

struct AblationRow {
  Variant variant = Variant::kFull;
  Certificate certificate;
  // Seconds until the proved bound of each class was at or below H's final one; NaN: never, or H
  // was not run, or the row was read from a certificate. How fast a variant is even where all of
  // them run into the time limit.
  std::vector<double> seconds_to_h;
  // The share of right answers that the scalar guard is expected to give on test rows, for eps = 0
  // and 1. NaN unless somebody measures it: see ScalarAccuracy.
  double accuracy_0 = std::numeric_limits<double>::quiet_NaN(), accuracy_1 = accuracy_0;
};

// Errors: as ComputeBoundsByMilp. A stop ends it with the rows that are done.
Result<std::vector<AblationRow>> RunAblation(const Ensemble& ensemble,
                                             const AblationOptions& options,
                                             const ProgressCallback& progress = {},
                                             std::stop_token stop = {});

}  // namespace lucid
