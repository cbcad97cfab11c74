#include "lucid/data/encoder.h"

#include <rapidcheck.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "data/csv.h"
#include "data/test_support.h"
#include "lucid/data/dataset.h"

namespace lucid {
namespace {

using testing::ElementsAre;

Schema AnyKinds() {
  return Schema::Parse(
             "column,kind,offset,divisor,categories\n"
             "age,numeric,-10,100,\n"
             "sex,binary,,,F|M\n"
             "job,quarter-circle,,,a|b|c\n"
             "town,categorical,,,X|Y|?\n"
             "label,label,,,p|q|r\n",
             "s.csv")
      .value();
}

Result<std::vector<float>> Encode(const Encoder& encoder, std::vector<std::string_view> cells) {
  std::vector<float> out(static_cast<std::size_t>(encoder.schema().features()), -7.0f);
  LUCID_TRY(encoder.EncodeRow(cells, out));
  return out;
}

TEST(Encoder, EncodesEveryKind) {
  const Encoder encoder(AnyKinds());
  EXPECT_THAT(Encode(encoder, {"60", "M", "a", "Y"}).value(),
              ElementsAre(0.5f, 1.0f, 1.0f, 0.0f, 0.0f, 1.0f, 0.0f));
  const std::vector<float> middle = Encode(encoder, {"10", "F", "b", "?"}).value();
  EXPECT_FLOAT_EQ(middle[2], static_cast<float>(std::sqrt(0.5)));
  EXPECT_FLOAT_EQ(middle[3], static_cast<float>(std::sqrt(0.5)));
  EXPECT_EQ(middle[6], 1.0f) << "'?' is a category where the schema lists it";
}

TEST(Encoder, QuestionMarkIsTheCentreOfTheQuarterCircleOnly) {
  const Encoder encoder(AnyKinds());
  const std::vector<float> row = Encode(encoder, {"10", "F", "?", "X"}).value();
  EXPECT_EQ(row[2], 0.0f);
  EXPECT_EQ(row[3], 0.0f);
  EXPECT_EQ(Message(Encode(encoder, {"?", "F", "a", "X"})), "column 'age': '?' is not a number");
  EXPECT_EQ(Message(Encode(encoder, {"10", "?", "a", "X"})),
            "column 'sex': '?' is not one of its 2 categories ('F', 'M')");
}

TEST(Encoder, ASingleCategoryOfAQuarterCircleIsAtAngleZero) {
  const Encoder encoder(Schema::Parse("column,kind,offset,divisor,categories\n"
                                      "c,quarter-circle,,,only\ny,label,,,0|1\n",
                                      "s")
                            .value());
  EXPECT_THAT(Encode(encoder, {"only"}).value(), ElementsAre(1.0f, 0.0f));
  EXPECT_THAT(Encode(encoder, {"?"}).value(), ElementsAre(0.0f, 0.0f));
}

TEST(Encoder, ErrorsNameColumnValueAndRule) {
  const Encoder encoder(AnyKinds());
  EXPECT_EQ(Message(Encode(encoder, {"x", "F", "a", "X"})), "column 'age': 'x' is not a number");
  EXPECT_EQ(Message(Encode(encoder, {"nan", "F", "a", "X"})),
            "column 'age': 'nan' is not a finite number");
  EXPECT_EQ(Message(Encode(encoder, {"200", "F", "a", "X"})),
            "column 'age': '200' is 1.9 after scaling, outside [0,1]");
  EXPECT_EQ(Message(Encode(encoder, {"10", "F", "d\n", "X"})),
            "column 'job': 'd\\x0a' is not one of its 3 categories ('a', 'b', 'c')");
  EXPECT_EQ(Message(Encode(encoder, {"10", "F", "a"})),
            "3 cells, expected 4 (one per feature column)");
}

TEST(Encoder, ALabelIsAClassIndexOrAName) {
  const Encoder encoder(AnyKinds());
  EXPECT_EQ(encoder.EncodeLabel("2").value(), 2);
  EXPECT_EQ(encoder.EncodeLabel("q").value(), 1);
  for (const char* bad : {"3", "-1", "1.0", "", "z", " 1", "99999999999"}) {
    EXPECT_EQ(Message(encoder.EncodeLabel(bad)),
              "column 'label': '" + std::string(bad) +
                  "' is not a class index from 0 to 2 and no class is called so ('p', 'q', 'r')");
  }
}

// "1" could be the class 1 or the class that is called 1, which is class 0: then names do not
// count.
TEST(Encoder, NamesThatAreNumbersAreNeverTakenForALabel) {
  const Encoder encoder(Schema::Parse("column,kind,offset,divisor,categories\n"
                                      "x,numeric,0,1,\ny,label,,,1|2|many\n",
                                      "s")
                            .value());
  EXPECT_EQ(encoder.EncodeLabel("1").value(), 1);
  EXPECT_EQ(encoder.EncodeLabel("2").value(), 2);
  EXPECT_EQ(Message(encoder.EncodeLabel("many")),
            "column 'y': 'many' is not a class index from 0 to 2");
}

TEST(Encoder, FillsMissingNumbersWithTheMiddle) {
  const Encoder encoder(AnyKinds(), true, true, true);
  for (const char* missing : {"", "?", "NA", "NaN"}) {
    EXPECT_EQ(Encode(encoder, {missing, "F", "a", "X"}).value()[0], 0.5f);
  }
  EXPECT_FALSE(Encode(encoder, {"na", "F", "a", "X"}).ok());
}

TEST(Encoder, ClippingCountsWhatItMovesAndNothingElse) {
  const Encoder encoder(AnyKinds(), true);
  std::vector<float> out(7);
  const auto clip = [&](std::string_view age) {
    const std::vector<std::string_view> cells = {age, "F", "a", "X"};
    return encoder.EncodeRow(cells, out);
  };
  EXPECT_EQ(clip("200").value(), 1);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(clip("-1e308").value(), 1);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(clip("110").value(), 0);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_FALSE(clip("inf").ok()) << "not a value, clipped or not";
}

TEST(Encoder, RoundingNoiseAroundTheEndsIsLetThroughAndNoMore) {
  const Encoder encoder(Schema::Parse("column,kind,offset,divisor,categories\n"
                                      "x,numeric,0,1,\ny,label,,,0|1\n",
                                      "s")
                            .value());
  EXPECT_EQ(Encode(encoder, {"-1.6e-16"}).value()[0], -1.6e-16f);
  EXPECT_EQ(Encode(encoder, {"1.0000000000000009"}).value()[0], 1.0f);
  EXPECT_FALSE(Encode(encoder, {"-1.1e-15"}).ok());
  EXPECT_FALSE(Encode(encoder, {"1.000000000000002"}).ok());
}

TEST(EncoderProperty, EveryAcceptedNumberIsTheRoundedQuotientAndInRange) {
  EXPECT_TRUE(rc::check([](std::int32_t raw, std::int32_t offset, std::int32_t divisor) {
    RC_PRE(divisor != 0);
    const std::string text = "column,kind,offset,divisor,categories\nx,numeric," +
                             std::to_string(offset) + "," + std::to_string(divisor) +
                             ",\ny,label,,,0|1\n";
    const Encoder encoder(Schema::Parse(text, "s").value());
    const std::string cell = std::to_string(raw);
    const double exact = (static_cast<double>(raw) + offset) / divisor;
    const Result<std::vector<float>> row = Encode(encoder, {cell});
    RC_ASSERT(row.ok() == (exact >= 0 && exact <= 1));
    if (row.ok()) RC_ASSERT((*row)[0] == static_cast<float>(exact));
  }));
}

// The authors' published tensors, 9 digits a value: equal to the last bit of float32.
void ExpectBitExact(const std::string& directory) {
  const Schema schema = Schema::Load(directory + "/schema.csv").value();
  const Table table = LoadTable(directory + "/test.csv", schema).value();
  const std::string path = directory + "/lucid_encoded_sample.csv";
  CsvReader csv(OpenSource(path).value(), path);
  ASSERT_TRUE(csv.Next().value());  // header
  ASSERT_EQ(csv.cells().size(), static_cast<std::size_t>(table.features) + 1);
  for (std::int64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(csv.Next().value());
    for (std::size_t c = 0; c < static_cast<std::size_t>(table.features); ++c) {
      const float expected = static_cast<float>(ParseNumber(csv.cells()[c]).value());
      ASSERT_EQ(std::bit_cast<std::uint32_t>(table.row(i)[c]),
                std::bit_cast<std::uint32_t>(expected))
          << "row " << i << ", input " << c << ": " << table.row(i)[c] << " against " << expected;
    }
    ASSERT_EQ(table.y[static_cast<std::size_t>(i)],
              static_cast<int>(ParseNumber(csv.cells().back()).value()));
  }
  EXPECT_FALSE(csv.Next().value());
}

TEST(Encoder, AdultEqualsThePublishedTensorBitForBit) {
  LUCID_NEED_SHARED(directory, "adult");
  ExpectBitExact(directory);
}

TEST(Encoder, CreditEqualsThePublishedTensorBitForBit) {
  LUCID_NEED_SHARED(directory, "credit");
  ExpectBitExact(directory);
}

}  // namespace
}  // namespace lucid
