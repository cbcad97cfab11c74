// Runs made of networks in memory, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "bounds/test_support.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lucid-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// As many random rows as there are members; nothing was trained on them.
inline Dataset AnyDataset(const Architecture& architecture, std::int64_t rows) {
  std::string schema = "column,kind,offset,divisor,categories\n", labels = "c0";
  for (std::int64_t j = 0; j < architecture.inputs(); ++j) {
    schema += "x" + std::to_string(j) + ",numeric,0,1,\n";
  }
  for (std::int64_t c = 1; c < architecture.classes(); ++c) labels += "|c" + std::to_string(c);
  Dataset dataset;
  dataset.directory = "made in the test";
  dataset.schema = Schema::Parse(schema + "label,label,,," + labels + "\n", "schema").value();
  dataset.train.features = architecture.inputs();
  Stream stream(1, "any data set");
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < architecture.inputs(); ++j) {
      dataset.train.x.push_back(static_cast<float>(stream.Uniform()));
    }
    dataset.train.y.push_back(static_cast<std::int32_t>(i % architecture.classes()));
  }
  dataset.schema_digest = Sha256Of(dataset.schema.Canonical());
  dataset.train_digest = TableDigest(dataset.train);
  dataset.test_digest = TableDigest(dataset.test);
  return dataset;
}

// Imports the networks into FOLDER/NAME and opens that run.
inline Ensemble MakeRun(const TemporaryFolder& folder, const std::string& name,
                        const Network& network, const std::vector<Network>& members) {
  const std::string files = folder / (name + "-files");
  std::filesystem::create_directories(files + "/members");
  EXPECT_TRUE(SaveNetwork(network, files + "/n.safetensors").ok());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string path = files + "/members/" + std::to_string(i) + ".safetensors";
    EXPECT_TRUE(SaveNetwork(members[i], path).ok());
  }
  const Dataset dataset = AnyDataset(network.architecture, std::ssize(members));
  const auto made =
      ImportEnsemble(dataset, files + "/n.safetensors", files + "/members", {}, folder / name);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return Ensemble::Open(folder / name).value();
}

// Moves the output biases so that all classes nearly tie at a random input: most random networks
// have one class only otherwise.
inline void Balance(Network& network, Stream& stream) {
  const Point x = RandomPoint(UnitBox(network.architecture.inputs()), stream);
  const std::vector<Exact> outputs = Evaluate(network, x).pre.back();
  for (std::size_t c = 0; c < outputs.size(); ++c) {
    float& bias = network.parameters[network.architecture.layers().back().bias_at + c];
    bias = OnGrid(bias - static_cast<double>(outputs[c]));
  }
}

}  // namespace lucid
