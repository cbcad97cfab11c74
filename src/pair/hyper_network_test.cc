#include "pair/hyper_network.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/random_networks.h"

namespace lucid {
namespace {

Architecture Small() { return Architecture::FromName("2x3", 2, 2).value(); }

TEST(HyperNetwork, OfOneNetworkIsThatNetwork) {
  Stream stream(1, "one network");
  const Network network = RandomNetwork(Small(), stream);
  const HyperNetwork hyper(network);
  EXPECT_TRUE(std::ranges::equal(hyper.lower(), network.parameters));
  EXPECT_TRUE(std::ranges::equal(hyper.upper(), network.parameters));
  EXPECT_TRUE(hyper.Contains(network.parameters));
  EXPECT_EQ(hyper.architecture(), network.architecture);
}

TEST(HyperNetwork, ContainsEveryMemberAndTouchesOneAtEveryEnd) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "hyper-network");
    const Network network = RandomNetwork(Small(), stream);
    const MemoryMembers members(RandomMembers(network, 6, 0.5, stream));
    const Subset subset = {0, 2, 3, 5};
    const HyperNetwork hyper = HyperNetwork::Of(members, subset);
    for (const std::int32_t member : subset) {
      EXPECT_TRUE(hyper.Contains(members.Member(member).parameters));
    }
    for (std::size_t i = 0; i < hyper.lower().size(); ++i) {
      // Definition 5.1: the smallest and the largest of the members, neither more nor less.
      const auto value = [&](std::int32_t member) { return members.Member(member).parameters[i]; };
      EXPECT_EQ(hyper.lower()[i], value(*std::ranges::min_element(subset, {}, value)));
      EXPECT_EQ(hyper.upper()[i], value(*std::ranges::max_element(subset, {}, value)));
    }
  }
}

TEST(HyperNetwork, GrowsOneMemberAtATime) {
  Stream stream(2, "incremental");
  const MemoryMembers members(RandomMembers(RandomNetwork(Small(), stream), 5, 0.5, stream));
  HyperNetwork grown(members.Member(4));
  for (const std::int32_t member : {3, 1, 0, 2}) {
    EXPECT_FALSE(grown.Contains(members.Member(member).parameters));
    grown.Include(members.Member(member).parameters);
    EXPECT_TRUE(grown.Contains(members.Member(member).parameters));
  }
  const HyperNetwork at_once = HyperNetwork::Of(members, Everyone(members));
  EXPECT_TRUE(std::ranges::equal(grown.lower(), at_once.lower()));
  EXPECT_TRUE(std::ranges::equal(grown.upper(), at_once.upper()));
}

TEST(HyperNetwork, ContainsNothingOutside) {
  Stream stream(3, "outside");
  const Network network = RandomNetwork(Small(), stream);
  const HyperNetwork hyper(network);
  for (std::size_t i = 0; i < network.parameters.size(); ++i) {
    for (const float direction : {-1.0F, 1.0F}) {
      std::vector<float> moved = network.parameters;
      moved[i] = std::nextafter(moved[i], 10 * direction);  // one float further
      EXPECT_FALSE(hyper.Contains(moved));
    }
  }
  std::vector<float> bad = network.parameters;
  bad[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(hyper.Contains(bad));
  EXPECT_FALSE(hyper.Contains(std::span(network.parameters).first(3))) << "another architecture";
}

TEST(Members, MemberIsTheNetworkGiven) {
  Stream stream(4, "members");
  const std::vector<Network> networks =
      RandomMembers(RandomNetwork(Small(), stream), 3, 0.5, stream);
  const MemoryMembers members(networks);
  EXPECT_EQ(members.count(), 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(members.Member(i).parameters, networks[static_cast<std::size_t>(i)].parameters);
    EXPECT_EQ(members.Member(i).architecture, members.architecture());
  }
}

}  // namespace
}  // namespace lucid
