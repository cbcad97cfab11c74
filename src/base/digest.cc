#include "lucid/base/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <vector>

#include "base/files.h"
#include "base/hasher.h"

namespace lucid {

namespace {

// OpenSSL looks an algorithm up by its name, under a lock, wherever EVP_sha256() is used. This is
// looked up once, and kept for as long as the process lives.
const EVP_MD* Sha256() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return found;
}

}  // namespace

struct Hasher::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  Context() { EVP_DigestInit_ex2(md, Sha256(), nullptr); }
  ~Context() { EVP_MD_CTX_free(md); }
};

Hasher::Hasher() : context_(std::make_unique<Context>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::Bytes(std::span<const std::byte> data) {
  EVP_DigestUpdate(context_->md, data.data(), data.size());
  return *this;
}

Hasher& Hasher::Text(std::string_view text) {
  return Number(text.size()).Bytes(std::as_bytes(std::span(text)));
}

Hasher& Hasher::Number(std::uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return Bytes(bytes);
}

Digest Hasher::Finish() {
  Digest digest;
  EVP_DigestFinal_ex(context_->md, digest.bytes.data(), nullptr);
  return digest;
}

std::string Digest::Hex() const {
  std::string hex;
  hex.reserve(64);
  constexpr char kDigits[] = "0123456789abcdef";
  for (const std::uint8_t b : bytes) (hex += kDigits[b >> 4]) += kDigits[b & 15];
  return hex;
}

Result<Digest> Digest::FromHex(std::string_view hex) {
  const auto nibble = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  Digest digest;
  bool good = hex.size() == 64;
  for (std::size_t i = 0; good && i < 32; ++i) {
    const int high = nibble(hex[2 * i]), low = nibble(hex[2 * i + 1]);
    good = high >= 0 && low >= 0;
    digest.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  if (!good) {
    return InvalidInput(
        fmt::format("'{}' is not a SHA-256 digest (64 lower-case hex digits)", hex.substr(0, 80)));
  }
  return digest;
}

Digest Sha256Of(std::span<const std::byte> data) { return Hasher().Bytes(data).Finish(); }
Digest Sha256Of(std::string_view text) { return Sha256Of(std::as_bytes(std::span(text))); }

Result<Digest> Sha256OfFile(const std::string& path) {
  LUCID_ASSIGN(File file, File::OpenToRead(path));
  LUCID_ASSIGN(const std::uint64_t size, file.Size());
  Hasher hasher;
  std::vector<std::byte> block(1 << 20);
  for (std::uint64_t at = 0; at < size;) {
    const std::size_t n =
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), size - at));
    LUCID_TRY(file.ReadAt(at, std::span(block).first(n)));
    hasher.Bytes(std::span(block).first(n));
    at += n;
  }
  return hasher.Finish();
}

}  // namespace lucid
