// The operator console in a real browser: console_page.mjs has the checks. Skipped where there is
// no Chromium, no Node.js or no playwright-core (tools/get_playwright fetches it).
#include <gtest/gtest.h>

#include "clients/browser.h"
#include "serve/server.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

TEST(Console, ShowsTheServerInARealBrowser) {
  const Browser browser;
  if (!browser.missing.empty()) GTEST_SKIP() << browser.missing;
  const Scratch scratch;
  MakeRun(scratch / "run");
  ServerProcess server(scratch, {"--epsilon", "0.25", "--ledger", scratch / "ledger.db", "--budget",
                                 "100", "--name", "tiny"});
  const auto base = [](int port) { return "http://127.0.0.1:" + std::to_string(port); };
  const Outcome outcome = RunLucid(
      {LUCID_SOURCE "/tests/clients/console_page.mjs", browser.playwright, browser.chromium,
       base(server.admin_port()), base(server.port()), PicturesFolder(scratch.path())},
      {.program = browser.node, .timeout = 400});
  EXPECT_EQ(outcome.code, 0) << outcome;
  std::printf("%s", outcome.out.c_str());
}

}  // namespace
}  // namespace lucid::test
