#include "audit/audit_scene.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/byte_fields.h"

namespace lucid {

void Fields(auto& io, Is<DisagreementQuestion> auto& question) {
  io(question.member, question.count, question.seed);
}

namespace {

// How often a target is asked with new keys where one guess costs one query.
constexpr std::int64_t kKeys = 8;
constexpr std::int64_t kTimedInputs = 200;  // of each kind, at most

std::vector<Disagreement> Find(const NetworkLabels& network, const NetworkLabels& without,
                               const Ensemble& ensemble, const Table& train,
                               const DisagreementQuestion& question) {
  Stream stream(question.seed, "disagreements", static_cast<std::uint64_t>(question.member));
  const Domain domain = Domain::OfSchema(ensemble.manifest().schema);
  return FindDisagreements(network, without, train, domain, question.count, stream);
}

}  // namespace

bool AuditScene::Asked(AuditAttack attack) const {
  return options.attacks.empty() || std::ranges::count(options.attacks, attack) > 0;
}

Subject AuditScene::SubjectOf(const AuditTarget& target) const {
  return {train.row(target.row), train.y[target.row], target.disagreements, {}, &domain};
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
    return {table.row(at), table.y[at], {}, {}, &domain};
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

Status FindAllDisagreements(AuditScene& scene) {
  std::mutex mutex;
  const std::int64_t count = std::ssize(scene.targets);
  std::int64_t done = 0;
  const auto target = [&](std::int64_t i) -> AuditTarget& {
    return scene.targets[static_cast<std::size_t>(i)];
  };
  const auto question = [&](std::int64_t i) {
    return DisagreementQuestion{target(i).member, scene.options.duplicates, scene.options.seed};
  };
  const auto keep = [&](std::int64_t i, std::vector<Disagreement> found) {
    const std::lock_guard lock(mutex);
    target(i).disagreements = std::move(found);
    if (scene.progress) scene.progress({"looking for disagreements", "rows", ++done, count});
  };
  TeamTasks tasks;
  tasks.topic = kDisagreementTopic;
  tasks.count = count;
  tasks.ask = [&](std::int64_t i, std::string& out) {
    BytesOut io(out);
    const DisagreementQuestion asked = question(i);
    io(asked);
  };
  tasks.take = [&](std::int64_t i, ByteCursor& in) {
    BytesIn io(in);
    std::vector<Disagreement> found;
    List(io, found);
    io.Require(std::ranges::all_of(found, [&](const Disagreement& point) {
      return std::ssize(point.x) == scene.train.features;
    }));
    if (io.ok()) keep(i, std::move(found));
    return io.ok();
  };
  const auto here = [&](std::int64_t i, int) -> Status {
    LUCID_ASSIGN(const NetworkLabels network, NetworkLabels::Of(scene.ensemble.network()));
    keep(i, Find(network, target(i).without, scene.ensemble, scene.train, question(i)));
    return Ok();
  };
  return DoTasks(scene.team, std::move(tasks), here, scene.options.threads, scene.stop);
}

Status AnswerDisagreements(const Ensemble& ensemble, const Table& train, ByteCursor& in,
                           std::string& out) {
  BytesIn io(in);
  DisagreementQuestion question;
  io(question);
  io.Require(question.member >= 0 && question.member < ensemble.members());
  if (!io.ok()) return InternalError("a task of the leader is damaged");
  LUCID_ASSIGN(const NetworkLabels network, NetworkLabels::Of(ensemble.network()));
  LUCID_ASSIGN(const NetworkLabels without, NetworkLabels::Of(ensemble.Member(question.member)));
  const std::vector<Disagreement> found = Find(network, without, ensemble, train, question);
  BytesOut answer(out);
  List(answer, found);
  return Ok();
}

}  // namespace lucid
