#include "guard/ledger_mark.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "guard/ledger_store.h"

namespace lucid {
namespace {

constexpr std::string_view kHeader = "lucid-ledger-mark-1\n";
constexpr std::size_t kBytes = kHeader.size() + 2 * (7 + 32 + 1) + 8 + 20 + 1;

std::string Encode(const LedgerMark::Entry& entry) {
  return fmt::format("{}ledger {}\nserver {}\ncommits {:020}\n", kHeader, HexOf(entry.ledger),
                     HexOf(entry.server), entry.commits);
}

bool TakeName(std::string_view& text, std::string_view field, LedgerName& name) {
  if (!text.starts_with(field) || text.size() < field.size() + 33) return false;
  const std::string_view digits = text.substr(field.size(), 32);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char* first = digits.data() + 2 * i;
    const auto [end, code] = std::from_chars(first, first + 2, name[i], 16);
    if (code != std::errc() || end != first + 2) return false;
  }
  text.remove_prefix(field.size() + 33);
  return true;
}

// Whatever reads back as it stands there; anything else is refused.
std::optional<LedgerMark::Entry> Decode(std::string_view text) {
  LedgerMark::Entry entry;
  const std::string_view whole = text;
  if (!text.starts_with(kHeader)) return std::nullopt;
  text.remove_prefix(kHeader.size());
  if (!TakeName(text, "ledger ", entry.ledger) || !TakeName(text, "server ", entry.server)) {
    return std::nullopt;
  }
  if (!text.starts_with("commits ")) return std::nullopt;
  text.remove_prefix(8);
  std::from_chars(text.data(), text.data() + text.size(), entry.commits);
  return Encode(entry) == whole ? std::optional(entry) : std::nullopt;
}

Result<std::optional<LedgerMark::Entry>> Read(const File& file) {
  LUCID_ASSIGN(const std::uint64_t size, file.Size());
  if (size == 0) return std::optional<LedgerMark::Entry>();
  std::string text(kBytes, '\0');
  if (size == kBytes) {
    LUCID_TRY(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
    if (auto entry = Decode(text)) return entry;
  }
  return InvalidInput(
      fmt::format("'{}' is not the mark of a ledger, or damaged: without it a restored ledger is "
                  "not noticed; look at lucid ledger show, then remove it",
                  file.path()));
}

}  // namespace

Result<std::optional<LedgerMark::Entry>> LedgerMark::Peek(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::optional<Entry>();
  LUCID_ASSIGN(const File file, File::OpenToRead(path));
  return Read(file);
}

Result<LedgerMark> LedgerMark::Open(const std::string& path) {
  LedgerMark mark;
  mark.path_ = path;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return IoError(
        fmt::format("cannot open '{}', where this server remembers its ledger: {}; name "
                    "a file that it may write with the option ledger_mark",
                    path, std::strerror(errno)));
  }
  mark.file_ = File::Adopt(fd, path);
  if (const Status locked = mark.file_->Lock(); !locked.ok()) {
    return IoError(
        fmt::format("'{}' is the mark of a server that runs: give this one a file of "
                    "its own with the option ledger_mark",
                    path));
  }
  LUCID_ASSIGN(mark.entry_, Read(*mark.file_));
  return mark;
}

Status LedgerMark::Write(const Entry& entry) {
  if (!file_) return Ok();
  const std::string text = Encode(entry);  // in place: fewer bytes than a disk writes at once
  LUCID_TRY(file_->WriteAt(0, std::as_bytes(std::span(text))));
  LUCID_TRY(file_->Sync());
  written_ = std::chrono::steady_clock::now();
  return Ok();
}

void LedgerMark::WriteNowAndThen(const Entry& entry) {
  const auto now = std::chrono::steady_clock::now();
  if (now - written_ < std::chrono::seconds(1)) return;
  written_ = now;
  static_cast<void>(Write(entry));
}

}  // namespace lucid
