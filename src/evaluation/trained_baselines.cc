#include "evaluation/trained_baselines.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "base/number_text.h"
#include "evaluation/study_team.h"
#include "lucid/baselines/private_training.h"

namespace lucid {
namespace {

// One network to train.
struct Job {
  bool dp_sgd;
  DpSgdOptions options;  // ALIBI uses some of them
  std::int64_t repeat;
};

// Everything that determines the network, entropy excepted.
std::string KeyOf(const Job& job, const Digest& run_key) {
  const DpSgdOptions& o = job.options;
  std::string key = fmt::format(
      "lucid-baseline-1 {} run={} training=({}) epsilon={} repeat={} noise={}",
      job.dp_sgd ? "dpsgd" : "alibi", run_key.Hex(), o.train.Canonical(), HexText(o.epsilon),
      job.repeat, o.noise_seed ? fmt::format("seed {}", *o.noise_seed) : "entropy");
  if (job.dp_sgd) {
    key += fmt::format(" delta={} clip={} accountant={} standardise={}", HexText(o.delta),
                       HexText(o.clip), NameOf(o.conversion), o.train.standardise);
  }
  return key;
}

// The training of a job. Networks that differ in anything share no noise.
PrivateTraining TrainingOf(const Job& job, const std::string& key) {
  PrivateTraining training{job.dp_sgd, job.options};
  if (training.options.noise_seed) {
    const Digest digest = Sha256Of(key);
    std::uint64_t seed = 0;
    std::memcpy(&seed, digest.bytes.data(), sizeof(seed));
    training.options.noise_seed = seed;
  }
  return training;
}

void ApplyRecipe(std::int64_t rows, DpSgdOptions& options) {
  TrainOptions recipe = TrainOptions::Preset("private").value();
  recipe.seed = options.train.seed;
  recipe.epsilon = options.epsilon;
  recipe.expected_rows = rows;
  options.train = RecipeFor(recipe, rows);
  options.clip = options.train.clip;
}

}  // namespace

double EpsilonOfBaseline(const EvaluationOptions& options, double asked) {
  return asked == 0 ? options.smallest_epsilon : asked;
}

Result<std::vector<std::vector<TrainedBaseline>>> TrainBaselines(
    const std::string& run, const Manifest& manifest, const Table& train, bool dp_sgd,
    const EvaluationOptions& options, TaskTeam* team, const ProgressCallback& progress,
    std::stop_token stop) {
  DpSgdOptions common{.delta = options.delta,
                      .clip = options.clip,
                      .conversion = options.conversion,
                      .noise_seed = options.noise_seed};
  if (options.train) {
    common.train = *options.train;
  } else {
    const auto of_run = TrainOptions::FromCanonical(manifest.training);
    if (!of_run.ok() && !(dp_sgd && options.recipe)) return of_run.error();
    if (of_run.ok()) common.train = *of_run;
  }
  const std::string folder = (std::filesystem::path(run) / kBaselinesFolder).string();
  const std::string name = dp_sgd ? "dpsgd" : "alibi";
  const std::int64_t repeats = options.repeats;
  const std::int64_t count = std::ssize(options.epsilons) * repeats;
  std::vector<std::vector<TrainedBaseline>> baselines(
      options.epsilons.size(), std::vector<TrainedBaseline>(static_cast<std::size_t>(repeats)));
  // Those that were trained before are there already.
  std::vector<PrivateTraining> missing;
  std::vector<std::pair<std::int64_t, std::string>> places;  // their numbers and keys
  for (std::int64_t i = 0; i < count; ++i) {
    Job job{dp_sgd, common, i % repeats};
    job.options.epsilon = EpsilonOfBaseline(options, options.epsilons[i / repeats]);
    if (dp_sgd && options.recipe && !options.train) ApplyRecipe(train.rows(), job.options);
    const std::string key = KeyOf(job, manifest.run_key);
    if (IsStored(folder, name, key)) {
      LUCID_ASSIGN(baselines[i / repeats][i % repeats], LoadOrTrain(folder, name, key, {}));
    } else {
      missing.push_back(TrainingOf(job, key));
      places.emplace_back(i, key);
    }
  }
  std::int64_t done = count - std::ssize(missing);
  const auto keep = [&](std::int64_t n, TrainedBaseline trained) -> Status {
    const auto& [i, key] = places[static_cast<std::size_t>(n)];
    LUCID_ASSIGN(baselines[i / repeats][i % repeats],
                 LoadOrTrain(folder, name, key, [&] { return Result(std::move(trained)); }));
    if (progress) progress({"training " + name, "networks", ++done, count});
    return Ok();
  };
  LUCID_TRY(
      TrainPrivately(manifest.architecture, train, missing, team, options.threads, stop, keep));
  return baselines;
}

}  // namespace lucid
