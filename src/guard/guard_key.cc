#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "guard/sodium.h"
#include "lucid/guard/guard.h"

namespace lucid {
namespace {

// The file: this line, then 64 lower-case hex digits and a line end.
constexpr std::string_view kHeader = "lucid-guard-key-1\n";
constexpr std::size_t kDigits = 64;
constexpr std::size_t kFileBytes = kHeader.size() + kDigits + 1;

// Text that holds a secret: wiped when it goes.
struct SecretText {
  std::array<char, kFileBytes> bytes{};

  SecretText() = default;
  ~SecretText() { sodium_memzero(bytes.data(), bytes.size()); }
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
};

Error KeyError(std::string_view action, const std::string& path, int code) {
  return IoError(fmt::format("cannot {} the key file '{}': {}", action, path, std::strerror(code)));
}

// Only this user (or root) may read it, or whoever could would know all noise beforehand.
Status CheckOwner(const struct stat& info, const std::string& path) {
  if (!S_ISREG(info.st_mode)) {
    return InvalidInput(fmt::format("key file '{}' is not a regular file", path));
  }
  if ((info.st_mode & 077) != 0) {
    return InvalidInput(
        fmt::format("key file '{}' has mode {:04o}: others may read or change it, and the noise is "
                    "no secret; if they have not, chmod 600 it, else delete it",
                    path, info.st_mode & 07777));
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return InvalidInput(fmt::format("key file '{}' belongs to user {}, must be this one's ({})",
                                    path, info.st_uid, ::geteuid()));
  }
  return Ok();
}

bool ParseKey(std::string_view text, std::span<std::uint8_t, 32> out) {
  if (!text.starts_with(kHeader) || !text.ends_with('\n')) return false;
  const std::string_view digits = text.substr(kHeader.size(), kDigits);
  if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return false;
  return sodium_hex2bin(out.data(), out.size(), digits.data(), digits.size(), nullptr, nullptr,
                        nullptr) == 0;
}

// False if there is no such file.
Result<bool> ReadKey(const std::string& path, std::span<std::uint8_t, 32> out) {
  // A pipe that nobody writes to must not keep the program waiting.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return false;
  if (fd < 0) return KeyError("open", path, errno);
  const File file = File::Adopt(fd, path);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return KeyError("read", path, errno);
  LUCID_TRY(CheckOwner(info, path));
  SecretText text;
  const bool fits = info.st_size == static_cast<off_t>(text.bytes.size());
  if (fits) LUCID_TRY(file.ReadAt(0, std::as_writable_bytes(std::span(text.bytes))));
  if (fits && ParseKey({text.bytes.data(), text.bytes.size()}, out)) return true;
  return InvalidInput(
      fmt::format("key file '{}' is not a guard key (a line 'lucid-guard-key-1', a line of 64 hex "
                  "digits): truncated, edited, or another file",
                  path));
}

// Gives a new key the name `path` unless something has it already, whoever was first. A reader
// never sees half a key: the name comes after the content.
Status WriteKey(const std::string& path, std::span<const std::uint8_t, 32> key) {
  SecretText text;
  std::array<char, kDigits + 1> hex{};
  sodium_bin2hex(hex.data(), hex.size(), key.data(), key.size());
  fmt::format_to(text.bytes.begin(), "{}{}\n", kHeader, std::string_view(hex.data(), kDigits));
  sodium_memzero(hex.data(), hex.size());

  const std::string temporary =
      fmt::format("{}.tmp-{}-{:08x}", path, ::getpid(), randombytes_random());
  const int fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return KeyError("create", path, errno);
  File file = File::Adopt(fd, temporary);
  Status written = file.WriteAt(0, std::as_bytes(std::span(text.bytes)));
  // Whatever the umask took away.
  if (written.ok() && ::fchmod(fd, 0600) != 0) written = KeyError("create", path, errno);
  if (written.ok()) written = file.Sync();
  if (written.ok() && ::link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    written = KeyError("create", path, errno);
  }
  ::unlink(temporary.c_str());
  if (written.ok()) written = SyncFolderOf(path);
  return written;
}

}  // namespace

Status PrepareSodium() {
  if (sodium_init() >= 0) return Ok();
  return InternalError("libsodium cannot be initialised");
}

GuardKey GuardKey::Random() {
  GuardKey key;
  randombytes_buf(key.bytes_.data(), key.bytes_.size());
  return key;
}

GuardKey::~GuardKey() { sodium_memzero(bytes_.data(), bytes_.size()); }

std::array<std::uint8_t, 16> GuardKey::Name() const {
  constexpr std::string_view kMessage = "lucid guard key name 1";
  std::array<std::uint8_t, 16> name{};
  crypto_generichash(name.data(), name.size(),
                     reinterpret_cast<const unsigned char*>(kMessage.data()), kMessage.size(),
                     bytes_.data(), bytes_.size());
  return name;
}

Result<GuardKey> GuardKey::Load(const std::string& path) {
  LUCID_TRY(PrepareSodium());
  GuardKey key;
  LUCID_ASSIGN(const bool found, ReadKey(path, key.bytes_));
  if (found) return key;
  return KeyError("open", path, ENOENT);
}

Result<GuardKey> GuardKey::LoadOrCreate(const std::string& path) {
  LUCID_TRY(PrepareSodium());
  GuardKey key;
  LUCID_ASSIGN(const bool found, ReadKey(path, key.bytes_));
  if (found) return key;
  LUCID_TRY(WriteKey(path, Random().bytes_));
  // What has the name now is the key, ours or that of another process which came first.
  LUCID_ASSIGN(const bool there, ReadKey(path, key.bytes_));
  if (there) return key;
  return IoError(fmt::format("key file '{}' was removed while it was made", path));
}

}  // namespace lucid
