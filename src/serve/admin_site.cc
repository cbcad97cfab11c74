#include "serve/admin_site.h"

#include <algorithm>
#include <utility>

#include "serve/assets.h"

namespace lucid {

std::optional<Response> AdminSite::Admit(Exchange& exchange) const {
  static constexpr std::string_view kPaths[] = {"/", "/status.json", "/metrics", "/healthz"};
  const RequestHead& head = exchange.head;
  if (std::ranges::find(kPaths, head.path) == std::end(kPaths)) {
    return ErrorResponse(404, "there is nothing at this path");
  }
  if (head.method != Method::kGet && head.method != Method::kHead) {
    Response response = ErrorResponse(405, "use GET here");
    response.fields.emplace_back("Allow", "GET, HEAD");
    return response;
  }
  return std::nullopt;
}

void AdminSite::Answer(Exchange& exchange, std::string_view, Reply reply) const {
  const std::string_view path = exchange.head.path;
  Response response;
  if (path == "/") {
    response.body = ConsolePage();
    response.content_type = "text/html; charset=utf-8";
    response.fields.emplace_back("Content-Security-Policy", ConsolePolicy());
  } else if (path == "/healthz") {
    response.body = R"({"live":true})";
  } else {
    const bool prometheus = path == "/metrics";
    if (prometheus) response.content_type = kPrometheusContentType;
    status_([&](const ServerStatus& status) {
      response.body = prometheus ? EncodePrometheus(status) : EncodeStatus(status);
    });
  }
  reply(std::move(response));
}

}  // namespace lucid
