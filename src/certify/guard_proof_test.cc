// The files that guards read have proofs, and the checker takes nothing that these do not show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "base/files.h"
#include "certificate/member_table.h"
#include "certificate/proof_reader.h"
#include "certificate/test_support.h"
#include "lucid/certificate/receipt.h"
#include "lucid/certificate/spatial.h"
#include "lucid/certify/certify.h"
#include "lucid/check/accept.h"
#include "pair/test_support.h"
#include "support/files.h"

namespace lucid {
namespace {

struct Shape {
  const char* name;
  std::vector<HiddenLayer> hidden;
  std::int64_t inputs, classes;
};

class GuardProof : public testing::TestWithParam<Shape> {
 protected:
  static ImportedRun Make(const Shape& shape) {
    Stream stream(21, "guard proof test");
    Network network = RandomNetwork(Hidden(shape.hidden, shape.inputs, shape.classes), stream);
    Balance(network, stream);
    return {network, RandomMembers(network, 5, 0.05, stream)};
  }
  static CertifyOptions Quick() {
    CertifyOptions options;
    options.bound().threads = 1;
    options.bound().gap = 0.5;
    std::get<NativeBoundOptions>(options.engine).attack_climbs = 20;
    options.spatial_options.leaves = 12;
    options.spatial_options.least_spared = 0;
    return options;
  }
  void SetUp() override {
    const auto made = Certify(ensemble_, run_.path(), Quick());
    ASSERT_TRUE(made.ok()) << made.error().message;
    certificate_ = made->certificate;
    ASSERT_TRUE(certificate_.index_proof_digest && certificate_.spatial_proof_digest);
  }

  std::string Path(const char* file) const { return run_.path() + "/" + file; }
  // Empty: accepted; else what is wrong.
  std::string Problem() const {
    const auto report = CheckRun(run_.path(), {.threads = 1});
    EXPECT_TRUE(report.ok()) << report.error().message;
    if (report->accepted()) return "";
    return report->FirstProblem()->name + ": " + report->FirstProblem()->detail;
  }
  // What an attacker would do: the file and the certificate's digest of it.
  void Replace(const char* file, const std::string& bytes, std::optional<Digest>& digest) {
    WriteBytes(Path(file), bytes);
    digest = Sha256Of(bytes);
    ASSERT_TRUE(SaveCertificate(certificate_, Path(kCertificateFile)).ok());
  }

  std::vector<BoxProof> ReadProof(const char* file) const {
    const ProofFile proof = ProofFile::Open(Path(file)).value();
    std::vector<BoxProof> read(static_cast<std::size_t>(proof.header().classes));
    for (std::size_t block = 0; block < proof.blocks(); ++block) {
      const std::vector<ProofRecord> records = proof.ReadBlock(block).value();
      for (const ProofRecord& record : records) {
        if (const auto* split = std::get_if<ProofSplit>(&record.what)) {
          read[record.label].splits.push_back(*split);
        } else {
          read[record.label].claims.push_back(std::get<ProofClosing>(record.what));
        }
      }
    }
    return read;
  }
  void ReplaceProof(const char* file, const std::vector<BoxProof>& proofs,
                    std::optional<Digest>& digest) {
    const auto written = WriteGuardProof(Path(file), certificate_, proofs);
    ASSERT_TRUE(written.ok()) << written.error().message;
    digest = *written;
    ASSERT_TRUE(SaveCertificate(certificate_, Path(kCertificateFile)).ok());
  }
  // Changes each claim in turn, for at most `most` of them. `change` says whether it changed it. A
  // share of the changed proofs may be right: the checker may show a little more than a claim says.
  void ExpectEveryClaimMatters(const char* file, std::optional<Digest>& digest, std::size_t most,
                               const std::function<bool(BoxProof&, std::size_t)>& change,
                               double may_be_right = 0) {
    const std::vector<BoxProof> good = ReadProof(file);
    std::size_t changed = 0, accepted = 0;
    for (std::size_t label = 0; label < good.size(); ++label) {
      const std::size_t step = 1 + good[label].claims.size() / most;
      for (std::size_t i = 0; i < good[label].claims.size(); i += step) {
        std::vector<BoxProof> bad = good;
        if (!change(bad[label], i)) continue;
        ++changed;
        ReplaceProof(file, bad, digest);
        accepted += Problem().empty();
      }
    }
    EXPECT_GT(changed, 0U);
    EXPECT_LE(static_cast<double>(accepted), may_be_right * static_cast<double>(changed)) << file;
    ReplaceProof(file, good, digest);
    EXPECT_EQ(Problem(), "");
  }

  const ImportedRun run_ = Make(GetParam());
  const Ensemble ensemble_ = run_.Open();
  Certificate certificate_;
};

TEST_P(GuardProof, IsAcceptedAndTheReceiptStandsForTheFiles) {
  const std::string path = Path(kCertificateFile);
  EXPECT_EQ(StandingOf(path).value(), Standing::kProved);
  EXPECT_EQ(Problem(), "");
  EXPECT_EQ(StandingOf(path).value(), Standing::kChecked);
  for (auto digest : {&Certificate::index_proof_digest, &Certificate::spatial_proof_digest}) {
    Certificate without = certificate_;
    without.*digest = std::nullopt;
    ASSERT_TRUE(SaveCertificate(without, path).ok());
    EXPECT_EQ(StandingOf(path).value(), Standing::kUnproved);
    EXPECT_NE(Problem(), "") << "a file without a proof";
    EXPECT_EQ(StandingOf(path).value(), Standing::kUnproved);
  }
}

TEST_P(GuardProof, NoBoundOfTheIndexMayBeSmaller) {
  const MemberTable table = ParseMemberTable(ReadBytes(Path(kIndexFile)), "index").value();
  int cut = 0;
  for (std::size_t label = 0; label < table.classes.size(); ++label) {
    for (std::size_t k = 0; k < table.classes[label].order.size(); ++k) {
      std::vector<double> upper(table.classes[label].order.size());
      for (std::size_t i = 0; i < upper.size(); ++i) {
        upper[table.classes[label].order[i]] =
            table.classes[label].upper[i] * (i == k ? 0.99 : 1.0);
      }
      if (table.classes[label].upper[k] == 0) continue;
      MemberTable bad = table;
      bad.classes[label] = Rank(upper);
      Replace(kIndexFile, EncodeMemberTable(bad), certificate_.index_digest);
      EXPECT_EQ(Problem().substr(0, 29), "proof of the index of members");
      ++cut;
    }
  }
  EXPECT_GT(cut, 0);
}

TEST_P(GuardProof, NoBoundOfABoxMayBeSmallerAndNoCutElsewhere) {
  const SpatialBounds bounds = SpatialBounds::Load(Path(kSpatialFile)).value();
  std::vector<SpatialBounds::Tree> trees;
  trees.reserve(static_cast<std::size_t>(bounds.classes()));
  for (std::int32_t c = 0; c < bounds.classes(); ++c) trees.push_back(bounds.tree(c));
  int leaves = 0, cuts = 0;
  for (SpatialBounds::Tree& tree : trees) {
    for (SpatialBounds::Node& node : tree) {
      const SpatialBounds::Node good = node;
      if (good.feature < 0 && good.value == 0) continue;
      // A cut that moves gives one side inputs that its bounds were not shown for; where both sides
      // have the same bound that is no loss.
      node.value *= good.feature < 0 ? 0.99 : 0.9;
      Replace(kSpatialFile, SpatialBounds::Encode(bounds.features(), trees),
              certificate_.spatial_digest);
      const bool refused = Problem().starts_with("proof of the spatial bounds");
      if (good.feature < 0) {
        EXPECT_TRUE(refused) << "box with the bound " << good.value;
        ++leaves;
      } else {
        cuts += refused;
      }
      node = good;
    }
  }
  EXPECT_GT(leaves, 4);
  EXPECT_GT(cuts, 0);
}

TEST_P(GuardProof, NoClaimMayBeSmallerMissingOrOfAnother) {
  const auto cut = [](BoxProof& proof, std::size_t i) {
    ProofClosing& claim = proof.claims[i];
    claim.value *= 0.99;
    return claim.kind != ProofClosing::Kind::kNoInput && claim.value > 1e-6;
  };
  const auto forget = [](BoxProof& proof, std::size_t i) {
    proof.claims.erase(proof.claims.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  };
  const auto swap = [](BoxProof& proof, std::size_t i) {
    ProofClosing& claim = proof.claims[i];
    if (claim.member == ProofClosing::kEveryPair) return false;
    claim.member = claim.member == 0 ? 1 : 0;
    return true;
  };
  ExpectEveryClaimMatters(kIndexProofFile, certificate_.index_proof_digest, 10, cut);
  ExpectEveryClaimMatters(kIndexProofFile, certificate_.index_proof_digest, 10, forget);
  ExpectEveryClaimMatters(kIndexProofFile, certificate_.index_proof_digest, 10, swap);
  ExpectEveryClaimMatters(kSpatialProofFile, certificate_.spatial_proof_digest, 30, cut, 0.2);
}

// Claims of one class are none of another, nor those of a part claims about the whole.
TEST_P(GuardProof, ClassesAndBoxesAreNotMixedUp) {
  const std::vector<BoxProof> good = ReadProof(kIndexProofFile);
  std::vector<BoxProof> swapped = good;
  std::swap(swapped[0], swapped[1]);
  for (std::int32_t label : {0, 1}) {
    for (ProofClosing& claim : swapped[label].claims) {
      if (claim.other == label) claim.other = 1 - label;
      if (claim.below == label || claim.below == claim.other) claim.below = 1 - label;
      if (!claim.weights.empty()) std::swap(claim.weights[0], claim.weights[1]);
    }
  }
  ReplaceProof(kIndexProofFile, swapped, certificate_.index_proof_digest);
  EXPECT_NE(Problem(), "");
  const std::vector<BoxProof> spatial = ReadProof(kSpatialProofFile);
  for (std::size_t label = 0; label < good.size(); ++label) {
    std::vector<BoxProof> bad = good;
    bool changed = false;
    for (ProofClosing& whole : bad[label].claims) {
      const double least = 0.9 * whole.value;
      for (const ProofClosing& box : spatial[label].claims) {
        if (box.node == 0 || box.member != whole.member || box.other != whole.other) continue;
        if (box.value >= least) continue;
        whole = box;
        whole.node = 0;
        changed = true;
        break;
      }
    }
    if (!changed) continue;
    ReplaceProof(kIndexProofFile, bad, certificate_.index_proof_digest);
    EXPECT_NE(Problem(), "") << "claims about boxes for the whole domain, class " << label;
  }
}

TEST_P(GuardProof, EveryByteCounts) {
  EXPECT_EQ(Problem(), "");
  for (const char* file : {kIndexFile, kSpatialFile, kIndexProofFile, kSpatialProofFile}) {
    const std::string good = ReadBytes(Path(file));
    for (std::size_t i = 0; i < good.size(); i += 1 + good.size() / 50) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1);
      WriteBytes(Path(file), bad);
      EXPECT_NE(Problem(), "") << file << ", byte " << i;
    }
    std::filesystem::remove(Path(file));
    EXPECT_NE(Problem(), "") << file << " is gone";
    WriteBytes(Path(file), good);
  }
  EXPECT_EQ(Problem(), "");
}

// Who bounds such a run again gets the proofs, even if no bound changes.
TEST_P(GuardProof, IsAddedToFilesThatHaveNone) {
  Certificate without = certificate_;
  without.index_proof_digest = without.spatial_proof_digest = std::nullopt;
  ASSERT_TRUE(SaveCertificate(without, Path(kCertificateFile)).ok());
  const auto again = Certify(ensemble_, run_.path(), Quick());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(again->certificate.FullyProved());
  EXPECT_EQ(Problem(), "");
}

INSTANTIATE_TEST_SUITE_P(Shapes, GuardProof,
                         testing::Values(Shape{"TwoInputs", {{.units = 5}}, 2, 2},
                                         Shape{"ThreeClasses", {{.units = 4}, {.units = 4}}, 3, 3},
                                         Shape{"NoHiddenLayer", {}, 2, 2},
                                         Shape{"ManyInputs", {{.units = 4}}, 12, 2}),
                         [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace lucid
