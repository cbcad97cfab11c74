#include "paper/journal.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string_view>

#include "base/hasher.h"
#include "base/number_text.h"

namespace lucid {
namespace {

constexpr std::string_view kFormat = "lucid-bound-journal-1";

std::string Sealed(const std::string& line) {
  return fmt::format("{} {}\n", line, Sha256Of(line).Hex().substr(0, 16));
}

// The line without its seal, or nothing if the seal is wrong.
std::optional<std::string_view> Unsealed(std::string_view line) {
  const std::size_t at = line.rfind(' ');
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view content = line.substr(0, at);
  if (Sha256Of(content).Hex().substr(0, 16) != line.substr(at + 1)) return std::nullopt;
  return content;
}

}  // namespace

Digest SubsetDigest(std::int32_t label, const Subset& subset) {
  Hasher hasher;
  hasher.Number(static_cast<std::uint64_t>(label)).Number(subset.size());
  hasher.Bytes(std::as_bytes(std::span(subset)));
  return hasher.Finish();
}

Result<SubsetJournal> SubsetJournal::Open(const std::string& path, const Digest& key, bool resume) {
  const std::string header = fmt::format("{} {}\n", kFormat, key.Hex());
  if (std::filesystem::exists(path) && !resume) {
    LUCID_ASSIGN(File old, File::OpenToUpdate(path));
    LUCID_TRY(old.Lock());  // no other process is writing it
    LUCID_TRY(RenameDurably(path, path + ".old"));
  }
  if (!std::filesystem::exists(path)) {
    LUCID_ASSIGN(File file, File::CreateLocked(path));
    SubsetJournal journal(std::move(file));
    LUCID_TRY(journal.Write(header));
    return journal;
  }
  LUCID_ASSIGN(File file, File::OpenToUpdate(path));
  LUCID_TRY(file.Lock());
  LUCID_ASSIGN(const std::string text, ReadTextFile(path));
  if (!header.starts_with(text) && !text.starts_with(header)) {
    return Mismatch(
        fmt::format("'{}' is the journal of another search (another run, variant, tau, gap, seed "
                    "or version): use the same options, or start anew without the option resume",
                    path));
  }
  SubsetJournal journal(std::move(file));
  if (text.size() < header.size()) {  // killed while the first line was written
    LUCID_TRY(journal.Write(header));
    return journal;
  }
  LUCID_ASSIGN(journal.end_, journal.Read(text));
  std::error_code error;
  std::filesystem::resize_file(path, journal.end_, error);
  if (error) return IoError(fmt::format("cannot shorten '{}': {}", path, error.message()));
  return journal;
}

// Returns where the first damaged line (or the end) is.
Result<std::uint64_t> SubsetJournal::Read(const std::string& text) {
  std::size_t at = text.find('\n') + 1;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    const auto content = Unsealed(std::string_view(text).substr(at, end - at));
    if (!content) break;
    char hex[65] = {}, number[64] = {};
    int timed_out = 0;
    Record record;
    long long nodes = 0, unproved = 0;
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the seal was right
    if (std::sscanf(std::string(*content).c_str(), "%64s %63s %d %lf %lld %lld", hex, number,
                    &timed_out, &record.limit, &nodes, &unproved) != 6) {
      break;
    }
    const Result<Digest> digest = Digest::FromHex(hex);
    if (!digest.ok()) break;
    record.bound = {std::strtod(number, nullptr), true, timed_out != 0, nodes, unproved};
    records_.insert_or_assign(*digest, record);
    at = end + 1;
  }
  return at;
}

std::optional<SubsetBound> SubsetJournal::Find(const Digest& subset, double limit) const {
  const std::scoped_lock lock(*mutex_);
  const auto found = records_.find(subset);
  if (found == records_.end()) return std::nullopt;
  if (found->second.bound.timed_out && found->second.limit < limit) return std::nullopt;
  return found->second.bound;
}

Status SubsetJournal::Append(const Digest& subset, const SubsetBound& bound, double limit) {
  const std::scoped_lock lock(*mutex_);
  records_.insert_or_assign(subset, Record{bound, limit});
  return Write(Sealed(fmt::format("{} {} {} {} {} {}", subset.Hex(), HexText(bound.bound),
                                  bound.timed_out ? 1 : 0, ShortestText(limit), bound.nodes,
                                  bound.unproved)));
}

Status SubsetJournal::Write(const std::string& line) {
  LUCID_TRY(file_.WriteAt(end_, std::as_bytes(std::span(line))));
  LUCID_TRY(file_.Sync());
  end_ += line.size();
  return Ok();
}

Status SubsetJournal::Remove() {
  std::error_code error;
  std::filesystem::remove(file_.path(), error);
  if (error) return IoError(fmt::format("cannot remove '{}': {}", file_.path(), error.message()));
  return Ok();
}

}  // namespace lucid
