#include "audit/audit_record.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "lucid/promise/promise.h"

namespace lucid {
namespace {

constexpr double kNotApplicable = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double AuditRecord::ClaimOf(Method method, std::optional<World> world, double epsilon,
                            std::int64_t queries) const {
  const double composed = epsilon * static_cast<double>(queries);
  if (method == Method::kDpSgd) return epsilon;  // of the network, and so of whatever is asked
  if (method == Method::kNaiveNoise) return composed;
  // The noised set is a constant of the promise `labels`. Where it changes with the data, or the
  // rows that are compared are none of its, nothing is promised.
  if (world != World::kLeaveOneOut) return kNotApplicable;
  if (method == Method::kNaiveIdp) return composed;
  if (!GuardOf(method)) return kNotApplicable;
  const Result<Promise> promise =
      PromiseOfRun(scene_.run, scene_.options.certificate,
                   {.scalar = method == Method::kScalar, .epsilon = epsilon});
  return promise.ok() && promise->labels() ? composed : kNotApplicable;
}

AuditRow AuditRecord::NewRow(AuditAttack attack, std::string access, Method method,
                             std::optional<World> world, double epsilon) const {
  AuditRow row;
  row.attack = attack;
  row.access = std::move(access);
  row.world = world;
  row.queries = QueriesOf(attack, scene_.options.duplicates);
  row.epsilon = method == Method::kNone ? kNotApplicable : epsilon;
  row.delta = method == Method::kDpSgd ? EvaluationOptions().delta : 0;
  row.claimed = ClaimOf(method, world, epsilon, row.queries);
  return row;
}

Status AuditRecord::PlayAndKeep(const Game& game, AuditRow row) {
  const AuditAttack attack = row.attack;
  const std::string access = row.access;
  LUCID_ASSIGN(auto played, Play(game, std::move(row), scene_.options.seed, scene_.stop));
  if (played) {
    rows.push_back(*std::move(played));
  } else {
    left_out.push_back(fmt::format(
        "{} on {}: {}", NameOf(attack), access,
        attack == AuditAttack::kRegion ? "fewer than two pairs of services that answer differently"
        : NeedsDisagreements(attack)
            ? "fewer than two rows have an input on which N and their member disagree"
            : "fewer than two rows to attack"));
  }
  return Ok();
}

Status AuditRecord::TimeAndKeep(const TimedInputs& inputs, const Oracle& ask, std::int64_t times,
                                AuditRow row) {
  if (inputs.noised.empty()) {
    left_out.push_back(fmt::format(
        "timing on {}: among its inputs are none that are noised, or only such", row.access));
    return Ok();
  }
  LUCID_ASSIGN(AuditRow timed,
               TimeAccess(inputs, ask, times, std::move(row), scene_.options.seed, scene_.stop));
  rows.push_back(std::move(timed));
  return Ok();
}

}  // namespace lucid
