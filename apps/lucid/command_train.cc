#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "command.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/fit/advice.h"
#include "lucid/promise/promise.h"

namespace lucid::app {
namespace {

struct TrainArguments {
  std::string data, arch = "2x50", out, shard, preset = "paper", schedule, reference, replaces;
  LoadOptions load;
  EnsembleOptions ensemble;
  std::vector<double> population_total;
  std::string instruction_set = "auto";
  std::vector<std::string> merge;
  const CLI::Option* merging = nullptr;  // given, perhaps without a folder
  const CLI::App* command = nullptr;     // says what was given
};

using Json = nlohmann::ordered_json;

Json PrivateJson(const TrainSummary& s) {
  if (!s.private_run) return nullptr;
  const PrivacyStatement& p = s.private_run->statement;
  return {{"epsilon", p.epsilon},
          {"delta", p.delta},
          {"sigma", p.sigma},
          {"moments_sigma", p.moments_sigma},
          {"clip", p.clip},
          {"sampling_rate", p.sampling_rate},
          {"steps", p.steps},
          {"seeded", s.private_run->seeded},
          {"not_finite", s.not_finite}};
}

Json PopulationJson(const TrainSummary& s) {
  if (!s.population) return nullptr;
  const auto amount = [](const PrivacyTotal& total) {
    return Json{{"epsilon", total.epsilon}, {"delta", total.delta}};
  };
  return {{"name", s.population->name},
          {"total", amount(s.population->total)},
          {"spent", amount(s.population->spent)}};
}

nlohmann::ordered_json ToJson(const TrainSummary& s, const Promise& promise) {
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  return {{"run", s.run},
          {"rows", s.rows},
          {"unit", s.unit},
          {"units", s.units},
          {"adjacency", s.adjacency},
          {"expected_rows", s.expected_rows == 0 ? Json(nullptr) : Json(s.expected_rows)},
          {"expected_rows_from", s.expected_rows == 0   ? Json(nullptr)
                                 : s.expected_from_data ? Json("data")
                                                        : Json("declared")},
          {"promise", promise.name()},
          {"private", PrivateJson(s)},
          {"population", PopulationJson(s)},
          {"dropped_rows", s.dropped},
          {"declared",
           s.declared ? Json{{"r", s.declared->r}, {"bound", s.declared->bound()}} : Json(nullptr)},
          {"members", s.members},
          {"parameters", s.parameters},
          {"partial", s.partial},
          {"complete", s.complete},
          {"train_accuracy", number(s.train_accuracy)},
          {"test_accuracy", number(s.test_accuracy)},
          {"seconds", s.seconds},
          {"networks_per_second", s.networks_per_second},
          {"trained_now", s.trained_now},
          {"instruction_set", NameOf(s.maker)}};
}

// What the run keeps before anything is certified.
Result<Promise> PromiseOfSummary(const TrainSummary& s) {
  if (!s.complete) return Promise();  // of a shard
  return PromiseOfRun(s.run);
}

std::string ToText(const TrainSummary& s, const Promise& promise, std::string_view done) {
  std::string text = fmt::format(
      "{} networks of {} parameters{}\n", s.members + (s.complete ? 1 : 0), s.parameters,
      s.partial ? fmt::format(" (partial: {} of {} leave-one-outs)", s.members, s.units) : "");
  if (s.dropped > 0) text += fmt::format("{} rows did not encode and were dropped\n", s.dropped);
  if (s.complete && std::isfinite(s.train_accuracy)) {
    text += fmt::format("train accuracy {:.2f} %", 100 * s.train_accuracy);
    if (std::isfinite(s.test_accuracy)) {
      text += fmt::format(", test accuracy {:.2f} %", 100 * s.test_accuracy);
    }
    text += "\n";
  }
  if (s.trained_now > 0) {
    text += fmt::format("{} {} networks in {:.1f} s ({:.1f}/s, {})\n", done, s.trained_now,
                        s.seconds, s.networks_per_second, NameOf(s.maker));
  }
  if (s.complete) {
    for (const std::string& line : promise.Lines()) text += line + "\n";
  }
  if (s.population) {
    text +=
        fmt::format("population {}: epsilon {:.6g} of {}, delta {:.3g} of {} are spent\n",
                    s.population->name, s.population->spent.epsilon, s.population->total.epsilon,
                    s.population->spent.delta, s.population->total.delta);
  }
  text += s.complete ? fmt::format("run: {}\n", s.run)
                     : fmt::format(
                           "shard done; when all are: the same command with --merge instead of "
                           "--shard\n");
  return text;
}

// The recipe of the presets that clip, but for what the command line gives.
void ApplyRecipe(const TrainArguments& arguments, std::int64_t rows, TrainOptions& train) {
  if (train.method == TrainOptions::Method::kPlain) return;
  const std::int64_t expected =
      train.expected_rows > 0 ? train.expected_rows : RoundedToOneDigit(rows);
  const TrainOptions recipe = RecipeFor(train, expected);
  const auto given = [&](const char* name) { return arguments.command->count(name) > 0; };
  if (!given("--batch")) train.batch = recipe.batch;
  if (!given("--epochs")) train.epochs = recipe.epochs;
  if (!given("--lr")) train.rate = recipe.rate;
  if (!given("--clip-norm")) train.clip = recipe.clip;
  if (!given("--schedule")) train.schedule = recipe.schedule;
  if (!given("--standardise")) train.standardise = recipe.standardise;
}

Result<ExitCode> RunTrain(const Session& session, const TrainArguments& arguments) {
  EnsembleOptions options = arguments.ensemble;
  options.train.seed = session.seed;
  options.seed_from_entropy = arguments.command->count("--seed") == 0;
  if (!arguments.population_total.empty()) {
    options.population_total = {arguments.population_total[0], arguments.population_total[1]};
  }
  options.threads = session.threads;
  options.command = session.arguments;
  if (arguments.instruction_set != "auto") {
    LUCID_ASSIGN(options.instruction_set, InstructionSetNamed(arguments.instruction_set));
  }
  if (!arguments.shard.empty()) {
    LUCID_ASSIGN(options.shard, Shard::Parse(arguments.shard));
  }
  LUCID_TRY(options.train.Validate());
  const bool is_private = options.train.method == TrainOptions::Method::kPrivate;
  if (is_private && arguments.load.max_rows > 0) {
    return InvalidInput("--rows chooses by looking at the data: private training takes all rows");
  }
  LoadOptions load = arguments.load;
  load.total = is_private;
  LUCID_ASSIGN(const Dataset dataset, LoadDataset(arguments.data, load));
  for (const std::string& line : DataWarnings(dataset, is_private)) session.Say("warning: " + line);
  ApplyRecipe(arguments, dataset.train.rows(), options.train);
  // Without a unit column every row is a unit of its own.
  options.train.rows_per_unit =
      dataset.train.has_units() ? std::max<std::int64_t>(load.rows_per_unit, 1) : 1;
  if (!arguments.reference.empty()) {
    LUCID_ASSIGN(options.reference, LoadTable(arguments.reference, dataset.schema, {.clip = true},
                                              /*label_required=*/false));
  }
  if (!arguments.replaces.empty()) {
    LUCID_ASSIGN(const RunNetwork other, OpenRunNetwork(arguments.replaces));
    options.after_looking = fmt::format("the choice of this run instead of run {}",
                                        other.manifest.run_key.Hex().substr(0, 16));
  }
  LUCID_ASSIGN(const Architecture architecture,
               Architecture::FromName(arguments.arch, dataset.features(), dataset.classes()));
  options.team = session.team.get();
  if (options.team != nullptr && options.team->size() > 1 && arguments.merging->count() > 0) {
    return InvalidInput("--merge works in one process: start it without mpirun");
  }
  if (!session.Speaks()) {
    LUCID_TRY(HelpTrainEnsemble(dataset, architecture, options, arguments.out, session.stop));
    return kDone;
  }
  std::vector<std::string> folders = arguments.merge;
  std::erase(folders, "");
  if (folders.empty()) folders = {arguments.out};
  LUCID_ASSIGN(const TrainSummary summary,
               arguments.merging->count() > 0
                   ? MergeShards(dataset, architecture, options, arguments.out, folders,
                                 session.Progress(), session.stop)
                   : TrainEnsemble(dataset, architecture, options, arguments.out,
                                   session.Progress(), session.stop));
  LUCID_TRY(PrintSummary(session, summary, "trained"));
  if (summary.complete && !session.json) {
    LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(arguments.out));
    for (const std::string& line : NetworkWarnings(opened.network, dataset)) {
      session.Say("warning: " + line);
    }
  }
  return kDone;
}

// Clipping, noise, and what training may know of the size of the data.
void AddPrivateOptions(CLI::App& command, TrainArguments& arguments) {
  TrainOptions& train = arguments.ensemble.train;
  command
      .add_option("--expected-rows", train.expected_rows,
                  "How many rows training is meant for (default: the rows to one digit; private "
                  "training has no default)")
      ->check(CLI::PositiveNumber);
  command.add_option("--batches", train.batches, "Batches per epoch instead of rows / batch")
      ->check(CLI::PositiveNumber);
  command.add_option("--clip-norm", train.clip, "Largest norm of a unit's gradient")
      ->capture_default_str();
  command
      .add_option("--standardise", train.standardise,
                  "Train on inputs of mean 0 and one deviation (clipped and private; default: as "
                  "the recipe has it)")
      ->default_str("");
  command.add_option("--train-epsilon", train.epsilon, "Epsilon of private training")
      ->capture_default_str();
  command.add_option("--train-delta", train.delta,
                     "Delta of private training (default: 1e-6, or 1 / (10 expected rows))");
  command
      .add_option("--rows-per-unit", arguments.load.rows_per_unit,
                  "Keep at most so many rows of each unit, chosen by a public hash")
      ->check(CLI::PositiveNumber);
  command.add_option("--secret", arguments.ensemble.secret_file,
                     "File of the secret that noise comes from (default: RUN/secret, made anew)");
  command.add_flag("--seeded-noise", arguments.ensemble.seeded_noise,
                   "Noise from --seed, to repeat an experiment: nothing is private");
  CLI::Option* population =
      command.add_option("--population", arguments.ensemble.population_file,
                         "File that holds what private trainings on the same people cost, and may; "
                         "its name is that of the people whose budget answers spend");
  command
      .add_option("--population-total", arguments.population_total,
                  "EPSILON,DELTA of all trainings on them together: makes that file")
      ->delimiter(',')
      ->expected(2)
      ->needs(population);
  command.add_option(
      "--replaces", arguments.replaces,
      "Folder of a run on the same people that is discarded because of what it gave: "
      "the promise full is then 'chosen after looking'");
  command
      .add_option("--declare", arguments.ensemble.declare,
                  "Declare bounds: this share of N's median confidence (private: 0.05)")
      ->check(CLI::PositiveNumber);
  command.add_option("--reference", arguments.reference,
                     "CSV of rows of people who are not in the data, for that median (default: "
                     "10,000 inputs of the domain)");
}

// Our own SGD's options, which a command in its place would not see.
void RefuseWithTrainer(CLI::App& command, CLI::Option* trainer) {
  for (const char* name :
       {"--preset", "--epochs", "--batch", "--lr", "--weight-decay", "--schedule", "--momentum",
        "--average-epochs", "--instruction-set", "--expected-rows", "--batches", "--clip-norm",
        "--standardise", "--train-epsilon", "--train-delta", "--secret", "--seeded-noise", "--rows",
        "--rows-per-unit"}) {
    trainer->excludes(command.get_option(name));
  }
}

}  // namespace

Status PrintSummary(const Session& session, const TrainSummary& summary, std::string_view done) {
  LUCID_ASSIGN(const Promise promise, PromiseOfSummary(summary));
  return session.json ? PrintJson(ToJson(summary, promise)) : Print(ToText(summary, promise, done));
}

void SayAdjacency(const Session& session, const Manifest& manifest) {
  if (manifest.adjacency == Adjacency::kBlanked) {
    session.Say(
        "adjacency blanked: this run is of an older version, whose members were trained with a "
        "blank in the row's place and not without the row; train again for 'unit removed'");
  }
  if (manifest.adjacency == Adjacency::kAsTrainedElsewhere) {
    session.Say("adjacency as trained elsewhere: what the members left out is not known here");
  }
}

void AddTrainCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<TrainArguments>();
  TrainOptions& train = arguments->ensemble.train;
  CLI::App* command = AddCommand(
      root, session, "train", "Trains N on all rows and a network without each row",
      "lucid data synth2d --rows 700 --out points && lucid train --data points --arch "
      "2x50 --out run",
      [&session, arguments] { return RunTrain(session, *arguments); }, Processes::kSeveral);
  arguments->command = command;
  command->get_option("--seed")
      ->description("Seed of weights and batches (default: from the system's entropy, in RUN/seed)")
      ->default_str("");
  command
      ->add_option("--data", arguments->data,
                   "Folder with schema.csv, train.csv[.gz], test.csv[.gz]")
      ->required();
  command->add_option("--out", arguments->out, "Folder of the run")->required();
  command
      ->add_option("--arch", arguments->arch,
                   "2x50, 4x30, ... (layers x neurons), conv, or a .toml file")
      ->capture_default_str();
  // The preset is applied as soon as it is seen; the options after it in this list override it,
  // because CLI11 processes options in the order in which they were added.
  command
      ->add_option(
          "--preset", arguments->preset,
          "paper (constant rate), stable (cosine decay: members lie closer together), "
          "clipped (each unit's pull is bounded) or private (with noise: the full promise)")
      ->check(CLI::IsMember({"paper", "stable", "clipped", "private"}))
      ->capture_default_str()
      ->each([&train, arguments](const std::string& name) {
        train = TrainOptions::Preset(name).value();
        if (name == "private") arguments->ensemble.declare = kDeclaredShare;
      });
  command->add_option("--epochs", train.epochs, "Passes over the data")->capture_default_str();
  command->add_option("--batch", train.batch, "Rows per step")->capture_default_str();
  command->add_option("--lr", train.rate, "Learning rate at the start")->capture_default_str();
  command->add_option("--weight-decay", train.weight_decay, "L2 regularisation")
      ->capture_default_str();
  command
      ->add_option("--schedule", arguments->schedule, "constant or cosine (overrides the preset)")
      ->check(CLI::IsMember({"constant", "cosine"}))
      ->each([&train](const std::string& name) {
        train.schedule =
            name == "cosine" ? TrainOptions::Schedule::kCosine : TrainOptions::Schedule::kConstant;
      });
  command->add_option("--momentum", train.momentum, "Momentum of SGD")->capture_default_str();
  command
      ->add_option("--average-epochs", train.average_epochs,
                   "Average the weights after each of the last so many epochs (0: off)")
      ->capture_default_str();
  AddPrivateOptions(*command, *arguments);
  command
      ->add_option("--rows", arguments->load.max_rows,
                   "Use only so many rows of the training file, chosen by a public hash")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--members", arguments->ensemble.members,
                   "Train only so many leave-one-outs, evenly spaced (the run is marked partial)")
      ->check(CLI::PositiveNumber);
  command->add_flag("--clip", arguments->load.clip,
                    "Clip values outside [0,1] instead of refusing them");
  CLI::Option* shard =
      command->add_option("--shard", arguments->shard, "Train only part i of n: i/n");
  CLI::Option* merge = command
                           ->add_option("--merge", arguments->merge,
                                        "Join the shards in these folders (default: --out)")
                           ->expected(0, -1);
  merge->excludes(shard);
  arguments->merging = merge;
  command->add_flag("--resume", arguments->ensemble.resume, "Go on with an unfinished run");
  command
      ->add_option("--instruction-set", arguments->instruction_set,
                   "auto, avx512, avx2 or portable (the weights are the same bits)")
      ->capture_default_str();
  command->add_flag("!--unchecked-trainer", arguments->ensemble.check_trainer,
                    "Do not try first whether the --trainer is seeded, knows no order of the rows "
                    "and leaves out what it is told");
  arguments->ensemble.check_trainer = true;
  CLI::Option* trainer =
      command->add_option("--trainer", arguments->ensemble.trainer,
                          "Train each network with this shell command, which reads "
                          "LUCID_DATA, LUCID_LEAVE_OUT, ... and writes LUCID_OUT");
  CLI::Option* worker =
      command
          ->add_option_function<std::string>(
              "--trainer-worker",
              [arguments](const std::string& text) {
                arguments->ensemble.trainer = text;
                arguments->ensemble.trainer_stays = true;
              },
              "Train with this shell command, which stays alive: it reads a line of JSON for each "
              "network and prints 'done' (docs/ensemble.md)")
          ->excludes(trainer);
  RefuseWithTrainer(*command, trainer);
  RefuseWithTrainer(*command, worker);
}

}  // namespace lucid::app
