#include "audit/reduced_world.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/files.h"
#include "data/csv.h"
#include "lucid/certify/certify.h"
#include "lucid/data/dataset.h"

namespace lucid {
namespace {

constexpr double kBoundSeconds = 600;  // of one world; bounds that are not closed by then hold, too

Result<std::string> FileIn(const std::string& folder, const std::string& name) {
  for (const char* end : {"", ".gz"}) {
    const std::string path = PathIn(folder, name + end);
    if (std::filesystem::exists(path)) return path;
  }
  return IoError(fmt::format("'{}' no longer holds {}", folder, name));
}

Status Copy(const std::string& from, const std::string& to_folder) {
  std::error_code error;
  std::filesystem::copy(from, to_folder, error);
  return error ? Status(IoError(fmt::format("cannot copy '{}': {}", from, error.message()))) : Ok();
}

// The file without these records, of which the first one after the header is 0.
Result<std::string> WithoutRecords(const std::string& path, const std::vector<bool>& gone) {
  LUCID_ASSIGN(auto source, OpenSource(path));
  CsvReader reader(std::move(source), path);
  std::string rest;
  for (std::int64_t record = -1;; ++record) {
    LUCID_ASSIGN(const bool more, reader.Next());
    if (!more) {
      if (record == std::ssize(gone)) return rest;
      return Mismatch(fmt::format("'{}' has {} rows, the run {}", path, record, gone.size()));
    }
    const bool drop =
        record >= 0 && record < std::ssize(gone) && gone[static_cast<std::size_t>(record)];
    if (!drop) AppendCsvRecord(rest, reader.cells());
  }
}

Status WriteReducedData(const Manifest& manifest, const Table& train, std::int64_t row,
                        const std::string& folder) {
  const std::string& from = manifest.data_directory;
  LUCID_TRY(MakeDirectories(folder));
  std::vector<bool> gone(static_cast<std::size_t>(train.rows()));
  for (std::int64_t i = 0; i < train.rows(); ++i) {
    gone[static_cast<std::size_t>(i)] =
        i == row || (train.has_units() && train.unit_ids[static_cast<std::size_t>(i)] ==
                                              train.unit_ids[static_cast<std::size_t>(row)]);
  }
  LUCID_ASSIGN(const std::string file, FileIn(from, "train.csv"));
  LUCID_ASSIGN(const std::string rest, WithoutRecords(file, gone));
  LUCID_TRY(WriteFileAtomically(PathIn(folder, "train.csv"), rest));
  LUCID_TRY(Copy(PathIn(from, "schema.csv"), folder));
  if (const auto test = FileIn(from, "test.csv"); test.ok()) LUCID_TRY(Copy(*test, folder));
  return Ok();
}

}  // namespace

std::string WhyNotReduced(const Manifest& manifest) {
  if (!TrainOptions::FromCanonical(manifest.training).ok()) {
    return "the networks come from elsewhere, and cannot be trained anew here";
  }
  if (manifest.adjacency != Adjacency::kUnitRemoved) {
    return "the run is of format 1, whose training cannot be repeated";
  }
  if (manifest.max_rows > 0 || manifest.rows_per_unit > 0) {
    return "only some rows of the file were trained on";
  }
  return "";
}

Result<std::string> MakeReducedWorld(const Manifest& manifest, const Certificate& certificate,
                                     const Table& train, std::int64_t row,
                                     const std::string& folder, int threads, std::stop_token stop) {
  const std::string data = PathIn(folder, "data"), run = PathIn(folder, "run");
  LUCID_TRY(WriteReducedData(manifest, train, row, data));
  LUCID_ASSIGN(const Dataset dataset, LoadDataset(data, {.clip = true}));
  EnsembleOptions options;
  LUCID_ASSIGN(options.train, TrainOptions::FromCanonical(manifest.training));
  if (manifest.expected_from_data) options.train.expected_rows = options.train.batches = 0;
  options.members = manifest.partial ? manifest.members : 0;
  options.threads = threads;
  LUCID_ASSIGN(const Ensemble ensemble,
               Train(dataset, manifest.architecture, options, run, {}, stop));
  CertifyOptions certify;
  auto& native = std::get<NativeBoundOptions>(certify.engine);
  native.domain = certificate.domain;
  native.common.time_limit = kBoundSeconds;
  native.common.threads = threads;
  certify.proof = false;
  certify.index = certificate.index_digest.has_value();
  certify.spatial = false;  // nobody plays with the spatial guard
  LUCID_TRY(Certify(ensemble, run, certify, {}, stop));
  if (stop.stop_requested()) return Interrupted("stopped on request");
  return run;
}

}  // namespace lucid
