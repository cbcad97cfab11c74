#include "serve/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <csignal>
#include <utility>

namespace lucid::test {
namespace {

int PortOf(const nlohmann::json& address) {
  const auto text = address.get<std::string>();
  if (text.starts_with("unix:")) return 0;
  return std::stoi(text.substr(text.rfind(':') + 1));
}

}  // namespace

nlohmann::json Reply::Json() const {
  return nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
}

std::string Reply::Field(const std::string& name) const {
  const std::size_t at = head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 4;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

std::ostream& operator<<(std::ostream& out, const Reply& reply) {
  return out << reply.status << " " << reply.head << reply.body;
}

std::string SecretIn(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* word : {"confiden", "beta", "nois", "budget", "epsilon", "spent", "ledger",
                           "random", "probab", "logit", "bound", "certif", "guard", "memo"}) {
    const std::size_t at = text.find(word);
    if (at != std::string::npos) return fmt::format("{}: ...{}", word, text.substr(at, 80));
  }
  return "";
}

Socket::Socket(int port, int family, const std::string& source)
    : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval patience{20, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<std::uint16_t>(port));
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!source.empty()) {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    EXPECT_EQ(::inet_pton(AF_INET, source.c_str(), &from.sin_addr), 1) << source;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&from), sizeof(from)), 0) << source;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4.sin_port;
  v6.sin6_addr = in6addr_loopback;
  const int failed = family == AF_INET6
                         ? ::connect(fd_, reinterpret_cast<const sockaddr*>(&v6), sizeof(v6))
                         : ::connect(fd_, reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
  if (failed != 0) ::close(std::exchange(fd_, -1));
}

Socket::Socket(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval patience{20, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(std::exchange(fd_, -1));
  }
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket::Socket(Socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), buffer_(std::move(other.buffer_)) {}

bool Socket::Send(const std::string& bytes) const {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

void Socket::ShutdownWrite() const { ::shutdown(fd_, SHUT_WR); }

void Socket::Reset() {
  const linger at_once{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  ::close(std::exchange(fd_, -1));
}

bool Socket::Fill() {
  char block[65536];
  const ssize_t n = ::recv(fd_, block, sizeof(block), 0);
  if (n > 0) buffer_.append(block, static_cast<std::size_t>(n));
  return n > 0;
}

Reply Socket::Read(bool head_only) {
  Reply reply = ReadSecrets(head_only);
  EXPECT_EQ(SecretIn(reply.head + reply.body), "") << reply;
  return reply;
}

Reply Socket::ReadSecrets(bool head_only) {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill()) return {};
  }
  Reply reply;
  reply.head = buffer_.substr(0, end + 4);
  buffer_.erase(0, end + 4);
  reply.status = std::stoi(reply.head.substr(9, 3));
  const std::string length = head_only ? "" : reply.Field("Content-Length");
  const std::size_t size = length.empty() ? 0 : std::stoul(length);
  while (buffer_.size() < size) {
    if (!Fill()) return {};
  }
  reply.body = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return reply;
}

bool Socket::EndsWithin(double seconds) {
  const double start = Now();
  pollfd waiting{fd_, POLLIN, 0};
  for (double left = seconds; left > 0; left = seconds - (Now() - start)) {
    if (::poll(&waiting, 1, static_cast<int>(1000 * left) + 1) > 0 && !Fill()) return true;
    buffer_.clear();
  }
  return false;
}

bool Socket::AtEnd() { return buffer_.empty() && !Fill(); }

void MakeRun(const std::string& folder) {
  const std::string data = folder + "-data";
  for (const std::string& command :
       {"data synth2d --rows 30 --seed 4 --out " + data,
        "train --data " + data + " --out " + folder + " --batch 8 --lr 0.2 --epochs 60 --arch 2x6",
        "bound " + folder + " --time-limit 30s"}) {
    const Outcome outcome = RunLucid(Words(command));
    ASSERT_EQ(outcome.code, 0) << command << "\n" << outcome;
  }
}

std::string Post(const std::string& path, const std::string& body, const std::string& fields) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "{}\r\n{}",
      path, body.size(), fields, body);
}

std::string Get(const std::string& path, const std::string& fields) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n{}\r\n", path, fields);
}

std::string PredictBody(const std::vector<std::pair<double, double>>& rows) {
  std::string body = "{\"input\":[";
  for (const auto& [x, y] : rows) {
    body += fmt::format("{}[{},{}]", body.back() == '[' ? "" : ",", x, y);
  }
  return body + "]}";
}

std::vector<std::string> WithDefaults(const std::vector<std::string>& defaults,
                                      const std::vector<std::string>& arguments) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i + 1 < defaults.size(); i += 2) {
    if (std::ranges::find(arguments, defaults[i]) != arguments.end()) continue;
    all.insert(all.end(), {defaults[i], defaults[i + 1]});
  }
  return all + arguments;
}

std::vector<std::string> WithLedger(const Scratch& scratch,
                                    const std::vector<std::string>& arguments) {
  const auto given = std::ranges::find(arguments, "--ledger");
  if (given == arguments.end()) return arguments;
  const std::string& ledger = *(given + 1);
  // Tests of one folder have ledgers of several kinds for one key: each has a mark of its own.
  const std::vector<std::string> all = WithDefaults({"--ledger-mark", ledger + ".mark"}, arguments);
  if (!std::filesystem::exists(ledger) && ledger.find("://") == std::string::npos) {
    const Outcome made =
        RunLucid({"ledger", "init", scratch / "run", "--ledger", ledger, "--key-file",
                  scratch / "key", "--ledger-mark", ledger + ".mark"});
    EXPECT_EQ(made.code, 0) << made;
  }
  return all;
}

ServerProcess::ServerProcess(const Scratch& scratch, const std::vector<std::string>& arguments,
                             const RunOptions& options)
    : ready_file_([&] {
        static std::atomic<int> count{0};
        return scratch / fmt::format("ready-{}", ++count);
      }()),
      process_(std::vector<std::string>{"serve", scratch / "run", "--key-file", scratch / "key",
                                        "--unchecked", "--ready-file", ready_file_} +
                   WithDefaults({"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"},
                                WithLedger(scratch, arguments)),
               options) {
  const bool ready =
      WaitFor([&] { return std::filesystem::exists(ready_file_) || process_.Ended(); }, 30);
  if (!ready || process_.Ended()) {
    process_.Signal(SIGKILL);
    ADD_FAILURE() << "the server did not start: " << process_.Wait();
    return;
  }
  const nlohmann::json addresses = ReadJson(ready_file_);
  port_ = PortOf(addresses["listen"]);
  if (addresses.contains("grpc")) grpc_port_ = PortOf(addresses["grpc"]);
  if (addresses.contains("admin")) admin_port_ = PortOf(addresses["admin"]);
}

Reply ServerProcess::Ask(const std::string& request) const {
  Socket socket(port_);
  socket.Send(request);
  return socket.Read(request.starts_with("HEAD"));
}

Reply ServerProcess::AskAdmin(const std::string& request) const {
  Socket socket(admin_port_);
  std::string to_admin = request;
  if (const auto at = to_admin.find("Host: x\r\n"); at != std::string::npos) {
    to_admin.replace(at, 7, "Host: localhost");
  }
  socket.Send(to_admin);
  return socket.ReadSecrets();
}

std::vector<int> ServerProcess::Labels(const std::vector<std::pair<double, double>>& rows) const {
  const Reply reply = Ask(Post("/predict", PredictBody(rows)));
  EXPECT_EQ(reply.status, 200) << reply;
  return reply.status == 200 ? reply.Json()["labels"].get<std::vector<int>>() : std::vector<int>{};
}

Outcome ServerProcess::Stop() {
  process_.Signal(SIGTERM);
  return process_.Wait();
}

}  // namespace lucid::test
