#include "lucid/report/leak_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lucid/certificate/spatial.h"
#include "report/markup_check.h"
#include "report/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using testing::Not;

LeakMap SmallMap(const SmallRun& run) {
  LeakMapOptions options;
  options.grid = 25;
  return ComputeLeakMap(run.ensemble, run.dataset, options).value();
}

TEST(LeakPicture, TheCheckOfTheseTestsFindsProblems) {
  EXPECT_EQ(Problem("<a b=\"c>\"><d/>&amp;</a>"), "");
  EXPECT_NE(Problem("<a><b></a></b>"), "");
  EXPECT_NE(Problem("<a>&b</a>"), "");
  EXPECT_NE(Problem("<a>"), "");
  EXPECT_NE(Problem("<a id=\"x\"/><b id=\"x\"/>"), "");
}

TEST(LeakPicture, IsWellFormedAndSelfContained) {
  const SmallRun run = SyntheticRun(ScratchFolder());
  const LeakMap map = SmallMap(run);
  const std::string picture = LeakSvg(map, run.dataset);
  EXPECT_EQ(Problem(picture), "");
  for (const char* unwanted : {"src=", "href=", "@import", "<script", "nan", "inf "}) {
    EXPECT_THAT(picture, Not(HasSubstr(unwanted)));
  }
  EXPECT_EQ(picture, LeakSvg(map, run.dataset));
}

TEST(LeakPicture, HostileNamesStayText) {
  const SmallRun run = HostileRun(ScratchFolder());
  const LeakMap map = SmallMap(run);
  ASSERT_EQ(map.classes.size(), 3u);
  const std::string picture = LeakSvg(map, run.dataset);
  EXPECT_EQ(Problem(picture), "");
  EXPECT_THAT(picture, Not(HasSubstr("<script")));
  EXPECT_THAT(picture, Not(HasSubstr("a<i>b")));
  EXPECT_THAT(picture, HasSubstr("a&lt;i&gt;b"));
  EXPECT_THAT(picture, HasSubstr("&amp;amp;"));
}

// A coarse grid may miss everything; a data set may have no test rows.
TEST(LeakPicture, NothingSeenIsDrawn) {
  const SmallRun run = HostileRun(ScratchFolder());
  LeakMap map = SmallMap(run);
  map.influences.clear();
  map.drawn.clear();
  map.flips.assign(map.flips.size(), 0);
  map.margin.assign(map.margin.size(), 1);
  const std::string picture = LeakSvg(map, run.dataset);
  EXPECT_EQ(Problem(picture), "");
  EXPECT_THAT(picture, HasSubstr("0.0 %"));
}

// What the regions say of every grid point, by the guards' own rule.
TEST(GuardRegions, AreWhereTheGuardsNoise) {
  const SmallRun run = SyntheticRun(ScratchFolder());
  const LeakMap map = SmallMap(run);
  Certificate certificate = UnprovedCertificate(run.ensemble);
  EXPECT_EQ(ComputeGuardRegions(map, certificate, nullptr).scalar.noised(), map.points())
      << "without a bound everything is noised";

  certificate.classes[0].beta_upper = 0.75;
  certificate.classes[1].beta_upper = 0.25;
  using Node = SpatialBounds::Node;
  const std::vector<SpatialBounds::Tree> trees = {
      {Node{0, 2, 0.5}, Node{-1, 0, 0.125}, Node{-1, 0, 9}}, {Node{-1, 0, 0.25}}};
  const SpatialBounds spatial =
      SpatialBounds::Parse(SpatialBounds::Encode(2, trees), "test").value();
  const GuardRegions regions = ComputeGuardRegions(map, certificate, &spatial);
  ASSERT_TRUE(regions.spatial.has_value());
  std::int64_t scalar = 0, less = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(map.points()); ++k) {
    const auto label = static_cast<std::size_t>(map.labels[k]);
    const double confidence =
        map.network.values[label * static_cast<std::size_t>(map.points()) + k] -
        certificate.network_error;
    const bool left = map.Coordinate(static_cast<std::int64_t>(k) % map.grid) <= 0.5;
    const double bound = label == 1 ? 0.25 : left ? 0.125 : 0.75;  // never above beta
    EXPECT_EQ(regions.scalar.values[k] >= 0, !(confidence > (label == 0 ? 0.75 : 0.25))) << k;
    EXPECT_EQ(regions.spatial->values[k] >= 0, !(confidence > bound)) << k;
    scalar += regions.scalar.values[k] >= 0;
    less += regions.spatial->values[k] < 0 && regions.scalar.values[k] >= 0;
  }
  EXPECT_EQ(regions.scalar.noised(), scalar);
  EXPECT_GT(less, 0) << "the test does not tell the guards apart";
}

TEST(LeakPicture, JsonHasItsFields) {
  const SmallRun run = SyntheticRun(ScratchFolder());
  const LeakMap map = SmallMap(run);
  const auto json = nlohmann::json::parse(LeakJson(map, run.ensemble.manifest()));
  EXPECT_EQ(json.at("grid"), 25);
  EXPECT_EQ(json.at("points"), 625);
  EXPECT_EQ(json.at("leaking"), map.leaking());
  EXPECT_DOUBLE_EQ(json.at("leaking_share").get<double>(),
                   static_cast<double>(map.leaking()) / 625);
  EXPECT_EQ(json.at("members"), 24);
  EXPECT_EQ(json.at("partial"), false);
  EXPECT_EQ(json.at("rows_that_matter"), map.influences.size());
  EXPECT_EQ(json.at("rows").at(0).at("row"), map.influences[0].row);
  ASSERT_EQ(json.at("classes").size(), 2u);
  for (std::size_t c = 0; c < 2; ++c) {
    const auto& entry = json.at("classes").at(c);
    const ClassLeak& leak = map.classes[c];
    EXPECT_EQ(entry.at("class"), leak.label);
    EXPECT_EQ(entry.at("name"), leak.name);
    EXPECT_EQ(entry.at("points"), leak.points);
    EXPECT_EQ(entry.at("leaking"), leak.leaking);
    EXPECT_EQ(entry.at("beta_lower"), leak.beta_lower);
    EXPECT_EQ(entry.at("strongest_row"), leak.strongest_row);
    EXPECT_EQ(entry.at("witness").at("x").size(), 2u);
    EXPECT_EQ(entry.at("witness").at("row"), leak.witness->row);
  }
  EXPECT_EQ(json.at("hashes").at("run_key"), run.ensemble.manifest().run_key.Hex());
}

}  // namespace
}  // namespace lucid
