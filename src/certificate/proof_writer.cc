#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/files.h"
#include "base/hasher.h"
#include "certificate/proof_format.h"
#include "lucid/certificate/proof.h"

namespace lucid {
namespace {

using namespace proof_format;  // NOLINT(google-build-using-namespace): this file is that format

constexpr int kCompression = 3;  // duals are mostly zeros: more effort gains little

Status CheckClosing(const ProofClosing& closing) {
  if (closing.member < 0 || closing.other < 0) {
    return InvalidInput(fmt::format("a closing of member {} and class {}: both must be >= 0",
                                    closing.member, closing.other));
  }
  if (closing.empty) return Ok();
  if (closing.below < 0) {
    return InvalidInput(
        fmt::format("a closing of member {} measures N against class {}: must be >= 0",
                    closing.member, closing.below));
  }
  if (!(closing.lambda >= 0) || !std::isfinite(closing.lambda)) {
    return InvalidInput(
        fmt::format("lambda of member {} is {}, must be >= 0", closing.member, closing.lambda));
  }
  for (const float value : closing.dual) {
    if (!std::isfinite(value)) {
      return InvalidInput(
          fmt::format("a multiplier of member {} is {}, must be finite", closing.member, value));
    }
  }
  return Ok();
}

// What no reader would take is not written: it would be found out much later.
Status CheckNode(std::int32_t label, std::int32_t classes, const ProofNode& node) {
  if (label < 0 || label >= classes) {
    return InvalidInput(
        fmt::format("node {} is of class {}, must be from 0 to {}", node.id, label, classes - 1));
  }
  if (node.split > ProofNode::Split::kMemberPhase || node.layer < 0 || node.unit < 0 ||
      !std::isfinite(node.at)) {
    return InvalidInput(fmt::format("node {} has no valid split: layer {}, unit {}, at {}", node.id,
                                    node.layer, node.unit, node.at));
  }
  if (node.closings.size() > std::numeric_limits<std::uint32_t>::max()) {
    return InvalidInput(fmt::format("node {} has {} closings", node.id, node.closings.size()));
  }
  for (const ProofClosing& closing : node.closings) LUCID_TRY(CheckClosing(closing));
  return Ok();
}

void PutNode(std::string& out, std::int32_t label, const ProofNode& node) {
  using enum ProofNode::Split;
  const bool inner = node.split != kNone;
  PutBytes(out, kNodeRecord);
  PutBytes(out, static_cast<std::uint8_t>(node.split));
  PutBytes(out, static_cast<std::uint32_t>(label));
  PutBytes(out, node.id);
  // There is one spelling of every node: what a split of its kind does not use is 0.
  PutBytes(out, static_cast<std::uint32_t>(node.split == kInput ? 0 : inner ? node.layer : 0));
  PutBytes(out, static_cast<std::uint32_t>(inner ? node.unit : 0));
  PutBytes(out, node.split == kInput && node.at != 0 ? node.at : 0.0);
  PutBytes(out, inner ? node.first_child : std::uint64_t{0});
  PutBytes(out, static_cast<std::uint32_t>(node.closings.size()));
}

void PutClosing(std::string& out, std::int32_t label, std::uint64_t id,
                const ProofClosing& closing) {
  PutBytes(out, kClosingRecord);
  PutBytes(out, closing.empty ? kEmptyFlag : std::uint8_t{0});
  PutBytes(out, static_cast<std::uint32_t>(label));
  PutBytes(out, id);
  PutBytes(out, static_cast<std::uint32_t>(closing.member));
  PutBytes(out, static_cast<std::uint32_t>(closing.other));
  if (closing.empty) return;
  PutBytes(out, static_cast<std::uint32_t>(closing.below));
  PutBytes(out, closing.lambda);
  PutBytes(out, static_cast<std::uint32_t>(closing.dual.size()));
  out.append(reinterpret_cast<const char*>(closing.dual.data()),
             closing.dual.size() * sizeof(float));
}

}  // namespace

struct ProofWriter::Impl {
  Impl(std::string final_path, File opened, std::int32_t class_count)
      : path(std::move(final_path)), file(std::move(opened)), classes(class_count) {}
  ~Impl() {
    if (!finished) ::unlink(file.path().c_str());
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status Write(std::string_view data) {
    const auto bytes = std::as_bytes(std::span(data));
    LUCID_TRY(file.WriteAt(offset, bytes));
    hasher.Bytes(bytes);
    offset += bytes.size();
    return Ok();
  }

  // Takes one record into the block, and packs the block when it is large enough.
  Status Append(const std::string& record) {
    if (record.size() > kBlockLimit - kBlockGoal) {
      return InvalidInput(fmt::format("{}: a record of {} bytes, the limit is {}", path,
                                      record.size(), kBlockLimit - kBlockGoal));
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

  Status Add(std::int32_t label, const ProofNode& node) {
    LUCID_TRY(CheckNode(label, classes, node));
    std::string record;
    PutNode(record, label, node);
    LUCID_TRY(Append(record));
    for (const ProofClosing& closing : node.closings) {
      record.clear();
      PutClosing(record, label, node.id, closing);
      LUCID_TRY(Append(record));
    }
    ++nodes;
    closings += node.closings.size();
    return Ok();
  }

  Status Finish() {
    LUCID_TRY(Flush());
    std::string end(kBlockHeader, '\0');
    PutBytes(end, nodes);
    PutBytes(end, closings);
    LUCID_TRY(Write(end));
    const Digest seal = hasher.Finish();
    LUCID_TRY(file.WriteAt(offset, std::as_bytes(std::span(seal.bytes))));
    LUCID_TRY(file.Sync());
    LUCID_TRY(RenameDurably(file.path(), path));
    finished = true;
    return Ok();
  }

  std::string path;
  File file;
  std::int32_t classes = 0;
  Hasher hasher;
  std::uint64_t offset = 0, nodes = 0, closings = 0;
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
  auto impl = std::make_unique<Impl>(path, std::move(file), header.classes);
  std::string bytes(kMagic);
  PutBytes(bytes, kVersion);
  PutBytes(bytes, static_cast<std::uint32_t>(header.classes));
  PutBytes(bytes, header.member_error == 0 ? 0.0 : header.member_error);
  for (const Digest* digest : {&header.network_digest, &header.ensemble_digest}) {
    bytes.append(reinterpret_cast<const char*>(digest->bytes.data()), digest->bytes.size());
  }
  LUCID_TRY(impl->Write(bytes));
  return ProofWriter(std::move(impl));
}

Status ProofWriter::Add(std::int32_t label, const ProofNode& node) {
  Status added = impl_->Add(label, node);
  impl_->broken = impl_->broken || !added.ok();
  return added;
}

Status ProofWriter::Finish() {
  if (impl_->broken || impl_->finished) {
    return InternalError(
        fmt::format("{}: finished {}", impl_->path, impl_->finished ? "twice" : "after an error"));
  }
  Status sealed = impl_->Finish();
  impl_->broken = !sealed.ok();
  return sealed;
}

}  // namespace lucid
