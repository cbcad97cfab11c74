// What the tests of this module share: small trained runs.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files.h"
#include "lucid/data/dataset.h"
#include "lucid/data/synthetic.h"
#include "lucid/ensemble/ensemble.h"
#include "support/scratch_folder.h"

namespace lucid {

struct SmallRun {
  Dataset dataset;
  Ensemble ensemble;
};

// Trains every leave-one-out network of the data set in `data` into `run`.
inline SmallRun TrainRun(const std::string& data, const std::string& run,
                         std::int64_t members = 0) {
  Dataset dataset = LoadDataset(data).value();
  EnsembleOptions options;
  options.train.epochs = 40;
  options.train.batch = 8;
  options.train.rate = 0.5;
  options.members = members;
  options.threads = 1;
  options.command = {"lucid", "train", "<&>"};
  const Architecture architecture =
      Architecture::FromName("1x8", dataset.features(), dataset.classes()).value();
  TrainEnsemble(dataset, architecture, options, run).value();
  return {std::move(dataset), Ensemble::Open(run).value()};
}

// The built-in data, few rows, much overlap: single rows matter.
inline SmallRun SyntheticRun(const std::string& folder, std::int64_t members = 0) {
  Synthetic2dOptions options;
  options.rows = 24;
  options.overlap = 0.3;
  EXPECT_TRUE(WriteSynthetic2d(folder + "/data", options).ok());
  return TrainRun(folder + "/data", folder + "/run", members);
}

// Three classes with names that try to leave their place in a page, split by two slanted lines.
inline SmallRun HostileRun(const std::string& folder) {
  std::string rows = "a<i>b,x'2,label\n";
  for (int i = 0; i < 30; ++i) {
    const double x = i * 37 % 30 / 29.0, y = i * 53 % 31 / 30.0;
    rows += std::to_string(x) + "," + std::to_string(y) + "," +
            std::to_string(x + y < 0.7   ? 0
                           : x + y < 1.3 ? 1
                                         : 2) +
            "\n";
  }
  std::filesystem::create_directories(folder + "/data");
  EXPECT_TRUE(WriteFileAtomically(folder + "/data/schema.csv",
                                  "column,kind,offset,divisor,categories\n"
                                  "a<i>b,numeric,0,1,\n"
                                  "x'2,numeric,0,1,\n"
                                  "label,label,,,</title><script>alert(1)</script>|&amp;|plain\n")
                  .ok());
  EXPECT_TRUE(WriteFileAtomically(folder + "/data/train.csv", rows).ok());
  return TrainRun(folder + "/data", folder + "/run");
}

}  // namespace lucid
