#include "audit/games.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "audit/statistics.h"

namespace lucid {
namespace {

constexpr double kNotApplicable = std::numeric_limits<double>::quiet_NaN();

void SetCurve(AuditRow& row, std::span<const double> in, std::span<const double> out) {
  row.trials = std::ssize(in);
  row.auc = AreaUnderCurve(in, out);
  row.advantage = LargestAdvantage(in, out);
  row.tpr_at_fpr_01 = TruePositivesAt(0.01, in, out);
  row.tpr_at_fpr_001 = TruePositivesAt(0.001, in, out);
}

// Whoever times queries leaves out the few that the system held up: both samples end at the 99 %
// mark of all.
void CutOutliers(std::vector<double>& a, std::vector<double>& b) {
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  const auto mark = all.begin() + std::ssize(all) * 99 / 100;
  std::ranges::nth_element(all, mark);
  for (auto* sample : {&a, &b}) {
    for (double& time : *sample) time = std::min(time, *mark);
  }
}

}  // namespace

Result<std::optional<AuditRow>> Play(const Game& game, AuditRow row, std::uint64_t seed,
                                     const std::stop_token& stop) {
  std::vector<double> in, out;
  for (std::int64_t round = 0; round < game.rounds; ++round) {
    if (stop.stop_requested()) return Interrupted("stopped on request");
    const auto score = [&](Side side) {
      Stream stream(seed, NameOf(row.attack), static_cast<std::uint64_t>(round));
      return Score(row.attack, game.subject(round, side), game.oracle(round, side), stream);
    };
    if (!CanPlay(row.attack, game.subject(round, Side::kIn))) continue;
    LUCID_ASSIGN(const double score_in, score(Side::kIn));
    LUCID_ASSIGN(const double score_out, score(Side::kOut));
    in.push_back(score_in);
    out.push_back(score_out);
  }
  if (in.size() < 2) return std::optional<AuditRow>();
  SetCurve(row, in, out);
  row.epsilon_lower = EpsilonLowerBound(in, out, kRowRisk, row.delta);
  row.holds = std::isnan(row.claimed) || row.epsilon_lower <= row.claimed;
  row.e_value = kNotApplicable;
  // Given the questions and all rounds before, both guesses of a round come from two worlds of
  // their own, of which one is as likely as (epsilon, delta) allows. Guesses of kTrainTest share
  // their network, so nothing is bet on them.
  if (!std::isnan(row.claimed) && row.world != World::kTrainTest) {
    row.e_value = EvidenceAgainst(in, out, LargestAreaUnderPrivacy(row.claimed, row.delta));
    row.holds = row.holds && row.e_value < 1 / kRowRisk;
  } else if (row.not_covered()) {
    row.e_value = EvidenceAgainst(in, out, 0.5);
  }
  row.welch_t = kNotApplicable;
  return std::optional(std::move(row));
}

std::chrono::duration<double, std::micro> SteadyTime() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

Result<AuditRow> TimeAccess(const TimedInputs& inputs, const Oracle& ask, std::int64_t times,
                            AuditRow row, std::uint64_t seed, const std::stop_token& stop,
                            const Clock& clock) {
  Stream order(seed, "order of timed inputs");
  std::vector<double> of_noised, of_others;
  const auto time = [&](const std::vector<std::vector<float>>& from, std::int64_t i,
                        std::vector<double>& into) -> Status {
    const std::vector<float>& x = from[static_cast<std::size_t>(i) % from.size()];
    const auto start = clock();
    LUCID_TRY(ask(x));
    into.push_back((clock() - start).count());
    return Ok();
  };
  const auto pass = [&](std::int64_t count) -> Status {
    for (std::int64_t i = 0; i < count; ++i) {
      if (stop.stop_requested()) return Interrupted("stopped on request");
      // The order must not give anything away, because what was asked before warms caches and
      // clocks.
      const bool noised_first = order.Below(2) == 0;
      if (noised_first) LUCID_TRY(time(inputs.noised, i, of_noised));
      LUCID_TRY(time(inputs.others, i, of_others));
      if (!noised_first) LUCID_TRY(time(inputs.noised, i, of_noised));
    }
    return Ok();
  };
  // A question that is new costs a server more (its ledger writes it down), noised or not.
  LUCID_TRY(pass(std::ssize(inputs.noised)));
  of_noised.clear();
  of_others.clear();
  LUCID_TRY(pass(times));
  SetCurve(row, of_noised, of_others);
  CutOutliers(of_noised, of_others);
  row.welch_t = WelchT(of_noised, of_others);
  row.claimed = row.epsilon_lower = row.e_value = kNotApplicable;
  return row;
}

}  // namespace lucid
