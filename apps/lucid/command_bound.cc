#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "command.h"
#include "lucid/certificate/certificate.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/verify/bound.h"

namespace lucid::app {
namespace {

struct BoundArguments {
  std::string run, out, engine = "milp", variant = "full", tighten = "none";
  std::int32_t label = -1;
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

Result<ExitCode> RunBound(const Session& session, const BoundArguments& arguments) {
  MilpBoundOptions options = arguments.milp;
  LUCID_ASSIGN(options.variant, VariantNamed(arguments.variant));
  options.tighten = arguments.tighten == "lp";
  if (arguments.label >= 0) options.label = arguments.label;
  options.seed = session.seed;
  options.threads = session.threads;
  options.command = session.arguments;
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(arguments.run, session.Progress()));
  const std::string path = arguments.out.empty()
                               ? (std::filesystem::path(arguments.run) / kCertificateFile).string()
                               : arguments.out;
  options.journal = path + ".journal";
  LUCID_ASSIGN(const Certificate certificate,
               ComputeBoundsByMilp(ensemble, options, session.Progress(), session.stop));
  LUCID_TRY(SaveCertificate(certificate, path));
  LUCID_TRY(session.json ? Print(EncodeCertificate(certificate))
                         : Print(ToText(certificate, ensemble.manifest(), path)));
  const auto early = std::ranges::find_if(certificate.classes, [&](const ClassBound& bound) {
    return bound.status == BoundStatus::kDeadline &&
           options.label.value_or(bound.label) == bound.label;
  });
  if (early == certificate.classes.end()) return kDone;
  session.Say(fmt::format(
      "stopped early: the bounds hold, but could be tighter; the same command with --resume goes "
      "on from '{}'",
      options.journal));
  return kStoppedEarly;
}

}  // namespace

void AddBoundCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<BoundArguments>();
  MilpBoundOptions& milp = arguments->milp;
  CLI::App* command = AddCommand(
      root, session, "bound", "Computes the certificate: an upper bound of beta for every class",
      "lucid data synth2d --rows 40 --out points && lucid train --data points --arch 2x10 --out "
      "run && lucid bound run --engine milp --time-limit 1m",
      [&session, arguments] { return RunBound(session, *arguments); });
  command->add_option("run", arguments->run, "Folder of the run")->required();
  command->add_option("--out", arguments->out, "The certificate (default: RUN/certificate.json)");
  command->add_option("--class", arguments->label, "Only this class (the others stay unknown)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--engine", arguments->engine, "milp: the paper's")
      ->check(CLI::IsMember({"milp"}))
      ->capture_default_str();
  command
      ->add_option("--variant", arguments->variant,
                   "naive, H, HM, HMRiS, HMB or full: parts of the paper's system (its Table 4)")
      ->check(CLI::IsMember({"naive", "H", "HM", "HMRiS", "HMB", "full"}))
      ->capture_default_str();
  command
      ->add_option("--tau", milp.tau,
                   "Relax-if-similar: the widest difference interval that counts as similar")
      ->capture_default_str();
  command->add_option("--gap", milp.gap, "Relative gap at which a search ends")
      ->capture_default_str();
  AddDuration(*command, "--time-limit", milp.time_limit,
              "Time for all classes together, e.g. 90s, 10m, 8h (default: 8h)");
  AddDuration(*command, "--subset-limit", milp.subset_limit, "Time for one MILP (default: 40m)");
  command
      ->add_option("--tighten", arguments->tighten,
                   "lp: neuron bounds by linear programs, too; none: by propagation only")
      ->check(CLI::IsMember({"lp", "none"}))
      ->capture_default_str();
  command->add_flag("--resume", milp.resume,
                    "Go on with the journal that an unfinished search left beside --out");
}

}  // namespace lucid::app
