// Any bytes as a proof file, also with the seal put right, and as the records inside one, packed
// and counted, which no mutation would hit. What is accepted is a tree whose regions can be walked,
// and claims by windows that cannot show less than what leaks; what is refused gets one printable
// line.
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "certificate/proof_format.h"
#include "check/proof_tree.h"
#include "check/proof_windows.h"
#include "fuzz/require.h"

namespace {

using lucid::PutBytes;

void CheckTree(lucid::ProofTree& tree, const std::vector<std::uint64_t>& nodes,
               const lucid::ProofShape& shape, std::int32_t label) {
  if (tree.empty()) return;
  if (const std::string problem = tree.FindProblem(); !problem.empty()) {
    return RequireOneLine(problem);
  }
  if (const std::string open = tree.FindOpenPair(shape, label, 0.5); !open.empty()) {
    RequireOneLine(open);
  }
  for (const std::uint64_t node : nodes) {
    const lucid::ProofRegion region = tree.RegionOf(node, shape.domain);
    Require(region.lower.size() == region.upper.size() && region.lower.size() == 2);
    for (std::size_t k = 0; k < region.lower.size(); ++k) {
      Require(region.lower[k] >= 0 && region.upper[k] <= 1);
    }
    for (const lucid::ProofPhase& phase : region.phases) {
      Require(phase.layer == 0 && phase.unit >= 0 && phase.unit < 3);
    }
  }
}

// The nodes that closings of a class are about.
std::vector<std::uint64_t> NodesOf(const lucid::ProofFile& file, std::int32_t label) {
  std::vector<std::uint64_t> nodes;
  for (std::size_t b = 0; b < file.blocks(); ++b) {
    const auto records = file.ReadBlock(b);
    for (const lucid::ProofRecord& record : *records) {
      const auto* closing = std::get_if<lucid::ProofClosing>(&record.what);
      if (closing != nullptr && record.label == label) nodes.push_back(closing->node);
    }
  }
  return nodes;
}

const lucid::Architecture& Shape(std::int32_t classes) {
  static const auto two =
      lucid::Architecture::FromCanonical("2 > conv 3 width 2 stride 1 > 2").value();
  static const auto three =
      lucid::Architecture::FromCanonical("2 > conv 3 width 2 stride 1 > 3").value();
  return classes == 2 ? two : three;
}

// x1 - x2 for class 0 against a constant for class 1.
lucid::Network Against(float constant) {
  return {Shape(2), {1, 0, 0, 1, 0, 0, 0, 0, 0.25F, 1, -1, 0, 0, 0, 4 * constant, 0, 0}};
}

void CheckWindows(const lucid::ProofClosing& closing, std::int32_t label) {
  std::size_t cuts = 0;
  for (const lucid::ProofCase& one : closing.cases) {
    for (const lucid::ProofRound& round : one.rounds) cuts += round.halved.size();
  }
  if (label != 0 || cuts > 12 || closing.cases.size() > 100) return;  // else it takes long
  constexpr double kLeak = 0.5;  // of class 0, where x1 - x2 = 0.75
  const lucid::Network network = Against(0.25F), member = Against(0.75F);
  lucid::ProofWindows windows(network);
  const double bound =
      windows.Bound({{{0, 0}, {1, 1}, {}}, std::nullopt, member.parameters, {0, 1, 1, 0}},
                    closing.cases, closing.value);
  Require(!(bound <= closing.value) || closing.value >= kLeak);
}

// What a claim measures N against is one class or weights that add up.
void CheckMeasure(const lucid::ProofClosing& closing, std::int32_t label, std::int32_t classes) {
  if (closing.weights.empty()) return;
  Require(classes > 2 && closing.below == -1);
  Require(lucid::ProblemOfWeights(closing.weights, classes, label).empty());
}

void CheckFile(const lucid::ProofFile& file) {
  static const lucid::Schema schema = *lucid::Schema::Parse(
      "column,kind,offset,divisor,categories\na,numeric,0,1,\nb,binary,,,0|1\n"
      "label,label,,,0|1\n",
      "schema");
  const std::int32_t classes = file.header().classes;
  Require(classes >= 1 && std::isfinite(file.header().member_error));
  if (classes != 2 && classes != 3) return;
  const lucid::ProofShape shape(Shape(classes), 2, lucid::Domain::OfSchema(schema));
  auto trees = lucid::ReadProofTrees({&file, 1}, shape, {});
  if (!trees.ok()) return RequireOneLine(trees.error().message);
  for (std::int32_t c = 0; c < classes; ++c) CheckTree((*trees)[c], NodesOf(file, c), shape, c);
  for (std::size_t b = 0; b < file.blocks(); ++b) {
    const auto records = file.ReadBlock(b);
    for (const lucid::ProofRecord& record : *records) {
      const auto* closing = std::get_if<lucid::ProofClosing>(&record.what);
      if (closing == nullptr) continue;
      CheckMeasure(*closing, record.label, classes);
      if (classes > 2 || closing->kind != lucid::ProofClosing::Kind::kWindows) continue;
      CheckWindows(*closing, record.label);
    }
  }
}

void CheckBytes(std::string_view bytes) {
  const auto file = lucid::ProofFile::Parse(bytes, "proof");
  if (!file.ok()) return RequireOneLine(file.error().message);
  CheckFile(*file);
}

void CheckWithRightSeal(std::string bytes) {
  const lucid::Digest seal = lucid::Sha256Of(bytes);
  CheckBytes(bytes.append(reinterpret_cast<const char*>(seal.bytes.data()), seal.bytes.size()));
}

// The records as a file of one block, with this end.
std::string FileOf(std::string_view records, std::uint32_t classes, std::uint64_t splits,
                   std::uint64_t closings) {
  std::string bytes(lucid::proof_format::kMagic);
  PutBytes(bytes, lucid::proof_format::VersionFor(classes));
  PutBytes(bytes, classes);
  PutBytes(bytes, 0.0);
  bytes.append(64, '\0');
  uLongf size = ::compressBound(records.size());
  std::string packed(size, '\0');
  Require(::compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                      reinterpret_cast<const Bytef*>(records.data()), records.size(), 1) == Z_OK);
  PutBytes(bytes, static_cast<std::uint32_t>(size));
  PutBytes(bytes, static_cast<std::uint32_t>(records.size()));
  bytes.append(packed, 0, size).append(lucid::proof_format::kBlockHeader, '\0');
  PutBytes(bytes, splits);
  PutBytes(bytes, closings);
  return bytes;
}

void CheckRecords(std::string_view records, std::uint32_t classes) {
  if (records.empty()) return;
  // Counted by the reader itself, where it can read them at all.
  std::string first = FileOf(records, classes, 0, 0);
  const lucid::Digest seal = lucid::Sha256Of(first);
  first.append(reinterpret_cast<const char*>(seal.bytes.data()), seal.bytes.size());
  const auto file = lucid::ProofFile::Parse(first, "proof");
  Require(file.ok());
  const auto found = file->ReadBlock(0);
  if (!found.ok()) return RequireOneLine(found.error().message);
  std::uint64_t splits = 0;
  for (const lucid::ProofRecord& record : *found) {
    splits += std::holds_alternative<lucid::ProofSplit>(record.what) ? 1 : 0;
  }
  CheckWithRightSeal(FileOf(records, classes, splits, found->size() - splits));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckBytes(bytes);
  if (size >= 32) CheckWithRightSeal(std::string(bytes.substr(0, size - 32)));
  for (const std::uint32_t classes : {2U, 3U}) {
    if (size < (1 << 20)) CheckRecords(bytes, classes);
  }
  return 0;
}
