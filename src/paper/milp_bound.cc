// LUCID-Compute: attack, then Algorithm 1 for each class, then the certificate.
#include "paper/milp_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "attack/witness.h"
#include "base/byte_fields.h"
#include "base/parallel.h"
#include "native/bound_team.h"
#include "native/engine.h"
#include "numeric/rounding.h"
#include "paper/box_search.h"
#include "paper/cluster.h"
#include "paper/repair.h"
#include "paper/subset_search.h"

namespace lucid {

// What the tasks of one class have in common.
struct MilpTopic {
  static constexpr char kMark = 'M';  // the first byte; no topic of the native engine begins so

  char mark = kMark;
  std::int32_t label = 0;
  Variant variant = Variant::kFull;
  double tau = 0, gap = 0;
  bool tighten = false;
  std::uint64_t seed = 0;
  double member_error = 0, attack_lower = 0, subset_limit = 0;
};

void Fields(auto& io, Is<MilpTopic> auto& topic) {
  io(topic.mark, topic.label, topic.variant, topic.tau, topic.gap, topic.tighten, topic.seed,
     topic.member_error, topic.attack_lower, topic.subset_limit);
}

namespace {

// Other processes stop so much earlier than rank 0, as a share of the time left and in seconds,
// that what they have proved by then arrives in time.
constexpr double kShareLeft = 0.98, kSecondsEarlier = 0.05;

// One class: the hooks of the subset search.
class ClassSearch {
 public:
  ClassSearch(const MilpProblem& problem, std::int32_t label, const AttackResult& attack,
              Clock::time_point deadline, std::stop_token stop)
      : problem_(problem),
        label_(label),
        deadline_(deadline),
        stop_(std::move(stop)),
        attack_lower_(attack.beta_lower),
        attack_witness_(attack.witness),
        witnesses_(problem.facts.network, problem.members, label, attack.beta_lower,
                   attack.witness) {
    // A subset whose bound is within the gap of what is known to leak is not looked at any more.
    // Where nothing is known to leak a small absolute bound is enough, because finitely many boxes
    // cannot prove 0.
    MilpOptions milp;
    milp.gap = problem.options.common.gap;
    enough_ = milp.GoodEnough(attack_lower_);
  }

  Result<ClassBound> Run(const BoundReport& report) {
    SubsetSearchOptions search;
    search.branch = UsesBranchAndBound(problem_.options.variant);
    search.enough = enough_;
    search.threads = EffectiveThreads(problem_.options.common.threads);
    search.deadline = deadline_;
    search.stop = stop_;
    // A search of one subset has one task, and this process keeps what it proves on the way.
    const bool several = search.branch || !UsesHyperNetwork(problem_.options.variant);
    if (several && problem_.team != nullptr) {
      search.team = problem_.team;
      search.topic = Topic();
    }
    SubsetSearchHooks hooks;
    hooks.solve = [this](const Subset& subset, const SubsetSearchHooks::Improve& improve) {
      return Solve(subset, improve);
    };
    hooks.split = [this](const Subset& subset) { return Split(subset); };
    hooks.known = [this](const Subset& subset) { return Known(subset); };
    hooks.found = [this](const Subset& subset, const SubsetBound& bound) {
      return KeepFound(subset, bound);
    };
    hooks.seconds = [this] {
      const double left = std::chrono::duration<double>(deadline_ - Clock::now()).count();
      return std::max(kShareLeft * left - kSecondsEarlier, 0.0);
    };
    hooks.report = [&](double bound, std::int64_t solved) {
      if (report) report(witnesses_.beta_lower(), bound, solved);
    };
    LUCID_ASSIGN(const SubsetSearchSummary summary,
                 SearchSubsets(Start(), Ceiling(), search, hooks));
    return Outcome(summary);
  }

  // What another process is asked for: without a journal, and with the time that it is given.
  Result<SubsetBound> SolveFor(const Subset& subset) {
    return SolveMilp(subset, In(Limit()), [](double) {});
  }
  Result<std::vector<Subset>> Split(const Subset& subset) {
    ClusterOptions cluster;
    cluster.seed = problem_.options.common.seed;
    return SplitBySimilarity(problem_.members, subset, cluster, stop_);
  }

 private:
  std::vector<Subset> Start() const {
    Subset all(static_cast<std::size_t>(problem_.members.count()));
    std::iota(all.begin(), all.end(), 0);
    if (UsesHyperNetwork(problem_.options.variant)) return {all};
    std::vector<Subset> single;
    single.reserve(all.size());
    for (const std::int32_t member : all) single.push_back({member});
    return single;
  }

  // No input has a confidence above this.
  double Ceiling() const {
    return std::max(LargestConfidence(problem_.facts.point, problem_.facts.bounds, label_), 0.0);
  }

  std::string Topic() const {
    const MilpBoundOptions& options = problem_.options;
    MilpTopic topic;
    topic.label = label_;
    topic.variant = options.variant;
    topic.tau = options.tau;
    topic.gap = options.common.gap;
    topic.tighten = options.tighten;
    topic.seed = options.common.seed;
    topic.member_error = problem_.member_error;
    topic.attack_lower = attack_lower_;
    topic.subset_limit = options.subset_limit;
    std::string bytes;
    BytesOut io(bytes);
    io(topic);
    return bytes;
  }

  // Seconds of one MILP. Where there is one set only, it may take all the time.
  double Limit() const {
    const bool only =
        UsesHyperNetwork(problem_.options.variant) && !UsesBranchAndBound(problem_.options.variant);
    return only ? kInfinity : problem_.options.subset_limit;
  }

  std::optional<SubsetBound> Known(const Subset& subset) const {
    if (problem_.journal == nullptr) return std::nullopt;
    return problem_.journal->Find(SubsetDigest(label_, subset), Limit());
  }
  Status Remember(const Subset& subset, const SubsetBound& bound) const {
    if (problem_.journal == nullptr || !bound.complete) return Ok();
    return problem_.journal->Append(SubsetDigest(label_, subset), bound, Limit());
  }

  Result<SubsetBound> Solve(const Subset& subset, const SubsetSearchHooks::Improve& improve) {
    if (const auto known = Known(subset)) return *known;
    LUCID_ASSIGN(const SubsetBound bound, SolveMilp(subset, In(Limit()), improve));
    witnesses_.Offer(bound.lower, bound.witness);
    LUCID_TRY(Remember(subset, bound));
    return bound;
  }

  // What another process found. Its leak is looked at here, too.
  Status KeepFound(const Subset& subset, const SubsetBound& bound) {
    if (bound.witness) {
      const Witness& witness = *bound.witness;
      const bool fits = std::ranges::binary_search(subset, witness.member) &&
                        std::ssize(witness.x) == problem_.facts.network.architecture.inputs();
      if (!fits) return InternalError("a helper's answer is damaged");
      WitnessKeeper own(problem_.facts.network, problem_.members, label_, attack_lower_, {});
      own.Try(std::vector<double>(witness.x.begin(), witness.x.end()),
              static_cast<std::int32_t>(witness.member));
      if (own.beta_lower() != bound.lower) return InternalError("a helper's answer is damaged");
    } else if (bound.lower > attack_lower_) {
      return InternalError("a helper's answer is damaged");
    }
    witnesses_.Offer(bound.lower, bound.witness);
    return Remember(subset, bound);
  }

  // Algorithm 1, lines 7-12: hyper-network, encoding, differences, solver.
  Result<SubsetBound> SolveMilp(const Subset& subset, Clock::time_point own_deadline,
                                const SubsetSearchHooks::Improve& improve) {
    const MilpBoundOptions& options = problem_.options;
    const HyperNetwork hyper = HyperNetwork::Of(problem_.members, subset);
    const Clock::time_point deadline = std::min(own_deadline, deadline_);
    EncodingOptions encoding_options;
    encoding_options.matching_dependencies = UsesMatchingDependencies(options.variant);
    encoding_options.relax_if_similar = UsesRelaxIfSimilar(options.variant);
    encoding_options.tau = options.tau;
    encoding_options.member_error = problem_.member_error;
    encoding_options.floor = attack_lower_;
    WitnessKeeper own(problem_.facts.network, problem_.members, label_, attack_lower_, {});
    Repair repair(problem_.facts.network, hyper, subset, label_, own);
    BoxSearchOptions search;
    search.encoding = encoding_options;
    search.tighten = options.tighten;
    search.milp.gap = options.common.gap;
    search.milp.enough = enough_;
    search.milp.incumbent = repair.Anywhere(options.common.seed);
    search.milp.deadline = deadline;
    search.milp.stop = stop_;
    search.milp.report = [&](double bound, std::int64_t) {
      improve(std::max(bound, attack_lower_));
    };
    LUCID_ASSIGN(const MilpResult result,
                 MaximiseOverBoxes(problem_.facts, hyper, label_, search, repair));
    const bool cut_short = stop_.stop_requested() || Clock::now() >= deadline_;
    // Nothing feasible: no input above the floor leaks.
    return SubsetBound{std::max(result.bound.value(), attack_lower_),
                       !cut_short,
                       result.end == MilpResult::End::kDeadline,
                       result.nodes,
                       result.unproved,
                       own.beta_lower(),
                       own.best()};
  }

  ClassBound Outcome(const SubsetSearchSummary& summary) const {
    ClassBound bound;
    bound.label = label_;
    const bool better = summary.lower > attack_lower_;
    bound.beta_lower = better ? summary.lower : attack_lower_;
    bound.witness = better ? summary.witness : attack_witness_;
    bound.beta_upper = std::max(summary.bound, bound.beta_lower);
    const bool gave_up = summary.timed_out > 0 && bound.beta_upper > enough_;
    bound.status = StatusOf(bound, summary.end == SubsetSearchSummary::End::kSolved && !gave_up);
    bound.counters = {{"milps", summary.solved},       {"splits", summary.splits},
                      {"timeouts", summary.timed_out}, {"nodes", summary.nodes},
                      {"unproved", summary.unproved},  {"largest_open", summary.largest_open}};
    return bound;
  }

  const MilpProblem& problem_;
  const std::int32_t label_;
  const Clock::time_point deadline_;
  const std::stop_token stop_;
  const double attack_lower_;
  const std::optional<Witness> attack_witness_;
  double enough_ = 0;
  WitnessKeeper witnesses_;  // the best so far, to be reported
};

}  // namespace

Result<ClassBound> BoundClassByMilp(const MilpProblem& problem, std::int32_t label,
                                    const AttackResult& attack,
                                    std::chrono::steady_clock::time_point deadline,
                                    std::stop_token stop, const BoundReport& report) {
  return ClassSearch(problem, label, attack, deadline, std::move(stop)).Run(report);
}

struct MilpHelper::Impl {
  explicit Impl(const Ensemble& ensemble)
      : members(ensemble),
        facts(FactsOf(ensemble.network(), UnitBox(ensemble.network().architecture.inputs()))) {}

  const EnsembleMembers members;
  const NetworkFacts facts;
  MilpTopic topic;
  MilpBoundOptions options;
  std::stop_token nobody_waits;
};

bool MilpHelper::Serves(std::string_view topic) { return topic.starts_with(MilpTopic::kMark); }

MilpHelper::MilpHelper(const Ensemble& ensemble) : impl_(std::make_unique<Impl>(ensemble)) {}
MilpHelper::~MilpHelper() = default;

Status MilpHelper::Begin(std::string_view bytes, std::stop_token nobody_waits) {
  ByteCursor in(bytes);
  BytesIn io(in);
  MilpTopic topic;
  io(topic);
  io.Require(topic.label >= 0 && topic.label < impl_->members.architecture().classes() &&
             topic.variant >= Variant::kNaive && topic.variant <= Variant::kFull);
  if (!io.ok() || in.left() != 0) return InternalError("the leader's topic is damaged");
  impl_->topic = topic;
  MilpBoundOptions& options = impl_->options;
  options.variant = topic.variant;
  options.tau = topic.tau;
  options.tighten = topic.tighten;
  options.subset_limit = topic.subset_limit;
  options.common.gap = topic.gap;
  options.common.seed = topic.seed;
  impl_->nobody_waits = std::move(nobody_waits);
  return Ok();
}

Status MilpHelper::Answer(ByteCursor& in, int, std::string& out) const {
  SubsetTask task;
  if (!task.Read(in, impl_->members.count())) {
    return InternalError("a task of the leader is damaged");
  }
  const MilpProblem problem{impl_->members, impl_->facts, impl_->options,
                            impl_->topic.member_error};
  AttackResult attack;
  attack.beta_lower = impl_->topic.attack_lower;
  ClassSearch search(problem, impl_->topic.label, attack, In(task.seconds), impl_->nobody_waits);
  const auto answer = [&out](const auto& found) -> Status {
    if (found.ok()) {
      SubsetTask::Answer(*found, out);
      return Ok();
    }
    // Nobody waits for it any more.
    return found.error().kind == ErrorKind::kInterrupted ? Ok() : Status(found.error());
  };
  return task.split ? answer(search.Split(task.subset)) : answer(search.SolveFor(task.subset));
}

Result<Certificate> ComputeBoundsByMilp(const Ensemble& ensemble, const MilpBoundOptions& options,
                                        const ProgressCallback& progress, std::stop_token stop) {
  const Clock::time_point start = Clock::now();
  const auto classes = static_cast<std::int32_t>(ensemble.network().architecture.classes());
  LUCID_TRY(options.Validate(classes));
  LUCID_ASSIGN(const auto helpers, GatherForBounds(options.common.team, ensemble, stop));
  if (helpers) stop = helpers->stop();
  Certificate certificate = UnprovedCertificate(ensemble);
  certificate.command = options.common.command;
  certificate.engine = Engine::kMilp;
  certificate.options = options.Canonical();
  std::optional<SubsetJournal> journal;
  if (!options.common.journal.empty()) {
    LUCID_ASSIGN(journal, SubsetJournal::Open(options.common.journal,
                                              JournalKey(ensemble, options.Canonical()),
                                              options.common.resume));
  }
  const EnsembleMembers members(ensemble);
  LUCID_ASSIGN(certificate.member_error, LargestError(members, options.common.threads));
  const NetworkFacts facts =
      FactsOf(ensemble.network(), UnitBox(ensemble.network().architecture.inputs()));
  const MilpProblem problem{
      members,      facts, options, certificate.member_error, journal ? &*journal : nullptr,
      helpers.get()};
  const Clock::time_point deadline = In(options.common.time_limit);
  for (std::int32_t label = 0; label < classes; ++label) {
    if (options.common.label.value_or(label) != label) continue;  // stays unknown
    const int left = options.common.label ? 1 : classes - label;
    const Clock::time_point begin = Clock::now();
    const Clock::time_point own =
        std::min(begin + (deadline - begin) / left, In(options.common.class_limit));
    AttackOptions attack_options;
    attack_options.seed = options.common.seed;
    attack_options.threads = options.common.threads;
    const Result<AttackResult> attack =
        Attack(ensemble.network(), members, label, {}, attack_options, stop);
    if (!attack.ok() && attack.error().kind != ErrorKind::kInterrupted) return attack.error();
    const auto report = [&](double lower, double upper, std::int64_t solved) {
      if (options.common.trace) options.common.trace(label, SecondsSince(begin), lower, upper);
      if (!progress) return;
      const std::string what = fmt::format("class {}", label);
      const double rest = std::chrono::duration<double>(own - Clock::now()).count();
      const std::string detail = fmt::format("beta in [{:.4g}, {:.4g}], at most {:.0f} s left",
                                             lower, upper, std::max(rest, 0.0));
      progress({what, "MILPs", solved, 0, 0, detail});
    };
    LUCID_ASSIGN(ClassBound bound,
                 BoundClassByMilp(problem, label, attack.ok() ? *attack : AttackResult{}, own, stop,
                                  report));
    bound.seconds = SecondsSince(begin);
    if (bound.witness) bound.witness->row = ensemble.RowOf(bound.witness->member);
    certificate.classes[label] = std::move(bound);
  }
  certificate.seconds = SecondsSince(start);
  if (journal && options.common.Finished(certificate)) LUCID_TRY(journal->Remove());
  return certificate;
}

}  // namespace lucid
