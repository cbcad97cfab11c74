// A small data set for the tests of this folder.
#pragma once

#include "lucid/data/dataset.h"
#include "lucid/data/units.h"
#include "random/stream.h"

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

}  // namespace lucid
