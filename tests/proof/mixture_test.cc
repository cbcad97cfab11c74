// Proofs of three classes, whose claims measure N against a mixture of the other classes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "certificate/proof_reader.h"
#include "lucid/check/check.h"
#include "proof/prover.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using Kind = ProofClosing::Kind;

// A file of one record, a closing by lines: with these bytes where `below` or the weights stand.
std::string FileOf(std::uint32_t version, std::uint32_t classes, std::uint8_t kind,
                   const std::vector<std::uint8_t>& below) {
  std::string record;
  PutBytes(record, std::uint8_t{2});
  PutBytes(record, kind);
  PutBytes(record, std::uint32_t{0});  // class
  PutBytes(record, std::uint64_t{0});  // node
  PutBytes(record, std::uint32_t{0});  // member
  PutBytes(record, std::uint32_t{1});  // other
  PutBytes(record, 0.5);
  for (const std::uint8_t byte : below) PutBytes(record, byte);
  PutBytes(record, 1.0);  // lambda
  std::string file = "LUCIDPRF";
  PutBytes(file, version);
  PutBytes(file, classes);
  PutBytes(file, 0.0);
  file.append(64, 'x');
  uLongf size = ::compressBound(record.size());
  std::string packed(size, '\0');
  EXPECT_EQ(::compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                       reinterpret_cast<const Bytef*>(record.data()), record.size()),
            Z_OK);
  PutBytes(file, static_cast<std::uint32_t>(size));
  PutBytes(file, static_cast<std::uint32_t>(record.size()));
  file += packed.substr(0, size);
  for (const std::uint64_t word : {0, 0, 1}) PutBytes(file, word);
  const Digest seal = Sha256Of(file);
  return file.append(reinterpret_cast<const char*>(seal.bytes.data()), seal.bytes.size());
}

TEST(MixedProof, WeightsThatAreNoneAreRefusedByTheReader) {
  constexpr std::uint8_t kLines = 2, kIntervals = 1, kMixed = 0x40;
  const auto problem = [](const std::string& bytes) -> std::string {
    const Result<ProofFile> file = ProofFile::Parse(bytes, "p");
    if (!file.ok()) return file.error().message;
    const auto records = file->ReadBlock(0);
    return records.ok() ? "" : records.error().message;
  };
  const auto weights = [&](const std::vector<std::uint8_t>& bytes) {
    return problem(FileOf(3, 3, kLines | kMixed, bytes));
  };
  EXPECT_EQ(weights({0, 128, 128}), "");
  EXPECT_EQ(weights({0, 1, 255}), "");
  EXPECT_THAT(weights({0, 128, 127}), HasSubstr("weights that add up to 255, not 256"));
  EXPECT_THAT(weights({0, 255, 255}), HasSubstr("weights that add up to 510, not 256"));
  EXPECT_THAT(weights({0, 0, 0}), HasSubstr("weights that add up to 0, not 256"));
  EXPECT_THAT(weights({1, 127, 128}), HasSubstr("a weight of 1 on its own class 0"));
  EXPECT_NE(weights({0, 128, 128, 0}), "") << "a byte too many";
  EXPECT_NE(weights({128, 128}), "") << "a byte too few";
  EXPECT_THAT(problem(FileOf(3, 3, kIntervals | kMixed, {0, 128, 128})), HasSubstr("does not use"));
  // A proof of before there were mixtures is read as it was; it has none.
  EXPECT_EQ(problem(FileOf(2, 3, kLines, {1, 0, 0, 0})), "");
  EXPECT_EQ(problem(FileOf(3, 3, kLines, {1, 0, 0, 0})), "");
  EXPECT_EQ(problem(FileOf(2, 2, kLines, {1, 0, 0, 0})), "");
  EXPECT_THAT(problem(FileOf(2, 3, kLines | kMixed, {0, 128, 128})),
              HasSubstr("weights, which version 2 does not have"));
  EXPECT_THAT(problem(FileOf(3, 2, kLines, {1, 0, 0, 0})),
              HasSubstr("version 3 of 2 classes: not possible"));
  EXPECT_THAT(problem(FileOf(4, 3, kLines, {1, 0, 0, 0})),
              HasSubstr("version 4, this program reads 2 and 3"));
}

// Of relu(x): N_0 = 1/4, N_1 = x - 1/2, N_2 = 1/2 - x. Both members give class 0 nowhere, so
// beta_0 is 1/4, at x = 1/2. No single class shows less than 3/4.
TEST(MixedProof, EveryWeightIsLookedAt) {
  const Network network{Architecture::FromCanonical("1 > dense 1 > 3").value(),
                        {1, 0, 0, 1, -1, 0.25F, -0.5F, 0.5F}};
  Network member = network;
  member.parameters[5] -= 2;
  const ImportedRun run(network, {member, member});
  const Ensemble ensemble = run.Open();
  Certificate certificate = Claim(ensemble, 0);
  certificate.engine = Engine::kNative;
  certificate.member_error = LargestMemberError(ensemble);
  certificate.classes[0].beta_upper = 0.250001;
  for (const int label : {1, 2}) certificate.classes[label].beta_upper = kInfinity;
  const TemporaryFolder folder;
  const auto problem = [&](const auto& spoil) -> std::string {
    LabelledContent content{0, {}};
    for (const std::int32_t of : {0, 1}) {
      for (const std::int32_t other : {1, 2}) {
        ProofClosing closing;
        closing.member = of;
        closing.other = other;
        closing.kind = Kind::kMultipliers;
        closing.weights = {0, 128, 128};
        closing.value = 0.250001;
        closing.multipliers = {0, 0};
        content.content.closings.push_back(closing);
      }
    }
    spoil(content.content.closings[2]);
    WriteProof(folder / "proof", HeaderFor(certificate), {content});
    const CheckReport report = CheckProof(certificate, ensemble, folder / "proof").value();
    return report.FirstProblem() == nullptr ? "" : report.FirstProblem()->detail;
  };
  EXPECT_EQ(problem([](ProofClosing&) {}), "");
  EXPECT_EQ(problem([](ProofClosing& c) { c.kind = Kind::kLines, c.multipliers = {}; }), "");
  for (const std::vector<std::uint8_t>& weights :
       {std::vector<std::uint8_t>{0, 127, 129}, {0, 129, 127}, {0, 255, 1}, {0, 1, 255}}) {
    EXPECT_THAT(problem([&](ProofClosing& c) { c.weights = weights; }),
                HasSubstr("node 0, member 1 against class 1: the bound by multipliers is 0."));
  }
  for (const std::int32_t below : {1, 2}) {
    EXPECT_THAT(problem([&](ProofClosing& c) { c.weights.clear(), c.below = below; }),
                HasSubstr("the bound by multipliers is 0.75"));
  }
}

}  // namespace
}  // namespace lucid
