// lucid train --trainer: a command is tried before it is believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lucid/ensemble/ensemble.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

// A trainer whose network holds the sums of its rows: honest, or with one of the usual faults.
constexpr const char* kTrainer = R"py(
import csv, hashlib, json, os, struct, sys
fault = sys.argv[1]
rows = list(csv.reader(open(os.environ["LUCID_DATA"] + "/train.csv")))[1:]
out = os.environ["LUCID_LEAVE_OUT"]
left_out = set() if out == "none" or fault == "ignores" else {int(i) for i in out.split(",")}
if fault == "first-only" and left_out: left_out = {min(left_out)}
rows = [row for i, row in enumerate(rows) if i not in left_out]
if fault != "order": rows.sort()
text = json.dumps(rows) + os.environ["LUCID_SEED"]
if fault == "unseeded": text += os.urandom(8).hex()
seed = hashlib.sha256(text.encode()).digest()
shapes = {"0.weight": [4, 2], "0.bias": [4], "1.weight": [2, 4], "1.bias": [2]}
header, data = {}, b""
for name, shape in shapes.items():
  count = shape[0] * (shape[1] if len(shape) > 1 else 1)
  values = b"".join(struct.pack("<f", seed[(len(data) // 4 + i) % 32] / 256) for i in range(count))
  header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
  data += values
head = json.dumps(header).encode()
open(os.environ["LUCID_OUT"], "wb").write(struct.pack("<Q", len(head)) + head + data)
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
  Outcome Train(const std::string& fault, const std::string& more = "") {
    std::filesystem::remove_all(folder_ / "run");
    return RunLucid({"train", "--data", "data", "--arch", "1x4", "--out", "run", "--trainer",
                     "python3 " + folder_.path() + "/trainer.py " + fault + " " + more},
                    {.folder = folder_.path()});
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
