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
using TlsStream = asio::ssl::stream<StrandSocket>;
using Parser = http::request_parser<http::string_body>;

constexpr std::size_t kReadBytes = 16 << 10;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
// How long the other side may take to close after the last answer.
constexpr std::chrono::seconds kLinger{2};
// How long a connection beyond the limit has to ask for health.
constexpr std::chrono::seconds kProbeTime{1};
constexpr std::string_view kTooManyConnections = "too many connections";

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

RequestHead HeadOf(const Parser& parser, std::string_view peer) {
  const auto& request = parser.get();
  const std::string_view target = View(request.target());
  RequestHead head;
  head.method = MethodOf(request.method());
  head.method_name = View(request.method_string()).substr(0, 16);
  head.path = target.substr(0, target.find('?'));
  head.content_type = View(request[http::field::content_type]);
  head.content_encoding = View(request[http::field::content_encoding]);
  head.authorization = View(request[http::field::authorization]);
  head.api_key = View(request["X-API-Key"]);
  head.host = View(request[http::field::host]);
  if (const auto times = request.count("Inference-Header-Content-Length"); times > 0) {
    head.json_length = times > 1 ? "" : View(request["Inference-Header-Content-Length"]);
  }
  head.from_page = request.count("Origin") > 0 || request.count("Sec-Fetch-Site") > 0;
  head.has_body_length = parser.chunked() || parser.content_length().has_value();
  head.peer = peer;
  const std::string_view trace = View(request["traceparent"]);
  if (request.count("traceparent") == 1 && IsTraceParent(trace)) head.trace_parent = trace;
  return head;
}

// Where the body ends is not known for sure, so the connection cannot go on: another program
// between here and the client may see another end, and then another request behind it.
std::optional<Response> CheckFraming(const Parser& parser, bool folded) {
  const auto& request = parser.get();
  if (folded) {
    return ErrorResponse(400, "a field must not go on in another line");
  }
  const auto coding = request.find(http::field::transfer_encoding);
  if (coding == request.end()) return std::nullopt;
  if (request.version() < 11) {
    return ErrorResponse(400, "an HTTP/1.0 request must not have a Transfer-Encoding");
  }
  if (boost::beast::iequals(coding->value(), "chunked")) return std::nullopt;
  return ErrorResponse(501, "the only transfer coding that is understood is chunked");
}

// What HTTP asks of every request, whatever it wants.
std::optional<Response> CheckHead(const Parser& parser) {
  const auto& request = parser.get();
  if (request.version() == 11 && request.count(http::field::host) != 1) {
    return ErrorResponse(400, "an HTTP/1.1 request must have one Host field");
  }
  if (request.count(http::field::content_encoding) > 1) {
    return ErrorResponse(400, "a request must have at most one Content-Encoding field");
  }
  const auto expect = request.find(http::field::expect);
  if (expect != request.end() && !boost::beast::iequals(expect->value(), "100-continue")) {
    return ErrorResponse(417, "the only expectation that can be met is 100-continue");
  }
  const HttpMethod method = MethodOf(request.method());
  const bool has_body = parser.chunked() || parser.content_length().value_or(0) > 0;
  if (has_body && (method == HttpMethod::kGet || method == HttpMethod::kHead)) {
    return ErrorResponse(400, "a GET or HEAD request must not have a body");
  }
  return std::nullopt;
}

// Looks for lines that go on in the next one (a line that begins with a blank), in a head that
// comes in parts. Parsers of HTTP disagree about them.
class FoldFinder {
 public:
  void Look(std::string_view bytes) {
    for (const char c : bytes) {
      found_ = found_ || (after_line_ && (c == ' ' || c == '\t'));
      after_line_ = c == '\n';
    }
  }
  bool found() const { return found_; }

 private:
  bool found_ = false, after_line_ = false;
};

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
  std::string_view trace_parent = {};
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
  if (!framing.trace_parent.empty()) {
    out.append("traceparent: ").append(framing.trace_parent).append("\r\n");
  }
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
                 std::shared_ptr<asio::ssl::context> tls, std::optional<Place> place, Stream stream)
      : worker_(worker),
        place_(std::move(place)),
        limits_(worker.options().limits),
        port_(port),
        peer_(std::move(peer)),
        tls_(std::move(tls)),
        stream_(std::move(stream)),
        buffer_(static_cast<std::size_t>(limits_.header_bytes) + kReadBytes) {}
  ~HttpConnection() override { worker_.Remove(*this); }

  void Start() {
    AwaitRest(peer_);
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
      return SendAnswer(NotNow("the answer took too long"), /*close=*/true);
    }
    const bool told = state_ == State::kReading || (state_ == State::kIdle && is_probe());
    if (!told || ending_) return Close();
    EndReading(is_probe() ? NotNow(kTooManyConnections)
                          : ErrorResponse(408, "the request took too long"));
  }

  void Drop() override {
    if (is_probe()) return Close();
    if (state_ == State::kReading && !ending_) {
      return EndReading(NotNow("too many requests that do not end"));
    }
    if (state_ == State::kHandshake || (state_ == State::kIdle && answered_ == 0)) Close();
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
    half_open_.reset();
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
    const auto time = Seconds(std::min(limits_.head_seconds, limits_.request_seconds));
    return is_probe() ? std::min<std::chrono::nanoseconds>(time, kProbeTime) : time;
  }
  bool is_probe() const { return !place_.has_value(); }

  // From here on this is one of those who keep the server waiting: of `client`, an address or, once
  // it is known, an API key. A probe is one until its socket is closed, whatever it does.
  void AwaitRest(std::string_view client) {
    if (port_ != Port::kPublic || (is_probe() && half_open_)) return;
    half_open_.reset();  // it is one of these once, and must not drop itself
    half_open_.emplace((is_probe() ? worker_.probes() : worker_.half_open())
                           .Enter(client, [weak = this->weak_from_this()] {
                             const auto self = weak.lock();
                             if (self == nullptr) return;
                             asio::post(self->strand(), [self] { self->Drop(); });
                           }));
  }

  // The read that waits ends with an error, and then this is the answer.
  void EndReading(Response response) {
    ending_ = std::move(response);
    deadline_ = Clock::now() + kLinger;  // whatever becomes of the read
    ErrorCode ignored;
    stream_.lowest_layer().cancel(ignored);
  }

  void AwaitRequest() {
    state_ = State::kIdle;
    deadline_ = Clock::now() + (worker_.draining() ? kLinger : Seconds(limits_.idle_seconds));
    if (is_probe()) deadline_ = Clock::now() + kProbeTime;
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    parser_->body_limit(static_cast<std::uint64_t>(limits_.body_bytes));
    exchange_ = {};
    has_head_ = wants_continue_ = false;
    head_bytes_ = 0;
    folds_ = {};
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
    if (state_ == State::kReading && !half_open_) AwaitRest(peer_);
    stream_.async_read_some(
        buffer_.prepare(std::min(kReadBytes, room)),
        [self = this->shared_from_this()](const ErrorCode& error, std::size_t bytes) {
          self->buffer_.commit(bytes);
          if (!error && !self->ending_) return self->OnBytes();
          if (self->ending_) {
            self->Send(*std::exchange(self->ending_, std::nullopt), /*close=*/true);
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
    const bool first = !has_head_;
    if (first) {
      has_head_ = true;
      if (!Admit()) return;
      deadline_ = begun_ + Seconds(limits_.request_seconds);
      parser_->eager(true);
      if (!parser_->is_done() && buffer_.size() > 0) error = Parse();
      if (error) return Send(ResponseTo(error, limits_), /*close=*/true);
    }
    if (parser_->is_done()) return Answer();
    if (first && !exchange_.client.sender.empty()) AwaitRest(exchange_.client.sender);
    ReadBody();
  }

  // The head alone, at first; everything that is there as soon as the parser is eager.
  ErrorCode Parse() {
    ErrorCode error;
    const std::size_t bytes = parser_->put(buffer_.data(), error);
    if (!has_head_) {
      folds_.Look({static_cast<const char*>(buffer_.data().data()), bytes});
      head_bytes_ += bytes;
    }
    buffer_.consume(bytes);
    return error == http::error::need_more ? ErrorCode() : error;
  }
  std::size_t HeadLimit() const { return static_cast<std::size_t>(limits_.header_bytes); }

  // False: an answer is on its way already.
  bool Admit() {
    exchange_.head = HeadOf(*parser_, peer_);
    if (const auto refusal = CheckFraming(*parser_, folds_.found())) {
      Send(*refusal, /*close=*/true);
      return false;
    }
    std::optional<Response> refusal = CheckHead(*parser_);
    if (!refusal) refusal = site().Admit(exchange_);
    const bool health = exchange_.endpoint == Endpoint::kHealth;
    if (is_probe() && !health) refusal = NotNow(kTooManyConnections);
    if (refusal) {
      // If all of the body has come, too, the connection can go on.
      parser_->eager(true);
      if (!parser_->is_done() && buffer_.size() > 0) static_cast<void>(Parse());
      Send(*refusal, /*close=*/!parser_->is_done());
      return false;
    }
    wants_continue_ = parser_->get().count(http::field::expect) > 0;
    return true;
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
    if (!is_probe()) half_open_.reset();
    if (IsForLabels(exchange_.endpoint)) {
      request_place_ = worker_.request_places().Take(exchange_.client.sender);
      if (!request_place_) return Send(NotNow("too many requests at once"), /*close=*/false);
    }
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
    if (floor.count() == 0 || !IsForLabels(exchange_.endpoint))
      return SendAnswer(response, /*close=*/false);
    const auto steps = (Clock::now() - received_) / floor + 1;
    state_ = State::kSending;
    deadline_ = received_ + steps * floor + Seconds(limits_.request_seconds);
    delay_.emplace(stream_.get_executor(), received_ + steps * floor);
    delay_->async_wait([self = this->shared_from_this(), response = std::move(response)](
                           const ErrorCode&) { self->SendAnswer(response, /*close=*/false); });
  }

  void SendAnswer(const Response& response, bool close) {
    site().OnSend(exchange_, response);
    Send(response, close);
  }

  void Send(const Response& response, bool close) {
    state_ = State::kSending;
    if (!is_probe()) half_open_.reset();
    deadline_ = Clock::now() + Seconds(limits_.request_seconds);
    close_ = close || is_probe() || worker_.closing() || !has_head_ || !parser_->get().keep_alive();
    const Framing framing{kTls, !close_, has_head_ && parser_->get().version() == 10,
                          exchange_.head.method == HttpMethod::kHead, exchange_.head.trace_parent};
    out_.clear();
    Encode(response, framing, out_);
    status_ = response.status;
    rows_ = response.rows;
    noised_ = response.noised;
    request_place_.reset();  // what the other side sees of it, it sees after that
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
    worker_.metrics().Count({exchange_.endpoint, status_, now - begun_, rows_, noised_}, now);
    worker_.log().Access({exchange_.head.method_name, exchange_.endpoint, status_, out_.size(),
                          now - begun_, exchange_.client.account, exchange_.head.trace_parent});
  }

  // Closing a socket that has unread bytes would reset the connection, and the answer might be lost
  // with it: say that this was all, and read until the other side closes.
  // Nobody waits so for a probe, which has been told what it asked for.
  void FinishConnection() {
    if (is_probe()) return Close();
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
  const std::optional<Place> place_;  // none: one too many
  const ServeLimits& limits_;
  const Port port_;
  const std::string peer_;
  const std::shared_ptr<asio::ssl::context> tls_;  // outlives the stream
  Stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  FoldFinder folds_;                        // of this request's head
  std::shared_ptr<const Service> service_;  // of this request
  Exchange exchange_;
  std::optional<HalfOpen::Entry> half_open_;
  std::optional<Place> request_place_;
  std::optional<Response> ending_;  // what is sent as soon as the read that waits has ended
  std::optional<asio::steady_timer> delay_;
  std::string out_;
  Clock::time_point begun_, received_;
  State state_ = State::kHandshake;
  std::size_t head_bytes_ = 0;
  int status_ = 0;
  std::int64_t rows_ = 0, noised_ = 0;  // of the response
  std::int64_t answered_ = 0;
  bool has_head_ = false, wants_continue_ = false;
  bool close_ = false;
};

}  // namespace

void StartHttpConnection(Worker& worker, StrandSocket socket, Port port, std::string client,
                         std::optional<Place> place) {
  const auto start = [&worker](const auto& connection) {
    worker.Add(connection);
    asio::post(connection->strand(), [connection] { connection->Start(); });
  };
  const auto service = worker.service();
  if (port == Port::kPublic && service->tls != nullptr) {
    const auto tls = service->tls->context;
    start(std::make_shared<HttpConnection<TlsStream>>(worker, port, std::move(client), tls,
                                                      std::move(place),
                                                      TlsStream(std::move(socket), *tls)));
  } else {
    start(std::make_shared<HttpConnection<StrandSocket>>(worker, port, std::move(client), nullptr,
                                                         std::move(place), std::move(socket)));
  }
}

std::string TooManyConnections() {
  std::string out;
  Encode(NotNow(kTooManyConnections), {.keep_alive = false}, out);
  return out;
}

}  // namespace lucid
