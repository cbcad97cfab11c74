// Rule R (docs/training.md): a member is what training on the file without the unit's rows gives,
// to the bit, whatever the order of the lines. Really tried: rows are deleted from the CSV, its
// lines are shuffled, and `lucid train` is run on it with the same options. A hundred units of
// heart and a hundred of the made set for each of the presets; a few of Crypto.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <sstream>

#include "lucid/ensemble/ensemble.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

struct Preset {
  const char* name;
  const char* options;
};
constexpr Preset kPresets[] = {
    {"paper", "--preset paper"},
    {"stable", "--preset stable --momentum 0.5 --average-epochs 2"},
    {"clipped", "--preset clipped --lr 1 --rows-per-unit 5"},
    {"private", "--preset private --lr 1 --rows-per-unit 5 --seeded-noise --train-delta 1e-5"},
    {"standardised",
     "--preset private --standardise 1 --lr 1 --rows-per-unit 5 --seeded-noise --train-delta 1e-5"},
};

class RuleR : public testing::TestWithParam<Preset> {
 protected:
  static std::vector<std::string> Lines(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  // Trains on `data`, whose lines of train.csv are given, and on the file without each of `count`
  // units. `unit_of`: the unit of a line.
  template <typename UnitOf>
  void Check(const std::string& data, const std::string& schema,
             const std::vector<std::string>& lines, const std::string& options, int count,
             const UnitOf& unit_of) {
    WriteBytes(folder_ / (data + "/schema.csv"), schema);
    Write(data, lines);
    const std::string all = options + " " + GetParam().options + " --seed 3 --threads 2";
    const Outcome full = RunLucid(Words("train --json --data " + data + " --out full " + all),
                                  {.folder = folder_.path()});
    ASSERT_EQ(full.code, 0) << full;
    EXPECT_EQ(full.Json()["adjacency"], "unit removed");
    const auto ensemble = Ensemble::Open(folder_ / "full");
    ASSERT_TRUE(ensemble.ok()) << ensemble.error().message;
    std::mt19937_64 random(7);
    int differ = 0;
    for (int i = 0; i < count; ++i) {
      const std::int64_t member = i * ensemble->members() / count;
      const std::string unit = unit_of(lines[1 + ensemble->RowOf(member)]);
      std::vector<std::string> rest = lines;
      bool one = false;  // without a unit column, of equal rows only one goes
      std::erase_if(rest, [&](const std::string& line) {
        if (unit_of(line) != unit || (one && unit == line)) return false;
        return one = true;
      });
      ASSERT_LT(rest.size(), lines.size());
      std::shuffle(rest.begin() + 1, rest.end(), random);
      WriteBytes(folder_ / "less/schema.csv", schema);
      Write("less", rest);
      std::filesystem::remove_all(folder_ / "without");
      // A different number of threads, another instruction set, and only one member.
      const std::string set = i % 10 == 0 ? " --instruction-set portable" : "";
      const Outcome less =
          RunLucid(Words("train --json --data less --out without --members 1 --threads 1 " +
                         options + " " + GetParam().options + " --seed 3" + set),
                   {.folder = folder_.path()});
      ASSERT_EQ(less.code, 0) << less;
      const auto without = OpenRunNetwork(folder_ / "without");
      ASSERT_TRUE(without.ok()) << without.error().message;
      ASSERT_EQ(without->network.parameters, ensemble->Member(member).parameters)
          << data << ", without " << unit;
      differ += without->network.parameters != ensemble->network().parameters;
    }
    // A unit that no coin ever took is in no private step: its member is N. Most were taken.
    EXPECT_GT(differ, count / 2);
  }

  void Write(const std::string& data, const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    WriteBytes(folder_ / (data + "/train.csv"), text);
  }

  // A folder of ../shared/data; skips where it is absent.
  void CheckShared(const std::string& name, const std::string& options, int count) {
    const std::string folder = std::string(LUCID_SHARED_DATA) + "/" + name;
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
    Check("data", ReadBytes(folder + "/schema.csv"), Lines(ReadBytes(folder + "/train.csv")),
          options, count, [](const std::string& line) { return line; });
  }

  Scratch folder_;
};

TEST_P(RuleR, HeartWithBatchesOf16) {
  CheckShared("heart_cleveland", "--arch 2x10 --epochs 10 --batch 16 --expected-rows 240", 100);
}

TEST_P(RuleR, CryptoWithBatchesOf100) {
  CheckShared("crypto", "--arch 2x10 --epochs 2 --batch 100 --expected-rows 3000", 5);
}

TEST_P(RuleR, UnitsOfOneToFiveRows) {
  std::vector<std::string> lines = {"a,person,b,label"};
  std::mt19937_64 random(1);
  for (int person = 0; person < 100; ++person) {
    for (int row = 0; row <= person % 5; ++row) {
      const double a = static_cast<double>(random() % 1000) / 1000;
      const double b = row == 1 ? 0.5 : static_cast<double>(random() % 100) / 100;
      lines.push_back(std::to_string(a) + ",p" + std::to_string(person) + "," + std::to_string(b) +
                      "," + (a + b > 1 ? "1" : "0"));
    }
  }
  std::shuffle(lines.begin() + 1, lines.end(), random);
  Check("units",
        "column,kind,offset,divisor,categories\na,numeric,0,1,\nperson,unit,,,\nb,numeric,0,1,\n"
        "label,label,,,no|yes\n",
        lines, "--arch 2x8 --epochs 4 --batch 16 --expected-rows 300", 100,
        [](const std::string& line) {
          return line.substr(line.find(','), line.find(',', line.find(',') + 1) - line.find(','));
        });
}

INSTANTIATE_TEST_SUITE_P(Presets, RuleR, testing::ValuesIn(kPresets),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace lucid::test
