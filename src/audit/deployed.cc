// The game `deployed`: two real services, made anew with the unit and without it.
#include <fmt/format.h>

#include <mutex>

#include "audit/auditor.h"
#include "base/parallel.h"
#include "ensemble/reference.h"
#include "lucid/baselines/private_training.h"
#include "lucid/promise/promise.h"

namespace lucid {
namespace {

constexpr AuditAttack kAttacks[] = {AuditAttack::kGap, AuditAttack::kNoise, AuditAttack::kBoundary};

}  // namespace

// Everything that `lucid train` and `lucid serve` do with a private run: N with a fresh secret, its
// bounds, a guard with a fresh key. Members and certificate play no part.
Result<std::vector<std::pair<Guard, Guard>>> Auditor::Deploy(double epsilon) const {
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
        DeclareBounds(run.network, manifest.schema, manifest.declared->r, std::nullopt);
    return Guard::CreateDeclared(run, {.mechanism = options_.mechanism, .epsilon = epsilon},
                                 GuardKey::Random());
  };
  const std::int64_t count = std::min(options_.deployed, std::ssize(targets_));
  std::vector<std::optional<std::pair<Guard, Guard>>> made(static_cast<std::size_t>(count));
  std::mutex mutex;
  std::int64_t done = 0;
  LUCID_TRY(ParallelFor(count, options_.threads, stop_, [&](std::int64_t i, int) -> Status {
    const std::int64_t target = i * std::ssize(targets_) / count;
    LUCID_ASSIGN(Guard with, service(train_));
    LUCID_ASSIGN(Guard without, service(WithoutUnitOf(train_, targets_[target].row)));
    made[i].emplace(std::move(with), std::move(without));
    const std::lock_guard lock(mutex);
    if (progress_) progress_({"making services", "pairs", ++done, count, 0, "deployed"});
    return Ok();
  }));
  std::vector<std::pair<Guard, Guard>> pairs;
  for (auto& pair : made) pairs.push_back(*std::move(pair));
  return pairs;
}

Status Auditor::AttackDeployed(double epsilon) {
  const Manifest& manifest = ensemble_.manifest();
  if (!HasDeclaredAccess(manifest)) {
    left_out.push_back("deployed: not covered, the run does not keep the promise full");
    return Ok();
  }
  if (manifest.declared->reference != "domain") {
    left_out.push_back("deployed: the reference rows of the declared bounds are not here");
    return Ok();
  }
  LUCID_ASSIGN(const auto pairs, Deploy(epsilon));
  const auto target_of = [&](std::int64_t round) -> const Target& {
    return targets_[round * std::ssize(targets_) / std::ssize(pairs)];
  };
  Game game{.rounds = std::ssize(pairs), .subject = {}, .oracle = {}};
  game.subject = [&](std::int64_t round, Side) { return SubjectOf(target_of(round)); };
  game.oracle = [&](std::int64_t round, Side side) -> Oracle {
    const Guard& guard = side == Side::kIn ? pairs[round].first : pairs[round].second;
    return [&guard](std::span<const float> input) -> Result<std::int32_t> {
      std::vector<float> x(input.begin(), input.end());
      return guard.Canonicalize(x).ok() ? guard.Label(x) : kRefused;
    };
  };
  for (const AuditAttack attack : kAttacks) {
    if (!Asked(attack)) continue;
    AuditRow row = NewRow(attack, "scalar", Method::kScalar, World::kDeployed, epsilon);
    row.claimed = manifest.private_run->statement.epsilon;
    row.delta = manifest.private_run->statement.delta;
    LUCID_TRY(PlayAndKeep(game, row));
  }
  return Ok();
}

}  // namespace lucid
