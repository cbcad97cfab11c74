#include "ensemble/secret_file.h"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/files.h"
#include "base/hasher.h"

namespace lucid {
namespace {

constexpr std::string_view kHeader = "lucid-secret-1", kSeedHeader = "lucid-seed-1";

Result<Secret> Read(const std::string& path, const Digest& binding) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return IoError(fmt::format("cannot look at '{}'", path));
  if ((status.st_mode & 0077) != 0) {
    return InvalidInput(
        fmt::format("'{}' can be read by others, so it is no secret: chmod 600 it if nobody has "
                    "read it",
                    path));
  }
  LUCID_ASSIGN(std::string text, ReadTextFile(path, 4096));
  std::array<char, 65> own{}, serves{};
  const std::string format = fmt::format("{}\nsecret %64s\nserves %64s", kHeader);
  // NOLINTNEXTLINE(cert-err34-c): what was scanned is checked as digits below.
  const int found = std::sscanf(text.c_str(), format.c_str(), own.data(), serves.data());
  sodium_memzero(text.data(), text.size());
  Result<Digest> bytes = Digest::FromHex(own.data());
  const Result<Digest> served = Digest::FromHex(serves.data());
  sodium_memzero(own.data(), own.size());
  if (found != 2 || !bytes.ok() || !served.ok()) {
    return InvalidInput(fmt::format("'{}' is not a secret of this program, or damaged", path));
  }
  if (*served != binding) {
    return Mismatch(
        fmt::format("'{}' served another data set or other options: with two of them the noise "
                    "would cancel; use another secret file and another folder for the run",
                    path));
  }
  Secret secret{std::span<const std::uint8_t, 32>(bytes->bytes)};
  sodium_memzero(bytes->bytes.data(), bytes->bytes.size());
  return secret;
}

}  // namespace

Digest SecretBinding(const Digest& schema, const Digest& train, const std::string& architecture,
                     const std::string& training) {
  return Hasher()
      .Text("lucid-secret-binding-1")
      .Bytes(std::as_bytes(std::span(schema.bytes)))
      .Bytes(std::as_bytes(std::span(train.bytes)))
      .Text(architecture)
      .Text(training)
      .Finish();
}

Result<Secret> OpenSecret(const std::string& path, const Digest& binding) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    LUCID_ASSIGN(const Secret fresh, Secret::FromEntropy());
    Digest bytes;
    std::memcpy(bytes.bytes.data(), fresh.bytes().data(), bytes.bytes.size());
    std::string text =
        fmt::format("{}\nsecret {}\nserves {}\n", kHeader, bytes.Hex(), binding.Hex());
    // Never over another one: of two processes that begin at once, one gets an error.
    LUCID_ASSIGN(File file, File::CreateNew(path, 0600));
    LUCID_TRY(file.WriteAt(0, std::as_bytes(std::span(text))));
    LUCID_TRY(file.Sync());
    LUCID_TRY(SyncFolderOf(path));
    sodium_memzero(text.data(), text.size());
    sodium_memzero(bytes.bytes.data(), bytes.bytes.size());
  }
  return Read(path, binding);
}

Result<std::uint64_t> OpenSeed(const std::string& path) {
  std::error_code ignored;
  std::uint64_t seed = 0;
  if (!std::filesystem::exists(path, ignored)) {
    LUCID_ASSIGN(const Secret fresh, Secret::FromEntropy());
    std::memcpy(&seed, fresh.bytes().data(), sizeof(seed));
    LUCID_TRY(WriteFileAtomically(path, fmt::format("{}\n{}\n", kSeedHeader, seed), 0600));
    return seed;
  }
  LUCID_ASSIGN(const std::string text, ReadTextFile(path, 4096));
  const std::string format = fmt::format("{}\n%{}", kSeedHeader, SCNu64);
  // NOLINTNEXTLINE(cert-err34-c): what was scanned must give the whole text again.
  std::sscanf(text.c_str(), format.c_str(), &seed);
  if (text == fmt::format("{}\n{}\n", kSeedHeader, seed)) return seed;
  return InvalidInput(fmt::format("'{}' is not a seed of this program, or damaged", path));
}

Digest DigestOf(const Secret& secret) {
  return Hasher().Text("lucid-secret-digest-1").Bytes(secret.bytes()).Finish();
}

}  // namespace lucid
