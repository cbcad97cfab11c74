#include "evaluation/trained_baselines.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <mutex>

#include "base/number_text.h"
#include "base/parallel.h"
#include "lucid/baselines/private_training.h"

namespace lucid {
namespace {

// One network to train.
struct Job {
  const Architecture& architecture;
  const Table& train;
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
    key += fmt::format(" delta={} clip={} accountant={}", HexText(o.delta), HexText(o.clip),
                       NameOf(o.conversion));
  }
  return key;
}

Result<TrainedBaseline> Train(const Job& job, const std::string& key, std::stop_token stop) {
  DpSgdOptions options = job.options;
  if (options.noise_seed) {
    // Networks that differ in anything share no noise.
    const Digest digest = Sha256Of(key);
    std::uint64_t seed = 0;
    std::memcpy(&seed, digest.bytes.data(), sizeof(seed));
    options.noise_seed = seed;
  }
  if (!job.dp_sgd) {
    LUCID_ASSIGN(Network network,
                 TrainAlibi(job.architecture, job.train,
                            {options.train, options.epsilon, options.noise_seed}, stop));
    return TrainedBaseline{std::move(network)};
  }
  LUCID_ASSIGN(DpSgdNetwork trained, TrainDpSgd(job.architecture, job.train, options, stop));
  return TrainedBaseline{std::move(trained.network), trained.sigma, trained.rate, trained.steps};
}

}  // namespace

namespace {

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
    const EvaluationOptions& options, const ProgressCallback& progress, std::stop_token stop) {
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
  const std::int64_t repeats = options.repeats;
  const std::int64_t count = std::ssize(options.epsilons) * repeats;
  std::vector<std::vector<TrainedBaseline>> baselines(
      options.epsilons.size(), std::vector<TrainedBaseline>(static_cast<std::size_t>(repeats)));
  std::mutex mutex;
  std::int64_t done = 0;
  const auto train_one = [&](std::int64_t i, int) -> Status {
    Job job{manifest.architecture, train, dp_sgd, common, i % repeats};
    job.options.epsilon = EpsilonOfBaseline(options, options.epsilons[i / repeats]);
    if (dp_sgd && options.recipe && !options.train) ApplyRecipe(train.rows(), job.options);
    const std::string key = KeyOf(job, manifest.run_key);
    LUCID_ASSIGN(baselines[i / repeats][i % repeats],
                 LoadOrTrain(folder, dp_sgd ? "dpsgd" : "alibi", key,
                             [&] { return Train(job, key, stop); }));
    std::lock_guard lock(mutex);
    ++done;
    if (progress) progress({dp_sgd ? "training dpsgd" : "training alibi", "networks", done, count});
    return Ok();
  };
  LUCID_TRY(ParallelFor(count, options.threads, stop, train_one));
  return baselines;
}

}  // namespace lucid
