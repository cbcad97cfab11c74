#include "certificate/proof_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "certificate/proof_cases.h"
#include "certificate/proof_format.h"

namespace lucid {
namespace {

using namespace proof_format;  // NOLINT(google-build-using-namespace): this file is that format

constexpr std::uint32_t kMaxIndex = std::numeric_limits<std::int32_t>::max();

// The rest of a split's record. Empty: it is one that a writer makes.
std::string ReadSplit(ByteCursor& in, std::uint8_t how, ProofSplit& split) {
  using enum ProofSplit::How;
  const auto layer = in.Take<std::uint32_t>(), unit = in.Take<std::uint32_t>();
  split.at = in.Take<double>();
  split.first_child = in.Take<std::uint64_t>();
  if (how < static_cast<std::uint8_t>(kInput) || how > static_cast<std::uint8_t>(kMemberPhase)) {
    return fmt::format("split {}", how);
  }
  split.how = static_cast<ProofSplit::How>(how);
  if (layer > kMaxIndex || unit > kMaxIndex) return fmt::format("layer {}, unit {}", layer, unit);
  split.layer = static_cast<std::int32_t>(layer);
  split.unit = static_cast<std::int32_t>(unit);
  if (!std::isfinite(split.at)) return "a split at no number";
  const bool input = split.how == kInput;
  if ((input && layer != 0) || (!input && (split.at != 0 || std::signbit(split.at)))) {
    return "numbers that its split does not use";
  }
  if (split.first_child == std::numeric_limits<std::uint64_t>::max()) return "no second child";
  return "";
}

std::string ReadBand(ByteCursor& in, ProofClosing& closing) {
  ProofBand& band = closing.band.emplace();
  band.least = in.Take<double>();
  band.most = in.Take<double>();
  if (!std::isfinite(band.least) || band.least < 0 || !(band.most >= band.least)) {
    return fmt::format("a band from {} to {}", band.least, band.most);
  }
  return "";
}

// Multipliers, as many as it says.
std::string ReadMultipliers(ByteCursor& in, ProofClosing& closing) {
  const auto count = in.Take<std::uint32_t>();
  if (count > in.left() / sizeof(float)) return fmt::format("{} multipliers", count);
  closing.multipliers.resize(count);
  for (float& value : closing.multipliers) {
    value = in.Take<float>();
    if (!std::isfinite(value)) return "a multiplier that is no number";
  }
  return "";
}

// What N's confidence is measured against: a class, or the weights of a mixture.
std::string ReadBelow(ByteCursor& in, bool mixed, std::int32_t classes, std::int32_t label,
                      ProofClosing& closing) {
  if (mixed) {
    closing.weights.resize(static_cast<std::size_t>(classes));
    for (std::uint8_t& weight : closing.weights) weight = in.Take<std::uint8_t>();
    return in.ok() ? ProblemOfWeights(closing.weights, classes, label) : "";
  }
  const auto below = in.Take<std::uint32_t>();
  if (below > kMaxIndex) return fmt::format("N against class {}", below);
  closing.below = static_cast<std::int32_t>(below);
  return "";
}

// `what`: the kind and its flags.
std::string ReadClosing(ByteCursor& in, std::uint8_t what, std::int32_t classes, std::int32_t label,
                        ProofClosing& closing) {
  using enum ProofClosing::Kind;
  const auto member = in.Take<std::uint32_t>(), other = in.Take<std::uint32_t>();
  const auto kind = static_cast<std::uint8_t>(what & ~(kBandFlag | kMixedFlag));
  if (kind > static_cast<std::uint8_t>(kWindows)) return fmt::format("kind {} of closing", kind);
  closing.kind = static_cast<ProofClosing::Kind>(kind);
  const bool lines = closing.kind == kLines || closing.kind == kMultipliers;
  const bool mixed = (what & kMixedFlag) != 0;
  if (mixed && !lines) return fmt::format("weights that a closing of kind {} does not use", kind);
  const bool every = member == kEveryMember && closing.kind == kNoInput;
  if ((member > kMaxIndex && !every) || other > kMaxIndex || (every && other != 0)) {
    return fmt::format("member {}, class {}", member, other);
  }
  closing.member = every ? ProofClosing::kEveryPair : static_cast<std::int32_t>(member);
  closing.other = static_cast<std::int32_t>(other);
  if ((what & kBandFlag) != 0) {
    if (std::string problem = ReadBand(in, closing); !problem.empty()) return problem;
    if (every && !std::isinf(closing.band->most)) return "something known of every pair";
  }
  if (closing.kind == kNoInput) return "";
  closing.value = in.Take<double>();
  if (!std::isfinite(closing.value) || closing.value < 0) {
    return fmt::format("a bound of {}", closing.value);
  }
  if (lines) {
    if (std::string problem = ReadBelow(in, mixed, classes, label, closing); !problem.empty()) {
      return problem;
    }
    closing.lambda = in.Take<double>();
    if (!std::isfinite(closing.lambda) || closing.lambda < 0) {
      return fmt::format("lambda {}", closing.lambda);
    }
  }
  if (closing.kind == kMultipliers || closing.kind == kMoments) return ReadMultipliers(in, closing);
  return closing.kind == kWindows ? ReadCases(in, closing.cases) : "";
}

// Empty, or what is wrong with the record.
std::string ReadRecord(ByteCursor& in, std::uint32_t version, std::int32_t classes,
                       ProofRecord& record) {
  const auto kind = in.Take<std::uint8_t>();
  const auto detail = in.Take<std::uint8_t>();
  const auto label = in.Take<std::uint32_t>();
  const auto node = in.Take<std::uint64_t>();
  if (label >= static_cast<std::uint32_t>(classes)) return fmt::format("class {}", label);
  record.label = static_cast<std::int32_t>(label);
  std::string problem;
  if (kind == kSplitRecord) {
    ProofSplit& split = record.what.emplace<ProofSplit>();
    split.node = node;
    problem = ReadSplit(in, detail, split);
  } else if (kind == kClosingRecord) {
    ProofClosing& closing = record.what.emplace<ProofClosing>();
    closing.node = node;
    if (version < kMixedVersion && (detail & kMixedFlag) != 0) {
      return fmt::format("weights, which version {} does not have", version);
    }
    problem = ReadClosing(in, detail, classes, record.label, closing);
  } else {
    return fmt::format("kind {}", kind);
  }
  return in.ok() ? problem : "fewer bytes than it needs";
}

}  // namespace

Result<ProofFile> ProofFile::Open(const std::string& path) {
  LUCID_ASSIGN(MappedFile mapped, MappedFile::Open(path));
  const std::string_view bytes(reinterpret_cast<const char*>(mapped.bytes().data()),
                               mapped.bytes().size());
  LUCID_ASSIGN(ProofFile file, Parse(bytes, path));
  file.file_ = std::move(mapped);
  return file;
}

Result<ProofFile> ProofFile::Parse(std::string_view bytes, const std::string& source) {
  if (bytes.size() < kHeaderBytes + kBlockHeader + kFooterBytes || !bytes.starts_with(kMagic)) {
    return InvalidInput(fmt::format("{}: truncated, or not a LUCID proof", source));
  }
  const std::string_view sealed = bytes.substr(0, bytes.size() - kSealBytes);
  const Digest seal = Sha256Of(sealed);
  if (!std::ranges::equal(bytes.substr(sealed.size()), seal.bytes, [](char a, std::uint8_t b) {
        return static_cast<std::uint8_t>(a) == b;
      })) {
    return Mismatch(fmt::format(
        "{}: the seal at its end is not that of its content: edited, truncated or damaged",
        source));
  }
  ProofFile file;
  file.bytes_ = bytes;
  file.source_ = source;
  file.seal_ = seal;
  ByteCursor in(bytes.substr(kMagic.size(), kHeaderBytes - kMagic.size()));
  file.version_ = in.Take<std::uint32_t>();
  if (file.version_ != kVersion && file.version_ != kMixedVersion) {
    return InvalidInput(fmt::format("{}: version {}, this program reads {} and {}", source,
                                    file.version_, kVersion, kMixedVersion));
  }
  const auto classes = in.Take<std::uint32_t>();
  if (file.version_ > VersionFor(classes)) {
    return InvalidInput(
        fmt::format("{}: version {} of {} classes: not possible", source, file.version_, classes));
  }
  file.header_.member_error = in.Take<double>();
  in.Take(file.header_.network_digest.bytes);
  in.Take(file.header_.ensemble_digest.bytes);
  if (classes < 1 || classes > kMaxIndex || !std::isfinite(file.header_.member_error) ||
      std::signbit(file.header_.member_error)) {
    return InvalidInput(fmt::format("{}: {} classes and a members' error of {} are not possible",
                                    source, classes, file.header_.member_error));
  }
  file.header_.classes = static_cast<std::int32_t>(classes);

  std::uint64_t at = kHeaderBytes;
  const std::uint64_t end = bytes.size() - kFooterBytes;
  while (true) {
    if (end - at < kBlockHeader) {
      return InvalidInput(fmt::format("{}: block {} is cut off", source, file.blocks_.size()));
    }
    ByteCursor head(bytes.substr(at, kBlockHeader));
    at += kBlockHeader;
    const auto packed = head.Take<std::uint32_t>(), raw = head.Take<std::uint32_t>();
    if (packed == 0 && raw == 0) break;
    if (packed == 0 || packed > end - at || raw == 0 || raw > kBlockLimit) {
      return InvalidInput(fmt::format("{}: block {} of {} bytes, {} unpacked: not possible", source,
                                      file.blocks_.size(), packed, raw));
    }
    file.blocks_.push_back({at, packed, raw});
    at += packed;
  }
  if (at != end) {
    return InvalidInput(fmt::format("{}: {} bytes after the last block", source, end - at));
  }
  ByteCursor footer(bytes.substr(end));
  file.splits_ = footer.Take<std::uint64_t>();
  file.closings_ = footer.Take<std::uint64_t>();
  return file;
}

std::string_view ProofFile::packed() const {
  return bytes_.substr(kHeaderBytes, bytes_.size() - kHeaderBytes - kBlockHeader - kFooterBytes);
}

Result<std::vector<ProofRecord>> ProofFile::ReadBlock(std::size_t block) const {
  const Block& b = blocks_[block];
  std::string raw(b.raw, '\0');
  uLongf size = b.raw;
  uLong used = b.packed;
  const int code = ::uncompress2(reinterpret_cast<Bytef*>(raw.data()), &size,
                                 reinterpret_cast<const Bytef*>(bytes_.data() + b.at), &used);
  if (code != Z_OK || size != b.raw || used != b.packed) {
    return InvalidInput(fmt::format("{}: block {} cannot be unpacked", source_, block));
  }
  std::vector<ProofRecord> records;
  ByteCursor in(raw);
  while (in.left() > 0) {
    const std::size_t at = raw.size() - in.left();
    const std::string problem = ReadRecord(in, version_, header_.classes, records.emplace_back());
    if (!problem.empty()) {
      return InvalidInput(
          fmt::format("{}: block {}, byte {}: a record with {}", source_, block, at, problem));
    }
  }
  return records;
}

}  // namespace lucid
