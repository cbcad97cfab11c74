#include "ensemble/command_source.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/files.h"
#include "base/text.h"
#include "data/csv.h"
#include "data/table_reader.h"
#include "lucid/nn/import.h"
#include "random/stream.h"

namespace lucid {
namespace {

namespace fs = std::filesystem;

std::string RowName(std::int64_t row) { return row < 0 ? "all" : fmt::format("row-{}", row); }
std::string RowText(std::int64_t row) {
  return row < 0 ? "the network on all rows" : fmt::format("the network without row {}", row);
}

}  // namespace

std::string CommandSource::Folder() const {
  std::error_code code;
  return fs::absolute(fs::path(job_.run) / "trainer", code).string();
}

CommandSource::~CommandSource() {
  RetireWorkers();
  std::error_code ignored;
  fs::remove(Folder(), ignored);  // only if nothing is in it
}

CommandSource::Call CommandSource::CallFor(std::int64_t row) const {
  const auto unit = std::ranges::find(job_.units, row, &Unit::row);
  return {job_.dataset.directory,
          unit == job_.units.end() ? std::vector<std::int64_t>() : unit->rows, RowName(row),
          RowText(row), job_.dataset.train.rows()};
}

Status CommandSource::Make(std::span<const std::int64_t> left_out, std::span<float> out,
                           std::stop_token stop) const {
  const Call call = CallFor(left_out.front());
  Result<std::vector<float>> parameters = Run(call, stop);
  if (!parameters.ok() && parameters.error().kind != ErrorKind::kInterrupted) {
    parameters = Run(call, stop);
  }
  if (!parameters.ok()) return parameters.error();
  std::ranges::copy(*parameters, out.begin());
  return Ok();
}

Result<std::vector<float>> CommandSource::Run(const Call& call, const std::stop_token& stop) const {
  LUCID_TRY(MakeFolder());
  RemoveFilesOf(call, /*but_log=*/false);  // of an earlier run that was killed
  const std::string log = PathIn(Folder(), call.name + ".log");
  std::unique_ptr<TrainerWorker> worker;
  const Result<std::vector<float>> made = RunOnce(call, log, stop, worker);
  const bool good = made.ok() && !stop.stop_requested();
  if (worker != nullptr && good) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  } else if (worker != nullptr) {
    const std::string output = worker->log();
    worker.reset();
    std::error_code ignored;
    fs::rename(output, log, ignored);
  }
  RemoveFilesOf(call, /*but_log=*/!good && !stop.stop_requested());
  if (stop.stop_requested()) return Interrupted("stopped on request");
  if (good) return made;
  const std::string last = LastLineOf(log);
  return InvalidInput(fmt::format("the trainer {} for {} {} (its output: '{}'{}{})",
                                  job_.options.trainer_stays ? "worker" : "command", call.what,
                                  made.error().message, log,
                                  last.empty() ? "" : ", last line: ", last));
}

// What the training makes in RUN/trainer begins with its name, and so does its temporary file.
void CommandSource::RemoveFilesOf(const Call& call, bool but_log) const {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(Folder(), ignored)) {
    const std::string name = entry.path().filename().string();
    const bool kept = but_log && name == call.name + ".log";
    if (name.starts_with(call.name + ".") && !kept) files.push_back(entry.path());
  }
  for (const fs::path& file : files) fs::remove(file, ignored);
}

// Its files hold what was learned from the rows.
Status CommandSource::MakeFolder() const {
  LUCID_TRY(MakeDirectories(Folder()));
  std::error_code code;
  fs::permissions(Folder(), fs::perms::owner_all, code);
  if (!code) return Ok();
  return IoError(fmt::format("cannot change the mode of '{}': {}", Folder(), code.message()));
}

// `worker` becomes the one that was asked, also if the training failed.
Result<std::vector<float>> CommandSource::RunOnce(const Call& call, const std::string& log,
                                                  const std::stop_token& stop,
                                                  std::unique_ptr<TrainerWorker>& worker) const {
  const std::string file = PathIn(Folder(), call.name + ".safetensors");
  if (job_.options.trainer_stays) {
    LUCID_TRY(AskWorker(call, file, stop, worker));
  } else {
    LUCID_TRY(RunCommand(call, file, log, stop));
  }
  std::error_code code;
  if (!fs::exists(file, code)) {
    return InvalidInput(fmt::format("{}, '{}'",
                                    job_.options.trainer_stays
                                        ? "is done but did not write what \"out\" names"
                                        : "ended well but did not write LUCID_OUT",
                                    file));
  }
  Result<Network> network = ImportNetwork(
      file, {job_.dataset.features(), job_.dataset.classes(), job_.spec.architecture});
  if (!network.ok()) return InvalidInput("wrote a bad network: " + network.error().message);
  return std::move(network->parameters);
}

Status CommandSource::RunCommand(const Call& call, const std::string& file, const std::string& log,
                                 const std::stop_token& stop) const {
  std::error_code code;
  const std::string left_out =
      call.left_out.empty() ? "none" : fmt::format("{}", fmt::join(call.left_out, ","));
  const std::vector<std::string> environment = {
      "LUCID_DATA=" + fs::absolute(call.data, code).string(),
      fmt::format("LUCID_ROWS={}", call.rows),
      "LUCID_LEAVE_OUT=" + left_out,
      fmt::format("LUCID_SEED={}", job_.options.train.seed),
      "LUCID_ARCH=" + job_.spec.architecture.Canonical(),
      "LUCID_OUT=" + file,
  };
  LUCID_ASSIGN(const auto process, ShellProcess::Start({job_.options.trainer, environment, log}));
  LUCID_ASSIGN(const int status, process->Wait(stop));
  return status == 0 ? Ok() : Status(InvalidInput(HowItEnded(status)));
}

Status CommandSource::AskWorker(const Call& call, const std::string& file,
                                const std::stop_token& stop,
                                std::unique_ptr<TrainerWorker>& worker) const {
  std::error_code code;
  const std::string data = fs::absolute(call.data, code).string();
  if (!IsUtf8(data) || !IsUtf8(file)) {
    return InvalidInput(
        fmt::format("cannot be asked: '{}' or '{}' is not UTF-8", Escaped(data), Escaped(file)));
  }
  nlohmann::ordered_json request;
  request["data"] = data;
  request["rows"] = call.rows;
  request["leave_out"] = call.left_out;
  request["seed"] = job_.options.train.seed;
  request["arch"] = job_.spec.architecture.Canonical();
  request["out"] = file;
  LUCID_ASSIGN(worker, TakeWorker());
  return worker->Ask(request.dump(), stop);
}

// One that waits, or a new one.
Result<std::unique_ptr<TrainerWorker>> CommandSource::TakeWorker() const {
  std::int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<TrainerWorker> worker = std::move(idle_.back());
      idle_.pop_back();
      return worker;
    }
    number = ++started_;
  }
  return TrainerWorker::Start(job_.options.trainer,
                              PathIn(Folder(), fmt::format("worker-{}.log", number)));
}

void CommandSource::RetireWorkers() const {
  std::vector<std::unique_ptr<TrainerWorker>> workers;
  {
    const std::lock_guard lock(mutex_);
    workers.swap(idle_);
  }
  for (const auto& worker : workers) worker->SayGoodbye();
  for (auto& worker : workers) {
    const std::string log = worker->log();
    worker.reset();
    std::error_code ignored;
    fs::remove(log, ignored);
  }
}

namespace {

// A copy of a data folder whose training rows are those of `rows`, in that order.
Status CopyData(const std::string& from, const std::vector<std::int64_t>& rows,
                const std::string& to) {
  LUCID_ASSIGN(const DatasetFiles files, FindDatasetFiles(from));
  LUCID_TRY(MakeDirectories(to));
  std::error_code code;
  for (const std::string& file : {files.schema, files.test}) {
    if (file.empty()) continue;
    fs::copy_file(file, fs::path(to) / fs::path(file).filename(),
                  fs::copy_options::overwrite_existing, code);
    if (code) return IoError(fmt::format("cannot copy '{}': {}", file, code.message()));
    fs::permissions(fs::path(to) / fs::path(file).filename(),
                    fs::perms::owner_read | fs::perms::owner_write, code);
  }
  LUCID_ASSIGN(auto source, OpenSource(files.train));
  CsvReader csv(std::move(source), files.train);
  std::vector<std::string> records;  // the header first
  while (true) {
    LUCID_ASSIGN(const bool more, csv.Next());
    if (!more) break;
    AppendCsvRecord(records.emplace_back(), csv.cells());
  }
  std::string text = records.front();
  for (const std::int64_t row : rows) text += records[static_cast<std::size_t>(row) + 1];
  const std::string path = fs::path(to) / fs::path(files.train).filename();
  LUCID_TRY(WriteFileAtomically(path, text));  // its mode stays
  if (!path.ends_with(".gz")) return Ok();
  gzFile gzip = ::gzopen(path.c_str(), "wb");
  const bool good =
      gzip != nullptr && ::gzwrite(gzip, text.data(), static_cast<unsigned>(text.size())) ==
                             static_cast<int>(text.size());
  if (gzip == nullptr || ::gzclose(gzip) != Z_OK || !good) {
    return IoError(fmt::format("cannot write '{}'", path));
  }
  return Ok();
}

}  // namespace

// Every training has a process of its own, so that what is found is not a matter of earlier ones.
Result<std::vector<float>> CommandSource::Train(std::int64_t row) const {
  RetireWorkers();
  return Run(CallFor(row), job_.stop);
}

// Trained on a file that holds the rows but for these, in another order. Every file has a folder of
// its own: what a worker remembers of a folder stays true.
Result<std::vector<float>> CommandSource::TrainReally(const std::vector<std::int64_t>& left_out,
                                                      int number) const {
  const std::string copy = PathIn(Folder(), fmt::format("data-{}", number));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(job_.dataset.train.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  std::erase_if(
      rows, [&](std::int64_t row) { return std::ranges::find(left_out, row) != left_out.end(); });
  Stream(0, "order of a tried file").Shuffle(rows);
  LUCID_TRY(CopyData(job_.dataset.directory, rows, copy));
  RetireWorkers();
  auto result = Run(
      {copy, {}, "tried", "a file with fewer rows in another order", std::ssize(rows)}, job_.stop);
  std::error_code ignored;
  fs::remove_all(copy, ignored);
  return result;
}

Status CommandSource::Check() const {
  constexpr std::int64_t kTried = 3;
  const auto refuse = [&](std::string_view what) {
    return InvalidInput(
        fmt::format("the trainer {} {}", job_.options.trainer_stays ? "worker" : "command", what));
  };
  const bool stays = job_.options.trainer_stays;
  LUCID_ASSIGN(const std::vector<float> n, Train(-1));
  LUCID_ASSIGN(const std::vector<float> again, Train(-1));
  if (n != again) {
    return refuse(fmt::format("is unseeded: two trainings on the same rows differ (use {})",
                              stays ? "\"seed\"" : "LUCID_SEED"));
  }
  LUCID_ASSIGN(const std::vector<float> shuffled, TrainReally({}, 0));
  if (n != shuffled) {
    return refuse(
        "depends on the order of the rows: a file with its lines shuffled gives another "
        "network, and so would a file without one of them");
  }
  const auto units = static_cast<std::int64_t>(job_.units.size());
  bool ignored = true;
  std::vector<Alone> alone;
  std::vector<const Unit*> differ;
  for (std::int64_t i = 0; i < std::min(kTried, units); ++i) {
    const Unit& unit = job_.units[static_cast<std::size_t>(i * units / std::min(kTried, units))];
    LUCID_ASSIGN(const std::vector<float> member, Train(unit.row));
    LUCID_ASSIGN(const std::vector<float> really, TrainReally(unit.rows, static_cast<int>(i) + 1));
    ignored = ignored && member == n;
    alone.push_back({unit.row, member});
    if (member != really) differ.push_back(&unit);
  }
  const std::string_view told = stays ? "\"leave_out\"" : "LUCID_LEAVE_OUT";
  if (!differ.empty() && ignored) {
    return refuse(
        fmt::format("ignores {}: what it trains without a unit is the network on all rows", told));
  }
  if (!differ.empty()) {
    return refuse(
        fmt::format("does not leave out what {} says: training on a file without row {} gives "
                    "another network",
                    told, differ.front()->row));
  }
  if (!stays) return Ok();
  alone.push_back({-1, n});
  return CheckThatNothingIsKept(std::move(alone));
}

namespace {

Error Keeps(const std::string& what) {
  return InvalidInput(fmt::format(
      "the trainer worker keeps something from one training to the next: {} (seed all "
      "generators, begin with new weights and take \"leave_out\" from all rows at every "
      "request)",
      what));
}

}  // namespace

// One process makes them all, in this order and backwards, so that each but one is made both after
// some of the others and after all of them.
Status CommandSource::CheckThatNothingIsKept(std::vector<Alone> asked) const {
  for (std::size_t i = asked.size() - 1; i-- > 0;) asked.push_back(asked[i]);
  RetireWorkers();
  for (const Alone& alone : asked) {
    LUCID_ASSIGN(const std::vector<float> later, Run(CallFor(alone.row), job_.stop));
    if (later == alone.parameters) continue;
    return Keeps(fmt::format("{} after other trainings in the same process is another network",
                             RowText(alone.row)));
  }
  RetireWorkers();
  return Ok();
}

// The sample hangs on the seed alone: who goes on with --resume is asked for the same networks.
Status CommandSource::CheckMade(const Store& store) const {
  constexpr std::size_t kSample = 3;
  if (!job_.options.check_trainer || !job_.options.trainer_stays) return Ok();
  std::vector<std::int64_t> places(static_cast<std::size_t>(store.networks()));
  std::iota(places.begin(), places.end(), 0);
  Stream(job_.options.train.seed, "networks trained once more").Shuffle(places);
  places.resize(std::min(places.size(), kSample));
  std::vector<float> there(static_cast<std::size_t>(job_.spec.architecture.parameters()));
  for (const std::int64_t place : places) {
    const std::int64_t row = store.spec().rows[static_cast<std::size_t>(place)];
    LUCID_ASSIGN(const bool whole, store.Read(place, there));
    if (!whole) return InternalError("the store lost " + RowText(row));
    LUCID_ASSIGN(const std::vector<float> again, Train(row));
    if (again == there) continue;
    return Keeps(
        fmt::format("{}, trained once more in a new process, is another one than '{}' "
                    "holds; mend the worker and use another folder for the run",
                    RowText(row), job_.run));
  }
  RetireWorkers();
  return Ok();
}

}  // namespace lucid
