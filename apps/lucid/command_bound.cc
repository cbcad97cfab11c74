#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "command.h"
#include "lucid/certificate/certificate.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/member_index.h"
#include "lucid/verify/bound.h"

namespace lucid::app {
namespace {

struct BoundArguments {
  std::string run, out, engine = "native", variant = "full", tighten = "none";
  std::int32_t label = -1;
  bool index = false;
  BoundOptions common;
  NativeBoundOptions native;
  MilpBoundOptions milp;
};

std::string ToText(const Certificate& certificate, const Manifest& manifest,
                   const std::string& path) {
  std::string text;
  for (const ClassBound& bound : certificate.classes) {
    const std::string& name = manifest.schema.label().categories[bound.label];
    if (std::isinf(bound.beta_upper)) {
      text += fmt::format("class {} ({}): not computed\n", bound.label, name);
      continue;
    }
    text += fmt::format("class {} ({}): beta in [{:.6g}, {:.6g}], gap {:.2f} %, {}, {:.1f} s\n",
                        bound.label, name, bound.beta_lower, bound.beta_upper, 100 * bound.Gap(),
                        NameOf(bound.status), bound.seconds);
  }
  if (certificate.partial) {
    text += fmt::format(
        "partial: only {} of {} rows have a leave-one-out network; nothing is "
        "said about the others\n",
        certificate.members, certificate.rows);
  }
  return text + fmt::format("certificate: {}\n", path);
}

Result<Certificate> Compute(const Session& session, const BoundArguments& arguments,
                            const Ensemble& ensemble, const BoundOptions& common) {
  if (arguments.engine == "milp") {
    MilpBoundOptions options = arguments.milp;
    static_cast<BoundOptions&>(options) = common;
    LUCID_ASSIGN(options.variant, VariantNamed(arguments.variant));
    options.tighten = arguments.tighten == "lp";
    return ComputeBoundsByMilp(ensemble, options, session.Progress(), session.stop);
  }
  NativeBoundOptions options = arguments.native;
  static_cast<BoundOptions&>(options) = common;
  return ComputeBounds(ensemble, options, session.Progress(), session.stop);
}

// The exact guard's index, beside the run.
Status BuildIndex(const Session& session, const Ensemble& ensemble, const std::string& run,
                  double member_error) {
  LUCID_ASSIGN(const auto upper, BoundMembers(ensemble, member_error, session.threads,
                                              session.Progress(), session.stop));
  LUCID_ASSIGN(const MemberIndex index,
               MemberIndex::Build(ensemble, upper, member_error, session.threads));
  const std::string path = (std::filesystem::path(run) / kIndexFile).string();
  LUCID_TRY(index.Save(path));
  session.Say(fmt::format("index: {}", path));
  return Ok();
}

Result<ExitCode> RunBound(const Session& session, const BoundArguments& arguments) {
  BoundOptions options = arguments.common;
  if (arguments.label >= 0) options.label = arguments.label;
  options.seed = session.seed;
  options.threads = session.threads;
  options.command = session.arguments;
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(arguments.run, session.Progress()));
  const std::string path = arguments.out.empty()
                               ? (std::filesystem::path(arguments.run) / kCertificateFile).string()
                               : arguments.out;
  options.journal = path + ".journal";
  LUCID_ASSIGN(const Certificate certificate, Compute(session, arguments, ensemble, options));
  LUCID_TRY(SaveCertificate(certificate, path));
  if (arguments.index) {
    LUCID_TRY(BuildIndex(session, ensemble, arguments.run, certificate.member_error));
  }
  LUCID_TRY(session.json ? Print(EncodeCertificate(certificate))
                         : Print(ToText(certificate, ensemble.manifest(), path)));
  if (options.Finished(certificate)) return kDone;
  session.Say(fmt::format(
      "stopped early: the bounds hold, but could be tighter; the same command with --resume goes "
      "on from '{}'",
      options.journal));
  return kStoppedEarly;
}

void AddNativeOptions(CLI::App& command, BoundArguments& arguments) {
  NativeBoundOptions& native = arguments.native;
  command
      .add_option("--proof", native.proof,
                  "native: also write a proof that lucid-check --level proof checks")
      ->group("native");
  command
      .add_option_function<std::int64_t>(
          "--memory", [&native](std::int64_t mebibytes) { native.memory = mebibytes << 20; },
          "native: MiB for regions that wait; beyond, the bound gets looser (default: 1024)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->group("native");
}

void AddMilpOptions(CLI::App& command, BoundArguments& arguments) {
  MilpBoundOptions& milp = arguments.milp;
  command
      .add_option("--variant", arguments.variant,
                  "milp: naive, H, HM, HMRiS, HMB or full: parts of the paper's system (Table 4)")
      ->check(CLI::IsMember({"naive", "H", "HM", "HMRiS", "HMB", "full"}))
      ->capture_default_str()
      ->group("milp");
  command
      .add_option("--tau", milp.tau,
                  "milp: relax-if-similar: the widest difference interval that counts as similar")
      ->capture_default_str()
      ->group("milp");
  AddDuration(command, "--subset-limit", milp.subset_limit,
              "milp: time for one MILP (default: 40m)");
  command
      .add_option("--tighten", arguments.tighten,
                  "milp: lp: neuron bounds by linear programs, too; none: by propagation only")
      ->check(CLI::IsMember({"lp", "none"}))
      ->capture_default_str()
      ->group("milp");
}

}  // namespace

void AddBoundCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<BoundArguments>();
  BoundOptions& common = arguments->common;
  CLI::App* command = AddCommand(
      root, session, "bound", "Computes the certificate: an upper bound of beta for every class",
      "lucid data synth2d --rows 40 --out points && lucid train --data points --arch 2x10 --out "
      "run && lucid bound run --time-limit 1m",
      [&session, arguments] { return RunBound(session, *arguments); });
  command->add_option("run", arguments->run, "Folder of the run")->required();
  command->add_option("--out", arguments->out, "The certificate (default: RUN/certificate.json)");
  command->add_option("--class", arguments->label, "Only this class (the others stay unknown)")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--engine", arguments->engine,
                   "native (region search with difference bounds) or milp (the paper's)")
      ->check(CLI::IsMember({"native", "milp"}))
      ->capture_default_str();
  command->add_option("--gap", common.gap, "Relative gap at which a class is done")
      ->capture_default_str();
  AddDuration(*command, "--time-limit", common.time_limit,
              "Time for all classes together, e.g. 90s, 10m, 8h (default: 8h)");
  command->add_flag("--resume", common.resume,
                    "Go on with the journal that an unfinished search left beside --out");
  command->add_flag("--index", arguments->index,
                    "Also build the exact guard's index of members, RUN/index.safetensors");
  AddNativeOptions(*command, *arguments);
  AddMilpOptions(*command, *arguments);
}

}  // namespace lucid::app
