// HTTP as strangers speak it: everything that can be wrong with a request, and its answer.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "serve/server.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

class HttpTest : public testing::Test {
 protected:
  void SetUp() override { MakeRun(scratch_ / "run"); }
  Scratch scratch_;
};

const std::string kRow = R"({"rows":[{"x1":0.2,"x2":0.7}]})";

std::string Inference(const std::string& id) {
  return R"({"id":")" + id +
         R"(","inputs":[{"name":"input","datatype":"FP32","shape":[1,2],"data":[0.2,0.7]}]})";
}

std::string Raw(const std::string& method, const std::string& path, const std::string& fields,
                const std::string& body = "") {
  return method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" + body;
}

struct BadInput {
  std::string what, request;
  int status;
  std::string word;  // of the error
};

std::vector<BadInput> BadInputs() {
  const std::string json = "Content-Type: application/json\r\n";
  const auto predict = [](const std::string& body) { return Post("/predict", body); };
  const auto infer = [](const std::string& body) { return Post("/v2/models/lucid/infer", body); };
  const auto chunked = [&json](const std::string& chunks) {
    return Raw("POST", "/predict", json + "Transfer-Encoding: chunked\r\n", chunks);
  };
  const auto tensor = [&](const std::string& data, const std::string& shape = "[1,2]") {
    return infer(R"({"inputs":[{"name":"input","datatype":"FP32","shape":)" + shape +
                 R"(,"data":)" + data + "}]}");
  };
  return {
      {"NaN literal", tensor("[NaN,0]"), 400, "not valid JSON"},
      {"Infinity literal", tensor("[0,-Infinity]"), 400, "not valid JSON"},
      {"number beyond float32", tensor("[1e39,0]"), 400, "finite float32"},
      {"number beyond double", tensor("[1e999,0]"), 400, "too large"},
      {"number as text", tensor("[\"0.5\",0]"), 400, "finite float32"},
      {"null as number", tensor("[null,0]"), 400, "finite float32"},
      {"too few values", tensor("[0.5]"), 400, "needs 2 values"},
      {"wrong dimension", tensor("[0.5,0.5,0.5]", "[1,3]"), 400, "shape [rows, 2]"},
      {"shape with overflow", tensor("[0]", "[9223372036854775807,2]"), 400, "at most 1024"},
      {"negative shape", tensor("[0]", "[-1,2]"), 400, "whole numbers"},
      {"no rows", tensor("[]", "[0,2]"), 400, "no rows"},
      {"out of the domain, above", tensor("[0.5,1.5]"), 400, "row 0"},
      {"out of the domain, below", tensor("[-0.5,0.5]"), 400, "row 0"},
      {"out of the domain, raw column", predict(R"({"rows":[{"x1":7,"x2":0}]})"), 400, "'x1'"},
      {"too many rows", predict(PredictBody(std::vector<std::pair<double, double>>(1025, {0, 0}))),
       400, "1025 rows, at most 1024"},
      {"unknown column", predict(R"({"rows":[{"x1":0,"x2":0,"x3":0}]})"), 400, "'x3'"},
      {"missing column", predict(R"({"rows":[{"x1":0}]})"), 400, "'x2' is missing"},
      {"column twice", predict(R"({"rows":[{"x1":0,"x1":1,"x2":0}]})"), 400, "twice"},
      {"column not a number", predict(R"({"rows":[{"x1":"a","x2":0}]})"), 400, "'a'"},
      {"deep JSON", predict(std::string(100'000, '[')), 400, "deeper than 8"},
      {"bad UTF-8", predict("{\"rows\":[\"\xff\xfe\"]}"), 400, "not valid JSON"},
      {"truncated JSON", predict(R"({"rows":[)"), 400, "not valid JSON"},
      {"not JSON", predict("x1=0&x2=1"), 400, "not valid JSON"},
      {"empty body", predict(""), 400, "not valid JSON"},
      {"unknown output", infer(R"({"outputs":[{"name":"scores"}],"inputs":[{"name":"input"}]})"),
       400, "'scores'"},
      {"binary data without a size",
       Post("/v2/models/lucid/infer",
            R"({"inputs":[{"name":"input","datatype":"FP32","shape":[1,2],"data":[0,0]}]}more)",
            "Inference-Header-Content-Length: 74\r\n"),
       400, "belong to no input"},
      {"binary data that is too short",
       Post("/v2/models/lucid/infer",
            R"({"inputs":[{"name":"input","datatype":"FP32","shape":[1,2],)"
            R"("parameters":{"binary_data_size":8}}]}1234)",
            "Inference-Header-Content-Length: 97\r\n"),
       400, "4 bytes are left"},
      {"JSON longer than the body",
       Post("/v2/models/lucid/infer", "{}", "Inference-Header-Content-Length: 3\r\n"), 400,
       "3 bytes of JSON"},
      {"binary data of predict", Post("/predict", "{}", "Inference-Header-Content-Length: 2\r\n"),
       400, "for infer only"},
      {"wrong content type",
       Raw("POST", "/predict", "Content-Type: text/plain\r\nContent-Length: 2\r\n", "{}"), 415,
       "application/json"},
      {"no content type, from a page",
       Raw("POST", "/predict", "Origin: http://x\r\nContent-Length: 2\r\n", "{}"), 415,
       "application/json"},
      {"unknown compression",
       Raw("POST", "/predict", json + "Content-Encoding: br\r\nContent-Length: 2\r\n", "{}"), 415,
       "gzip or deflate"},
      {"compressed body that is not",
       Raw("POST", "/predict", json + "Content-Encoding: gzip\r\nContent-Length: 2\r\n", "{}"), 400,
       "Content-Encoding"},
      {"two Content-Encodings",
       Raw("POST", "/predict",
           json + "Content-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n",
           "{}"),
       400, "at most one Content-Encoding"},
      {"no length", Raw("POST", "/predict", json), 411, "Content-Length"},
      {"huge body, announced", Raw("POST", "/predict", json + "Content-Length: 1000000000\r\n", ""),
       413, "at most 1048576"},
      {"huge body, chunked",
       Raw("POST", "/predict", json + "Transfer-Encoding: chunked\r\n",
           "200000\r\n" + std::string(0x200000, ' ') + "\r\n0\r\n\r\n"),
       413, "at most 1048576"},
      {"length twice",
       Raw("POST", "/predict", json + "Content-Length: 2\r\nContent-Length: 3\r\n", "{}"), 400,
       "HTTP"},
      {"length and chunks",
       Raw("POST", "/predict", json + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
           "2\r\n{}\r\n0\r\n\r\n"),
       400, "HTTP"},
      {"negative length", Raw("POST", "/predict", json + "Content-Length: -1\r\n"), 400, "HTTP"},
      {"huge header", Get("/v2", "X-Big: " + std::string(20'000, 'x') + "\r\n"), 431, "16384"},
      {"many headers",
       Get("/v2",
           [] {
             std::string fields;
             for (int i = 0; i < 3000; ++i) fields += "A: b\r\n";
             return fields;
           }()),
       431, "16384"},
      {"no Host", "GET /v2 HTTP/1.1\r\n\r\n", 400, "Host"},
      {"not HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "HTTP"},
      {"unknown version", "GET /v2 HTTP/3.7\r\nHost: x\r\n\r\n", 505, "HTTP/1.1"},
      {"unknown path", Get("/admin"), 404, "nothing"},
      {"path of the admin port", Get("/metrics"), 404, "nothing"},
      {"unknown model", Post("/v2/models/other/infer", "{}"), 404, "nothing"},
      {"climbing path", Get("/../../etc/passwd"), 404, "nothing"},
      {"wrong method", Get("/predict"), 405, "POST"},
      {"TRACE", Raw("TRACE", "/v2", ""), 405, "GET"},
      {"chunk extension without an end", chunked("5;" + std::string(60'000, 'a')), 431,
       "extension"},
      {"trailer without an end", chunked("2\r\n{}\r\n0\r\nX: " + std::string(60'000, 'a')), 431,
       "trailer"},
      {"body of a GET", Raw("GET", "/v2/health/live", "Content-Length: 5\r\n", "hello"), 400,
       "must not have a body"},
      {"chunked body of a GET",
       Raw("GET", "/v2/health/live", "Transfer-Encoding: chunked\r\n",
           "5;" + std::string(60'000, 'a')),
       400, "must not have a body"},
      {"unknown transfer coding", Raw("POST", "/predict", json + "Transfer-Encoding: gzip\r\n"),
       501, "chunked"},
      {"two transfer codings",
       Raw("POST", "/predict", json + "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501,
       "chunked"},
      {"folded transfer coding",
       Raw("POST", "/predict", json + "Transfer-Encoding:\r\n chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"),
       400, "another line"},
      {"folded field", Get("/v2", "X-A: b\r\n\tc\r\n"), 400, "another line"},
      {"chunks in HTTP/1.0",
       "POST /predict HTTP/1.0\r\n" + json + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       "HTTP/1.0"},
      {"too few nested rows", tensor("[[0.5,0.5]]", "[2,2]"), 400, "needs 2 lists"},
      {"unknown expectation", Post("/predict", kRow, "Expect: 200-maybe\r\n"), 417, "100-continue"},
  };
}

// LUCID_BAD_INPUTS=FILE writes the table of docs/serve.md.
TEST_F(HttpTest, EveryBadInputGetsItsAnswerAndTheServerGoesOn) {
  const ServerProcess server(scratch_);
  std::string table;
  for (const BadInput& bad : BadInputs()) {
    const Reply reply = server.Ask(bad.request);
    EXPECT_EQ(reply.status, bad.status) << bad.what << "\n" << reply;
    EXPECT_EQ(reply.Field("Content-Type"), "application/json") << bad.what;
    EXPECT_EQ(reply.Field("X-Content-Type-Options"), "nosniff") << bad.what;
    const nlohmann::json body = reply.Json();
    ASSERT_TRUE(body.is_object() && body.size() == 1 && body.contains("error")) << bad.what;
    const auto error = body["error"].get<std::string>();
    EXPECT_THAT(error, HasSubstr(bad.word)) << bad.what;
    table += fmt::format("| {} | {} | {} |\n", bad.what, reply.status, error);
  }
  EXPECT_EQ(server.Ask(Post("/predict", kRow)).status, 200);
  if (const char* path = std::getenv("LUCID_BAD_INPUTS")) std::ofstream(path) << table;
}

TEST_F(HttpTest, OddButAllowedInputsAreAnswered) {
  const ServerProcess server(scratch_);
  const auto label = [&](const std::string& data) {
    const Reply reply = server.Ask(Post("/predict", R"({"input":[[)" + data + "]]}"));
    EXPECT_EQ(reply.status, 200) << data << "\n" << reply;
    return reply.Json()["labels"];
  };
  EXPECT_EQ(label("-0.0,0.7"), label("0,0.7")) << "-0 is 0";
  EXPECT_EQ(label("1e-40,0.7"), label("0,0.7")) << "subnormals are 0";
  EXPECT_EQ(label("1e-300,0.7"), label("0,0.7"));
  EXPECT_EQ(label("1e-400,0.7"), label("0,0.7")) << "below the smallest double";
  EXPECT_EQ(label("2e-1,7E-1"), label("0.2,0.70000000000000000000"));
  const Reply raw = server.Ask(Post("/predict", kRow));
  EXPECT_EQ(raw.Json()["labels"], label("0.2,0.7")) << "raw columns and features agree";
  EXPECT_EQ(raw.Json()["names"].size(), 1);
  const Reply inference = server.Ask(Post("/v2/models/lucid/versions/1/infer", Inference("é")));
  EXPECT_EQ(inference.Json()["outputs"][0]["data"], raw.Json()["labels"]);
  EXPECT_EQ(inference.Json()["id"], "é");
}

TEST_F(HttpTest, ProtocolEndpointsAnswer) {
  const ServerProcess server(scratch_, {"--name", "my.model"});
  EXPECT_EQ(server.Ask(Get("/v2")).Json()["name"], "lucid");
  EXPECT_EQ(server.Ask(Get("/v2/health/live")).Json()["live"], true);
  EXPECT_EQ(server.Ask(Get("/v2/health/ready?x=1")).Json()["ready"], true);
  EXPECT_EQ(server.Ask(Get("/v2/models/my.model")).Json()["inputs"][0]["shape"],
            nlohmann::json({-1, 2}));
  EXPECT_EQ(server.Ask(Get("/v2/models/my.model/ready")).Json()["name"], "my.model");
  EXPECT_TRUE(server.Ask(Get("/openapi.json")).Json().contains("paths"));
  const Reply head = server.Ask(Raw("HEAD", "/v2", ""));
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.Field("Content-Length"), std::to_string(server.Ask(Get("/v2")).body.size()));
  EXPECT_THAT(server.AskAdmin(Get("/")).body, HasSubstr("<html"));
  EXPECT_EQ(server.AskAdmin(Get("/healthz")).status, 200);
  EXPECT_THAT(server.AskAdmin(Get("/metrics")).body, HasSubstr("# TYPE"));
  EXPECT_EQ(server.AskAdmin(Get("/status.json")).Json()["model"], "my.model");
  EXPECT_EQ(server.AskAdmin(Get("/predict")).status, 404);
}

TEST_F(HttpTest, PipelinedRequestsAreAnsweredInOrder) {
  const ServerProcess server(scratch_);
  std::string requests;
  for (int i = 0; i < 200; ++i) {
    requests += Post("/v2/models/lucid/infer", Inference(std::to_string(i)));
  }
  Socket socket(server.port());
  ASSERT_TRUE(socket.Send(requests));
  for (int i = 0; i < 200; ++i) {
    const Reply reply = socket.Read();
    ASSERT_EQ(reply.status, 200) << i;
    EXPECT_EQ(reply.Json()["id"], std::to_string(i));
  }
}

TEST_F(HttpTest, ABadRequestInAPipelineEndsItAfterItsAnswer) {
  const ServerProcess server(scratch_);
  Socket socket(server.port());
  socket.Send(Get("/v2") + Post("/predict", "{}") + "nonsense\r\n\r\n" + Get("/v2"));
  EXPECT_EQ(socket.Read().status, 200);
  EXPECT_EQ(socket.Read().status, 400) << "a bad body, but where it ends is known";
  const Reply last = socket.Read();
  EXPECT_EQ(last.status, 400);
  EXPECT_EQ(last.Field("Connection"), "close");
  EXPECT_TRUE(socket.AtEnd()) << "what follows cannot be told apart";
}

TEST_F(HttpTest, BytesMayComeOneByOneAndInChunks) {
  const ServerProcess server(scratch_);
  Socket socket(server.port());
  for (const char byte : Post("/v2/models/lucid/infer", Inference("slow"))) {
    ASSERT_TRUE(socket.Send(std::string(1, byte)));
  }
  EXPECT_EQ(socket.Read().Json()["id"], "slow");
  const std::string body = Inference("chunks");
  std::string chunks;
  for (std::size_t i = 0; i < body.size(); i += 7) {
    const std::string part = body.substr(i, 7);
    chunks += fmt::format("{:x};ext=1\r\n{}\r\n", part.size(), part);
  }
  socket.Send(Raw("POST", "/v2/models/lucid/infer",
                  "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
                  chunks + "0\r\nTrailer: x\r\n\r\n"));
  EXPECT_EQ(socket.Read().Json()["id"], "chunks");
}

TEST_F(HttpTest, HalfClosedSocketsGetTheirAnswer) {
  const ServerProcess server(scratch_);
  Socket whole(server.port());
  whole.Send(Post("/predict", kRow));
  whole.ShutdownWrite();
  EXPECT_EQ(whole.Read().status, 200);
  EXPECT_TRUE(whole.AtEnd());
  Socket part(server.port());
  part.Send(Post("/predict", kRow).substr(0, 90));
  part.ShutdownWrite();
  EXPECT_EQ(part.Read().status, 400);
  EXPECT_TRUE(part.AtEnd());
  Socket nothing(server.port());
  nothing.ShutdownWrite();
  EXPECT_TRUE(nothing.AtEnd());
  Socket reset(server.port());
  reset.Send(Post("/predict", kRow).substr(0, 90));
  reset.Reset();
  EXPECT_EQ(server.Ask(Get("/v2")).status, 200) << "the server goes on";
}

TEST_F(HttpTest, SlowClientsAreDropped) {
  const ServerProcess server(scratch_, {"--request-time", "300ms", "--idle-time", "400ms"});
  const std::string request = Post("/predict", kRow);
  for (const std::size_t sent :
       {std::size_t{10}, request.size() - 5}) {  // in the head, in the body
    Socket slow(server.port());
    const double start = Now();
    slow.Send(request.substr(0, sent));
    const Reply reply = slow.Read();
    EXPECT_EQ(reply.status, 408) << sent;
    EXPECT_GE(Now() - start, 0.3);
    EXPECT_TRUE(slow.AtEnd());
  }
  // A chunk that is not whole is no way around it, whether it may still grow or not.
  for (const std::size_t size : {100, 60'000}) {
    Socket extension(server.port());
    extension.Send(Raw("POST", "/predict",
                       "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
                       "5;" + std::string(size, 'a')));
    EXPECT_EQ(extension.Read().status, size == 100 ? 408 : 431);
    EXPECT_TRUE(extension.AtEnd());
  }
  // A byte every now and then does not help: the time is that of the whole request.
  Socket loris(server.port());
  const double start = Now();
  bool dropped = false;
  loris.Send("GET /v2 HTTP/1.1\r\n");
  while (!dropped && Now() - start < 15) {
    dropped = !loris.Send("X: y\r\n");
    SleepSeconds(0.05);  // this client's pace, not a wait for the server
  }
  EXPECT_TRUE(dropped);
  Socket idle(server.port());
  idle.Send(Get("/v2"));
  EXPECT_EQ(idle.Read().status, 200);
  EXPECT_TRUE(idle.AtEnd());
}

TEST_F(HttpTest, KeepAliveExpectAndOldVersions) {
  const ServerProcess server(scratch_);
  Socket socket(server.port());
  const std::string request = Post("/predict", kRow, "Expect: 100-continue\r\n");
  const std::size_t head = request.find("\r\n\r\n") + 4;
  socket.Send(request.substr(0, head));
  EXPECT_EQ(socket.Read().status, 100);
  socket.Send(request.substr(head));
  EXPECT_EQ(socket.Read().status, 200);
  const std::string nowhere = Post("/nowhere", kRow, "Expect: 100-continue\r\n");
  socket.Send(nowhere.substr(0, nowhere.find("\r\n\r\n") + 4));
  EXPECT_EQ(socket.Read().status, 404) << "refused before the body is sent";
  EXPECT_TRUE(socket.AtEnd());

  Socket old(server.port());
  old.Send("GET /v2 HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.Read().Field("Connection"), "close");
  EXPECT_TRUE(old.AtEnd());
  Socket kept(server.port());
  kept.Send("GET /v2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(kept.Read().Field("Connection"), "keep-alive");
  kept.Send(Get("/v2", "Connection: close\r\n"));
  EXPECT_EQ(kept.Read().Field("Connection"), "close");
  EXPECT_TRUE(kept.AtEnd());
}

TEST_F(HttpTest, ConnectionsAndRequestsAreLimited) {
  const ServerProcess server(scratch_, {"--max-connections", "2", "--max-connections-per-address",
                                        "2", "--max-requests", "1", "--latency-floor", "1500ms"});
  Socket first(server.port()), second(server.port());
  first.Send(Get("/v2"));
  EXPECT_EQ(first.Read().status, 200);
  second.Send(Get("/v2"));
  EXPECT_EQ(second.Read().status, 200);
  Socket third(server.port());
  third.Send(Get("/v2"));
  const Reply refused = third.Read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.Field("Retry-After"), "1");
  EXPECT_TRUE(third.AtEnd());
  EXPECT_EQ(Socket(server.port()).Read().status, 503) << "told also if it says nothing";

  first.Send(Post("/predict", kRow).substr(0, 90));  // half a request holds no place
  second.Send(Post("/predict", kRow));
  const auto in_flight = [&] {
    return server.AskAdmin(Get("/status.json")).Json()["traffic"]["in_flight"];
  };
  ASSERT_TRUE(WaitFor([&] { return in_flight() == 1; }, 10));
  first.Send(Post("/predict", kRow).substr(90));
  const Reply full = first.Read();
  EXPECT_EQ(full.status, 503) << full;
  EXPECT_EQ(second.Read().status, 200) << "it held the only one until the floor";
  first.Send(Post("/predict", kRow));
  EXPECT_EQ(first.Read().status, 200);
}

TEST_F(HttpTest, RequestsAreLimitedToTheRate) {
  const ServerProcess server(scratch_, {"--rate", "0.1"});  // one every ten seconds
  Socket socket(server.port());
  socket.Send(Post("/predict", kRow));
  EXPECT_EQ(socket.Read().status, 200);
  socket.Send(Post("/predict", kRow));
  const Reply refused = socket.Read();
  EXPECT_EQ(refused.status, 429) << refused;
  ASSERT_NE(refused.Field("Retry-After"), "") << refused;
  const int seconds = std::stoi(refused.Field("Retry-After"));
  EXPECT_TRUE(seconds >= 1 && seconds <= 10) << seconds;
  socket.Send(Get("/v2/health/live"));
  EXPECT_EQ(socket.Read().status, 200) << "probes are free, and the connection goes on";
  EXPECT_EQ(server.Ask(Post("/predict", kRow)).status, 429) << "a new connection is no new client";
  EXPECT_EQ(server.AskAdmin(Get("/status.json")).Json()["traffic"]["rate_limited"], 2);
}

TEST_F(HttpTest, EveryPlaceComesBackAfterEndlessChunks) {
  const ServerProcess server(scratch_,
                             {"--max-connections", "4", "--max-connections-per-address", "4"});
  const std::string head = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
  for (const std::string& chunks : {std::string("5;"), std::string("0\r\nX: ")}) {
    std::vector<Socket> greedy;
    for (int i = 0; i < 4; ++i) {
      greedy.emplace_back(server.port());
      greedy.back().Send(Raw("POST", "/predict", head, chunks + std::string(60'000, 'a')));
    }
    for (Socket& socket : greedy) EXPECT_EQ(socket.Read().status, 431);
    greedy.clear();
    const auto all_back = [&] {
      return server.AskAdmin(Get("/status.json")).Json()["traffic"]["connections"] == 0;
    };
    EXPECT_TRUE(WaitFor(all_back, 10));
    EXPECT_EQ(server.Ask(Get("/v2")).status, 200);
    EXPECT_TRUE(WaitFor(all_back, 10)) << "the next four need every place";
  }
  const nlohmann::json traffic = server.AskAdmin(Get("/status.json")).Json()["traffic"];
  EXPECT_EQ(traffic["in_flight"], 0) << traffic;
}

TEST_F(HttpTest, HeadsHaveATimeOfTheirOwn) {
  const ServerProcess server(scratch_, {"--head-time", "300ms"});
  const std::string request = Post("/predict", kRow);
  Socket slow(server.port()), whole(server.port());
  whole.Send(request.substr(0, request.size() - 5));
  slow.Send(request.substr(0, 10));
  EXPECT_EQ(slow.Read().status, 408);
  EXPECT_TRUE(slow.AtEnd());
  whole.Send(request.substr(request.size() - 5));
  EXPECT_EQ(whole.Read().status, 200) << "bodies have the time of the request";
}

TEST_F(HttpTest, OneAddressCannotHaveAllConnections) {
  const ServerProcess server(scratch_, {"--max-connections", "8"});
  Socket first(server.port()), second(server.port());
  for (Socket* socket : {&first, &second}) {
    socket->Send(Get("/v2"));
    EXPECT_EQ(socket->Read().status, 200);
  }
  EXPECT_EQ(server.Ask(Get("/v2")).status, 503) << "a quarter of eight is two";
  for (int i = 0; i < 20; ++i) {
    Socket probe(server.port());
    probe.Send(Get("/v2/health/ready"));
    EXPECT_EQ(probe.Read().status, 200) << "health has places of its own";
    EXPECT_TRUE(probe.AtEnd()) << "for one question each";
  }
}

TEST_F(HttpTest, TheAdminPortAnswersToItsOwnNamesOnly) {
  const ServerProcess server(scratch_, {"--admin-host", "console.example"});
  const auto status = [&](const std::string& host) {
    return server.AskAdmin("GET /status.json HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  for (const char* ours : {"localhost", "LOCALHOST:8081", "127.0.0.1:9", "[::1]:9", "[::1]",
                           "console.example", "Console.Example:80"}) {
    EXPECT_EQ(status(ours), 200) << ours;
  }
  for (const char* other : {"evil.example", "evil.example:8081", "localhost.evil.example",
                            "127.0.0.1.evil.example", "[::1].evil.example"}) {
    EXPECT_EQ(status(other), 421) << other;
  }
}

TEST_F(HttpTest, LabelsLeaveAtMultiplesOfTheLatencyFloor) {
  const ServerProcess server(scratch_, {"--latency-floor", "150ms"});
  Socket socket(server.port());
  const double start = Now();
  socket.Send(Post("/predict", kRow));
  EXPECT_EQ(socket.Read().status, 200);
  EXPECT_GE(Now() - start, 0.150);
  const double bad = Now();
  socket.Send(Post("/predict", "{}"));
  EXPECT_EQ(socket.Read().status, 400);
  EXPECT_GE(Now() - bad, 0.150) << "errors, too";
}

TEST_F(HttpTest, ATraceIsHandedOnAndNothingThatOnlyLooksLikeOne) {
  const std::string good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const std::string bad[] = {
      "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
      "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
      "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
      "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
      "someone's secret",
      good + "\r\ntraceparent: " + good,
  };
  for (const char* format : {"text", "json"}) {
    ServerProcess server(scratch_, {"--log-format", format});
    const Reply traced = server.Ask(Post("/predict", kRow, "Traceparent: " + good + "\r\n"));
    EXPECT_EQ(traced.status, 200);
    EXPECT_EQ(traced.Field("traceparent"), good);
    for (const std::string& other : bad) {
      const Reply reply = server.Ask(Post("/predict", kRow, "traceparent: " + other + "\r\n"));
      EXPECT_EQ(reply.status, 200) << other;
      EXPECT_EQ(reply.Field("traceparent"), "") << other;
    }
    const std::string log = server.Stop().err;
    const std::size_t at = log.find(good);
    EXPECT_NE(at, std::string::npos) << log;
    EXPECT_EQ(log.find(good, at + 1), std::string::npos) << log;
    EXPECT_EQ(log.find("secret"), std::string::npos) << log;
  }
}

}  // namespace
}  // namespace lucid::test
