#include "lucid/data/summary.h"

#include "data/test_support.h"

namespace lucid {
namespace {

using testing::ElementsAre;

TEST(DescribeDataset, CountsRangesCategoriesAndRepeatedRows) {
  const std::string folder = ScratchFolder();
  WriteTo(folder + "/schema.csv",
          "column,kind,offset,divisor,categories\n"
          "age,numeric,0,100,\njob,quarter-circle,,,a|b|c\nlabel,label,,,p|q|r\n");
  WriteTo(folder + "/train.csv",
          "age,job,label\n10,a,0\n20,?,1\n10,a,0\n10.0,a,0\n90,b,0\n10,a,0\n");
  WriteTo(folder + "/test.csv", "age,job,label\n10,a,0\n10,a,0\n10,a,1\n");
  const DatasetSummary summary = DescribeDataset(folder).value();
  const TableSummary& train = summary.train;
  EXPECT_EQ(train.rows, 6);
  EXPECT_EQ(train.duplicate_rows, 2) << "rows are compared as they are written";
  EXPECT_EQ(train.columns[0].min, 10);
  EXPECT_EQ(train.columns[0].max, 90);
  EXPECT_EQ(train.columns[0].distinct, 3);
  EXPECT_THAT(train.columns[1].counts, ElementsAre(4, 1, 0));
  EXPECT_EQ(train.columns[1].distinct, 2);
  EXPECT_EQ(train.columns[1].missing, 1);
  EXPECT_THAT(train.columns[2].counts, ElementsAre(5, 1, 0));
  EXPECT_EQ(train.encoded_min, 0.0f);
  EXPECT_EQ(train.encoded_max, 1.0f);
  ASSERT_TRUE(summary.test.has_value());
  EXPECT_EQ(summary.test->duplicate_rows, 1);
  EXPECT_EQ(summary.test_rows_in_train, 2);
  EXPECT_EQ(train.digest, LoadDataset(folder).value().train_digest);
}

TEST(DescribeDataset, GivesTheErrorsOfLoading) {
  const std::string folder = ScratchFolder();
  WriteTo(folder + "/schema.csv",
          "column,kind,offset,divisor,categories\nx,numeric,0,1,\nlabel,label,,,p|q\n");
  WriteTo(folder + "/train.csv", "x,label\n0,0\n2,0\n");
  EXPECT_EQ(Message(DescribeDataset(folder)), Message(LoadDataset(folder)));
  EXPECT_EQ(DescribeDataset(folder, {.clip = true}).value().train.clipped, 1);
}

// The numbers the maker of the files counted by other means.
TEST(SharedData, RepeatedRowsOfAdultAndCryptoAreTheKnownOnes) {
  LUCID_NEED_SHARED(adult, "adult");
  const DatasetSummary summary = DescribeDataset(adult).value();
  EXPECT_EQ(summary.train.duplicate_rows, 24);
  EXPECT_EQ(summary.test->duplicate_rows, 5);
  EXPECT_THAT(summary.train.columns.back().counts, ElementsAre(24720, 7841));
  LUCID_NEED_SHARED(crypto, "crypto");
  EXPECT_EQ(DescribeDataset(crypto).value().test_rows_in_train, 313);
}

}  // namespace
}  // namespace lucid
