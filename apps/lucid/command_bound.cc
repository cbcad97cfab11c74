#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "command.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certify/certify.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/evaluation/evaluation.h"
#include "lucid/promise/promise.h"

namespace lucid::app {
namespace {

constexpr double kNativeTimeLimit = 600;  // it is done in seconds, or comes close in minutes

struct BoundArguments {
  std::string run, out, engine{NameOf(Engine::kNative)}, variant = "full", tighten = "none";
  std::int32_t label = -1;
  bool index = false, spatial = false, no_proof = false, optimum = false;
  double declare = 0;  // 0: not given
  std::optional<DomainKind> domain;
  CLI::Option *index_flag = nullptr, *spatial_flag = nullptr, *time_limit = nullptr;
  SpatialOptions spatial_options;
  BoundOptions common;
  NativeBoundOptions native;
  MilpBoundOptions milp;
};

std::string DeclaredText(const Certificate& certificate, const Schema& schema) {
  const DeclaredDecision& declared = *certificate.declared;
  std::string text = fmt::format("bound {:.6g} (r = {}, {}): {}\n", declared.bounds.front(),
                                 declared.r, declared.after_looking ? "after looking" : "declared",
                                 NameOf(certificate.Outcome()));
  for (const ClassBound& bound : certificate.classes) {
    if (!(bound.beta_lower > declared.bounds[bound.label]) || !bound.witness) continue;
    text += fmt::format(
        "witness: class {} ({}), confidence {:.6g}, another label from the network without row "
        "{}\n",
        bound.label, schema.label().categories[bound.label], bound.beta_lower, bound.witness->row);
  }
  return text;
}

std::string ToText(const CertifySummary& made, const Manifest& manifest,
                   const std::string& expected) {
  const Certificate& certificate = made.certificate;
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
    for (const auto& [counter, count] : bound.counters) {
      if (counter == "limited_by_rounding" && count > 0) {
        text += fmt::format(
            "class {}: the rounding of the networks' own sums allows no tighter "
            "bound\n",
            bound.label);
      }
    }
  }
  if (certificate.partial) {
    text += fmt::format(
        "partial: only {} of {} rows have a leave-one-out network; nothing is "
        "said about the others\n",
        certificate.members, certificate.rows);
  }
  if (certificate.proof) {
    text += fmt::format("proof: {}, {:.1f} MB\n", certificate.proof->file,
                        static_cast<double>(certificate.proof->bytes) / 1e6);
  } else {
    text += "unproved: nobody but the engine says that the bounds hold\n";
  }
  if (certificate.declared) text += DeclaredText(certificate, manifest.schema);
  for (const std::string& line : made.promise.Lines()) text += line + "\n";
  return text + fmt::format("certificate: {}\n", made.path) + expected;
}

// What N and its guards are expected to do with the run's test rows, as a table; empty where there
// are none.
Result<std::string> ExpectedAccuracies(const Session& session, const std::string& run,
                                       const std::string& path, const Manifest& manifest,
                                       const Certificate& certificate) {
  const Result<Dataset> data = LoadRunData(manifest);
  if (!data.ok() || data->test.rows() == 0) return std::string();
  EvaluationOptions options;
  options.certificate = path;
  options.epsilons = {0};
  options.only_expected = true;
  options.threads = session.threads;
  options.methods = {Method::kNone, Method::kScalar};
  if (certificate.spatial_digest) options.methods.push_back(Method::kSpatial);
  if (certificate.index_digest) options.methods.push_back(Method::kExact);
  LUCID_ASSIGN(const Evaluation evaluation,
               Evaluate(run, data->test, nullptr, options, session.Progress(), session.stop));
  std::string text = fmt::format("expected at epsilon 0 on {} test rows:\n", data->test.rows());
  for (const EvaluationRow& row : evaluation.rows) {
    const bool guarded = row.method != Method::kNone;
    text +=
        fmt::format("  {:<8} accuracy {:6.2f} %{}\n", guarded ? NameOf(row.method) : "N alone",
                    100 * row.accuracy,
                    guarded ? fmt::format(", noised {:6.2f} %", 100 * row.noised_fraction) : "");
  }
  return text;
}

// The engine that was asked for, with its options and those of the session.
Result<CertifyOptions> OptionsOf(const Session& session, const BoundArguments& arguments) {
  if (arguments.no_proof && !arguments.native.proof.empty()) {
    return InvalidInput("--proof and --no-proof: there is one or there is none");
  }
  CertifyOptions options;
  if (arguments.engine == NameOf(Engine::kMilp)) {
    if (arguments.domain == DomainKind::kSchema) {
      return InvalidInput(
          "--domain schema: the milp engine knows the box only, use --engine native");
    }
    MilpBoundOptions milp = arguments.milp;
    LUCID_ASSIGN(milp.variant, VariantNamed(arguments.variant));
    milp.tighten = arguments.tighten == "lp";
    options.engine = milp;
  } else {
    options.engine = arguments.native;
  }
  BoundOptions& bound = options.bound();
  bound = arguments.common;
  if (arguments.time_limit->count() == 0 && arguments.engine == NameOf(Engine::kNative)) {
    bound.time_limit = kNativeTimeLimit;
  }
  if (arguments.label >= 0) bound.label = arguments.label;
  bound.seed = session.seed;
  bound.threads = session.threads;
  bound.command = session.arguments;
  options.certificate = arguments.out;
  options.proof = !arguments.no_proof;
  // By default the index and the spatial bounds are made for the run's own certificate only,
  // because a run has place for one of each.
  const bool own = arguments.out.empty();
  options.index = arguments.index_flag->count() > 0 ? arguments.index : own;
  options.spatial = arguments.spatial_flag->count() > 0 ? arguments.spatial : own;
  options.spatial_options = arguments.spatial_options;
  // Who asks for them by name gets them.
  if (arguments.spatial_flag->count() > 0) options.spatial_options.least_spared = 0;
  return options;
}

// The bounds to decide about: those of the command line, or those of the manifest, or none.
std::optional<DeclaredDecision> DecisionFor(const BoundArguments& arguments,
                                            const Ensemble& ensemble) {
  const Manifest& manifest = ensemble.manifest();
  if (arguments.optimum) return std::nullopt;
  if (arguments.declare > 0) {
    const double bound = BoundFor(arguments.declare, manifest, ensemble.network());
    const auto classes = static_cast<std::size_t>(manifest.schema.classes());
    return DeclaredDecision{arguments.declare, std::vector<double>(classes, bound),
                            /*after_looking=*/true};
  }
  if (!manifest.declared) return std::nullopt;
  return OwnDecision(manifest);
}

// Proved, refuted, or stopped before one of them is known.
ExitCode ExitCodeOf(DeclaredOutcome outcome) {
  if (outcome == DeclaredOutcome::kProved) return kDone;
  return outcome == DeclaredOutcome::kRefuted ? kAnswerIsNo : kStoppedEarly;
}

// What to do with these bounds, and why: lines for the operator.
std::vector<std::string> Advice(const std::string& run, const Manifest& manifest,
                                const Certificate& certificate, bool own) {
  if (HasDeclaredAccess(manifest)) {
    return {
        fmt::format("advice: promise full, guard scalar: lucid serve {}   (answers come from N "
                    "and its declared bounds; nothing that was found here may decide about it)",
                    run)};
  }
  std::vector<std::string> lines;
  if (certificate.proof && own) {
    lines.push_back(fmt::format(
        "advice: have the proof checked, lucid serve wants that: lucid-check {0}/{1} --run {0}",
        run, kCertificateFile));
  }
  const bool exact = own && std::filesystem::exists(GivenOrInRun("", run, kIndexFile));
  lines.push_back(fmt::format(
      "advice: promise labels, epsilon 0, guard {0}: lucid serve {1}{2}   ({3}; at epsilon 0 "
      "answers cost nothing, however many)",
      exact ? "exact" : "scalar", run, exact ? " --guard exact --latency-floor 20ms" : "",
      exact ? "it noises only where a member disagrees with N" : "it needs no other file"));
  constexpr std::int64_t kEnoughForPrivate = 5000;
  if (manifest.units >= kEnoughForPrivate) {
    lines.push_back(
        "advice: with so many units lucid train --preset private keeps full, too   (labels does "
        "not cover who compares this service with one without a unit)");
  }
  return lines;
}

Result<ExitCode> RunBound(const Session& session, const BoundArguments& arguments) {
  if (!session.Speaks()) {
    LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(arguments.run));
    LUCID_TRY(HelpCertify(ensemble, *session.team, session.threads, session.stop));
    return kDone;
  }
  LUCID_ASSIGN(CertifyOptions options, OptionsOf(session, arguments));
  options.bound().team = session.team.get();
  const std::string path = GivenOrInRun(arguments.out, arguments.run, kCertificateFile);
  options.bound().journal = JournalPath(path);
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(arguments.run, session.Progress()));
  if (auto* native = std::get_if<NativeBoundOptions>(&options.engine)) {
    native->domain = arguments.domain.value_or(DomainOfEarlier(ensemble, path));
    const DomainKind usual = DefaultDomain(ensemble.manifest().schema);
    if (!arguments.domain && native->domain != usual) {
      session.Say(fmt::format("domain {}, as that of '{}'", NameOf(native->domain), path));
    } else if (!arguments.domain && usual == DomainKind::kSchema) {
      session.Say(
          fmt::format("domain {}: only inputs that records encode to may be asked "
                      "(--domain box: any of [0,1]^d)",
                      NameOf(usual)));
    }
  }
  options.declared = DecisionFor(arguments, ensemble);
  if (options.declared) {  // no guard that states `full` reads them
    options.index = arguments.index;
    options.spatial = arguments.spatial;
  }
  if (options.bound().resume && !std::filesystem::exists(options.bound().journal)) {
    session.Say(fmt::format("nothing to resume: '{}' is not there, the search begins anew",
                            options.bound().journal));
  }
  LUCID_ASSIGN(const CertifySummary made,
               Certify(ensemble, arguments.run, options, session.Progress(), session.stop));
  if (options.declared && options.declared->after_looking) {
    LUCID_TRY(NoteAttempt(arguments.run,
                          {options.declared->r, std::string(NameOf(made.certificate.Outcome()))}));
  }
  for (const std::int32_t label : made.kept) {
    session.Say(fmt::format("class {}: the bound that was there is tighter, it stays", label));
  }
  SayAdjacency(session, ensemble.manifest());
  if (!made.guided) {
    session.Say(
        fmt::format("spatial bounds: guided by random inputs, the training data is not in '{}'",
                    ensemble.manifest().data_directory));
  }
  if (!made.boxes_help) {
    session.Say(
        "spatial bounds: not built, boxes spare fewer than 5 % of the inputs that the scalar guard "
        "noises (--spatial builds them all the same)");
  }
  Result<std::string> expected = std::string();
  if (!session.json && !session.stop.stop_requested()) {
    expected = ExpectedAccuracies(session, arguments.run, arguments.out, ensemble.manifest(),
                                  made.certificate);
  }
  LUCID_TRY(session.json
                ? Print(EncodeCertificate(made.certificate))
                : Print(ToText(made, ensemble.manifest(), expected.ok() ? *expected : "")));
  if (!expected.ok()) {
    session.Say(fmt::format("expected accuracy: not known: {}", expected.error().message));
  }
  for (const std::string& line :
       Advice(arguments.run, ensemble.manifest(), made.certificate, arguments.out.empty())) {
    session.Say(line);
  }
  if (made.finished) {
    return options.declared ? ExitCodeOf(made.certificate.Outcome()) : kDone;
  }
  session.Say(fmt::format(
      "stopped early: the bounds are valid, could be tighter; the same command with --resume goes "
      "on from '{}'",
      options.bound().journal));
  return kStoppedEarly;
}

void AddNativeOptions(CLI::App& command, BoundArguments& arguments) {
  NativeBoundOptions& native = arguments.native;
  AddDomain(command,
            "native: what may be asked: box, all of [0,1]^d, or schema, only what records of the "
            "schema encode to (tighter; guards refuse the rest)",
            [&arguments](DomainKind kind) { arguments.domain = kind; })
      ->default_str(
          "that of the certificate that is there, or schema where columns are not all numbers")
      ->group("native");
  command
      .add_option("--proof", native.proof,
                  "native: the proof for lucid-check, beside the certificate (default: RUN/proof)")
      ->group("native");
  command.add_flag("--no-proof", arguments.no_proof, "native: write none; the bounds are unproved")
      ->group("native");
  command
      .add_option_function<std::int64_t>(
          "--memory", [&native](std::int64_t mebibytes) { native.memory = mebibytes << 20; },
          "native: MiB for regions that wait; beyond, the bound gets looser (default: 1024)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->group("native");
  command
      .add_option("--width", native.width,
                  "native: take so many times as many regions at once, for so many times as many "
                  "processes (docs/cluster.md)")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str()
      ->group("native");
  command
      .add_option("--work-log", native.work_log,
                  "native: CSV of what every task took, for tools/cluster_curve")
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
      [&session, arguments] { return RunBound(session, *arguments); }, Processes::kSeveral);
  command->add_option("run", arguments->run, "Folder of the run")->required();
  command->add_option("--out", arguments->out, "The certificate (default: RUN/certificate.json)");
  command->add_option("--class", arguments->label, "Only this class (the others stay unknown)")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--engine", arguments->engine,
                   "native (region search with difference bounds) or milp (the paper's)")
      ->check(CLI::IsMember({"native", "milp"}))
      ->capture_default_str();
  CLI::Option* declare =
      command
          ->add_option("--declare", arguments->declare,
                       "Decide about this share of N's median confidence (after looking); without "
                       "it about the run's own declared bound, if it has one")
          ->check(CLI::PositiveNumber);
  command
      ->add_flag("--optimum", arguments->optimum,
                 "Search for the smallest bounds although the run declared some")
      ->excludes(declare);
  command->add_option("--gap", common.gap, "Relative gap at which a class is done")
      ->capture_default_str();
  arguments->time_limit =
      AddDuration(*command, "--time-limit", common.time_limit,
                  "Time for all classes together, e.g. 90s, 10m, 8h (default: 10m; milp: 8h)");
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
              "Processor time of each thread for the spatial bounds (default: 30s)");
  AddNativeOptions(*command, *arguments);
  AddMilpOptions(*command, *arguments);
}

}  // namespace lucid::app
