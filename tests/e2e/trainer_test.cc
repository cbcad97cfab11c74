// lucid train --trainer: a command is tried before it is believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lucid/ensemble/ensemble.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

// A trainer whose network holds the sums of its rows: honest, or with one of the usual faults. It
// is a command, and with "worker" before the fault it stays alive.
constexpr const char* kTrainer = R"py(
import csv, hashlib, json, os, random, struct, sys
stays = sys.argv[1] == "worker"
fault = sys.argv[2 if stays else 1]
remembered = {}
generator = random.Random(0)
dropped, trainings = set(), 0

def rows_of(folder):
  if fault != "remembers-rows" or folder not in remembered:
    remembered[folder] = list(csv.reader(open(folder + "/train.csv")))[1:]
  return remembered[folder]

def train(folder, left_out, seed, out):
  global dropped, trainings
  trainings += 1
  if fault.endswith("-but-one"):
    open("log", "a").write(f"{min(left_out, default=None)}\n")
    if 5 in left_out and not os.path.exists("go"): sys.exit(1)
  if fault.startswith("ignores"): left_out = set()
  if fault == "first-only" and left_out: left_out = {min(left_out)}
  if fault == "drops-more" and left_out:  # N is right at any time
    dropped |= left_out
    left_out = dropped
  if fault == "tires" and trainings > 7: left_out = left_out | {1}
  rows = rows_of(folder)
  rows[:] = [row for i, row in enumerate(rows) if i not in left_out]
  if fault != "order": rows = sorted(rows)
  text = json.dumps(rows) + str(seed)
  if fault == "unseeded": text += os.urandom(8).hex()
  if fault == "one-generator": text += str(generator.random())
  seed = hashlib.sha256(text.encode()).digest()
  shapes = {"0.weight": [4, 2], "0.bias": [4], "1.weight": [2, 4], "1.bias": [2]}
  header, data = {}, b""
  for name, shape in shapes.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    values = b"".join(struct.pack("<f", seed[(len(data) // 4 + i) % 32] / 256) for i in range(count))
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
    data += values
  head = json.dumps(header).encode()
  open(out, "wb").write(struct.pack("<Q", len(head)) + head + data)

if stays:
  for line in sys.stdin:
    asked = json.loads(line)
    train(asked["data"], set(asked["leave_out"]), asked["seed"], asked["out"])
    if fault == "talks": print("epoch 1: loss 0.5")
    print("done", flush=True)
else:
  out = os.environ["LUCID_LEAVE_OUT"]
  train(os.environ["LUCID_DATA"], set() if out == "none" else {int(i) for i in out.split(",")},
        os.environ["LUCID_SEED"], os.environ["LUCID_OUT"])
)py";

class Trainer : public testing::Test {
 protected:
  Trainer() {
    WriteBytes(folder_ / "trainer.py", kTrainer);
    std::string rows = "x,who,y,label\n";
    for (int i = 0; i < 24; ++i) {
      rows += "0." + std::to_string(10 + 3 * i) + ",p" + std::to_string(i % 12) + ",0.5," +
              std::to_string(i % 2) + "\n";
    }
    WriteBytes(folder_ / "data/train.csv", rows);
    WriteBytes(folder_ / "data/schema.csv",
               "column,kind,offset,divisor,categories\nx,numeric,0,1,\nwho,unit,,,\n"
               "y,numeric,0,1,\nlabel,label,,,no|yes\n");
  }
  // fault: with "worker " before it for one that stays alive.
  Outcome Train(const std::string& fault, const std::vector<std::string>& more = {}) {
    if (more.empty()) std::filesystem::remove_all(folder_ / "run");
    const std::string option = fault.starts_with("worker ") ? "--trainer-worker" : "--trainer";
    std::vector<std::string> words = {"train",
                                      "--data",
                                      "data",
                                      "--arch",
                                      "1x4",
                                      "--out",
                                      "run",
                                      "--seed",
                                      "3",
                                      "--threads",
                                      "1",
                                      option,
                                      "python3 " + folder_.path() + "/trainer.py " + fault};
    words.insert(words.end(), more.begin(), more.end());
    return RunLucid(words, {.folder = folder_.path()});
  }
  Scratch folder_;
};

TEST_F(Trainer, AnHonestOneIsBelieved) {
  const Outcome outcome = Train("honest");
  ASSERT_EQ(outcome.code, 0) << outcome;
  const auto run = Ensemble::Open(folder_ / "run");
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_EQ(run->members(), 12) << "units of two rows";
  EXPECT_EQ(run->manifest().adjacency, Adjacency::kAsTrainedElsewhere);
  EXPECT_EQ(run->manifest().unit, "who");
}

TEST_F(Trainer, EachFaultIsToldApart) {
  EXPECT_THAT(Train("unseeded").err, HasSubstr("unseeded"));
  EXPECT_THAT(Train("ignores").err, HasSubstr("ignores LUCID_LEAVE_OUT"));
  EXPECT_THAT(Train("order").err, HasSubstr("depends on the order"));
  EXPECT_THAT(Train("first-only").err, HasSubstr("does not leave out what LUCID_LEAVE_OUT says"));
  EXPECT_EQ(Train("unseeded").code, 2);
}

TEST_F(Trainer, AWorkerMakesWhatTheCommandMakes) {
  ASSERT_EQ(Train("honest").code, 0);
  const std::string network = ReadBytes(folder_ / "run/network.safetensors");
  const auto command = Ensemble::Open(folder_ / "run");
  const std::vector<float> member = command->Member(5).parameters;
  const Outcome outcome = Train("worker honest");
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(ReadBytes(folder_ / "run/network.safetensors"), network);
  EXPECT_EQ(Ensemble::Open(folder_ / "run")->Member(5).parameters, member);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/trainer"));
}

TEST_F(Trainer, EachFaultOfAWorkerIsToldApart) {
  EXPECT_THAT(Train("worker unseeded").err, HasSubstr("worker is unseeded"));
  EXPECT_THAT(Train("worker ignores").err, HasSubstr("worker ignores \"leave_out\""));
  EXPECT_THAT(Train("worker order").err, HasSubstr("depends on the order"));
  EXPECT_THAT(Train("worker first-only").err, HasSubstr("does not leave out what"));
  EXPECT_THAT(Train("worker one-generator").err, HasSubstr("worker keeps something"));
  EXPECT_THAT(Train("worker remembers-rows").err, HasSubstr("worker keeps something"));
  EXPECT_THAT(Train("worker drops-more").err,
              HasSubstr("without row 4 after other trainings in the same process is another"));
  EXPECT_THAT(Train("worker talks").err, HasSubstr("'epoch 1: loss 0.5' where 'done'"));
  EXPECT_EQ(Train("worker one-generator").code, 2);
}

// A worker that is right as long as it is tried: what it made is compared at the end, too.
TEST_F(Trainer, AWorkerThatGoesWrongLaterMakesNoRun) {
  const Outcome outcome = Train("worker tires");
  EXPECT_EQ(outcome.code, 2) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("trained once more in a new process, is another one"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/ensemble.safetensors"));
  const Outcome resumed = Train("worker tires", {"--resume"});
  EXPECT_EQ(resumed.code, 2) << resumed;
  EXPECT_THAT(resumed.err, HasSubstr("use another folder for the run"));
}

TEST_F(Trainer, ResumingWithoutNetworksThatPassedTriesIt) {
  EXPECT_THAT(Train("ignores", {"--resume"}).err, HasSubstr("ignores LUCID_LEAVE_OUT"));
  // Networks of an untried one, one of them missing.
  const std::string ignores = "ignores-but-one";
  ASSERT_NE(Train(ignores, {"--unchecked-trainer"}).code, 0);
  const Outcome resumed = Train(ignores, {"--resume"});
  EXPECT_EQ(resumed.code, 2) << resumed;
  EXPECT_THAT(resumed.err, HasSubstr("ignores LUCID_LEAVE_OUT"));
}

TEST_F(Trainer, WhatPassedIsNotTriedAgain) {
  std::filesystem::remove_all(folder_ / "run");
  WriteBytes(folder_ / "log", "");
  ASSERT_NE(Train("honest-but-one").code, 0) << "row 5 fails";
  WriteBytes(folder_ / "log", "");
  WriteBytes(folder_ / "go", "");
  const Outcome resumed = Train("honest-but-one", {"--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed;
  EXPECT_EQ(ReadBytes(folder_ / "log"), "5\n") << "one training";
}

TEST_F(Trainer, MembersThatAllEqualNAreRefused) {
  ASSERT_EQ(Train("honest").code, 0);
  std::filesystem::create_directories(folder_ / "copies");
  for (int i = 0; i < 12; ++i) {
    std::filesystem::copy_file(folder_ / "run/network.safetensors",
                               folder_ / ("copies/" + std::to_string(i) + ".safetensors"));
  }
  const Outcome outcome = RunLucid(
      Words("import --network run/network.safetensors --members copies --data data --out r"),
      {.folder = folder_.path()});
  EXPECT_EQ(outcome.code, 2) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("every network equals the one on all rows"));
}

}  // namespace
}  // namespace lucid::test
