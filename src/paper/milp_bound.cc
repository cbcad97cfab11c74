// LUCID-Compute: attack, then Algorithm 1 for each class, then the certificate.
#include "paper/milp_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attack/witness.h"
#include "base/parallel.h"
#include "native/engine.h"
#include "numeric/rounding.h"
#include "paper/box_search.h"
#include "paper/cluster.h"
#include "paper/repair.h"
#include "paper/subset_search.h"

namespace lucid {
namespace {

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
    SubsetSearchHooks hooks;
    hooks.solve = [this](const Subset& subset, const SubsetSearchHooks::Improve& improve) {
      return Solve(subset, improve);
    };
    hooks.split = [this](const Subset& subset) { return Split(subset); };
    hooks.report = [&](double bound, std::int64_t solved) {
      if (report) report(witnesses_.beta_lower(), bound, solved);
    };
    LUCID_ASSIGN(const SubsetSearchSummary summary,
                 SearchSubsets(Start(), Ceiling(), search, hooks));
    return Outcome(summary);
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

  Result<SubsetBound> Solve(const Subset& subset, const SubsetSearchHooks::Improve& improve) {
    const Digest digest = SubsetDigest(label_, subset);
    // There is one set only, so it may take all the time.
    const bool only =
        UsesHyperNetwork(problem_.options.variant) && !UsesBranchAndBound(problem_.options.variant);
    const double limit = only ? kInfinity : problem_.options.subset_limit;
    if (problem_.journal != nullptr) {
      if (const auto known = problem_.journal->Find(digest, limit)) return *known;
    }
    LUCID_ASSIGN(const SubsetBound bound, SolveMilp(subset, In(limit), improve));
    if (problem_.journal != nullptr && bound.complete) {
      LUCID_TRY(problem_.journal->Append(digest, bound, limit));
    }
    return bound;
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
    Repair repair(problem_.facts.network, hyper, subset, label_, witnesses_);
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
    return SubsetBound{std::max(result.bound.value(), attack_lower_), !cut_short,
                       result.end == MilpResult::End::kDeadline, result.nodes, result.unproved};
  }

  Result<std::vector<Subset>> Split(const Subset& subset) {
    ClusterOptions cluster;
    cluster.seed = problem_.options.common.seed;
    return SplitBySimilarity(problem_.members, subset, cluster, stop_);
  }

  ClassBound Outcome(const SubsetSearchSummary& summary) const {
    ClassBound bound;
    bound.label = label_;
    bound.beta_lower = witnesses_.beta_lower();
    bound.witness = witnesses_.best();
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
  double enough_ = 0;
  WitnessKeeper witnesses_;
};

}  // namespace

Result<ClassBound> BoundClassByMilp(const MilpProblem& problem, std::int32_t label,
                                    const AttackResult& attack,
                                    std::chrono::steady_clock::time_point deadline,
                                    std::stop_token stop, const BoundReport& report) {
  return ClassSearch(problem, label, attack, deadline, std::move(stop)).Run(report);
}

Result<Certificate> ComputeBoundsByMilp(const Ensemble& ensemble, const MilpBoundOptions& options,
                                        const ProgressCallback& progress, std::stop_token stop) {
  const Clock::time_point start = Clock::now();
  const auto classes = static_cast<std::int32_t>(ensemble.network().architecture.classes());
  LUCID_TRY(options.Validate(classes));
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
  const MilpProblem problem{members, facts, options, certificate.member_error,
                            journal ? &*journal : nullptr};
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
