#include "lucid/report/leak_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "report/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using testing::Not;

// The first thing that is not well-formed, or "". Knows what the pages use: elements with quoted
// attributes, a declaration, a document type; no comments, no CDATA.
std::string Problem(std::string_view text) {
  std::vector<std::string> open;
  std::set<std::string> ids;
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at)) {
    std::size_t end = at + 1;
    for (char quote = 0; end < text.size() && (quote != 0 || text[end] != '>'); ++end) {
      if (text[end] == '<') return "'<' inside a tag: " + std::string(text.substr(at, 60));
      if (quote == 0 && text[end] == '"')
        quote = '"';
      else if (text[end] == quote)
        quote = 0;
    }
    if (end >= text.size()) return "a tag without end";
    const std::string_view tag = text.substr(at + 1, end - at - 1);
    const std::string name(tag.substr(0, tag.find_first_of(" /", 1)));
    if (const std::size_t id = tag.find(" id=\""); id != std::string_view::npos) {
      const std::size_t start = id + 5;
      if (!ids.emplace(tag.substr(start, tag.find('"', start) - start)).second)
        return "an id twice";
    }
    at = end;
    if (tag.front() == '?' || tag.front() == '!' || tag.back() == '/') continue;
    if (tag.front() != '/') {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return "<" + std::string(tag) + "> closes what is not open";
    } else {
      open.pop_back();
    }
  }
  if (!open.empty()) return "<" + open.back() + "> is not closed";
  for (std::size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
    const std::string_view entity = text.substr(at, text.find(';', at) - at);
    if (entity != "&amp" && entity != "&lt" && entity != "&gt" && entity != "&quot" &&
        !entity.starts_with("&#")) {
      return "a bare '&': " + std::string(text.substr(at, 20));
    }
  }
  return "";
}

LeakMap SmallMap(const SmallRun& run) {
  LeakMapOptions options;
  options.grid = 25;
  return ComputeLeakMap(run.ensemble, run.dataset, options).value();
}

TEST(LeakPage, TheCheckOfTheseTestsFindsProblems) {
  EXPECT_EQ(Problem("<a b=\"c>\"><d/>&amp;</a>"), "");
  EXPECT_NE(Problem("<a><b></a></b>"), "");
  EXPECT_NE(Problem("<a>&b</a>"), "");
  EXPECT_NE(Problem("<a>"), "");
  EXPECT_NE(Problem("<a id=\"x\"/><b id=\"x\"/>"), "");
}

TEST(LeakPage, PageAndPictureAreWellFormedAndSelfContained) {
  const SmallRun run = SyntheticRun(Scratch());
  const LeakMap map = SmallMap(run);
  const std::string page = LeakPage(map, run.dataset, run.ensemble.manifest());
  const std::string picture = LeakSvg(map, run.dataset);
  EXPECT_EQ(Problem(page), "");
  EXPECT_EQ(Problem(picture), "");
  for (const std::string& text : {page, picture}) {
    EXPECT_THAT(text, Not(HasSubstr("src=")));
    EXPECT_THAT(text, Not(HasSubstr("href=")));
    EXPECT_THAT(text, Not(HasSubstr("@import")));
    EXPECT_THAT(text, Not(HasSubstr("<script")));
    EXPECT_THAT(text, Not(HasSubstr("nan")));
    EXPECT_THAT(text, Not(HasSubstr("inf ")));
  }
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(page, HasSubstr(run.ensemble.manifest().ensemble_digest.Hex()));
  EXPECT_THAT(page, HasSubstr("no certificate"));
  EXPECT_THAT(page, HasSubstr("rate=0.5 "));
  EXPECT_THAT(page, Not(HasSubstr("Partial run")));
  EXPECT_EQ(page, LeakPage(map, run.dataset, run.ensemble.manifest()));
}

TEST(LeakPage, HostileNamesStayText) {
  const SmallRun run = HostileRun(Scratch());
  const LeakMap map = SmallMap(run);
  ASSERT_EQ(map.classes.size(), 3u);
  const std::string page = LeakPage(map, run.dataset, run.ensemble.manifest());
  const std::string picture = LeakSvg(map, run.dataset);
  EXPECT_EQ(Problem(page), "");
  EXPECT_EQ(Problem(picture), "");
  for (const std::string& text : {page, picture}) {
    EXPECT_THAT(text, Not(HasSubstr("<script")));
    EXPECT_THAT(text, Not(HasSubstr("a<i>b")));
    EXPECT_THAT(text, HasSubstr("a&lt;i&gt;b"));
    EXPECT_THAT(text, HasSubstr("&amp;amp;"));
  }
  EXPECT_THAT(page, HasSubstr("lucid train &lt;&amp;&gt;"));
}

TEST(LeakPage, SaysThatARunIsPartial) {
  const SmallRun run = SyntheticRun(Scratch(), 5);
  const LeakMap map = SmallMap(run);
  EXPECT_THAT(LeakPage(map, run.dataset, run.ensemble.manifest()), HasSubstr("Partial run"));
}

// A coarse grid may miss everything; a data set may have no test rows.
TEST(LeakPage, NothingSeenIsSaidAndDrawn) {
  const SmallRun run = HostileRun(Scratch());
  LeakMap map = SmallMap(run);
  map.influences.clear();
  map.drawn.clear();
  map.flips.assign(map.flips.size(), 0);
  map.margin.assign(map.margin.size(), 1);
  for (ClassLeak& leak : map.classes) {
    leak.witness.reset();
    leak.strongest_row = -1;
    leak.leaking = leak.strongest_points = leak.rows_that_matter = 0;
  }
  const std::string page = LeakPage(map, run.dataset, run.ensemble.manifest());
  EXPECT_EQ(Problem(page), "");
  EXPECT_THAT(page, HasSubstr("0.0 %"));
}

TEST(LeakPage, JsonHasItsFields) {
  const SmallRun run = SyntheticRun(Scratch());
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
