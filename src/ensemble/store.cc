#include "ensemble/store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/hasher.h"
#include "base/text.h"

namespace lucid {
namespace {

constexpr std::string_view kFormat1 = "lucid-ensemble-1", kFormat2 = "lucid-ensemble-2";

SafetensorsHeader HeaderOf(const StoreSpec& spec, std::span<const ParameterTensor> parameters) {
  const auto n = static_cast<std::int64_t>(spec.rows.size());
  std::vector<Tensor> tensors;
  tensors.push_back({.name = "rows", .type = TensorType::kI64, .shape = {n}});
  for (const ParameterTensor& p : parameters) {
    Tensor tensor{.name = p.name, .type = TensorType::kF32, .shape = {n}};
    tensor.shape.insert(tensor.shape.end(), p.shape.begin(), p.shape.end());
    tensors.push_back(std::move(tensor));
  }
  tensors.push_back({.name = "digests", .type = TensorType::kU8, .shape = {n, 32}});
  std::map<std::string, std::string> metadata = {
      {"format", std::string(spec.order ? kFormat2 : kFormat1)},
      {"architecture", spec.architecture.Canonical()},
      {"run_key", spec.run_key.Hex()}};
  if (spec.order) metadata["order"] = spec.order->Hex();
  return SafetensorsHeader::Build(std::move(tensors), std::move(metadata));
}

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

StoreLayout::StoreLayout(const StoreSpec& spec)
    : parameters_(ParameterTensors(spec.architecture)), header_(HeaderOf(spec, parameters_)) {}

std::uint64_t StoreLayout::ParameterAt(std::size_t tensor, std::int64_t network) const {
  return Of(tensor + 1).begin +
         static_cast<std::uint64_t>(network * parameters_[tensor].count) * sizeof(float);
}

std::uint64_t StoreLayout::DigestAt(std::int64_t network) const {
  return header_.tensors().back().begin + static_cast<std::uint64_t>(network) * 32;
}

Digest NetworkDigest(const Digest& run_key, std::int64_t row, std::span<const float> parameters) {
  return Hasher()
      .Bytes(std::as_bytes(std::span(run_key.bytes)))
      .Number(static_cast<std::uint64_t>(row))
      .Bytes(std::as_bytes(parameters))
      .Finish();
}

Result<Store> Store::Create(const std::string& path, const StoreSpec& spec) {
  // Under another name until the header and the rows are there: `path` never holds half of them.
  // Its lock goes with it when it gets its name, so that of two processes one is refused.
  const std::string unborn = path + ".new";
  LUCID_ASSIGN(File file, File::CreateLocked(unborn));
  if (std::filesystem::exists(path)) {
    ::unlink(unborn.c_str());
    return IoError(fmt::format("'{}' is there already: another process began this run", path));
  }
  Store store(std::move(file), spec);
  const std::string header = store.layout_.header().Encode();
  Status made = store.file_.Reserve(store.layout_.header().file_size());
  if (made.ok()) made = store.file_.WriteAt(0, std::as_bytes(std::span(header)));
  if (made.ok()) made = store.file_.WriteAt(store.layout_.RowsAt(), BytesOf(spec.rows));
  if (made.ok()) made = store.file_.Sync();
  if (made.ok()) made = RenameDurably(unborn, path);
  if (!made.ok()) {
    ::unlink(unborn.c_str());
    return made.error();
  }
  return store;
}

Result<Store> Store::Open(const std::string& path, const StoreSpec& spec, bool writable) {
  LUCID_ASSIGN(File file, writable ? File::OpenToUpdate(path) : File::OpenToRead(path));
  if (writable) LUCID_TRY(file.Lock());
  LUCID_ASSIGN(const std::uint64_t size, file.Size());
  Store store(std::move(file), spec);
  const SafetensorsHeader& wanted = store.layout_.header();
  const std::string expected = wanted.Encode();

  std::string actual(std::min<std::uint64_t>(expected.size(), size), '\0');
  LUCID_TRY(store.file_.ReadAt(0, std::as_writable_bytes(std::span(actual))));
  std::vector<std::int64_t> rows(spec.rows.size());
  if (actual == expected && size == wanted.file_size()) {
    LUCID_TRY(store.file_.ReadAt(store.layout_.RowsAt(), std::as_writable_bytes(std::span(rows))));
    if (rows == spec.rows) return store;
  }
  // Something differs: find words for it.
  LUCID_ASSIGN(const SafetensorsHeader found, SafetensorsHeader::Read(path));
  LUCID_ASSIGN(const std::string format, found.Metadata("format"));
  LUCID_ASSIGN(const std::string key, found.Metadata("run_key"));
  if (format != (spec.order ? kFormat2 : kFormat1)) {
    return InvalidInput(fmt::format("'{}' has format {}, the run has {}", path, Quoted(format),
                                    spec.order ? kFormat2 : kFormat1));
  }
  const Result<std::string> order = found.Metadata("order");
  if (key == spec.run_key.Hex() && spec.order && (!order.ok() || *order != spec.order->Hex())) {
    return Mismatch(fmt::format(
        "'{}' was begun with the same training rows in another order, so its numbers of rows mean "
        "others; use the file as it was, or another folder for the run",
        path));
  }
  if (key == spec.run_key.Hex()) {
    return Mismatch(fmt::format(
        "'{}' holds other members of this run (it was begun with another number of them or "
        "another shard); use the same options, or another folder for the run",
        path));
  }
  return Mismatch(
      fmt::format("'{}' belongs to another run (other data, architecture, training options "
                  "or seed: key {}, wanted {}); use its options, or another folder for the run",
                  path, Quoted(key.substr(0, 16)), spec.run_key.Hex().substr(0, 16)));
}

Status Store::Write(std::int64_t network, std::span<const float> parameters) {
  const auto tensors = layout_.parameters();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto part = parameters.subspan(static_cast<std::size_t>(tensors[t].offset),
                                         static_cast<std::size_t>(tensors[t].count));
    LUCID_TRY(file_.WriteAt(layout_.ParameterAt(t, network), std::as_bytes(part)));
  }
  const Digest digest = NetworkDigest(spec_.run_key, spec_.rows[network], parameters);
  return file_.WriteAt(layout_.DigestAt(network), std::as_bytes(std::span(digest.bytes)));
}

Result<bool> Store::Read(std::int64_t network, std::span<float> out) const {
  Digest digest;
  LUCID_TRY(
      file_.ReadAt(layout_.DigestAt(network), std::as_writable_bytes(std::span(digest.bytes))));
  if (digest == Digest{}) return false;
  const auto tensors = layout_.parameters();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto part = out.subspan(static_cast<std::size_t>(tensors[t].offset),
                                  static_cast<std::size_t>(tensors[t].count));
    LUCID_TRY(file_.ReadAt(layout_.ParameterAt(t, network), std::as_writable_bytes(part)));
  }
  return digest == NetworkDigest(spec_.run_key, spec_.rows[network], out);
}

}  // namespace lucid
