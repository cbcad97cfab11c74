#include "lucid/nn/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/files.h"
#include "random/stream.h"
#include "support/scratch_folder.h"

namespace lucid {
namespace {

Network Sample(const char* name = "conv") {
  Network network{Architecture::FromName(name, 9, 3).value(), {}};
  Stream stream(1, "sample");
  for (std::int64_t i = 0; i < network.architecture.parameters(); ++i) {
    network.parameters.push_back(static_cast<float>(stream.Normal()));
  }
  return network;
}

std::string Path(const char* name) {
  static const std::string folder = ScratchFolder();
  return folder + "/" + name;
}

TEST(Network, SavedAndLoadedIsTheSameToTheBit) {
  for (const char* name : {"conv", "2x50", "0x1"}) {
    const Network network = Sample(name);
    ASSERT_TRUE(SaveNetwork(network, Path(name)).ok());
    const auto loaded = LoadNetwork(Path(name));
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(loaded->parameters, network.parameters);
    EXPECT_EQ(loaded->digest(), network.digest());
  }
}

TEST(Network, DigestSeesEveryParameterAndTheShape) {
  const Network network = Sample("2x50");
  Network other = network;
  other.parameters.back() = std::nextafter(other.parameters.back(), 10.0f);
  EXPECT_NE(other.digest(), network.digest());
}

TEST(Network, WeightsThatAreNotFiniteAreRefused) {
  Network network = Sample();
  network.parameters[3] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(SaveNetwork(network, Path("nan")).ok());
  EXPECT_THAT(LoadNetwork(Path("nan")).error().message, testing::HasSubstr("not finite"));
}

TEST(Network, EveryTruncationIsRefused) {
  ASSERT_TRUE(SaveNetwork(Sample(), Path("whole")).ok());
  const std::string whole = ReadTextFile(Path("whole")).value();
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    ASSERT_TRUE(WriteFileAtomically(Path("cut"), whole.substr(0, size)).ok());
    EXPECT_FALSE(LoadNetwork(Path("cut")).ok()) << size;
  }
}

TEST(Network, HeaderOfAnotherShapeIsRefused) {
  ASSERT_TRUE(SaveNetwork(Sample("2x50"), Path("shape")).ok());
  std::string bytes = ReadTextFile(Path("shape")).value();
  const std::size_t at = bytes.find("9 > dense 50 > dense 50 > 3");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 27, "9 > dense 50 > dense 51 > 3");
  ASSERT_TRUE(WriteFileAtomically(Path("shape"), bytes).ok());
  EXPECT_FALSE(LoadNetwork(Path("shape")).ok());
}

}  // namespace
}  // namespace lucid
