// --domain schema end to end: bounds for records only, a proof of them, and a check that does not
// look elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lucid/certificate/certificate.h"
#include "lucid/data/domain.h"
#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

constexpr const char* kSchema =
    "column,kind,offset,divisor,categories\n"
    "age,numeric,0,100,\n"
    "colour,categorical,,,red|green|blue\n"
    "day,quarter-circle,,,mo|tu|we|th\n"
    "member,binary,,,no|yes\n"
    "label,label,,,0|1\n";

class SchemaDomain : public CommandTest {
 protected:
  SchemaDomain() {
    std::filesystem::create_directory(folder_ / "d");
    WriteBytes(folder_ / "d/schema.csv", kSchema);
    std::string rows = "age,colour,day,member,label\n";
    const char* colours[] = {"red", "green", "blue"};
    const char* days[] = {"mo", "tu", "we", "th", "?"};
    for (int i = 0; i < 40; ++i) {
      const int age = (37 * i) % 101;
      rows += std::to_string(age) + "," + colours[i % 3] + "," + days[(i / 3) % 5] + "," +
              (i % 2 == 0 ? "no" : "yes") + "," + (age + 20 * (i % 3) > 65 ? "1" : "0") + "\n";
    }
    WriteBytes(folder_ / "d/train.csv", rows);
    const Outcome trained = Run("train --data d --out r --arch 2x6 --batch 8 --lr 0.3 --epochs 60");
    EXPECT_EQ(trained.code, 0) << trained;
  }
  Outcome Check(const std::string& arguments) {
    return RunLucid(Words(arguments), {.folder = folder_.path(), .program = LUCID_CHECK_PROGRAM});
  }
};

TEST_F(SchemaDomain, BoundsAreProvedForRecordsOnly) {
  const Outcome box = Run("bound r --json --domain box --out box.json");
  const Outcome schema = Run("bound r --json --proof schema.proof");  // the default
  ASSERT_EQ(box.code, 0) << box;
  ASSERT_EQ(schema.code, 0) << schema;
  const nlohmann::json of_box = box.Json(), of_schema = schema.Json();
  for (const char* part : {"spatial", "index"}) {  // with the run's own certificate only
    EXPECT_TRUE(of_box["hashes"][part].is_null());
    EXPECT_TRUE(of_schema["hashes"][part].is_string());
  }
  EXPECT_EQ(of_schema["domain"], "schema");
  EXPECT_THAT(schema.err, HasSubstr("--domain box"));
  bool smaller = false;
  const Domain domain = Domain::OfSchema(*Schema::Parse(kSchema, "schema"));
  for (std::size_t c = 0; c < 2; ++c) {
    const double upper = of_schema["classes"][c]["beta_upper"];
    smaller |= upper < 0.95 * of_box["classes"][c]["beta_upper"].get<double>();
    if (of_schema["classes"][c]["witness"].is_null()) continue;
    const auto x = of_schema["classes"][c]["witness"]["x"].get<std::vector<float>>();
    EXPECT_TRUE(domain.Contains(x).ok());
  }
  EXPECT_TRUE(smaller) << "records leak as much as everything: the test shows nothing";
  const Outcome proof = Check("r/certificate.json --run r --level proof --proof schema.proof");
  EXPECT_EQ(proof.code, 0) << proof;
  EXPECT_THAT(proof.out, HasSubstr("accepted"));
  const Outcome falsify = Check("r/certificate.json --run r --level falsify --starts 400");
  EXPECT_EQ(falsify.code, 0) << falsify;
}

// A proof about records is none about the box, whatever the certificate around it says.
TEST_F(SchemaDomain, AProofOfRecordsIsNoProofOfTheBox) {
  ASSERT_EQ(Run("bound r --proof schema.proof").code, 0);
  Certificate certificate = LoadCertificate(folder_ / "r/certificate.json").value();
  certificate.domain = DomainKind::kBox;
  ASSERT_TRUE(SaveCertificate(certificate, folder_ / "box.json").ok());
  const Outcome check = Check("box.json --run r --level proof --proof schema.proof");
  EXPECT_EQ(check.code, 1) << check;
}

TEST_F(SchemaDomain, TheMilpEngineSaysThatItKnowsTheBoxOnly) {
  const Outcome outcome = Run("bound r --domain schema --engine milp");
  EXPECT_EQ(outcome.code, 2) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("--domain schema"));
}

}  // namespace
}  // namespace lucid::test
