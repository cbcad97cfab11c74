#include "native/region_tasks.h"

#include "native/task_bytes.h"

namespace lucid::region_search {
namespace {

void BoundPairs(const PairsTask& task, const RegionFacts& region, const TaskTools& tools,
                Worker& worker) {
  const Multipliers start = task.multipliers != nullptr ? *task.multipliers : Multipliers();
  for (Outcome* const outcome : task.outcomes) {
    Multipliers multipliers = start;
    *outcome = tools.work.BoundPair(outcome->pair, multipliers, tools.work.Steps(region.region),
                                    region, worker);
  }
}

// Whether what N is measured against is possible here.
bool Fits(const Multipliers& multipliers, const TaskTools& tools) {
  const std::int64_t classes = tools.network.architecture.classes();
  return multipliers.below >= -1 && multipliers.below < classes &&
         multipliers.below != tools.label &&
         (multipliers.weights.empty() ||
          ProblemOfWeights(multipliers.weights, classes, tools.label).empty());
}

template <class Io>
void AskedPairs(Io& io, auto& task, auto& region, auto& multipliers) {
  io(task.how, task.bound);
  io.Require(task.how <= PairsTask::How::kLinesInRegion);
  if (task.how == PairsTask::How::kLinesInRegion) io(region, multipliers);
}

template <class Io>
void AskedNode(Io& io, auto& node, auto& worst) {
  io(node.bound, node.region, node.multipliers);
  AskedPair(io, worst);
}

template <class Io>
void Answered(Io& io, Is<Expansion> auto& expansion, const RegionPair& worst) {
  bool cut = expansion.cut.has_value();
  io(expansion.found, expansion.confidence, cut);
  io.Numbers(expansion.point);
  if constexpr (Io::kReads) {
    if (cut) expansion.cut.emplace();
  }
  if (!cut) return;
  io(expansion.cut->how);
  for (auto& child : expansion.cut->children) {
    io(child.region, child.inhabited);
    if (!child.inhabited) continue;
    io(child.multipliers);
    if constexpr (Io::kReads) child.worst.pair = worst;  // whose pair it is, and its share
    AnsweredOutcome(io, child.worst, worst.why);
  }
}

template <class Io>
void Asked(Io& io, Is<AttackTask> auto& task) {
  io(task.member, task.seed, task.pool, task.climbs);
}

template <class Io>
void Answered(Io& io, Is<AttackResult> auto& found) {
  bool any = found.witness.has_value();
  io(found.beta_lower, any);
  if constexpr (Io::kReads) {
    if (any) found.witness.emplace();
  }
  if (!any) return;
  io(found.witness->member);
  io.Numbers(found.witness->x);
}

template <class Io>
void Asked(Io& io, Is<CloserBox> auto& box) {
  List(io, box.box);
  io.Numbers(box.multipliers);
  io.Numbers(box.half_way);
  io(box.cut, box.level);
  AskedPair(io, box.pair);
}

template <class Io>
void Answered(Io& io, Is<CloserBox> auto& box, const std::shared_ptr<PairProof>& asked) {
  io.Numbers(box.multipliers);
  io.Numbers(box.half_way);
  io(box.cut, box.fresh, box.alive);
  AnsweredPair(io, box.pair, asked);
}

bool AnswerPairs(BytesIn& io, const TaskTools& tools, Worker& worker, BytesOut& out) {
  PairsTask task;
  Region region;
  Multipliers multipliers;
  AskedPairs(io, task, region, multipliers);
  io.Require(Fits(multipliers, tools));
  std::vector<Outcome> outcomes(static_cast<std::size_t>(io.Count(0)));
  std::vector<std::shared_ptr<PairProof>> asked;
  for (Outcome& outcome : outcomes) {
    outcome.alive = true;
    AskedPair(io, outcome.pair);
    asked.push_back(outcome.pair.why);
    task.outcomes.push_back(&outcome);
  }
  if (!io.ok()) return false;
  task.region = &region;
  task.multipliers = &multipliers;
  task.Do(tools, worker);
  for (std::size_t i = 0; i < outcomes.size(); ++i) AnsweredOutcome(out, outcomes[i], asked[i]);
  return out.ok();
}

bool AnswerExpand(BytesIn& io, const TaskTools& tools, Worker& worker, BytesOut& out) {
  RegionNode node;
  node.alive.resize(1);
  AskedNode(io, node, node.alive.front());
  io.Require(Fits(node.multipliers, tools));
  if (!io.ok()) return false;
  Expansion expansion;
  ExpandTask{&node, &expansion}.Do(tools, worker);
  Answered(out, expansion, node.alive.front());
  return out.ok();
}

bool AnswerAttack(BytesIn& io, const TaskTools& tools, Worker& worker, BytesOut& out) {
  AttackTask task;
  AttackResult found;
  Asked(io, task);
  if (!io.ok()) return false;
  task.found = &found;
  task.Do(tools, worker);
  Answered(out, found);
  return out.ok();
}

bool AnswerCloser(BytesIn& io, const TaskTools& tools, Worker& worker, BytesOut& out) {
  CloserBox box;
  Asked(io, box);
  if (!io.ok()) return false;
  const std::shared_ptr<PairProof> asked = box.pair.why;
  CloserTask{&box}.Do(tools, worker);
  Answered(out, box, asked);
  return out.ok();
}

template <class Io>
void Asked(Io& io, Is<FirstAttackTask> auto& task) {
  io(task.seed, task.pool, task.climbs, task.alone);
}

bool AnswerFirstAttack(BytesIn& io, const TaskTools& tools, BytesOut& out) {
  FirstAttackTask task;
  Asked(io, task);
  if (!io.ok()) return false;
  const Status done = task.Do(tools.network, tools.members, tools.label, tools.options.domain,
                              tools.threads, tools.options.stop);
  // After a stop nobody waits for it any more.
  if (!done.ok() && done.error().kind != ErrorKind::kInterrupted) return false;
  Answered(out, task.found);
  Answered(out, task.later);
  return out.ok();
}

}  // namespace

std::string_view NameOf(TaskKind kind) {
  switch (kind) {
    case TaskKind::kPairs:
      return "pairs";
    case TaskKind::kExpand:
      return "region";
    case TaskKind::kAttack:
      return "attack";
    case TaskKind::kCloser:
      return "closer look";
    case TaskKind::kMembers:
      return "members";
    case TaskKind::kFirstAttack:
      return "first attack";
    case TaskKind::kSpatialCut:
      return "box to cut";
    case TaskKind::kSpatialHalf:
      return "half of a box";
    case TaskKind::kConfirm:
      return "claims";
  }
  return "";
}

// ---- pairs
// ----------------------------------------------------------------------------------------

void PairsTask::Do(const TaskTools& tools, Worker& worker) {
  if (how == How::kLinesInRegion) {
    const auto facts = tools.work.Enter(*region, bound, worker);
    // The region is one that holds inputs, as its worst pair showed.
    if (facts) BoundPairs(*this, *facts, tools, worker);
    return;
  }
  if (!worker.domain) worker.domain = worker.ladder.lines().Enter({tools.work.root(), {}});
  if (how == How::kLinesOverDomain) return BoundPairs(*this, *worker.domain, tools, worker);
  for (Outcome* const outcome : outcomes) {
    tools.work.BoundQuickly(*outcome, *worker.domain, worker);
  }
}

void PairsTask::Ask(std::string& out) const {
  BytesOut io(out);
  const Region none;
  const Multipliers start;
  AskedPairs(io, *this, region != nullptr ? *region : none,
             multipliers != nullptr ? *multipliers : start);
  io.Count(outcomes.size());
  for (const Outcome* const outcome : outcomes) AskedPair(io, outcome->pair);
}

bool PairsTask::Take(ByteCursor& in) {
  BytesIn io(in);
  for (Outcome* const outcome : outcomes) {
    const std::shared_ptr<PairProof> asked = outcome->pair.why;
    AnsweredOutcome(io, *outcome, asked);
  }
  return io.ok();
}

// ---- regions
// --------------------------------------------------------------------------------------

void ExpandTask::Do(const TaskTools& tools, Worker& worker) {
  *expansion = tools.cutter.Expand(*node, worker);
}

void ExpandTask::Ask(std::string& out) const {
  BytesOut io(out);
  AskedNode(io, *node, node->alive[RegionCutter::WorstOf(*node)]);
}

bool ExpandTask::Take(ByteCursor& in) {
  BytesIn io(in);
  const RegionPair& worst = node->alive[RegionCutter::WorstOf(*node)];
  Answered(io, *expansion, worst);
  return io.ok();
}

// ---- attacks
// --------------------------------------------------------------------------------------

void AttackTask::Do(const TaskTools& tools, Worker&) {
  const AttackOptions alone{seed, 1, pool, climbs, tools.options.domain};
  *found =
      AttackMember(tools.network, tools.members, tools.label, member, alone, tools.options.stop);
}

void AttackTask::Ask(std::string& out) const {
  BytesOut io(out);
  Asked(io, *this);
}

bool AttackTask::Take(ByteCursor& in) {
  BytesIn io(in);
  Answered(io, *found);
  return io.ok();
}

Status FirstAttackTask::Do(const Network& network, const Members& members, std::int32_t label,
                           const Domain* domain, int threads, const std::stop_token& stop) {
  AttackOptions attack;
  attack.seed = seed;
  attack.pool = pool;
  attack.local_searches = climbs;
  attack.threads = threads;
  attack.domain = domain;
  LUCID_ASSIGN(found, Attack(network, members, label, {}, attack, stop));
  if (!found.witness || !alone) return Ok();
  later = AttackMember(network, members, label, found.witness->member, attack, stop);
  return Ok();
}

void FirstAttackTask::Ask(std::string& out) const {
  BytesOut io(out);
  Asked(io, *this);
}

bool FirstAttackTask::Take(ByteCursor& in) {
  BytesIn io(in);
  Answered(io, found);
  Answered(io, later);
  return io.ok();
}

// ---- closer looks
// ---------------------------------------------------------------------------------

void CloserTask::Do(const TaskTools& tools, Worker& worker) {
  tools.work.BoundCloser(*box, worker, [&] { return tools.expired(worker); });
}

void CloserTask::Ask(std::string& out) const {
  BytesOut io(out);
  Asked(io, *box);
}

bool CloserTask::Take(ByteCursor& in) {
  BytesIn io(in);
  const std::shared_ptr<PairProof> asked = box->pair.why;
  Answered(io, *box, asked);
  return io.ok();
}

// ---- topics
// ---------------------------------------------------------------------------------------

namespace {

void Fields(auto& io, Is<TaskTopic> auto& topic) {
  io(topic.kind, topic.label, topic.member_error, topic.with_claims, topic.flat,
     topic.improve_witnesses, topic.domain, topic.target, topic.close_by_rounding);
}

}  // namespace

std::string TaskTopic::Bytes() const {
  std::string bytes;
  BytesOut io(bytes);
  Fields(io, *this);
  return bytes;
}

bool TaskTopic::Read(std::string_view bytes, TaskTopic& topic) {
  ByteCursor in(bytes);
  BytesIn io(in);
  Fields(io, topic);
  io.Require(topic.kind >= TaskKind::kPairs && topic.kind <= TaskKind::kConfirm);
  return io.ok() && in.left() == 0;
}

bool TaskTopic::SameSearch(const TaskTopic& other) const {
  return label == other.label && member_error == other.member_error &&
         with_claims == other.with_claims && flat == other.flat &&
         improve_witnesses == other.improve_witnesses && domain == other.domain;
}

bool AnswerTask(TaskKind kind, ByteCursor& in, const TaskTools& tools, Worker& worker,
                std::string& out) {
  BytesIn question(in);
  BytesOut answer(out);
  switch (kind) {
    case TaskKind::kPairs:
      return AnswerPairs(question, tools, worker, answer);
    case TaskKind::kExpand:
      return AnswerExpand(question, tools, worker, answer);
    case TaskKind::kAttack:
      return AnswerAttack(question, tools, worker, answer);
    case TaskKind::kCloser:
      return AnswerCloser(question, tools, worker, answer);
    case TaskKind::kFirstAttack:
      return AnswerFirstAttack(question, tools, answer);
    case TaskKind::kMembers:
    case TaskKind::kSpatialCut:
    case TaskKind::kSpatialHalf:
    case TaskKind::kConfirm:
      break;
  }
  return false;
}

}  // namespace lucid::region_search
