#include "lucid/data/infer_schema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/files.h"
#include "lucid/data/data_source.h"
#include "lucid/data/dataset.h"
#include "random/stream.h"
#include "support/scratch_folder.h"

namespace lucid {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

struct Row {
  std::string person, age, job, score, label;
};

class InferSchemaTest : public testing::Test {
 protected:
  // 150 people with one to three rows each. Ages and scores have outliers, jobs a long tail.
  static std::vector<Row> People(std::uint64_t seed) {
    Stream stream(seed, "people");
    std::vector<Row> rows;
    const std::vector<std::string> jobs = {"clerk", "nurse", "cook"};
    for (int person = 0; person < 150; ++person) {
      for (std::uint64_t n = 1 + stream.Below(3); n > 0; --n) {
        const bool rare = stream.Below(20) == 0;
        rows.push_back({fmt::format("p{}", person),
                        rare ? "999" : fmt::format("{}", 21 + stream.Below(58)),
                        rare ? fmt::format("job of {}", person) : jobs[stream.Below(3)],
                        stream.Below(30) == 0 ? "?" : fmt::format("{:.3f}", stream.Uniform()),
                        stream.Below(2) == 0 ? "no" : "yes"});
      }
    }
    return rows;
  }

  Result<InferredSchema> Infer(const std::vector<Row>& rows, const std::string& out,
                               bool with_unit = true) const {
    std::string text = with_unit ? "person,age,job,score,label\n" : "age,job,score,label\n";
    for (const Row& row : rows) {
      if (with_unit) text += row.person + ",";
      text += fmt::format("{},{},{},{}\n", row.age, row.job, row.score, row.label);
    }
    EXPECT_TRUE(WriteFileAtomically(root_ + "/in.csv", text).ok());
    InferOptions options;
    options.label = "label";
    options.unit = with_unit ? "person" : "";
    options.overwrite = true;
    return InferSchema(root_ + "/in.csv", options, root_ + "/" + out);
  }
  // A table without this row, or without all rows that begin with the same cell.
  static std::string WithoutLinesOf(const std::string& table, std::size_t row, bool all_of_unit) {
    std::istringstream stream(table);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line + "\n");
    const std::string gone = lines[row + 1], unit = gone.substr(0, gone.find(',') + 1);
    std::string rest;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (all_of_unit ? !lines[i].starts_with(unit) : i != row + 1) rest += lines[i];
    }
    return rest;
  }
  std::string Text(const std::string& name) const {
    return ReadTextFile(root_ + "/" + name).value();
  }

  const std::string root_ = ScratchFolder();
};

// The claim: whoever leaves, the schema and everybody else's place stay the same.
TEST_F(InferSchemaTest, NoSingleUnitDecidesAnything) {
  for (const bool with_unit : {true, false}) {
    const std::vector<Row> rows = People(3);
    const auto whole = Infer(rows, "whole", with_unit);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    const std::string schema = Text("whole/schema.csv");
    std::multiset<std::string> lines;
    const auto add_lines = [&](const std::string& file, std::multiset<std::string>& into) {
      std::string text = Text(file);
      for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
           at = end + 1) {
        into.insert(file.substr(file.find('/')) + text.substr(at, end - at));
      }
    };
    add_lines("whole/train.csv", lines);
    add_lines("whole/test.csv", lines);
    for (int leaving = 0; leaving < 150; leaving += with_unit ? 3 : 25) {
      std::vector<Row> rest = rows;
      if (with_unit) {
        std::erase_if(rest,
                      [&](const Row& row) { return row.person == fmt::format("p{}", leaving); });
      } else {
        rest.erase(rest.begin() + leaving);
      }
      ASSERT_TRUE(Infer(rest, "less", with_unit).ok());
      EXPECT_EQ(Text("less/schema.csv"), schema) << leaving;
      std::multiset<std::string> fewer;
      add_lines("less/train.csv", fewer);
      add_lines("less/test.csv", fewer);
      EXPECT_TRUE(std::ranges::includes(lines, fewer)) << leaving;
      EXPECT_LT(fewer.size(), lines.size());
    }
  }
}

TEST_F(InferSchemaTest, TheResultLoadsAndHidesOutliers) {
  const auto made = Infer(People(3), "out");
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto dataset = LoadDataset(root_ + "/out");
  ASSERT_TRUE(dataset.ok()) << dataset.error().message;
  EXPECT_EQ(dataset->train.rows(), made->train_rows);
  EXPECT_EQ(dataset->test.rows(), made->test_rows);
  EXPECT_EQ(made->train_rows + made->test_rows, made->rows);
  EXPECT_GT(made->test_rows, made->rows / 10);
  EXPECT_LT(made->test_rows, made->rows / 3);
  EXPECT_EQ(dataset->schema.unit_name(), "person");
  const std::string all = Text("out/train.csv") + Text("out/test.csv") + Text("out/schema.csv");
  EXPECT_EQ(all.find("job of"), std::string::npos);
  EXPECT_THAT(Text("out/schema.csv"), HasSubstr("clerk|cook|nurse|other"));
  EXPECT_THAT(Text("out/schema.csv"), HasSubstr("score,numeric,0,1,"));
  std::set<std::string> train, test;
  for (const std::string& unit : dataset->train.unit_ids) train.insert(unit);
  for (const std::string& unit : dataset->test.unit_ids) EXPECT_FALSE(train.contains(unit));
}

// A category that ten units have goes if one of them goes.
TEST_F(InferSchemaTest, WhatASingleUnitDecidesHasToBeDeclared) {
  std::vector<Row> rows = People(3);
  const auto with_pilots = [&](int pilots, int rows_of_each) {
    std::vector<Row> more = rows;
    for (int i = 0; i < pilots * rows_of_each; ++i) {
      more.push_back({fmt::format("pilot{}", i % pilots), "40", "pilot", "0.5", "no"});
    }
    return Infer(more, "out");
  };
  EXPECT_TRUE(with_pilots(9, 1).ok());
  const auto ten = with_pilots(10, 1);
  ASSERT_FALSE(ten.ok());
  EXPECT_EQ(ten.error().kind, ErrorKind::kMismatch);
  EXPECT_THAT(ten.error().message, HasSubstr("a single unit decides about job"));
  const auto eleven = with_pilots(11, 1);
  ASSERT_TRUE(eleven.ok()) << eleven.error().message;
  EXPECT_EQ(std::ranges::find(eleven->columns, "job", &ColumnDecision::name)->margin, 2);
  EXPECT_THAT(Text("out/schema.csv"), HasSubstr("pilot"));
  // One person with many rows is one unit.
  EXPECT_TRUE(with_pilots(1, 40).ok());
  EXPECT_EQ(Text("out/schema.csv").find("pilot"), std::string::npos);
}

TEST_F(InferSchemaTest, IdsDatesAndConstantsAreLeftOut) {
  std::string text = "id,day,same,x,label\n";
  for (int i = 0; i < 60; ++i) {
    text += fmt::format("{},2026-11-{:02},k,{},{}\n", 1000 + i, 1 + i % 28, 0.017 * i, i % 2);
  }
  ASSERT_TRUE(WriteFileAtomically(root_ + "/in.csv", text).ok());
  InferOptions options;
  options.label = "label";
  const auto made = InferSchema(root_ + "/in.csv", options, root_ + "/out");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->schema.columns().size(), 2);
  EXPECT_THAT(made->columns[0].what, HasSubstr("an id"));
  EXPECT_THAT(made->columns[1].what, HasSubstr("dates"));
  EXPECT_THAT(made->columns[2].what, HasSubstr("constant"));
  options.label = "class";
  EXPECT_THAT(InferSchema(root_ + "/in.csv", options, root_ + "/out2").error().message,
              HasSubstr("no column 'class' for the label"));
}

// What is asked for is written down: given back as it is, it is an answer.
TEST_F(InferSchemaTest, TheProposedSchemaCanBeDeclared) {
  std::vector<Row> rows = People(3);
  for (int i = 0; i < 10; ++i)
    rows.push_back({fmt::format("pilot{}", i), "40", "pilot", "0.5", "no"});
  ASSERT_FALSE(Infer(rows, "out").ok());  // leaves in.csv
  InferOptions options;
  options.label = "label";
  options.unit = "person";
  options.proposal = root_ + "/proposal.csv";
  const auto asked = InferSchema(root_ + "/in.csv", options, root_ + "/out");
  ASSERT_FALSE(asked.ok());
  EXPECT_THAT(asked.error().message, HasSubstr("look at " + options.proposal));
  options.declared = options.proposal;
  const auto made = InferSchema(root_ + "/in.csv", options, root_ + "/out");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(Text("out/schema.csv"), Text("proposal.csv"));
}

TEST_F(InferSchemaTest, DatesOfOtherCountriesAreDates) {
  std::string text = "a;b;c;no date;x;label\n";
  for (int i = 0; i < 60; ++i) {
    text += fmt::format("{}.{}.2024; {:02}/{:02}/2024 10:30 ;2024/1/{};{}.{}.{};{};{}\n",
                        1 + i % 28, 1 + i % 12, 1 + i % 12, 1 + i % 28, 1 + i % 28, 1 + i % 2,
                        1 + i % 2, 1 + i % 2, 0.017 * i, i % 2 == 0 ? "yes" : "no");
  }
  ASSERT_TRUE(WriteFileAtomically(root_ + "/in.csv", text).ok());
  InferOptions options;
  options.label = "label";
  const auto made = InferSchema(root_ + "/in.csv", options, root_ + "/out");
  ASSERT_TRUE(made.ok()) << made.error().message;
  for (int c = 0; c < 3; ++c) EXPECT_THAT(made->columns[c].what, HasSubstr("dates")) << c;
  EXPECT_THAT(made->columns[3].what, HasSubstr("categorical, 2 categories"));
}

TEST_F(InferSchemaTest, MissingCellsAreFilledDroppedOrRefused) {
  std::string text = "x,job,label\n";
  for (int i = 0; i < 60; ++i) {
    text += fmt::format("{},{},{}\n", i % 20 == 3 ? "?" : fmt::format("{}", 0.017 * i),
                        i == 7       ? ""
                        : i % 2 == 0 ? "cook"
                                     : "nurse",
                        i % 3 == 0 ? "yes" : "no");
  }
  ASSERT_TRUE(WriteFileAtomically(root_ + "/in.csv", text).ok());
  InferOptions options;
  options.label = "label";
  options.test_share = 0;
  const auto infer = [&](MissingCells missing, const std::string& out) {
    options.missing = missing;
    return InferSchema(root_ + "/in.csv", options, root_ + "/" + out);
  };
  const auto filled = infer(MissingCells::kFill, "filled");
  ASSERT_TRUE(filled.ok()) << filled.error().message;
  EXPECT_EQ(filled->missing_cells, 4);
  EXPECT_EQ(filled->train_rows, 60);
  const auto dropped = infer(MissingCells::kDrop, "dropped");
  ASSERT_TRUE(dropped.ok()) << dropped.error().message;
  EXPECT_EQ(dropped->rows_with_missing, 4);
  EXPECT_EQ(dropped->train_rows, 56);
  EXPECT_THAT(infer(MissingCells::kRefuse, "refused").error().message,
              testing::StartsWith("4 cells are missing, in the columns 'x' (3), 'job' (1): of the "
                                  "option missing, fill makes"));
  EXPECT_FALSE(fs::exists(root_ + "/refused"));

  // Only what is declared, for those who want nothing decided by the data.
  ASSERT_TRUE(WriteFileAtomically(root_ + "/declared.csv",
                                  "column,kind,offset,divisor,categories\n"
                                  "x,numeric,0,2,\nlabel,label,,,no|yes\n")
                  .ok());
  options.declared = root_ + "/declared.csv";
  options.only_declared = true;
  const auto declared = infer(MissingCells::kFill, "declared");
  ASSERT_TRUE(declared.ok()) << declared.error().message;
  EXPECT_EQ(declared->schema.columns().size(), 2);
  EXPECT_EQ(declared->columns[1].what, "left out: not declared");
}

// A schema that rows decided about says so, in its file and in data sets that are made with it,
// until somebody signs it.
TEST_F(InferSchemaTest, ASchemaFromDataIsNotDeclaredUntilItIsSigned) {
  std::string csv = "x,y,label\n";
  for (int i = 0; i < 60; ++i) csv += fmt::format("{},{},{}\n", i % 7, i % 5, i % 2);
  const std::string path = root_ + "/rows.csv";
  ASSERT_TRUE(WriteFileAtomically(path, csv).ok());
  const auto infer = [&](const std::string& declared, const std::string& name) {
    const auto made = InferSchema(path, {.label = "label", .declared = declared, .test_share = 0},
                                  root_ + "/" + name);
    EXPECT_TRUE(made.ok()) << made.error().message;
    const auto loaded = LoadDataset(root_ + "/" + name);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(loaded->schema.origin(), made->schema.origin());
    return made->schema;
  };
  const auto write = [&](const std::string& name, const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(root_ + "/" + name, text).ok());
    return root_ + "/" + name;
  };
  const Schema first = infer("", "first");
  EXPECT_EQ(first.origin(), SchemaOrigin::kFromData);
  EXPECT_EQ(first.FileText(), first.Canonical() + "# declared = false\n");
  EXPECT_EQ(infer(root_ + "/first/schema.csv", "again").origin(), SchemaOrigin::kFromData);
  EXPECT_EQ(infer(write("signed.csv", first.Canonical() + "# declared = true\n"), "s").origin(),
            SchemaOrigin::kDeclared);
  EXPECT_EQ(infer(write("by_hand.csv", first.Canonical()), "h").origin(), SchemaOrigin::kUnmarked);

  // Two columns of three: without a signature the rule decides about the third.
  const std::string part =
      "column,kind,offset,divisor,categories\nx,numeric,0,10,\nlabel,label,,,0|1\n";
  EXPECT_EQ(infer(write("part.csv", part), "p").origin(), SchemaOrigin::kFromData);
  const Schema two = infer(write("two.csv", part + "# declared = true\n"), "t");
  EXPECT_EQ(two.origin(), SchemaOrigin::kDeclared);
  EXPECT_EQ(two.columns().size(), 2);
}

// The folder says from what it was made, so that everything can be run anew without somebody: the
// schema stays, and so does everybody else's place.
TEST_F(InferSchemaTest, EverythingCanBeRunAnewWithoutAUnit) {
  for (const bool with_unit : {true, false}) {
    const auto made = Infer(People(5), "all", with_unit);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto source = LoadSource(root_ + "/all");
    ASSERT_TRUE(source.ok()) << source.error().message;
    ASSERT_TRUE(source->has_value());
    EXPECT_EQ((*source)->digest, Sha256OfFile(root_ + "/in.csv").value());
    InferOptions options = (*source)->options;
    EXPECT_EQ(options.unit, with_unit ? "person" : "");
    options.overwrite = true;  // that of `Infer` is about its own folder
    ASSERT_TRUE(InferSchema((*source)->file, options, root_ + "/again").ok());
    EXPECT_EQ(Text("again/train.csv"), Text("all/train.csv"));
    ASSERT_EQ(std::ssize(made->train_records), made->train_rows);
    for (const std::size_t row : {0, 17, 60}) {
      const auto rest =
          WithoutUnitOfRecord((*source)->file, options.unit, made->train_records[row]);
      ASSERT_TRUE(rest.ok()) << rest.error().message;
      ASSERT_TRUE(WriteFileAtomically(root_ + "/rest.csv", *rest).ok());
      const auto reduced = InferSchema(root_ + "/rest.csv", options, root_ + "/reduced");
      ASSERT_TRUE(reduced.ok()) << reduced.error().message;
      EXPECT_EQ(Text("reduced/schema.csv"), Text("all/schema.csv"));
      EXPECT_EQ(Text("reduced/test.csv"), Text("all/test.csv"));
      EXPECT_EQ(Text("reduced/train.csv"), WithoutLinesOf(Text("all/train.csv"), row, with_unit));
    }
    EXPECT_FALSE(WithoutUnitOfRecord((*source)->file, options.unit, 100'000).ok());
    EXPECT_FALSE(WithoutUnitOfRecord((*source)->file, "nothing", 0).ok());
  }
  EXPECT_FALSE(LoadSource(root_)->has_value());
}

TEST_F(InferSchemaTest, TheRecordOfAFolderIsReadAsItWasWritten) {
  DataSource source{"/some/where, \"here\".csv", Sha256Of("x"), {}, "column,kind\na,\"b\"\n"};
  source.options.label = "y";
  source.options.ignore = {"a", "b,c"};
  source.options.split_key = ~std::uint64_t{0};
  source.options.test_share = 0.1;
  source.options.only_declared = true;
  source.options.missing = MissingCells::kDrop;
  const std::string path = root_ + "/" + kSourceFile, text = EncodeSource(source);
  ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  const auto read = LoadSource(root_);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(EncodeSource(**read), text);
  for (const std::string& wrong : {std::string("format,other\n"), text + "more,1\n",
                                   std::string("format,lucid-source-1\n"), text + "\"open"}) {
    ASSERT_TRUE(WriteFileAtomically(path, wrong).ok());
    EXPECT_FALSE(LoadSource(root_).ok()) << wrong;
  }
}

TEST_F(InferSchemaTest, ColumnsThatAreToBeIgnoredAreLeftOut) {
  ASSERT_TRUE(Infer(People(3), "all").ok());
  InferOptions options;
  options.label = "label";
  options.unit = "person";
  options.overwrite = true;
  options.ignore = {"job"};
  const auto made = InferSchema(root_ + "/in.csv", options, root_ + "/without");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->columns[2].what, "left out: ignored, as asked");
  EXPECT_EQ(Text("without/schema.csv").find("job"), std::string::npos);
  EXPECT_NE(Text("all/schema.csv").find("job"), std::string::npos);
  // The same by a line of a schema.
  const std::string line =
      "column,kind,offset,divisor,categories\nlabel,label,,,no|yes\n"
      "age,numeric,0,100,\njob,ignore,,,\n";
  ASSERT_TRUE(WriteFileAtomically(root_ + "/declared.csv", line).ok());
  options.ignore.clear();
  options.declared = root_ + "/declared.csv";
  const auto declared = InferSchema(root_ + "/in.csv", options, root_ + "/declared");
  ASSERT_TRUE(declared.ok()) << declared.error().message;
  EXPECT_EQ(declared->columns[2].what, "left out: ignored, as asked");
  for (const char* wrong : {"label", "person", "nothing"}) {
    options.ignore = {wrong};
    EXPECT_FALSE(InferSchema(root_ + "/in.csv", options, root_ + "/wrong").ok()) << wrong;
  }
}

}  // namespace
}  // namespace lucid
