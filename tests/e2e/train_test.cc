// lucid train end to end: the same bytes however the work is cut, every kind of network and data,
// and words for what is wrong with a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "lucid/ensemble/ensemble.h"
#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

class Train : public CommandTest {
 protected:
  // Requires success; the JSON of the training.
  nlohmann::json TrainInto(const std::string& run, const std::string& options) {
    const Outcome outcome = Run("train --json --out " + run + " " + options);
    EXPECT_EQ(outcome.code, 0) << options << "\n" << outcome;
    return outcome.Json();
  }
  nlohmann::json ManifestOf(const std::string& run) {
    return ReadJson(folder_ / (run + "/manifest.json"));
  }
  std::string Store(const std::string& run) {
    return ReadBytes(folder_ / (run + "/ensemble.safetensors"));
  }
  void ExpectSameRun(const std::string& a, const std::string& b) {
    EXPECT_EQ(ManifestOf(a)["hashes"], ManifestOf(b)["hashes"]) << a << " " << b;
    EXPECT_TRUE(Store(a) == Store(b)) << a << " " << b;
    EXPECT_TRUE(Ensemble::Open(folder_ / b).ok());
  }
  void WriteData(const std::string& name, const std::string& schema, const std::string& train) {
    WriteBytes(folder_ / (name + "/schema.csv"),
               "column,kind,offset,divisor,categories\n" + schema);
    WriteBytes(folder_ / (name + "/train.csv"), train);
  }
};

TEST_F(Train, GivesTheSameBytesHoweverTheWorkIsCut) {
  ASSERT_EQ(Run("data synth2d --rows 50 --out p").code, 0);
  const std::string options = "--data p --arch 2x9 --epochs 7 --batch 16 --seed 3 ";
  TrainInto("one", options + "--threads 1");
  TrainInto("two", options + "--threads 2");
  ExpectSameRun("one", "two");
  TrainInto("portable", options + "--instruction-set portable");
  ExpectSameRun("one", "portable");
  TrainInto("auto", options + "--instruction-set auto");
  ExpectSameRun("one", "auto");

  for (const char* shard : {"2/3", "1/3"}) {
    EXPECT_EQ(TrainInto("cut", options + "--shard " + shard)["complete"], false);
  }
  const Outcome early = Run("train --out cut --merge " + options);
  EXPECT_EQ(early.code, 2);
  EXPECT_THAT(early.err, HasSubstr("3/3"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cut/manifest.json"));
  TrainInto("elsewhere", options + "--shard 3/3");
  const auto merged = TrainInto("cut", options + "--merge cut elsewhere");
  EXPECT_EQ(merged["complete"], true);
  EXPECT_EQ(merged["trained_now"], 0);
  ExpectSameRun("one", "cut");
}

TEST_F(Train, MergesTheShardsOfItsOwnFolder) {
  ASSERT_EQ(Run("data synth2d --rows 20 --out p").code, 0);
  const std::string options = "--data p --arch 1x4 --epochs 2 ";
  TrainInto("whole", options);
  for (const char* shard : {"1/2", "2/2"}) TrainInto("cut", options + "--shard " + shard);
  EXPECT_EQ(TrainInto("cut", options + "--merge")["trained_now"], 0) << "joined, not trained";
  ExpectSameRun("whole", "cut");
}

TEST_F(Train, AnotherSeedGivesAnotherRun) {
  ASSERT_EQ(Run("data synth2d --rows 20 --out p").code, 0);
  TrainInto("zero", "--data p --arch 1x4 --epochs 2");
  TrainInto("one", "--data p --arch 1x4 --epochs 2 --seed 1");
  EXPECT_NE(ManifestOf("zero")["hashes"]["run_key"], ManifestOf("one")["hashes"]["run_key"]);
  EXPECT_FALSE(Store("zero") == Store("one"));
  const Outcome mixed = Run("train --data p --arch 1x4 --epochs 2 --seed 1 --out zero --resume");
  EXPECT_EQ(mixed.code, 1) << mixed;
  EXPECT_THAT(mixed.err, HasSubstr("another run"));
}

constexpr const char* kThreeClasses =
    "a,job,label\n0.1,x,0\n0.2,x,0\n0.5,y,1\n0.6,y,1\n0.9,z,2\n1,z,2\n0.95,z,2\n";

TEST_F(Train, ThreeClasses) {
  WriteData("three", "a,numeric,0,1,\njob,categorical,,,x|y|z\nlabel,label,,,low|mid|high\n",
            kThreeClasses);
  const auto json = TrainInto("r", "--data three --arch 2x8 --epochs 300 --batch 4 --lr 0.3");
  EXPECT_EQ(json["members"], 7);
  EXPECT_EQ(json["train_accuracy"], 1.0);
  EXPECT_TRUE(json["test_accuracy"].is_null()) << "there is no test file";
  const auto ensemble = Ensemble::Open(folder_ / "r");
  ASSERT_TRUE(ensemble.ok()) << ensemble.error().message;
  EXPECT_EQ(ensemble->manifest().architecture.classes(), 3);
  EXPECT_EQ(ManifestOf("r")["data"]["class_names"], nlohmann::json({"low", "mid", "high"}));
}

TEST_F(Train, ConvolutionsAndArchitectureFiles) {
  WriteData(
      "wide",
      "a,numeric,0,1,\nb,categorical,,,p|q|r|s\nc,quarter-circle,,,u|v|w\nlabel,label,,,n|y\n",
      "a,b,c,label\n0.1,p,u,0\n0.9,q,v,1\n0.3,r,?,0\n0.8,s,w,1\n");
  EXPECT_EQ(TrainInto("conv", "--data wide --arch conv --epochs 5")["members"], 4);
  EXPECT_EQ(ManifestOf("conv")["architecture"],
            "7 > conv 6 width 3 stride 1 > conv 6 width 3 stride 1 > dense 2 > 2");
  WriteBytes(folder_ / "net.toml",
             "[[layer]]\ntype = \"conv\"\nfilters = 2\nwidth = 3\nstride = 2\n"
             "[[layer]]\ntype = \"dense\"\nunits = 5\n");
  TrainInto("file", "--data wide --arch net.toml --epochs 5");
  EXPECT_EQ(ManifestOf("file")["architecture"], "7 > conv 2 width 3 stride 2 > dense 5 > 2");
  EXPECT_TRUE(Ensemble::Open(folder_ / "file").ok());
  WriteBytes(folder_ / "bad.toml", "[[layer]]\ntype = \"dense\"\nunits = 5\nwidht = 3\n");
  const Outcome bad = Run("train --data wide --arch bad.toml --out bad");
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.toml: layer 1: unknown key 'widht'"));
}

TEST_F(Train, MembersAndRowsAreMarked) {
  ASSERT_EQ(Run("data synth2d --rows 30 --out p").code, 0);
  const std::string options = "--data p --arch 1x4 --epochs 2 ";
  const auto partial = TrainInto("partial", options + "--members 5");
  EXPECT_EQ(partial["members"], 5);
  EXPECT_EQ(partial["rows"], 30);
  EXPECT_EQ(partial["partial"], true);
  EXPECT_EQ(ManifestOf("partial")["partial"], true);
  EXPECT_EQ(TrainInto("rows", options + "--rows 9")["rows"], 9);
  EXPECT_EQ(ManifestOf("rows")["data"]["rows"], 9);
  EXPECT_NE(ManifestOf("rows")["hashes"]["train"], ManifestOf("partial")["hashes"]["train"]);
  const Outcome text = Run("train " + options + "--members 5 --out again");
  EXPECT_THAT(text.out, HasSubstr("partial: 5 of 30"));
}

TEST_F(Train, OptimiserOptionsChangeTheRun) {
  ASSERT_EQ(Run("data synth2d --rows 12 --out p").code, 0);
  std::set<std::string> keys;
  for (const char* options :
       {"--epochs 3", "--epochs 3 --momentum 0.9", "--epochs 3 --average-epochs 2",
        "--epochs 3 --batch 5", "--epochs 3 --weight-decay 0", "--epochs 3 --seed 2",
        "--epochs 3 --schedule cosine", "--epochs 3 --lr 0.2", "--epochs 4",
        "--epochs 3 --arch 1x5"}) {
    const std::string run = "r" + std::to_string(keys.size());
    TrainInto(run, std::string("--data p ") + options);
    keys.insert(ManifestOf(run)["hashes"].value("run_key", ""));
  }
  EXPECT_EQ(keys.size(), 10u);
}

TEST_F(Train, GzipGivesTheSameRun) {
  ASSERT_EQ(Run("data synth2d --rows 20 --out p").code, 0);
  TrainInto("plain", "--data p --arch 1x4 --epochs 2");
  for (const char* name : {"train", "test"}) {
    const std::string path = folder_ / ("p/" + std::string(name) + ".csv");
    const std::string text = ReadBytes(path);
    gzFile file = ::gzopen((path + ".gz").c_str(), "wb");
    EXPECT_EQ(::gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
              static_cast<int>(text.size()));
    ::gzclose(file);
    std::filesystem::remove(path);
  }
  TrainInto("gzip", "--data p --arch 1x4 --epochs 2");
  ExpectSameRun("plain", "gzip");
}

TEST_F(Train, BadDataIsExitCodeTwoWithFileLineAndColumn) {
  const std::string schema = "a,numeric,0,100,\njob,categorical,,,x|y|z\nlabel,label,,,n|y\n";
  const struct {
    const char *rows, *message;
  } cases[] = {
      {"1,x,0\n2x,y,1\n", "bad/train.csv:3: column 'a': '2x' is not a number"},
      {"1,x,0\n2,w,1\n", "bad/train.csv:3: column 'job': 'w' is not one of its 3 categories"},
      {"1,x,0\n141,y,1\n", "bad/train.csv:3: column 'a': '141' is 1.41 after scaling"},
      {"1,x,0\nnan,y,1\n", "bad/train.csv:3: column 'a': 'nan' is not a finite number"},
      {"1,x,0\n2,y,2\n", "bad/train.csv:3: column 'label': '2' is not a class index"},
      {"1,x,0\n2,y\n", "bad/train.csv:3: 2 cells, expected 3"},
      {"", "bad/train.csv"},
      {"1,x,0\n", "at least 2"},
  };
  for (const auto& item : cases) {
    WriteData("bad", schema, std::string("a,job,label\n") + item.rows);
    const Outcome outcome = Run("train --data bad --out r");
    EXPECT_EQ(outcome.code, 2) << outcome;
    EXPECT_THAT(outcome.err, HasSubstr(item.message));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "r/ensemble.safetensors.partial"));
}

TEST_F(Train, ClipMovesWhatLiesOutside) {
  const std::string schema = "a,numeric,0,100,\nlabel,label,,,n|y\n";
  WriteData("out", schema, "a,label\n50,0\n141,1\n-3,0\n");
  WriteData("in", schema, "a,label\n50,0\n100,1\n0,0\n");
  EXPECT_EQ(Run("train --data out --out r").code, 2);
  TrainInto("clipped", "--data out --epochs 2 --clip");
  TrainInto("inside", "--data in --epochs 2");
  ExpectSameRun("clipped", "inside");
}

// What a run keeps of the schema must survive JSON, which is UTF-8.
TEST_F(Train, NamesInAnyLanguageAndNoBytesThatAreNone) {
  WriteData("utf8", "caf\xc3\xa9,numeric,0,1,\nlabel,label,,,n\xc3\xb6|j\xc3\xa5\n",
            "caf\xc3\xa9,label\n0.5,0\n0.7,1\n");
  TrainInto("r", "--data utf8 --epochs 1");
  EXPECT_TRUE(Ensemble::Open(folder_ / "r").ok());
  WriteData("latin1", "caf\xe9,numeric,0,1,\nlabel,label,,,n|y\n", "caf\xe9,label\n0.5,0\n0.7,1\n");
  const Outcome outcome = Run("train --data latin1 --epochs 1 --out s");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("latin1/schema.csv:2: column 'caf\\xe9': not UTF-8"));
}

TEST_F(Train, DivergenceIsAnErrorNotAResult) {
  ASSERT_EQ(Run("data synth2d --rows 20 --out p").code, 0);
  const Outcome outcome = Run("train --data p --epochs 50 --lr 1000 --weight-decay 100 --out r");
  EXPECT_EQ(outcome.code, 2) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("finite"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "r/manifest.json"));
}

// Private training is total: rows that do not encode are dropped one by one, whatever they hold,
// and a file without rows is trained on.
TEST_F(Train, PrivateTrainingTakesAnyRows) {
  const std::string schema = "a,numeric,0,100,\njob,categorical,,,x|other\nlabel,label,,,n|y\n";
  const std::string header = "a,job,label\n", good = "1,x,0\n2,other,1\n70,x,1\n";
  const std::string options =
      " --preset private --expected-rows 10 --seeded-noise --epochs 2 --lr 1 --arch 1x4";
  WriteData("clean", schema, header + good + "2,other,1\n100,x,0\n");
  WriteData("dirty", schema, header + "2x,x,1\n" + good + "2,w,1\n1,x\n141,x,0\n\n1,x,2\n");
  WriteData("empty", schema, header);
  TrainInto("clean_run", "--data clean" + options);
  const nlohmann::json dirty = TrainInto("dirty_run", "--data dirty" + options);
  EXPECT_EQ(dirty["dropped_rows"], 4);
  EXPECT_EQ(dirty["rows"], 5);
  EXPECT_EQ(ManifestOf("clean_run")["hashes"]["run_key"],
            ManifestOf("dirty_run")["hashes"]["run_key"]);
  EXPECT_EQ(ReadBytes(folder_ / "clean_run/network.safetensors"),
            ReadBytes(folder_ / "dirty_run/network.safetensors"));
  // What comes later reads the data by the same rule.
  const Outcome bound = Run("bound dirty_run --no-proof --time-limit 20s");
  EXPECT_THAT(bound.code, testing::AnyOf(0, 1, 3)) << bound;
  EXPECT_EQ(Run("evaluate dirty_run --test clean/train.csv --methods none").code, 0);
  const nlohmann::json none = TrainInto("empty_run", "--data empty" + options);
  EXPECT_EQ(none["members"], 0);
  EXPECT_TRUE(none["train_accuracy"].is_null());
  EXPECT_TRUE(OpenRunNetwork(folder_ / "empty_run").ok());
  for (const char* preset : {"paper", "clipped"}) {
    EXPECT_EQ(
        Run("train --data empty --expected-rows 10 --out no --preset " + std::string(preset)).code,
        2);
  }
}

TEST_F(Train, PopulationsAddUp) {
  ASSERT_EQ(Run("data synth2d --rows 20 --out p").code, 0);
  const std::string options =
      "train --data p --preset private --expected-rows 20 --epochs 1 --arch 1x3 --population pop";
  EXPECT_EQ(Run(options + " --out a").code, 2);
  const Outcome first = Run(options + " --out a --population-total 1.5,1e-5");
  EXPECT_EQ(first.code, 0) << first;
  EXPECT_THAT(first.out, HasSubstr("population pop: epsilon 1 of 1.5"));
  const Outcome second = Run(options + " --out b");
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr("spends again"));
  EXPECT_EQ(Run(options + " --out c --train-epsilon 0.5").code, 0);
}

TEST_F(Train, WithoutASeedTheSystemGivesOne) {
  ASSERT_EQ(Run("data synth2d --rows 20 --out p").code, 0);
  const auto train = [&](const std::string& arguments) {
    const Outcome outcome =
        RunLucid(Words("train --data p --arch 1x3 --epochs 2 --expected-rows 20 " + arguments),
                 {.folder = folder_.path(), .seeded = false});
    EXPECT_EQ(outcome.code, 0) << outcome;
  };
  train("--out a");
  train("--out b");
  EXPECT_TRUE(Store("a") != Store("b"));
  train("--out a --resume");
  train("--out c --seed 5");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "c/seed"));
}

}  // namespace
}  // namespace lucid::test
