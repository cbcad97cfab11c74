// Any bytes as a certificate.json, also with the seal put right, which no mutation would hit. What
// is accepted is a bound, and the only text of it; what is refused gets one printable line.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "lucid/certificate/certificate.h"

namespace {

void CheckCertificate(std::string_view text) {
  const auto certificate = lucid::ParseCertificate(text, "certificate.json");
  if (!certificate.ok()) return RequireOneLine(certificate.error().message);
  Require(certificate->members >= 1 && certificate->members <= certificate->rows);
  Require(certificate->partial == (certificate->members < certificate->rows));
  Require(certificate->network_error >= 0 && certificate->member_error >= 0);
  Require(!certificate->classes.empty());
  std::int32_t label = 0;
  for (const lucid::ClassBound& bound : certificate->classes) {
    Require(bound.label == label++);
    Require(bound.beta_upper >= bound.beta_lower && bound.beta_lower >= 0);
    Require(std::isfinite(bound.beta_lower));
    Require(bound.Gap() >= 0 && bound.Gap() <= 1);
    if (!bound.witness.has_value()) continue;
    Require(bound.witness->member >= 0 && bound.witness->row >= 0);
    for (const float value : bound.witness->x) Require(std::isfinite(value));
  }
  Require(lucid::EncodeCertificate(*certificate) == text);
}

// Takes the last field, if it is the seal, for one that is wrong; otherwise adds one.
void CheckWithRightSeal(std::string_view text) {
  const std::string_view field = ",\n  \"seal\": \"";
  const std::size_t at = text.rfind(field);
  std::string document(text.substr(0, at == std::string_view::npos ? text.size() : at));
  const lucid::Digest seal = lucid::Sha256Of(document + "\n}\n");
  CheckCertificate(document.append(field).append(seal.Hex()).append("\"\n}\n"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckCertificate(text);
  CheckWithRightSeal(text);
  return 0;
}
