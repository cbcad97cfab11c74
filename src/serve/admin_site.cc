#include "serve/admin_site.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/beast/core/string.hpp>
#include <utility>

#include "serve/assets.h"

namespace lucid {

// A page of another site can make an operator's browser ask this port under a name of its own that
// it lets point here (DNS rebinding), and would read the answer. The browser then says that name;
// it never says an address, nor nothing.
bool AdminSite::IsOurs(std::string_view host) const {
  if (host.empty()) return true;
  std::string name(host.substr(0, host.find(':', host.find(']') + 1)));
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  boost::system::error_code not_numeric;
  boost::asio::ip::make_address(name, not_numeric);
  const auto is_name = [&](std::string_view known) {
    return boost::beast::iequals(name, std::string(known));
  };
  return !not_numeric || is_name("localhost") || std::ranges::any_of(hosts_, is_name);
}

std::optional<Response> AdminSite::Admit(Exchange& exchange) const {
  static constexpr std::string_view kPaths[] = {"/", "/status.json", "/metrics", "/healthz"};
  const RequestHead& head = exchange.head;
  if (!IsOurs(head.host)) {
    return ErrorResponse(
        421, "the Host field must be localhost, an address or a name of the option admin_host");
  }
  if (token_ && head.path != "/healthz" && !token_->Allows(head.authorization)) {
    Response response = ErrorResponse(401, "a token is needed: 'Authorization: Bearer TOKEN'");
    response.fields.emplace_back("WWW-Authenticate", R"(Basic realm="lucid")");  // browsers ask
    return response;
  }
  if (std::ranges::find(kPaths, head.path) == std::end(kPaths)) {
    return ErrorResponse(404, "there is nothing at this path");
  }
  if (head.method != HttpMethod::kGet && head.method != HttpMethod::kHead) {
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
