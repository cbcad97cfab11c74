// How guesses are played and judged.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "audit/attacks.h"
#include "lucid/audit/audit.h"

namespace lucid {

enum class Side { kIn, kOut };  // of a pair of worlds: with the row, without it

// Rounds of one guess in each of two worlds.
struct Game {
  std::int64_t rounds = 0;
  // What the attacker knows. Views must live as long as the game.
  std::function<Subject(std::int64_t round, Side side)> subject;
  // Who answers it; used until the next call.
  std::function<Oracle(std::int64_t round, Side side)> oracle;
};

// Fills the figures of `row`, whose attack, claim and delta are set. Both sides of a round draw
// their questions from one stream of `seed`: only the answers differ. Nothing if fewer than two
// rounds can be played, because the attack needs a disagreement and there is none. Errors: of the
// oracle; kInterrupted.
Result<std::optional<AuditRow>> Play(const Game& game, AuditRow row, std::uint64_t seed,
                                     const std::stop_token& stop);

// Inputs that a guard noises, and inputs that it does not: as many of each, none twice.
struct TimedInputs {
  std::vector<std::vector<float>> noised, others;
};

// What TimeAccess reads before and after each question. It never runs backwards.
using Clock = std::function<std::chrono::duration<double, std::micro>()>;
std::chrono::duration<double, std::micro> SteadyTime();  // of std::chrono::steady_clock

// Asks pairs of them, each in an order drawn from `seed`, `times` of each kind, after one untimed
// pass. Then fills the figures of `row`: how well the time of a noised input is told from that of
// another one. Requires: some inputs of each kind. Errors: as Play.
Result<AuditRow> TimeAccess(const TimedInputs& inputs, const Oracle& ask, std::int64_t times,
                            AuditRow row, std::uint64_t seed, const std::stop_token& stop,
                            const Clock& clock = SteadyTime);

}  // namespace lucid
