// What operators see, on a port of its own: the console, /status.json, /metrics, /healthz.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admission/admin_token.h"
#include "serve/exchange.h"
#include "serve/status.h"

namespace lucid {

class AdminSite : public Site {
 public:
  // `status` is asked for every request, on any thread; what it points to must live until `done`
  // returns.
  using StatusSource = std::function<void(const std::function<void(const ServerStatus&)>& done)>;
  // `hosts`: names that the port goes by, beside "localhost" and any numeric address. `token`:
  // asked for by everything but /healthz; none: nothing is.
  AdminSite(std::vector<std::string> hosts, std::optional<AdminToken> token, StatusSource status)
      : hosts_(std::move(hosts)), token_(token), status_(std::move(status)) {}

  std::optional<Response> Admit(Exchange& exchange) const override;
  void Answer(Exchange& exchange, std::string_view body, Reply reply) const override;
  void OnSend(const Exchange&, const Response&) const override {}

 private:
  bool IsOurs(std::string_view host) const;

  std::vector<std::string> hosts_;
  std::optional<AdminToken> token_;
  StatusSource status_;
};

}  // namespace lucid
