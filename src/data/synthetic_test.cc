#include "lucid/data/synthetic.h"

#include <cmath>

#include "data/test_support.h"
#include "lucid/data/dataset.h"

namespace lucid {
namespace {

using testing::HasSubstr;

TEST(Synthetic2d, IsADataDirectoryWithThePapersShape) {
  const std::string folder = ScratchFolder() + "/set";
  ASSERT_TRUE(WriteSynthetic2d(folder, {}).ok());
  const Dataset dataset = LoadDataset(folder).value();
  EXPECT_EQ(dataset.train.rows(), 7000);
  EXPECT_EQ(dataset.test.rows(), 3000);
  EXPECT_EQ(dataset.features(), 2);
  EXPECT_EQ(dataset.classes(), 2);
}

TEST(Synthetic2d, DependsOnTheSeedAndOnNothingElse) {
  const std::string folder = ScratchFolder();
  const auto text = [&](const std::string& name, std::uint64_t seed) {
    EXPECT_TRUE(WriteSynthetic2d(folder + "/" + name, {.rows = 500, .seed = seed}).ok());
    return ReadBytes(folder + "/" + name + "/train.csv") +
           ReadBytes(folder + "/" + name + "/test.csv");
  };
  const std::string first = text("a", 1);
  EXPECT_EQ(text("b", 1), first);
  EXPECT_NE(text("c", 2), first);
  // Pinned: the numbers in the docs and in other people's runs came from these rows.
  EXPECT_EQ(Sha256Of(first).Hex(),
            "223aaa3cfa004abc43ed73848113ce9699b89dd8b5af18688aa7160a5057a574");
}

TEST(Synthetic2d, ClassesAreBalancedAndOverlapOnlyNearTheCurve) {
  const std::string folder = ScratchFolder() + "/set";
  ASSERT_TRUE(WriteSynthetic2d(folder, {.rows = 20000, .overlap = 0.06}).ok());
  const Table table = LoadDataset(folder).value().train;
  int above = 0, disagree = 0;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    const double x1 = table.row(i)[0], x2 = table.row(i)[1];
    const double distance = x2 - (0.5 + 5 * x1 * (x1 - 0.5) * (x1 - 1));
    const bool label = table.y[static_cast<std::size_t>(i)] == 1;
    above += label;
    disagree += label != (distance > 0);
    if (std::abs(distance) > 0.06 + 1e-6) {
      ASSERT_EQ(label, distance > 0) << "row " << i;
    }
  }
  // Expected: a half, and overlap / 3 = 2 %. Five standard deviations: false alarms below 1e-6, and
  // none at all for the fixed seed.
  EXPECT_NEAR(above / 20000.0, 0.5, 5 * std::sqrt(0.25 / 20000));
  EXPECT_NEAR(disagree / 20000.0, 0.02, 5 * std::sqrt(0.02 * 0.98 / 20000));
}

TEST(Synthetic2d, WithoutOverlapTheCurveDecides) {
  const std::string folder = ScratchFolder() + "/set";
  ASSERT_TRUE(WriteSynthetic2d(folder, {.rows = 2000, .overlap = 0}).ok());
  const Table table = LoadDataset(folder).value().train;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    const double x1 = table.row(i)[0], x2 = table.row(i)[1];
    const double distance = x2 - (0.5 + 5 * x1 * (x1 - 0.5) * (x1 - 1));
    if (std::abs(distance) > 1e-6) {
      ASSERT_EQ(table.y[static_cast<std::size_t>(i)] == 1, distance > 0);
    }
  }
}

TEST(Synthetic2d, RefusesToOverwriteADataSetUnlessTold) {
  const std::string folder = ScratchFolder() + "/set";
  ASSERT_TRUE(WriteSynthetic2d(folder, {.rows = 10}).ok());
  const std::string before = ReadBytes(folder + "/train.csv");
  EXPECT_THAT(Message(WriteSynthetic2d(folder, {.rows = 20})),
              HasSubstr("holds a data set already ('schema.csv')"));
  EXPECT_EQ(ReadBytes(folder + "/train.csv"), before);
  WriteTo(folder + "/notes.txt", "mine");
  WriteTo(folder + "/test.csv.gz", "an old one");
  ASSERT_TRUE(WriteSynthetic2d(folder, {.rows = 20, .overwrite = true}).ok());
  EXPECT_EQ(LoadDataset(folder).value().train.rows(), 20);
  EXPECT_EQ(ReadBytes(folder + "/notes.txt"), "mine");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 4);
}

TEST(Synthetic2d, WorksInFoldersThatExistAndBelowOnesThatDoNot) {
  const std::string folder = ScratchFolder();
  EXPECT_TRUE(WriteSynthetic2d(folder, {.rows = 10}).ok());
  EXPECT_TRUE(WriteSynthetic2d(folder + "/a/b/c/", {.rows = 10}).ok());
  EXPECT_TRUE(LoadDataset(folder + "/a/b/c").ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder + "/a/b"), {}), 1);
  WriteTo(folder + "/file", "x");
  EXPECT_THAT(Message(WriteSynthetic2d(folder + "/file", {.rows = 10})), HasSubstr("is a file"));
}

TEST(Synthetic2d, OptionsNameFieldValueAndRule) {
  EXPECT_THAT(Message(Synthetic2dOptions{.rows = 0}.Validate()), HasSubstr("rows is 0, must be"));
  EXPECT_THAT(Message(Synthetic2dOptions{.test_rows = -1}.Validate()),
              HasSubstr("test_rows is -1"));
  EXPECT_THAT(Message(Synthetic2dOptions{.overlap = 2}.Validate()), HasSubstr("overlap is 2"));
  EXPECT_THAT(Message(Synthetic2dOptions{.overlap = NAN}.Validate()), HasSubstr("overlap is nan"));
}

}  // namespace
}  // namespace lucid
