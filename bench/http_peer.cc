// The empty Beast handler: reads a request, answers a fixed JSON document. What bench/run_http
// compares `lucid serve` with: the same library and number of threads, and nothing else. Each
// thread has its own event loop and connections, which answers most requests per second.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;

constexpr const char* kBody =
    R"({"model_name":"lucid","model_version":"1","outputs":[{"name":"label","datatype":"INT64",)"
    R"("shape":[1],"data":[0]}]})";

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(Tcp::socket socket) : stream_(std::move(socket)) {}

  void Read() {
    request_ = {};
    stream_.expires_after(std::chrono::seconds(30));
    http::async_read(stream_, buffer_, request_,
                     [self = shared_from_this()](const beast::error_code& error, std::size_t) {
                       if (!error) self->Write();
                     });
  }

 private:
  void Write() {
    response_.emplace(http::status::ok, request_.version());
    response_->set(http::field::content_type, "application/json");
    response_->keep_alive(request_.keep_alive());
    response_->body() = kBody;
    response_->prepare_payload();
    http::async_write(stream_, *response_,
                      [self = shared_from_this()](const beast::error_code& error, std::size_t) {
                        if (!error && self->request_.keep_alive()) self->Read();
                      });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  std::optional<http::response<http::string_body>> response_;
};

class Peer {
 public:
  explicit Peer(int threads) {
    for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<asio::io_context>(1));
    acceptor_.emplace(*workers_.front(), Tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  }
  unsigned port() const { return acceptor_->local_endpoint().port(); }
  void Run() {
    Accept();
    std::vector<std::jthread> threads;
    for (const auto& worker : workers_) {
      threads.emplace_back([&worker] {
        const auto work = asio::make_work_guard(*worker);
        worker->run();
      });
    }
  }

 private:
  void Accept() {
    asio::io_context& worker = *workers_[next_++ % workers_.size()];
    acceptor_->async_accept(
        worker, [this, &worker](const beast::error_code& error, Tcp::socket socket) {
          if (error) std::exit(1);
          socket.set_option(Tcp::no_delay(true));
          asio::post(worker, [connection = std::make_shared<Connection>(std::move(socket))] {
            connection->Read();
          });
          Accept();
        });
  }

  std::vector<std::unique_ptr<asio::io_context>> workers_;
  std::optional<Tcp::acceptor> acceptor_;
  std::size_t next_ = 0;
};

}  // namespace

// http_peer [THREADS]: prints its port and serves until it is killed.
int main(int argc, char** argv) {
  Peer peer(argc > 1 ? std::atoi(argv[1]) : 2);
  std::printf("%u\n", peer.port());
  std::fflush(stdout);
  peer.Run();
}
