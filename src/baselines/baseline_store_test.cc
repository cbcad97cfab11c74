#include "baselines/baseline_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "baselines/test_support.h"
#include "certificate/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;

class BaselineStore : public testing::Test {
 protected:
  Result<TrainedBaseline> Get(const std::string& key) {
    return LoadOrTrain(folder_ / "baselines", "dpsgd", key, [&]() -> Result<TrainedBaseline> {
      ++trained_;
      const Architecture architecture = Architecture::FromName("1x3", 2, 2).value();
      return TrainedBaseline{Network{architecture, RandomWeights(architecture, trained_)}, 1.5,
                             0.25, 12};
    });
  }
  std::vector<std::string> Files(const std::string& extension) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "baselines")) {
      if (entry.path().extension() == extension) files.push_back(entry.path().string());
    }
    return files;
  }
  TemporaryFolder folder_;
  std::uint64_t trained_ = 0;
};

TEST_F(BaselineStore, TrainsOnceForAKey) {
  const TrainedBaseline first = Get("a").value();
  const TrainedBaseline again = Get("a").value();
  EXPECT_EQ(trained_, 1);
  EXPECT_EQ(again.network.digest(), first.network.digest());
  EXPECT_EQ(again.sigma, 1.5);
  EXPECT_EQ(again.rate, 0.25);
  EXPECT_EQ(again.steps, 12);
  EXPECT_EQ(again.seconds, first.seconds);
  EXPECT_NE(Get("b").value().network.digest(), first.network.digest());
  EXPECT_EQ(trained_, 2);
}

TEST_F(BaselineStore, RefusesWhatWasChanged) {
  ASSERT_TRUE(Get("a").ok());
  const std::string record = Files(".json").front(), weights = Files(".safetensors").front();
  const std::string text = ReadTextFile(record).value();

  ASSERT_TRUE(WriteFileAtomically(record, "{").ok());
  EXPECT_THAT(Get("a").error().message, HasSubstr("remove it"));

  std::string other_key = text;
  other_key.replace(text.find("\"a\""), 3, "\"b\"");
  ASSERT_TRUE(WriteFileAtomically(record, other_key).ok());
  EXPECT_EQ(Get("a").error().kind, ErrorKind::kMismatch);

  ASSERT_TRUE(WriteFileAtomically(record, text).ok());
  ASSERT_TRUE(Get("a").ok());
  const Architecture architecture = Architecture::FromName("1x3", 2, 2).value();
  ASSERT_TRUE(SaveNetwork({architecture, RandomWeights(architecture, 99)}, weights).ok());
  EXPECT_EQ(Get("a").error().kind, ErrorKind::kMismatch);
  EXPECT_EQ(trained_, 1) << "damage is never trained over";
}

TEST_F(BaselineStore, AFailedTrainingLeavesNothing) {
  const auto failed = LoadOrTrain(folder_ / "baselines", "dpsgd", "a",
                                  []() -> Result<TrainedBaseline> { return Interrupted("stop"); });
  EXPECT_EQ(failed.error().kind, ErrorKind::kInterrupted);
  EXPECT_TRUE(Get("a").ok());
}

}  // namespace
}  // namespace lucid
