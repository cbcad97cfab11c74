#include "audit/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "audit/attacks.h"

namespace lucid {
namespace {

constexpr long kPatienceSeconds = 20;
constexpr std::size_t kLongestBody = 1 << 20;

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
std::string ErrorText(const std::string& body) {
  const nlohmann::json json = Parsed(body);
  const auto error = json.is_object() ? json.find("error") : json.end();
  return json.is_object() && error != json.end() && error->is_string() ? error->get<std::string>()
                                                                       : "";
}

struct Response {
  long status = 0;
  std::string reason;  // the words after the status
  std::string body;
};

// libcurl hands over `size` x `count` bytes at a time; another number than that ends the transfer.
std::size_t TakeBody(const char* bytes, std::size_t size, std::size_t count, void* response) {
  std::string& body = static_cast<Response*>(response)->body;
  if (body.size() + size * count > kLongestBody) return 0;
  body.append(bytes, size * count);
  return size * count;
}

// Of all lines before the body only the first is of interest: "HTTP/1.1 200 OK".
std::size_t TakeHeader(const char* bytes, std::size_t size, std::size_t count, void* response) {
  std::string_view line(bytes, size * count);
  if (line.starts_with("HTTP/")) {
    for (int word = 0; word < 2; ++word) {
      line.remove_prefix(std::min(line.find(' '), line.size() - 1) + 1);
    }
    line = line.substr(0, line.find_first_of("\r\n"));
    static_cast<Response*>(response)->reason = line;
  }
  return size * count;
}

}  // namespace

struct HttpClient::Impl {
  std::string url;
  CURL* curl = nullptr;
  curl_slist* headers = nullptr;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
  }

  template <typename Value>
  void Set(CURLoption option, Value value) {
    curl_easy_setopt(curl, option, value);
  }
  void Header(const std::string& line) { headers = curl_slist_append(headers, line.c_str()); }
  Status Prepare(const std::string& api_key);
  Status Reach() const;
  Result<std::int32_t> Read(const Response& response) const;
  Error Failure(const std::string& what) const { return IoError(fmt::format("{}: {}", url, what)); }
};

Status HttpClient::Impl::Prepare(const std::string& api_key) {
  curl = curl_easy_init();
  if (curl == nullptr) return InternalError("libcurl does not start");
  Header("Content-Type: application/json");
  Header("Expect:");
  if (!api_key.empty()) Header("Authorization: Bearer " + api_key);
  Set(CURLOPT_URL, (url + (url.ends_with('/') ? "predict" : "/predict")).c_str());
  Set(CURLOPT_HTTPHEADER, headers);
  Set(CURLOPT_PROXY, "");
  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_TIMEOUT, kPatienceSeconds);
  Set(CURLOPT_WRITEFUNCTION, TakeBody);
  Set(CURLOPT_HEADERFUNCTION, TakeHeader);
  return Ok();
}

// Opens a connection and ends it again: a server that is away is named before the work begins.
Status HttpClient::Impl::Reach() const {
  CURL* probe = curl_easy_init();
  if (probe == nullptr) return InternalError("libcurl does not start");
  curl_easy_setopt(probe, CURLOPT_URL, url.c_str());
  curl_easy_setopt(probe, CURLOPT_PROXY, "");
  curl_easy_setopt(probe, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(probe, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(probe, CURLOPT_TIMEOUT, kPatienceSeconds);
  const CURLcode code = curl_easy_perform(probe);
  curl_easy_cleanup(probe);
  if (code == CURLE_OK) return Ok();
  return Failure(fmt::format("cannot be reached: {}", curl_easy_strerror(code)));
}

Result<std::int32_t> HttpClient::Impl::Read(const Response& response) const {
  if (response.status != 200) {
    const std::string text = ErrorText(response.body);
    // This is how `lucid serve` names a row outside of what the certificate covers.
    if (response.status == 400 && text.starts_with("row 0: ")) return kRefused;
    return Failure(fmt::format("{} {}{}{}", response.status, Shown(response.reason),
                               text.empty() ? "" : ": ", Shown(text)));
  }
  const nlohmann::json json = Parsed(response.body);
  const auto labels = json.is_object() ? json.find("labels") : json.end();
  const bool one = json.is_object() && labels != json.end() && labels->is_array() &&
                   labels->size() == 1 && labels->front().is_number_integer();
  const std::int64_t label = one ? labels->front().get<std::int64_t>() : -1;
  if (label < 0 || label > std::numeric_limits<std::int32_t>::max()) {
    return Failure(fmt::format("does not answer with one label: {}", Shown(response.body)));
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
  const std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool is_number = !port.empty() && port.size() <= 5 && std::ranges::all_of(port, is_digit);
  if (!is_number || host.find_first_of("/?#@ ") != std::string_view::npos) return wrong();
  if (std::ranges::any_of(api_key, [](char c) { return c <= ' ' || c > '~'; })) {
    return InvalidInput("the API key holds a blank or something that is not printable ASCII");
  }
  auto impl = std::make_unique<Impl>();
  impl->url = url;
  LUCID_TRY(impl->Prepare(api_key));
  LUCID_TRY(impl->Reach());
  return HttpClient(std::move(impl));
}

Result<std::int32_t> HttpClient::Ask(std::span<const float> x) {
  // The shortest text that gives the same float32 again.
  const std::string body = fmt::format(R"({{"input":[[{}]]}})", fmt::join(x, ","));
  Response response;
  impl_->Set(CURLOPT_POSTFIELDS, body.c_str());
  impl_->Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  impl_->Set(CURLOPT_WRITEDATA, &response);
  impl_->Set(CURLOPT_HEADERDATA, &response);
  // libcurl keeps the connection, and opens another one if the server has ended it meanwhile.
  const CURLcode code = curl_easy_perform(impl_->curl);
  if (code != CURLE_OK) {
    return impl_->Failure(fmt::format("no answer: {}", curl_easy_strerror(code)));
  }
  curl_easy_getinfo(impl_->curl, CURLINFO_RESPONSE_CODE, &response.status);
  return impl_->Read(response);
}

}  // namespace lucid
