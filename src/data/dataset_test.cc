#include "lucid/data/dataset.h"
#include "lucid/data/units.h"

#include <rapidcheck.h>

#include <chrono>

#include "data/csv.h"
#include "data/test_support.h"
#include "lucid/data/summary.h"

namespace lucid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kSchemaText[] =
    "column,kind,offset,divisor,categories\n"
    "age,numeric,0,100,\n"
    "job,quarter-circle,,,a|b\n"
    "label,label,,,p|q|r\n";
constexpr char kHeader[] = "age,job,label\n";

Schema TestSchema() { return Schema::Parse(kSchemaText, "schema.csv").value(); }

// The error of loading `text` as DIR/t.csv, without the folder.
std::string ErrorOf(std::string_view text, const std::string& name = "t.csv") {
  const std::string folder = ScratchFolder(), path = WriteTo(folder + "/" + name, text);
  const std::string message = Message(LoadTable(path, TestSchema()));
  EXPECT_THAT(message, IsOneLine());
  return message.starts_with(folder) ? message.substr(folder.size() + 1) : message;
}

std::string MakeDirectory(std::string_view train, std::string_view test = {}) {
  const std::string folder = ScratchFolder();
  WriteTo(folder + "/schema.csv", kSchemaText);
  WriteTo(folder + "/train.csv", train);
  if (!test.empty()) WriteTo(folder + "/test.csv", test);
  return folder;
}

TEST(LoadTable, ReadsThreeClasses) {
  const std::string path =
      WriteTo(ScratchFolder() + "/t.csv", std::string(kHeader) + "50,a,0\n100,b,2\n0,?,1\n");
  const Table table = LoadTable(path, TestSchema()).value();
  EXPECT_EQ(table.features, 3);
  EXPECT_EQ(table.rows(), 3);
  EXPECT_THAT(table.y, ElementsAre(0, 2, 1));
  EXPECT_THAT(table.row(0), ElementsAre(0.5f, 1.0f, 0.0f));
  EXPECT_THAT(table.row(2), ElementsAre(0.0f, 0.0f, 0.0f));
}

TEST(LoadTable, GzipGivesTheSameTable) {
  const std::string text = std::string(kHeader) + "50,a,0\n100,b,2\n", folder = ScratchFolder();
  const Table plain = LoadTable(WriteTo(folder + "/t.csv", text), TestSchema()).value();
  const Table gzip = LoadTable(WriteTo(folder + "/t.csv.gz", Gzip(text)), TestSchema()).value();
  EXPECT_EQ(TableDigest(plain), TableDigest(gzip));
}

TEST(LoadTable, QuotesCrLfAndByteOrderMarkDoNotChangeTheTable) {
  const std::string folder = ScratchFolder();
  const Table plain =
      LoadTable(WriteTo(folder + "/a.csv", "age,job,label\n50,a,0\n"), TestSchema()).value();
  const Table dressed =
      LoadTable(WriteTo(folder + "/b.csv", "\xef\xbb\xbf\"age\",job,label\r\n\"50\",\"a\",0"),
                TestSchema())
          .value();
  EXPECT_EQ(TableDigest(plain), TableDigest(dressed));
}

TEST(LoadTable, ErrorsNameFileLineColumnValueAndRule) {
  const std::string h = kHeader;
  EXPECT_EQ(ErrorOf(h + "1,a,0\n1,a\n"), "t.csv:3: 2 cells, expected 3");
  EXPECT_EQ(ErrorOf(h + "1,a,0,9\n"), "t.csv:2: 4 cells, expected 3");
  EXPECT_EQ(ErrorOf(h + "1,a,0\n\n1,a,0\n"), "t.csv:3: blank line, expected 3 cells");
  EXPECT_EQ(ErrorOf(h + "1,c,0\n"),
            "t.csv:2: column 'job': 'c' is not one of its 2 categories ('a', 'b')");
  EXPECT_EQ(ErrorOf(h + "1,a,0\n1x,a,0\n"), "t.csv:3: column 'age': '1x' is not a number");
  EXPECT_EQ(ErrorOf(h + ",a,0\n"), "t.csv:2: column 'age': '' is not a number");
  EXPECT_EQ(ErrorOf(h + "NaN,a,0\n"), "t.csv:2: column 'age': 'NaN' is not a finite number");
  EXPECT_EQ(ErrorOf(h + "-inf,a,0\n"), "t.csv:2: column 'age': '-inf' is not a finite number");
  EXPECT_EQ(ErrorOf(h + "101,a,0\n"),
            "t.csv:2: column 'age': '101' is 1.01 after scaling, outside [0,1]");
  EXPECT_EQ(ErrorOf(h + "-1,a,0\n"),
            "t.csv:2: column 'age': '-1' is -0.01 after scaling, outside [0,1]");
  EXPECT_EQ(
      ErrorOf(h + "1,a,3\n"),
      "t.csv:2: column 'label': '3' is not a class index from 0 to 2 and no class is called so "
      "('p', 'q', 'r')");
  EXPECT_EQ(ErrorOf(""), "t.csv:1: the file is empty, expected a header");
  EXPECT_EQ(ErrorOf(h), "t.csv:1: the file has a header but no rows");
}

TEST(LoadTable, AHeaderThatIsNotTheSchemaSaysWhatIsDifferent) {
  EXPECT_EQ(ErrorOf("age,label\n1,0\n"), "t.csv:1: column 'job' of the schema is missing");
  EXPECT_EQ(ErrorOf("age,job\n1,a\n"), "t.csv:1: column 'label' of the schema is missing");
  EXPECT_EQ(ErrorOf("age,job,id,label\n1,a,7,0\n"),
            "t.csv:1: column 'id' is not in the schema (a column of kind ignore is left out)");
  EXPECT_EQ(ErrorOf("age,job,age,label\n1,a,1,0\n"),
            "t.csv:1: column 'age' is in the header twice");
  EXPECT_EQ(ErrorOf("job,age,label\na,1,0\n"),
            "t.csv:1: column 'job' stands where the schema has 'age'");
  EXPECT_EQ(ErrorOf("1,a,0\n"), "t.csv:1: column 'age' of the schema is missing");
}

TEST(LoadTable, NamesFurtherRowsThatAreWrongInTheSameLine) {
  const std::string h = kHeader;
  EXPECT_EQ(ErrorOf(h + "1x,a,0\n1,a,0\n2x,a,0\n1,a\n"),
            "t.csv:2: column 'age': '1x' is not a number (and 2 more such rows: line 4, 5)");
  std::string many = h;
  for (int i = 0; i < 9; ++i) many += "x,a,0\n";
  EXPECT_THAT(ErrorOf(many), testing::EndsWith("(and 8 more such rows: line 3, 4, 5, 6, 7, ...)"));
  // Behind a quote that is never closed no row can be read.
  EXPECT_EQ(ErrorOf(h + "1x,a,0\n2x,a,0\n1,\"a,0\n"),
            "t.csv:2: column 'age': '1x' is not a number (and 1 more such rows: line 3)");
}

TEST(LoadTable, AnyColumnsTakesFilesAsPeopleHaveThem) {
  const std::string folder = ScratchFolder();
  const Table plain =
      LoadTable(WriteTo(folder + "/a.csv", "age,job,label\n50,a,0\n20,b,1\n"), TestSchema())
          .value();
  const LoadOptions any{.any_columns = true};
  for (const char* text :
       {"label,id,job,age\n0,7,a,50\n1,8,b,20\n", "age;id;job;label\n50;7,5;a;0\n20;8,5;b;1\n",
        "job\tage\tlabel\na\t50\t0\nb\t20\t1\n", "age, job , label\n 50, a,0 \n20,b ,1\n"}) {
    const auto read = LoadTable(WriteTo(folder + "/b.csv", text), TestSchema(), any);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(TableDigest(*read), TableDigest(plain)) << text;
  }
  EXPECT_THAT(Message(LoadTable(WriteTo(folder + "/c.csv", "label,job\n0,a\n"), TestSchema(), any)),
              testing::EndsWith("column 'age' of the schema is missing"));
  EXPECT_THAT(Message(LoadTable(WriteTo(folder + "/d.csv", "age,job,age,label\n1,a,1,0\n"),
                                TestSchema(), any)),
              testing::EndsWith("column 'age' is in the header twice"));
}

TEST(LoadDataset, AFileIsToldHowItBecomesAFolder) {
  const std::string path = WriteTo(ScratchFolder() + "/people.csv", "age,job\n");
  EXPECT_THAT(Message(LoadDataset(path)), testing::HasSubstr("lucid data schema " + path));
}

TEST(LoadTable, ErrorsOfTheTextNameFileAndLine) {
  const std::string h = kHeader;
  EXPECT_EQ(ErrorOf(h + "1,a,0\n1,\"a,0\n"),
            "t.csv:3: a quoted cell begins here and is never closed");
  EXPECT_EQ(ErrorOf(h + std::string("1,a\0,0\n", 7)), "t.csv:2: NUL byte in a cell");
  EXPECT_EQ(ErrorOf(h + "1,a,0\r2,a,0\r"), "t.csv:2: carriage return without a line feed");
  EXPECT_EQ(ErrorOf(h + "1," + std::string(70000, 'a') + ",0\n"),
            "t.csv:2: cell 2 is longer than 65536 bytes");
  EXPECT_EQ(ErrorOf(h + std::string(5 << 20, ',') + "\n"),
            "t.csv:2: the record is longer than 4194304 bytes");
  const std::string gzip = Gzip(h + "1,a,0\n");
  EXPECT_THAT(ErrorOf(gzip.substr(0, gzip.size() - 4), "t.csv.gz"),
              testing::MatchesRegex("t.csv.gz:[123]: the gzip stream is cut off"));
  std::string corrupt = gzip;
  corrupt[gzip.size() - 6] = static_cast<char>(corrupt[gzip.size() - 6] ^ 1);
  EXPECT_THAT(
      ErrorOf(corrupt, "t.csv.gz"),
      testing::MatchesRegex("t.csv.gz:[123]: the gzip stream is corrupt: incorrect data check"));
}

TEST(LoadTable, LinesAreRightBehindQuotedLineEnds) {
  const std::string folder = ScratchFolder();
  const Schema schema = Schema::Parse(
                            "column,kind,offset,divisor,categories\n"
                            "job,categorical,,,\"two\nlines|b\"\nlabel,label,,,p|q\n",
                            "s")
                            .value();
  const std::string path =
      WriteTo(folder + "/t.csv", "job,label\n\"two\nlines\",0\n\"two\nlines\",1\nb,7\n");
  EXPECT_EQ(Message(LoadTable(path, schema)),
            path +
                ":6: column 'label': '7' is not a class index from 0 to 1 and no class is called "
                "so ('p', 'q')");
}

TEST(LoadTable, LongAndUnprintableValuesAreCutAndEscaped) {
  const std::string message =
      ErrorOf(std::string(kHeader) + "1,\"x\n\x1b[31m" + std::string(1000, 'y') + "\",0\n");
  EXPECT_THAT(message, HasSubstr("'x\\x0a\\x1b[31my"));
  EXPECT_THAT(message, HasSubstr("...'"));
  EXPECT_LT(message.size(), 200u);
}

TEST(LoadTable, ClipsOnRequestAndCounts) {
  const std::string path =
      WriteTo(ScratchFolder() + "/t.csv", std::string(kHeader) + "150,a,0\n-5,a,0\n50,a,0\n");
  const Table table = LoadTable(path, TestSchema(), {.clip = true}).value();
  EXPECT_EQ(table.clipped, 2);
  EXPECT_EQ(table.row(0)[0], 1.0f);
  EXPECT_EQ(table.row(1)[0], 0.0f);
  EXPECT_EQ(table.row(2)[0], 0.5f);
}

// What a row becomes, or whether it is dropped, depends on that row alone.
TEST(LoadTable, ATotalLoadHasNoErrorForAnyRow) {
  const Schema schema = Schema::Parse(
                            "column,kind,offset,divisor,categories\n"
                            "age,numeric,0,100,\nperson,unit,,,\njob,categorical,,,a|other\n"
                            "sex,binary,,,F|M\nlabel,label,,,p|q\n",
                            "s")
                            .value();
  const std::string header = "age,person,job,sex,label\n", folder = ScratchFolder();
  const std::string good = "50,p1,a,F,0\n", clipped = "300,p2,a,M,1\n", other = "20,p3,z,M,1\n";
  const auto load = [&](const std::string& rows, std::int64_t per_unit = 0) {
    return LoadTable(WriteTo(folder + "/t.csv", header + rows), schema,
                     {.rows_per_unit = per_unit, .total = true});
  };
  const Table kept = load(good + clipped + other).value();
  EXPECT_EQ(kept.dropped, 0);
  EXPECT_EQ(kept.clipped, 1);
  EXPECT_THAT(kept.row(1), ElementsAre(1.0F, 1.0F, 0.0F, 1.0F));
  EXPECT_THAT(kept.row(2), ElementsAre(0.2F, 0.0F, 1.0F, 1.0F)) << "'z' is 'other'";
  for (const char* bad : {"x,p4,a,F,0\n", "nan,p4,a,F,0\n", "1,p4,a,D,0\n", "1,p4,a,F,2\n",
                          "1,,a,F,0\n", "1,p4,a,F\n", "1,p4,a,F,0,7\n", "\n"}) {
    const Table table = load(good + bad + clipped + other).value();
    EXPECT_EQ(table.dropped, 1) << bad;
    EXPECT_EQ(TableDigest(table), TableDigest(kept)) << bad;
    EXPECT_EQ(load(bad)->rows(), 0) << bad;
  }
  EXPECT_EQ(load("")->rows(), 0);
  EXPECT_EQ(load("", 3)->rows(), 0);
  EXPECT_FALSE(load("1,p4,\"a,F,0\n").ok()) << "no CSV";
  EXPECT_FALSE(LoadTable(WriteTo(folder + "/t.csv", header + other), schema).ok());
}

TEST(LoadTable, TheLabelMayBeAbsentOnlyOnRequest) {
  const std::string path = WriteTo(ScratchFolder() + "/t.csv", "age,job\n50,a\n");
  const Table table = LoadTable(path, TestSchema(), {}, false).value();
  EXPECT_THAT(table.y, ElementsAre(-1));
  EXPECT_THAT(Message(LoadTable(path, TestSchema())), HasSubstr("column 'label'"));
  const std::string labelled = WriteTo(path, std::string(kHeader) + "50,a,2\n");
  EXPECT_THAT(LoadTable(labelled, TestSchema(), {}, false).value().y, ElementsAre(2));
}

TEST(LoadTable, KeepsAsManyRowsAsAskedFor) {
  const std::string path =
      WriteTo(ScratchFolder() + "/t.csv", std::string(kHeader) + "1,a,0\n2,a,0\n3,b,1\n");
  EXPECT_EQ(LoadTable(path, TestSchema(), {.max_rows = 2}).value().rows(), 2);
  EXPECT_THAT(Message(LoadTable(path, TestSchema(), {.max_rows = -1})),
              HasSubstr("max_rows is -1"));
}

TEST(LoadDataset, ReadsADirectoryWithAndWithoutTest) {
  const std::string rows = std::string(kHeader) + "50,a,0\n100,b,2\n";
  const Dataset with = LoadDataset(MakeDirectory(rows, std::string(kHeader) + "1,a,1\n")).value();
  EXPECT_EQ(with.train.rows(), 2);
  EXPECT_EQ(with.test.rows(), 1);
  EXPECT_EQ(with.features(), 3);
  EXPECT_EQ(with.classes(), 3);
  const Dataset without = LoadDataset(MakeDirectory(rows)).value();
  EXPECT_EQ(without.test.rows(), 0);
  EXPECT_EQ(without.test.features, 3);
  EXPECT_EQ(without.train_digest, with.train_digest);
  EXPECT_NE(without.test_digest, with.test_digest);
}

TEST(LoadDataset, MaxRowsIsAboutTrainingOnly) {
  const std::string rows = std::string(kHeader) + "50,a,0\n100,b,2\n";
  const Dataset dataset = LoadDataset(MakeDirectory(rows, rows), {.max_rows = 1}).value();
  EXPECT_EQ(dataset.train.rows(), 1);
  EXPECT_EQ(dataset.test.rows(), 2);
}

TEST(LoadDataset, RefusesAFolderThatIsNotADataDirectory) {
  EXPECT_THAT(Message(LoadDataset(ScratchFolder() + "/none")), HasSubstr("no such folder"));
  EXPECT_THAT(Message(LoadDataset(ScratchFolder())), HasSubstr("it has no schema.csv"));
  const std::string folder = ScratchFolder();
  WriteTo(folder + "/schema.csv", kSchemaText);
  EXPECT_THAT(Message(LoadDataset(folder)), HasSubstr("neither train.csv nor train.csv.gz"));
}

TEST(LoadDataset, RefusesAFileThatIsThereTwice) {
  const std::string rows = std::string(kHeader) + "50,a,0\n";
  const std::string folder = MakeDirectory(rows, rows);
  WriteTo(folder + "/test.csv.gz", Gzip(rows));
  EXPECT_EQ(Message(LoadDataset(folder)),
            "both '" + folder + "/test.csv' and '" + folder + "/test.csv.gz' exist: remove one");
}

TEST(TableDigest, ChangesWithEveryPartOfTheTable) {
  Table table;
  table.features = 2;
  table.x = {0, 0.5f, 1, 0.25f};
  table.y = {0, 1};
  const Digest digest = TableDigest(table);
  Table other = table;
  other.y[1] = 2;
  EXPECT_NE(TableDigest(other), digest);
  other = table;
  other.x[3] = std::nextafter(0.25f, 1.0f);
  EXPECT_NE(TableDigest(other), digest);
  other = table;
  other.features = 1;
  EXPECT_NE(TableDigest(other), digest);
  EXPECT_EQ(TableDigest(table), digest);
}

TEST(LoadTableProperty, WrittenRowsAreReadBack) {
  const std::string folder = ScratchFolder();
  EXPECT_TRUE(rc::check([&folder] {
    const auto ages =
        *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 101)));
    std::string text = kHeader;
    for (const int age : ages) text += std::to_string(age) + ",b," + std::to_string(age % 3) + "\n";
    const std::string path = WriteTo(folder + "/rows.csv", text);
    const Table table = LoadTable(path, TestSchema()).value();
    RC_ASSERT(table.rows() == static_cast<std::int64_t>(ages.size()));
    for (std::size_t i = 0; i < ages.size(); ++i) {
      RC_ASSERT(table.x[3 * i] == static_cast<float>(ages[i] / 100.0));
      RC_ASSERT(table.y[i] == ages[i] % 3);
    }
  }));
}

TEST(SharedData, EveryRealDataSetLoadsWithItsKnownShape) {
  const struct {
    const char* name;
    std::int64_t train, test, features;
  } sets[] = {
      {"adult", 32561, 16281, 21},      {"credit", 21000, 9000, 23},
      {"crypto", 2800, 1200, 7},        {"twitter", 36000, 4000, 15},
      {"breast_cancer", 456, 113, 30},  {"pima_diabetes", 615, 153, 8},
      {"heart_cleveland", 238, 59, 13},
  };
  for (const auto& set : sets) {
    LUCID_NEED_SHARED(directory, set.name);
    const Result<Dataset> dataset = LoadDataset(directory);
    ASSERT_TRUE(dataset.ok()) << Message(dataset);
    EXPECT_EQ(dataset->train.rows(), set.train) << set.name;
    EXPECT_EQ(dataset->test.rows(), set.test) << set.name;
    EXPECT_EQ(dataset->features(), set.features) << set.name;
  }
}

TEST(SharedData, AdultLoadsInWellUnderASecond) {
  LUCID_NEED_SHARED(directory, "adult");
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(LoadDataset(directory).ok());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(1000 * seconds.count()));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(seconds.count(), 1.0);
#endif
}

// A column of kind `ignore` may stand anywhere or nowhere, and is never read.
TEST(LoadDataset, IgnoredColumnsMayStandAnywhere) {
  const std::string folder = ScratchFolder();
  WriteTo(folder + "/schema.csv", std::string(kSchemaText) + "id,ignore,,,\nremark,ignore,,,\n");
  WriteTo(folder + "/train.csv", "id,age,remark,job,label\n7,50,,a,0\nx,100,<?>,b,2\n");
  WriteTo(folder + "/test.csv", std::string(kHeader) + "0,?,1\n");
  const Dataset dataset = LoadDataset(folder).value();
  EXPECT_TRUE(DescribeDataset(folder).ok());
  WriteTo(folder + "/train.csv", "id,age,more,job,label\n7,50,,a,0\n");
  EXPECT_THAT(Message(LoadDataset(folder)), HasSubstr("column 'more' is not in the schema"));
  const std::string plain =
      MakeDirectory(std::string(kHeader) + "50,a,0\n100,b,2\n", std::string(kHeader) + "0,?,1\n");
  const Dataset same = LoadDataset(plain).value();
  EXPECT_EQ(dataset.schema_digest, same.schema_digest);
  EXPECT_EQ(dataset.train_digest, same.train_digest);
  EXPECT_EQ(dataset.test_digest, same.test_digest);
}

}  // namespace
}  // namespace lucid
