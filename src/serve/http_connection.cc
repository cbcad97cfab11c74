#include "serve/http_connection.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>
#include <ctime>
#include <optional>
#include <type_traits>
#include <utility>

namespace lucid {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;
using Tcp = asio::ip::tcp;
using TlsStream = asio::ssl::stream<StrandSocket>;

constexpr std::size_t kReadBytes = 16 << 10;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
// How long the other side may take to close after the last answer.
constexpr std::chrono::seconds kLinger{2};

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

HttpMethod MethodOf(http::verb verb) {
  switch (verb) {
    case http::verb::get:
      return HttpMethod::kGet;
    case http::verb::head:
      return HttpMethod::kHead;
    case http::verb::post:
      return HttpMethod::kPost;
    default:
      return HttpMethod::kOther;
  }
}

Response ResponseTo(const ErrorCode& error, const ServeLimits& limits) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return ErrorResponse(431, fmt::format("the fields of a request must have at most {} bytes",
                                          limits.header_bytes));
  }
  if (error == http::error::body_limit) {
    return ErrorResponse(413, fmt::format("a body must have at most {} bytes", limits.body_bytes));
  }
  if (error == http::error::bad_version) {
    return ErrorResponse(505, "the version must be HTTP/1.1 or HTTP/1.0");
  }
  return ErrorResponse(400, fmt::format("not a valid HTTP request: {}", error.message()));
}

// Every response is for one client at one time, holds no script, and is what it says.
constexpr std::string_view kUsualFields =
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";
constexpr std::string_view kUsualPolicy =
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n";
constexpr std::string_view kOnlyTls = "Strict-Transport-Security: max-age=31536000\r\n";

struct Framing {
  bool tls = false, keep_alive = true, http_1_0 = false, head_only = false;
};

// The Date field's value, worked out once a second and thread.
std::string_view HttpDate() {
  thread_local std::time_t last = 0;
  thread_local std::string date;
  const std::time_t now = std::time(nullptr);
  if (date.empty() || now != last) {
    date = fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(now));
    last = now;
  }
  return date;
}

void Encode(const Response& response, const Framing& framing, std::string& out) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  out += fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n",
                     response.status, View(reason), HttpDate(), response.content_type,
                     response.body.size());
  out += kUsualFields;
  bool has_policy = false;
  for (const auto& [name, value] : response.fields) {
    out.append(name).append(": ").append(value).append("\r\n");
    has_policy = has_policy || name == "Content-Security-Policy";
  }
  if (!has_policy) out += kUsualPolicy;
  if (framing.tls) out += kOnlyTls;
  if (!framing.keep_alive) {
    out += "Connection: close\r\n";
  } else if (framing.http_1_0) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
  if (!framing.head_only) out += response.body;
}

template <typename Stream>
class HttpConnection final : public Connection,
                             public std::enable_shared_from_this<HttpConnection<Stream>> {
 public:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;

  // The caller adds the connection to `worker` and then starts it on its strand.
  HttpConnection(Worker& worker, Port port, std::string peer,
                 std::shared_ptr<asio::ssl::context> tls, ConnectionSlot slot, Stream stream)
      : worker_(worker),
        slot_(std::move(slot)),
        limits_(worker.options().limits),
        port_(port),
        peer_(std::move(peer)),
        tls_(std::move(tls)),
        stream_(std::move(stream)),
        buffer_(static_cast<std::size_t>(limits_.header_bytes) + kReadBytes) {}
  ~HttpConnection() override {
    EndRequest();
    worker_.Remove(*this);
  }

  void Start() {
    if constexpr (kTls) {
      deadline_ = Clock::now() + HeadTime();
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](const ErrorCode& error) {
                                error ? self->Close() : self->AwaitRequest();
                              });
    } else {
      AwaitRequest();
    }
  }

  Strand strand() override { return stream_.get_executor(); }

  void Expire() override {
    if (state_ == State::kAnswering) {
      // What was charged is paid for: the same rows, asked again, cost nothing.
      return Send(NotNow("the answer took too long"), /*close=*/true);
    }
    if (state_ != State::kReading || expired_) return Close();
    expired_ = true;                     // the read ends with an error, and the answer is 408
    deadline_ = Clock::now() + kLinger;  // whatever becomes of the read
    ErrorCode ignored;
    stream_.lowest_layer().cancel(ignored);
  }

  void CloseIfIdle() override {
    if (state_ != State::kIdle && state_ != State::kHandshake) return;
    ErrorCode error;
    if (answered_ == 0) {  // its first request may be on its way
      deadline_ = std::min(deadline(), Clock::now() + kLinger);
    } else if (stream_.lowest_layer().available(error) == 0) {
      Close();
    }
  }

  void Close() override {
    ErrorCode ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
  enum class State : std::uint8_t {
    kHandshake,
    kIdle,       // no byte of the next request has come
    kReading,    // some have
    kAnswering,  // the site is at work
    kSending,
    kClosing,  // the last answer is sent
  };

  // What a site holds of a connection while it is at work. The site may call it or drop it on any
  // thread. One that is dropped without a reply (something threw) still ends the request, so that
  // its place comes back.
  class Pending {
   public:
    explicit Pending(std::shared_ptr<HttpConnection> connection)
        : service_(connection->service_), connection_(std::move(connection)) {}
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() {
      if (connection_ == nullptr) return;
      const Strand strand = connection_->strand();
      asio::post(strand, [connection = std::move(connection_)] {
        connection->OnReply(ErrorResponse(500, "internal error"));
      });
    }
    void Deliver(Response response) {
      const Strand strand = connection_->strand();
      asio::dispatch(
          strand, [connection = std::move(connection_), response = std::move(response)]() mutable {
            connection->OnReply(std::move(response));
          });
    }

   private:
    std::shared_ptr<const Service> service_;  // the connection's own ends with its answer
    std::shared_ptr<HttpConnection> connection_;
  };

  std::chrono::nanoseconds HeadTime() const {
    return Seconds(std::min(limits_.head_seconds, limits_.request_seconds));
  }

  void AwaitRequest() {
    state_ = State::kIdle;
    deadline_ = Clock::now() + (worker_.draining() ? kLinger : Seconds(limits_.idle_seconds));
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    parser_->body_limit(static_cast<std::uint64_t>(limits_.body_bytes));
    exchange_ = {};
    has_head_ = wants_continue_ = false;
    head_bytes_ = 0;
    buffer_.size() > 0 ? OnBytes() : Read();
  }

  void Read() {
    // The parser keeps nothing here but what it cannot take in parts: a line of the head, a chunk's
    // extension, the trailer. A read into no room would succeed at once, for ever.
    const std::size_t room = buffer_.max_size() - buffer_.size();
    if (room == 0) {
      return Send(ErrorResponse(431, "a chunk's extension or the trailer is too long"),
                  /*close=*/true);
    }
    stream_.async_read_some(
        buffer_.prepare(std::min(kReadBytes, room)),
        [self = this->shared_from_this()](const ErrorCode& error, std::size_t bytes) {
          self->buffer_.commit(bytes);
          if (!error && !self->expired_) return self->OnBytes();
          if (self->expired_) {
            self->Send(ErrorResponse(408, "the request took too long"), /*close=*/true);
          } else if (error == asio::error::eof && self->state_ == State::kReading) {
            self->Send(ErrorResponse(400, "the request ended in the middle"), /*close=*/true);
          } else {
            self->Close();
          }
        });
  }

  void OnBytes() {
    if (state_ == State::kIdle) {
      state_ = State::kReading;
      begun_ = Clock::now();
      deadline_ = begun_ + HeadTime();
      service_ = worker_.service();
    }
    ErrorCode error = Parse();
    if (!error && !parser_->is_header_done()) {
      // Beast counts from anew with every read.
      const bool too_long = head_bytes_ + buffer_.size() >= HeadLimit();
      if (!too_long) return Read();
      error = http::error::header_limit;
    }
    if (error) return Send(ResponseTo(error, limits_), /*close=*/true);
    if (!has_head_) {
      has_head_ = true;
      ReadHead();
      if (!Admit()) return;
      deadline_ = begun_ + Seconds(limits_.request_seconds);
      parser_->eager(true);
      if (!parser_->is_done() && buffer_.size() > 0) error = Parse();
      if (error) return Send(ResponseTo(error, limits_), /*close=*/true);
    }
    if (!parser_->is_done()) return ReadBody();
    Answer();
  }

  // The head alone, at first; everything that is there as soon as the parser is eager.
  ErrorCode Parse() {
    ErrorCode error;
    const std::size_t bytes = parser_->put(buffer_.data(), error);
    buffer_.consume(bytes);
    if (!has_head_) head_bytes_ += bytes;
    return error == http::error::need_more ? ErrorCode() : error;
  }
  std::size_t HeadLimit() const { return static_cast<std::size_t>(limits_.header_bytes); }

  void ReadHead() {
    const auto& request = parser_->get();
    const std::string_view target = View(request.target());
    RequestHead& head = exchange_.head;
    head.method = MethodOf(request.method());
    head.method_name = View(request.method_string()).substr(0, 16);
    head.path = target.substr(0, target.find('?'));
    head.content_type = View(request[http::field::content_type]);
    head.content_encoding = View(request[http::field::content_encoding]);
    head.authorization = View(request[http::field::authorization]);
    head.api_key = View(request["X-API-Key"]);
    head.host = View(request[http::field::host]);
    head.binary_extension = request.count("Inference-Header-Content-Length") > 0;
    head.has_body_length = parser_->chunked() || parser_->content_length().has_value();
    head.peer = peer_;
    exchange_.executor = stream_.get_executor();
  }

  // False: an answer is on its way already.
  bool Admit() {
    const auto& request = parser_->get();
    const auto coding = request.find(http::field::transfer_encoding);
    if (coding != request.end() && !boost::beast::iequals(coding->value(), "chunked")) {
      // It is not known where the body ends, so the connection cannot go on.
      Send(ErrorResponse(501, "the only transfer coding that is understood is chunked"),
           /*close=*/true);
      return false;
    }
    std::optional<Response> refusal = CheckHead();
    if (!refusal) refusal = site().Admit(exchange_);
    if (!refusal && !TakePlace()) refusal = NotNow("too many requests at once");
    if (refusal) {
      // If all of the body has come, too, the connection can go on.
      parser_->eager(true);
      if (!parser_->is_done() && buffer_.size() > 0) static_cast<void>(Parse());
      Send(*refusal, /*close=*/!parser_->is_done());
      return false;
    }
    wants_continue_ = request.count(http::field::expect) > 0;
    return true;
  }

  // What HTTP asks of every request, whatever it wants.
  std::optional<Response> CheckHead() const {
    const auto& request = parser_->get();
    if (request.version() == 11 && request.count(http::field::host) != 1) {
      return ErrorResponse(400, "an HTTP/1.1 request must have one Host field");
    }
    const auto expect = request.find(http::field::expect);
    if (expect != request.end() && !boost::beast::iequals(expect->value(), "100-continue")) {
      return ErrorResponse(417, "the only expectation that can be met is 100-continue");
    }
    const HttpMethod method = exchange_.head.method;
    const bool has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
    if (has_body && (method == HttpMethod::kGet || method == HttpMethod::kHead)) {
      return ErrorResponse(400, "a GET or HEAD request must not have a body");
    }
    return std::nullopt;
  }

  // One of the requests that may be in flight at once; the admin port needs none.
  bool TakePlace() {
    if (port_ != Port::kPublic) return true;
    in_flight_ = true;
    return ++worker_.metrics().requests_in_flight <= limits_.requests;
  }

  void ReadBody() {
    if (!std::exchange(wants_continue_, false)) return Read();
    asio::async_write(stream_, asio::buffer(kContinue),
                      [self = this->shared_from_this()](const ErrorCode& error, std::size_t) {
                        error ? self->Close() : self->Read();
                      });
  }

  const Site& site() const { return *service_->sites[static_cast<std::size_t>(port_)]; }

  void Answer() {
    state_ = State::kAnswering;
    received_ = Clock::now();
    deadline_ = received_ + Seconds(limits_.request_seconds);
    site().Answer(exchange_, parser_->get().body(),
                  [pending = std::make_shared<Pending>(this->shared_from_this())](
                      Response response) { pending->Deliver(std::move(response)); });
  }

  void OnReply(Response response) {
    if (state_ == State::kAnswering) SendAtLatencyFloor(std::move(response));  // else: too late
  }

  // Labels leave at a multiple of the floor after the request, so that only that multiple can be
  // seen from outside.
  void SendAtLatencyFloor(Response response) {
    const auto floor = Seconds(worker_.options().latency_floor);
    const bool labels =
        exchange_.endpoint == Endpoint::kInfer || exchange_.endpoint == Endpoint::kPredict;
    if (floor.count() == 0 || !labels) return Send(response, /*close=*/false);
    const auto steps = (Clock::now() - received_) / floor + 1;
    state_ = State::kSending;
    deadline_ = received_ + steps * floor + Seconds(limits_.request_seconds);
    delay_.emplace(stream_.get_executor(), received_ + steps * floor);
    delay_->async_wait([self = this->shared_from_this(), response = std::move(response)](
                           const ErrorCode&) { self->Send(response, /*close=*/false); });
  }

  void Send(const Response& response, bool close) {
    state_ = State::kSending;
    expired_ = false;
    deadline_ = Clock::now() + Seconds(limits_.request_seconds);
    close_ = close || worker_.closing() || !has_head_ || !parser_->get().keep_alive();
    const Framing framing{kTls, !close_, has_head_ && parser_->get().version() == 10,
                          exchange_.head.method == HttpMethod::kHead};
    out_.clear();
    Encode(response, framing, out_);
    status_ = response.status;
    EndRequest();  // what the other side sees of it, it sees after that
    asio::async_write(stream_, asio::buffer(out_),
                      [self = this->shared_from_this()](const ErrorCode& error, std::size_t) {
                        self->OnSent(error);
                      });
  }

  void OnSent(const ErrorCode& error) {
    Record();
    ++answered_;
    service_ = nullptr;  // not earlier: the reply may come from within one of its sites
    if (error) return Close();
    if (close_) return FinishConnection();
    AwaitRequest();
  }

  void Record() {
    const auto now = Clock::now();
    if (port_ != Port::kPublic) return;
    worker_.metrics().Count(
        {exchange_.endpoint, status_, now - begun_, exchange_.rows, exchange_.noised}, now);
    worker_.log().Access({exchange_.head.method_name, exchange_.endpoint, status_, out_.size(),
                          now - begun_, exchange_.client.account});
  }

  void EndRequest() {
    if (std::exchange(in_flight_, false)) --worker_.metrics().requests_in_flight;
  }

  // Closing a socket that has unread bytes would reset the connection, and the answer might be lost
  // with it: say that this was all, and read until the other side closes.
  void FinishConnection() {
    state_ = State::kClosing;
    deadline_ = Clock::now() + kLinger;
    if constexpr (kTls) {
      stream_.async_shutdown(
          [self = this->shared_from_this()](const ErrorCode&) { self->Close(); });
    } else {
      ErrorCode ignored;
      stream_.shutdown(StrandSocket::shutdown_send, ignored);
      Discard();
    }
  }

  void Discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kReadBytes),
                            [self = this->shared_from_this()](const ErrorCode& error, std::size_t) {
                              error ? self->Close() : self->Discard();
                            });
  }

  Worker& worker_;
  const ConnectionSlot slot_;
  const ServeLimits& limits_;
  const Port port_;
  const std::string peer_;
  const std::shared_ptr<asio::ssl::context> tls_;  // outlives the stream
  Stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::shared_ptr<const Service> service_;  // of this request
  Exchange exchange_;
  std::optional<asio::steady_timer> delay_;
  std::string out_;
  Clock::time_point begun_, received_;
  State state_ = State::kHandshake;
  std::size_t head_bytes_ = 0;
  int status_ = 0;
  std::int64_t answered_ = 0;
  bool has_head_ = false, wants_continue_ = false;
  bool in_flight_ = false, expired_ = false, close_ = false;
};

}  // namespace

void StartHttpConnection(Worker& worker, StrandSocket socket, Port port, ConnectionSlot slot) {
  ErrorCode error;
  const Tcp::endpoint peer = socket.remote_endpoint(error);
  if (!error) socket.set_option(Tcp::no_delay(true), error);
  if (error) return;  // it is gone already
  std::string address = peer.address().to_string();
  const auto start = [&worker](const auto& connection) {
    worker.Add(connection);
    asio::post(connection->strand(), [connection] { connection->Start(); });
  };
  const auto tls = worker.service()->tls;
  if (port == Port::kPublic && tls != nullptr) {
    start(std::make_shared<HttpConnection<TlsStream>>(worker, port, std::move(address), tls,
                                                      std::move(slot),
                                                      TlsStream(std::move(socket), *tls)));
  } else {
    start(std::make_shared<HttpConnection<StrandSocket>>(worker, port, std::move(address), nullptr,
                                                         std::move(slot), std::move(socket)));
  }
}

std::string TooManyConnections() {
  std::string out;
  Encode(NotNow("too many connections"), {.keep_alive = false}, out);
  return out;
}

}  // namespace lucid
