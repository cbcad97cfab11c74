#include "serve/exchange.h"

#include <nlohmann/json.hpp>

namespace lucid {

std::string JsonText(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Response ErrorResponse(int status, std::string_view message) {
  Response response;
  response.status = status;
  response.body.append("{\"error\":").append(JsonText(message)).append("}");
  return response;
}

Response NotNow(std::string_view why) {
  Response response = ErrorResponse(503, why);
  response.fields.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace lucid
