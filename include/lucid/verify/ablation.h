// The paper's ablation study (Table 4) on any run: what each part of LUCID-Compute is worth.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/data/dataset.h"
#include "lucid/verify/bound.h"

namespace lucid {

struct AblationOptions {
  std::vector<Variant> variants = {std::begin(kVariants), std::end(kVariants)};
  // Of every variant (which replaces bound.variant); bound.class_limit is the time per variant and
  // class.
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
  // Expected share of right answers of the scalar guard on the test rows, for eps = 0 and 1; NaN
  // without test rows.
  double accuracy_0 = 0, accuracy_1 = 0;
};

// Errors: as ComputeBoundsByMilp. A stop ends it with the rows that are done.
Result<std::vector<AblationRow>> RunAblation(const Ensemble& ensemble, const Table* test,
                                             const AblationOptions& options,
                                             const ProgressCallback& progress = {},
                                             std::stop_token stop = {});

// The expected share of right answers when inputs whose confidence is not above the certificate's
// bound (floating-point slack included) are answered by the paper's exponential mechanism:
// P(predicted class) = e^(eps/2) / (e^(eps/2) + K - 1), the other classes share the rest.
double ExpectedAccuracy(const Evaluator& network, const Certificate& certificate, const Table& test,
                        double epsilon);

}  // namespace lucid
