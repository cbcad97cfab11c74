#include "lucid/base/team.h"

namespace lucid {
namespace {

constexpr char kGaveUp = 'G';  // first byte of the message; no other message begins with it

}  // namespace

std::string GivingUp(const Team& helper, const Error& reason) {
  std::string bytes(1, kGaveUp);
  bytes += static_cast<char>('0' + static_cast<int>(reason.kind));
  return bytes + helper.name() + ": " + reason.message;
}

std::optional<Error> GaveUp(const TeamMessage& message) {
  if (message.bytes.size() < 2 || message.bytes[0] != kGaveUp) return std::nullopt;
  const int kind = message.bytes[1] - '0';
  const bool known = kind >= 0 && kind <= static_cast<int>(ErrorKind::kInternal);
  return Error{known ? static_cast<ErrorKind>(kind) : ErrorKind::kInternal,
               message.bytes.substr(2)};
}

}  // namespace lucid
