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

bool IsTraceParent(std::string_view text) {
  constexpr std::string_view kForm = "00-tttttttttttttttttttttttttttttttt-pppppppppppppppp-ff";
  if (text.size() != kForm.size() || !text.starts_with("00-")) return false;
  for (std::size_t i = 3; i < text.size(); ++i) {
    const bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (kForm[i] == '-' ? text[i] != '-' : !hex) return false;
  }
  const auto zero = [&](std::size_t begin, std::size_t length) {
    return text.substr(begin, length).find_first_not_of('0') == std::string_view::npos;
  };
  return !zero(3, 32) && !zero(36, 16);
}

}  // namespace lucid
