#include "audit/http_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "audit/attacks.h"

namespace lucid {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

constexpr std::chrono::seconds kPatience{20};
constexpr std::uint64_t kLongestBody = 1 << 20;

// What a server says is shown on one line, and not at any length.
std::string Shown(std::string_view text) {
  std::string line(text.substr(0, 200));
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  return line;
}

nlohmann::json Parsed(const std::string& body) {
  return nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
}

// The text of {"error": text}, or nothing.
std::string ErrorText(const Response& response) {
  const nlohmann::json json = Parsed(response.body());
  const auto error = json.is_object() ? json.find("error") : json.end();
  return json.is_object() && error != json.end() && error->is_string() ? error->get<std::string>()
                                                                       : "";
}

}  // namespace

struct HttpClient::Impl {
  std::string url, host, port, api_key;
  asio::io_context io{1};
  beast::tcp_stream stream{io};
  beast::flat_buffer buffer;

  Status Connect();
  Result<std::int32_t> Read(const Response& response) const;
  Error Failure(const std::string& what) const { return IoError(fmt::format("{}: {}", url, what)); }

  // Runs one asynchronous operation to its end: only those have a time limit.
  template <typename Start>  // void(handler)
  ErrorCode Await(const Start& start) {
    ErrorCode result;
    stream.expires_after(kPatience);
    start([&result](const ErrorCode& error, const auto&...) { result = error; });
    io.restart();
    io.run();
    return result;
  }
  ErrorCode Exchange(const Request& request, Response& response) {
    ErrorCode error =
        Await([&](auto done) { http::async_write(stream, request, std::move(done)); });
    if (error) return error;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kLongestBody);
    error = Await([&](auto done) { http::async_read(stream, buffer, parser, std::move(done)); });
    response = parser.release();
    // Boost 1.74 goes on after it has found that the body is too long.
    if (!error && response.body().size() > kLongestBody) error = http::error::body_limit;
    return error;
  }
};

Status HttpClient::Impl::Connect() {
  ErrorCode error;
  asio::ip::tcp::resolver resolver(io);
  const auto endpoints = resolver.resolve(host, port, error);
  if (!error) {
    stream.close();
    buffer.clear();
    error = Await([&](auto done) { stream.async_connect(endpoints, std::move(done)); });
  }
  if (!error) stream.socket().set_option(asio::ip::tcp::no_delay(true), error);
  if (error) return Failure(fmt::format("cannot be reached: {}", error.message()));
  return Ok();
}

Result<std::int32_t> HttpClient::Impl::Read(const Response& response) const {
  if (response.result() != http::status::ok) {
    const std::string text = ErrorText(response);
    // As `lucid serve` names a row outside of what the certificate covers.
    if (response.result() == http::status::bad_request && text.starts_with("row 0: ")) {
      return kRefused;
    }
    return Failure(fmt::format("{} {}{}{}", response.result_int(),
                               Shown(std::string(response.reason())), text.empty() ? "" : ": ",
                               Shown(text)));
  }
  const nlohmann::json json = Parsed(response.body());
  const auto labels = json.is_object() ? json.find("labels") : json.end();
  const bool one = json.is_object() && labels != json.end() && labels->is_array() &&
                   labels->size() == 1 && labels->front().is_number_integer();
  const std::int64_t label = one ? labels->front().get<std::int64_t>() : -1;
  if (label < 0 || label > std::numeric_limits<std::int32_t>::max()) {
    return Failure(fmt::format("does not answer with one label: {}", Shown(response.body())));
  }
  return static_cast<std::int32_t>(label);
}

HttpClient::HttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

Result<HttpClient> HttpClient::Connect(const std::string& url, const std::string& api_key) {
  const auto wrong = [&] {
    return InvalidInput(fmt::format("'{}' is not http://HOST:PORT", Shown(url)));
  };
  std::string_view rest = url;
  if (!rest.starts_with("http://")) return wrong();
  rest.remove_prefix(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return wrong();
  std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool is_number = !port.empty() && port.size() <= 5 && std::ranges::all_of(port, is_digit);
  if (!is_number || host.find_first_of("/?#@ ") != std::string_view::npos) return wrong();
  if (std::ranges::any_of(api_key, [](char c) { return c <= ' ' || c > '~'; })) {
    return InvalidInput("the API key holds a blank or something that is not printable ASCII");
  }
  auto impl = std::make_unique<Impl>();
  impl->url = url;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  impl->host = host;
  impl->port = port;
  impl->api_key = api_key;
  LUCID_TRY(impl->Connect());
  return HttpClient(std::move(impl));
}

Result<std::int32_t> HttpClient::Ask(std::span<const float> x) {
  Request request(http::verb::post, "/predict", 11);
  request.set(http::field::host, fmt::format("{}:{}", impl_->host, impl_->port));
  request.set(http::field::content_type, "application/json");
  if (!impl_->api_key.empty()) {
    request.set(http::field::authorization, "Bearer " + impl_->api_key);
  }
  // The shortest text that gives the same float32 again.
  request.body() = fmt::format(R"({{"input":[[{}]]}})", fmt::join(x, ","));
  request.prepare_payload();
  Response response;
  ErrorCode error = impl_->Exchange(request, response);
  // A connection that was idle may have ended meanwhile; the same question again has the same
  // answer and costs nothing.
  if (error == http::error::end_of_stream || error == asio::error::connection_reset ||
      error == asio::error::broken_pipe) {
    LUCID_TRY(impl_->Connect());
    error = impl_->Exchange(request, response);
  }
  if (error) return impl_->Failure(fmt::format("no answer: {}", error.message()));
  Result<std::int32_t> label = impl_->Read(response);
  if (!response.keep_alive()) LUCID_TRY(impl_->Connect());
  return label;
}

}  // namespace lucid
