// The examples' clients against a real server: their labels are those of `lucid predict`. And the
// OpenAPI document against what is really served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "serve/server.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

const std::string kExamples = LUCID_SOURCE "/examples/";

class ClientsTest : public testing::Test {
 protected:
  static constexpr int kRows = 300;  // more than one batch of 256

  ClientsTest() {
    MakeRun(scratch_ / "run");
    // Points all over the square, with the columns of the run's data and no labels.
    std::ifstream train(scratch_ / "run-data/train.csv");
    std::string header;
    std::getline(train, header);
    names_ = {header.substr(0, header.find(',')), ""};
    const std::size_t comma = header.find(',');
    names_[1] = header.substr(comma + 1, header.find(',', comma + 1) - comma - 1);
    std::ostringstream table;
    table << names_[0] << "," << names_[1] << "\n";
    nlohmann::json rows = nlohmann::json::array();
    for (int i = 0; i < kRows; ++i) {
      const double x = (i % 20) / 19.0, y = (i / 20) / 14.0;
      table << std::setprecision(17) << x << "," << y << "\n";
      rows.push_back({{names_[0], x}, {names_[1], y}});
    }
    WriteBytes(scratch_ / "table.csv", table.str());
    WriteBytes(scratch_ / "body.json", nlohmann::json{{"rows", rows}}.dump());
  }
  // What `lucid predict` says with the server's key.
  std::string Predicted(const std::string& options) {
    const std::vector<std::string> command = {"predict",    scratch_ / "run",
                                              "--input",    scratch_ / "table.csv",
                                              "--key-file", scratch_ / "key"};
    const Outcome outcome = RunLucid(command + Words(options));
    EXPECT_EQ(outcome.code, 0) << outcome;
    EXPECT_TRUE(outcome.out.starts_with("label\n")) << outcome;
    return outcome.out.substr(outcome.out.find('\n') + 1);
  }
  static std::string Url(const ServerProcess& server) {
    return "http://127.0.0.1:" + std::to_string(server.port());
  }
  // `program` may be a script.
  static Outcome RunClient(const std::string& program, const std::vector<std::string>& arguments,
                           const std::string& key = "") {
    RunOptions options{.program = program};
    if (!key.empty()) options.env["LUCID_KEY"] = key;
    return RunLucid(arguments, options);
  }
  void ExpectClientsSay(const ServerProcess& server, const std::string& labels,
                        const std::string& key = "") {
    const Outcome curl =
        RunClient(kExamples + "curl.sh", {Url(server), scratch_ / "body.json"}, key);
    EXPECT_EQ(curl.code, 0) << curl;
    EXPECT_EQ(curl.out, labels);
    const Outcome python =
        RunClient(kExamples + "kserve_v2_client.py", {Url(server), scratch_ / "table.csv"}, key);
    EXPECT_EQ(python.code, 0) << python;
    EXPECT_EQ(python.out, labels);
    const Outcome cpp = RunClient(LUCID_EXAMPLE_CLIENT, {Url(server), scratch_ / "table.csv"}, key);
    EXPECT_EQ(cpp.code, 0) << cpp;
    EXPECT_EQ(cpp.out, labels);
  }

  const Scratch scratch_;
  std::vector<std::string> names_;
};

TEST_F(ClientsTest, AllThreeGetTheLabelsOfPredict) {
  const ServerProcess server(scratch_);
  const std::string labels = Predicted("--epsilon 0");
  EXPECT_EQ(std::ranges::count(labels, '\n'), kRows);
  ExpectClientsSay(server, labels);
}

TEST_F(ClientsTest, AllThreeWorkWithAKeyABudgetAndAnEpsilon) {
  const Outcome created = RunLucid({"keys", "create", "--file", scratch_ / "keys.toml", "--id",
                                    "alice", "--budget", "1000", "--quiet"});
  ASSERT_EQ(created.code, 0) << created;
  const std::string key = created.out.substr(0, created.out.find('\n'));
  const ServerProcess server(scratch_, {"--epsilon", "0.5", "--ledger", scratch_ / "ledger.db",
                                        "--api-keys", scratch_ / "keys.toml"});
  ExpectClientsSay(server, Predicted("--epsilon 0.5"), key);
  // The same 300 answers to all three: paid for once.
  const auto status = server.AskAdmin(Get("/status.json")).Json();
  EXPECT_EQ(status["budget"]["spent"], 0.5 * kRows);
  EXPECT_EQ(status["budget"]["accounts"][0]["id"], "alice");
  // Without a key each says what the server says, and fails.
  for (const Outcome& outcome :
       {RunClient(kExamples + "curl.sh", {Url(server), scratch_ / "body.json"}),
        RunClient(kExamples + "kserve_v2_client.py", {Url(server), scratch_ / "table.csv"}),
        RunClient(LUCID_EXAMPLE_CLIENT, {Url(server), scratch_ / "table.csv"})}) {
    EXPECT_EQ(outcome.code, 1) << outcome;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("a valid key is needed"));
  }
}

// Every path of the document is served with a method it names, and no other method is.
TEST_F(ClientsTest, TheOpenApiDocumentIsTrue) {
  const ServerProcess server(scratch_);
  const Reply document = server.Ask(Get("/openapi.json"));
  ASSERT_EQ(document.status, 200);
  ASSERT_TRUE(document.Json().is_object());
  for (const auto& [documented, item] : document.Json()["paths"].items()) {
    std::string path = documented;
    if (const std::size_t at = path.find("{model}"); at != std::string::npos) {
      path.replace(at, 7, "lucid");
    }
    SCOPED_TRACE(path);
    const bool post = item.contains("post");
    EXPECT_EQ(item.size(), 1);
    EXPECT_NE(item.contains("get"), post);
    nlohmann::json body = {{"input", {{0.25, 0.75}}}};
    if (path.ends_with("infer")) {
      body = {
          {"inputs",
           {{{"name", "input"}, {"datatype", "FP32"}, {"shape", {1, 2}}, {"data", {0.25, 0.75}}}}}};
    }
    const Reply right = server.Ask(post ? Post(path, body.dump()) : Get(path));
    EXPECT_EQ(right.status, 200) << right;
    const Reply wrong = server.Ask(post ? Get(path) : Post(path, body.dump()));
    EXPECT_EQ(wrong.status, 405) << wrong;
    // What comes has the fields that the document requires.
    const auto& schema =
        item[post ? "post" : "get"]["responses"]["200"]["content"]["application/json"]["schema"];
    if (!schema.contains("$ref")) continue;
    const auto target = schema["$ref"].get<std::string>().substr(1);
    const auto described = document.Json().at(nlohmann::json::json_pointer(target));
    for (const auto& field : described["required"]) {
      EXPECT_TRUE(right.Json().contains(field.get<std::string>())) << field;
    }
  }
}

}  // namespace
}  // namespace lucid::test
