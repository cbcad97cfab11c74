#include "native/native_journal.h"

#include <fmt/format.h>

#include <sstream>

#include "base/files.h"
#include "base/hasher.h"

namespace lucid {
namespace {

// Journals of the first format are refused, because the engine of that time certified bounds that
// were too low (CHANGELOG.md).
constexpr std::string_view kFormat = "lucid-regions-4";

std::string SealOf(std::string_view content) {
  Hasher hasher;
  hasher.Bytes(std::as_bytes(std::span(content)));
  return hasher.Finish().Hex();
}

}  // namespace

Status NativeJournal::Save(const std::string& path, const Digest& key) const {
  const std::string text = EncodeCertificate(certificate);
  std::string content = fmt::format("{} {} {} {}", kFormat, key.Hex(), text.size(), regions.size());
  for (const std::string& own : regions) content += fmt::format(" {}", own.size());
  for (const Digest& seal : proof_parts) content += ' ' + seal.Hex();
  content += '\n';
  content += text;
  for (const std::string& own : regions) content += own;
  content += SealOf(content);
  return WriteFileAtomically(path, content);
}

Result<NativeJournal> NativeJournal::Load(const std::string& path, const Digest& key) {
  LUCID_ASSIGN(const std::string content, ReadTextFile(path, std::uint64_t{1} << 33));
  const auto damaged = [&] {
    return InvalidInput(fmt::format("'{}' is damaged: start anew", path));
  };
  const std::size_t seal = Digest{}.Hex().size();
  const std::size_t line = content.find('\n');
  if (line == std::string::npos || content.size() < line + 1 + seal) return damaged();
  const std::string_view whole(content);
  const std::string_view body = whole.substr(0, whole.size() - seal);
  if (SealOf(body) != whole.substr(body.size())) return damaged();
  std::istringstream first{std::string(whole.substr(0, line))};
  std::string format, owner;
  std::size_t text = 0, classes = 0;
  NativeJournal journal;
  if (!(first >> format)) return damaged();
  if (format != kFormat) {
    return Mismatch(fmt::format(
        "'{}' was written by another version of the engine ({}, this one writes {}): start anew",
        path, format, kFormat));
  }
  if (!(first >> owner >> text >> classes)) return damaged();
  if (owner != key.Hex()) {
    return Mismatch(
        fmt::format("'{}' belongs to another run or to other options: start anew", path));
  }
  std::string_view rest = body.substr(line + 1);
  if (text > rest.size()) return damaged();
  LUCID_ASSIGN(journal.certificate, ParseCertificate(rest.substr(0, text), path));
  rest.remove_prefix(text);
  if (classes != journal.certificate.classes.size()) return damaged();
  for (std::size_t label = 0; label < classes; ++label) {
    std::size_t size = 0;
    if (!(first >> size) || size > rest.size()) return damaged();
    journal.regions.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  if (!rest.empty()) return damaged();
  for (std::string seal; first >> seal;) {
    const Result<Digest> part = Digest::FromHex(seal);
    if (!part.ok()) return damaged();
    journal.proof_parts.push_back(*part);
  }
  return journal;
}

}  // namespace lucid
