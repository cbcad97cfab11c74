// A private run is served from N, its declared bounds and the schema: what was certified, and
// whether there are members at all, changes no byte that a client can see.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <regex>
#include <set>

#include "lucid/certificate/certificate.h"
#include "serve/server.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// Numbers that no answer holds by chance.
constexpr int kRows = 1237;
constexpr const char* kSeed = "918273645";

// A private run without a certificate: the rate keeps N's confidence near its bound.
void MakePrivateRun(const std::string& folder) {
  const std::string data = folder + "-data";
  for (const std::string& command :
       {fmt::format("data synth2d --rows {} --seed 4 --out {}", kRows, data),
        fmt::format("train --data {} --out {} --preset private --train-epsilon 1 --expected-rows "
                    "1000 --declare 0.5 --arch 2x6 --members 5 --seed {}",
                    data, folder, kSeed)}) {
    const Outcome outcome = RunLucid(Words(command));
    ASSERT_EQ(outcome.code, 0) << command << "\n" << outcome;
  }
}

std::vector<std::pair<double, double>> Grid(int n) {
  std::vector<std::pair<double, double>> rows;
  for (int i = 0; i < n * n; ++i) rows.emplace_back(1.0 / n * (i % n), 1.0 / n * (i / n));
  return rows;
}

// Every endpoint, with what is right and what is wrong with a request.
std::vector<std::string> AllRequests() {
  const std::string infer = "/v2/models/lucid/infer";
  const std::string tensor =
      R"({"id":"q","inputs":[{"name":"input","datatype":"FP32","shape":[1,2],"data":[0.5,0.25]}]})";
  return {
      Get("/v2"),
      Get("/v2/"),
      Get("/v2/health/live"),
      Get("/v2/health/ready"),
      Get("/v2/models/lucid"),
      Get("/v2/models/lucid/versions/1"),
      Get("/v2/models/lucid/ready"),
      Get("/v2/models/other"),
      Get("/openapi.json"),
      Get("/metrics"),
      Get("/status.json"),
      Get("/"),
      Get("/predict"),
      "HEAD /v2 HTTP/1.1\r\nHost: x\r\n\r\n",
      "DELETE /predict HTTP/1.1\r\nHost: x\r\n\r\n",
      "nonsense\r\n\r\n",
      Post("/predict", PredictBody(Grid(30))),
      Post("/predict", PredictBody({{0.123456, 0.654321}})),
      Post("/predict", R"({"rows":[{"x1":"0.3","x2":"0.4"}]})"),
      Post("/predict", R"({"rows":[{"x1":0.3,"x2":0.4}]})"),
      Post("/predict", R"({"rows":[{"x1":"a","x2":"b"}]})"),
      Post("/predict", R"({"rows":[{"x1":1}]})"),
      Post("/predict", PredictBody({{0.5, 1.5}})),
      Post("/predict", PredictBody({{-3, 0.5}})),
      Post("/predict", R"({"input":[[1e39,0]]})"),
      Post("/predict", R"({"input":[]})"),
      Post("/predict", "{"),
      Post("/predict", "{}", "Content-Encoding: gzip\r\n"),
      Post(infer, tensor),
      Post(infer, R"({"inputs":[]})"),
      Post(infer, R"({"inputs":[{"name":"input","datatype":"BYTES","shape":[1],"data":["a"]}]})"),
      Post(infer, R"({"inputs":[{"name":"other","datatype":"FP32","shape":[1,2],)"
                  R"("data":[0,0]}]})")};
}

// What a client of a server with these files gets: every byte but the date.
std::string EverythingSaid(const ServerProcess& server) {
  static const std::regex date("\r\nDate: [^\r]*");
  std::string said;
  for (const std::string& request : AllRequests()) {
    const Reply reply = server.Ask(request);
    EXPECT_NE(reply.status, 0) << request;
    said += request.substr(0, 40) + " -> " + std::regex_replace(reply.head, date, "") + reply.body +
            "\n";
  }
  return said;
}

class FullPromiseTest : public testing::Test {
 protected:
  void SetUp() override { MakePrivateRun(Run()); }

  std::string Run() const { return scratch_ / "run"; }
  std::string File(const char* name) const { return Run() + "/" + name; }
  double Bound() const { return ReadJson(File("manifest.json"))["declared"]["bound"]; }

  // A certificate of this run with these bounds for both classes.
  void Certify(double lower, double upper) const {
    if (!fs::exists(File("whole.json"))) {
      const Outcome bound = RunLucid({"bound", Run(), "--out", File("whole.json"), "--time-limit",
                                      "20s", "--no-proof", "--gap", "0.5"});
      ASSERT_TRUE(fs::exists(File("whole.json"))) << bound;
    }
    auto certificate = LoadCertificate(File("whole.json")).value();
    for (ClassBound& c : certificate.classes) {
      c.beta_lower = lower;
      c.beta_upper = upper;
      c.witness = Witness{{0.5F, 0.5F}, 0, 0};
    }
    ASSERT_TRUE(SaveCertificate(certificate, File("certificate.json")).ok());
  }

  Scratch scratch_;
};

TEST_F(FullPromiseTest, NoByteOfAnAnswerDependsOnWhatWasCertified) {
  struct State {
    const char* name;
    std::function<void()> make;
    const char* promise;
  };
  const State states[] = {
      {"absent", [] {}, "full"},
      {"proved", [&] { Certify(0, Bound() / 2); }, "labels+full"},
      {"refuted", [&] { Certify(2 * Bound(), 3 * Bound()); }, "full"},
      {"open", [&] { Certify(0, 3 * Bound()); }, "full"},
      {"damaged", [&] { WriteBytes(File("certificate.json"), "{}"); }, "full"},
      {"members deleted",
       [&] {
         for (const char* file : {"ensemble.safetensors", "index.safetensors", "spatial.lucid",
                                  "certificate.json", "whole.json", "secret"}) {
           fs::remove(File(file));
         }
       },
       "full"},
  };
  WriteBytes(scratch_ / "rows.csv", "x1,x2\n0.1,0.2\n0.5,0.5\n0.45,0.55\n0.9,0.3\n");
  std::string first_said, first_predicted;
  for (const State& state : states) {
    state.make();
    if (fs::exists(File("certificate.json"))) {
      fs::permissions(File("certificate.json"), fs::perms(0600));
    }
    ServerProcess server(scratch_, {});
    const std::string said = EverythingSaid(server);
    const auto status = server.AskAdmin(Get("/status.json")).Json();
    EXPECT_EQ(status["promise"]["name"], state.promise) << state.name;
    EXPECT_EQ(status["promise"]["clients_see"], "full") << state.name;
    std::string predicted;
    for (const bool json : {false, true}) {
      std::vector<std::string> command = {
          "predict", Run(), "--input", scratch_ / "rows.csv", "--key-file", scratch_ / "key"};
      if (json) command.emplace_back("--json");
      const Outcome outcome = RunLucid(command);
      EXPECT_EQ(outcome.code, 0) << state.name << outcome;
      predicted += outcome.out;
    }
    if (first_said.empty()) {
      first_said = said;
      first_predicted = predicted;
      const auto traffic = status["traffic"];
      EXPECT_GT(traffic["noised"], 20) << "or the bounds are not tested";
      EXPECT_LT(traffic["noised"], traffic["rows"]) << "or the labels are not tested";
    }
    EXPECT_EQ(said, first_said) << state.name;
    EXPECT_EQ(predicted, first_predicted) << state.name;
    EXPECT_EQ(server.Stop().code, 0);
  }
}

// n, digests, seeds and accuracies are functions of the training data that are not answers.
TEST_F(FullPromiseTest, NothingAboutTheTrainingDataIsSaid) {
  Certify(0, Bound() / 2);
  ServerProcess server(scratch_, {});
  const std::string said = EverythingSaid(server);
  const auto manifest = ReadJson(File("manifest.json"));
  std::set<std::string> secrets = {kSeed, fmt::format("{}", kRows)};
  for (const auto& [name, hash] : manifest["hashes"].items()) {
    secrets.insert(hash.get<std::string>().substr(0, 8));
  }
  secrets.insert(manifest["private"]["secret"].get<std::string>().substr(0, 8));
  for (const char* accuracy : {"train_accuracy", "test_accuracy"}) {
    secrets.insert(fmt::format("{:.4f}", manifest[accuracy].get<double>()).substr(1));
    secrets.insert(fmt::format("{:.2f}", 100 * manifest[accuracy].get<double>()));
  }
  for (const std::string& secret : secrets) {
    EXPECT_EQ(said.find(secret), std::string::npos) << secret;
  }
  EXPECT_FALSE(std::regex_search(said, std::regex("[0-9a-f]{16}"))) << "a digest";
  // The operator does see them: the names above are the right ones.
  const std::string status = server.AskAdmin(Get("/status.json")).body;
  EXPECT_THAT(status, HasSubstr("promise labels"));
}

TEST_F(FullPromiseTest, AnswersNeedNoLedger) {
  const ServerProcess server(scratch_, {"--epsilon", "1"});
  EXPECT_EQ(server.Labels(Grid(10)).size(), 100);
}

TEST_F(FullPromiseTest, APromiseThatIsAskedForIsKeptOrNothingOpens) {
  Certify(2 * Bound(), 3 * Bound());
  const auto open = [&](const std::vector<std::string>& more) {
    return RunLucid(std::vector<std::string>{"serve", Run(), "--key-file", scratch_ / "key",
                                             "--listen", "127.0.0.1:0", "--admin", ""} +
                    more);
  };
  for (const char* promise : {"labels", "both"}) {
    const Outcome refused = open({"--promise", promise, "--unchecked"});
    EXPECT_EQ(refused.code, 2) << refused;
    EXPECT_THAT(refused.err, HasSubstr("labels is not kept: refuted"));
  }
  {
    const ServerProcess server(scratch_, {"--promise", "full"});
    EXPECT_EQ(server.Labels(Grid(3)).size(), 9);
  }
  Certify(0, Bound() / 2);
  const Outcome unchecked = open({"--promise", "both"});
  EXPECT_EQ(unchecked.code, 2) << unchecked;
  EXPECT_THAT(unchecked.err, HasSubstr("lucid-check has not accepted"));
  const ServerProcess server(scratch_, {"--promise", "both"});
  EXPECT_EQ(server.AskAdmin(Get("/status.json")).Json()["promise"]["title"],
            "labels+full, chosen after looking");
}

TEST_F(FullPromiseTest, AGuardThatLooksAtMembersStatesLabelsOnly) {
  const Outcome bound = RunLucid({"bound", Run(), "--time-limit", "20s", "--no-proof", "--index"});
  ASSERT_TRUE(fs::exists(File("certificate.json"))) << bound;
  const ServerProcess server(scratch_, {"--guard", "exact", "--latency-floor", "20ms"});
  EXPECT_EQ(server.AskAdmin(Get("/status.json")).Json()["promise"]["name"], "labels");
  const Outcome refused =
      RunLucid({"serve", Run(), "--key-file", scratch_ / "key", "--guard", "exact",
                "--latency-floor", "20ms", "--promise", "full", "--unchecked"});
  EXPECT_EQ(refused.code, 2) << refused;
  EXPECT_THAT(refused.err, HasSubstr("made from members"));
}

TEST_F(FullPromiseTest, FilesOfARunAreTheirOwnersAndServingChecksIt) {
  const Outcome bound = RunLucid({"bound", Run(), "--time-limit", "20s"});
  ASSERT_TRUE(fs::exists(File("certificate.json"))) << bound;
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(Run())) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_EQ(entry.status().permissions(), fs::perms(0600)) << entry.path();
  }
  EXPECT_GE(files, 7);
  for (const char* file : {"network.safetensors", "ensemble.safetensors", "certificate.json"}) {
    fs::permissions(File(file), fs::perms(0640));
    const Outcome refused = RunLucid(
        {"serve", Run(), "--key-file", scratch_ / "key", "--listen", "127.0.0.1:0", "--admin", ""});
    EXPECT_EQ(refused.code, 2) << refused;
    EXPECT_THAT(refused.err, HasSubstr(std::string(file) + "' has mode 0640"));
    fs::permissions(File(file), fs::perms(0600));
  }
}

}  // namespace
}  // namespace lucid::test
