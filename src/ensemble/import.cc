#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>

#include "base/files.h"
#include "base/hasher.h"
#include "base/parallel.h"
#include "base/text.h"
#include "ensemble/builder.h"
#include "ensemble/run_spec.h"
#include "lucid/nn/import.h"
#include "nn/foreign.h"

namespace lucid {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRowsShown = 5;

bool IsNetworkFile(const fs::path& path) {
  return path.extension() == ".onnx" || path.extension() == ".safetensors";
}

// The one number in the stem of a file name.
Result<std::int64_t> RowInName(const fs::path& path) {
  const std::string stem = path.stem().string();
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::optional<std::int64_t> row;
  for (auto at = stem.begin(); at != stem.end();) {
    at = std::find_if(at, stem.end(), digit);
    if (at == stem.end()) break;
    const auto end = std::find_if_not(at, stem.end(), digit);
    std::int64_t value = 0;
    const char* last = stem.data() + (end - stem.begin());
    const auto read = std::from_chars(stem.data() + (at - stem.begin()), last, value);
    if (row || read.ec != std::errc()) {
      row.reset();
      break;
    }
    row = value;
    at = end;
  }
  if (row) return *row;
  return InvalidInput(fmt::format(
      "'{}': the name of a member has to hold exactly one number, the row that was left "
      "out (17.onnx, member-17.safetensors)",
      path.string()));
}

// The leave-one-out networks, wherever they are.
class Members {
 public:
  virtual ~Members() = default;
  virtual const std::vector<std::int64_t>& rows() const = 0;  // ascending, each once
  // Thread-safe. `network`: N, whose architecture the member must have.
  virtual Result<std::vector<float>> Read(std::int64_t row) const = 0;
};

class MemberFolder final : public Members {
 public:
  static Result<std::unique_ptr<Members>> Open(const std::string& folder,
                                               const std::string& network_path,
                                               const NetworkFit& fit) {
    auto members = std::make_unique<MemberFolder>();
    members->fit_ = fit;
    std::error_code code, ignored;
    for (const auto& entry : fs::directory_iterator(folder, code)) {
      if (!IsNetworkFile(entry.path()) || fs::equivalent(entry.path(), network_path, ignored)) {
        continue;
      }
      LUCID_ASSIGN(const std::int64_t row, RowInName(entry.path()));
      const auto [there, fresh] = members->files_.emplace(row, entry.path().string());
      if (!fresh) {
        return InvalidInput(fmt::format("two networks without row {}: '{}' and '{}'", row,
                                        std::min(there->second, entry.path().string()),
                                        std::max(there->second, entry.path().string())));
      }
    }
    if (code) return IoError(fmt::format("cannot list '{}': {}", folder, code.message()));
    for (const auto& [row, file] : members->files_) members->rows_.push_back(row);
    return std::unique_ptr<Members>(std::move(members));
  }

  const std::vector<std::int64_t>& rows() const override { return rows_; }
  Result<std::vector<float>> Read(std::int64_t row) const override {
    LUCID_ASSIGN(Network network, ImportNetwork(files_.at(row), fit_));
    return std::move(network.parameters);
  }

 private:
  NetworkFit fit_;
  std::map<std::int64_t, std::string> files_;
  std::vector<std::int64_t> rows_;
};

class MemberFile final : public Members {
 public:
  static Result<std::unique_ptr<Members>> Open(const std::string& path, const Network& network,
                                               const NetworkFit& fit, std::int64_t data_rows) {
    LUCID_ASSIGN(MappedFile file, MappedFile::Open(path));
    LUCID_ASSIGN(const SafetensorsHeader header,
                 SafetensorsHeader::Parse(file.bytes(), file.bytes().size(), path));
    if (header.tensors().empty() || header.tensors()[0].shape.empty()) {
      return InvalidInput(fmt::format("{}: holds no networks along a first axis", path));
    }
    const std::int64_t networks = header.tensors()[0].shape[0];
    LUCID_ASSIGN(ForeignTensors tensors, ForeignTensors::Find(header, networks, fit, path));
    LUCID_ASSIGN(const std::vector<std::int64_t> rows,
                 StackedRows(header, file, networks, data_rows, path));
    auto members =
        std::unique_ptr<MemberFile>(new MemberFile(std::move(file), std::move(tensors), path));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!members->index_.emplace(rows[i], static_cast<std::int64_t>(i)).second) {
        return InvalidInput(fmt::format("{}: two networks without row {}", path, rows[i]));
      }
    }
    // As in a store that LUCID wrote, N is there, too, and has to be N.
    if (members->index_.contains(-1)) {
      LUCID_ASSIGN(const std::vector<float> first, members->Read(-1));
      if (first != network.parameters) {
        return Mismatch(
            fmt::format("{}: its network of row -1 is not the network N that was given", path));
      }
      members->index_.erase(-1);
    }
    for (const auto& [row, index] : members->index_) members->rows_.push_back(row);
    return std::unique_ptr<Members>(std::move(members));
  }

  const std::vector<std::int64_t>& rows() const override { return rows_; }
  Result<std::vector<float>> Read(std::int64_t row) const override {
    std::vector<float> parameters(static_cast<std::size_t>(tensors_.architecture().parameters()));
    tensors_.Copy(file_.bytes(), index_.at(row), parameters);
    LUCID_TRY(CheckFinite(parameters, fmt::format("{}: the network without row {}", path_, row)));
    return parameters;
  }

 private:
  MemberFile(MappedFile file, ForeignTensors tensors, std::string path)
      : file_(std::move(file)), tensors_(std::move(tensors)), path_(std::move(path)) {}

  // The row of each network in the file: its tensor "rows", or all rows in order.
  static Result<std::vector<std::int64_t>> StackedRows(const SafetensorsHeader& header,
                                                       const MappedFile& file,
                                                       std::int64_t networks,
                                                       std::int64_t data_rows,
                                                       const std::string& path) {
    const bool named =
        std::ranges::any_of(header.tensors(), [](const Tensor& t) { return t.name == "rows"; });
    if (!named && networks != data_rows) {
      return InvalidInput(
          fmt::format("{}: {} networks where the data has {} rows; a tensor 'rows' (I64 [{}]) has "
                      "to say which row each was trained without",
                      path, networks, data_rows, networks));
    }
    if (!named) {
      std::vector<std::int64_t> rows(static_cast<std::size_t>(data_rows));
      std::iota(rows.begin(), rows.end(), 0);
      return rows;
    }
    const std::vector<std::int64_t> shape = {networks};
    LUCID_ASSIGN(const Tensor* tensor, header.Find("rows", TensorType::kI64, shape));
    std::vector<std::int64_t> rows(static_cast<std::size_t>(networks));
    std::memcpy(rows.data(), file.bytes().data() + tensor->begin, tensor->bytes());
    return rows;
  }

  MappedFile file_;
  ForeignTensors tensors_;
  std::string path_;
  std::map<std::int64_t, std::int64_t> index_;  // of the network without a row
  std::vector<std::int64_t> rows_;
};

// The units of an import: those of the data, and every further copy of a row that has a network of
// its own (another trainer may tell equal rows apart by where they stand). Errors: rows out of
// range, rows that name no unit, and units without a network unless `partial`.
Result<std::vector<Unit>> UnitsOfImport(const Dataset& dataset,
                                        const std::vector<std::int64_t>& members, bool partial,
                                        const std::string& source) {
  const std::int64_t rows = dataset.train.rows();
  std::vector<Unit> units = UnitsOf(dataset.train, TableKeys::Of(dataset.train));
  if (members.empty()) {
    return InvalidInput(
        fmt::format("'{}' holds no network (.onnx or .safetensors) without a row", source));
  }
  std::vector<std::int64_t> named, missing;
  for (const Unit& unit : units) named.push_back(unit.row);
  for (const std::int64_t row : members) {
    if (row < 0 || row >= rows) {
      return InvalidInput(fmt::format("'{}': a network without row {}, but rows go from 0 to {}",
                                      source, row, rows - 1));
    }
    if (std::ranges::binary_search(named, row)) continue;
    if (dataset.train.has_units()) {
      return InvalidInput(fmt::format(
          "'{}': a network without row {}, which is not the first row of its {}: a network is "
          "named by the first row of the unit that it leaves out",
          source, row, Quoted(dataset.schema.unit_name())));
    }
    units.push_back({row, {row}, 1});
  }
  std::ranges::sort(units, {}, &Unit::row);
  std::ranges::set_difference(named, members, std::back_inserter(missing));
  if (missing.empty() || partial) return units;
  const bool more = missing.size() > kRowsShown;
  if (more) missing.resize(kRowsShown);
  return InvalidInput(fmt::format(
      "'{}' holds {} networks for {} rows: none without row {}{}; set the option partial to make "
      "a partial run of these",
      source, members.size(), rows, fmt::join(missing, ", "), more ? ", ..." : ""));
}

// The imported networks as a source for the builder. What is read again must be what the run key
// was made of.
class FileSource final : public NetworkSource {
 public:
  FileSource(const Network& network, const Members& members) : n_(network), members_(members) {}

  // Reads and checks every network; ensures: the digest of all of them with their rows.
  Result<Digest> ReadAll(int threads, const ProgressCallback& report, std::stop_token stop) {
    const std::vector<std::int64_t>& rows = members_.rows();
    const auto count = static_cast<std::int64_t>(rows.size());
    std::vector<Digest> digests(rows.size());
    std::mutex mutex;
    std::int64_t done = 0;
    LUCID_TRY(ParallelFor(count, threads, stop, [&](std::int64_t i, int) -> Status {
      LUCID_ASSIGN(const std::vector<float> parameters, members_.Read(rows[i]));
      digests[i] = Sha256Of(std::as_bytes(std::span(parameters)));
      std::lock_guard lock(mutex);
      if (report) report({"reading", "networks", ++done, count, 0});
      return Ok();
    }));
    digests_[-1] = Sha256Of(std::as_bytes(std::span(n_.parameters)));
    for (std::size_t i = 0; i < rows.size(); ++i) digests_[rows[i]] = digests[i];
    Hasher hasher;
    for (const auto& [row, digest] : digests_) {
      hasher.Number(static_cast<std::uint64_t>(row)).Bytes(std::as_bytes(std::span(digest.bytes)));
    }
    return hasher.Finish();
  }

  // Whether no member differs from N. Requires: ReadAll.
  bool AllEqualN() const {
    return std::ranges::all_of(digests_,
                               [this](const auto& item) { return item.second == digests_.at(-1); });
  }

  std::string verb() const override { return "importing"; }
  NetworkMaker maker() const override { return NetworkMaker::kImport; }
  Status Make(std::span<const std::int64_t> left_out, std::span<float> out,
              std::stop_token) const override {
    const std::int64_t row = left_out.front();
    std::vector<float> parameters = n_.parameters;
    if (row >= 0) {
      LUCID_ASSIGN(parameters, members_.Read(row));
    }
    if (Sha256Of(std::as_bytes(std::span(parameters))) != digests_.at(row)) {
      return InvalidInput(
          fmt::format("the network without row {} changed while it was being imported", row));
    }
    std::ranges::copy(parameters, out.begin());
    return Ok();
  }

 private:
  const Network& n_;
  const Members& members_;
  std::map<std::int64_t, Digest> digests_;  // by row
};

}  // namespace

Result<TrainSummary> ImportEnsemble(const Dataset& dataset, const std::string& network,
                                    const std::string& members, const ImportOptions& options,
                                    const std::string& run, const ProgressCallback& progress,
                                    std::stop_token stop) {
  NetworkFit fit{dataset.features(), dataset.classes(), options.architecture};
  LUCID_ASSIGN(const Network n, ImportNetwork(network, fit));
  fit.architecture = n.architecture;
  const std::int64_t rows = dataset.train.rows();
  LUCID_ASSIGN(const std::unique_ptr<Members> found, fs::is_directory(members)
                                                         ? MemberFolder::Open(members, network, fit)
                                                         : MemberFile::Open(members, n, fit, rows));
  LUCID_ASSIGN(std::vector<Unit> units,
               UnitsOfImport(dataset, found->rows(), options.partial, members));
  LUCID_TRY(CheckData(dataset, units, n.architecture));

  FileSource source(n, *found);
  LUCID_ASSIGN(const Digest digest, source.ReadAll(options.threads, progress, stop));
  if (!options.may_equal && found->rows().size() > 1 && source.AllEqualN()) {
    return InvalidInput(fmt::format(
        "'{}': every network equals the one on all rows: they were trained on all rows, too, or "
        "are copies of one file",
        members));
  }
  const std::string training = ImportedText(digest);
  StoreSpec spec{n.architecture,
                 RunKey(2, {dataset.schema_digest, dataset.train_digest, rows, std::ssize(units),
                            n.architecture.Canonical(), training}),
                 {-1},
                 dataset.train_order};
  spec.rows.insert(spec.rows.end(), found->rows().begin(), found->rows().end());
  LUCID_TRY(MakeDirectories(run));
  EnsembleOptions building;
  building.resume = true;  // importing is copying: what is there of this run is right, or redone
  building.threads = options.threads;
  building.command = options.command;
  const bool partial = found->rows().size() < units.size();
  const Job job{dataset,
                building,
                run,
                std::move(units),
                std::move(spec),
                training,
                Adjacency::kAsTrainedElsewhere,
                partial,
                progress,
                (fs::path(run) / kEnsembleFile).string(),
                stop};
  return BuildRun(job, source);
}

}  // namespace lucid
