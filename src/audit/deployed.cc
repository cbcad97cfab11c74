#include "audit/deployed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "audit/reduced_world.h"
#include "base/files.h"
#include "base/parallel.h"
#include "baselines/privacy_noise.h"
#include "ensemble/reference.h"
#include "evaluation/study_team.h"
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
  // A draw that never lies shows what the network says behind the noise.
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

  // The inputs that were found; the ones that tell most come first.
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
  // The share of the way from a to b at which the answers are no longer those at a; 1 if they are
  // the same at b.
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
Result<std::vector<DeployedGame::Services>> DeployedGame::DeployPrivate(double epsilon) const {
  const Manifest& manifest = scene_.ensemble.manifest();
  LUCID_ASSIGN(const TrainOptions train, TrainOptions::FromCanonical(manifest.training));
  const auto service = [&](const Network& network) -> Result<Guard> {
    RunNetwork run{manifest, network};
    run.manifest.declared =
        DeclareBounds(run.network, manifest.schema, manifest.declared->r, scene_.options.reference);
    return Guard::CreateDeclared(run, {.mechanism = scene_.options.mechanism, .epsilon = epsilon},
                                 GuardKey::Random());
  };
  const std::int64_t count =
      scene_.options.deployed;  // a unit may be played for again, with new secrets
  // With the unit and without it; and the attacker's own pair, to see what to ask.
  const std::int64_t networks = scene_.Asked(AuditAttack::kRegion) ? 4 : 2;
  std::vector<PrivateTraining> trainings;
  for (std::int64_t n = 0; n < count * networks; ++n) {
    const std::int64_t target = n / networks * std::ssize(scene_.targets) / count;
    trainings.push_back(
        {true,
         {.train = train, .epsilon = train.epsilon, .delta = train.delta, .clip = train.clip},
         n % 2 == 0 ? -1 : scene_.targets[target].row});
  }
  std::vector<Network> trained(trainings.size());
  std::int64_t done = 0;
  LUCID_TRY(TrainPrivately(scene_.ensemble.network().architecture, scene_.train, trainings,
                           scene_.team, scene_.options.threads, scene_.stop,
                           [&](std::int64_t n, TrainedBaseline baseline) -> Status {
                             trained[static_cast<std::size_t>(n)] = std::move(baseline.network);
                             if (scene_.progress) {
                               scene_.progress({"training services", "networks", ++done,
                                                std::ssize(trained), 0, "deployed"});
                             }
                             return Ok();
                           }));
  std::vector<std::optional<Services>> made(static_cast<std::size_t>(count));
  LUCID_TRY(
      ParallelFor(count, scene_.options.threads, scene_.stop, [&](std::int64_t i, int) -> Status {
        const std::int64_t target = i * std::ssize(scene_.targets) / count;
        const std::span<const Network> of_pair =
            std::span(trained).subspan(static_cast<std::size_t>(i * networks));
        LUCID_ASSIGN(Guard with, service(of_pair[0]));
        LUCID_ASSIGN(Guard without, service(of_pair[1]));
        std::vector<TellingInput> telling;
        if (scene_.Asked(AuditAttack::kRegion)) {
          LUCID_ASSIGN(const Guard own_with, service(of_pair[2]));
          LUCID_ASSIGN(const Guard own_without, service(of_pair[3]));
          Stream stream(scene_.options.seed, "telling inputs", static_cast<std::uint64_t>(target));
          telling = TellingSearch(own_with, own_without, scene_.train, stream).Run();
        }
        made[i].emplace(Services{target, std::move(with), std::move(without), std::move(telling)});
        return Ok();
      }));
  std::vector<Services> pairs;
  for (auto& pair : made) pairs.push_back(*std::move(pair));
  return pairs;
}

Status DeployedGame::MakeReducedWorlds() {
  if (!reduced_.empty()) return Ok();
  const std::string path = scene_.options.certificate.empty() ? PathIn(scene_.run, kCertificateFile)
                                                              : scene_.options.certificate;
  LUCID_ASSIGN(const Certificate certificate, LoadCertificate(path));
  const std::int64_t count = std::min(scene_.options.deployed, std::ssize(scene_.targets));
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.push_back(scene_.targets[i * std::ssize(scene_.targets) / count].row);
  }
  LUCID_ASSIGN(reduced_,
               lucid::MakeReducedWorlds(scene_.ensemble.manifest(), certificate, scene_.train, rows,
                                        scene_.options.scratch, scene_.team, scene_.options.threads,
                                        scene_.progress, scene_.stop));
  return Ok();
}

// The run as it is, and what the reduced file gives. Training is no secret here: the attacker has
// both services on his own machine.
Result<std::vector<DeployedGame::Services>> DeployedGame::DeployReduced(GuardKind guard,
                                                                        double epsilon) {
  LUCID_TRY(MakeReducedWorlds());
  const GuardOptions options{
      .guard = guard, .mechanism = scene_.options.mechanism, .epsilon = epsilon};
  std::vector<Services> pairs;
  const std::int64_t count = std::ssize(reduced_);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t target = i * std::ssize(scene_.targets) / count;
    LUCID_ASSIGN(Guard with,
                 Guard::Open(scene_.run, scene_.options.certificate, options, GuardKey::Random()));
    LUCID_ASSIGN(Guard without,
                 Guard::Open(reduced_[static_cast<std::size_t>(i)], options, GuardKey::Random()));
    Stream stream(scene_.options.seed, "telling inputs", static_cast<std::uint64_t>(target));
    std::vector<TellingInput> telling = TellingSearch(with, without, scene_.train, stream).Run();
    pairs.push_back({target, std::move(with), std::move(without), std::move(telling)});
  }
  return pairs;
}

std::string DeployedGame::WhyNot(Method method) const {
  const Manifest& manifest = scene_.ensemble.manifest();
  if (HasDeclaredAccess(manifest)) {
    if (method != Method::kScalar) return "a private run's service is the scalar guard";
    if (manifest.declared->reference != "domain" && !scene_.options.reference) {
      return "the reference rows of the declared bounds are not here (the option reference)";
    }
    return "";
  }
  return WhyNotReduced(manifest);
}

Status DeployedGame::Attack(Method method, double epsilon) {
  const std::string name(NameOf(method));
  if (const std::string why = WhyNot(method); !why.empty()) {
    const std::string line = fmt::format("deployed on {}: {}", name, why);
    if (!std::ranges::count(record_.left_out, line)) record_.left_out.push_back(line);
    return Ok();
  }
  const Manifest& manifest = scene_.ensemble.manifest();
  const bool full = HasDeclaredAccess(manifest);
  LUCID_ASSIGN(const auto pairs,
               full ? DeployPrivate(epsilon) : DeployReduced(*GuardOf(method), epsilon));
  // A pair of private services is played for once, with its own keys. Of a certified world only the
  // draws are new: every answer draws for itself, as with a new key.
  const std::int64_t worlds = std::ssize(pairs);
  LUCID_ASSIGN(PrivacyNoise noise, PrivacyNoise::Create({}));
  Game game{.rounds = worlds * (full ? 1 : kKeysOfWorld), .subject = {}, .oracle = {}};
  game.subject = [&](std::int64_t round, Side) {
    Subject subject = scene_.SubjectOf(scene_.targets[pairs[round % worlds].target]);
    subject.telling = pairs[round % worlds].telling;
    return subject;
  };
  game.oracle = [&](std::int64_t round, Side side) -> Oracle {
    const Services& pair = pairs[round % worlds];
    return [&noise, &pair, side, full](std::span<const float> input) -> Result<std::int32_t> {
      const Guard& guard = side == Side::kIn ? pair.with : pair.without;
      std::vector<float> x(input.begin(), input.end());
      if (!guard.Canonicalize(x).ok()) return kRefused;
      if (full) return guard.Label(x);
      return guard.Ask(x, Budget::kLeft, Draw{noise.Next(), noise.Next(), noise.Next()}).label;
    };
  };
  for (const AuditAttack attack : kAttacks) {
    if (!scene_.Asked(attack)) continue;
    AuditRow row = record_.NewRow(attack, name, method, World::kDeployed, epsilon);
    if (full) {
      row.claimed = manifest.private_run->statement.epsilon;
      row.delta = manifest.private_run->statement.delta;
    }
    LUCID_TRY(record_.PlayAndKeep(game, row));
  }
  return Ok();
}

}  // namespace lucid
