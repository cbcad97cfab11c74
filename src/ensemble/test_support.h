// A small data set and a folder of runs, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <stop_token>
#include <string>
#include <utility>

#include "lucid/data/dataset.h"
#include "lucid/data/units.h"
#include "lucid/ensemble/ensemble.h"
#include "random/stream.h"
#include "support/scratch_folder.h"

namespace lucid {

inline Dataset SmallDataset(std::int64_t rows = 37) {
  Dataset dataset;
  dataset.directory = "made in the test";
  dataset.schema = Schema::Parse(
                       "column,kind,offset,divisor,categories\n"
                       "a,numeric,0,1,\nb,numeric,0,1,\nc,numeric,0,1,\nlabel,label,,,no|yes\n",
                       "schema")
                       .value();
  Stream stream(1, "small data set");
  for (Table* table : {&dataset.train, &dataset.test}) {
    table->features = 3;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (int k = 0; k < 3; ++k) table->x.push_back(static_cast<float>(stream.Uniform()));
      table->y.push_back(table->x[3 * i] + table->x[3 * i + 1] > 1);
    }
  }
  dataset.schema_digest = Sha256Of(dataset.schema.Canonical());
  dataset.train_digest = TableDigest(dataset.train);
  dataset.train_order = OrderDigest(TableKeys::Of(dataset.train));
  dataset.test_digest = TableDigest(dataset.test);
  return dataset;
}

// Trains runs of the small data set, each in a folder of this test.
class SmallRunsTest : public testing::Test {
 protected:
  std::string Folder(const std::string& name) const { return root_ + "/" + name; }
  Result<TrainSummary> Train(const std::string& name, const EnsembleOptions& options,
                             const ProgressCallback& progress = {},
                             std::stop_token stop = {}) const {
    return TrainEnsemble(dataset_, net_, options, Folder(name), progress, std::move(stop));
  }
  Digest StoreDigest(const std::string& name) const {
    return Sha256OfFile(Folder(name) + "/" + kEnsembleFile).value();
  }

  const std::string root_ = ScratchFolder();
  const Dataset dataset_ = SmallDataset();
  const Architecture net_ = Architecture::FromName("2x7", 3, 2).value();
  EnsembleOptions options_;
};

}  // namespace lucid
