// The game `deployed`: two real services, made anew with the unit and without it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "audit/auditor.h"
#include "audit/reduced_world.h"
#include "base/files.h"
#include "base/parallel.h"
#include "baselines/privacy_noise.h"
#include "ensemble/reference.h"
#include "lucid/baselines/private_training.h"
#include "lucid/promise/promise.h"

namespace lucid {
namespace {

constexpr AuditAttack kAttacks[] = {AuditAttack::kGap, AuditAttack::kNoise, AuditAttack::kBoundary,
                                    AuditAttack::kRegion};
constexpr std::int64_t kKeysOfWorld = 16;   // games that a certified world is played for
constexpr std::int64_t kCandidates = 2000;  // inputs at which two services are compared
constexpr int kSegments = 100;              // on which the way out is looked for
constexpr double kSame = 1e-9;              // probabilities that differ by rounding only
constexpr double kCertain = 50;             // stands for the logarithm of an impossible ratio

// The probability of each label; nothing if x is refused.
std::vector<double> AnswersAt(const Guard& guard, std::span<const float> input) {
  std::vector<float> x(input.begin(), input.end());
  if (!guard.Canonicalize(x).ok()) return {};
  std::vector<double> answers(static_cast<std::size_t>(guard.classes()));
  const Mechanism& mechanism = guard.mechanism();
  const GuardedAnswer asked = guard.Ask(x);
  // What the network says stands behind the noise: a draw that never lies.
  const Draw honest{~std::uint64_t{0}, 0, 0};
  const std::int32_t label = asked.noised && mechanism.epsilon() > 0
                                 ? guard.Ask(x, Budget::kLeft, honest).label
                                 : asked.label;
  std::ranges::fill(answers, asked.noised ? mechanism.ProbabilityOfEachOther() : 0.0);
  answers[static_cast<std::size_t>(label)] = asked.noised ? mechanism.ProbabilityOfLabel() : 1;
  return answers;
}

// Looks for inputs at which the answers of two services have different distributions: among rows
// and points between two of them, and where, on the way from one row to another, one service leaves
// what it answered at first before the other does.
class TellingSearch {
 public:
  TellingSearch(const Guard& with, const Guard& without, const Table& rows, Stream& stream)
      : with_(with), without_(without), rows_(rows), stream_(stream) {}

  // Those that tell most first.
  std::vector<TellingInput> Run() {
    for (std::int64_t i = 0; i < kCandidates; ++i) {
      Try(Along(AnyRow(), AnyRow(), i % 4 == 0 ? 0 : stream_.Uniform()));
    }
    for (int i = 0; i < kSegments; ++i) {
      const auto a = AnyRow(), b = AnyRow();
      const double mine = Leaves(with_, a, b), other = Leaves(without_, a, b);
      for (const double share : {0.1, 0.5, 0.9}) Try(Along(a, b, mine + share * (other - mine)));
    }
    std::ranges::stable_sort(found_, std::greater(), &Found::distance);
    std::vector<TellingInput> telling;
    for (Found& one : found_) {
      if (std::ssize(telling) == kTellingInputs) break;
      telling.push_back(std::move(one.input));
    }
    return telling;
  }

 private:
  struct Found {
    double distance;
    TellingInput input;
  };

  std::span<const float> AnyRow() {
    return rows_.row(
        static_cast<std::int64_t>(stream_.Below(static_cast<std::uint64_t>(rows_.rows()))));
  }
  static std::vector<float> Along(std::span<const float> a, std::span<const float> b, double t) {
    std::vector<float> x(a.size());
    for (std::size_t k = 0; k < x.size(); ++k) {
      x[k] = std::clamp(a[k] + static_cast<float>(t) * (b[k] - a[k]), 0.F, 1.F);
    }
    return x;
  }
  // Where the answers are no longer those at a; 1 if they are the same at b.
  static double Leaves(const Guard& guard, std::span<const float> a, std::span<const float> b) {
    const std::vector<double> first = AnswersAt(guard, a);
    if (AnswersAt(guard, b) == first) return 1;
    double low = 0, high = 1;
    for (int i = 0; i < 24; ++i) {
      const double middle = (low + high) / 2;
      (AnswersAt(guard, Along(a, b, middle)) == first ? low : high) = middle;
    }
    return high;
  }

  void Try(std::vector<float> x) {
    const std::vector<double> in = AnswersAt(with_, x), out = AnswersAt(without_, x);
    if (in.empty() || out.empty()) return;
    Found one{0, {std::move(x), {}}};
    for (std::size_t c = 0; c < in.size(); ++c) {
      one.distance += std::abs(in[c] - out[c]);
      const double ratio = std::log(in[c]) - std::log(out[c]);
      one.input.log_ratios.push_back(in[c] == out[c] ? 0.0
                                                     : std::clamp(ratio, -kCertain, kCertain));
    }
    if (one.distance > kSame) found_.push_back(std::move(one));
  }

  const Guard &with_, &without_;
  const Table& rows_;
  Stream& stream_;
  std::vector<Found> found_;
};

}  // namespace

// Everything that `lucid train` and `lucid serve` do with a private run: N with a fresh secret, its
// bounds, a guard with a fresh key. Members and certificate play no part. The attacker, who knows
// everything but the secret, makes a pair of his own to see what to ask.
Result<std::vector<Auditor::DeployedPair>> Auditor::DeployPrivate(double epsilon) const {
  const Manifest& manifest = ensemble_.manifest();
  LUCID_ASSIGN(const TrainOptions train, TrainOptions::FromCanonical(manifest.training));
  const auto service = [&](const Table& table) -> Result<Guard> {
    LUCID_ASSIGN(
        DpSgdNetwork trained,
        TrainDpSgd(
            ensemble_.network().architecture, table,
            {.train = train, .epsilon = train.epsilon, .delta = train.delta, .clip = train.clip},
            stop_));
    RunNetwork run{manifest, std::move(trained.network)};
    run.manifest.declared =
        DeclareBounds(run.network, manifest.schema, manifest.declared->r, options_.reference);
    return Guard::CreateDeclared(run, {.mechanism = options_.mechanism, .epsilon = epsilon},
                                 GuardKey::Random());
  };
  const std::int64_t count = options_.deployed;  // a unit may be played for again, with new secrets
  std::vector<std::optional<DeployedPair>> made(static_cast<std::size_t>(count));
  std::mutex mutex;
  std::int64_t done = 0;
  LUCID_TRY(ParallelFor(count, options_.threads, stop_, [&](std::int64_t i, int) -> Status {
    const std::int64_t target = i * std::ssize(targets_) / count;
    const Table rest = WithoutUnitOf(train_, targets_[target].row);
    LUCID_ASSIGN(Guard with, service(train_));
    LUCID_ASSIGN(Guard without, service(rest));
    std::vector<TellingInput> telling;
    if (Asked(AuditAttack::kRegion)) {
      LUCID_ASSIGN(const Guard own_with, service(train_));
      LUCID_ASSIGN(const Guard own_without, service(rest));
      Stream stream(options_.seed, "telling inputs", static_cast<std::uint64_t>(target));
      telling = TellingSearch(own_with, own_without, train_, stream).Run();
    }
    made[i].emplace(DeployedPair{target, std::move(with), std::move(without), std::move(telling)});
    const std::lock_guard lock(mutex);
    if (progress_) progress_({"making services", "pairs", ++done, count, 0, "deployed"});
    return Ok();
  }));
  std::vector<DeployedPair> pairs;
  for (auto& pair : made) pairs.push_back(*std::move(pair));
  return pairs;
}

Status Auditor::MakeReducedWorlds() {
  if (!reduced_.empty()) return Ok();
  const std::string path =
      options_.certificate.empty() ? PathIn(run_, kCertificateFile) : options_.certificate;
  LUCID_ASSIGN(const Certificate certificate, LoadCertificate(path));
  const std::int64_t count = std::min(options_.deployed, std::ssize(targets_));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t target = i * std::ssize(targets_) / count;
    LUCID_ASSIGN(std::string world,
                 MakeReducedWorld(ensemble_.manifest(), certificate, train_, targets_[target].row,
                                  PathIn(options_.scratch, fmt::format("without-{}", i)),
                                  options_.threads, stop_));
    reduced_.push_back(std::move(world));
    if (progress_) progress_({"making worlds", "worlds", i + 1, count, 0, "deployed"});
  }
  return Ok();
}

// The run as it is, and what the reduced file gives. Training is no secret here: the attacker has
// both services on his own machine.
Result<std::vector<Auditor::DeployedPair>> Auditor::DeployReduced(GuardKind guard, double epsilon) {
  LUCID_TRY(MakeReducedWorlds());
  const GuardOptions options{.guard = guard, .mechanism = options_.mechanism, .epsilon = epsilon};
  std::vector<DeployedPair> pairs;
  const std::int64_t count = std::ssize(reduced_);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t target = i * std::ssize(targets_) / count;
    LUCID_ASSIGN(Guard with, Guard::Open(run_, options_.certificate, options, GuardKey::Random()));
    LUCID_ASSIGN(Guard without,
                 Guard::Open(reduced_[static_cast<std::size_t>(i)], options, GuardKey::Random()));
    Stream stream(options_.seed, "telling inputs", static_cast<std::uint64_t>(target));
    std::vector<TellingInput> telling = TellingSearch(with, without, train_, stream).Run();
    pairs.push_back({target, std::move(with), std::move(without), std::move(telling)});
  }
  return pairs;
}

std::string Auditor::WhyNotDeployed(Method method) const {
  const Manifest& manifest = ensemble_.manifest();
  if (HasDeclaredAccess(manifest)) {
    if (method != Method::kScalar) return "a private run's service is the scalar guard";
    if (manifest.declared->reference != "domain" && !options_.reference) {
      return "the reference rows of the declared bounds are not here (--reference FILE.csv)";
    }
    return "";
  }
  return WhyNotReduced(manifest);
}

Status Auditor::AttackDeployed(Method method, double epsilon) {
  const std::string name(NameOf(method));
  if (const std::string why = WhyNotDeployed(method); !why.empty()) {
    const std::string line = fmt::format("deployed on {}: {}", name, why);
    if (!std::ranges::count(left_out, line)) left_out.push_back(line);
    return Ok();
  }
  const Manifest& manifest = ensemble_.manifest();
  const bool full = HasDeclaredAccess(manifest);
  LUCID_ASSIGN(const auto pairs,
               full ? DeployPrivate(epsilon) : DeployReduced(*GuardOf(method), epsilon));
  // A pair of private services is played for once, with its own keys. Of a certified world only the
  // draws are new: every answer draws for itself, as with a new key.
  const std::int64_t worlds = std::ssize(pairs);
  LUCID_ASSIGN(PrivacyNoise noise, PrivacyNoise::Create({}));
  Game game{.rounds = worlds * (full ? 1 : kKeysOfWorld), .subject = {}, .oracle = {}};
  game.subject = [&](std::int64_t round, Side) {
    Subject subject = SubjectOf(targets_[pairs[round % worlds].target]);
    subject.telling = pairs[round % worlds].telling;
    return subject;
  };
  game.oracle = [&](std::int64_t round, Side side) -> Oracle {
    const DeployedPair& pair = pairs[round % worlds];
    return [&noise, &pair, side, full](std::span<const float> input) -> Result<std::int32_t> {
      const Guard& guard = side == Side::kIn ? pair.with : pair.without;
      std::vector<float> x(input.begin(), input.end());
      if (!guard.Canonicalize(x).ok()) return kRefused;
      if (full) return guard.Label(x);
      return guard.Ask(x, Budget::kLeft, Draw{noise.Next(), noise.Next(), noise.Next()}).label;
    };
  };
  for (const AuditAttack attack : kAttacks) {
    if (!Asked(attack)) continue;
    AuditRow row = NewRow(attack, name, method, World::kDeployed, epsilon);
    if (full) {
      row.claimed = manifest.private_run->statement.epsilon;
      row.delta = manifest.private_run->statement.delta;
    }
    LUCID_TRY(PlayAndKeep(game, row));
  }
  return Ok();
}

}  // namespace lucid
