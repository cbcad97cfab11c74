// The same bits everywhere: digests of trained weights, of bounds and of proofs, made once and kept
// in digests.txt, must come out of every machine. `./dev golden` writes the file anew after a
// change that is meant to change bits; `./dev arm64` runs this test for another processor.
#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "base/files.h"
#include "base/hasher.h"
#include "base/number_text.h"
#include "certificate/proof_format.h"
#include "lucid/data/dataset.h"
#include "lucid/data/units.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/native/bound.h"
#include "random/stream.h"
#include "support/scratch_folder.h"

namespace lucid {
namespace {

constexpr const char* kTable = LUCID_GOLDEN_TABLE;

// Rows of `inputs` random numbers; the class follows from the sum of the first two.
Dataset MadeUp(std::int64_t rows, std::int64_t inputs, std::int64_t classes) {
  Dataset dataset;
  dataset.directory = "made in the test";
  std::string schema = "column,kind,offset,divisor,categories\n";
  for (std::int64_t k = 0; k < inputs; ++k) {
    schema += "x" + std::to_string(k) + ",numeric,0,1,\n";
  }
  schema += "label,label,,,0";
  for (std::int64_t c = 1; c < classes; ++c) schema += "|" + std::to_string(c);
  dataset.schema = Schema::Parse(schema + "\n", "schema").value();
  Stream stream(3, "golden");
  for (Table* table : {&dataset.train, &dataset.test}) {
    table->features = inputs;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < inputs; ++k) {
        table->x.push_back(static_cast<float>(stream.Uniform()));
      }
      const float sum = table->x[inputs * i] + table->x[inputs * i + 1];
      table->y.push_back(std::min(static_cast<std::int32_t>(sum * static_cast<float>(classes) / 2),
                                  static_cast<std::int32_t>(classes - 1)));
    }
  }
  dataset.schema_digest = Sha256Of(dataset.schema.Canonical());
  dataset.train_digest = TableDigest(dataset.train);
  dataset.train_order = OrderDigest(TableKeys::Of(dataset.train));
  dataset.test_digest = TableDigest(dataset.test);
  return dataset;
}

class Golden : public testing::Test {
 protected:
  Golden() {
    std::ifstream file(kTable);
    for (std::string name, digest; file >> name >> digest;) table_[name] = digest;
  }

  // Compares, or with LUCID_GOLDEN_WRITE in the environment writes, one line of the table.
  void Expect(const std::string& name, const Digest& found) {
    if (std::getenv("LUCID_GOLDEN_WRITE") == nullptr) {
      EXPECT_EQ(table_[name], found.Hex())
          << name << ": if bits were meant to change: ./dev golden";
      return;
    }
    table_[name] = found.Hex();
    std::ofstream file(kTable);
    for (const auto& [key, digest] : table_) file << key << " " << digest << "\n";
  }

  Ensemble Train(const Dataset& data, const std::string& architecture, TrainOptions options,
                 std::int64_t epochs = 6) {
    options.epochs = epochs;
    options.batch = 8;
    options.seed = 7;
    const std::string run = folder_ / ("run" + std::to_string(runs_++));
    const Architecture shape =
        Architecture::FromName(architecture, data.train.features, data.schema.classes()).value();
    const bool is_private = options.method == TrainOptions::Method::kPrivate;
    if (is_private) options.expected_rows = data.train.rows();
    EXPECT_TRUE(TrainEnsemble(data, shape,
                              {.train = options, .seeded_noise = is_private, .threads = 1}, run)
                    .ok());
    return Ensemble::Open(run).value();
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> table_;
  int runs_ = 0;
};

Digest WeightsOf(const Ensemble& ensemble) {
  Hasher hasher;
  hasher.Bytes(std::as_bytes(std::span(ensemble.network().parameters)));
  for (std::int64_t i = 0; i < ensemble.members(); ++i) {
    const Network member = ensemble.Member(i);
    hasher.Bytes(std::as_bytes(std::span(member.parameters)));
  }
  return hasher.Finish();
}

// What is claimed and shown: no times, counters or names of files.
Digest ClaimsOf(const Certificate& certificate) {
  std::string text = HexText(certificate.network_error) + " " + HexText(certificate.member_error);
  for (const ClassBound& bound : certificate.classes) {
    text += "\n" + HexText(bound.beta_upper) + " " + HexText(bound.beta_lower);
    if (!bound.witness) continue;
    text += " member " + std::to_string(bound.witness->member);
    for (const float x : bound.witness->x) text += " " + HexText(x);
  }
  return Sha256Of(text);
}

// The proof's records as they were before they were packed: zlib is free to pack them otherwise.
Digest RecordsOf(const std::string& path) {
  const std::string file = ReadTextFile(path, std::uint64_t{1} << 30).value();
  Hasher hasher;
  for (std::size_t at = proof_format::kHeaderBytes;;) {
    std::uint32_t sizes[2] = {};  // packed and raw
    std::memcpy(sizes, file.data() + at, sizeof sizes);
    at += proof_format::kBlockHeader;
    if (sizes[0] == 0) return hasher.Finish();
    std::string raw(sizes[1], '\0');
    uLongf size = raw.size();
    EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(raw.data()), &size,
                         reinterpret_cast<const Bytef*>(file.data() + at), sizes[0]),
              Z_OK);
    hasher.Bytes(std::as_bytes(std::span(raw)));
    at += sizes[0];
  }
}

TEST_F(Golden, TrainedWeights) {
  struct Case {
    const char* architecture;
    std::int64_t inputs, classes;
  };
  constexpr Case kCases[] = {{"2x50", 5, 2}, {"4x30", 3, 2}, {"3x8", 7, 3}, {"conv", 12, 2}};
  for (const auto& [architecture, inputs, classes] : kCases) {
    const Dataset data = MadeUp(30, inputs, classes);
    for (const std::string preset : {"paper", "stable", "clipped", "private"}) {
      const Ensemble ensemble = Train(data, architecture, TrainOptions::Preset(preset).value());
      Expect("weights/" + std::string(architecture) + "/" + preset, WeightsOf(ensemble));
    }
    TrainOptions momentum;
    momentum.momentum = 0.9;
    momentum.average_epochs = 2;
    Expect("weights/" + std::string(architecture) + "/momentum",
           WeightsOf(Train(data, architecture, momentum)));
  }
}

// Multiplications and additions of the bounds are fused where the processor can: one without that
// finds bounds that are as valid, and differ in their last bits.
TEST_F(Golden, BoundsAndProofs) {
  if ((hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3 | HWY_NEON)) == 0) {
    GTEST_SKIP() << "no fused multiply-add here";
  }
  struct Case {
    const char* architecture;
    std::int64_t inputs;
  };
  for (const auto& [architecture, inputs] : {Case{"2x10", 2}, Case{"3x6", 3}}) {
    const Ensemble ensemble = Train(MadeUp(20, inputs, 2), architecture, {}, 60);
    for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_NEON}) {
      hwy::SetSupportedTargetsForTest(0);
      if ((hwy::SupportedTargets() & target) == 0) continue;
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      SCOPED_TRACE(hwy::TargetName(target));
      NativeBoundOptions options;
      options.common.threads = 1;
      options.common.gap = 0.05;
      options.common.time_limit = 60;
      options.proof = folder_ / "proof";
      const Certificate certificate = ComputeBounds(ensemble, options).value();
      EXPECT_TRUE(options.common.Finished(certificate));
      double leak = 0;  // of something, so that there is something to bound
      for (const ClassBound& bound : certificate.classes) leak = std::max(leak, bound.beta_lower);
      EXPECT_GT(leak, 0);
      Expect("certificate/" + std::string(architecture), ClaimsOf(certificate));
      Expect("proof/" + std::string(architecture), RecordsOf(options.proof));
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace
}  // namespace lucid
