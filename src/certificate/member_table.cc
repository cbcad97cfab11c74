#include "certificate/member_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "nn/safetensors.h"

namespace lucid {
namespace {

constexpr std::string_view kFormat = "lucid-index-1";
constexpr std::int64_t kSealBytes = 32;

SafetensorsHeader HeaderOf(const MemberTable& table) {
  const auto classes = static_cast<std::int64_t>(table.classes.size());
  const auto members = static_cast<std::int64_t>(table.classes.front().order.size());
  return SafetensorsHeader::Build(
      {{.name = "order", .type = TensorType::kI64, .shape = {classes, members}},
       {.name = "upper", .type = TensorType::kF32, .shape = {classes, members}},
       {.name = "seal", .type = TensorType::kU8, .shape = {kSealBytes}}},
      {{"format", std::string(kFormat)},
       {"architecture", table.architecture},
       {"run_key", table.run_key.Hex()},
       {"network", table.network_digest.Hex()},
       {"ensemble", table.ensemble_digest.Hex()}});
}

template <typename T>
void Append(std::string& bytes, std::span<const T> values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

// The smallest float at or above a double.
float RoundUp(double value) {
  const auto nearest =
      static_cast<float>(std::min(value, static_cast<double>(std::numeric_limits<float>::max())));
  if (static_cast<double>(nearest) >= value) return nearest;
  return std::nextafter(nearest, std::numeric_limits<float>::infinity());
}

Status CheckSeal(std::string_view bytes, const std::string& source) {
  if (bytes.size() <= kSealBytes) {
    return InvalidInput(fmt::format("{}: truncated, or not a LUCID index", source));
  }
  const std::size_t sealed = bytes.size() - kSealBytes;
  const Digest seal = Sha256Of(bytes.substr(0, sealed));
  if (std::memcmp(seal.bytes.data(), bytes.data() + sealed, kSealBytes) == 0) return Ok();
  return Mismatch(
      fmt::format("{}: the seal at its end is not that of its content: edited, truncated or "
                  "damaged, or not a LUCID index",
                  source));
}

Result<Digest> DigestIn(const SafetensorsHeader& header, const std::string& key,
                        const std::string& source) {
  LUCID_ASSIGN(const std::string text, header.Metadata(key));
  Result<Digest> digest = Digest::FromHex(text);
  if (digest.ok()) return digest;
  return InvalidInput(
      fmt::format("{}: '{}' must be a SHA-256 digest, not {}", source, key, Quoted(text)));
}

Status CheckRanked(const RankedMembers& ranked, std::size_t label, const std::string& source) {
  std::vector<bool> seen(ranked.order.size());
  for (std::size_t k = 0; k < ranked.order.size(); ++k) {
    const auto bad = [&](std::string_view what) {
      return InvalidInput(fmt::format("{}: class {}, place {}: {}", source, label, k, what));
    };
    if (seen[ranked.order[k]]) {
      return bad(fmt::format("member {} is there twice", ranked.order[k]));
    }
    seen[ranked.order[k]] = true;
    if (!(ranked.upper[k] >= 0) || std::signbit(ranked.upper[k])) {
      return bad(fmt::format("the bound is {}, must be a number >= 0", ranked.upper[k]));
    }
    if (k == 0) continue;
    const bool sorted =
        ranked.upper[k - 1] > ranked.upper[k] ||
        (ranked.upper[k - 1] == ranked.upper[k] && ranked.order[k - 1] < ranked.order[k]);
    if (!sorted) return bad("not in descending order of the bounds");
  }
  return Ok();
}

// The two tensors of one class, from bytes that hold them.
Result<RankedMembers> ReadRanked(std::string_view bytes, const Tensor& order, const Tensor& upper,
                                 std::size_t label, const std::string& source) {
  const auto members = static_cast<std::size_t>(order.shape[1]);
  std::vector<std::int64_t> wide(members);
  RankedMembers ranked;
  ranked.upper.resize(members);
  std::memcpy(wide.data(), bytes.data() + order.begin + label * members * sizeof(std::int64_t),
              members * sizeof(std::int64_t));
  std::memcpy(ranked.upper.data(), bytes.data() + upper.begin + label * members * sizeof(float),
              members * sizeof(float));
  for (const std::int64_t member : wide) {
    if (member < 0 || member >= order.shape[1]) {
      return InvalidInput(
          fmt::format("{}: class {}: member {} is not one of {}", source, label, member, members));
    }
    ranked.order.push_back(static_cast<std::int32_t>(member));
  }
  LUCID_TRY(CheckRanked(ranked, label, source));
  return ranked;
}

Status CheckShapes(const SafetensorsHeader& header, const std::string& source) {
  const std::vector<Tensor>& tensors = header.tensors();
  const bool good = tensors.size() == 3 && tensors[0].name == "order" &&
                    tensors[0].shape.size() == 2 && tensors[0].shape[0] >= 2 &&
                    tensors[0].shape[1] <= std::numeric_limits<std::int32_t>::max();
  if (!good) {
    return InvalidInput(fmt::format(
        "{}: must hold 'order' of at least two classes, 'upper' and 'seal' alone", source));
  }
  LUCID_TRY(header.Find("order", TensorType::kI64, tensors[0].shape));
  LUCID_TRY(header.Find("upper", TensorType::kF32, tensors[0].shape));
  LUCID_TRY(header.Find("seal", TensorType::kU8, std::vector{kSealBytes}));
  return Ok();
}

}  // namespace

MemberTable TableFor(const Ensemble& ensemble) {
  MemberTable table;
  table.architecture = ensemble.network().architecture.Canonical();
  table.run_key = ensemble.manifest().run_key;
  table.network_digest = ensemble.network().digest();
  table.ensemble_digest = ensemble.manifest().ensemble_digest;
  return table;
}

RankedMembers Rank(std::span<const double> upper) {
  RankedMembers ranked;
  std::vector<float> rounded;
  // -0 becomes 0, too: equal numbers are then equal bytes.
  for (const double value : upper) rounded.push_back(value > 0 ? RoundUp(value) : 0.0F);
  ranked.order.resize(upper.size());
  std::iota(ranked.order.begin(), ranked.order.end(), 0);
  std::ranges::stable_sort(ranked.order,
                           [&](std::int32_t a, std::int32_t b) { return rounded[a] > rounded[b]; });
  for (const std::int32_t member : ranked.order) ranked.upper.push_back(rounded[member]);
  return ranked;
}

std::string EncodeMemberTable(const MemberTable& table) {
  std::string bytes = HeaderOf(table).Encode();
  for (const RankedMembers& ranked : table.classes) {
    const std::vector<std::int64_t> wide(ranked.order.begin(), ranked.order.end());
    Append<std::int64_t>(bytes, wide);
  }
  for (const RankedMembers& ranked : table.classes) Append<float>(bytes, ranked.upper);
  const Digest seal = Sha256Of(bytes);
  Append<std::uint8_t>(bytes, seal.bytes);
  return bytes;
}

Result<MemberTable> ParseMemberTable(std::string_view bytes, const std::string& source) {
  LUCID_TRY(CheckSeal(bytes, source));
  LUCID_ASSIGN(const SafetensorsHeader header,
               SafetensorsHeader::Parse(std::as_bytes(std::span(bytes)), bytes.size(), source));
  LUCID_ASSIGN(const std::string format, header.Metadata("format"));
  if (format != kFormat) {
    return InvalidInput(
        fmt::format("{}: format {}, this version reads {}", source, Quoted(format), kFormat));
  }
  LUCID_TRY(CheckShapes(header, source));
  MemberTable table;
  LUCID_ASSIGN(table.architecture, header.Metadata("architecture"));
  LUCID_ASSIGN(table.run_key, DigestIn(header, "run_key", source));
  LUCID_ASSIGN(table.network_digest, DigestIn(header, "network", source));
  LUCID_ASSIGN(table.ensemble_digest, DigestIn(header, "ensemble", source));
  const Tensor &order = header.tensors()[0], &upper = header.tensors()[1];
  for (std::int64_t label = 0; label < order.shape[0]; ++label) {
    LUCID_ASSIGN(RankedMembers ranked,
                 ReadRanked(bytes, order, upper, static_cast<std::size_t>(label), source));
    table.classes.push_back(std::move(ranked));
  }
  // One file for each table: what this version does not know would make another.
  if (EncodeMemberTable(table) == bytes) return table;
  return Mismatch(
      fmt::format("{}: says more than an index does: edited, or of another version", source));
}

Status CheckTable(const MemberTable& table, const Ensemble& ensemble, const std::string& source) {
  const MemberTable wanted = TableFor(ensemble);
  const auto other = [&](std::string_view what) {
    return Mismatch(fmt::format("{}: was made for {}; make it again for this run", source, what));
  };
  if (table.architecture != wanted.architecture) {
    return other(fmt::format("networks {}, these are {}", Quoted(table.architecture),
                             Quoted(wanted.architecture)));
  }
  if (table.run_key != wanted.run_key) return other("another run (other data, options or seed)");
  if (table.network_digest != wanted.network_digest) return other("another network N");
  if (table.ensemble_digest != wanted.ensemble_digest) return other("another ensemble");
  const std::int64_t classes = ensemble.network().architecture.classes();
  if (std::ssize(table.classes) != classes ||
      std::ssize(table.classes.front().order) != ensemble.members()) {
    return other(fmt::format("{} classes and {} members, this run has {} and {}",
                             table.classes.size(), table.classes.front().order.size(), classes,
                             ensemble.members()));
  }
  return Ok();
}

}  // namespace lucid
