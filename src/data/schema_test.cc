#include "lucid/data/schema.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include "data/csv.h"
#include "data/ignored_columns.h"
#include "data/test_support.h"

namespace lucid {
namespace {

using testing::ElementsAre;

constexpr char kHeader[] = "column,kind,offset,divisor,categories\n";

Result<Schema> Parse(const std::string& rows) { return Schema::Parse(kHeader + rows, "s.csv"); }

TEST(Schema, ReadsEveryKind) {
  const Schema schema = Parse(
                            "age,numeric,-1,100,\n"
                            "sex,binary,,,F|M\n"
                            "job,quarter-circle,,,a|b|c\n"
                            "\"town, old\",categorical,,,X|Y|Z\n"
                            "label,label,,,no|yes|maybe\n")
                            .value();
  EXPECT_EQ(schema.features(), 1 + 1 + 2 + 3);
  EXPECT_EQ(schema.classes(), 3);
  EXPECT_EQ(schema.label_index(), 4u);
  EXPECT_EQ(schema.columns()[0].offset, -1);
  EXPECT_EQ(schema.columns()[0].divisor, 100);
  EXPECT_THAT(schema.feature_names(), ElementsAre("age", "sex", "job_cos", "job_sin", "town, old_X",
                                                  "town, old_Y", "town, old_Z"));
}

TEST(Schema, TheLabelMayStandAnywhere) {
  const Schema schema = Parse("y,label,,,0|1\nx,numeric,0,1,\n").value();
  EXPECT_EQ(schema.label_index(), 0u);
  EXPECT_EQ(schema.label().name, "y");
  EXPECT_EQ(schema.features(), 1);
}

TEST(Schema, IgnoredColumnsAreNoPartOfIt) {
  const std::string with = "id,ignore,,,\nx,numeric,0,1,\nremark,ignore,,,\ny,label,,,a|b\n";
  const Schema schema = Parse(with).value();
  EXPECT_EQ(schema, Parse("x,numeric,0,1,\ny,label,,,a|b\n").value());
  EXPECT_EQ(schema.columns().size(), 2u);
  const std::string path = WriteTo(ScratchFolder() + "/s.csv", kHeader + with);
  EXPECT_THAT(IgnoredColumns(path).value(), ElementsAre("id", "remark"));
  EXPECT_EQ(Message(Parse("x,numeric,0,1,\nx,ignore,,,\ny,label,,,a|b\n")),
            "s.csv:3: column 'x' is there twice");
  EXPECT_EQ(Message(Parse("x,ignore,0,1,\ny,label,,,a|b\n")),
            "s.csv:2: column 'x': a column that is ignored has nothing but its name");
}

TEST(Schema, CanonicalIsOneSpelling) {
  const std::string canonical = std::string(kHeader) + "x,numeric,0,0.1,\ny,label,,,a|b\n";
  EXPECT_EQ(Parse("x,numeric,-0.0,1e-1,\r\n\"y\",label,,,\"a|b\"").value().Canonical(), canonical);
  EXPECT_EQ(Schema::Parse(canonical, "s").value().Canonical(), canonical);
}

TEST(Schema, ErrorsNameFileLineColumnValueAndRule) {
  const struct {
    const char* rows;
    const char* message;
  } cases[] = {
      {"x,number,0,1,\n",
       "s.csv:2: column 'x': kind 'number' is unknown (numeric, binary, quarter-circle, "
       "categorical, label, unit or ignore)"},
      {"x,numeric,0,0,\n", "s.csv:2: column 'x': divisor '0' must not be 0"},
      {"x,numeric,0,-0.0,\n", "s.csv:2: column 'x': divisor '-0.0' must not be 0"},
      {"x,numeric,0,inf,\n", "s.csv:2: column 'x': divisor 'inf' is not a finite number"},
      {"x,numeric,nan,1,\n", "s.csv:2: column 'x': offset 'nan' is not a finite number"},
      {"x,numeric,a,1,\n", "s.csv:2: column 'x': offset 'a' is not a number"},
      {"x,numeric,0,,\n", "s.csv:2: column 'x': divisor '' is not a number"},
      {"x,numeric,0,1,a|b\n", "s.csv:2: column 'x': a numeric column has no categories"},
      {"x,binary,,,a\n", "s.csv:2: column 'x': a binary column has exactly 2 categories, not 1"},
      {"x,binary,,,a|b|c\n",
       "s.csv:2: column 'x': a binary column has exactly 2 categories, not 3"},
      {"x,binary,0,1,a|b\n", "s.csv:2: column 'x': a binary column has no offset and no divisor"},
      {"x,categorical,,,a|b|a\n", "s.csv:2: column 'x': category 'a' is there twice"},
      {"x,categorical,,,a||b\n", "s.csv:2: column 'x': a category is empty"},
      {"x,categorical,,,\n", "s.csv:2: column 'x': a category is empty"},
      {"x,quarter-circle,,,a|?\n",
       "s.csv:2: column 'x': '?' is not a category: it marks a missing value"},
      {"x,numeric,0,1,\nx,numeric,0,1,\n", "s.csv:3: column 'x' is there twice"},
      {"x,numeric,0,1,\n", "s.csv:2: no column of kind 'label'"},
      {"x,numeric,0,1,\ny,label,,,a|b\nz,label,,,a|b\n",
       "s.csv:4: column 'z': a second label ('y' is the first)"},
      {"y,label,,,a\n", "s.csv:2: column 'y': a label has at least 2 classes, not 1"},
      {"y,label,,,a|b\n", "s.csv:2: no feature column, only the label"},
      {",numeric,0,1,\n", "s.csv:2: column '': the column has no name"},
      {"x,numeric,0,1\n", "s.csv:2: 4 cells, expected 5 (column,kind,offset,divisor,categories)"},
      {"\n", "s.csv:2: 1 cells, expected 5 (column,kind,offset,divisor,categories)"},
      {"\"x\ny\",numeric,0,1,\nz,what,,,\n",
       "s.csv:4: column 'z': kind 'what' is unknown (numeric, binary, quarter-circle, categorical, "
       "label, unit or ignore)"},
      {"x,categorical,,,caf\xe9|tea\n",
       "s.csv:2: column 'x': not UTF-8; convert the files (iconv -f latin1 -t utf-8)"},
      {"\"x\x1b\n\",numeric,0,0,\n", "s.csv:2: column 'x\\x1b\\x0a': divisor '0' must not be 0"},
  };
  for (const auto& item : cases) {
    EXPECT_EQ(Message(Parse(item.rows)), item.message) << item.rows;
  }
  EXPECT_EQ(Message(Schema::Parse("", "s.csv")), "s.csv:1: the schema is empty");
  EXPECT_EQ(Message(Schema::Parse("column,kind\n", "s.csv")),
            "s.csv:1: the header must be 'column,kind,offset,divisor,categories'");
}

TEST(Schema, ALineTellsWhetherItIsDeclared) {
  const std::string text = std::string(kHeader) + "x,numeric,0,1,\ny,label,,,a|b\n";
  const auto unmarked = Schema::Parse("" + text, "s.csv");
  const auto from_data = Schema::Parse(text + "# declared = false\n", "s.csv");
  const auto declared = Schema::Parse(text + "# by hand\n# declared = true\n", "s.csv");
  ASSERT_TRUE(unmarked.ok() && from_data.ok() && declared.ok());
  EXPECT_EQ(unmarked->origin(), SchemaOrigin::kUnmarked);
  EXPECT_EQ(from_data->origin(), SchemaOrigin::kFromData);
  EXPECT_EQ(declared->origin(), SchemaOrigin::kDeclared);
  EXPECT_EQ(*from_data, *declared);  // and so their digests are equal, too
  EXPECT_EQ(from_data->Canonical(), declared->Canonical());
  EXPECT_EQ(Schema::Parse(declared->FileText(), "s.csv")->origin(), SchemaOrigin::kDeclared);
  EXPECT_EQ(Message(Schema::Parse(text + "# declared: yes\n", "s.csv")),
            "s.csv:4: '# declared: yes' must be '# declared = true' or '# declared = false'");
  EXPECT_EQ(Message(Schema::Parse(text + "# declared = true\n# declared = true\n", "s.csv")),
            "s.csv:5: a second line that says whether the schema is declared");
}

TEST(Schema, LoadNamesTheMissingFile) {
  EXPECT_THAT(Message(Schema::Load(ScratchFolder() + "/schema.csv")),
              testing::HasSubstr("/schema.csv': No such file"));
}

// A random schema as text: one label somewhere among features with awkward names and numbers.
std::string AnySchemaText() {
  const auto letter =
      rc::gen::element<std::string>("a", "b", " ", ",", "\"", "\n", "?", "\xc3\xa9");
  const auto word =
      rc::gen::map(rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(letter)),
                   [](const std::vector<std::string>& letters) {
                     return fmt::format("{}", fmt::join(letters, ""));
                   });
  const auto names = *rc::gen::nonEmpty(rc::gen::unique<std::vector<std::string>>(word));
  const auto label_at = *rc::gen::inRange<std::size_t>(0, names.size() + 1);
  std::string text = kHeader;
  const auto append = [&](const std::string& name, std::string_view kind, std::string_view offset,
                          std::string_view divisor, std::string_view categories) {
    const std::array<std::string_view, 5> cells = {name, kind, offset, divisor, categories};
    AppendCsvRecord(text, cells);
  };
  for (std::size_t i = 0; i <= names.size(); ++i) {
    if (i == label_at) append("the label", "label", "", "", "no|yes");
    if (i == names.size()) break;
    const auto kind =
        *rc::gen::element<std::string>("numeric", "binary", "quarter-circle", "categorical");
    if (kind == "numeric") {
      const double offset = *rc::gen::arbitrary<double>();
      const double divisor = *rc::gen::distinctFrom(rc::gen::arbitrary<double>(), 0.0);
      append(names[i], kind, fmt::format("{}", offset), fmt::format("{}", divisor), "");
    } else {
      append(names[i], kind, "", "", kind == "binary" ? "a|b" : "x, \"y\"|z\n|w");
    }
  }
  return text;
}

TEST(SchemaProperty, CanonicalParsesBackToTheSameSchema) {
  EXPECT_TRUE(rc::check([] {
    const Result<Schema> schema = Schema::Parse(AnySchemaText(), "s.csv");
    RC_ASSERT(schema.ok());
    const Result<Schema> again = Schema::Parse(schema->Canonical(), "canonical");
    RC_ASSERT(again.ok());
    RC_ASSERT(*again == *schema);
    RC_ASSERT(again->Canonical() == schema->Canonical());
    RC_ASSERT(schema->feature_names().size() == static_cast<std::size_t>(schema->features()));
  }));
}

}  // namespace
}  // namespace lucid
