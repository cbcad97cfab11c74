#include "audit/reduced_world.h"

#include <fmt/format.h>

#include <filesystem>
#include <mutex>
#include <utility>
#include <vector>

#include "base/byte_fields.h"
#include "base/files.h"
#include "data/csv.h"
#include "lucid/certify/certify.h"
#include "lucid/data/dataset.h"

namespace lucid {
namespace {

constexpr double kBoundSeconds = 600;  // of one world; bounds that are not closed by then hold, too
constexpr double kSpatialSeconds = 10;

bool IsPrivate(const Manifest& manifest) { return manifest.private_run.has_value(); }

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

// Schema and split are held fixed: the rows leave the training file.
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

// How a world is made and certified.
struct HowMade {
  DomainKind domain = DomainKind::kBox;
  bool index = false, spatial = false;
  bool from_plain = false;  // schema and split are made anew, too
};

std::string FolderOf(const std::string& scratch, std::int64_t row) {
  return PathIn(scratch, fmt::format("without-{}", row));
}

// The files of a run that its guards read: the exact guard's are the index and the ensemble, the
// spatial guard's is the one of its name.
constexpr std::string_view kFiles[] = {kManifestFile, kNetworkFile,  kCertificateFile,
                                       kIndexFile,    kEnsembleFile, kSpatialFile};
bool IsRead(std::string_view file, const HowMade& how) {
  if (file == kSpatialFile) return how.spatial;
  return how.index || (file != kIndexFile && file != kEnsembleFile);
}

Status WriteFiles(const HowMade& how, const std::string& run, BytesIn& io) {
  LUCID_TRY(MakeDirectories(run));
  for (const std::string_view file : kFiles) {
    std::vector<char> content;
    io.Numbers(content);
    if (!io.ok()) return InternalError("a helper's answer is damaged");
    if (!IsRead(file, how)) continue;
    LUCID_TRY(WriteFileAtomically(PathIn(run, std::string(file)),
                                  std::string(content.begin(), content.end())));
  }
  return Ok();
}

// Returns the folder of the new run.
Result<std::string> Make(const ReducedWorldMaker& maker, const HowMade& how, std::int64_t row) {
  const Manifest& manifest = maker.manifest;
  const std::string folder = FolderOf(maker.scratch, row);
  const std::string data = PathIn(folder, "data"), run = PathIn(folder, "run");
  LUCID_TRY(MakeReducedData(manifest, maker.plain, maker.train, row, data));
  LUCID_ASSIGN(const Dataset dataset, LoadDataset(data, {.clip = true}));
  EnsembleOptions options;
  LUCID_ASSIGN(options.train, TrainOptions::FromCanonical(manifest.training));
  if (manifest.expected_from_data) options.train.expected_rows = options.train.batches = 0;
  options.members = manifest.partial ? manifest.members : 0;
  options.threads = maker.threads;
  LUCID_ASSIGN(const Ensemble ensemble,
               Train(dataset, manifest.architecture, options, run, {}, maker.stop));
  CertifyOptions certify;
  auto& native = std::get<NativeBoundOptions>(certify.engine);
  native.domain = how.domain;
  native.common.time_limit = kBoundSeconds;
  native.common.threads = maker.threads;
  certify.proof = false;
  certify.index = how.index;
  certify.spatial = how.spatial;
  certify.spatial_options.time_limit = kSpatialSeconds;
  certify.spatial_options.least_spared = 0;  // the guard wants the file
  LUCID_TRY(Certify(ensemble, run, certify, {}, maker.stop));
  if (maker.stop.stop_requested()) return Interrupted("stopped on request");
  return run;
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

Result<PlainFile> FindPlainFile(const Manifest& manifest, const std::string& folder) {
  PlainFile plain;
  const auto without = [&plain](std::string why) {
    plain.source.reset();
    plain.why_not = std::move(why);
    return plain;
  };
  const Result<std::optional<DataSource>> source = LoadSource(manifest.data_directory);
  if (!source.ok()) return without(source.error().message);
  if (!*source) {
    return without(
        fmt::format("'{}' does not say of which plain file it was made", manifest.data_directory));
  }
  plain.source = **source;
  const Result<Digest> digest = Sha256OfFile(plain.source->file);
  if (!digest.ok() || *digest != plain.source->digest) {
    return without(
        fmt::format("'{}' is no longer the file that the data were made of", plain.source->file));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);  // of an earlier look
  LUCID_TRY(MakeDirectories(folder));
  const std::string declared = PathIn(folder, "declared.csv"), again = PathIn(folder, "again");
  if (!plain.source->declared.empty()) {
    LUCID_TRY(WriteFileAtomically(declared, plain.source->declared));
    plain.source->options.declared = declared;
  }
  const auto made = InferSchema(plain.source->file, plain.source->options, again);
  if (!made.ok()) return without(made.error().message);
  const Result<Dataset> dataset = LoadDataset(
      again, {.clip = true, .rows_per_unit = manifest.rows_per_unit, .total = IsPrivate(manifest)});
  if (!dataset.ok()) return without(dataset.error().message);
  if (dataset->schema_digest != manifest.schema_digest ||
      dataset->train_digest != manifest.train_digest ||
      dataset->train_order != manifest.order_digest) {
    return without(fmt::format("'{}' gives other rows than those of the run", plain.source->file));
  }
  plain.records = made->train_records;
  if (dataset->train.rows() != std::ssize(plain.records)) {
    return without("not all rows of the training file were trained on");
  }
  return plain;
}

Status MakeReducedData(const Manifest& manifest, const PlainFile& plain, const Table& train,
                       std::int64_t row, const std::string& folder) {
  if (!plain.source) return WriteReducedData(manifest, train, row, folder);
  const DataSource& source = *plain.source;
  LUCID_ASSIGN(const std::string rest,
               WithoutUnitOfRecord(source.file, source.options.unit,
                                   plain.records[static_cast<std::size_t>(row)]));
  LUCID_TRY(MakeDirectories(folder));
  const std::string file = PathIn(folder, "plain.csv");
  LUCID_TRY(WriteFileAtomically(file, rest));
  LUCID_ASSIGN(const InferredSchema made, InferSchema(file, source.options, folder));
  if (Sha256Of(made.schema.Canonical()) == manifest.schema_digest) return Ok();
  return Mismatch("the schema of the file without the unit is another one");
}

Result<std::vector<std::string>> MakeReducedWorlds(const ReducedWorldMaker& maker,
                                                   const Certificate& certificate, bool spatial,
                                                   std::span<const std::int64_t> rows,
                                                   TaskTeam* team,
                                                   const ProgressCallback& progress) {
  const HowMade how{certificate.domain, certificate.index_digest.has_value(),
                    spatial && certificate.spatial_digest.has_value(),
                    maker.plain.source.has_value()};
  std::vector<std::string> worlds(rows.size());
  std::mutex mutex;
  std::int64_t done = 0;
  Status written = Ok();
  const auto row = [&](std::int64_t i) { return rows[static_cast<std::size_t>(i)]; };
  const auto keep = [&](std::int64_t i, std::string world) {
    const std::lock_guard lock(mutex);
    worlds[static_cast<std::size_t>(i)] = std::move(world);
    if (progress) progress({"making worlds", "worlds", ++done, std::ssize(rows), 0, "deployed"});
  };
  TeamTasks tasks;
  tasks.topic = kReducedWorldTopic;
  tasks.count = std::ssize(rows);
  tasks.whole_process = true;
  tasks.ask = [&](std::int64_t i, std::string& out) {
    BytesOut io(out);
    const std::int64_t asked = row(i);
    io(how.domain, how.index, how.spatial, how.from_plain, asked);
  };
  tasks.take = [&](std::int64_t i, ByteCursor& in) {
    BytesIn io(in);
    const std::string run = PathIn(FolderOf(maker.scratch, row(i)), "run");
    Status status = WriteFiles(how, run, io);
    if (io.ok() && status.ok()) keep(i, run);
    if (!status.ok()) written = std::move(status);
    return io.ok();
  };
  const auto here = [&](std::int64_t i, int) -> Status {
    LUCID_ASSIGN(std::string world, Make(maker, how, row(i)));
    keep(i, std::move(world));
    return Ok();
  };
  LUCID_TRY(DoTasks(team, std::move(tasks), here, maker.threads, maker.stop));
  LUCID_TRY(written);
  return worlds;
}

Status AnswerReducedWorld(const Manifest& manifest, const Table& train, const std::string& scratch,
                          int threads, const std::stop_token& stop, ByteCursor& in,
                          std::string& out) {
  BytesIn io(in);
  HowMade how;
  std::int64_t row = 0;
  io(how.domain, how.index, how.spatial, how.from_plain, row);
  io.Require(row >= 0 && row < train.rows());
  if (!io.ok()) return InternalError("a task of the leader is damaged");
  LUCID_ASSIGN(const PlainFile plain, FindPlainFile(manifest, PathIn(scratch, "plain")));
  if (plain.source.has_value() != how.from_plain) {
    return Mismatch(how.from_plain
                        ? "the plain file of the run's data is not here: " + plain.why_not
                        : std::string("the plain file of the run's data is here and not there"));
  }
  const auto world = Make({manifest, plain, train, scratch, threads, stop}, how, row);
  if (!world.ok()) {
    // Nobody waits for it any more.
    return world.error().kind == ErrorKind::kInterrupted ? Ok() : Status(world.error());
  }
  BytesOut answer(out);
  for (const std::string_view file : kFiles) {
    std::string content;
    if (IsRead(file, how)) {
      LUCID_ASSIGN(content, ReadTextFile(PathIn(*world, std::string(file))));
    }
    answer.Numbers(std::vector<char>(content.begin(), content.end()));
  }
  std::error_code ignored;
  std::filesystem::remove_all(FolderOf(scratch, row), ignored);
  return Ok();
}

}  // namespace lucid
