// A report in a real browser: report_page.mjs has the checks. Skipped where there is no Chromium,
// no Node.js or no playwright-core (tools/get_playwright fetches it).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "clients/browser.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

TEST(ReportPage, IsReadableInARealBrowser) {
  const std::string node = Find("node"), chromium = Find("chromium");
  const std::string playwright = PlaywrightFolder();
  if (node.empty() || chromium.empty()) GTEST_SKIP() << "no Node.js or no Chromium here";
  if (!std::filesystem::exists(playwright)) {
    GTEST_SKIP() << "no playwright-core here: tools/get_playwright fetches it";
  }
  const Scratch scratch;
  const Outcome demo = RunLucid({"demo", "--out", "demo", "--rows", "60", "--grid", "40"},
                                {.folder = scratch.path(), .timeout = 180});
  ASSERT_EQ(demo.code, 0) << demo;
  const char* pictures = std::getenv("LUCID_PICTURES");
  const Outcome outcome =
      RunLucid({LUCID_SOURCE "/tests/clients/report_page.mjs", playwright, chromium,
                scratch / "demo/report.html", pictures != nullptr ? pictures : scratch.path()},
               {.program = node, .timeout = 180});
  EXPECT_EQ(outcome.code, 0) << outcome;
  std::printf("%s", outcome.out.c_str());
}

}  // namespace
}  // namespace lucid::test
