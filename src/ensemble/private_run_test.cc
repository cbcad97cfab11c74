// Runs that are private, runs of units, runs of format 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "ensemble/reference.h"
#include "ensemble/run_spec.h"
#include "ensemble/secret_file.h"
#include "ensemble/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class PrivateRunTest : public testing::Test {
 protected:
  PrivateRunTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    options_.train.method = TrainOptions::Method::kPrivate;
    options_.train.epochs = 3;
    options_.train.batch = 8;
    options_.train.expected_rows = 40;
    options_.declare = 0.05;
    options_.threads = 1;
  }
  std::string Folder(const std::string& name) const { return root_ + "/" + name; }
  Result<TrainSummary> Train(const std::string& name, const EnsembleOptions& options,
                             std::stop_token stop = {},
                             const ProgressCallback& progress = {}) const {
    return TrainEnsemble(dataset_, net_, options, Folder(name), progress, stop);
  }
  Digest StoreDigest(const std::string& name) const {
    return Sha256OfFile(Folder(name) + "/" + kEnsembleFile).value();
  }

  const std::string root_ = testing::TempDir() + "/lucid_private_test_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name();
  const Dataset dataset_ = SmallDataset();
  const Architecture net_ = Architecture::FromName("2x7", 3, 2).value();
  EnsembleOptions options_;
};

TEST_F(PrivateRunTest, SaysWhatItPromisesAndKeepsItsSecret) {
  const auto summary = Train("run", options_);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto run = Ensemble::Open(Folder("run"));
  ASSERT_TRUE(run.ok()) << run.error().message;
  const Manifest& m = run->manifest();
  ASSERT_TRUE(m.private_run);
  EXPECT_EQ(m.private_run->statement.epsilon, 1);
  EXPECT_EQ(m.private_run->statement.delta, 1e-6);
  EXPECT_EQ(m.private_run->statement.steps, 15);
  EXPECT_FALSE(m.private_run->seeded);
  EXPECT_EQ(m.expected_rows, 40);
  EXPECT_FALSE(m.expected_from_data);
  ASSERT_TRUE(m.declared);
  EXPECT_EQ(m.declared->reference, "domain");
  EXPECT_EQ(m.declared->median, DeclareBounds(run->network(), m.schema, 0.05, {}).median);
  struct stat status {};
  for (const char* file : {kSecretFile, kManifestFile}) {
    ASSERT_EQ(::stat((Folder("run") + "/" + file).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U) << file;
  }
  // Two runs have two secrets, and other networks.
  ASSERT_TRUE(Train("other", options_).ok());
  EXPECT_NE(StoreDigest("run"), StoreDigest("other"));
}

TEST_F(PrivateRunTest, ASecretServesOneDataSetAndOneSetOfOptions) {
  EnsembleOptions options = options_;
  options.secret_file = Folder("shared secret");
  ASSERT_TRUE(Train("run", options).ok());
  ASSERT_TRUE(Train("again", options).ok()) << "the same data and options";
  EXPECT_EQ(StoreDigest("run"), StoreDigest("again"));
  options.train.rate = 0.2;
  EXPECT_THAT(Train("rate", options).error().message, HasSubstr("noise would cancel"));
  options.train.rate = options_.train.rate;
  Dataset less = dataset_;
  less.train = KeepRows(less.train, 36, 0);
  less.train_digest = TableDigest(less.train);
  less.train_order = OrderDigest(TableKeys::Of(less.train));
  const auto other = TrainEnsemble(less, net_, options, Folder("less"));
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("noise would cancel"));
  fs::permissions(options.secret_file, fs::perms::others_read, fs::perm_options::add);
  EXPECT_THAT(Train("open", options).error().message, HasSubstr("can be read by others"));
}

TEST_F(PrivateRunTest, SeededNoiseRepeatsAndSaysSo) {
  EnsembleOptions options = options_;
  options.seeded_noise = true;
  ASSERT_TRUE(Train("a", options).ok());
  ASSERT_TRUE(Train("b", options).ok());
  EXPECT_EQ(StoreDigest("a"), StoreDigest("b"));
  EXPECT_FALSE(fs::exists(Folder("a") + "/" + kSecretFile));
  EXPECT_TRUE(Ensemble::Open(Folder("a"))->manifest().private_run->seeded);
}

TEST_F(PrivateRunTest, TheNetworkIsThereBeforeItsMembersAndTheRunGoesOn) {
  std::stop_source stop;
  const auto progress = [&](const Progress& p) {
    if (p.what == "training" && p.done > 0) stop.request_stop();
  };
  const auto stopped = Train("run", options_, stop.get_token(), progress);
  ASSERT_FALSE(stopped.ok());
  const auto network = OpenRunNetwork(Folder("run"));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->manifest.members, 0);
  ASSERT_TRUE(network->manifest.declared);
  EXPECT_THAT(Ensemble::Open(Folder("run")).error().message, HasSubstr("not its members yet"));
  EnsembleOptions resume = options_;
  resume.resume = true;
  const auto summary = Train("run", resume);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto run = Ensemble::Open(Folder("run"));
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_EQ(run->network().parameters, network->network.parameters);
  EXPECT_EQ(run->members(), 37);
}

TEST_F(PrivateRunTest, ShardsShareTheSecretAndGiveTheSameBytes) {
  EnsembleOptions options = options_;
  options.secret_file = Folder("secret");
  ASSERT_TRUE(Train("whole", options).ok());
  for (const std::int64_t i : {2, 1}) {
    EnsembleOptions shard = options;
    shard.shard = {i, 2};
    ASSERT_TRUE(Train("cut", shard).ok());
  }
  const auto merged = MergeShards(dataset_, net_, options, Folder("cut"), {Folder("cut")});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(StoreDigest("whole"), StoreDigest("cut"));
  // Shards of another secret are another run's.
  EnsembleOptions own = options_;
  own.shard = {1, 2};
  ASSERT_TRUE(Train("mixed", own).ok());
  options.shard = {2, 2};
  ASSERT_TRUE(Train("mixed", options).ok());
  options.shard = {};
  EXPECT_THAT(
      MergeShards(dataset_, net_, options, Folder("mixed"), {Folder("mixed")}).error().message,
      HasSubstr("another run"));
}

TEST_F(PrivateRunTest, AnEditedPromiseIsNotBelieved) {
  ASSERT_TRUE(Train("run", options_).ok());
  const std::string path = Folder("run") + "/" + kManifestFile;
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(ReadTextFile(path).value());
  json["private"]["epsilon"] = 0.5;
  ASSERT_TRUE(WriteFileAtomically(path, json.dump()).ok());
  EXPECT_THAT(OpenRunNetwork(Folder("run")).error().message, HasSubstr("epsilon and delta"));
  json["private"] = nullptr;
  ASSERT_TRUE(WriteFileAtomically(path, json.dump()).ok());
  EXPECT_FALSE(OpenRunNetwork(Folder("run")).ok());
}

TEST_F(PrivateRunTest, RowsInAnotherOrderAreTheSameRunButNotTheSameNumbers) {
  EnsembleOptions options;
  options.train.epochs = 3;
  options.train.batch = 8;
  Dataset reversed = dataset_;
  for (std::int64_t i = 0; i < 37; ++i) {
    std::ranges::copy(dataset_.train.row(36 - i), reversed.train.x.begin() + 3 * i);
    reversed.train.y[i] = dataset_.train.y[36 - i];
  }
  reversed.train_digest = TableDigest(reversed.train);
  reversed.train_order = OrderDigest(TableKeys::Of(reversed.train));
  ASSERT_TRUE(TrainEnsemble(dataset_, net_, options, Folder("a")).ok());
  ASSERT_TRUE(TrainEnsemble(reversed, net_, options, Folder("b")).ok());
  const auto a = Ensemble::Open(Folder("a")), b = Ensemble::Open(Folder("b"));
  EXPECT_EQ(a->manifest().run_key, b->manifest().run_key);
  for (std::int64_t i = 0; i < 37; ++i) {
    EXPECT_EQ(a->Member(i).parameters, b->Member(36 - i).parameters) << i;
  }
  options.resume = true;
  EXPECT_THAT(TrainEnsemble(reversed, net_, options, Folder("a")).error().message,
              HasSubstr("another order"));
}

TEST_F(PrivateRunTest, AUnitIsLeftOutWithAllItsRowsAndEqualRowsShareAMember) {
  EnsembleOptions options;
  options.train.epochs = 3;
  options.train.batch = 8;
  Dataset people = dataset_;
  for (std::int64_t i = 0; i < 37; ++i)
    people.train.unit_ids.push_back("p" + std::to_string(i % 12));
  people.train_digest = TableDigest(people.train);
  people.train_order = OrderDigest(TableKeys::Of(people.train));
  EXPECT_THAT(TrainEnsemble(people, net_, options, Folder("people")).error().message,
              HasSubstr("--expected-rows"))
      << "37 rows, and 33 without a unit, are not the same to one digit";
  options.train.expected_rows = 40;
  const auto summary = TrainEnsemble(people, net_, options, Folder("people"));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->members, 12);
  EXPECT_EQ(summary->units, 12);
  EXPECT_FALSE(summary->partial);
  // A unit with four rows, really trained without them.
  Dataset less = people;
  less.train = {};
  less.train.features = 3;
  for (std::int64_t i = 0; i < 37; ++i) {
    if (i % 12 == 0) continue;
    less.train.x.insert(less.train.x.end(), people.train.row(i).begin(), people.train.row(i).end());
    less.train.y.push_back(people.train.y[i]);
    less.train.unit_ids.push_back(people.train.unit_ids[i]);
  }
  ASSERT_TRUE(TrainEnsemble(less, net_, options, Folder("less")).ok());
  EXPECT_EQ(Ensemble::Open(Folder("less"))->network().parameters,
            Ensemble::Open(Folder("people"))->Member(0).parameters);

  Dataset twice = dataset_;
  std::copy_n(twice.train.x.begin(), 3, twice.train.x.begin() + 30);
  twice.train.y[10] = twice.train.y[0];
  const auto shared = TrainEnsemble(twice, net_, options, Folder("twice"));
  ASSERT_TRUE(shared.ok()) << shared.error().message;
  EXPECT_EQ(shared->members, 36);
  EXPECT_FALSE(shared->partial);
}

// A run as version 1 wrote it: manifest and store without anything that came later.
TEST_F(PrivateRunTest, RunsOfFormatOneAreReadAsBlanked) {
  const std::string run = Folder("old");
  fs::create_directories(run);
  TrainOptions old;
  const Digest train = BlankedTableDigest(dataset_.train);
  const Digest key = RunKey(1, dataset_.schema_digest, train, net_.Canonical(), old.Canonical());
  const StoreSpec spec{net_, key, BlankedNetworkRows(37, 0), std::nullopt};
  Network n{net_, std::vector<float>(static_cast<std::size_t>(net_.parameters()), 0.25F)};
  {
    auto store = Store::Create(run + "/" + kEnsembleFile, spec);
    ASSERT_TRUE(store.ok()) << store.error().message;
    for (std::int64_t i = 0; i < 38; ++i) ASSERT_TRUE(store->Write(i, n.parameters).ok());
  }
  ASSERT_TRUE(SaveNetwork(n, run + "/" + kNetworkFile).ok());
  nlohmann::ordered_json json = {
      {"format", "lucid-run-1"},
      {"lucid", "0.1"},
      {"build", "old"},
      {"instruction_set", "avx2"},
      {"command", nlohmann::ordered_json::array()},
      {"data", {{"directory", "gone"}, {"rows", 37}, {"schema", dataset_.schema.Canonical()}}},
      {"architecture", net_.Canonical()},
      {"training", old.Canonical()},
      {"members", 37},
      {"partial", false},
      {"train_accuracy", 0.5},
      {"test_accuracy", nullptr},
      {"seconds", 1},
      {"hashes",
       {{"run_key", key.Hex()},
        {"schema", dataset_.schema_digest.Hex()},
        {"train", train.Hex()},
        {"test", dataset_.test_digest.Hex()},
        {"network", Sha256OfFile(run + "/" + kNetworkFile).value().Hex()},
        {"ensemble", Sha256OfFile(run + "/" + kEnsembleFile).value().Hex()}}}};
  ASSERT_TRUE(WriteFileAtomically(run + "/" + kManifestFile, json.dump()).ok());
  const auto opened = Ensemble::Open(run);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(opened->manifest().adjacency, Adjacency::kBlanked);
  EXPECT_EQ(opened->manifest().units, 37);
  EXPECT_EQ(opened->RowOf(5), 5);
  EXPECT_TRUE(IsDigestOf(dataset_.train, opened->manifest().train_digest));
}

}  // namespace
}  // namespace lucid
