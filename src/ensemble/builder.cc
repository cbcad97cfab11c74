#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "base/parallel.h"
#include "ensemble/builder.h"
#include "ensemble/command_source.h"
#include "ensemble/population.h"
#include "ensemble/reference.h"
#include "ensemble/run_spec.h"
#include "ensemble/secret_file.h"
#include "ensemble/team_training.h"
#include "lucid/base/version.h"
#include "train/group_trainer.h"

namespace lucid {
namespace {

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// While a store is being filled its name ends so; the final name means complete.
std::string Unfinished(const std::string& path) { return path + ".partial"; }

std::string_view HowToGoOn(const EnsembleOptions& options) {
  return options.resume ? "run it again" : "set the option resume";
}

Result<InstructionSet> ChooseInstructionSet(std::optional<InstructionSet> wanted) {
  const auto available = AvailableInstructionSets();
  if (!wanted) return available.front();
  if (std::ranges::find(available, *wanted) != available.end()) return *wanted;
  return InvalidInput(fmt::format("the instruction set {} is not available here", NameOf(*wanted)));
}

NetworkMaker MakerWith(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512:
      return NetworkMaker::kAvx512;
    case InstructionSet::kAvx2:
      return NetworkMaker::kAvx2;
    default:
      return NetworkMaker::kPortable;
  }
}

DataSize SizeOf(const Dataset& dataset, const std::vector<Unit>& units) {
  DataSize size{dataset.train.rows(), 1, dataset.train.has_units()};
  for (const Unit& unit : units)
    size.largest_unit = std::max(size.largest_unit, std::ssize(unit.rows));
  return size;
}

// The secret of a private run, and what the run says of it.
Result<Secret> SecretOf(const Dataset& dataset, const Architecture& architecture,
                        const EnsembleOptions& options, const std::string& run) {
  if (options.seeded_noise) return Secret::FromSeed(options.train.seed);
  const Digest binding = SecretBinding(dataset.schema_digest, dataset.train_digest,
                                       architecture.Canonical(), TrainingText(options));
  return OpenSecret(options.secret_file.empty() ? PathIn(run, kSecretFile) : options.secret_file,
                    binding);
}

// What of a private run was decided by its data, beside its training, in words.
std::string AfterLooking(const Dataset& dataset, const EnsembleOptions& options, bool is_private) {
  const std::string& others = options.after_looking;
  if (!is_private || dataset.schema.origin() != SchemaOrigin::kFromData) return others;
  return others.empty() ? "the schema" : "the schema and " + others;
}

// What is wrong with a private training, whatever its data are: T is total.
Status CheckPrivate(const Dataset& dataset, const EnsembleOptions& options) {
  if (dataset.schema.unit_index() && dataset.rows_per_unit == 0) {
    return InvalidInput(fmt::format(
        "private training with the unit column '{}' needs the option rows_per_unit: how many "
        "rows of a unit there are may not decide whether it works",
        dataset.schema.unit_name()));
  }
  if (options.seeded_noise && !options.population_file.empty()) {
    return InvalidInput("the option seeded_noise is not private: no population is charged for it");
  }
  return Ok();
}

// The seed that was given, or RUN/seed. `shared`: by processes that cannot agree on a new one.
Result<std::uint64_t> SeedOf(const EnsembleOptions& options, const std::string& run, bool shared) {
  if (!options.seed_from_entropy) return options.train.seed;
  const std::string path = PathIn(run, kSeedFile);
  if (shared && !Exists(path)) {
    return InvalidInput(fmt::format(
        "shards share a seed, and there is no '{}': give one with the option seed", path));
  }
  return OpenSeed(path);
}

// Everything that is fixed before the first network is made. `leaders`: the keys of the leader that
// this process helps; none: they are in files of the run.
Result<Job> MakeJob(const Dataset& dataset, const Architecture& architecture,
                    const EnsembleOptions& asked, const std::string& run,
                    const ProgressCallback& progress, std::stop_token stop, bool shared_seed,
                    std::optional<RunKeys> leaders = {}) {
  const bool helps = leaders.has_value();
  RunKeys keys = helps ? std::move(*leaders) : RunKeys();
  EnsembleOptions options = asked;
  LUCID_TRY(options.train.Validate());
  const bool own = options.trainer.empty();
  const bool is_private = own && options.train.method == TrainOptions::Method::kPrivate;
  if (is_private) LUCID_TRY(CheckPrivate(dataset, options));
  if (!is_private && options.population_total) {
    return InvalidInput(
        "the option population_total is about private trainings: others cost nothing, and of them "
        "the option population says whose budget their answers spend");
  }
  options.after_looking = AfterLooking(dataset, options, is_private);
  TableKeys table_keys = TableKeys::Of(dataset.train);
  std::vector<Unit> units = UnitsOf(dataset.train, table_keys);
  LUCID_TRY(CheckData(dataset, units, architecture, /*total=*/is_private));
  if (own) {
    LUCID_ASSIGN(options.train,
                 ResolveOptions(options.train, architecture, SizeOf(dataset, units)));
  }
  if (!helps) {
    LUCID_TRY(MakeDirectories(run));
    LUCID_ASSIGN(keys.seed, SeedOf(options, run, shared_seed));
  }
  options.train.seed = keys.seed;
  std::optional<PrivateRun> private_run;
  if (is_private) {
    LUCID_ASSIGN(const PrivacyStatement statement, PrivacyOf(options.train, architecture));
    if (!helps) {
      LUCID_ASSIGN(keys.secret, SecretOf(dataset, architecture, options, run));
    }
    if (!keys.secret) return Mismatch("the leader's training is not private");
    private_run = PrivateRun{statement, DigestOf(*keys.secret), options.seeded_noise};
  }
  LUCID_ASSIGN(StoreSpec spec,
               WholeRun(dataset, units, architecture, options,
                        private_run ? std::optional(private_run->secret) : std::nullopt,
                        ChoicesText(options.after_looking, options.declare,
                                    ReferenceName(options.reference))));
  std::optional<PopulationAccount> population;
  if (is_private && !options.population_file.empty() && !helps) {
    LUCID_ASSIGN(population,
                 ChargePopulation(options.population_file, options.population_total,
                                  {options.train.epsilon, options.train.delta}, spec.run_key));
  }
  spec.rows = ShardOf(spec.rows, options.shard);
  const std::string file = options.shard.count == 1 ? kEnsembleFile : ShardFile(options.shard);
  const bool partial = options.members != 0 && options.members < std::ssize(units);
  Job job{dataset,
          options,
          run,
          std::move(units),
          std::move(spec),
          TrainingText(options),
          own ? Adjacency::kUnitRemoved : Adjacency::kAsTrainedElsewhere,
          partial,
          progress,
          PathIn(run, file),
          stop};
  if (own) {
    job.expected_rows = options.train.expected_rows;
    job.expected_from_data = asked.train.expected_rows == 0;
  }
  job.private_run = private_run;
  job.population = population;
  job.keys = std::move(keys);
  job.table_keys = std::move(table_keys);
  return job;
}

// A kill between the last two steps leaves a store with its final name and no manifest. With
// --resume it becomes unfinished again: every network is checked before a manifest vouches for it.
// (The manifest that a private run has before its members vouches for N only.)
Status ReopenWithoutManifest(const Job& job) {
  if (!job.options.resume || !job.whole() || !Exists(job.target)) return Ok();
  const std::string path = PathIn(job.run, kManifestFile);
  if (Exists(path)) {
    LUCID_ASSIGN(const std::string text, ReadTextFile(path, 64 << 20));
    LUCID_ASSIGN(const Manifest manifest, ParseManifest(text, path));
    if (manifest.members > 0) return Ok();
  }
  LUCID_ASSIGN(const Store store, Store::Open(job.target, job.spec, /*writable=*/true));
  return RenameDurably(job.target, Unfinished(job.target));
}

// Opens the store to fill: a new one, or to resume the one that an earlier process left.
Result<Store> OpenStore(const Job& job) {
  const std::string unfinished = Unfinished(job.target);
  if (Exists(unfinished)) {
    if (!job.options.resume) {
      return InvalidInput(
          fmt::format("'{}' holds an unfinished run; set the option resume to go on with it, or "
                      "use another folder",
                      job.run));
    }
    return Store::Open(unfinished, job.spec, /*writable=*/true);
  }
  return Store::Create(unfinished, job.spec);
}

// The networks that are not in the store yet (or not whole). `threads` readers.
Result<std::vector<std::int64_t>> Missing(const Job& job, const Store& store) {
  std::vector<char> there(static_cast<std::size_t>(store.networks()));
  std::mutex mutex;
  std::int64_t checked = 0;
  constexpr std::int64_t kChunk = 64;
  const std::int64_t chunks = (store.networks() + kChunk - 1) / kChunk;
  const auto check = [&](std::int64_t chunk, int) -> Status {
    std::vector<float> parameters(static_cast<std::size_t>(job.spec.architecture.parameters()));
    const std::int64_t end = std::min(store.networks(), (chunk + 1) * kChunk);
    for (std::int64_t i = chunk * kChunk; i < end; ++i) {
      LUCID_ASSIGN(const bool whole, store.Read(i, parameters));
      there[i] = whole;
    }
    std::lock_guard lock(mutex);
    checked += end - chunk * kChunk;
    job.Report("checking what is there", checked, 0);
    return Ok();
  };
  LUCID_TRY(ParallelFor(chunks, job.options.threads, job.stop, check));
  std::vector<std::int64_t> missing;
  for (std::int64_t i = 0; i < store.networks(); ++i) {
    if (!there[i]) missing.push_back(i);
  }
  return missing;
}

constexpr std::int64_t kMostFailures = 10;  // of a trainer command, before the run ends

// Makes the networks `missing` of the store.
Status Fill(const Job& job, Store& store, const std::vector<std::int64_t>& missing,
            const NetworkSource& source) {
  const auto parameters = static_cast<std::size_t>(job.spec.architecture.parameters());
  std::vector<std::int64_t> left_out;
  for (const std::int64_t network : missing) left_out.push_back(job.spec.rows[network]);
  std::mutex mutex;
  const std::int64_t before = store.networks() - std::ssize(missing);
  std::int64_t done = before;
  Clock::time_point last_sync = Clock::now();
  std::int64_t failures = 0;
  std::optional<Error> first_failure;
  job.Report(source.verb(), done, before);

  // Ok: the other networks are made nevertheless. An error ends the run, because N itself failed,
  // or too many members did.
  const auto note_failure = [&](std::int64_t first, const Error& error) -> Status {
    if (!source.goes_on_after_failure() || error.kind == ErrorKind::kInterrupted) return error;
    const std::lock_guard lock(mutex);
    if (!first_failure) first_failure = error;
    ++failures;
    const bool is_n = left_out[static_cast<std::size_t>(first)] < 0;
    return is_n || failures >= kMostFailures ? Status(error) : Ok();
  };

  const auto keep = [&](std::int64_t first, std::span<const float> weights) -> Status {
    const std::size_t count = weights.size() / parameters;
    for (std::size_t k = 0; k < count; ++k) {
      LUCID_TRY(store.Write(missing[static_cast<std::size_t>(first) + k],
                            weights.subspan(k * parameters, parameters)));
    }
    std::lock_guard lock(mutex);
    done += static_cast<std::int64_t>(count);
    job.Report(source.verb(), done, before);
    // A kill loses nothing that was written; a power cut loses at most this much.
    if (SecondsSince(last_sync) > 30) {
      last_sync = Clock::now();
      return store.Sync();
    }
    return Ok();
  };
  const Status status = source.MakeAll(left_out, job.spec.architecture.parameters(),
                                       job.options.threads, job.stop, {keep, note_failure});
  if (!status.ok() && status.error().kind == ErrorKind::kInterrupted) {
    LUCID_TRY(store.Sync());
    return Interrupted(fmt::format("stopped with {} of {} networks in '{}'; {} to go on", done,
                                   store.networks(), job.run, HowToGoOn(job.options)));
  }
  if (!first_failure) return status;
  LUCID_TRY(store.Sync());
  const std::string others = failures > 1 ? fmt::format(", as did {} others", failures - 1) : "";
  return Error{first_failure->kind,
               fmt::format("{}{}; {} of {} networks are kept: {} to go on", first_failure->message,
                           others, done, store.networks(), HowToGoOn(job.options))};
}

TrainSummary Summarize(const Job& job, std::int64_t trained_now, NetworkMaker maker) {
  TrainSummary summary;
  summary.run = job.run;
  summary.rows = job.dataset.train.rows();
  summary.units = std::ssize(job.units);
  summary.unit = job.dataset.schema.unit_name();
  summary.adjacency = NameOf(job.adjacency);
  summary.expected_rows = job.expected_rows;
  summary.expected_from_data = job.expected_from_data;
  summary.private_run = job.private_run;
  summary.population = job.population;
  summary.dropped = job.dataset.train.dropped;
  summary.members = static_cast<std::int64_t>(
      std::ranges::count_if(job.spec.rows, [](std::int64_t row) { return row >= 0; }));
  summary.trained_now = trained_now;
  summary.parameters = job.spec.architecture.parameters();
  summary.partial = job.partial;
  summary.seconds = SecondsSince(job.start);
  summary.networks_per_second =
      summary.seconds > 0 ? static_cast<double>(trained_now) / summary.seconds : 0;
  summary.train_accuracy = summary.test_accuracy = std::numeric_limits<double>::quiet_NaN();
  summary.maker = maker;
  return summary;
}

bool IsFinite(std::span<const float> parameters) {
  return std::ranges::all_of(parameters, [](float v) { return std::isfinite(v); });
}

// N gets its own file, is evaluated, and its bounds are declared.
Result<Manifest> PublishNetwork(const Job& job, const Store& store, TrainSummary& summary) {
  Network network{job.spec.architecture, {}};
  network.parameters.resize(static_cast<std::size_t>(summary.parameters));
  LUCID_ASSIGN(const bool whole, store.Read(0, network.parameters));
  if (!whole) return InternalError("the store lost the network on all rows");
  const std::string network_path = PathIn(job.run, kNetworkFile);
  LUCID_TRY(SaveNetwork(network, network_path));

  const Evaluator evaluator(network);
  if (summary.rows > 0) summary.train_accuracy = Accuracy(evaluator, job.dataset.train);
  if (job.dataset.test.rows() > 0) summary.test_accuracy = Accuracy(evaluator, job.dataset.test);
  if (job.options.declare > 0) {
    summary.declared =
        DeclareBounds(network, job.dataset.schema, job.options.declare, job.options.reference);
  }

  Manifest manifest;
  manifest.version = Version();
  manifest.build = BuildInfo();
  manifest.maker = summary.maker;
  manifest.command = job.options.command;
  manifest.after_looking = job.options.after_looking;
  manifest.data_directory = job.dataset.directory;
  manifest.rows = summary.rows;
  manifest.max_rows = job.dataset.max_rows;
  manifest.rows_per_unit = job.dataset.rows_per_unit;
  manifest.unit = job.dataset.schema.unit_name();
  manifest.units = std::ssize(job.units);
  manifest.adjacency = job.adjacency;
  manifest.partial = manifest.units > 0;  // until the members are there
  manifest.expected_rows = job.expected_rows;
  manifest.expected_from_data = job.expected_from_data;
  manifest.private_run = job.private_run;
  if (!job.options.population_file.empty()) {
    manifest.population = PopulationName(job.options.population_file);
  }
  if (job.population) {
    manifest.population_total = job.population->total;
  }
  manifest.declared = summary.declared;
  manifest.schema = job.dataset.schema;
  manifest.architecture = job.spec.architecture;
  manifest.training = job.training;
  manifest.train_accuracy = summary.train_accuracy;
  manifest.test_accuracy = summary.test_accuracy;
  manifest.run_key = job.spec.run_key;
  manifest.schema_digest = job.dataset.schema_digest;
  manifest.train_digest = job.dataset.train_digest;
  manifest.order_digest = job.dataset.train_order;
  manifest.test_digest = job.dataset.test_digest;
  LUCID_ASSIGN(manifest.network_digest, Sha256OfFile(network_path));
  return manifest;
}

Status WriteManifest(const Job& job, const Manifest& manifest) {
  return WriteFileAtomically(PathIn(job.run, kManifestFile), EncodeManifest(manifest), 0600);
}

// A private run is made from N alone: N, its bounds and the manifest are there before the members
// (the shard that has N writes them), and nothing that happens to a member changes them.
Status PublishPrivateNetwork(const Job& job, Store& store, const NetworkSource& source) {
  std::vector<float> parameters(static_cast<std::size_t>(job.spec.architecture.parameters()));
  LUCID_ASSIGN(const bool there, store.Read(0, parameters));
  if (!there) {
    const std::int64_t n = -1;
    LUCID_TRY(source.Make(std::span(&n, 1), parameters, job.stop));
    // Private training is total: what is not finite becomes the network of zeros.
    if (!IsFinite(parameters)) std::ranges::fill(parameters, 0.0F);
    LUCID_TRY(store.Write(0, parameters));
    LUCID_TRY(store.Sync());
  }
  TrainSummary summary = Summarize(job, 0, source.maker());
  LUCID_ASSIGN(const Manifest manifest, PublishNetwork(job, store, summary));
  return WriteManifest(job, manifest);
}

// How many members of a private run are not finite: nothing can be proved of them.
Result<std::int64_t> CountNotFinite(const Job& job, const Store& store) {
  if (!job.private_run) return 0;
  std::vector<float> parameters(static_cast<std::size_t>(job.spec.architecture.parameters()));
  std::int64_t count = 0;
  for (std::int64_t i = 1; i < store.networks(); ++i) {
    LUCID_ASSIGN(const bool whole, store.Read(i, parameters));
    count += !whole || !IsFinite(parameters);
  }
  return count;
}

// Every network is in the store: gives N its own file, the store its final name, and writes the
// manifest that makes the folder a run.
Result<TrainSummary> Finish(const Job& job, Store store, TrainSummary summary) {
  LUCID_TRY(store.Sync());
  LUCID_ASSIGN(Manifest manifest, PublishNetwork(job, store, summary));
  LUCID_ASSIGN(summary.not_finite, CountNotFinite(job, store));
  LUCID_TRY(RenameDurably(Unfinished(job.target), job.target));
  summary.complete = true;
  manifest.members = summary.members;
  manifest.partial = summary.partial;
  manifest.not_finite = summary.not_finite;
  manifest.seconds = summary.seconds;
  LUCID_ASSIGN(manifest.ensemble_digest, Sha256OfFile(job.target));
  LUCID_TRY(WriteManifest(job, manifest));
  return summary;
}

// The target has its final name already: checked, not trained.
Result<TrainSummary> AlreadyThere(const Job& job, NetworkMaker maker) {
  if (!job.options.resume) {
    return InvalidInput(fmt::format(
        "'{}' exists: this run is there already; use it, or another folder", job.target));
  }
  LUCID_ASSIGN(const Store store, Store::Open(job.target, job.spec, /*writable=*/true));
  TrainSummary summary = Summarize(job, 0, maker);
  if (!job.whole()) return summary;
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(job.run, job.report));
  summary.complete = true;
  summary.train_accuracy = ensemble.manifest().train_accuracy;
  summary.test_accuracy = ensemble.manifest().test_accuracy;
  summary.declared = ensemble.manifest().declared;
  return summary;
}

// Our own training: a network per SIMD lane.
class GroupSource final : public NetworkSource {
 public:
  GroupSource(const Job& job, InstructionSet set, std::optional<Secret> secret)
      : plan_(job.spec.architecture, job.dataset.train, job.table_keys, job.options.train,
              std::move(secret)),
        trainer_(plan_, set),
        maker_(MakerWith(set)) {}

  std::int64_t lanes() const override { return trainer_.lanes(); }
  std::string verb() const override { return "training"; }
  NetworkMaker maker() const override { return maker_; }
  Status Make(std::span<const std::int64_t> left_out, std::span<float> out,
              std::stop_token stop) const override {
    return trainer_.Train(left_out, out, stop);
  }

 private:
  TrainPlan plan_;
  GroupTrainer trainer_;
  NetworkMaker maker_;
};

std::optional<Secret> CopyOf(const std::optional<Secret>& secret) {
  if (!secret) return std::nullopt;
  std::array<std::uint8_t, 32> bytes{};
  std::ranges::transform(secret->bytes(), bytes.begin(),
                         [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return Secret(bytes);
}

// Whether a store of the job, finished or not, has a network.
Result<bool> HasNetworks(const Job& job) {
  std::vector<float> parameters(static_cast<std::size_t>(job.spec.architecture.parameters()));
  for (const std::string& path : {job.target, Unfinished(job.target)}) {
    if (!Exists(path)) continue;
    LUCID_ASSIGN(const Store store, Store::Open(path, job.spec, /*writable=*/false));
    for (std::int64_t i = 0; i < store.networks(); ++i) {
      LUCID_ASSIGN(const bool there, store.Read(i, parameters));
      if (there) return true;
    }
  }
  return false;
}

// Whoever goes on need not try the trainer again if RUN/trainer-tried says that this one passed and
// there are networks that it has made since.
Status TryTrainer(const Job& job, const CommandSource& source) {
  const std::string passed = PathIn(job.run, "trainer-tried"), key = job.spec.run_key.Hex() + "\n";
  std::error_code code;
  if (!job.options.check_trainer) {
    std::filesystem::remove(passed, code);  // what is made now was not tried
    if (!code) return Ok();
    return IoError(fmt::format("cannot remove '{}': {}", passed, code.message()));
  }
  if (job.options.resume && Exists(passed)) {
    LUCID_ASSIGN(const std::string text, ReadTextFile(passed));
    LUCID_ASSIGN(const bool has_networks, HasNetworks(job));
    if (text == key && has_networks) return Ok();
  }
  LUCID_TRY(source.Check());
  return WriteFileAtomically(passed, key);
}

// What makes the networks of the job here.
Result<std::unique_ptr<NetworkSource>> SourceOf(const Job& job) {
  if (job.options.trainer.empty()) {
    LUCID_ASSIGN(const InstructionSet set, ChooseInstructionSet(job.options.instruction_set));
    return std::unique_ptr<NetworkSource>(
        std::make_unique<GroupSource>(job, set, CopyOf(job.keys.secret)));
  }
  auto source = std::make_unique<CommandSource>(job);
  LUCID_TRY(TryTrainer(job, *source));
  return std::unique_ptr<NetworkSource>(std::move(source));
}

}  // namespace

Result<TrainSummary> BuildRun(const Job& job, const NetworkSource& source) {
  LUCID_TRY(ReopenWithoutManifest(job));
  if (Exists(job.target)) return AlreadyThere(job, source.maker());
  LUCID_ASSIGN(Store store, OpenStore(job));
  const bool has_n = job.spec.rows.front() == -1;
  if (job.private_run && has_n) LUCID_TRY(PublishPrivateNetwork(job, store, source));
  LUCID_ASSIGN(const std::vector<std::int64_t> missing, Missing(job, store));
  LUCID_TRY(Fill(job, store, missing, source));
  LUCID_TRY(source.CheckMade(store));
  TrainSummary summary = Summarize(job, static_cast<std::int64_t>(missing.size()), source.maker());
  if (job.whole()) return Finish(job, std::move(store), std::move(summary));
  LUCID_TRY(store.Sync());
  LUCID_TRY(RenameDurably(Unfinished(job.target), job.target));
  return summary;
}

Status NetworkSource::MakeAll(std::span<const std::int64_t> left_out, std::int64_t parameters,
                              int threads, std::stop_token stop, const Taker& taker) const {
  const std::int64_t count = std::ssize(left_out), group = lanes();
  const auto make_group = [&](std::int64_t g, int) -> Status {
    const std::int64_t first = g * group, size = std::min(group, count - first);
    std::vector<float> weights(static_cast<std::size_t>(size * parameters));
    const Status made =
        Make(left_out.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size)),
             weights, stop);
    return made.ok() ? taker.take(first, weights) : taker.fail(first, made.error());
  };
  return ParallelFor((count + group - 1) / group, threads, stop, make_group);
}

Result<TrainSummary> TrainEnsemble(const Dataset& dataset, const Architecture& architecture,
                                   const EnsembleOptions& options, const std::string& run,
                                   const ProgressCallback& progress, std::stop_token stop) {
  const bool in_team = options.team != nullptr && options.team->size() > 1;
  if (in_team && options.shard.count > 1) {
    return InvalidInput(
        "processes of one job share the work by themselves: leave the option shard out");
  }
  if (in_team && !options.trainer.empty()) {
    return InvalidInput(
        "the option trainer works in one process: use the option shard for several machines");
  }
  LUCID_ASSIGN(const Job job, MakeJob(dataset, architecture, options, run, progress, stop,
                                      /*shared_seed=*/options.shard.count > 1));
  LUCID_ASSIGN(const std::unique_ptr<NetworkSource> own, SourceOf(job));
  if (!in_team) return BuildRun(job, *own);
  LUCID_ASSIGN(const auto all, TeamSource::Gather(*options.team, job, *own));
  return BuildRun(job, *all);
}

Status HelpTrainEnsemble(const Dataset& dataset, const Architecture& architecture,
                         const EnsembleOptions& options, const std::string& run,
                         std::stop_token stop) {
  Team& team = *options.team;
  LUCID_ASSIGN(const std::optional<std::string> words, AwaitTicket(team, stop));
  if (!words) return Ok();
  LUCID_ASSIGN(JobTicket ticket, ReadTicket(*words));
  const ProgressCallback silent;
  LUCID_ASSIGN(const Job job, MakeJob(dataset, architecture, options, run, silent, stop,
                                      /*shared_seed=*/false, std::move(ticket.keys)));
  LUCID_ASSIGN(const std::unique_ptr<NetworkSource> own, SourceOf(job));
  return HelpMaking(team, job, ticket, *own);
}

namespace {

// Into how many shards the run was cut, by the names of the finished ones in `folders`.
Result<std::int64_t> ShardCount(const std::vector<std::string>& folders) {
  std::set<std::int64_t> counts;
  for (const std::string& folder : folders) {
    std::error_code code;
    for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
      Shard shard;
      const std::string name = entry.path().filename().string();
      // NOLINTNEXTLINE(cert-err34-c): whatever was scanned is compared with the whole name.
      if (std::sscanf(name.c_str(), "shard-%" SCNd64 "-of-%" SCNd64, &shard.index, &shard.count) ==
              2 &&
          name == ShardFile(shard)) {
        counts.insert(shard.count);
      }
    }
    if (code) return IoError(fmt::format("cannot list '{}': {}", folder, code.message()));
  }
  if (counts.size() == 1) return *counts.begin();
  return InvalidInput(fmt::format("{} in {}",
                                  counts.empty()
                                      ? "no finished shard (shard-1-of-4.safetensors, ...)"
                                      : "shards of different counts",
                                  fmt::join(folders, ", ")));
}

// The shards 1..count of this run, wherever in `folders` they are.
Result<std::vector<Store>> FindShards(const Job& job, const std::vector<std::string>& folders) {
  LUCID_ASSIGN(const std::int64_t count, ShardCount(folders));
  if (count < 1 || count > static_cast<std::int64_t>(job.spec.rows.size())) {
    return InvalidInput(
        fmt::format("a run of {} networks has no {} shards", job.spec.rows.size(), count));
  }
  std::vector<Store> shards;
  std::string absent;
  for (std::int64_t index = 1; index <= count; ++index) {
    const Shard shard{index, count};
    const auto holder = std::ranges::find_if(folders, [&](const std::string& folder) {
      return Exists(PathIn(folder, ShardFile(shard)));
    });
    if (holder == folders.end()) {
      absent += fmt::format(" {}/{}", index, count);
      continue;
    }
    StoreSpec spec = job.spec;
    spec.rows = ShardOf(job.spec.rows, shard);
    LUCID_ASSIGN(Store store, Store::Open(PathIn(*holder, ShardFile(shard)), spec, false));
    shards.push_back(std::move(store));
  }
  if (absent.empty()) return shards;
  return InvalidInput(fmt::format("cannot merge yet: shards missing or unfinished:{}", absent));
}

}  // namespace

Result<TrainSummary> MergeShards(const Dataset& dataset, const Architecture& architecture,
                                 const EnsembleOptions& options, const std::string& run,
                                 const std::vector<std::string>& folders,
                                 const ProgressCallback& progress, std::stop_token stop) {
  EnsembleOptions whole = options;
  whole.shard = {};
  LUCID_ASSIGN(const Job job, MakeJob(dataset, architecture, whole, run, progress, stop,
                                      /*shared_seed=*/true));
  LUCID_TRY(ReopenWithoutManifest(job));
  if (Exists(job.target)) return AlreadyThere(job, NetworkMaker::kMerge);
  LUCID_ASSIGN(const std::vector<Store> shards, FindShards(job, folders));
  // Merging is copying: what an interrupted merge left is written again.
  const std::string unfinished = Unfinished(job.target);
  LUCID_ASSIGN(Store store, Exists(unfinished) ? Store::Open(unfinished, job.spec, true)
                                               : Store::Create(unfinished, job.spec));
  std::vector<float> parameters(static_cast<std::size_t>(architecture.parameters()));
  std::int64_t at = 0;
  for (const Store& shard : shards) {
    for (std::int64_t i = 0; i < shard.networks(); ++i, ++at) {
      if (stop.stop_requested()) return Interrupted("merging stopped; run it again");
      LUCID_ASSIGN(const bool good, shard.Read(i, parameters));
      if (!good) {
        return InvalidInput(
            fmt::format("a shard is damaged: the network without row {} does not have its "
                        "digest; train that shard again",
                        shard.spec().rows[i]));
      }
      LUCID_TRY(store.Write(at, parameters));
      job.Report("merging", at + 1, 0);
    }
  }
  return Finish(job, std::move(store), Summarize(job, 0, NetworkMaker::kMerge));
}

}  // namespace lucid
