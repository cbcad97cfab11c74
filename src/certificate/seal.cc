#include "certificate/seal.h"

#include <fmt/format.h>

#include "lucid/base/digest.h"

namespace lucid {
namespace {

// A document ends with one more field than what was sealed: "\n}\n" became this.
std::string Tail(const Digest& seal) {
  return fmt::format(",\n  \"seal\": \"{}\"\n}}\n", seal.Hex());
}
constexpr std::string_view kUnsealedTail = "\n}\n";

}  // namespace

std::string WithSeal(std::string document) {
  const Digest seal = Sha256Of(document);
  document.resize(document.size() - kUnsealedTail.size());
  return document + Tail(seal);
}

Status CheckSeal(std::string_view text, const std::string& source, std::string_view kind) {
  const std::size_t size = Tail(Digest()).size();
  if (text.size() <= size || !text.starts_with("{")) {
    return InvalidInput(fmt::format("{}: truncated, or not a LUCID {}", source, kind));
  }
  std::string document(text.substr(0, text.size() - size));
  document += kUnsealedTail;
  if (text.substr(text.size() - size) == Tail(Sha256Of(document))) return Ok();
  return Mismatch(
      fmt::format("{}: the seal at its end is not that of its content: edited, truncated or "
                  "damaged, or not a LUCID {}",
                  source, kind));
}

}  // namespace lucid
