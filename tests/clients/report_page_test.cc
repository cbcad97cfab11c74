// A report in a real browser: report_page.mjs has the checks. Skipped where there is no Chromium,
// no Node.js or no playwright-core (tools/get_playwright fetches it).
#include <gtest/gtest.h>

#include "clients/browser.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

TEST(ReportPage, IsReadableInARealBrowser) {
  const Browser browser;
  if (!browser.missing.empty()) GTEST_SKIP() << browser.missing;
  const Scratch scratch;
  const Outcome demo = RunLucid({"demo", "--out", "demo", "--rows", "60", "--grid", "40"},
                                {.folder = scratch.path(), .timeout = 400});
  ASSERT_EQ(demo.code, 0) << demo;
  const Outcome outcome =
      RunLucid({LUCID_SOURCE "/tests/clients/report_page.mjs", browser.playwright, browser.chromium,
                scratch / "demo/report.html", PicturesFolder(scratch.path())},
               {.program = browser.node, .timeout = 400});
  EXPECT_EQ(outcome.code, 0) << outcome;
  std::printf("%s", outcome.out.c_str());
}

}  // namespace
}  // namespace lucid::test
