// The operator console in a real browser: console_page.mjs has the checks. Skipped where there is
// no Chromium, no Node.js or no playwright-core (tools/get_playwright fetches it).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "clients/browser.h"
#include "serve/server.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

TEST(Console, ShowsTheServerInARealBrowser) {
  const std::string node = Find("node"), chromium = Find("chromium");
  const std::string playwright = PlaywrightFolder();
  if (node.empty() || chromium.empty()) GTEST_SKIP() << "no Node.js or no Chromium here";
  if (!std::filesystem::exists(playwright)) {
    GTEST_SKIP() << "no playwright-core here: tools/get_playwright fetches it";
  }
  const Scratch scratch;
  MakeRun(scratch / "run");
  ServerProcess server(scratch, {"--epsilon", "0.25", "--ledger", scratch / "ledger.db", "--budget",
                                 "100", "--name", "tiny"});
  const auto base = [](int port) { return "http://127.0.0.1:" + std::to_string(port); };
  const char* pictures = std::getenv("LUCID_PICTURES");
  const Outcome outcome = RunLucid({LUCID_SOURCE "/tests/clients/console_page.mjs", playwright,
                                    chromium, base(server.admin_port()), base(server.port()),
                                    pictures != nullptr ? pictures : scratch.path()},
                                   {.program = node, .timeout = 180});
  EXPECT_EQ(outcome.code, 0) << outcome;
  std::printf("%s", outcome.out.c_str());
}

}  // namespace
}  // namespace lucid::test
