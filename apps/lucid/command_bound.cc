#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "certify.h"
#include "command.h"
#include "lucid/certificate/certificate.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/verify/bound.h"

namespace lucid::app {
namespace {

struct BoundArguments {
  std::string run, out, engine = "native", variant = "full", tighten = "none";
  std::int32_t label = -1;
  bool index = false, spatial = false;
  CLI::Option *index_flag = nullptr, *spatial_flag = nullptr;
  SpatialOptions spatial_options;
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
    if (arguments.native.domain != "box") {
      return InvalidInput(
          "--domain schema: the milp engine knows the box only, use --engine native");
    }
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

// By default parts go with the run's own certificate only: there is one of each beside a run.
GuardParts PartsOf(const BoundArguments& arguments) {
  const bool own = arguments.out.empty();
  return {.index = arguments.index_flag->count() > 0 ? arguments.index : own,
          .spatial = arguments.spatial_flag->count() > 0 ? arguments.spatial : own,
          .spatial_options = arguments.spatial_options};
}

Result<ExitCode> RunBound(const Session& session, const BoundArguments& arguments) {
  BoundOptions options = arguments.common;
  if (arguments.label >= 0) options.label = arguments.label;
  options.seed = session.seed;
  options.threads = session.threads;
  options.command = session.arguments;
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(arguments.run, session.Progress()));
  const std::string path = GivenOrInRun(arguments.out, arguments.run, kCertificateFile);
  options.journal = path + ".journal";
  BoundRecorder recorder;
  recorder.Listen(options);
  LUCID_ASSIGN(Certificate certificate, Compute(session, arguments, ensemble, options));
  LUCID_TRY(SaveCertificate(certificate, path));  // whatever happens to the rest
  if (arguments.out.empty()) LUCID_TRY(recorder.Save(arguments.run, certificate));
  const Status parts =
      BuildGuardParts(session, PartsOf(arguments), ensemble, arguments.run, certificate);
  if (!parts.ok() && parts.error().kind != ErrorKind::kInterrupted) return parts.error();
  LUCID_TRY(SaveCertificate(certificate, path));
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
      .add_option("--domain", native.domain,
                  "native: what may be asked: box, all of [0,1]^d, or schema, only what records of "
                  "the schema encode to (tighter; guards refuse the rest)")
      ->check(CLI::IsMember({"box", "schema"}))
      ->capture_default_str()
      ->group("native");
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
  arguments->index_flag = command->add_flag(
      "--index,!--no-index", arguments->index,
      "Build the exact guard's index, RUN/index.safetensors (default: yes, unless --out)");
  arguments->spatial_flag = command->add_flag(
      "--spatial,!--no-spatial", arguments->spatial,
      "Build the spatial guard's bounds, RUN/spatial.lucid (default: yes, unless --out)");
  command
      ->add_option("--leaves", arguments->spatial_options.leaves,
                   "Boxes of the spatial bounds, at most, for a class")
      ->capture_default_str();
  AddDuration(*command, "--spatial-limit", arguments->spatial_options.time_limit,
              "Time for the spatial bounds (default: 30s)");
  AddNativeOptions(*command, *arguments);
  AddMilpOptions(*command, *arguments);
}

}  // namespace lucid::app
