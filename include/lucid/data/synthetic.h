// The two-dimensional data set of the paper's illustration, generated.
#pragma once

#include <cstdint>
#include <string>

#include "lucid/base/result.h"

namespace lucid {

struct Synthetic2dOptions {
  std::int64_t rows = 7000;    // training rows; the paper's illustration has 7,000
  std::int64_t test_rows = 0;  // 0: three for every seven training rows (a 70/30 split)
  std::uint64_t seed = 0;
  double overlap = 0.06;   // half width of the band around the boundary where classes mix
  bool overwrite = false;  // replace a data set that is already in the folder

  Status Validate() const;
};

// Points uniform in [0,1]^2; class 1 above an S-shaped cubic through the middle, class 0 below. A
// triangular noise of half width `overlap` moves each point before it is labelled, so about a third
// of `overlap` of the labels disagree with the curve and single rows matter near it.
// Ensures: DIR holds schema.csv, train.csv and test.csv, which depend on the options only, on every
// machine (the labels are computed without any transcendental function); or an error and no half
// set.
Status WriteSynthetic2d(const std::string& directory, const Synthetic2dOptions& options);

}  // namespace lucid
