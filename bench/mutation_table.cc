// What an audit finds when something is wrong on purpose: one row for each mutation of a run
// (docs/evaluation.md). Ends with 1 if a mutation is not found, or the truth is not accepted.
//
//   mutation_table RUN [--scratch FOLDER]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "audit/private_checks.h"
#include "base/files.h"
#include "ensemble/secret_file.h"
#include "guard/draw_source.h"
#include "lucid/audit/audit.h"
#include "lucid/certificate/certificate.h"
#include "lucid/promise/promise.h"
#include "random/stream.h"
#include "support/planted_faults.h"
#include "train/group_trainer.h"

namespace lucid {
namespace {

class Mutations {
 public:
  Mutations(std::string run, const Ensemble& ensemble, const Dataset& dataset, std::string scratch)
      : run_(std::move(run)),
        ensemble_(ensemble),
        dataset_(dataset),
        scratch_(std::move(scratch)) {}

  Status Run() {
    fmt::print("| mutation | found by | exit code |\n| --- | --- | --- |\n");
    return HasDeclaredAccess(ensemble_.manifest()) ? RunPrivate() : RunLabels();
  }
  bool right() const { return right_; }

 private:
  // `found`: by what; nothing: by nothing.
  void Row(const std::string& mutation, const std::vector<std::string>& found, bool wrong) {
    fmt::print("| {} | {} | {} |\n", mutation,
               found.empty() ? "nothing" : fmt::format("`{}`", fmt::join(found, "`, `")),
               found.empty() ? 0 : 1);
    std::fflush(stdout);
    right_ = right_ && found.empty() != wrong;
  }

  // ---- labels: the bounds that the certificate states ----

  Status RunLabels() {
    LUCID_ASSIGN(const Certificate truth, LoadCertificate(PathIn(run_, kCertificateFile)));
    LUCID_TRY(Weigh("none", truth, /*wrong=*/false));
    for (const double c : {1.05, 0.9, 0.5, 0.2, 0.03}) {
      Certificate certificate = truth;
      bool is_true = true;
      for (ClassBound& bound : certificate.classes) {
        is_true = is_true && c * bound.beta_lower >= bound.beta_upper;
        bound.beta_upper = c * bound.beta_lower;
        bound.beta_lower = 0;  // who forges a bound keeps no witness against it
        bound.witness.reset();
      }
      if (c > 1 && !is_true) {
        fmt::print("| beta {} of the witness | not tried: the gap is wider | |\n", c);
        continue;
      }
      LUCID_TRY(Weigh(fmt::format("beta {} of the witness", c), certificate, c < 1));
    }
    return Ok();
  }

  Status Weigh(const std::string& name, const Certificate& certificate, bool wrong) {
    const std::string path = PathIn(scratch_, "mutated.json");
    LUCID_TRY(SaveCertificate(certificate, path));
    LUCID_ASSIGN(const Audit audit, RunAudit(run_, dataset_.train, dataset_.test,
                                             {.attacks = {AuditAttack::kWhiteBox},
                                              .accesses = {Method::kScalar},
                                              .epsilons = {0},
                                              .certificate = path}));
    std::vector<std::string> found;
    for (const AuditRow& row : audit.rows) {
      if (!row.holds) found.emplace_back(NameOf(row.attack));
    }
    Row(name, found, wrong);
    return Ok();
  }

  // ---- full: what training did ----

  Result<Secret> OpenRunSecret() const {
    const Manifest& m = ensemble_.manifest();
    return OpenSecret(
        PathIn(run_, kSecretFile),
        SecretBinding(m.schema_digest, m.train_digest, m.architecture.Canonical(), m.training));
  }

  // The checks of what this plan trains, beside the statement of the run.
  Status Check(const std::string& name, const TrainPlan& plan, const TrainOptions& options,
               bool wrong) {
    return Check(name, plan, options, ensemble_.manifest().private_run->statement, wrong);
  }
  Status Check(const std::string& name, const TrainPlan& plan, const TrainOptions& options,
               const PrivacyStatement& stated, bool wrong) {
    const Architecture& architecture = ensemble_.network().architecture;
    LUCID_ASSIGN(const Secret secret, OpenRunSecret());
    Network network{architecture, {}};
    network.parameters.resize(static_cast<std::size_t>(architecture.parameters()));
    const std::int64_t none = kNoRow;
    LUCID_TRY(GroupTrainer(plan, AvailableInstructionSets().front())
                  .Train(std::span(&none, 1), network.parameters));
    LUCID_ASSIGN(
        const auto checks,
        CheckPrivateTraining({network, dataset_.train, options, stated, secret, plan}, {}, {}));
    std::vector<std::string> found;
    for (const AuditCheck& check : checks) {
      if (!check.holds) found.push_back(check.check);
    }
    Row(name, found, wrong);
    return Ok();
  }

  Status RunPrivate() {
    LUCID_ASSIGN(const TrainOptions options,
                 TrainOptions::FromCanonical(ensemble_.manifest().training));
    const Architecture& architecture = ensemble_.network().architecture;
    const auto check = [&](const std::string& name,
                           const std::function<void(TrainPlan&)>& fault) -> Status {
      LUCID_ASSIGN(Secret secret, OpenRunSecret());
      TrainPlan plan(architecture, dataset_.train, options, std::move(secret));
      if (fault) fault(plan);
      return Check(name, plan, options, fault != nullptr);
    };
    LUCID_TRY(check("none", {}));
    LUCID_TRY(
        check("noise times 0.9", [](TrainPlan& plan) { PlanWithFaults::ScaleNoise(plan, 0.9); }));
    if (options.standardise) {
      LUCID_TRY(check("moments without noise", PlanWithFaults::ForgetNoiseOfMoments));
    }
    LUCID_TRY(check("steps share their noise", PlanWithFaults::ShareNoise));
    LUCID_TRY(check("steps share their coins", PlanWithFaults::ShareCoinsOfSteps));
    LUCID_TRY(check("units clipped twice as high",
                    [](TrainPlan& plan) { PlanWithFaults::ClipHigher(plan, 2); }));
    LUCID_TRY(CheckStatedNoise(options));
    LUCID_ASSIGN(Secret secret, OpenRunSecret());
    const TrainPlan by_position(architecture, dataset_.train,
                                PlanWithFaults::KeysByPosition(dataset_.train), options,
                                std::move(secret));
    LUCID_TRY(Check("a plan by position", by_position, options, true));
    const TrainPlan other(architecture, dataset_.train, options, Secret::FromSeed(1));
    LUCID_TRY(Check("another secret than the run's", other, options, true));
    CheckBounds();
    return CheckSharedDraws();
  }

  // The manifest and the trainer agree about too little noise: no replay finds that.
  Status CheckStatedNoise(const TrainOptions& all) {
    TrainOptions options = all;
    options.noise_variance =
        static_cast<std::uint64_t>(0.81 * static_cast<double>(options.noise_variance));
    LUCID_TRY(CheckStated("noise times 0.9, and the manifest says so", options));
    if (!options.standardise) return Ok();
    options = all;
    options.moments_variance /= 4;
    return CheckStated("half the noise of the moments, and the manifest says so", options);
  }

  Status CheckStated(const std::string& name, const TrainOptions& options) {
    const Architecture& architecture = ensemble_.network().architecture;
    LUCID_ASSIGN(Secret secret, OpenRunSecret());
    LUCID_ASSIGN(const PrivacyStatement stated, PrivacyOf(options, architecture));
    const TrainPlan plan(architecture, dataset_.train, options, std::move(secret));
    return Check(name, plan, options, stated, true);
  }

  // The bound is what a member leaks, not a share of N's confidence.
  void CheckBounds() {
    Manifest manifest = ensemble_.manifest();
    const Evaluator in(ensemble_.network()), out(ensemble_.Member(0));
    double leak = 0;
    Stream stream(1, "inputs");
    std::vector<float> x(static_cast<std::size_t>(dataset_.features()));
    for (int i = 0; i < 20'000; ++i) {
      for (float& value : x) value = static_cast<float>(stream.Uniform());
      const Decision decision = in.Decide(x);
      if (out.Decide(x).label != decision.label) leak = std::max(leak, decision.confidence);
    }
    manifest.declared->median = leak / manifest.declared->r;
    const AuditCheck check = CheckDeclaredBounds(ensemble_.network(), manifest, std::nullopt);
    Row("bounds made from members", FoundBy(check), true);
  }

  // Draws that do not know the bounds.
  Status CheckSharedDraws() {
    const GuardKey key = GuardKey::Random();
    LUCID_ASSIGN(const Mechanism mechanism,
                 Mechanism::Create(MechanismKind::kPaper, 0, dataset_.classes()));
    const std::vector<double> bounds(static_cast<std::size_t>(dataset_.classes()), 1.0);
    const DrawSource draws(key, ensemble_.manifest().network_digest,
                           NoisedSet{GuardKind::kScalar, bounds, {}, {}}, mechanism);
    const auto answer = [&](std::span<const float> x) {
      return mechanism.Answer(0, /*noised=*/true, draws.For(x));
    };
    const AuditCheck check = CheckDraws(answer, answer, dataset_.train, dataset_.classes());
    Row("two bounds with one draw", FoundBy(check), true);
    return Ok();
  }

  static std::vector<std::string> FoundBy(const AuditCheck& check) {
    return check.holds ? std::vector<std::string>() : std::vector{check.check};
  }

  std::string run_;
  const Ensemble& ensemble_;
  const Dataset& dataset_;
  std::string scratch_;
  bool right_ = true;
};

Result<bool> Tabulate(const std::string& run, const std::string& scratch) {
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run));
  LUCID_ASSIGN(const Dataset dataset, LoadRunData(ensemble.manifest()));
  Mutations mutations(run, ensemble, dataset, scratch);
  LUCID_TRY(mutations.Run());
  return mutations.right();
}

}  // namespace
}  // namespace lucid

int main(int argc, char** argv) {
  CLI::App app("What an audit finds when something is wrong on purpose");
  std::string run, scratch = "/tmp";
  app.add_option("run", run)->required();
  app.add_option("--scratch", scratch, "for a mutated certificate")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto right = lucid::Tabulate(run, scratch);
  if (!right.ok()) fmt::print(stderr, "mutation_table: {}\n", right.error().message);
  return right.ok() && *right ? 0 : 1;
}
