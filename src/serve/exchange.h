// A request and its answer, whatever carried them: between connections and sites.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/labeller.h"
#include "serve/metrics.h"

namespace lucid {

enum class HttpMethod : std::uint8_t { kGet, kHead, kPost, kOther };

// What the fields of a request say. Views live as long as the exchange.
struct RequestHead {
  HttpMethod method = HttpMethod::kOther;
  std::string_view method_name;
  std::string_view path;  // without the query
  std::string_view content_type, content_encoding;
  std::string_view authorization, api_key;
  std::string_view host;         // with its port; empty: none
  bool has_body_length = false;  // Content-Length or chunked
  bool from_page = false;        // a browser sends this for a page: Origin or Sec-Fetch-Site
  // Inference-Header-Content-Length: where the JSON ends and binary data begins. Empty if the field
  // is there twice.
  std::optional<std::string_view> json_length;
  std::string_view peer;          // NetworkOf its address
  std::string_view trace_parent;  // of W3C Trace Context, as it should be; or empty
};

struct Response {
  int status = 200;
  std::string body;
  std::string_view content_type = "application/json";
  std::vector<std::pair<std::string_view, std::string>> fields;  // beside the usual ones
  std::int64_t rows = 0, noised = 0;  // for Metrics, and for nothing that a client can see
};

// {"error": message}, always one printable line.
Response ErrorResponse(int status, std::string_view message);
// 503: the same request may be sent again in a second.
Response NotNow(std::string_view why);
// The text as a JSON string, with quotes. Bytes that are not UTF-8 become U+FFFD.
std::string JsonText(std::string_view text);

// Whether this is what version 00 of W3C Trace Context says: 00-TRACE-PARENT-FLAGS in hex, no id 0.
// Nothing else may come into the log and back to the client.
bool IsTraceParent(std::string_view text);

// One request on its way through a site.
struct Exchange {
  RequestHead head;
  Endpoint endpoint = Endpoint::kOther;
  Client client;  // who asks; account empty: nobody was asked for
};

inline bool IsForLabels(Endpoint endpoint) {
  return endpoint == Endpoint::kInfer || endpoint == Endpoint::kPredict;
}

// What a port answers with. Thread-safe.
class Site {
 public:
  // Called once, on any thread, possibly before Answer returns; or dropped uncalled after an
  // exception, which is answered with 500.
  using Reply = std::function<void(Response)>;

  Site() = default;
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;
  virtual ~Site() = default;

  // This is called before the body is read. A response ends the exchange.
  virtual std::optional<Response> Admit(Exchange& exchange) const = 0;
  // Requires: Admit had nothing to say; exchange, body and site live, and stay as they are, until
  // `reply` is dropped.
  virtual void Answer(Exchange& exchange, std::string_view body, Reply reply) const = 0;
  // The response to an exchange that was to be answered leaves now, which may be long after `reply`
  // was called: what a client may know of it, it may know from here on.
  virtual void OnSend(const Exchange& exchange, const Response& response) const = 0;
};

}  // namespace lucid
