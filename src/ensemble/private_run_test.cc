// Runs that are private, runs of units, runs of format 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/number_text.h"
#include "ensemble/reference.h"
#include "ensemble/run_spec.h"
#include "ensemble/secret_file.h"
#include "ensemble/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class PrivateRunTest : public SmallRunsTest {
 protected:
  PrivateRunTest() {
    options_.train.method = TrainOptions::Method::kPrivate;
    options_.train.epochs = 3;
    options_.train.batch = 8;
    options_.train.expected_rows = 40;
    options_.declare = 0.05;
    options_.threads = 1;
  }
  // With a schema that was signed, or made by looking at rows.
  Result<TrainSummary> TrainBy(SchemaOrigin origin, const std::string& name,
                               const EnsembleOptions& options,
                               const ProgressCallback& progress = {},
                               std::stop_token stop = {}) const {
    Dataset dataset = dataset_;
    dataset.schema.set_origin(origin);
    return TrainEnsemble(dataset, net_, options, Folder(name), progress, std::move(stop));
  }
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
  const auto stopped = Train("run", options_, progress, stop.get_token());
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
    EXPECT_EQ(OpenRunNetwork(Folder("cut")).ok(), i == 1) << "the first shard has N";
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

// What changes no weights changes the promise: that something was chosen after looking, at what
// share bounds were declared, whether the noise came from the seed.
TEST_F(PrivateRunTest, WhatWasChosenIsInTheRunKey) {
  EnsembleOptions options = options_;
  options.after_looking = "the expected number of rows";
  ASSERT_TRUE(TrainBy(SchemaOrigin::kFromData, "run", options).ok());
  const std::string path = Folder("run") + "/" + kManifestFile;
  using Json = nlohmann::ordered_json;
  const Json json = Json::parse(ReadTextFile(path).value());
  ASSERT_EQ(json["after_looking"], "the schema and the expected number of rows");
  const auto opens = [&](const Json& edited) {
    EXPECT_TRUE(WriteFileAtomically(path, edited.dump()).ok());
    return OpenRunNetwork(Folder("run"));
  };
  EXPECT_TRUE(opens(json).ok());
  Json edited = json;
  edited.erase("after_looking");
  EXPECT_THAT(opens(edited).error().message, HasSubstr("run key"));
  edited["after_looking"] = "the schema";
  EXPECT_THAT(opens(edited).error().message, HasSubstr("run key"));
  edited = json;
  edited["declared"]["r_hex"] = HexText(0.01);
  EXPECT_THAT(opens(edited).error().message, HasSubstr("run key"));
  edited = json;
  edited["declared"]["reference"] = dataset_.test_digest.Hex();
  EXPECT_THAT(opens(edited).error().message, HasSubstr("run key"));
  edited = json;
  edited["private"]["seeded"] = true;
  EXPECT_THAT(opens(edited).error().message, HasSubstr("'seeded'"));
  options.seeded_noise = true;
  ASSERT_TRUE(Train("seeded", options).ok());
  edited = Json::parse(ReadTextFile(Folder("seeded") + "/" + kManifestFile).value());
  edited["private"]["seeded"] = false;
  EXPECT_THAT(opens(edited).error().message, HasSubstr("'seeded'"));
}

// Whoever has seen N may not go on with a share that suits it, nor sign the schema meanwhile.
TEST_F(PrivateRunTest, ARunGoesOnWithTheChoicesItBeganWith) {
  std::stop_source stop;
  const auto progress = [&](const Progress& p) {
    if (p.what == "training" && p.done > 0) stop.request_stop();
  };
  const SchemaOrigin from_data = SchemaOrigin::kFromData;
  ASSERT_FALSE(TrainBy(from_data, "run", options_, progress, stop.get_token()).ok());
  EnsembleOptions resume = options_;
  resume.resume = true;
  resume.declare = 0.5;
  EXPECT_THAT(TrainBy(from_data, "run", resume).error().message, HasSubstr("another run"));
  resume.declare = options_.declare;
  EXPECT_THAT(TrainBy(SchemaOrigin::kDeclared, "run", resume).error().message,
              HasSubstr("another run"));
  EXPECT_EQ(OpenRunNetwork(Folder("run"))->manifest.after_looking, "the schema");
  EXPECT_TRUE(TrainBy(from_data, "run", resume).ok());
}

// Runs of earlier versions have a key without choices: they are read, and promise what they say.
TEST_F(PrivateRunTest, AKeyWithoutChoicesIsRead) {
  ASSERT_TRUE(Train("run", options_).ok());
  const std::string path = Folder("run") + "/" + kManifestFile;
  auto json = nlohmann::ordered_json::parse(ReadTextFile(path).value());
  const Manifest m = OpenRunNetwork(Folder("run"))->manifest;
  const Digest old = RunKey(2, {m.schema_digest, m.train_digest, m.rows, m.units,
                                m.architecture.Canonical(), m.training, m.private_run->secret});
  EXPECT_NE(old, m.run_key);
  json["hashes"]["run_key"] = old.Hex();
  json["after_looking"] = "the schema";
  ASSERT_TRUE(WriteFileAtomically(path, json.dump()).ok());
  EXPECT_EQ(OpenRunNetwork(Folder("run"))->manifest.after_looking, "the schema");
}

// T is total: any set of rows is trained on, none included.
TEST_F(PrivateRunTest, NoRowsAndOneRowAreDataLikeAnyOther) {
  for (const std::int64_t rows : {0, 1}) {
    Dataset few = dataset_;
    few.train.x.resize(static_cast<std::size_t>(3 * rows));
    few.train.y.resize(static_cast<std::size_t>(rows));
    few.train_digest = TableDigest(few.train);
    few.train_order = OrderDigest(TableKeys::Of(few.train));
    EnsembleOptions options = options_;
    options.seeded_noise = true;
    const std::string name = Folder("rows" + std::to_string(rows));
    const auto summary = TrainEnsemble(few, net_, options, name);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    EXPECT_EQ(summary->members, rows);
    EXPECT_FALSE(summary->partial);
    const auto n = OpenRunNetwork(name);
    ASSERT_TRUE(n.ok()) << n.error().message;
    EXPECT_TRUE(n->manifest.declared);
    if (rows == 0) {
      EXPECT_THAT(Ensemble::Open(name).error().message, HasSubstr("no rows"));
      options.resume = true;
      EXPECT_TRUE(TrainEnsemble(few, net_, options, name).ok()) << "again";
    } else {
      // Its one member is training on nothing: rule R.
      EXPECT_EQ(Ensemble::Open(name)->Member(0).parameters,
                OpenRunNetwork(Folder("rows0"))->network.parameters);
    }
  }
  EnsembleOptions plain;
  Dataset none = dataset_;
  none.train.x.clear();
  none.train.y.clear();
  EXPECT_THAT(TrainEnsemble(none, net_, plain, Folder("plain")).error().message,
              HasSubstr("at least 2"));
}

TEST_F(PrivateRunTest, ANetworkThatDivergesBecomesZerosAndMembersEndNothing) {
  EnsembleOptions options = options_;
  options.train.rate = 1000;
  options.train.weight_decay = 100;
  const auto summary = Train("run", options);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->not_finite, 37);
  const auto n = OpenRunNetwork(Folder("run"));
  ASSERT_TRUE(n.ok()) << n.error().message;
  EXPECT_THAT(n->network.parameters, testing::Each(0.0F));
  EXPECT_EQ(n->manifest.declared->median, 0);
  EXPECT_THAT(Ensemble::Open(Folder("run")).error().message, HasSubstr("not finite"));
  // Who denies it is not believed.
  const std::string path = Folder("run") + "/" + kManifestFile;
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(ReadTextFile(path).value());
  json["not_finite"] = 0;
  ASSERT_TRUE(WriteFileAtomically(path, json.dump()).ok());
  EXPECT_THAT(Ensemble::Open(Folder("run")).error().message, HasSubstr("does not say so"));
}

// Whether training works must not depend on how many rows somebody has.
TEST_F(PrivateRunTest, AUnitColumnNeedsTheNumberOfRowsOfAUnit) {
  Dataset people = dataset_;
  people.schema = Schema::Parse(
                      "column,kind,offset,divisor,categories\na,numeric,0,1,\nb,numeric,0,1,\n"
                      "c,numeric,0,1,\nwho,unit,,,\nlabel,label,,,no|yes\n",
                      "schema")
                      .value();
  people.schema_digest = Sha256Of(people.schema.Canonical());
  for (std::int64_t i = 0; i < 37; ++i) people.train.unit_ids.push_back("p" + std::to_string(i));
  people.train_digest = TableDigest(people.train);
  people.train_order = OrderDigest(TableKeys::Of(people.train));
  EXPECT_THAT(TrainEnsemble(people, net_, options_, Folder("run")).error().message,
              HasSubstr("the option rows_per_unit"));
  people.rows_per_unit = 1;
  EXPECT_TRUE(TrainEnsemble(people, net_, options_, Folder("run")).ok());
}

TEST_F(PrivateRunTest, APopulationIsChargedBeforeTheFirstStepAndOnceForARun) {
  EnsembleOptions options = options_;
  options.population_file = Folder("clinic.population");
  EXPECT_THAT(Train("a", options).error().message, HasSubstr("the option population_total"));
  options.population_total = {2.5, 1e-5};
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(Train("a", options, {}, stop.get_token()).ok())
      << "stopped before anything is trained";
  options.resume = true;
  auto summary = Train("a", options);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  ASSERT_TRUE(summary->population);
  EXPECT_EQ(summary->population->spent.epsilon, 1) << "once";
  const Manifest charged = Ensemble::Open(Folder("a"))->manifest();
  EXPECT_EQ(charged.population, "clinic");
  ASSERT_TRUE(charged.population_total);
  EXPECT_EQ(charged.population_total->epsilon, 2.5);
  EXPECT_EQ(charged.population_total->delta, 1e-5);
  options.resume = false;
  options.population_total = {};
  summary = Train("b", options);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->population->spent.epsilon, 2);
  EXPECT_EQ(summary->population->spent.delta, 2e-6);
  EXPECT_THAT(Train("c", options).error().message, HasSubstr("spends again"));
  EXPECT_FALSE(fs::exists(Folder("c") + "/" + kManifestFile));
  options.population_total = {100, 1e-5};
  EXPECT_THAT(Train("c", options).error().message, HasSubstr("declared once"));
  options.population_total = {};
  options.seeded_noise = true;
  EXPECT_THAT(Train("d", options).error().message, HasSubstr("not private"));
  ASSERT_TRUE(WriteFileAtomically(options.population_file, "lucid-population-1\ntotal 9\n").ok());
  options.seeded_noise = false;
  EXPECT_THAT(Train("e", options).error().message, HasSubstr("damaged"));
}

// The budget of answers belongs to people and not to a digest of their rows, so that training with
// one more row does not open it again.
TEST_F(PrivateRunTest, AnyRunMayNameItsPopulation) {
  EnsembleOptions options;
  options.train.epochs = 2;
  options.threads = 1;
  options.population_file = "/where/ever/clinic.population";
  ASSERT_TRUE(Train("run", options).ok());
  const Manifest manifest = Ensemble::Open(Folder("run"))->manifest();
  EXPECT_EQ(manifest.population, "clinic");
  EXPECT_FALSE(manifest.population_total);
  options.population_total = {1, 1e-5};
  EXPECT_THAT(Train("other", options).error().message, HasSubstr("private trainings"));
}

TEST_F(PrivateRunTest, TheSeedComesFromEntropyUnlessItIsGivenAndStaysWithTheRun) {
  EnsembleOptions options;
  options.train.epochs = 3;
  options.seed_from_entropy = true;
  options.train.expected_rows = 40;
  ASSERT_TRUE(Train("a", options).ok());
  ASSERT_TRUE(Train("b", options).ok());
  EXPECT_NE(StoreDigest("a"), StoreDigest("b"));
  options.resume = true;
  const auto again = Train("a", options);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->trained_now, 0);
  struct stat status {};
  for (const char* file : {kSeedFile, kNetworkFile, kEnsembleFile, kManifestFile}) {
    ASSERT_EQ(::stat((Folder("a") + "/" + file).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U) << file;
  }
  options.shard = {1, 2};
  EXPECT_THAT(Train("c", options).error().message, HasSubstr("the option seed"));
  ASSERT_TRUE(WriteFileAtomically(Folder("b") + "/" + kSeedFile, "lucid-seed-1\n12x\n").ok());
  options.shard = {};
  EXPECT_THAT(Train("b", options).error().message, HasSubstr("damaged"));
}

// What a manifest says of the data is in the run key: a forged one is noticed.
TEST_F(PrivateRunTest, EditedCountsAreNoticed) {
  EnsembleOptions options;
  options.train.epochs = 1;
  options.train.expected_rows = 40;
  options.members = 5;
  ASSERT_TRUE(Train("run", options).ok());
  const std::string path = Folder("run") + "/" + kManifestFile;
  const nlohmann::ordered_json good = nlohmann::ordered_json::parse(ReadTextFile(path).value());
  const auto expect_refused = [&](const nlohmann::ordered_json& json) {
    ASSERT_TRUE(WriteFileAtomically(path, json.dump()).ok());
    const auto opened = OpenRunNetwork(Folder("run"));
    ASSERT_FALSE(opened.ok()) << json.dump();
    EXPECT_THAT(opened.error().message, HasSubstr("edited or damaged"));
  };
  nlohmann::ordered_json json = good;
  json["data"]["rows"] = 38;
  expect_refused(json);
  json = good;  // a part of the members that passes for all of them
  json["units"] = 5;
  json["partial"] = false;
  expect_refused(json);
  json = good;
  json["unit"] = "person";
  expect_refused(json);
  json = good;
  json["adjacency"] = "as trained elsewhere";
  expect_refused(json);
  ASSERT_TRUE(WriteFileAtomically(path, good.dump()).ok());
  EXPECT_TRUE(OpenRunNetwork(Folder("run")).ok());
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
              HasSubstr("the option expected_rows"))
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
  const Digest key =
      RunKey(1, {dataset_.schema_digest, train, 37, 37, net_.Canonical(), old.Canonical()});
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
