#include "serve/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "guard/test_support.h"

namespace lucid {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class StatusTest : public testing::Test {
 protected:
  StatusTest() {
    certificate_ = Claim(ensemble_, 0.5);
    certificate_.classes[1].beta_upper = std::numeric_limits<double>::infinity();
    promise_ = PromiseOf(ensemble_.manifest(), &certificate_, {.epsilon = 0.5});
    const auto verified = VerifiedCertificate::Verify(certificate_, ensemble_.network()).value();
    GuardOptions options;
    options.epsilon = 0.5;
    guard_.emplace(Guard::Create(ensemble_.network(), verified, ensemble_.manifest().schema,
                                 options, GuardKey::Random())
                       .value());
    metrics_.Count(
        {.endpoint = Endpoint::kPredict, .status = 200, .latency = 300us, .rows = 8, .noised = 2},
        Time(500ms));
    metrics_.Count({.endpoint = Endpoint::kInfer, .status = 401, .latency = 20us}, Time(1500ms));
    metrics_.connections_open = 3;
  }
  static Metrics::Clock::time_point Time(std::chrono::milliseconds at) {
    return Metrics::Clock::time_point(at);
  }
  ServerStatus Now() const {
    ServerStatus status;
    status.model = "a \"model\"\\\nof mine";
    status.version = "0.1.0";
    status.ready = true;
    status.now = std::chrono::sys_days(std::chrono::year(2026) / 11 / 16);
    status.guard = &*guard_;
    status.promise = &promise_;
    status.metrics = &metrics_;
    status.metrics_now = Time(3s);
    Ledger::Totals totals;
    totals.overall = {EpsilonUnits::RoundedUp(3).value(), 6};
    totals.overall_budget = EpsilonUnits::RoundedUp(10).value();
    totals.accounts = {{"alice", {EpsilonUnits::RoundedUp(1).value(), 2}},
                       {"bob", {EpsilonUnits::RoundedUp(2).value(), 4}}};
    status.budget = totals;
    return status;
  }

  Promise promise_;
  const TemporaryFolder folder_;
  const Network network_ = HandMade("2 > dense 2 > 2", {1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0});
  const Ensemble ensemble_ = MakeRun(folder_, "run", network_, {network_, network_});
  Certificate certificate_;
  std::optional<Guard> guard_;
  Metrics metrics_{Metrics::Clock::time_point{}};
};

TEST_F(StatusTest, TheDocumentHoldsWhatTheConsoleShows) {
  const auto json = nlohmann::json::parse(EncodeStatus(Now()));
  EXPECT_EQ(json["model"], Now().model);
  EXPECT_EQ(json["time"], "2026-11-16T00:00:00Z");
  EXPECT_EQ(json["uptime"], 3);
  EXPECT_EQ(json["guard"]["kind"], "scalar");
  EXPECT_EQ(json["guard"]["epsilon"], 0.5);
  EXPECT_LE(json["guard"]["effective_epsilon"].get<double>(), 0.5);
  ASSERT_EQ(json["certificate"]["classes"].size(), 2);
  EXPECT_EQ(json["certificate"]["classes"][0]["name"], "c0");
  EXPECT_EQ(json["certificate"]["classes"][0]["beta_upper"], 0.5);
  EXPECT_TRUE(json["certificate"]["classes"][1]["beta_upper"].is_null()) << "infinite";
  EXPECT_EQ(json["certificate"]["hashes"]["network"], network_.digest().Hex());
  const auto& traffic = json["traffic"];
  EXPECT_EQ(traffic["requests"], 2);
  EXPECT_EQ(traffic["noised_share"], 0.25);
  EXPECT_EQ(traffic["connections"], 3);
  EXPECT_EQ(traffic["seconds"]["requests"], nlohmann::json({1, 1, 0}));
  EXPECT_EQ(traffic["seconds"]["noised"], nlohmann::json({2, 0, 0}));
  EXPECT_EQ(json["budget"]["spent"], 3);
  EXPECT_EQ(json["budget"]["total"], 10);
  EXPECT_EQ(json["budget"]["accounts"][0]["id"], "bob") << "who spent most comes first";
}

TEST_F(StatusTest, WithoutALedgerTheBudgetIsNull) {
  ServerStatus status = Now();
  status.budget.reset();
  EXPECT_TRUE(nlohmann::json::parse(EncodeStatus(status))["budget"].is_null());
  EXPECT_THAT(EncodePrometheus(status), testing::Not(HasSubstr("budget")));
  status.budget.emplace();
  EXPECT_TRUE(nlohmann::json::parse(EncodeStatus(status))["budget"]["total"].is_null());
}

TEST_F(StatusTest, ANameThatIsNotUtf8CostsNothingElse) {
  ServerStatus status = Now();
  status.model = "\xff";
  EXPECT_TRUE(nlohmann::json::parse(EncodeStatus(status)).is_object());
}

// The rules of the text format, line by line: every sample belongs to the family announced last,
// every family is announced once, labels are escaped, numbers are numbers.
TEST_F(StatusTest, PrometheusTextFollowsTheFormat) {
  const std::string text = EncodePrometheus(Now());
  ASSERT_TRUE(text.ends_with("\n"));
  const std::regex help("# HELP ([a-z_]+) [^\\n]+"),
      type("# TYPE ([a-z_]+) (counter|gauge|histogram)");
  const std::regex sample(
      R"(([a-z_]+)(\{[a-z_]+="([^"\\]|\\\\|\\"|\\n)*"(,[a-z_]+="([^"\\]|\\\\|\\"|\\n)*")*\})? (\S+))");
  std::set<std::string> families, series;
  std::string family, kind;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      family = match[1];
      EXPECT_TRUE(families.insert(family).second) << line;
      kind.clear();
    } else if (std::regex_match(line, match, type)) {
      EXPECT_EQ(match[1], family);
      kind = match[2];
    } else {
      ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
      const std::string name = match[1];
      if (kind == "histogram") {
        EXPECT_TRUE(name == family + "_bucket" || name == family + "_sum" ||
                    name == family + "_count");
      } else {
        EXPECT_EQ(name, family);
      }
      EXPECT_EQ(kind == "counter", name.ends_with("_total")) << line;
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
      const std::string number = match[match.size() - 1];
      EXPECT_TRUE(number == "+Inf" || std::isfinite(std::stod(number))) << line;
    }
  }
  EXPECT_GE(families.size(), 18);
  EXPECT_THAT(text, HasSubstr(R"(model="a \"model\"\\\nof mine")"));
  EXPECT_THAT(text, HasSubstr("lucid_bound{class=\"1\"} +Inf\n"));
  EXPECT_THAT(text, HasSubstr("lucid_requests_total{endpoint=\"predict\",status=\"2xx\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lucid_rows_noised_total 2\n"));
  EXPECT_THAT(text, HasSubstr("lucid_account_spent_epsilon{key=\"bob\"} 2\n"));
}

TEST_F(StatusTest, PrometheusHistogramIsCumulativeAndComplete) {
  const std::string text = EncodePrometheus(Now());
  const std::regex bucket("_bucket\\{le=\"([^\"]+)\"\\} (\\d+)");
  double last_end = 0;
  std::int64_t last_count = 0;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), bucket);
       it != std::sregex_iterator(); ++it) {
    const std::string end = (*it)[1];
    const std::int64_t count = std::stoll((*it)[2]);
    EXPECT_GE(count, last_count);
    const double limit = end == "+Inf" ? INFINITY : std::stod(end);
    EXPECT_GT(limit, last_end);
    last_end = limit;
    last_count = count;
  }
  EXPECT_TRUE(std::isinf(last_end));
  EXPECT_EQ(last_count, 2);
  EXPECT_THAT(text, HasSubstr("lucid_request_duration_seconds_count 2\n"));
}

}  // namespace
}  // namespace lucid
