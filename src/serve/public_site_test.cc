// The site without sockets: who is let in, what is answered, and what is never said.
#include "serve/public_site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <string>

namespace lucid {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

Schema TestSchema() {
  return Schema::Parse(
             "column,kind,offset,divisor,categories\nx,numeric,0,1,\ny,numeric,0,1,\n"
             "label,label,,,no|so\\so\n",
             "test")
      .value();
}

// Label 1 if x > y; remembers who asked. A negative x is out of the domain, y = 0.25 breaks the
// ledger.
class FakeLabeller : public Labeller {
 public:
  void Label(const Client& client, std::vector<float> rows, Done done) const override {
    account = client.account;
    Labels labels;
    for (std::size_t i = 0; i < rows.size(); i += 2) {
      if (rows[i] < 0) return done(InvalidInput("row 0: feature 'x': -1 is not in [0,1]"));
      if (rows[i + 1] == 0.25f) return done(IoError("/secret/ledger.db: no space"));
      labels.labels.push_back(rows[i] > rows[i + 1] ? 1 : 0);
      labels.noised += 1;
    }
    done(std::move(labels));
  }
  void Probe(std::function<void(bool)> done) const override { done(can_answer); }
  mutable std::string account;
  bool can_answer = true;
};

ApiKeyEntry EntryFor(const std::string& id) {
  ApiKeyEntry entry;
  entry.id = id;
  return entry;
}

class PublicSiteTest : public testing::Test {
 protected:
  PublicSite Site(std::optional<double> rate = std::nullopt) {
    return {PublicSiteOptions{"m", {}, rate}, TestSchema(), labeller_, keys_, state_};
  }
  void UseKeys(ApiKeyEntry entry) {
    auto created = ApiKeys::Create({}, std::move(entry)).value();
    keys_ = std::make_shared<const ApiKeys>(std::move(created.keys));
    key_ = "Bearer " + created.key;
  }
  Response Get(const PublicSite& site, std::string_view path,
               HttpMethod method = HttpMethod::kGet) {
    exchange_.head = {};
    exchange_.head.path = path;
    exchange_.head.method = method;
    exchange_.head.authorization = key_;
    return Exchange(site, "");
  }
  Response Post(const PublicSite& site, std::string_view path, const std::string& body) {
    exchange_.head = {};
    exchange_.head.path = path;
    exchange_.head.method = HttpMethod::kPost;
    exchange_.head.content_type = "Application/JSON ; charset=utf-8";
    exchange_.head.has_body_length = true;
    exchange_.head.authorization = key_;
    return Exchange(site, body);
  }
  Response Exchange(const PublicSite& site, const std::string& body) {
    if (auto refusal = site.Admit(exchange_)) return *refusal;
    std::optional<Response> response;
    site.Answer(exchange_, body, [&](Response given) { response = std::move(given); });
    if (sends_) site.OnSend(exchange_, response.value());
    return response.value();
  }
  static json Body(const Response& response) { return json::parse(response.body); }
  static std::string Field(const Response& response, std::string_view name) {
    for (const auto& [field, value] : response.fields) {
      if (field == name) return value;
    }
    return "";
  }

  std::string events_;
  ServerLog log_{[this](std::string_view lines) { events_ += lines; }, false, true};
  SiteState state_{log_};
  std::shared_ptr<FakeLabeller> labeller_ = std::make_shared<FakeLabeller>();
  std::shared_ptr<const ApiKeys> keys_;
  std::string key_;
  lucid::Exchange exchange_;
  bool sends_ = true;  // what was answered
};

TEST_F(PublicSiteTest, AnswersTheProtocol) {
  const PublicSite site = Site();
  EXPECT_EQ(Body(Get(site, "/v2"))["name"], "lucid");
  EXPECT_EQ(Body(Get(site, "/v2/health/live")), json({{"live", true}}));
  EXPECT_EQ(Body(Get(site, "/v2/health/ready")), json({{"ready", true}}));
  EXPECT_EQ(Body(Get(site, "/v2/models/m/ready")), json({{"name", "m"}, {"ready", true}}));
  const json model = Body(Get(site, "/v2/models/m/versions/1"));
  EXPECT_EQ(model, Body(Get(site, "/v2/models/m")));
  EXPECT_EQ(model["outputs"][0]["name"], "label");
  EXPECT_EQ(model["inputs"][0]["shape"], json({-1, 2}));
  EXPECT_EQ(Body(Get(site, "/openapi.json"))["openapi"].get<std::string>()[0], '3');
  const Response labels =
      Post(site, "/v2/models/m/infer",
           R"({"id":"7","inputs":[{"name":"input","datatype":"FP32","shape":[2,2],)"
           R"("data":[0.1,0.9,0.9,0.1]}]})");
  EXPECT_EQ(labels.status, 200);
  EXPECT_EQ(Body(labels),
            json::parse(R"({"model_name":"m","model_version":"1","id":"7","outputs":[)"
                        R"({"name":"label","datatype":"INT64","shape":[2],"data":[0,1]}]})"));
  EXPECT_EQ(labels.rows, 2);
  EXPECT_EQ(labels.noised, 2);
  EXPECT_EQ(Body(Post(site, "/predict", R"({"rows":[{"x":0.9,"y":0.1},[0.1,0.9]]})")),
            json::parse(R"({"labels":[1,0],"names":["so\\so","no"]})"));
}

TEST_F(PublicSiteTest, ReadyEndsWithTheDrainAndLiveDoesNot) {
  const PublicSite site = Site();
  state_.draining = true;
  EXPECT_EQ(Get(site, "/v2/health/ready").status, 503);
  EXPECT_EQ(Get(site, "/v2/models/m/ready").status, 503);
  EXPECT_EQ(Get(site, "/v2/health/live").status, 200);
  EXPECT_EQ(Post(site, "/predict", R"({"input":[[0,1]]})").status, 200) << "still answered";
}

TEST_F(PublicSiteTest, WhoCannotAnswerIsNotReady) {
  const PublicSite site = Site();
  labeller_->can_answer = false;
  EXPECT_EQ(Get(site, "/v2/health/ready").status, 503);
  EXPECT_EQ(Body(Get(site, "/v2/models/m/ready")), json({{"name", "m"}, {"ready", false}}));
  EXPECT_EQ(Get(site, "/v2/health/live").status, 200);
  labeller_->can_answer = true;
  EXPECT_EQ(Get(site, "/v2/health/ready").status, 200);
}

TEST_F(PublicSiteTest, RefusesByTheHeadAlone) {
  const PublicSite site = Site();
  for (const char* path : {"/", "/v3", "/v2/models", "/v2/models/other", "/v2/models/m/versions/2",
                           "/v2/models/m/infer/", "/v2/models/mm/infer", "/predict/", "*", ""}) {
    EXPECT_EQ(Get(site, path).status, 404) << path;
  }
  const Response get = Get(site, "/predict");
  EXPECT_EQ(get.status, 405);
  EXPECT_EQ(Field(get, "Allow"), "POST");
  const Response post = Post(site, "/v2", "{}");
  EXPECT_EQ(post.status, 405);
  EXPECT_EQ(Field(post, "Allow"), "GET, HEAD");
  EXPECT_EQ(Get(site, "/v2", HttpMethod::kHead).status, 200);

  exchange_.head.path = "/predict";
  exchange_.head.method = HttpMethod::kPost;
  EXPECT_EQ(site.Admit(exchange_)->status, 411);
  exchange_.head.has_body_length = true;
  exchange_.head.content_type = "application/jsonp";
  EXPECT_EQ(site.Admit(exchange_)->status, 415);
  exchange_.head.content_type = "application/json";
  exchange_.head.content_encoding = "br";
  EXPECT_EQ(site.Admit(exchange_)->status, 415);
  exchange_.head.content_encoding = "gzip, gzip";
  EXPECT_EQ(site.Admit(exchange_)->status, 415);
  exchange_.head.content_encoding = "GZIP";
  EXPECT_FALSE(site.Admit(exchange_).has_value());
  exchange_.head.json_length = "2";
  EXPECT_EQ(site.Admit(exchange_)->status, 400) << "binary data is for infer";
  exchange_.head.path = "/v2/models/m/infer";
  EXPECT_FALSE(site.Admit(exchange_).has_value());
  for (const char* length : {"", "-1", "2x", " 2", "18446744073709551616"}) {
    exchange_.head.json_length = length;
    EXPECT_EQ(site.Admit(exchange_)->status, 400) << length;
  }
}

// What a page of another site can send without being asked first has one of three types, or none;
// and then the browser says for whom it asks.
TEST_F(PublicSiteTest, APageOfAnotherSiteGetsNothing) {
  const PublicSite site = Site();
  for (const char* path : {"/predict", "/v2/models/m/infer"}) {
    for (const bool from_page : {false, true}) {
      for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded",
                               "multipart/form-data", "application/octet-stream"}) {
        exchange_.head = {};
        exchange_.head.path = path;
        exchange_.head.method = HttpMethod::kPost;
        exchange_.head.has_body_length = true;
        exchange_.head.from_page = from_page;
        exchange_.head.content_type = type;
        const auto refusal = site.Admit(exchange_);
        EXPECT_EQ(refusal ? refusal->status : 200, *type == '\0' && !from_page ? 200 : 415)
            << path << " " << type << " " << from_page;
      }
    }
  }
  // Such a field cannot be sent without being asked first.
  exchange_.head.json_length = "2";
  EXPECT_FALSE(site.Admit(exchange_).has_value()) << "octets, with the field of the extension";
}

std::string Gzip(const std::string& text, int window_bits = 15 + 16) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST_F(PublicSiteTest, CompressedBodiesAreReadUpToTheLimit) {
  const PublicSite site(
      PublicSiteOptions{.name = "m", .limits = {}, .rate = {}, .body_bytes = 1000}, TestSchema(),
      labeller_, keys_, state_);
  const std::string body = R"({"input":[[0.9,0.1]]})";
  const auto post = [&](const std::string& coding, const std::string& bytes) {
    Post(site, "/predict", body);
    exchange_.head.content_encoding = coding;
    return Exchange(site, bytes);
  };
  EXPECT_EQ(Body(post("gzip", Gzip(body)))["labels"], json({1}));
  EXPECT_EQ(Body(post("deflate", Gzip(body, 15)))["labels"], json({1}));
  EXPECT_EQ(Body(post("identity", body))["labels"], json({1}));
  EXPECT_EQ(post("gzip", Gzip(body + std::string(1000 - body.size(), ' '))).status, 200);
  EXPECT_EQ(post("gzip", Gzip(body + std::string(1001 - body.size(), ' '))).status, 413);
  EXPECT_EQ(post("gzip", Gzip(std::string(100'000'000, ' '))).status, 413) << "a bomb";
  std::string damaged = Gzip(body);
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  for (const std::string& bad : {body, std::string(), damaged, Gzip(body).substr(0, 20),
                                 Gzip(body) + "x", Gzip(body, 15), Gzip(body) + Gzip(body)}) {
    const Response refused = post("gzip", bad);
    EXPECT_EQ(refused.status, 400) << bad.size();
    EXPECT_THAT(refused.body, HasSubstr("Content-Encoding"));
  }
}

TEST_F(PublicSiteTest, BinaryLabelsFollowTheJson) {
  const PublicSite site = Site();
  const Response labels =
      Post(site, "/v2/models/m/infer",
           R"({"id":"7","parameters":{"binary_data_output":true},"inputs":[{"name":"input",)"
           R"("datatype":"FP32","shape":[2,2],"data":[0.1,0.9,0.9,0.1]}]})");
  ASSERT_EQ(labels.status, 200) << labels.body;
  EXPECT_EQ(labels.content_type, "application/octet-stream");
  const auto length = std::stoul(Field(labels, "Inference-Header-Content-Length"));
  EXPECT_EQ(json::parse(labels.body.substr(0, length)),
            json::parse(R"({"model_name":"m","model_version":"1","id":"7","outputs":[)"
                        R"({"name":"label","datatype":"INT64","shape":[2],)"
                        R"("parameters":{"binary_data_size":16}}]})"));
  EXPECT_EQ(labels.body.substr(length), std::string(8, '\0') + '\1' + std::string(7, '\0'));
}

TEST_F(PublicSiteTest, AClientSeesItsOwnStatisticsOnly) {
  UseKeys(EntryFor("alice"));
  const std::string alice = key_;
  auto both = ApiKeys::Create(*keys_, EntryFor("bob")).value();
  keys_ = std::make_shared<const ApiKeys>(std::move(both.keys));
  const std::string bob = "Bearer " + both.key;
  const PublicSite site = Site();
  key_ = bob;
  const json before = Body(Get(site, "/v2/models/m/stats"));
  key_ = alice;
  EXPECT_EQ(Post(site, "/predict", R"({"input":[[0,1],[1,0]]})").status, 200);
  EXPECT_EQ(Post(site, "/predict", "{}").status, 400);
  EXPECT_EQ(Post(site, "/predict", R"({"input":[[0,0.25]]})").status, 503);
  const json own = Body(Get(site, "/v2/models/m/versions/1/stats"))["model_stats"][0];
  EXPECT_EQ(own["inference_count"], 2);
  EXPECT_EQ(own["execution_count"], 1);
  EXPECT_EQ(own["inference_stats"], json({{"success", {{"count", 1}}}, {"fail", {{"count", 2}}}}));
  sends_ = false;
  EXPECT_EQ(Post(site, "/predict", R"({"input":[[0,1]]})").status, 200);
  EXPECT_EQ(Post(site, "/predict", "{}").status, 400);
  EXPECT_EQ(Body(Get(site, "/v2/models/m/stats"))["model_stats"][0], own)
      << "an answer that waits for the latency floor";
  key_ = bob;
  EXPECT_EQ(Body(Get(site, "/v2/models/m/stats")), before) << "as if nobody else had asked";
  EXPECT_THAT(Get(site, "/v2").body, HasSubstr("statistics"));
  keys_ = nullptr;
  const PublicSite open = Site();
  EXPECT_EQ(Get(open, "/v2/models/m/stats").status, 404) << "all clients are one";
  EXPECT_EQ(Get(open, "/v2").body.find("statistics"), std::string::npos);
}

TEST_F(PublicSiteTest, TheConfigurationNamesWhatTheMetadataNames) {
  const PublicSite site = Site();
  const json config = Body(Get(site, "/v2/models/m/config"));
  const json model = Body(Get(site, "/v2/models/m"));
  EXPECT_EQ(config, Body(Get(site, "/v2/models/m/versions/1/config")));
  ASSERT_EQ(config["input"].size(), model["inputs"].size());
  for (std::size_t i = 0; i < model["inputs"].size(); ++i) {
    EXPECT_EQ(config["input"][i]["name"], model["inputs"][i]["name"]);
    EXPECT_EQ(config["input"][i]["dims"], model["inputs"][i]["shape"]);
  }
  EXPECT_EQ(config["output"][0]["data_type"], "TYPE_INT64");
  EXPECT_EQ(config["max_batch_size"], 0) << "shapes hold the number of rows";
}

TEST_F(PublicSiteTest, KeysDecideWhoMayAsk) {
  UseKeys(EntryFor("alice"));
  const PublicSite site = Site();
  EXPECT_EQ(Post(site, "/predict", R"({"input":[[0,1]]})").status, 200);
  EXPECT_EQ(labeller_->account, "alice");
  key_ = key_.substr(7);
  EXPECT_EQ(Post(site, "/predict", "{}").status, 401) << "not a bearer";
  exchange_.head.api_key = key_;
  exchange_.head.authorization = "";
  EXPECT_FALSE(site.Admit(exchange_).has_value()) << "X-API-Key";
  key_ = "Bearer nonsense";
  const Response refused = Post(site, "/predict", "{}");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(Field(refused, "WWW-Authenticate"), "Bearer");
  EXPECT_EQ(exchange_.client.account, "");
  EXPECT_EQ(Get(site, "/v2/models/m").status, 401);
  EXPECT_EQ(Get(site, "/v2/health/ready").status, 200) << "health is for everybody";
  EXPECT_EQ(Get(site, "/openapi.json").status, 200);
  EXPECT_EQ(state_.metrics.keys_refused, 3);
}

TEST_F(PublicSiteTest, ExpiredAndRevokedKeysAreToldSo) {
  ApiKeyEntry old = EntryFor("old");
  old.expires = std::chrono::sys_seconds(std::chrono::seconds(1'600'000'000));  // 2020
  UseKeys(old);
  const Response expired = Post(Site(), "/predict", "{}");
  EXPECT_EQ(expired.status, 401);
  EXPECT_THAT(expired.body, HasSubstr("expired"));
  ApiKeyEntry bad = EntryFor("bad");
  bad.revoked = true;
  UseKeys(bad);
  const Response revoked = Post(Site(), "/predict", "{}");
  EXPECT_EQ(revoked.status, 403);
  EXPECT_THAT(revoked.body, HasSubstr("revoked"));
}

TEST_F(PublicSiteTest, RatesAreLimited) {
  const PublicSite site = Site(/*rate=*/0.001);
  EXPECT_EQ(Post(site, "/predict", R"({"input":[[0,1]]})").status, 200);
  const Response refused = Post(site, "/predict", R"({"input":[[0,1]]})");
  EXPECT_EQ(refused.status, 429);
  EXPECT_GE(std::stoi(Field(refused, "Retry-After")), 1);
  EXPECT_EQ(Get(site, "/v2/health/live").status, 200) << "health is not limited";
}

TEST_F(PublicSiteTest, AnInputThatMustNotBeAskedIs400AndABrokenLedger503) {
  const PublicSite site = Site();
  const Response domain = Post(site, "/predict", R"({"input":[[-1,1]]})");
  EXPECT_EQ(domain.status, 400);
  EXPECT_EQ(Body(domain)["error"], "row 0: feature 'x': -1 is not in [0,1]");
  const Response broken = Post(site, "/predict", R"({"input":[[0,0.25]]})");
  EXPECT_EQ(broken.status, 503);
  EXPECT_EQ(Field(broken, "Retry-After"), "1");
  EXPECT_EQ(broken.body.find("secret"), std::string::npos) << "files are the operator's";
  EXPECT_EQ(broken.body.find("ledger"), std::string::npos);
  EXPECT_EQ(state_.metrics.ledger_failures, 1);
}

}  // namespace
}  // namespace lucid
