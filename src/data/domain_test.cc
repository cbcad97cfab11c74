#include "lucid/data/domain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "lucid/data/encoder.h"

namespace lucid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// age, colour (one-hot, 3), day (quarter circle, 4), sex (binary): features 0, 1-3, 4-5, 6.
Schema AnySchema() {
  return *Schema::Parse(
      "column,kind,offset,divisor,categories\n"
      "age,numeric,0,100,\n"
      "colour,categorical,,,red|green|blue\n"
      "day,quarter-circle,,,a|b|c|d\n"
      "sex,binary,,,f|m\n"
      "label,label,,,no|yes\n",
      "schema");
}

std::vector<float> Encoded(const std::vector<std::string_view>& cells) {
  std::vector<float> x(7);
  EXPECT_TRUE(Encoder(AnySchema()).EncodeRow(cells, x).ok());
  for (float& value : x) value = std::max(value, 0.0F);  // as a guard does
  return x;
}

TEST(Domain, HoldsTheEncodingOfEveryRecord) {
  const Domain domain = Domain::OfSchema(AnySchema());
  EXPECT_EQ(domain.kind(), DomainKind::kSchema);
  EXPECT_EQ(domain.features(), 7);
  for (const char* colour : {"red", "green", "blue"}) {
    for (const char* day : {"a", "b", "c", "d", "?"}) {
      for (const char* sex : {"f", "m"}) {
        EXPECT_TRUE(domain.Contains(Encoded({"37", colour, day, sex})).ok())
            << colour << day << sex;
      }
    }
  }
}

TEST(Domain, RefusesWhatNoRecordGives) {
  const Domain schema = Domain::OfSchema(AnySchema()), box = Domain::Box(AnySchema());
  const std::vector<float> right = Encoded({"37", "red", "b", "m"});
  const auto refused = [&](std::size_t j, float value, const std::string& name) {
    std::vector<float> x = right;
    x[j] = value;
    const Status status = schema.Contains(x);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_THAT(status.error().message, HasSubstr(name));
    EXPECT_TRUE(box.Contains(x).ok());
  };
  refused(1, 0.5F, "colour");  // half red
  refused(1, 0, "colour");     // no colour
  refused(2, 1, "colour");     // two
  refused(4, 0.5F, "day");
  refused(6, 0.5F, "sex");
  for (const float bad : {-0.1F, 1.1F, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x = right;
    x[0] = bad;
    for (const Domain& domain : {schema, box}) {
      const Status status = domain.Contains(x);
      ASSERT_FALSE(status.ok());
      EXPECT_THAT(status.error().message, HasSubstr("'age'"));
    }
  }
}

TEST(Domain, ShrinksABoxToItsRecords) {
  const Domain domain = Domain::OfSchema(AnySchema());
  std::vector<double> lower(7, 0), upper(7, 1);
  ASSERT_TRUE(domain.Shrink(lower, upper));
  EXPECT_THAT(lower, ElementsAre(0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(upper, ElementsAre(1, 1, 1, 1, 1, 1, 1));
  lower[2] = 0.5;  // green: the others are 0
  upper[6] = 0.5;
  ASSERT_TRUE(domain.Shrink(lower, upper));
  EXPECT_THAT(lower, ElementsAre(0, 0, 1, 0, 0, 0, 0));
  EXPECT_THAT(upper, ElementsAre(1, 0, 1, 0, 1, 1, 0));
  upper[4] = 0.9;  // not day a
  ASSERT_TRUE(domain.Shrink(lower, upper));
  EXPECT_FLOAT_EQ(static_cast<float>(upper[4]), std::cos(std::numbers::pi_v<float> / 6));
  lower[1] = 0.5, upper[1] = 1;  // red and green
  EXPECT_FALSE(domain.Shrink(lower, upper));
  EXPECT_TRUE(Domain::Box(AnySchema()).Shrink(lower, upper));
}

// Cut after cut ends with boxes of one point in every group, and no record is lost.
TEST(Domain, CutsSeparateAllRecordsAndLoseNone) {
  const Domain domain = Domain::OfSchema(AnySchema());
  struct Piece {
    std::vector<double> lower, upper;
  };
  std::vector<Piece> open{{std::vector<double>(7, 0), std::vector<double>(7, 1)}};
  int leaves = 0;
  while (!open.empty()) {
    const Piece piece = open.back();
    open.pop_back();
    std::size_t j = 1;
    while (j < 7 && piece.lower[j] == piece.upper[j]) ++j;
    if (j == 7) {
      ++leaves;
      continue;
    }
    const double at = domain.CutOf(static_cast<std::int64_t>(j), piece.lower[j], piece.upper[j]);
    Piece left = piece, right = piece;
    left.upper[j] = right.lower[j] = at;
    ASSERT_TRUE(domain.Shrink(left.lower, left.upper));
    ASSERT_TRUE(domain.Shrink(right.lower, right.upper));
    open.push_back(left);
    open.push_back(right);
  }
  EXPECT_EQ(leaves, 3 * 5 * 2);
}

TEST(Domain, ProjectsToTheNearestRecord) {
  const Domain domain = Domain::OfSchema(AnySchema());
  std::vector<float> x{0.3F, 0.4F, 0.7F, 0.1F, 0.9F, 0.1F, 0.6F};
  EXPECT_FALSE(domain.Contains(x).ok());
  domain.Project(std::span(x));
  EXPECT_THAT(x, ElementsAre(0.3F, 0, 1, 0, 1, 0, 1));
  EXPECT_TRUE(domain.Contains(x).ok());
  EXPECT_TRUE(domain.IsFree(0));
  for (const std::int64_t j : {1, 3, 4, 5, 6}) EXPECT_FALSE(domain.IsFree(j));
}

TEST(Domain, OnlyBoxAndSchemaAreNames) {
  for (const DomainKind kind : {DomainKind::kBox, DomainKind::kSchema}) {
    EXPECT_EQ(DomainNamed(NameOf(kind)).value(), kind);
    EXPECT_EQ(Domain::Of(kind, AnySchema()).kind(), kind);
  }
  EXPECT_THAT(DomainNamed("ball").error().message, HasSubstr("'ball'"));
}

}  // namespace
}  // namespace lucid
