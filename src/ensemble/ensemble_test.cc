#include "lucid/ensemble/ensemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "ensemble/run_spec.h"
#include "ensemble/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class EnsembleTest : public SmallRunsTest {
 protected:
  EnsembleTest() {
    options_.train.epochs = 5;
    options_.train.batch = 8;
    options_.threads = 1;
  }
};

TEST_F(EnsembleTest, HoldsNAndANetworkWithoutEachRow) {
  const auto summary = Train("run", options_);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->members, 37);
  EXPECT_TRUE(summary->complete);
  EXPECT_FALSE(summary->partial);
  const auto ensemble = Ensemble::Open(Folder("run"));
  ASSERT_TRUE(ensemble.ok()) << ensemble.error().message;
  EXPECT_EQ(ensemble->members(), 37);
  for (std::int64_t i = 0; i < 37; ++i) {
    EXPECT_EQ(ensemble->RowOf(i), i);
    EXPECT_NE(ensemble->Member(i).parameters, ensemble->network().parameters) << i;
  }
  EXPECT_EQ(LoadNetwork(Folder("run") + "/" + kNetworkFile)->parameters,
            ensemble->network().parameters);
  EXPECT_EQ(ensemble->manifest().train_accuracy, summary->train_accuracy);
}

TEST_F(EnsembleTest, SameBytesForAnyThreadsInstructionSetAndShards) {
  ASSERT_TRUE(Train("one", options_).ok());
  EnsembleOptions options = options_;
  options.threads = 4;
  ASSERT_TRUE(Train("four", options).ok());
  options.instruction_set = InstructionSet::kPortable;
  ASSERT_TRUE(Train("portable", options).ok());
  EXPECT_EQ(StoreDigest("one"), StoreDigest("four"));
  EXPECT_EQ(StoreDigest("one"), StoreDigest("portable"));
  for (std::int64_t i : {3, 1, 2}) {
    EnsembleOptions shard = options_;
    shard.shard = {i, 3};
    const auto summary = Train(i == 2 ? "elsewhere" : "sharded", shard);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    EXPECT_FALSE(summary->complete);
  }
  const auto early = MergeShards(dataset_, net_, options_, Folder("sharded"), {Folder("sharded")});
  ASSERT_FALSE(early.ok());
  EXPECT_THAT(early.error().message, HasSubstr("2/3"));
  const auto merged = MergeShards(dataset_, net_, options_, Folder("sharded"),
                                  {Folder("sharded"), Folder("elsewhere")});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(StoreDigest("one"), StoreDigest("sharded"));
  EXPECT_TRUE(Ensemble::Open(Folder("sharded")).ok());
}

TEST_F(EnsembleTest, StoppedAnywhereAndResumedGivesTheSameBytes) {
  ASSERT_TRUE(Train("whole", options_).ok());
  for (std::int64_t stop_at : {0, 8, 16, 24}) {
    const std::string name = "stopped" + std::to_string(stop_at);
    std::stop_source stop;
    const auto first = Train(
        name, options_,
        [&](const Progress& p) {
          if (p.what == "training" && p.done >= stop_at) stop.request_stop();
        },
        stop.get_token());
    ASSERT_FALSE(first.ok());
    EXPECT_EQ(first.error().kind, ErrorKind::kInterrupted);
    EXPECT_THAT(first.error().message, HasSubstr("the option resume"));
    EXPECT_THAT(Train(name, options_).error().message, HasSubstr("the option resume"))
        << "never started over without being told";
    EnsembleOptions resume = options_;
    resume.resume = true;
    const auto second = Train(name, resume);
    ASSERT_TRUE(second.ok()) << second.error().message;
    EXPECT_LE(second->trained_now, 38 - stop_at) << "what was there is kept";
    EXPECT_EQ(StoreDigest(name), StoreDigest("whole"));
    const auto third = Train(name, resume);
    ASSERT_TRUE(third.ok());
    EXPECT_EQ(third->trained_now, 0) << "finished is finished";
    EXPECT_THAT(Train(name, options_).error().message, HasSubstr("there already"));
  }
}

TEST_F(EnsembleTest, DamagedNetworksAreTrainedAgainOnResume) {
  ASSERT_TRUE(Train("whole", options_).ok());
  ASSERT_TRUE(Train("damaged", options_).ok());
  const std::string store = Folder("damaged") + "/" + kEnsembleFile;
  std::string bytes = ReadTextFile(store).value();
  bytes[bytes.size() / 2] ^= 4;
  fs::remove(store);
  fs::remove(Folder("damaged") + "/" + kManifestFile);
  ASSERT_TRUE(WriteFileAtomically(store + ".partial", bytes).ok());
  EnsembleOptions resume = options_;
  resume.resume = true;
  const auto summary = Train("damaged", resume);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->trained_now, 1);
  EXPECT_EQ(StoreDigest("damaged"), StoreDigest("whole"));
}

TEST_F(EnsembleTest, KilledBetweenRenameAndManifestIsCompleted) {
  ASSERT_TRUE(Train("run", options_).ok());
  fs::remove(Folder("run") + "/" + kManifestFile);
  EXPECT_FALSE(Ensemble::Open(Folder("run")).ok());
  EnsembleOptions resume = options_;
  resume.resume = true;
  const auto summary = Train("run", resume);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->trained_now, 0);
  EXPECT_TRUE(Ensemble::Open(Folder("run")).ok());
}

TEST_F(EnsembleTest, MembersMakeAPartialRunMarkedSo) {
  EnsembleOptions options = options_;
  options.members = 5;
  const auto summary = Train("partial", options);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(summary->partial);
  const auto ensemble = Ensemble::Open(Folder("partial"));
  ASSERT_TRUE(ensemble.ok()) << ensemble.error().message;
  EXPECT_TRUE(ensemble->manifest().partial);
  EXPECT_EQ(ensemble->manifest().rows, 37);
  ASSERT_TRUE(Train("whole", options_).ok());
  const auto whole = Ensemble::Open(Folder("whole"));
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(ensemble->RowOf(i), i * 37 / 5);
    EXPECT_EQ(ensemble->Member(i).parameters, whole->Member(ensemble->RowOf(i)).parameters);
  }
  options.members = 38;
  EXPECT_FALSE(Train("too_many", options).ok());
}

TEST_F(EnsembleTest, AnotherRunsFolderIsRefusedAndUntouched) {
  std::stop_source stop;
  ASSERT_FALSE(Train(
                   "mine", options_,
                   [&](const Progress& p) {
                     if (p.done >= 8) stop.request_stop();
                   },
                   stop.get_token())
                   .ok());
  const Digest before = Sha256OfFile(Folder("mine") + "/ensemble.safetensors.partial").value();
  EnsembleOptions other = options_;
  other.train.seed = 9;
  other.resume = true;
  const auto refused = Train("mine", other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kMismatch);
  EXPECT_THAT(refused.error().message, HasSubstr("another run"));
  EXPECT_EQ(Sha256OfFile(Folder("mine") + "/ensemble.safetensors.partial").value(), before);
}

TEST_F(EnsembleTest, AnyChangedByteOfAFinishedRunIsCaught) {
  ASSERT_TRUE(Train("run", options_).ok());
  for (const char* file : {kManifestFile, kNetworkFile, kEnsembleFile}) {
    const std::string path = Folder("run") + "/" + file;
    const std::string whole = ReadTextFile(path).value();
    int caught = 0, tried = 0;
    for (std::size_t at = 0; at < whole.size(); at += whole.size() / 40) {
      std::string bytes = whole;
      bytes[at] ^= 1;
      ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
      ++tried;
      const auto opened = Ensemble::Open(Folder("run"));
      // The manifest's remarks (version, command, seconds, accuracy) bind nothing; all else does.
      caught += !opened.ok();
    }
    ASSERT_TRUE(WriteFileAtomically(path, whole).ok());
    if (std::string(file) == kManifestFile) {
      EXPECT_GE(caught, tried / 2);
    } else {
      EXPECT_EQ(caught, tried) << file;
    }
    ASSERT_TRUE(Ensemble::Open(Folder("run")).ok());
  }
}

TEST_F(EnsembleTest, EditedManifestFieldsAreCaught) {
  ASSERT_TRUE(Train("run", options_).ok());
  const std::string path = Folder("run") + "/" + kManifestFile;
  const std::string whole = ReadTextFile(path).value();
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    const auto opened = Ensemble::Open(Folder("run"));
    return opened.ok() ? std::string("accepted") : opened.error().message;
  };
  EXPECT_THAT(message("epochs=5", "epochs=6"), HasSubstr("run key"));
  EXPECT_THAT(message("3 > dense 7 > dense 7 > 2", "3 > dense 7 > dense 8 > 2"),
              HasSubstr("run key"));
  EXPECT_THAT(message("a,numeric,0,1", "a,numeric,0,2"), HasSubstr("schema"));
  EXPECT_THAT(message("\"members\": 37", "\"members\": 36"), HasSubstr("contradict"));
  EXPECT_THAT(message("\"partial\": false", "\"partial\": true"), HasSubstr("contradict"));
  EXPECT_THAT(message("\"rows\": 37", "\"rows\": \"37\""), HasSubstr("data/rows"));
  EXPECT_THAT(message("lucid-run-2", "lucid-run-9"), HasSubstr("lucid-run-9"));
}

TEST_F(EnsembleTest, ReadOnlyFolderIsAClearError) {
  const auto summary = TrainEnsemble(dataset_, net_, options_, "/proc/lucid_cannot_be_here");
  ASSERT_FALSE(summary.ok());
  EXPECT_THAT(summary.error().message, HasSubstr("/proc/lucid_cannot_be_here"));
}

TEST(Shard, PartsCoverEverythingOnce) {
  const std::vector<std::int64_t> rows = BlankedNetworkRows(101, 0);
  for (std::int64_t count : {1, 2, 7, 102}) {
    std::vector<std::int64_t> joined;
    for (std::int64_t i = 1; i <= count; ++i) {
      const auto part = ShardOf(rows, {i, count});
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, rows);
  }
}

TEST(Shard, TextIsParsedStrictly) {
  EXPECT_EQ(Shard::Parse("2/8")->index, 2);
  for (const char* bad : {"", "1", "0/4", "5/4", "1/0", "a/b", "1/4x", "-1/4", "1//4"}) {
    EXPECT_FALSE(Shard::Parse(bad).ok()) << bad;
  }
}

TEST_F(EnsembleTest, TheDataOfARunIsFoundWhetherItWasClippedOrNot) {
  const Architecture net = Architecture::FromName("1x3", 1, 2).value();
  for (const bool clip : {false, true}) {
    const std::string data = Folder(clip ? "outside" : "inside");
    fs::create_directories(data);
    std::ofstream(data + "/schema.csv") << "column,kind,offset,divisor,categories\n"
                                           "a,numeric,0,100,\nlabel,label,,,n|y\n";
    std::ofstream(data + "/train.csv") << "a,label\n50,0\n" << (clip ? 141 : 91) << ",1\n3,0\n";
    const auto dataset = LoadDataset(data, {.clip = clip});
    ASSERT_TRUE(dataset.ok()) << dataset.error().message;
    ASSERT_TRUE(TrainEnsemble(*dataset, net, options_, data + "-run").ok());
    const Ensemble run = Ensemble::Open(data + "-run").value();
    const auto again = LoadRunData(run.manifest());
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again->train.x, dataset->train.x);
    EXPECT_EQ(again->train_digest, run.manifest().train_digest);
    // Data that changed has another digest, also where it is clipped.
    std::ofstream(data + "/train.csv") << "a,label\n50,0\n-7,1\n3,0\n";
    const auto changed = LoadRunData(run.manifest());
    EXPECT_TRUE(!changed.ok() || changed->train_digest != run.manifest().train_digest);
  }
}

}  // namespace
}  // namespace lucid
