#include "lucid/certify/certify.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "certificate/test_support.h"
#include "lucid/certificate/spatial.h"
#include "lucid/certify/bound_steps.h"
#include "lucid/guard/guard.h"
#include "lucid/guard/member_index.h"
#include "pair/test_support.h"
#include "support/files.h"

namespace lucid {
namespace {

// A run whose networks disagree near a boundary. It was not trained on the data it names.
class CertifyTest : public testing::Test {
 protected:
  static ImportedRun Make() {
    Stream stream(8, "certify test");
    Network network = RandomNetwork(Hidden({{HiddenLayer::Kind::kDense, 5}}, 2, 2), stream);
    Balance(network, stream);
    return {network, RandomMembers(network, 6, 0.05, stream)};
  }
  static CertifyOptions Quick() {
    CertifyOptions options;
    options.bound().threads = 1;
    options.spatial_options.leaves = 8;
    options.spatial_options.least_spared = 0;
    return options;
  }

  const ImportedRun run_ = Make();
  const Ensemble ensemble_ = run_.Open();
};

TEST_F(CertifyTest, WritesAllThatGuardsRead) {
  const auto made = Certify(ensemble_, run_.path(), Quick());
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(made->finished);
  EXPECT_FALSE(made->guided) << "the data of an imported run is not on disk";
  EXPECT_EQ(made->path, run_.path() + "/" + kCertificateFile);
  const auto read = LoadCertificate(made->path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(EncodeCertificate(*read), EncodeCertificate(made->certificate));
  EXPECT_EQ(SpatialBounds::Load(run_.path() + "/" + kSpatialFile).value().digest(),
            read->spatial_digest);
  for (const GuardKind kind : {GuardKind::kScalar, GuardKind::kSpatial, GuardKind::kExact}) {
    GuardOptions options;
    options.guard = kind;
    const auto guard = Guard::Open(run_.path(), options, GuardKey::Random());
    EXPECT_TRUE(guard.ok()) << NameOf(kind) << ": " << guard.error().message;
  }
  const std::string path = run_.path() + "/" + kBoundsFile;
  const auto steps = ParseBoundSteps(ReadBytes(path), path);
  ASSERT_TRUE(steps.ok()) << steps.error().message;
  EXPECT_EQ(steps->back().upper, made->certificate.classes.back().beta_upper);
}

TEST_F(CertifyTest, StillTellsTheCallerHowBoundsChange) {
  CertifyOptions options = Quick();
  int told = 0;
  options.bound().trace = [&](std::int32_t, double, double, double) { ++told; };
  ASSERT_TRUE(Certify(ensemble_, run_.path(), options).ok());
  EXPECT_GT(told, 0);
}

TEST_F(CertifyTest, AnotherFileLeavesTheRunAsItIs) {
  CertifyOptions options = Quick();
  options.index = options.spatial = false;
  const TemporaryFolder folder;
  options.certificate = folder / "mine.json";
  const auto made = Certify(ensemble_, run_.path(), options);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(std::filesystem::exists(folder / "mine.json"));
  for (const char* file : {kCertificateFile, kBoundsFile, kIndexFile, kSpatialFile}) {
    EXPECT_FALSE(std::filesystem::exists(run_.path() + "/" + file)) << file;
  }
}

TEST_F(CertifyTest, AStopLeavesACertificateThatNamesNoFile) {
  std::stop_source source;
  source.request_stop();
  const auto made = Certify(ensemble_, run_.path(), Quick(), {}, source.get_token());
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_FALSE(made->finished);
  const Certificate read = LoadCertificate(made->path).value();
  EXPECT_FALSE(read.index_digest || read.spatial_digest);
}

TEST_F(CertifyTest, RefusesOptionsOfTheEngine) {
  CertifyOptions options = Quick();
  options.bound().gap = -1;
  EXPECT_FALSE(Certify(ensemble_, run_.path(), options).ok());
  EXPECT_FALSE(std::filesystem::exists(run_.path() + "/" + kCertificateFile));
}

}  // namespace
}  // namespace lucid
