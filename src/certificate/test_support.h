// Certificates and networks for the tests of this folder.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "lucid/certificate/certificate.h"
#include "lucid/data/units.h"
#include "lucid/ensemble/ensemble.h"
#include "numeric/rounding.h"
#include "random/stream.h"
#include "support/files.h"
#include "support/scratch_folder.h"

namespace lucid {

inline Network RandomNetwork(const std::string& architecture, std::uint64_t seed) {
  Network network{Architecture::FromCanonical(architecture).value(), {}};
  Stream stream(seed, "certificate test network");
  for (std::int64_t i = 0; i < network.architecture.parameters(); ++i) {
    network.parameters.push_back(static_cast<float>(stream.Uniform(-1, 1)));
  }
  return network;
}

inline Certificate CertificateFor(const Network& network) {
  Certificate c;
  c.version = "0.1.0";
  c.command = {"lucid", "bound", "run \"quoted\"\n"};
  c.engine = Engine::kMilp;
  c.options = "gap 0.01, seed 3";
  c.rows = 20;
  c.members = 7;
  c.partial = true;
  c.network_error = Evaluator(network).ConfidenceErrorBound();
  c.member_error = 0x1.23456789abcdep-40;
  c.seconds = 1.5;
  for (std::int64_t k = 0; k < network.architecture.classes(); ++k) {
    ClassBound bound;
    bound.label = static_cast<std::int32_t>(k);
    bound.beta_upper = kInfinity;
    c.classes.push_back(bound);
  }
  ClassBound& first = c.classes.front();
  first.beta_upper = 0.75;
  first.beta_lower = 0x1.7ffffffffffffp-1;
  first.status = BoundStatus::kGap;
  first.witness = Witness{
      std::vector<float>(static_cast<std::size_t>(network.architecture.inputs()), 0.1F), 3, 11};
  first.witness->x[0] = std::numeric_limits<float>::denorm_min();
  first.counters = {{"subsets", 12}, {"regions", 5}, {"a/b~c \"d\"", -3}};
  first.seconds = 0.1;
  c.run_key = Sha256Of("key");
  c.schema_digest = Sha256Of("schema");
  c.train_digest = Sha256Of("train");
  c.ensemble_digest = Sha256Of("ensemble");
  c.architecture_digest = Sha256Of(network.architecture.Canonical());
  c.network_digest = network.digest();
  return c;
}

// Random data that the networks of a test need not have been trained on.
inline Dataset AnyDataset(std::int64_t rows, std::int64_t features, std::int64_t classes) {
  std::string schema = "column,kind,offset,divisor,categories\n";
  for (std::int64_t k = 0; k < features; ++k) schema += fmt::format("f{},numeric,0,1,\n", k);
  schema += "label,label,,,";
  for (std::int64_t k = 0; k < classes; ++k) schema += fmt::format("{}c{}", k > 0 ? "|" : "", k);
  Dataset dataset;
  dataset.directory = "made in the test";
  dataset.schema = Schema::Parse(schema + "\n", "schema").value();
  Stream stream(1, "certificate test data");
  dataset.train.features = features;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < features; ++k) {
      dataset.train.x.push_back(static_cast<float>(stream.Uniform()));
    }
    dataset.train.y.push_back(static_cast<std::int32_t>(i % classes));
  }
  dataset.schema_digest = Sha256Of(dataset.schema.Canonical());
  dataset.train_digest = TableDigest(dataset.train);
  dataset.train_order = OrderDigest(TableKeys::Of(dataset.train));
  return dataset;
}

// A run of these networks: N and a member for each row.
class ImportedRun {
 public:
  ImportedRun(const Network& network, const std::vector<Network>& members) {
    std::filesystem::create_directories(folder_ / "members");
    EXPECT_TRUE(SaveNetwork(network, folder_ / "n.safetensors").ok());
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::string path = folder_ / ("members/" + std::to_string(i) + ".safetensors");
      EXPECT_TRUE(SaveNetwork(members[i], path).ok());
    }
    const auto dataset = AnyDataset(static_cast<std::int64_t>(members.size()),
                                    network.architecture.inputs(), network.architecture.classes());
    const auto made = ImportEnsemble(dataset, folder_ / "n.safetensors", folder_ / "members",
                                     {.may_equal = true}, folder_ / "run");
    EXPECT_TRUE(made.ok()) << made.error().message;
  }
  std::string path() const { return folder_ / "run"; }
  Ensemble Open() const { return Ensemble::Open(path()).value(); }

 private:
  TemporaryFolder folder_;
};

// A random network and members near it.
inline ImportedRun RandomRun(const std::string& architecture, std::uint64_t seed, int members,
                             double distance) {
  const Network network = RandomNetwork(architecture, seed);
  std::vector<Network> others;
  Stream stream(seed, "certificate test members");
  for (int i = 0; i < members; ++i) {
    others.push_back(network);
    for (float& p : others.back().parameters) {
      p += static_cast<float>(distance * stream.Uniform(-1, 1));
    }
  }
  return {network, others};
}

// Claims `beta` for every class and nothing else.
inline Certificate Claim(const Ensemble& ensemble, double beta) {
  Certificate c = UnprovedCertificate(ensemble);
  c.engine = Engine::kMilp;
  for (ClassBound& bound : c.classes) bound.beta_upper = beta;
  return c;
}

}  // namespace lucid
