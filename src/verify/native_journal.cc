#include "verify/native_journal.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "base/files.h"
#include "base/hasher.h"

namespace lucid {
namespace {

constexpr std::string_view kFormat = "lucid-regions-1";

std::string SealOf(std::string_view content) {
  Hasher hasher;
  hasher.Bytes(std::as_bytes(std::span(content)));
  return hasher.Finish().Hex();
}

}  // namespace

Status NativeJournal::Save(const std::string& path, const Digest& key) const {
  const std::string text = EncodeCertificate(certificate);
  std::string content =
      fmt::format("{} {} {} {} {}\n", kFormat, key.Hex(), label, text.size(), regions.size());
  content += text;
  content += regions;
  content += SealOf(content);
  return WriteFileAtomically(path, content);
}

Result<NativeJournal> NativeJournal::Load(const std::string& path, const Digest& key) {
  LUCID_ASSIGN(const std::string content, ReadTextFile(path, std::uint64_t{1} << 33));
  const auto damaged = [&] {
    return InvalidInput(fmt::format("'{}' is damaged: start again without --resume", path));
  };
  const std::size_t seal = Digest{}.Hex().size();
  const std::size_t line = content.find('\n');
  if (line == std::string::npos || content.size() < line + 1 + seal) return damaged();
  const std::string_view whole(content);
  const std::string_view body = whole.substr(0, whole.size() - seal);
  if (SealOf(body) != whole.substr(body.size())) return damaged();
  std::istringstream first{std::string(whole.substr(0, line))};
  std::string format, owner;
  NativeJournal journal;
  std::size_t text = 0, regions = 0;
  if (!(first >> format >> owner >> journal.label >> text >> regions) || format != kFormat) {
    return damaged();
  }
  if (owner != key.Hex()) {
    return Mismatch(fmt::format(
        "'{}' belongs to another run or to other options: start again without --resume", path));
  }
  const std::string_view rest = body.substr(line + 1);
  if (text > rest.size() || regions != rest.size() - text) return damaged();
  LUCID_ASSIGN(journal.certificate, ParseCertificate(rest.substr(0, text), path));
  journal.regions = rest.substr(text);
  const auto classes = static_cast<std::int32_t>(journal.certificate.classes.size());
  if (journal.label < 0 || journal.label >= classes) return damaged();
  return journal;
}

}  // namespace lucid
