#include "evaluation/study_team.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>

#include "base/byte_fields.h"

namespace lucid {

void Fields(auto& io, Is<TrainOptions> auto& train) {
  io(train.method, train.epochs, train.batch, train.rate, train.weight_decay, train.schedule,
     train.momentum, train.average_epochs, train.seed, train.expected_rows, train.batches,
     train.clip, train.rows_per_unit, train.standardise, train.epsilon, train.delta,
     train.noise_variance, train.moments_variance);
}

template <class Io>
void Fields(Io& io, Is<DpSgdOptions> auto& options) {
  bool seeded = options.noise_seed.has_value();
  io(options.train, options.epsilon, options.delta, options.clip, options.conversion, seeded);
  if constexpr (Io::kReads) {
    if (seeded) options.noise_seed.emplace();
  }
  if (seeded) io(*options.noise_seed);
}

void Fields(auto& io, Is<PrivateTraining> auto& training) {
  io(training.dp_sgd, training.options, training.without);
}

void Fields(auto& io, Is<TrainedBaseline> auto& trained) {
  io.Numbers(trained.network.parameters);
  io(trained.sigma, trained.rate, trained.steps, trained.seconds);
}

namespace {

// The topics.
constexpr std::string_view kDecide = "study: all members", kTrain = "study: private training";

constexpr std::int64_t kTile = 64;  // rows of one task

Status Damaged() { return InternalError("a task of the leader is damaged"); }

Result<TrainedBaseline> TrainOne(const Architecture& architecture, const Table& train,
                                 const PrivateTraining& training, const std::stop_token& stop) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<Table> rest;
  if (training.without >= 0) rest = WithoutUnitOf(train, training.without);
  const Table& rows = rest ? *rest : train;
  const DpSgdOptions& options = training.options;
  TrainedBaseline baseline;
  if (training.dp_sgd) {
    LUCID_ASSIGN(DpSgdNetwork trained, TrainDpSgd(architecture, rows, options, stop));
    baseline = {std::move(trained.network), trained.sigma, trained.rate, trained.steps};
  } else {
    LUCID_ASSIGN(
        baseline.network,
        TrainAlibi(architecture, rows, {options.train, options.epsilon, options.noise_seed}, stop));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  baseline.seconds = seconds.count();
  return baseline;
}

}  // namespace

std::string SubjectOfStudy(const Manifest& manifest) {
  return fmt::format("figures of run {} with networks {}, {}, schema {} and training rows {}",
                     manifest.run_key.Hex(), manifest.network_digest.Hex(),
                     manifest.ensemble_digest.Hex(), manifest.schema_digest.Hex(),
                     manifest.train_digest.Hex());
}

Result<std::unique_ptr<TaskTeam>> GatherForStudy(Team* team, const Manifest& manifest,
                                                 std::stop_token stop) {
  if (team == nullptr || team->size() < 2) return std::unique_ptr<TaskTeam>();
  return TaskTeam::Gather(*team, SubjectOfStudy(manifest), std::move(stop));
}

Result<std::vector<AccessDecision>> DecideAll(const NaiveIdp& naive, const Table& table,
                                              TaskTeam* team, int threads,
                                              const ProgressCallback& progress,
                                              const std::stop_token& stop) {
  if (team == nullptr) return naive.DecideAll(table, threads, progress, stop);
  std::vector<AccessDecision> decisions(static_cast<std::size_t>(table.rows()));
  const auto rows_of = [&](std::int64_t tile) {
    return std::pair(tile * kTile, std::min((tile + 1) * kTile, table.rows()));
  };
  TeamTasks tasks;
  tasks.topic = kDecide;
  tasks.count = (table.rows() + kTile - 1) / kTile;
  tasks.ask = [&](std::int64_t tile, std::string& out) {
    const auto [from, to] = rows_of(tile);
    BytesOut io(out);
    io.Count(static_cast<std::uint64_t>(to - from));
    for (std::int64_t row = from; row < to; ++row) {
      for (const float& value : table.row(row)) io(value);
    }
  };
  tasks.take = [&](std::int64_t tile, ByteCursor& in) {
    const auto [from, to] = rows_of(tile);
    BytesIn io(in);
    for (std::int64_t row = from; row < to; ++row) {
      AccessDecision& decision = decisions[static_cast<std::size_t>(row)];
      io(decision.label, decision.noised);
    }
    return io.ok();
  };
  const auto here = [&](std::int64_t tile, int) -> Status {
    const auto [from, to] = rows_of(tile);
    Table part;
    part.features = table.features;
    for (std::int64_t row = from; row < to; ++row) {
      part.x.insert(part.x.end(), table.row(row).begin(), table.row(row).end());
      part.y.push_back(0);
    }
    LUCID_ASSIGN(const auto found, naive.DecideAll(part, 1, {}, stop));
    std::ranges::copy(found, decisions.begin() + from);
    return Ok();
  };
  LUCID_TRY(DoTasks(team, std::move(tasks), here, threads, stop));
  return decisions;
}

Table WithoutUnitOf(const Table& table, std::int64_t row) {
  Table rest;
  rest.features = table.features;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    if (i == row || (table.has_units() && table.unit_ids[i] == table.unit_ids[row])) continue;
    rest.x.insert(rest.x.end(), table.row(i).begin(), table.row(i).end());
    rest.y.push_back(table.y[i]);
    if (table.has_units()) rest.unit_ids.push_back(table.unit_ids[i]);
  }
  return rest;
}

Status TrainPrivately(const Architecture& architecture, const Table& train,
                      std::span<const PrivateTraining> trainings, TaskTeam* team, int threads,
                      const std::stop_token& stop,
                      const std::function<Status(std::int64_t i, TrainedBaseline baseline)>& keep) {
  std::mutex mutex;
  Status kept = Ok();
  TeamTasks tasks;
  tasks.topic = kTrain;
  tasks.count = std::ssize(trainings);
  tasks.ask = [&](std::int64_t i, std::string& out) {
    BytesOut io(out);
    io(trainings[static_cast<std::size_t>(i)]);
  };
  tasks.take = [&](std::int64_t i, ByteCursor& in) {
    BytesIn io(in);
    TrainedBaseline baseline;
    io(baseline);
    const std::vector<float>& parameters = baseline.network.parameters;
    io.Require(std::ssize(parameters) == architecture.parameters() &&
               std::ranges::all_of(parameters, [](float w) { return std::isfinite(w); }));
    if (!io.ok()) return false;
    baseline.network.architecture = architecture;
    const std::lock_guard lock(mutex);
    if (kept.ok()) kept = keep(i, std::move(baseline));
    return true;
  };
  tasks.expired = [&] {
    const std::lock_guard lock(mutex);
    return !kept.ok();
  };
  const auto here = [&](std::int64_t i, int) -> Status {
    LUCID_ASSIGN(TrainedBaseline baseline,
                 TrainOne(architecture, train, trainings[static_cast<std::size_t>(i)], stop));
    const std::lock_guard lock(mutex);
    return keep(i, std::move(baseline));
  };
  const Status done = DoTasks(team, std::move(tasks), here, threads, stop);
  LUCID_TRY(kept);
  return done;
}

struct StudyHelper::Impl {
  const std::string& run;
  const Manifest& manifest;
  const Table* const train;
  const int threads;
  std::string topic;
  std::stop_token nobody_waits;
  std::optional<NaiveIdp> naive;  // once it is needed

  Status AnswerTile(ByteCursor& in, std::string& out) const {
    BytesIn io(in);
    Table table;
    table.features = manifest.architecture.inputs();
    table.y.resize(static_cast<std::size_t>(io.Count(0)));
    table.x.resize(table.y.size() * static_cast<std::size_t>(table.features));
    for (float& value : table.x) io(value);
    if (!io.ok()) return Damaged();
    const auto found = naive->DecideAll(table, 1, {}, nobody_waits);
    if (!found.ok()) {
      // Nobody waits for it any more.
      return found.error().kind == ErrorKind::kInterrupted ? Ok() : Status(found.error());
    }
    BytesOut answer(out);
    for (const AccessDecision& decision : *found) answer(decision.label, decision.noised);
    return Ok();
  }
  Status AnswerTraining(ByteCursor& in, std::string& out) const {
    BytesIn io(in);
    PrivateTraining training;
    io(training);
    io.Require(training.without >= -1 && training.without < train->rows());
    if (!io.ok()) return Damaged();
    const auto trained = TrainOne(manifest.architecture, *train, training, nobody_waits);
    if (!trained.ok()) {
      return trained.error().kind == ErrorKind::kInterrupted ? Ok() : Status(trained.error());
    }
    BytesOut answer(out);
    answer(*trained);
    return Ok();
  }
};

StudyHelper::StudyHelper(const std::string& run, const Manifest& manifest, const Table* train,
                         int threads)
    : impl_(new Impl{run, manifest, train, threads, {}, {}, {}}) {}
StudyHelper::~StudyHelper() = default;

bool StudyHelper::Serves(std::string_view topic) { return topic == kDecide || topic == kTrain; }

Status StudyHelper::Begin(std::string_view topic, std::stop_token nobody_waits) {
  impl_->topic = topic;
  impl_->nobody_waits = std::move(nobody_waits);
  if (topic == kDecide && !impl_->naive) {
    LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(impl_->run));
    LUCID_ASSIGN(impl_->naive, NaiveIdp::Create(ensemble, impl_->threads));
  }
  if (topic == kTrain && impl_->train == nullptr) {
    return Mismatch(fmt::format("the run's training rows are not in '{}' here",
                                impl_->manifest.data_directory));
  }
  return Ok();
}

Status StudyHelper::Answer(ByteCursor& in, int, std::string& out) const {
  return impl_->topic == kDecide ? impl_->AnswerTile(in, out) : impl_->AnswerTraining(in, out);
}

}  // namespace lucid
