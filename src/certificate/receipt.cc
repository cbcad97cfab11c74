#include "lucid/certificate/receipt.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_fields.h"
#include "certificate/seal.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kReceiptFormat = "lucid-receipt-2";
constexpr std::uint64_t kMaxReceiptBytes = 1 << 16;

std::string Encode(const Receipt& receipt) {
  Json json;
  json["format"] = kReceiptFormat;
  json["checker"] = receipt.checker;
  json["certificate"] = receipt.certificate.Hex();
  json["proof"] = receipt.proof.Hex();
  return WithSeal(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

std::string ReceiptPath(const std::string& certificate_path) {
  return certificate_path + ".receipt";
}

Status SaveReceipt(const Receipt& receipt, const std::string& path) {
  return WriteFileAtomically(path, Encode(receipt));
}

Result<Receipt> LoadReceipt(const std::string& path) {
  LUCID_ASSIGN(const std::string text, ReadTextFile(path, kMaxReceiptBytes));
  LUCID_TRY(CheckSeal(text, path, "receipt"));
  LUCID_ASSIGN(const Json json, JsonFields::Parse(text, path, "receipt"));
  JsonFields read(json, path, "receipt");
  LUCID_TRY(read.CheckFormat(kReceiptFormat));
  Receipt receipt{read.Sha256("/certificate"), read.Sha256("/proof"), read.Text("/checker")};
  LUCID_TRY(read.status());
  if (Encode(receipt) != text) {
    return Mismatch(fmt::format("{}: edited, or of another version", path));
  }
  return receipt;
}

std::string_view NameOf(Standing standing) {
  switch (standing) {
    case Standing::kUnproved:
      return "unproved";
    case Standing::kProved:
      return "proved";
    case Standing::kChecked:
      break;
  }
  return "proved and checked";
}

Result<Standing> StandingOf(const std::string& certificate_path) {
  LUCID_ASSIGN(const Certificate certificate, LoadCertificate(certificate_path));
  if (!certificate.FullyProved()) return Standing::kUnproved;
  const Result<Receipt> receipt = LoadReceipt(ReceiptPath(certificate_path));
  if (!receipt.ok() || receipt->proof != certificate.proof->digest) return Standing::kProved;
  // A certificate has one spelling, so this is the digest of the file that was just read.
  const Digest own = Sha256Of(EncodeCertificate(certificate));
  return receipt->certificate == own ? Standing::kChecked : Standing::kProved;
}

}  // namespace lucid
