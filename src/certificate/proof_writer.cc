#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/bytes.h"
#include "base/files.h"
#include "base/hasher.h"
#include "certificate/proof_cases.h"
#include "certificate/proof_format.h"
#include "certificate/proof_reader.h"
#include "lucid/certificate/proof.h"

namespace lucid {
namespace {

using namespace proof_format;  // NOLINT(google-build-using-namespace): this file is that format

constexpr std::size_t kLargestRecord = kBlockLimit - kBlockGoal;
constexpr int kCompression = 3;  // duals are mostly zeros: more effort gains little

bool HasLambda(const ProofClosing& closing) {
  using enum ProofClosing::Kind;
  return closing.kind == kLines || closing.kind == kMultipliers;
}
bool HasMultipliers(const ProofClosing& closing) {
  using enum ProofClosing::Kind;
  return closing.kind == kMultipliers || closing.kind == kMoments;
}

// A record that no reader would accept is not written, because the mistake would be found much
// later.
Status CheckClosing(const ProofClosing& closing, std::int32_t label, std::int32_t classes) {
  const bool every = closing.member == ProofClosing::kEveryPair &&
                     closing.kind == ProofClosing::Kind::kNoInput &&
                     (!closing.band || std::isinf(closing.band->most));
  if ((closing.member < 0 && !every) || closing.other < 0) {
    return InvalidInput(fmt::format("a closing of member {} and class {}: both must be >= 0",
                                    closing.member, closing.other));
  }
  if (closing.band && (!(closing.band->least >= 0) || !std::isfinite(closing.band->least) ||
                       !(closing.band->most >= closing.band->least))) {
    return InvalidInput(fmt::format("a closing of member {} with a band from {} to {}",
                                    closing.member, closing.band->least, closing.band->most));
  }
  if (closing.kind == ProofClosing::Kind::kNoInput) return Ok();
  if (!(closing.value >= 0) || !std::isfinite(closing.value)) {
    return InvalidInput(fmt::format("a closing of member {} with a bound of {}: must be >= 0",
                                    closing.member, closing.value));
  }
  if (!closing.weights.empty()) {
    const std::string problem = !HasLambda(closing) || closing.below != -1 || classes <= 2
                                    ? "weights that it does not use"
                                    : ProblemOfWeights(closing.weights, classes, label);
    if (!problem.empty()) {
      return InvalidInput(fmt::format("a closing of member {} with {}", closing.member, problem));
    }
  } else if (HasLambda(closing) && closing.below < 0) {
    return InvalidInput(
        fmt::format("a closing of member {} measures N against class {}: must be >= 0",
                    closing.member, closing.below));
  }
  if (HasLambda(closing) && (!(closing.lambda >= 0) || !std::isfinite(closing.lambda))) {
    return InvalidInput(
        fmt::format("lambda of member {} is {}, must be >= 0", closing.member, closing.lambda));
  }
  for (const float value : closing.multipliers) {
    if (!std::isfinite(value)) {
      return InvalidInput(
          fmt::format("a multiplier of member {} is {}: not a number", closing.member, value));
    }
  }
  if (closing.kind != ProofClosing::Kind::kWindows) return Ok();
  if (const std::string problem = ProblemOfCases(closing.cases); !problem.empty()) {
    return InvalidInput(fmt::format("a closing of member {} with {}", closing.member, problem));
  }
  return Ok();
}

Status CheckSplit(const ProofSplit& split) {
  using enum ProofSplit::How;
  if (split.how < kInput || split.how > kMemberPhase || split.layer < 0 || split.unit < 0 ||
      !std::isfinite(split.at)) {
    return InvalidInput(fmt::format("node {} has no valid split: layer {}, unit {}, at {}",
                                    split.node, split.layer, split.unit, split.at));
  }
  return Ok();
}

void PutRecord(std::string& out, const ProofSplit& split) {
  // There is one spelling of every split: what its kind does not use is 0.
  const bool input = split.how == ProofSplit::How::kInput;
  PutBytes(out, static_cast<std::uint32_t>(input ? 0 : split.layer));
  PutBytes(out, static_cast<std::uint32_t>(split.unit));
  PutBytes(out, input && split.at != 0 ? split.at : 0.0);
  PutBytes(out, split.first_child);
}

void PutRecord(std::string& out, const ProofClosing& closing) {
  PutBytes(out, closing.member == ProofClosing::kEveryPair
                    ? kEveryMember
                    : static_cast<std::uint32_t>(closing.member));
  PutBytes(out, static_cast<std::uint32_t>(closing.other));
  if (closing.band) {
    PutBytes(out, closing.band->least);
    PutBytes(out, closing.band->most);
  }
  if (closing.kind == ProofClosing::Kind::kNoInput) return;
  PutBytes(out, closing.value);
  if (HasLambda(closing)) {
    if (closing.weights.empty()) PutBytes(out, static_cast<std::uint32_t>(closing.below));
    for (const std::uint8_t weight : closing.weights) PutBytes(out, weight);
    PutBytes(out, closing.lambda);
  }
  if (closing.kind == ProofClosing::Kind::kWindows) PutCases(out, closing.cases);
  if (!HasMultipliers(closing)) return;
  PutBytes(out, static_cast<std::uint32_t>(closing.multipliers.size()));
  out.append(reinterpret_cast<const char*>(closing.multipliers.data()),
             closing.multipliers.size() * sizeof(float));
}

void PutStart(std::string& out, std::uint8_t kind, std::uint8_t detail, std::int32_t label,
              std::uint64_t node) {
  PutBytes(out, kind);
  PutBytes(out, detail);
  PutBytes(out, static_cast<std::uint32_t>(label));
  PutBytes(out, node);
}

}  // namespace

std::string ProblemOfWeights(std::span<const std::uint8_t> weights, std::int64_t classes,
                             std::int32_t label) {
  if (std::ssize(weights) != classes) {
    return fmt::format("weights of {} classes, there are {}", weights.size(), classes);
  }
  if (weights[static_cast<std::size_t>(label)] != 0) {
    return fmt::format("a weight of {} on its own class {}",
                       weights[static_cast<std::size_t>(label)], label);
  }
  const int sum = std::accumulate(weights.begin(), weights.end(), 0);
  if (sum != kWholeWeight) {
    return fmt::format("weights that add up to {}, not {}", sum, kWholeWeight);
  }
  return "";
}

bool FitsIntoProof(const ProofClosing& closing) {
  std::string bytes;
  PutStart(bytes, kClosingRecord, 0, 0, closing.node);
  PutRecord(bytes, closing);
  return bytes.size() <= kLargestRecord;
}

struct ProofWriter::Impl {
  Impl(std::string final_path, File opened, const ProofHeader& of)
      : path(std::move(final_path)), file(std::move(opened)), header(of) {}
  ~Impl() {
    if (!finished) ::unlink(file.path().c_str());
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // An error means that something was left out.
  template <class Added>
  Added Keep(Added added) {
    broken = broken || !added.ok();
    return added;
  }

  Status Write(std::string_view data) {
    const auto bytes = std::as_bytes(std::span(data));
    LUCID_TRY(file.WriteAt(offset, bytes));
    hasher.Bytes(bytes);
    offset += bytes.size();
    return Ok();
  }

  // Takes one record into the block, and packs the block when it is large enough.
  Status Append(const std::string& record) {
    if (record.size() > kLargestRecord) {
      return InvalidInput(fmt::format("{}: a record of {} bytes, the limit is {}", path,
                                      record.size(), kLargestRecord));
    }
    block += record;
    return block.size() >= kBlockGoal ? Flush() : Ok();
  }

  Status Flush() {
    if (block.empty()) return Ok();
    uLongf size = ::compressBound(block.size());
    std::string packed(size, '\0');
    if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                    reinterpret_cast<const Bytef*>(block.data()), block.size(),
                    kCompression) != Z_OK) {
      return InternalError(fmt::format("{}: zlib refused {} bytes", path, block.size()));
    }
    std::string head;
    PutBytes(head, static_cast<std::uint32_t>(size));
    PutBytes(head, static_cast<std::uint32_t>(block.size()));
    LUCID_TRY(Write(head));
    LUCID_TRY(Write(std::string_view(packed).substr(0, size)));
    block.clear();
    return Ok();
  }

  Status CheckLabel(std::int32_t label) const {
    if (label >= 0 && label < header.classes) return Ok();
    return InvalidInput(
        fmt::format("a record of class {}, must be from 0 to {}", label, header.classes - 1));
  }
  Status Add(std::int32_t label, const ProofSplit& split) {
    LUCID_TRY(CheckLabel(label));
    LUCID_TRY(CheckSplit(split));
    std::string record;
    PutStart(record, kSplitRecord, static_cast<std::uint8_t>(split.how), label, split.node);
    PutRecord(record, split);
    LUCID_TRY(Append(record));
    ++splits;
    return Ok();
  }
  Status Add(std::int32_t label, const ProofClosing& closing) {
    LUCID_TRY(CheckLabel(label));
    LUCID_TRY(CheckClosing(closing, label, header.classes));
    std::string record;
    const int flags = (closing.band ? kBandFlag : 0) | (closing.weights.empty() ? 0 : kMixedFlag);
    PutStart(record, kClosingRecord,
             static_cast<std::uint8_t>(static_cast<int>(closing.kind) | flags), label,
             closing.node);
    PutRecord(record, closing);
    LUCID_TRY(Append(record));
    ++closings;
    return Ok();
  }
  Status AddAll(const std::string& part) {
    LUCID_ASSIGN(const ProofFile other, ProofFile::Open(part));
    if (!(other.header() == header)) {
      return Mismatch(fmt::format(
          "{}: a proof of other networks or of another members' error than {}", part, path));
    }
    LUCID_TRY(Flush());
    LUCID_TRY(Write(other.packed()));
    splits += other.splits();
    closings += other.closings();
    return Ok();
  }

  Result<Digest> Finish() {
    LUCID_TRY(Flush());
    std::string end(kBlockHeader, '\0');
    PutBytes(end, splits);
    PutBytes(end, closings);
    LUCID_TRY(Write(end));
    const Digest seal = hasher.Finish();
    LUCID_TRY(file.WriteAt(offset, std::as_bytes(std::span(seal.bytes))));
    LUCID_TRY(file.Sync());
    LUCID_TRY(RenameDurably(file.path(), path));
    finished = true;
    return seal;
  }

  std::string path;
  File file;
  ProofHeader header;
  Hasher hasher;
  std::uint64_t offset = 0, splits = 0, closings = 0;
  std::string block;
  bool broken = false, finished = false;  // broken: something was left out, so nothing is sealed
};

ProofWriter::ProofWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ProofWriter::~ProofWriter() = default;
ProofWriter::ProofWriter(ProofWriter&&) noexcept = default;
ProofWriter& ProofWriter::operator=(ProofWriter&&) noexcept = default;

Result<ProofWriter> ProofWriter::Create(const std::string& path, const ProofHeader& header) {
  if (header.classes < 1 || !(header.member_error >= 0) || !std::isfinite(header.member_error)) {
    return InvalidInput(fmt::format("{}: a proof for {} classes and a members' error of {}", path,
                                    header.classes, header.member_error));
  }
  const std::string temporary = fmt::format("{}.tmp-{}", path, ::getpid());
  ::unlink(temporary.c_str());
  LUCID_ASSIGN(File file, File::CreateNew(temporary));
  auto impl = std::make_unique<Impl>(path, std::move(file), header);
  std::string bytes(kMagic);
  PutBytes(bytes, VersionFor(header.classes));
  PutBytes(bytes, static_cast<std::uint32_t>(header.classes));
  PutBytes(bytes, header.member_error == 0 ? 0.0 : header.member_error);
  for (const Digest* digest : {&header.network_digest, &header.ensemble_digest}) {
    bytes.append(reinterpret_cast<const char*>(digest->bytes.data()), digest->bytes.size());
  }
  LUCID_TRY(impl->Write(bytes));
  return ProofWriter(std::move(impl));
}

Status ProofWriter::Add(std::int32_t label, const ProofSplit& split) {
  return impl_->Keep(impl_->Add(label, split));
}
Status ProofWriter::Add(std::int32_t label, const ProofClosing& closing) {
  return impl_->Keep(impl_->Add(label, closing));
}
Status ProofWriter::AddAll(const std::string& part) { return impl_->Keep(impl_->AddAll(part)); }

Result<Digest> ProofWriter::Finish() {
  if (impl_->broken || impl_->finished) {
    return InternalError(
        fmt::format("{}: finished {}", impl_->path, impl_->finished ? "twice" : "after an error"));
  }
  return impl_->Keep(impl_->Finish());
}

Status MergeProofs(std::span<const std::string> parts, const std::string& path) {
  LUCID_ASSIGN(const ProofFile first, ProofFile::Open(parts.front()));
  LUCID_ASSIGN(ProofWriter writer, ProofWriter::Create(path, first.header()));
  for (const std::string& part : parts) LUCID_TRY(writer.AddAll(part));
  LUCID_TRY(writer.Finish());
  return Ok();
}

}  // namespace lucid
