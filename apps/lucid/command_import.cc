#include <memory>

#include "command.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid::app {
namespace {

struct ImportArguments {
  std::string network, members, data, arch, out;
  LoadOptions load;
  ImportOptions import;
};

Result<ExitCode> RunImport(const Session& session, const ImportArguments& arguments) {
  ImportOptions options = arguments.import;
  options.threads = session.threads;
  options.command = session.arguments;
  LUCID_ASSIGN(const Dataset dataset, LoadDataset(arguments.data, arguments.load));
  if (!arguments.arch.empty()) {
    LUCID_ASSIGN(options.architecture,
                 Architecture::FromName(arguments.arch, dataset.features(), dataset.classes()));
  }
  LUCID_ASSIGN(const TrainSummary summary,
               ImportEnsemble(dataset, arguments.network, arguments.members, options, arguments.out,
                              session.Progress(), session.stop));
  LUCID_TRY(PrintSummary(session, summary, "imported"));
  return kDone;
}

}  // namespace

void AddImportCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = AddCommand(
      root, session, "import", "Makes a run from networks trained elsewhere",
      "lucid data synth2d --rows 100 --out points && lucid train --data points --out run && lucid "
      "import --network run/network.safetensors --members run/ensemble.safetensors --data points "
      "--out imported",
      [&session, arguments] { return RunImport(session, *arguments); });
  command
      ->add_option("--network", arguments->network,
                   "The network trained on all rows: .onnx or .safetensors")
      ->required();
  command
      ->add_option("--members", arguments->members,
                   "Folder with a file for each row left out, its number in the name (17.onnx), or "
                   "a .safetensors file of stacked networks")
      ->required();
  command
      ->add_option("--data", arguments->data,
                   "Folder with schema.csv, train.csv[.gz], test.csv[.gz]")
      ->required();
  command->add_option("--out", arguments->out, "Folder of the run")->required();
  command->add_option("--arch", arguments->arch,
                      "The architecture all networks must have (default: that of --network); tells "
                      "the strides of safetensors convolutions");
  command->add_flag("--partial", arguments->import.partial,
                    "Accept rows without a network (the run is marked partial)");
  command
      ->add_option("--rows", arguments->load.max_rows,
                   "Use only so many rows of the training file, chosen by a public hash")
      ->check(CLI::PositiveNumber);
  command->add_flag("--clip", arguments->load.clip,
                    "Clip values outside [0,1] instead of refusing them");
}

}  // namespace lucid::app
