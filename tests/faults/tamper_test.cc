// Stores that were cut, changed, exchanged or edited: refused with words by whoever reads them, and
// left as they are. An unfinished store's damaged networks are trained again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ensemble/run_spec.h"
#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class Tamper : public CommandTest {
 protected:
  Tamper() {
    EXPECT_EQ(Run("data synth2d --rows 30 --out p").code, 0);
    EXPECT_EQ(Run(train_ + "run").code, 0);
    EXPECT_EQ(Run(train_ + "other --seed 1").code, 0);
  }
  std::string In(const std::string& run, const std::string& file) {
    return folder_ / (run + "/" + file);
  }
  // `lucid train --resume` and Ensemble::Open refuse with a message that holds one of the words,
  // and no file changes.
  void ExpectRefused(const std::string& word, const std::string& other_word = "\n") {
    std::map<std::string, std::string> before;
    for (const char* file : kFiles) before[file] = ReadBytes(In("run", file));
    const auto opened = Ensemble::Open(folder_ / "run");
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, AnyOf(HasSubstr(word), HasSubstr(other_word)));
    const Outcome outcome = Run(train_ + "run --resume");
    EXPECT_THAT(outcome.code, AnyOf(1, 2)) << outcome;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AnyOf(HasSubstr(word), HasSubstr(other_word)));
    for (const char* file : kFiles) EXPECT_TRUE(ReadBytes(In("run", file)) == before[file]) << file;
  }
  // Changes a file, expects the refusal, and puts it back.
  void ExpectRefusedWith(const std::string& file, const std::string& bytes, const std::string& word,
                         const std::string& other_word = "\n") {
    const std::string good = ReadBytes(In("run", file));
    ASSERT_NE(bytes, good);
    WriteBytes(In("run", file), bytes);
    ExpectRefused(word, other_word);
    WriteBytes(In("run", file), good);
  }
  StoreLayout Layout() {
    const auto manifest = ParseManifest(ReadBytes(In("run", kManifestFile)), "run");
    return StoreLayout(StoreSpec{manifest->architecture, manifest->run_key,
                                 BlankedNetworkRows(manifest->rows, manifest->members),
                                 manifest->order_digest});
  }
  // Exchanges networks 3 and 5 with everything that belongs to them.
  std::string WithTwoNetworksExchanged(std::string bytes) {
    const StoreLayout layout = Layout();
    const auto exchange = [&](std::uint64_t a, std::uint64_t b, std::size_t size) {
      std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(a),
                       bytes.begin() + static_cast<std::ptrdiff_t>(a + size),
                       bytes.begin() + static_cast<std::ptrdiff_t>(b));
    };
    for (std::size_t t = 0; t < layout.parameters().size(); ++t) {
      exchange(layout.ParameterAt(t, 3), layout.ParameterAt(t, 5),
               static_cast<std::size_t>(layout.parameters()[t].count) * sizeof(float));
    }
    exchange(layout.DigestAt(3), layout.DigestAt(5), 32);
    return bytes;
  }
  // The run becomes an unfinished one with this store; its resume trains `again` networks.
  void ExpectTrainedAgain(const std::string& bytes, int again) {
    const std::string good = ReadBytes(In("run", kEnsembleFile));
    fs::remove(In("run", kManifestFile));
    fs::remove(In("run", kEnsembleFile));
    WriteBytes(In("run", std::string(kEnsembleFile) + ".partial"), bytes);
    const Outcome outcome = Run(train_ + "run --resume --json");
    ASSERT_EQ(outcome.code, 0) << outcome;
    EXPECT_EQ(outcome.Json()["trained_now"], again);
    EXPECT_TRUE(ReadBytes(In("run", kEnsembleFile)) == good);
    EXPECT_TRUE(Ensemble::Open(folder_ / "run").ok());
  }

  static constexpr const char* kFiles[] = {kManifestFile, kNetworkFile, kEnsembleFile};
  const std::string train_ = "train --data p --arch 2x6 --epochs 3 --out ";
};

TEST_F(Tamper, ATruncatedStoreIsRefused) {
  const std::string bytes = ReadBytes(In("run", kEnsembleFile));
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{5}, std::size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    ExpectRefusedWith(kEnsembleFile, bytes.substr(0, size), "ensemble.safetensors");
  }
  ExpectRefusedWith(kEnsembleFile, bytes + "x", "ensemble.safetensors");
}

TEST_F(Tamper, AFlippedBitAnywhereIsRefused) {
  for (const char* file : {kEnsembleFile, kNetworkFile}) {
    const std::string bytes = ReadBytes(In("run", file));
    for (std::size_t at = 0; at < bytes.size(); at += bytes.size() / 12) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      ExpectRefusedWith(file, changed, file);
    }
  }
}

TEST_F(Tamper, FilesOfAnotherRunAreRefused) {
  ExpectRefusedWith(kEnsembleFile, ReadBytes(In("other", kEnsembleFile)), "ensemble.safetensors");
  ExpectRefusedWith(kNetworkFile, ReadBytes(In("other", kNetworkFile)), "network.safetensors");
  ExpectRefusedWith(kManifestFile, ReadBytes(In("other", kManifestFile)), ".safetensors");
  // Store and manifest that belong together, but not to the command.
  for (const char* file : kFiles) WriteBytes(In("run", file), ReadBytes(In("other", file)));
  const Outcome outcome = Run(train_ + "run --resume");
  EXPECT_EQ(outcome.code, 1) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("another run"));
}

TEST_F(Tamper, TwoExchangedNetworksAreRefused) {
  ExpectRefusedWith(kEnsembleFile, WithTwoNetworksExchanged(ReadBytes(In("run", kEnsembleFile))),
                    "ensemble.safetensors");
}

// Even with the digest of the forged file in the manifest, N and the store must agree.
TEST_F(Tamper, AnotherNetworkWithItsDigestInTheManifestIsRefused) {
  nlohmann::ordered_json manifest =
      nlohmann::ordered_json::parse(ReadBytes(In("run", kManifestFile)));
  manifest["hashes"]["network"] = ReadJson(In("other", kManifestFile))["hashes"]["network"];
  WriteBytes(In("run", kManifestFile), manifest.dump(2));
  WriteBytes(In("run", kNetworkFile), ReadBytes(In("other", kNetworkFile)));
  ExpectRefused("is not the first network");
}

TEST_F(Tamper, AnEditedManifestIsRefused) {
  const std::string text = ReadBytes(In("run", kManifestFile));
  const struct {
    const char *path, *word;
    nlohmann::ordered_json value;
  } edits[] = {
      {"/members", "contradict", 29},
      {"/partial", "contradict", true},
      {"/data/rows", "run key", 31},
      {"/data/rows", "run key", 4'000'000'000'000'000'000},
      {"/units", "run key", 29},
      {"/data/rows", "data/rows", "30"},
      {"/data/schema", "schema", "column,kind,offset,divisor,categories\n"},
      {"/architecture", "run key", "2 > dense 6 > dense 7 > 2"},
      {"/architecture", "not an architecture", "a\nb"},
      {"/training", "run key", "sgd epochs=4"},
      {"/hashes/train", "run key", std::string(64, '0')},
      {"/hashes/run_key", "run key", std::string(64, '0')},
      {"/hashes/ensemble", "ensemble.safetensors", std::string(64, '0')},
      {"/hashes/network", "network.safetensors", std::string(64, '0')},
      {"/hashes/network", "hashes/network", "short"},
      {"/format", "lucid-run-3", "lucid-run-3"},
  };
  for (const auto& edit : edits) {
    auto json = nlohmann::ordered_json::parse(text);
    json[nlohmann::ordered_json::json_pointer(edit.path)] = edit.value;
    SCOPED_TRACE(edit.path);
    ExpectRefusedWith(kManifestFile, json.dump(2) + "\n", edit.word);
  }
  // Rows and members together: the memory for so many networks is never asked for.
  auto json = nlohmann::ordered_json::parse(text);
  constexpr std::int64_t kMany = 2'000'000'000;
  json["members"] = json["units"] = json["data"]["rows"] = kMany;
  const Manifest m = ParseManifest(text, "run").value();
  json["hashes"]["run_key"] = RunKey(2, {m.schema_digest, m.train_digest, kMany, kMany,
                                         m.architecture.Canonical(), m.training})
                                  .Hex();
  ExpectRefusedWith(kManifestFile, json.dump(2), "2000000001 networks");
  for (const std::string& broken : {std::string(), text.substr(0, text.size() / 2),
                                    std::string("[]"), std::string("{}"), text + "}"}) {
    ExpectRefusedWith(kManifestFile, broken, "manifest.json");
  }
}

TEST_F(Tamper, DamagedNetworksOfAnUnfinishedRunAreTrainedAgain) {
  const std::string good = ReadBytes(In("run", kEnsembleFile));
  std::string changed = good;
  changed[Layout().ParameterAt(2, 7) + 2] ^= 1;
  ExpectTrainedAgain(changed, 1);
  ExpectTrainedAgain(WithTwoNetworksExchanged(good), 2);
  ExpectTrainedAgain(good, 0);
}

// A store that has its final name but no manifest is not trusted either.
TEST_F(Tamper, AStoreWithoutManifestIsCheckedBeforeItGetsOne) {
  const std::string good = ReadBytes(In("run", kEnsembleFile));
  std::string changed = good;
  changed[Layout().ParameterAt(0, 4)] ^= 1;
  fs::remove(In("run", kManifestFile));
  WriteBytes(In("run", kEnsembleFile), changed);
  const Outcome outcome = Run(train_ + "run --resume --json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(outcome.Json()["trained_now"], 1);
  EXPECT_TRUE(ReadBytes(In("run", kEnsembleFile)) == good);
}

TEST_F(Tamper, AnUnfinishedStoreThatIsNotThisRunsIsRefusedAndUntouched) {
  const std::string partial = In("fresh", std::string(kEnsembleFile) + ".partial");
  const std::string bytes = ReadBytes(In("run", kEnsembleFile));
  const struct {
    std::string bytes;
    const char *options, *word;
  } cases[] = {
      {bytes.substr(0, bytes.size() - 1), "", "truncated"},
      {bytes.substr(0, 3), "", "too few"},
      {"", "", "too few"},
      {ReadBytes(In("other", kEnsembleFile)), "", "another run"},
      {bytes, "--members 7", "other members"},
      {bytes, "--lr 0.2", "another run"},
      {bytes, "--rows 29", "another run"},
      {std::string(1000, 'x'), "", "not a safetensors file"},
  };
  for (const auto& item : cases) {
    WriteBytes(partial, item.bytes);
    const Outcome outcome = Run(train_ + "fresh --resume " + item.options);
    EXPECT_THAT(outcome.code, AnyOf(1, 2)) << outcome;
    EXPECT_THAT(outcome.err, HasSubstr(item.word));
    EXPECT_TRUE(ReadBytes(partial) == item.bytes);
    EXPECT_FALSE(fs::exists(In("fresh", kManifestFile)));
  }
}

TEST_F(Tamper, ADamagedShardIsNotMerged) {
  for (const char* shard : {"1/2", "2/2"}) {
    ASSERT_EQ(Run(train_ + "cut --shard " + shard).code, 0);
  }
  const std::string path = In("cut", "shard-2-of-2.safetensors");
  std::string bytes = ReadBytes(path);
  const std::string good = bytes;
  bytes[bytes.size() - 33] ^= 1;  // in the last network's neighbour's digest
  WriteBytes(path, bytes);
  const Outcome damaged = Run(train_ + "cut --merge");
  EXPECT_EQ(damaged.code, 2) << damaged;
  EXPECT_THAT(damaged.err, HasSubstr("damaged"));
  EXPECT_FALSE(fs::exists(In("cut", kManifestFile)));
  WriteBytes(path, good);
  EXPECT_EQ(Run(train_ + "cut --merge").code, 0);
  EXPECT_TRUE(ReadBytes(In("cut", kEnsembleFile)) == ReadBytes(In("run", kEnsembleFile)));
}

}  // namespace
}  // namespace lucid::test
