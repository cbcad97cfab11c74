#include "lucid/ensemble/ensemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/files.h"
#include "base/hasher.h"
#include "ensemble/reference.h"
#include "ensemble/run_spec.h"
#include "lucid/data/units.h"

namespace lucid {
namespace {

Status CheckDigest(const std::string& path, const Digest& expected) {
  LUCID_ASSIGN(const Digest actual, Sha256OfFile(path));
  if (actual == expected) return Ok();
  return Mismatch(
      fmt::format("'{}' is not the file the manifest was written for (SHA-256 {}, expected {}): "
                  "damaged, tampered with, or of another run",
                  path, actual.Hex().substr(0, 16), expected.Hex().substr(0, 16)));
}

// The rows of a trained run of format 1 follow from the manifest. Those of other runs are only in
// the store, whose digest is in the manifest.
Result<std::vector<std::int64_t>> RowsOf(const Manifest& manifest, const SafetensorsHeader& header,
                                         const std::string& path) {
  if (manifest.format == 1 && (!manifest.partial || !IsImported(manifest.training))) {
    return BlankedNetworkRows(manifest.rows, manifest.members);
  }
  const std::vector<std::int64_t> shape = {manifest.members + 1};
  LUCID_ASSIGN(const Tensor* tensor, header.Find("rows", TensorType::kI64, shape));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(manifest.members + 1));
  LUCID_ASSIGN(const File file, File::OpenToRead(path));
  LUCID_TRY(file.ReadAt(tensor->begin, std::as_writable_bytes(std::span(rows))));
  const Status good = CheckNetworkRows(rows, manifest.rows);
  if (!good.ok()) return Mismatch(fmt::format("'{}': {}", path, good.error().message));
  return rows;
}

// Members of a private run may be of any value, and the manifest says of none here that it is not
// finite. Nothing may be proved of such a one, whatever the manifest says.
Status CheckFinite(const Ensemble& ensemble, const std::string& path) {
  std::vector<float> parameters(ensemble.network().parameters.size());
  for (std::int64_t i = 0; i < ensemble.members(); ++i) {
    ensemble.CopyParameters(i, parameters);
    if (std::ranges::all_of(parameters, [](float v) { return std::isfinite(v); })) continue;
    return Mismatch(
        fmt::format("'{}': the network without row {} is not finite, and the manifest "
                    "does not say so",
                    path, ensemble.RowOf(i)));
  }
  return Ok();
}

}  // namespace

struct Ensemble::Impl {
  Manifest manifest;
  Network network;
  MappedFile file;
  StoreSpec spec;
  StoreLayout layout;
};

Ensemble::Ensemble(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Ensemble::~Ensemble() = default;
Ensemble::Ensemble(Ensemble&&) noexcept = default;
Ensemble& Ensemble::operator=(Ensemble&&) noexcept = default;

namespace {

Result<Dataset> LoadRunDataFrom(const std::string& directory, const Manifest& manifest) {
  LUCID_ASSIGN(Dataset dataset,
               LoadDataset(directory, {.clip = true,
                                       .max_rows = manifest.max_rows,
                                       .rows_per_unit = manifest.rows_per_unit,
                                       .total = manifest.private_run.has_value()}));
  if (manifest.format == 1) {
    // Format 1 kept the first rows, and its digests are of tables as they stand.
    Table& train = dataset.train;
    const std::int64_t kept = std::min(train.rows(), manifest.rows);
    train.x.resize(static_cast<std::size_t>(kept * train.features));
    train.y.resize(static_cast<std::size_t>(kept));
    dataset.train_digest = BlankedTableDigest(train);
    dataset.test_digest = BlankedTableDigest(dataset.test);
  }
  if (dataset.schema_digest != manifest.schema_digest) {
    return Mismatch(fmt::format("'{}' has another schema than the run", directory));
  }
  const bool same = dataset.train_digest == manifest.train_digest;
  if (same && manifest.format != 1 && dataset.train_order != manifest.order_digest) {
    return Mismatch(fmt::format(
        "'{}' holds the training rows in another order than when the run was made, so that numbers "
        "of rows mean others",
        directory));
  }
  return dataset;
}

// Where the data of a run may be that moved with it, beside what its manifest says: in the run's
// folder, and at the same place as seen from one of the folders that the run is in.
std::vector<std::string> OtherPlaces(const Manifest& manifest) {
  namespace fs = std::filesystem;
  constexpr int kFolders = 4;
  if (manifest.folder.empty()) return {};
  std::error_code ignored;
  fs::path folder = fs::weakly_canonical(manifest.folder, ignored);
  const fs::path named = fs::path(manifest.data_directory).lexically_normal();
  const fs::path relative = named.is_absolute() ? named.filename() : named;
  std::vector<fs::path> places = {folder / "data"};
  for (int i = 0; i < kFolders && folder.has_relative_path(); ++i) {
    folder = folder.parent_path();
    places.push_back(folder / relative);
  }
  std::vector<std::string> found;
  for (const fs::path& place : places) {
    if (fs::exists(place / "schema.csv", ignored)) found.push_back(place.string());
  }
  return found;
}

}  // namespace

Result<Dataset> LoadRunData(const Manifest& manifest) {
  Result<Dataset> named = LoadRunDataFrom(manifest.data_directory, manifest);
  const auto is_it = [&](const Result<Dataset>& found) {
    return found.ok() && found->train_digest == manifest.train_digest;
  };
  if (is_it(named)) return named;
  for (const std::string& place : OtherPlaces(manifest)) {
    Result<Dataset> found = LoadRunDataFrom(place, manifest);
    if (is_it(found)) return found;
  }
  return named;
}

Result<RunNetwork> OpenRunNetwork(const std::string& run) {
  const std::string manifest_path = PathIn(run, kManifestFile);
  if (!std::filesystem::exists(manifest_path)) {
    return InvalidInput(fmt::format("'{}' is not a finished run: no {} (lucid train makes one)",
                                    run, kManifestFile));
  }
  LUCID_ASSIGN(const std::string text, ReadTextFile(manifest_path, 64 << 20));
  LUCID_ASSIGN(Manifest manifest, ParseManifest(text, manifest_path));
  manifest.folder = run;
  const std::string network_path = PathIn(run, kNetworkFile);
  LUCID_TRY(CheckDigest(network_path, manifest.network_digest));
  LUCID_ASSIGN(Network network, LoadNetwork(network_path));
  if (network.architecture.Canonical() != manifest.architecture.Canonical()) {
    return Mismatch(fmt::format("'{}' is '{}', the manifest says '{}'", network_path,
                                network.architecture.Canonical(),
                                manifest.architecture.Canonical()));
  }
  return RunNetwork{std::move(manifest), std::move(network)};
}

Status NoteAttempt(const std::string& run, const DeclareAttempt& attempt) {
  LUCID_ASSIGN(RunNetwork opened, OpenRunNetwork(run));
  opened.manifest.attempts.push_back(attempt);
  return WriteFileAtomically(PathIn(run, kManifestFile), EncodeManifest(opened.manifest));
}

double BoundFor(double r, const Manifest& manifest, const Network& network) {
  DeclaredBounds bounds = manifest.declared
                              ? *manifest.declared
                              : DeclareBounds(network, manifest.schema, r, std::nullopt);
  bounds.r = r;
  return bounds.bound();
}

Result<Ensemble> Ensemble::Open(const std::string& run, const ProgressCallback& progress) {
  LUCID_ASSIGN(RunNetwork opened, OpenRunNetwork(run));
  Manifest& manifest = opened.manifest;
  Network& network = opened.network;
  if (manifest.units == 0) {
    return InvalidInput(
        fmt::format("'{}' was trained on no rows: there is no member to look at", run));
  }
  if (manifest.members == 0) {
    return InvalidInput(fmt::format(
        "'{}' has its network but not its members yet: lucid train --resume goes on", run));
  }
  if (manifest.not_finite > 0) {
    return InvalidInput(fmt::format(
        "'{}': {} members are not finite, so nothing can be proved of them: the promise 'full' "
        "holds, 'labels' cannot be certified",
        run, manifest.not_finite));
  }
  const std::string network_path = PathIn(run, kNetworkFile),
                    store_path = PathIn(run, kEnsembleFile);
  if (progress) progress({"checking the ensemble", "files", 0, 1, 0});
  LUCID_TRY(CheckDigest(store_path, manifest.ensemble_digest));
  if (progress) progress({"checking the ensemble", "files", 1, 1, 0});

  // This is checked before memory is taken for what the manifest claims.
  LUCID_ASSIGN(const SafetensorsHeader header, SafetensorsHeader::Read(store_path));
  if (header.tensors().empty() || header.tensors()[0].shape != std::vector{manifest.members + 1}) {
    return Mismatch(fmt::format("'{}' does not hold the {} networks of the manifest", store_path,
                                manifest.members + 1));
  }
  LUCID_ASSIGN(std::vector<std::int64_t> rows, RowsOf(manifest, header, store_path));
  StoreSpec spec{manifest.architecture, manifest.run_key, std::move(rows),
                 manifest.format == 1 ? std::nullopt : std::optional(manifest.order_digest)};
  LUCID_ASSIGN(const Store checked, Store::Open(store_path, spec, /*writable=*/false));
  LUCID_ASSIGN(MappedFile file, MappedFile::Open(store_path));
  StoreLayout layout(spec);
  auto impl = std::make_unique<Impl>(Impl{std::move(manifest), std::move(network), std::move(file),
                                          std::move(spec), std::move(layout)});
  Ensemble ensemble(std::move(impl));
  std::vector<float> first(ensemble.network().parameters.size());
  ensemble.CopyParameters(-1, first);
  if (std::memcmp(first.data(), ensemble.network().parameters.data(),
                  first.size() * sizeof(float)) != 0) {
    return Mismatch(fmt::format("'{}' is not the first network of '{}'", network_path, store_path));
  }
  if (ensemble.manifest().private_run) LUCID_TRY(CheckFinite(ensemble, store_path));
  return ensemble;
}

const Manifest& Ensemble::manifest() const { return impl_->manifest; }
const Network& Ensemble::network() const { return impl_->network; }
std::int64_t Ensemble::members() const { return impl_->manifest.members; }
std::int64_t Ensemble::RowOf(std::int64_t member) const { return impl_->spec.rows[member + 1]; }

void Ensemble::CopyParameters(std::int64_t member, std::span<float> out) const {
  const auto tensors = impl_->layout.parameters();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::memcpy(out.data() + tensors[t].offset,
                impl_->file.bytes().data() + impl_->layout.ParameterAt(t, member + 1),
                static_cast<std::size_t>(tensors[t].count) * sizeof(float));
  }
}

Network Ensemble::Member(std::int64_t member) const {
  Network network{impl_->manifest.architecture, {}};
  network.parameters.resize(static_cast<std::size_t>(impl_->manifest.architecture.parameters()));
  CopyParameters(member, network.parameters);
  return network;
}

}  // namespace lucid
