#include "admission/admin_token.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "base/files.h"
#include "base/text.h"

namespace lucid {
namespace {

// What stands behind the name of a scheme, in any case.
std::optional<std::string_view> After(std::string_view scheme, std::string_view field) {
  if (field.size() <= scheme.size()) return std::nullopt;
  if (!EqualInAnyCase(field.substr(0, scheme.size()), scheme)) return std::nullopt;
  return field.substr(scheme.size());
}

// The password of "user:password" in base64; none: it is no such thing.
std::optional<std::string> PasswordIn(std::string_view base64) {
  if (base64.empty() || base64.size() % 4 != 0 || base64.size() > 1024) return std::nullopt;
  std::string plain(base64.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(plain.data()),
                                     reinterpret_cast<const unsigned char*>(base64.data()),
                                     static_cast<int>(base64.size()));
  if (length < 0) return std::nullopt;
  const auto padding = base64.size() - base64.find_last_not_of('=') - 1;
  plain.resize(static_cast<std::size_t>(length) - std::min<std::size_t>(padding, 2));
  const std::size_t colon = plain.find(':');
  if (colon == std::string::npos) return std::nullopt;
  return plain.substr(colon + 1);
}

}  // namespace

Result<AdminToken> AdminToken::Load(const std::string& path) {
  LUCID_ASSIGN(std::string text, ReadTextFile(path, 1024));
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && (info.st_mode & 07) != 0) {
    return InvalidInput(
        fmt::format("{}: has mode {:04o}: everybody on this machine may read the "
                    "token or change it: chmod o= {}",
                    path, info.st_mode & 07777, path));
  }
  if (text.ends_with('\n')) text.pop_back();
  const bool printable = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
  if (text.size() < 16 || text.size() > 256 || !printable) {
    return InvalidInput(
        fmt::format("{}: must hold a token of 16 to 256 printable characters, on one line (openssl "
                    "rand -hex 32 makes one)",
                    path));
  }
  return AdminToken(Sha256Of(text));
}

bool AdminToken::Allows(std::string_view authorization) const {
  std::string given;
  if (const auto bearer = After("Bearer ", authorization)) given = *bearer;
  if (const auto basic = After("Basic ", authorization)) given = PasswordIn(*basic).value_or("");
  const Digest theirs = Sha256Of(given);  // of one length with ours, whatever was given
  return CRYPTO_memcmp(digest_.bytes.data(), theirs.bytes.data(), theirs.bytes.size()) == 0;
}

}  // namespace lucid
