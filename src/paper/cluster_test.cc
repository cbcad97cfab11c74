#include "paper/cluster.h"

#include <gtest/gtest.h>

#include <set>

#include "support/random_networks.h"

namespace lucid {
namespace {

Architecture Small() { return Architecture::FromName("1x4", 3, 2).value(); }

// `sizes[i]` members within `spread` of the i-th of some random networks, in turn.
MemoryMembers Planted(std::vector<int> sizes, double spread, Stream& stream,
                      std::vector<int>* truth = nullptr) {
  std::vector<Network> centres;
  for (std::size_t i = 0; i < sizes.size(); ++i) centres.push_back(RandomNetwork(Small(), stream));
  std::vector<Network> networks;
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i]-- <= 0) continue;
      more = true;
      networks.push_back(NearTo(centres[i], spread, stream));
      if (truth != nullptr) truth->push_back(static_cast<int>(i));
    }
  }
  return MemoryMembers(std::move(networks));
}

void ExpectPartition(const std::vector<Subset>& parts, const Subset& subset) {
  EXPECT_GE(parts.size(), 2);
  Subset all;
  for (const Subset& part : parts) {
    EXPECT_FALSE(part.empty());
    EXPECT_TRUE(std::ranges::is_sorted(part));
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_TRUE(std::ranges::is_sorted(parts, {}, [](const Subset& part) { return part.front(); }));
  std::ranges::sort(all);
  EXPECT_EQ(all, subset);
}

TEST(SplitBySimilarity, FindsPlantedClustersAndTheirNumber) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "planted");
    const std::vector<int> sizes = seed % 2 == 0 ? std::vector{20, 31, 9} : std::vector{40, 25};
    std::vector<int> truth;
    const MemoryMembers members = Planted(sizes, 0.01, stream, &truth);
    const auto parts =
        SplitBySimilarity(members, Everyone(members), {.seed = seed, .threads = 1}).value();
    ExpectPartition(parts, Everyone(members));
    EXPECT_EQ(parts.size(), sizes.size());
    for (const Subset& part : parts) {
      std::set<int> origins;
      for (const std::int32_t member : part) origins.insert(truth[member]);
      EXPECT_EQ(origins.size(), 1);
    }
  }
}

TEST(SplitBySimilarity, IsAPartitionOfAnySubset) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "partition");
    const auto count = static_cast<int>(2 + stream.Below(40));
    const MemoryMembers members = Planted({count, 5}, stream.Uniform(0, 2), stream);
    Subset subset = Everyone(members);
    stream.Shuffle(subset);
    subset.resize(2 + stream.Below(subset.size() - 1));
    std::ranges::sort(subset);
    const ClusterOptions options{.max_clusters = 2 + static_cast<int>(seed % 8),
                                 .max_iterations = 1 + static_cast<int>(seed % 5)};
    const auto parts = SplitBySimilarity(members, subset, options).value();
    ExpectPartition(parts, subset);
    EXPECT_LE(std::ssize(parts), options.max_clusters);
  }
}

TEST(SplitBySimilarity, DoesNotDependOnThreads) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "threads");
    const MemoryMembers members = Planted({150, 80, 33}, 1, stream);
    const auto split = [&](int threads) {
      return SplitBySimilarity(members, Everyone(members), {.seed = seed, .threads = threads})
          .value();
    };
    const auto one = split(1);
    EXPECT_EQ(split(2), one);
    EXPECT_EQ(split(3), one);
    EXPECT_EQ(split(1), one) << "nor on the run";
  }
}

TEST(SplitBySimilarity, HalvesEqualMembers) {
  Stream stream(7, "equal");
  const Network network = RandomNetwork(Small(), stream);
  for (const int count : {2, 3, 10}) {
    const MemoryMembers members(std::vector<Network>(static_cast<std::size_t>(count), network));
    const auto parts = SplitBySimilarity(members, Everyone(members), {}).value();
    ExpectPartition(parts, Everyone(members));
    ASSERT_EQ(parts.size(), 2);
    EXPECT_EQ(std::ssize(parts[0]), count / 2);
  }
}

TEST(SplitBySimilarity, SplitsTwoMembersIntoOneAndOne) {
  Stream stream(8, "two");
  const MemoryMembers members = Planted({1, 1}, 0.01, stream);
  EXPECT_EQ(SplitBySimilarity(members, {0, 1}, {}).value(), (std::vector<Subset>{{0}, {1}}));
}

TEST(SplitBySimilarity, SeparatesTheOneThatDiffers) {
  Stream stream(9, "outlier");
  const Network network = RandomNetwork(Small(), stream);
  std::vector<Network> networks(9, network);
  networks[4].parameters[0] += 0x1p-20F;
  const auto parts = SplitBySimilarity(MemoryMembers(networks), {0, 1, 2, 3, 4, 5, 6, 7, 8}, {});
  EXPECT_EQ(parts.value(), (std::vector<Subset>{{0, 1, 2, 3, 5, 6, 7, 8}, {4}}));
}

TEST(SplitBySimilarity, StopsOnRequest) {
  Stream stream(10, "stop");
  const MemoryMembers members = Planted({20, 20}, 0.1, stream);
  std::stop_source stop;
  stop.request_stop();
  const auto parts = SplitBySimilarity(members, Everyone(members), {}, stop.get_token());
  ASSERT_FALSE(parts.ok());
  EXPECT_EQ(parts.error().kind, ErrorKind::kInterrupted);
}

TEST(SplitBySimilarity, RefusesWhatCannotBeSplit) {
  Stream stream(11, "refuse");
  const MemoryMembers members = Planted({3}, 0.1, stream);
  EXPECT_FALSE(SplitBySimilarity(members, {}, {}).ok());
  EXPECT_FALSE(SplitBySimilarity(members, {1}, {}).ok());
  EXPECT_FALSE(SplitBySimilarity(members, {0, 1}, {.max_clusters = 1}).ok());
  EXPECT_FALSE(SplitBySimilarity(members, {0, 1}, {.max_iterations = 0}).ok());
}

// Members made when asked for: more than would be held in memory, of two kinds.
class ManyMembers final : public Members {
 public:
  explicit ManyMembers(std::int64_t count)
      : count_(count), architecture_(Architecture::FromName("2x100", 10, 2).value()) {}
  const Architecture& architecture() const override { return architecture_; }
  std::int64_t count() const override { return count_; }
  void CopyParameters(std::int64_t member, std::span<float> out) const override {
    auto noise = static_cast<std::uint32_t>(member) * 2654435761U;
    for (float& value : out) {
      noise = noise * 1664525U + 1013904223U;
      value = static_cast<float>(noise >> 8) * 0x1p-24F;
    }
    if (member % 3 == 0) out[5] += 100;
  }

 private:
  std::int64_t count_;
  Architecture architecture_;
};

TEST(SplitBySimilarity, FindsClustersOfMoreMembersThanItSamples) {
  const ManyMembers members(1500);  // of 11,402 parameters: the sample is 367 of them
  const auto split = [&](int threads) {
    return SplitBySimilarity(members, Everyone(members), {.max_clusters = 3, .threads = threads})
        .value();
  };
  const auto parts = split(2);
  ExpectPartition(parts, Everyone(members));
  ASSERT_EQ(parts.size(), 2);
  for (const std::int32_t member : parts[0]) EXPECT_EQ(member % 3, 0);
  for (const std::int32_t member : parts[1]) EXPECT_NE(member % 3, 0);
  EXPECT_EQ(split(1), parts);
}

}  // namespace
}  // namespace lucid
