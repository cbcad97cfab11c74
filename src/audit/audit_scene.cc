#include "audit/audit_scene.h"

#include <algorithm>
#include <utility>

namespace lucid {
namespace {

// How often a target is asked with new keys where one guess costs one query.
constexpr std::int64_t kKeys = 8;
constexpr std::int64_t kTimedInputs = 200;  // of each kind, at most

}  // namespace

bool AuditScene::Asked(AuditAttack attack) const {
  return options.attacks.empty() || std::ranges::count(options.attacks, attack) > 0;
}

Subject AuditScene::SubjectOf(const AuditTarget& target) const {
  return {train.row(target.row), train.y[target.row], target.disagreements};
}

Game AuditScene::LeaveOneOut(AuditAttack attack, Method method,
                             std::function<Oracle(std::int64_t target, Side side)> oracle) const {
  const std::int64_t queries = QueriesOf(attack, options.duplicates);
  std::int64_t count = std::ssize(targets);
  if (method == Method::kNaiveIdp) count = std::min(count, kNaiveQueries / queries + 1);
  Game game{.rounds = count * (queries == 1 ? kKeys : 1), .subject = {}, .oracle = {}};
  game.subject = [this, count](std::int64_t round, Side) {
    return SubjectOf(targets[round % count]);
  };
  game.oracle = [count, oracle = std::move(oracle)](std::int64_t round, Side side) {
    return oracle(round % count, side);
  };
  return game;
}

Game AuditScene::TrainTest(std::int64_t networks,
                           const std::function<Oracle(std::int64_t network)>& ask) const {
  const std::int64_t pairs = std::min(std::ssize(targets), test.rows());
  Game game{.rounds = pairs * networks, .subject = {}, .oracle = {}};
  game.subject = [this, pairs](std::int64_t round, Side side) -> Subject {
    const std::int64_t pair = round % pairs;
    const bool in = side == Side::kIn;
    const Table& table = in ? train : test;
    const std::int64_t at = in ? targets[pair].row : pair * test.rows() / pairs;
    return {table.row(at), table.y[at]};
  };
  game.oracle = [&ask, pairs](std::int64_t round, Side) { return ask(round / pairs); };
  return game;
}

TimedInputs AuditScene::InputsFor(const Guard& guard) const {
  TimedInputs inputs;
  const auto add_if = [&](bool noised, std::span<const float> input,
                          std::vector<std::vector<float>>& into) {
    std::vector<float> x(input.begin(), input.end());
    if (std::ssize(into) == kTimedInputs || !guard.Canonicalize(x).ok()) return;
    if (guard.Ask(x).noised == noised) into.push_back(std::move(x));
  };
  for (const AuditTarget& target : targets) {
    add_if(false, train.row(target.row), inputs.others);
    // Every guard noises where a member disagrees.
    if (target.disagreements.empty()) continue;
    add_if(true, target.disagreements.front().x, inputs.noised);
  }
  const std::size_t count = std::min(inputs.noised.size(), inputs.others.size());
  inputs.noised.resize(count);
  inputs.others.resize(count);
  return inputs;
}

}  // namespace lucid
