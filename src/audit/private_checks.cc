#include "audit/private_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

#include "audit/randomness.h"
#include "audit/replay.h"
#include "audit/statistics.h"
#include "base/files.h"
#include "ensemble/reference.h"
#include "ensemble/secret_file.h"
#include "lucid/data/domain.h"
#include "lucid/data/units.h"
#include "lucid/guard/guard.h"
#include "lucid/promise/promise.h"
#include "lucid/train/accountant.h"
#include "random/keyed_hash.h"
#include "random/stream.h"
#include "train/group_trainer.h"
#include "train/loss_bracket.h"

namespace lucid {
namespace {

// Pairs of a step and a unit of it whose contribution is measured: all of them where there are no
// more than these, else about so many, by a public hash.
constexpr std::int64_t kPairs = 2000;

// One pass over the steps of a private training.
class PrivatePass {
 public:
  PrivatePass(const PrivateEvidence& evidence, const ProgressCallback& progress,
              const std::stop_token& stop)
      : e_(evidence),
        progress_(progress),
        stop_(stop),
        architecture_(evidence.network.architecture),
        replay_(architecture_, evidence.train, evidence.options, evidence.secret),
        trainer_(evidence.plan, AvailableInstructionSets().front()),
        coins_(UnitsIn(evidence.plan), replay_.sampling_rate()),
        noise_(static_cast<double>(evidence.options.noise_variance)) {}

  Status Run() {
    ScalarTrainer again(replay_.plan());
    PlanReader reader(e_.plan);
    const std::int64_t steps = std::min(replay_.plan().steps, e_.plan.steps());
    std::int64_t pairs = 0;
    for (std::int64_t step = 0; step < steps; ++step) pairs += UnitsOf(reader.Rows(step)).size();
    chosen_share_ = static_cast<double>(kPairs) / static_cast<double>(std::max(pairs, kPairs));
    for (std::int64_t step = 0; step < steps; ++step) {
      if (stop_.stop_requested()) return Interrupted("stopped on request");
      const std::vector<std::int32_t> units = UnitsOf(reader.Rows(step));
      coins_.Add(units);
      noise_.Add(reader.Noise(step));
      LUCID_TRY(Measure(step, again.weights(), RowOfEach(reader.Rows(step))));
      again.Step();
      if (progress_) progress_({"replaying private training", "steps", step + 1, steps});
    }
    result_ = again.Result();
    return Ok();
  }

  AuditCheck Replayed() {
    // -0 becomes +0, and a network that is not finite that of zeros, as in training.
    for (float& w : result_) w += 0.0F;
    if (!std::ranges::all_of(result_, [](float w) { return std::isfinite(w); })) {
      std::ranges::fill(result_, 0.0F);
    }
    const auto& own = e_.network.parameters;
    std::int64_t differ = e_.plan.steps() == replay_.plan().steps ? 0 : std::ssize(own);
    for (std::size_t i = 0; i < own.size(); ++i) {
      differ += std::bit_cast<std::uint32_t>(own[i]) != std::bit_cast<std::uint32_t>(result_[i]);
    }
    return {"replay", "other code makes N from the secret, to the bit",
            fmt::format("{} of {} parameters differ after {} steps", differ, own.size(),
                        replay_.plan().steps),
            differ == 0};
  }

  AuditCheck Contribution() const {
    AuditCheck check{
        "contribution",
        fmt::format("no unit changes a step's sum by more than {:.6g}", replay_.sensitivity()),
        fmt::format("at most {:.6g} in {} pairs of a unit and a step", largest_, measured_),
        largest_ <= replay_.sensitivity()};
    if (!e_.plan.moments()) return check;
    // Whole numbers: a unit of equal rows may reach what is charged exactly.
    std::int64_t largest = 0;
    const std::int64_t units = UnitsIn(e_.plan);
    for (std::int64_t unit = 0; unit < units; ++unit) {
      std::int64_t square = 0;
      for (const std::int64_t v : e_.plan.moments()->OfUnit(unit)) square += v * v;
      largest = std::max(largest, square);
    }
    check.claim +=
        fmt::format(", or the moments by more than {:.6g}", replay_.moment_sensitivity());
    check.measured +=
        fmt::format("; the moments by at most {:.6g}", std::sqrt(static_cast<double>(largest)));
    check.holds = check.holds && largest <= replay_.squared_moment_sensitivity();
    return check;
  }

  AuditCheck Coins() const {
    if (replay_.sampling_rate() >= 1) {
      return {"coins", "everybody is in every step", "no coin is thrown", true};
    }
    return CheckOf("coins", fmt::format("in with probability {:.6g}", replay_.sampling_rate()),
                   coins_.Judge(kAuditRisk / 8));
  }
  AuditCheck Noise() const {
    return CheckOf("noise",
                   fmt::format("discrete Gaussian of variance {}", e_.options.noise_variance),
                   noise_.Judge(kAuditRisk / 4));
  }

  AuditCheck Sigma() const {
    const PrivacyStatement& s = e_.statement;
    const double sigma =
        std::sqrt(static_cast<double>(e_.options.noise_variance)) / replay_.sensitivity();
    AuditCheck check{"sigma",
                     fmt::format("sigma {:.6g}, rate {:.6g}, {} steps give at most ({}, {:.3g})",
                                 s.sigma, s.sampling_rate, s.steps, s.epsilon, s.delta),
                     fmt::format("sigma {:.6g}, rate {:.6g}, {} steps", sigma,
                                 replay_.sampling_rate(), replay_.plan().steps),
                     true};
    // 1e-9: the statement rounds its own numbers to the safe side.
    const double once = e_.options.standardise
                            ? std::sqrt(static_cast<double>(e_.options.moments_variance)) /
                                  replay_.moment_sensitivity()
                            : 0;
    if (e_.options.standardise) {
      check.claim += fmt::format(", and moments with sigma {:.6g}", s.moments_sigma);
      check.measured += fmt::format(", moments with sigma {:.6g}", once);
    }
    check.holds = sigma >= s.sigma * (1 - 1e-9) && once >= s.moments_sigma * (1 - 1e-9) &&
                  (s.moments_sigma > 0) == e_.options.standardise &&
                  replay_.sampling_rate() <= s.sampling_rate * (1 + 1e-9) &&
                  replay_.plan().steps <= s.steps && s.clip == e_.options.clip &&
                  s.epsilon == e_.options.epsilon && s.delta == e_.options.delta;
    // The trainer's accountant with the numbers that were found here; and another kind of
    // accountant, which sees gross mistakes of the first.
    const SubsampledGaussian found{replay_.sampling_rate(), sigma, replay_.plan().steps, once};
    const auto loss = PrivacyLossOf(found, s.delta);
    check.holds = check.holds && loss.ok() && loss->epsilon <= s.epsilon * (1 + 1e-6);
    if (loss.ok()) check.measured += fmt::format("; epsilon {:.6g}", loss->epsilon);
    const auto bracket = BracketOf(found, s.delta, s.epsilon);
    if (!bracket.ok()) {
      check.measured += "; no bracket: " + bracket.error().message;
      return check;
    }
    check.measured += fmt::format("; epsilon in [{:.4f}, {:.4f}] by loss distributions",
                                  bracket->lower, bracket->upper);
    check.holds = check.holds && bracket->lower <= s.epsilon;
    return check;
  }

 private:
  static AuditCheck CheckOf(std::string_view name, std::string claim,
                            const RandomnessVerdict& verdict) {
    return {std::string(name), std::move(claim),
            fmt::format("{} tests; least likely: {}", verdict.tests, verdict.worst), verdict.holds};
  }
  static std::int64_t UnitsIn(const TrainPlan& plan) {
    std::int32_t last = -1;
    for (std::int64_t i = 0; i < plan.table().rows(); ++i) last = std::max(last, plan.UnitOf(i));
    return last + 1;
  }
  // The first row of each unit; rows of a unit stand together.
  std::vector<std::int32_t> RowOfEach(std::span<const std::int32_t> rows) const {
    std::vector<std::int32_t> first;
    for (const std::int32_t row : rows) {
      if (first.empty() || e_.plan.UnitOf(first.back()) != e_.plan.UnitOf(row)) {
        first.push_back(row);
      }
    }
    return first;
  }
  std::vector<std::int32_t> UnitsOf(std::span<const std::int32_t> rows) const {
    std::vector<std::int32_t> units = RowOfEach(rows);
    for (std::int32_t& unit : units) unit = e_.plan.UnitOf(unit);
    return units;
  }

  // What units of this step change of the trainer's sum.
  Status Measure(std::int64_t step, std::span<const float> weights,
                 const std::vector<std::int32_t>& rows) {
    const KeyedHash hash(std::uint64_t{0}, "audited contributions",
                         static_cast<std::uint64_t>(step));
    std::vector<std::int64_t> chosen;
    for (const std::int32_t row : rows) {
      const Digest key = Sha256Of(std::to_string(row));
      if (static_cast<double>(hash(key)) * 0x1p-64 < chosen_share_) chosen.push_back(row);
    }
    const auto parameters = e_.network.parameters.size();
    if (chosen.empty()) return Ok();
    std::vector<std::int32_t> whole(parameters);
    const std::int64_t none = kNoRow;
    LUCID_TRY(trainer_.StepSums(weights, step, std::span(&none, 1), whole));
    const auto group = static_cast<std::size_t>(trainer_.lanes());
    for (std::size_t at = 0; at < chosen.size(); at += group) {
      const auto lanes = std::span(chosen).subspan(at, std::min(group, chosen.size() - at));
      std::vector<std::int32_t> sums(lanes.size() * parameters);
      LUCID_TRY(trainer_.StepSums(weights, step, lanes, sums));
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        double square = 0;
        for (std::size_t i = 0; i < parameters; ++i) {
          const auto with = static_cast<std::uint32_t>(whole[i]);
          const auto without = static_cast<std::uint32_t>(sums[lane * parameters + i]);
          square += std::pow(static_cast<std::int32_t>(with - without), 2);  // sums wrap
        }
        largest_ = std::max(largest_, std::sqrt(square));
        ++measured_;
      }
    }
    return Ok();
  }

  const PrivateEvidence& e_;
  const ProgressCallback& progress_;
  const std::stop_token& stop_;
  const Architecture& architecture_;
  PrivateReplay replay_;
  const GroupTrainer trainer_;
  CoinTest coins_;
  NoiseTest noise_;
  double chosen_share_ = 1, largest_ = 0;
  std::int64_t measured_ = 0;
  std::vector<float> result_;
};

}  // namespace

Result<std::vector<AuditCheck>> CheckPrivateTraining(const PrivateEvidence& evidence,
                                                     const ProgressCallback& progress,
                                                     const std::stop_token& stop) {
  PrivatePass pass(evidence, progress, stop);
  LUCID_TRY(pass.Run());
  return std::vector<AuditCheck>{pass.Replayed(), pass.Contribution(), pass.Coins(), pass.Noise(),
                                 pass.Sigma()};
}

AuditCheck CheckDeclaredBounds(const Network& network, const Manifest& manifest,
                               const std::optional<Table>& reference) {
  const DeclaredBounds& stated = *manifest.declared;
  const DeclaredBounds own = DeclareBounds(network, manifest.schema, stated.r, reference);
  return {"bounds",
          fmt::format("{} times the median confidence {:.9g} over the reference", stated.r,
                      stated.median),
          fmt::format("median confidence {:.9g}", own.median),
          own.median == stated.median && own.reference == stated.reference};
}

AuditCheck CheckDraws(const NoisedAnswer& first, const NoisedAnswer& second, const Table& inputs,
                      std::int64_t classes) {
  std::int64_t agree = 0;
  for (std::int64_t i = 0; i < inputs.rows(); ++i) {
    agree += first(inputs.row(i)) == second(inputs.row(i));
  }
  const double tail = AtLeast(agree, inputs.rows(), 1 / static_cast<double>(classes));
  return {"draws", "guards with two bounds share no draw",
          fmt::format("{} of {} uniform answers agree", agree, inputs.rows()),
          tail >= kAuditRisk / 8};
}

namespace {

// Two guards of the run whose bounds noise every input.
Result<AuditCheck> CheckDrawsOf(const RunNetwork& opened) {
  const GuardKey key = GuardKey::Random();
  const auto guard_at = [&](double bound) {
    RunNetwork other = opened;
    other.manifest.declared->r = 1;
    other.manifest.declared->median = bound;
    return Guard::CreateDeclared(other, {}, key);
  };
  LUCID_ASSIGN(const Guard first, guard_at(1e100));
  LUCID_ASSIGN(const Guard second, guard_at(2e100));
  const Domain domain = Domain::OfSchema(opened.manifest.schema);
  Stream stream(0, "inputs of audited draws");
  Table inputs;
  inputs.features = opened.manifest.schema.features();
  for (int i = 0; i < 200; ++i) {
    std::vector<float> x(static_cast<std::size_t>(inputs.features));
    for (float& value : x) value = static_cast<float>(stream.Uniform());
    domain.Project(std::span(x));
    if (!first.Canonicalize(x).ok()) continue;
    inputs.x.insert(inputs.x.end(), x.begin(), x.end());
    inputs.y.push_back(0);
  }
  return CheckDraws([&](std::span<const float> x) { return first.Label(x); },
                    [&](std::span<const float> x) { return second.Label(x); }, inputs,
                    first.classes());
}

}  // namespace

Result<std::vector<AuditCheck>> CheckPrivateRun(const std::string& run, const RunNetwork& opened,
                                                const Table& train,
                                                const std::optional<Table>& reference,
                                                std::vector<std::string>& left_out,
                                                const ProgressCallback& progress,
                                                const std::stop_token& stop) {
  const Manifest& manifest = opened.manifest;
  std::vector<AuditCheck> checks;
  LUCID_ASSIGN(const TrainOptions options, TrainOptions::FromCanonical(manifest.training));
  const std::string path = PathIn(run, kSecretFile);
  const bool seeded = manifest.private_run->seeded;
  if (!seeded && !std::filesystem::exists(path)) {
    left_out.push_back(fmt::format("replay, contribution, coins, noise and sigma: no '{}'", path));
  } else {
    const Digest binding = SecretBinding(manifest.schema_digest, manifest.train_digest,
                                         manifest.architecture.Canonical(), manifest.training);
    const auto open = [&]() -> Result<Secret> {
      return seeded ? Secret::FromSeed(options.seed) : OpenSecret(path, binding);
    };
    LUCID_ASSIGN(const Secret secret, open());
    LUCID_ASSIGN(Secret own, open());
    const TrainPlan plan(opened.network.architecture, train, options, std::move(own));
    LUCID_ASSIGN(checks, CheckPrivateTraining({opened.network, train, options,
                                               manifest.private_run->statement, secret, plan},
                                              progress, stop));
    if (DigestOf(secret) != manifest.private_run->secret) {
      checks.push_back({"secret", "the one of the run", "another one", false});
    }
  }
  if (!manifest.declared) return checks;
  if (HasDeclaredAccess(manifest)) {
    LUCID_ASSIGN(AuditCheck draws, CheckDrawsOf(opened));
    checks.push_back(std::move(draws));
  }
  if (manifest.declared->reference != "domain" && !reference) {
    left_out.push_back("bounds: their reference rows are not here (the option reference)");
  } else {
    checks.push_back(
        CheckDeclaredBounds(opened.network, manifest,
                            manifest.declared->reference == "domain" ? std::nullopt : reference));
  }
  return checks;
}

}  // namespace lucid
