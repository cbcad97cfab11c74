#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "data/byte_source.h"
#include "data/test_support.h"
#include "lucid/data/catalogue.h"
#include "lucid/data/dataset.h"

namespace lucid {
namespace {

using testing::HasSubstr;

// A web server on a free port of 127.0.0.1 that gives fixed answers, one connection at a time.
class Server {
 public:
  // `answer`: the bytes of the whole response to a request for a path.
  explicit Server(std::function<std::string(const std::string& path)> answer)
      : answer_(std::move(answer)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, any, size) != 0 || ::listen(listener_, 8) != 0 ||
        ::getsockname(listener_, any, &size) != 0) {
      ADD_FAILURE() << "cannot listen on 127.0.0.1";
    }
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::jthread([this](std::stop_token stop) { Serve(stop); });
  }
  ~Server() {
    thread_.request_stop();
    thread_.join();
    ::close(listener_);
  }

  const std::string& url() const { return url_; }
  int requests() const { return requests_; }

  static std::string Ok(const std::string& body) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\nConnection: close\r\n\r\n" + body;
  }
  static std::string Redirect(const std::string& to) {
    return "HTTP/1.1 302 Found\r\nLocation: " + to +
           "\r\nContent-Length: 9\r\nConnection: close\r\n\r\nelsewhere";
  }

 private:
  void Serve(std::stop_token stop) {
    while (!stop.stop_requested()) {
      pollfd ready{listener_, POLLIN, 0};
      if (::poll(&ready, 1, 20) <= 0) continue;
      const int fd = ::accept(listener_, nullptr, nullptr);
      std::string request;
      char block[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t n = ::recv(fd, block, sizeof(block), 0);
        if (n <= 0) break;
        request.append(block, static_cast<std::size_t>(n));
      }
      ++requests_;
      const std::size_t space = request.find(' ');
      const std::string path = request.substr(space + 1, request.find(' ', space + 1) - space - 1);
      const std::string response = answer_(path);
      for (std::size_t at = 0; at < response.size();) {
        const ssize_t n = ::send(fd, response.data() + at, response.size() - at, MSG_NOSIGNAL);
        if (n <= 0) break;
        at += static_cast<std::size_t>(n);
      }
      ::close(fd);
    }
  }

  std::function<std::string(const std::string&)> answer_;
  int listener_;
  std::string url_;
  std::atomic<int> requests_{0};
  std::jthread thread_;
};

constexpr char kRaw[] = "a comment\n 0.5, y\n0.25, n\n1, y.\n0, n\n\n";

CatalogueEntry Tiny(std::string_view raw = kRaw) {
  CatalogueEntry entry;
  entry.name = "tiny";
  entry.title = "Tiny";
  entry.licence = "none";
  entry.citation = "nobody";
  entry.test_every = 2;
  entry.labels = {{"n", 0}, {"y", 1}, {"y.", 1}};
  entry.schema =
      Schema::Parse("column,kind,offset,divisor,categories\nx,numeric,0,1,\nlabel,label,,,n|y\n",
                    "schema")
          .value();
  CatalogueFile file;
  file.name = "tiny.data";
  file.url = "https://example.invalid/tiny.data";
  file.sha256 = Sha256Of(raw);
  file.bytes = static_cast<std::int64_t>(raw.size());
  file.role = CatalogueFile::Role::kSplit;
  file.skip_records = 1;
  entry.files = {file};
  return entry;
}

// A failed fetch may leave neither the folder nor anything beside it.
void ExpectNothingLeft(const std::string& folder) {
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "something was left in " << folder;
}

TEST(Fetch, ConvertsSplitsAndPublishes) {
  Server server([](const std::string& path) {
    EXPECT_EQ(path, "/base/tiny.data");
    return Server::Ok(kRaw);
  });
  const std::string folder = ScratchFolder(), out = folder + "/out";
  const Status fetched = FetchDataset(Tiny(), out, {.from = server.url() + "/base"});
  ASSERT_TRUE(fetched.ok()) << Message(fetched);
  EXPECT_EQ(ReadBytes(out + "/train.csv"), "x,label\n0.5,1\n1,1\n");
  EXPECT_EQ(ReadBytes(out + "/test.csv"), "x,label\n0.25,0\n0,0\n");
  EXPECT_THAT(ReadBytes(out + "/SOURCE.txt"), HasSubstr("Citation: nobody"));
  ASSERT_TRUE(LoadDataset(out).ok());
  EXPECT_EQ(LoadDataset(out)->schema.origin(), SchemaOrigin::kFromData)
      << "its ranges are those of the published rows";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(Fetch, TakesTheFilesFromAFolder) {
  const std::string folder = ScratchFolder();
  std::filesystem::create_directories(folder + "/raw");
  WriteTo(folder + "/raw/tiny.data", kRaw);
  ASSERT_TRUE(FetchDataset(Tiny(), folder + "/out", {.from = folder + "/raw"}).ok());
  EXPECT_EQ(LoadDataset(folder + "/out").value().train.rows(), 2);
  EXPECT_THAT(Message(FetchDataset(Tiny(), folder + "/other", {.from = folder + "/none"})),
              HasSubstr("/none/tiny.data': No such file"));
}

TEST(Fetch, AWrongSumIsAMismatchAndLeavesNothing) {
  const std::string folder = ScratchFolder();
  std::string wrong = kRaw;
  wrong[12] = '9';
  Server server([&](const std::string&) { return Server::Ok(wrong); });
  const Status fetched = FetchDataset(Tiny(), folder + "/out", {.from = server.url()});
  EXPECT_THAT(Message(fetched), HasSubstr("'tiny.data' is not the file of the catalogue"));
  EXPECT_THAT(Message(fetched), HasSubstr(Sha256Of(wrong).Hex()));
  EXPECT_EQ(fetched.error().kind, ErrorKind::kMismatch);
  ExpectNothingLeft(folder);
}

TEST(Fetch, ALongerFileIsCutOffNotSwallowed) {
  const std::string folder = ScratchFolder();
  Server server([&](const std::string&) { return Server::Ok(kRaw + std::string(1 << 22, 'x')); });
  EXPECT_THAT(Message(FetchDataset(Tiny(), folder + "/out", {.from = server.url()})),
              HasSubstr("more than the expected 38 bytes"));
  ExpectNothingLeft(folder);
}

TEST(Fetch, ServerErrorsAreNamed) {
  const std::string folder = ScratchFolder();
  Server server([&](const std::string&) {
    return "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n" + std::string(100000, '<');
  });
  EXPECT_EQ(Message(FetchDataset(Tiny(), folder + "/out", {.from = server.url()})),
            "cannot download " + server.url() +
                "/tiny.data: the server answers 404 (the option from takes a folder of files that "
                "you have)");
  ExpectNothingLeft(folder);
}

TEST(Fetch, PicksColumnsAndLeavesRowsOut) {
  const std::string raw = "id,label,x\n1,y,0.5\n2,n,?\n3,n,0.25\n4,n,1\n";
  CatalogueEntry entry = Tiny(raw);
  entry.columns = {"id", "label", "x"};
  entry.drop_rows_with = "?";
  const std::string folder = ScratchFolder();
  std::filesystem::create_directories(folder + "/raw");
  WriteTo(folder + "/raw/tiny.data", raw);
  const Status fetched = FetchDataset(entry, folder + "/out", {.from = folder + "/raw"});
  ASSERT_TRUE(fetched.ok()) << Message(fetched);
  EXPECT_EQ(ReadBytes(folder + "/out/train.csv"), "x,label\n0.5,1\n1,0\n");
  EXPECT_EQ(ReadBytes(folder + "/out/test.csv"), "x,label\n0.25,0\n");
  // A row of another width is an error, not a shift of columns.
  const std::string bad = "id,label,x\n1,y,0.5,7\n";
  CatalogueEntry wrong = Tiny(bad);
  wrong.columns = entry.columns;
  WriteTo(folder + "/raw/tiny.data", bad);
  EXPECT_THAT(Message(FetchDataset(wrong, folder + "/bad", {.from = folder + "/raw"})),
              HasSubstr("tiny.data:2: 4 cells, expected 3"));
}

TEST(Fetch, UnpacksAndKnowsTheLineEndsOfOldMacs) {
  const std::string raw = "x,label\r0.5,y\r0.25,n\r";
  const std::string folder = ScratchFolder();
  CatalogueEntry entry = Tiny(raw);
  entry.files[0].name = "tiny.csv.gz";
  std::filesystem::create_directories(folder + "/raw");
  WriteTo(folder + "/raw/tiny.csv.gz", Gzip(raw));
  const Status fetched = FetchDataset(entry, folder + "/out", {.from = folder + "/raw"});
  ASSERT_TRUE(fetched.ok()) << Message(fetched);
  EXPECT_EQ(ReadBytes(folder + "/out/train.csv"), "x,label\n0.5,1\n");
  WriteTo(folder + "/raw/tiny.csv.gz", Gzip(raw + "1,y\r"));
  EXPECT_THAT(Message(FetchDataset(entry, folder + "/long", {.from = folder + "/raw"})),
              HasSubstr("is not the file of the catalogue"));
}

TEST(Fetch, ATruncatedBodyIsAnError) {
  const std::string folder = ScratchFolder();
  Server server([&](const std::string&) {
    const std::string whole = Server::Ok(kRaw);
    return whole.substr(0, whole.size() - 5);
  });
  const std::string message =
      Message(FetchDataset(Tiny(), folder + "/out", {.from = server.url()}));
  EXPECT_THAT(message, HasSubstr("cannot download"));
  EXPECT_THAT(message, HasSubstr("5 bytes"));  // curl's words around it depend on its version
  ExpectNothingLeft(folder);
}

TEST(Fetch, ARedirectionIsFollowedButNotForEver) {
  const std::string folder = ScratchFolder();
  Server loop([&](const std::string&) { return Server::Redirect("/again"); });
  EXPECT_THAT(Message(FetchDataset(Tiny(), folder + "/out", {.from = loop.url()})),
              HasSubstr("more than 5 redirections"));
  EXPECT_EQ(loop.requests(), 6);
  ExpectNothingLeft(folder);
  Server once([&](const std::string& path) {
    return path == "/tiny.data" ? Server::Redirect("/there") : Server::Ok(kRaw);
  });
  EXPECT_TRUE(FetchDataset(Tiny(), folder + "/out", {.from = once.url()}).ok());
}

TEST(Fetch, ARedirectionMayNotLeaveHttpsOrThisMachine) {
  const std::string folder = ScratchFolder();
  for (const char* to : {"http://example.invalid/x", "file:///etc/hostname", "ftp://127.0.0.1/x"}) {
    Server server([&](const std::string&) { return Server::Redirect(to); });
    EXPECT_THAT(Message(FetchDataset(Tiny(), folder + "/out", {.from = server.url()})),
                HasSubstr("must be https"))
        << to;
    EXPECT_EQ(server.requests(), 1);
  }
  EXPECT_THAT(Message(FetchDataset(Tiny(), folder + "/out", {.from = "http://example.invalid"})),
              HasSubstr("must be https"));
  ExpectNothingLeft(folder);
}

TEST(Fetch, NoServerIsAnErrorWithTheAddress) {
  std::string url;
  {
    Server gone([](const std::string&) { return std::string(); });
    url = gone.url();
  }
  const std::string folder = ScratchFolder();
  EXPECT_THAT(Message(FetchDataset(Tiny(), folder + "/out", {.from = url})),
              HasSubstr("cannot download " + url + "/tiny.data: "));
  ExpectNothingLeft(folder);
}

TEST(Fetch, AStopIsHonouredBeforeAndDuringTheDownload) {
  const std::string folder = ScratchFolder();
  std::stop_source stopped;
  stopped.request_stop();
  Server server([](const std::string&) { return Server::Ok(kRaw); });
  const Status before =
      FetchDataset(Tiny(), folder + "/out", {.from = server.url(), .stop = stopped.get_token()});
  EXPECT_EQ(before.error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(server.requests(), 0);

  std::stop_source later;
  Server slow([&](const std::string&) {
    later.request_stop();  // while the answer is on its way
    return Server::Ok(kRaw);
  });
  const Status during =
      FetchDataset(Tiny(), folder + "/out", {.from = slow.url(), .stop = later.get_token()});
  EXPECT_EQ(during.error().kind, ErrorKind::kInterrupted);
  ExpectNothingLeft(folder);
}

TEST(Fetch, ReportsProgressInBytes) {
  const std::string folder = ScratchFolder();
  std::int64_t most = 0;
  Server server([](const std::string&) { return Server::Ok(kRaw); });
  ASSERT_TRUE(FetchDataset(Tiny(), folder + "/out",
                           {.from = server.url(),
                            .progress =
                                [&](const Progress& p) {
                                  EXPECT_EQ(p.unit, "bytes");
                                  most = std::max(most, p.done);
                                }})
                  .ok());
  EXPECT_EQ(most, static_cast<std::int64_t>(std::string_view(kRaw).size()));
}

TEST(Fetch, DoesNotOverwriteUnlessTold) {
  const std::string folder = ScratchFolder();
  WriteTo(folder + "/tiny.data", kRaw);
  WriteTo(folder + "/train.csv", "precious");
  EXPECT_THAT(Message(FetchDataset(Tiny(), folder, {.from = folder})),
              HasSubstr("holds a data set already ('train.csv')"));
  EXPECT_EQ(ReadBytes(folder + "/train.csv"), "precious");
  EXPECT_TRUE(FetchDataset(Tiny(), folder, {.from = folder, .overwrite = true}).ok());
  EXPECT_EQ(LoadDataset(folder).value().train.rows(), 2);
}

TEST(Fetch, ABadRowNamesFileLineAndLabel) {
  const std::string folder = ScratchFolder(), raw = "head\n0.5,y\n0.5,z\n";
  WriteTo(folder + "/tiny.data", raw);
  EXPECT_EQ(Message(FetchDataset(Tiny(raw), folder + "/out", {.from = folder})),
            "tiny.data:3: label 'z' is not in the catalogue");
  EXPECT_FALSE(std::filesystem::exists(folder + "/out"));
}

std::string ReadAll(const std::string& path) {
  auto source = OpenSource(path).value();
  std::string text, block(1 << 16, '\0');
  while (const std::size_t n = source->Read(block).value()) text.append(block, 0, n);
  return text;
}

// The upstream file as UCI has it, from the converted one: the way back.
std::string OriginalAdult(const std::string& csv, const std::string& first,
                          const std::string& dot) {
  std::string raw = first;
  std::size_t at = csv.find('\n') + 1;  // without the header
  while (at < csv.size()) {
    const std::size_t end = csv.find('\n', at);
    for (const char c : csv.substr(at, end - 1 - at)) raw += c == ',' ? ", " : std::string(1, c);
    raw += (csv[end - 1] == '1' ? ">50K" : "<=50K") + dot + "\n";
    at = end + 1;
  }
  return raw + "\n";
}

TEST(Fetch, AdultFromItsOriginalFilesIsTheSharedDataSetToTheByte) {
  LUCID_NEED_SHARED(shared, "adult");
  const std::string folder = ScratchFolder();
  const std::string train = ReadAll(shared + "/train.csv.gz"), test = ReadAll(shared + "/test.csv");
  WriteTo(folder + "/adult.data", OriginalAdult(train, "", ""));
  WriteTo(folder + "/adult.test", OriginalAdult(test, "|1x3 Cross validator\n", "."));
  const CatalogueEntry adult = FindInCatalogue(LoadCatalogue().value(), "adult").value();
  const Status fetched = FetchDataset(adult, folder + "/out", {.from = folder});
  ASSERT_TRUE(fetched.ok()) << Message(fetched);
  EXPECT_TRUE(ReadBytes(folder + "/out/train.csv") == train);
  EXPECT_TRUE(ReadBytes(folder + "/out/test.csv") == test);
}

// sklearn's file from the shared one: every fifth row back in its place, the label turned round.
TEST(Fetch, BreastCancerFromItsOriginalFileIsTheSharedDataSetToTheByte) {
  LUCID_NEED_SHARED(shared, "breast_cancer");
  const std::string train = ReadAll(shared + "/train.csv"), test = ReadAll(shared + "/test.csv");
  std::string raw = "569,30,malignant,benign\n";
  std::size_t at_train = train.find('\n') + 1, at_test = test.find('\n') + 1;
  for (int row = 0; row < 569; ++row) {
    const bool from_test = row % 5 == 4;
    const std::string& text = from_test ? test : train;
    std::size_t& at = from_test ? at_test : at_train;
    const std::size_t end = text.find('\n', at);
    raw += text.substr(at, end - 1 - at) + (text[end - 1] == '1' ? "0\n" : "1\n");
    at = end + 1;
  }
  const std::string folder = ScratchFolder();
  WriteTo(folder + "/breast_cancer.csv", raw);
  const CatalogueEntry entry = FindInCatalogue(LoadCatalogue().value(), "breast_cancer").value();
  const Status fetched = FetchDataset(entry, folder + "/out", {.from = folder});
  ASSERT_TRUE(fetched.ok()) << Message(fetched);
  EXPECT_TRUE(ReadBytes(folder + "/out/train.csv") == train);
  EXPECT_TRUE(ReadBytes(folder + "/out/test.csv") == test);
}

}  // namespace
}  // namespace lucid
