#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "command.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid::app {
namespace {

struct TrainArguments {
  std::string data, arch = "2x50", out, shard, preset = "paper", schedule;
  LoadOptions load;
  EnsembleOptions ensemble;
  std::vector<std::string> merge;
  const CLI::Option* merging = nullptr;  // given, perhaps without a folder
};

nlohmann::ordered_json ToJson(const TrainSummary& s) {
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  return {{"run", s.run},
          {"rows", s.rows},
          {"members", s.members},
          {"parameters", s.parameters},
          {"partial", s.partial},
          {"complete", s.complete},
          {"train_accuracy", number(s.train_accuracy)},
          {"test_accuracy", number(s.test_accuracy)},
          {"seconds", s.seconds},
          {"networks_per_second", s.networks_per_second},
          {"trained_now", s.trained_now},
          {"instruction_set", s.instruction_set}};
}

std::string ToText(const TrainSummary& s, std::string_view done) {
  std::string text = fmt::format(
      "{} networks of {} parameters{}\n", s.members + (s.complete ? 1 : 0), s.parameters,
      s.partial ? fmt::format(" (partial: {} of {} leave-one-outs)", s.members, s.rows) : "");
  if (s.complete) {
    text += fmt::format("train accuracy {:.2f} %", 100 * s.train_accuracy);
    if (std::isfinite(s.test_accuracy)) {
      text += fmt::format(", test accuracy {:.2f} %", 100 * s.test_accuracy);
    }
    text += "\n";
  }
  if (s.trained_now > 0) {
    text += fmt::format("{} {} networks in {:.1f} s ({:.1f}/s, {})\n", done, s.trained_now,
                        s.seconds, s.networks_per_second, s.instruction_set);
  }
  text += s.complete ? fmt::format("run: {}\n", s.run)
                     : fmt::format(
                           "shard done; when all are: the same command with --merge instead of "
                           "--shard\n");
  return text;
}

Result<ExitCode> RunTrain(const Session& session, const TrainArguments& arguments) {
  EnsembleOptions options = arguments.ensemble;
  options.train.seed = session.seed;
  options.threads = session.threads;
  options.command = session.arguments;
  if (!arguments.shard.empty()) {
    LUCID_ASSIGN(options.shard, Shard::Parse(arguments.shard));
  }
  LUCID_TRY(options.train.Validate());
  LUCID_ASSIGN(const Dataset dataset, LoadDataset(arguments.data, arguments.load));
  LUCID_ASSIGN(const Architecture architecture,
               Architecture::FromName(arguments.arch, dataset.features(), dataset.classes()));
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
  return kDone;
}

// Our own SGD's options, which a command in its place would not see.
void RefuseWithTrainer(CLI::App& command, CLI::Option* trainer) {
  for (const char* name : {"--preset", "--epochs", "--batch", "--lr", "--weight-decay",
                           "--schedule", "--momentum", "--average-epochs", "--instruction-set"}) {
    trainer->excludes(command.get_option(name));
  }
}

}  // namespace

Status PrintSummary(const Session& session, const TrainSummary& summary, std::string_view done) {
  return session.json ? PrintJson(ToJson(summary)) : Print(ToText(summary, done));
}

void AddTrainCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<TrainArguments>();
  TrainOptions& train = arguments->ensemble.train;
  CLI::App* command =
      AddCommand(root, session, "train", "Trains N on all rows and a network without each row",
                 "lucid data synth2d --rows 700 --out points && lucid train --data points --arch "
                 "2x50 --out run",
                 [&session, arguments] { return RunTrain(session, *arguments); });
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
      ->add_option("--preset", arguments->preset,
                   "paper (constant rate) or stable (cosine decay: members lie closer together)")
      ->check(CLI::IsMember({"paper", "stable"}))
      ->capture_default_str()
      ->each([&train](const std::string& name) { train = TrainOptions::Preset(name).value(); });
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
  command
      ->add_option("--rows", arguments->load.max_rows,
                   "Use only the first rows of the training file")
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
      ->add_option("--instruction-set", arguments->ensemble.instruction_set,
                   "auto, avx512, avx2 or portable (the weights are the same bits)")
      ->capture_default_str();
  RefuseWithTrainer(*command,
                    command->add_option("--trainer", arguments->ensemble.trainer,
                                        "Train each network with this shell command, which reads "
                                        "LUCID_DATA, LUCID_LEAVE_OUT, ... and writes LUCID_OUT"));
}

}  // namespace lucid::app
