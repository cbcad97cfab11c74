// What operators see, on a port of its own: the console, /status.json, /metrics, /healthz.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "serve/exchange.h"
#include "serve/status.h"

namespace lucid {

class AdminSite : public Site {
 public:
  // `status` is asked for every request, on any thread; what it points to must live until `done`
  // returns.
  using StatusSource = std::function<void(const std::function<void(const ServerStatus&)>& done)>;
  explicit AdminSite(StatusSource status) : status_(std::move(status)) {}

  std::optional<Response> Admit(Exchange& exchange) const override;
  void Answer(Exchange& exchange, std::string_view body, Reply reply) const override;

 private:
  StatusSource status_;
};

}  // namespace lucid
