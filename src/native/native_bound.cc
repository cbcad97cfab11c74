// The native engine: attack, screen, region search, certificate.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "attack/attack.h"
#include "attack/witness.h"
#include "base/files.h"
#include "ensemble/engine_networks.h"
#include "lucid/native/bound.h"
#include "native/bound_team.h"
#include "native/engine.h"
#include "native/guard_proof.h"
#include "native/native_journal.h"
#include "native/pace.h"
#include "native/proof_parts.h"
#include "native/region_search.h"
#include "native/region_tasks.h"
#include "numeric/floating_point.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

using region_search::FirstAttackTask;
using region_search::TaskKind;
using region_search::TaskTopic;

// If nothing leaks there is no witness that a relative gap could refer to. A bound below this is
// good enough then. It is half of what counts as exact (engine.cc), so that what recording a bound
// adds to it fits into the other half.
constexpr double kAbsoluteGap = 5e-7;
// A class goes on if so much of the whole time is left, in seconds or as a share of it.
constexpr double kWorthGoingOn = 0.1, kShareWorthGoingOn = 0.02;
// The relative room that a bound leaves for the rounding of the program that checks it.
constexpr double kCheckerSlack = 0x1p-30;

// What is written down of a proved bound.
double Recorded(double upper) { return Up(upper * (1 + kCheckerSlack)); }

// The question whether the bound holds. The target is chosen so that what is recorded of it is at
// most the bound.
RegionDecision DecisionOn(double bound) {
  if (Recorded(0) > bound) return {0, bound};  // nothing recorded can be so small
  double target = bound / (1 + kCheckerSlack);
  while (target > 0 && Recorded(target) > bound) target = NextDown(target);
  return {std::max(target, 0.0), bound};
}

// How much work goes into attacks before the search begins. With few inputs the search is short,
// and a small attack is enough. With many inputs a better witness saves more time than it costs,
// and several attacks find what one misses. (The search improves the witness, too.)
struct Effort {
  std::int64_t pool = 900, local_searches = 600;
  int attacks = 1;
  bool alone = false;  // an attack on the member of the best witness alone follows
};
constexpr double kSecondsForAnAttack = 40;  // of a class's time: an attack takes a tenth of it
constexpr int kMostAttacks = 8;
constexpr std::int64_t kSmallestPool = 16;

Effort EffortFor(std::int64_t inputs, double seconds, std::optional<std::int64_t> climbs) {
  if (climbs) return {std::max<std::int64_t>(*climbs, kSmallestPool), *climbs};
  if (inputs <= kFewInputs) return {};
  const double attacks = std::clamp(seconds / kSecondsForAnAttack, 1.0, 1.0 * kMostAttacks);
  if (attacks < 2) return {900, 4000, 1, true};
  return {4000, 8000, static_cast<int>(attacks), true};
}

class NativeBound {
 public:
  NativeBound(const Ensemble& ensemble, const NativeBoundOptions& options,
              const ProgressCallback& progress, std::stop_token stop)
      : ensemble_(ensemble),
        options_(options),
        progress_(progress),
        stop_(std::move(stop)),
        networks_(ensemble) {
    journal_.certificate = UnprovedCertificate(ensemble);
    journal_.certificate.command = options.common.command;
    journal_.certificate.engine = Engine::kNative;
    journal_.certificate.options = options.Canonical();
    journal_.certificate.domain = options.domain;
    journal_.regions.resize(journal_.certificate.classes.size());
  }

  Result<Certificate> Run() {
    Certificate& certificate = journal_.certificate;
    const auto classes = static_cast<std::int32_t>(certificate.classes.size());
    LUCID_TRY(CheckFloatingPoint());
    LUCID_TRY(options_.Validate(classes));
    if (!std::isfinite(certificate.network_error)) {
      return InvalidInput(
          "the network's outputs may overflow or be no numbers, so nothing can be proved of it");
    }
    domain_ = Domain::Of(options_.domain, ensemble_.manifest().schema);
    LUCID_ASSIGN(team_, GatherForBounds(options_.common.team, ensemble_, stop_));
    if (team_) stop_ = team_->stop();
    LUCID_TRY(OpenJournal());
    LUCID_ASSIGN(certificate.member_error,
                 LargestError(EnsembleMembers(ensemble_), options_.common.threads));
    LUCID_TRY(OpenProof());
    const double before = certificate.seconds;
    const Clock::time_point start = Clock::now(), deadline = In(options_.common.time_limit);
    for (std::int32_t label = 0; label < classes && !Refuted(); ++label) {
      if (options_.common.label.value_or(label) != label || Done(label)) continue;
      const int left = options_.common.label ? 1 : classes - label;
      const Clock::time_point now = Clock::now();
      LUCID_TRY(RunClass(label,
                         std::min(now + (deadline - now) / left, In(options_.common.class_limit))));
    }
    if (!Refuted()) LUCID_TRY(GoOnWithTheUnfinished(deadline));
    certificate.seconds = before + SecondsSince(start);
    const bool finished = Refuted() || options_.common.Finished(certificate);
    const bool keeps = !finished && !options_.common.journal.empty();
    if (proof_) {
      LUCID_ASSIGN(certificate.proof, proof_->Finish(keeps));
      journal_.proof_parts = proof_->seals();
    }
    if (keeps) LUCID_TRY(journal_.Save(options_.common.journal, Key()));
    if (!options_.work_log.empty()) {
      LUCID_TRY(WriteFileAtomically(options_.work_log, work_log_, kForEverybody));
    }
    if (finished && !options_.common.journal.empty()) {
      std::error_code ignored;  // a journal that was never written
      std::filesystem::remove(options_.common.journal, ignored);
    }
    return certificate;
  }

 private:
  // Unfinished classes get the time that later classes left of theirs.
  Status GoOnWithTheUnfinished(Clock::time_point deadline) {
    std::vector<std::int32_t> unfinished;
    for (const ClassBound& bound : journal_.certificate.classes) {
      const bool asked = options_.common.label.value_or(bound.label) == bound.label;
      if (asked && !Done(bound.label) && !journal_.regions[bound.label].empty()) {
        unfinished.push_back(bound.label);
      }
    }
    auto left = static_cast<int>(unfinished.size());
    for (const std::int32_t label : unfinished) {
      const Clock::time_point now = Clock::now(), end = now + (deadline - now) / left--;
      const double own = options_.common.class_limit - journal_.certificate.classes[label].seconds;
      const double worth = std::min(kWorthGoingOn, kShareWorthGoingOn * options_.common.time_limit);
      if (stop_.stop_requested() || -SecondsSince(deadline) < worth || own <= 0) continue;
      LUCID_TRY(RunClass(label, std::min(end, In(own))));
    }
    return Ok();
  }

  // A witness decided about all classes.
  bool Refuted() const {
    return options_.decide &&
           std::ranges::any_of(journal_.certificate.classes, [&](const ClassBound& bound) {
             return bound.beta_lower > *options_.decide;
           });
  }

  bool Done(std::int32_t label) const {
    return journal_.certificate.classes[label].status != BoundStatus::kDeadline;
  }

  Digest Key() const { return JournalKey(ensemble_, options_.Canonical()); }

  Status OpenJournal() {
    if (options_.common.journal.empty()) return Ok();
    if (options_.common.resume) {
      if (!std::filesystem::exists(options_.common.journal))
        return Ok();  // killed before the first one
      LUCID_ASSIGN(NativeJournal found, NativeJournal::Load(options_.common.journal, Key()));
      found.certificate.command = options_.common.command;
      journal_ = std::move(found);
      return Ok();
    }
    if (std::filesystem::exists(options_.common.journal)) {
      return RenameDurably(options_.common.journal, options_.common.journal + ".old");
    }
    return Ok();
  }

  Status OpenProof() {
    journal_.certificate.proof.reset();
    if (options_.proof.empty()) return Ok();
    const Certificate& certificate = journal_.certificate;
    const ProofHeader header{certificate.network_digest, certificate.ensemble_digest,
                             certificate.member_error,
                             static_cast<std::int32_t>(certificate.classes.size())};
    LUCID_ASSIGN(proof_, ProofParts::Open(options_.proof, header, journal_.proof_parts));
    return Ok();
  }

  Status RunClass(std::int32_t label, Clock::time_point deadline) {
    const Clock::time_point begin = Clock::now();
    ClassBound& bound = journal_.certificate.classes[label];
    const double before = bound.seconds;
    const std::string state = journal_.regions[label];
    const Network& network = networks_.network();
    const Members& members = networks_.members();
    WitnessKeeper witnesses(network, members, label, bound.beta_lower, bound.witness);
    const bool attack = !options_.decide && (state.empty() || !bound.witness);
    if (attack) LUCID_TRY(RunAttacks(label, deadline, witnesses));
    const auto record = [&](double upper) {
      bound.beta_lower = witnesses.beta_lower();
      bound.witness = witnesses.best();
      if (bound.witness) bound.witness->row = ensemble_.RowOf(bound.witness->member);
      const double proved = Recorded(upper);
      // A bound that was only reported earlier is perhaps not in the proof, so it does not count.
      const double known = proof_ ? proved : std::min(bound.beta_upper, proved);
      bound.beta_upper = std::max({known, bound.beta_lower, 0.0});
      bound.seconds = before + SecondsSince(begin);
    };
    RegionSearchOptions search;
    // The gap is that of what is recorded, which is a little more than what the search proves.
    search.gap = std::max(options_.common.gap - (1 - options_.common.gap) * 2 * kCheckerSlack, 0.0);
    search.absolute_gap = kAbsoluteGap;
    if (options_.decide) search.decide = DecisionOn(*options_.decide);
    search.threads = options_.common.threads;
    search.memory = options_.memory;
    search.closer_after = options_.closer_after;
    if (options_.attack_climbs) search.most_climbs = *options_.attack_climbs;
    search.save_every = options_.save_every;
    if (options_.out_of_time) {
      search.out_of_time = [this, label] { return options_.out_of_time(label); };
    }
    search.deadline = deadline;
    search.stop = stop_;
    search.domain = &*domain_;
    search.flat = ensemble_.network().architecture.layers().size() == 1;
    search.proof = proof_ ? &proof_->writer() : nullptr;
    search.team = team_.get();
    search.width = static_cast<std::size_t>(options_.width);
    if (!options_.work_log.empty()) {
      search.work_log = [this](const TaskTimes& times) { LogWork(times); };
    }
    double latest = bound.beta_upper;  // proved by now
    Pace pace;
    search.report = [&](double lower, double upper, std::int64_t regions, std::int64_t members) {
      latest = std::min(latest, upper);
      const double gap = latest > 0 ? (latest - lower) / latest : 0;
      const auto left = options_.decide
                            ? std::nullopt
                            : pace.SecondsLeft(SecondsSince(begin), gap, options_.common.gap);
      Report(label, before + SecondsSince(begin), deadline, lower, latest, regions, members, left);
    };
    if (!options_.common.journal.empty()) {
      search.save = [&](const std::string& regions) {
        record(latest);
        journal_.regions[label] = regions;
        return SaveJournal();
      };
    }
    LUCID_ASSIGN(const RegionSearchSummary summary,
                 SearchRegions(network, members, label, journal_.certificate.member_error, search,
                               witnesses, state));
    record(summary.verdict.upper());
    journal_.regions[label] = summary.left;
    if (options_.common.trace) {
      options_.common.trace(label, bound.seconds, bound.beta_lower, bound.beta_upper);
    }
    Conclude(summary, bound);
    if (Done(label)) journal_.regions[label].clear();
    return options_.common.journal.empty() ? Ok() : SaveJournal();
  }

  // Seals the part of the proof that the journal names before the journal is written.
  Status SaveJournal() {
    if (proof_) {
      LUCID_TRY(proof_->Seal());
      journal_.proof_parts = proof_->seals();
    }
    return journal_.Save(options_.common.journal, Key());
  }

  Status RunAttacks(std::int32_t label, Clock::time_point deadline, WitnessKeeper& witnesses) {
    if (options_.attack_climbs == 0) return Ok();
    const Effort effort = EffortFor(networks_.network().architecture.inputs(),
                                    -SecondsSince(deadline), options_.attack_climbs);
    std::vector<FirstAttackTask> tasks(static_cast<std::size_t>(effort.attacks));
    for (std::size_t n = 0; n < tasks.size(); ++n) {
      tasks[n].seed = options_.common.seed + n * 0x9E3779B97F4A7C15;
      tasks[n].pool = effort.pool;
      tasks[n].climbs = effort.local_searches;
      tasks[n].alone = effort.alone;
    }
    const auto attack = [&](FirstAttackTask& task, int threads) {
      return task.Do(networks_.network(), networks_.members(), label, &*domain_, threads, stop_);
    };
    if (team_ && tasks.size() > 1) {
      LUCID_TRY(AttackInTeam(label, deadline, attack, tasks));
    } else {
      TaskTimes times{std::string(NameOf(TaskKind::kFirstAttack)), {}};
      for (FirstAttackTask& task : tasks) {
        if (Clock::now() >= deadline) break;
        const double begin = ProcessorSeconds();
        const Status done = attack(task, options_.common.threads);
        if (!done.ok() && done.error().kind == ErrorKind::kInterrupted) break;
        LUCID_TRY(done);
        times.tasks.push_back({ProcessorSeconds() - begin, 0, 0});
      }
      if (!options_.work_log.empty()) LogWork(times);
    }
    for (const FirstAttackTask& task : tasks) {
      witnesses.Offer(task.found.beta_lower, task.found.witness);
      witnesses.Offer(task.later.beta_lower, task.later.witness);
    }
    return Ok();
  }

  // Attacks that are not finished in time have found nothing.
  Status AttackInTeam(std::int32_t label, Clock::time_point deadline,
                      const std::function<Status(FirstAttackTask&, int)>& attack,
                      std::vector<FirstAttackTask>& tasks) {
    TaskTopic topic;
    topic.kind = FirstAttackTask::kKind;
    topic.label = label;
    topic.member_error = journal_.certificate.member_error;
    topic.with_claims = proof_.has_value();
    topic.domain = domain_->kind();
    TeamTasks all;
    all.topic = topic.Bytes();
    all.count = std::ssize(tasks);
    const auto task = [&](std::int64_t n) -> FirstAttackTask& {
      return tasks[static_cast<std::size_t>(n)];
    };
    all.ask = [&](std::int64_t n, std::string& out) { task(n).Ask(out); };
    all.take = [&](std::int64_t n, ByteCursor& in) { return task(n).Take(in); };
    all.whole_process = true;
    Status failed = Ok();
    all.here = [&](std::int64_t n, int) {
      const Status done = attack(task(n), options_.common.threads);
      if (!done.ok() && done.error().kind != ErrorKind::kInterrupted) failed = done;
    };
    all.expired = [&] { return stop_.stop_requested() || Clock::now() >= deadline; };
    LUCID_TRY(team_->Run(all, options_.common.threads));
    return failed;
  }

  void Report(std::int32_t label, double seconds, Clock::time_point deadline, double lower,
              double upper, std::int64_t regions, std::int64_t members,
              std::optional<double> expected) const {
    if (options_.common.trace) options_.common.trace(label, seconds, lower, upper);
    if (!progress_) return;
    const double rest = std::chrono::duration<double>(deadline - Clock::now()).count();
    const std::string left = expected && *expected < rest
                                 ? fmt::format("about {:.0f} s left of {:.0f} s", *expected, rest)
                                 : fmt::format("at most {:.0f} s left", std::max(rest, 0.0));
    const std::string detail = fmt::format("beta in [{:.4g}, {:.4g}], {}, {} member{} in the worst",
                                           lower, upper, left, members, members == 1 ? "" : "s");
    progress_({fmt::format("class {}", label), "regions", regions, 0, 0, detail});
  }

  // A line for what the search did between two lists of tasks, and one for each task.
  void LogWork(const TaskTimes& times) {
    double seconds = ProcessorSeconds() - logged_;
    logged_ = ProcessorSeconds();
    if (work_log_.empty()) work_log_ = "list,kind,seconds,bytes_asked,bytes_answered\n";
    ++lists_;
    std::string lines;
    for (const TaskTimes::Task& task : times.tasks) {
      seconds -= task.seconds;
      lines += fmt::format("{},{},{:.7f},{},{}\n", lists_, times.kind, task.seconds, task.asked,
                           task.answered);
    }
    work_log_ += fmt::format("{},leader,{:.7f},0,0\n", lists_, std::max(seconds, 0.0)) + lines;
  }

  static void Conclude(const RegionSearchSummary& summary, ClassBound& bound) {
    bound.status = StatusOf(bound, summary.verdict.finished());
    bound.counters = {{"members_pruned_by_screen", summary.pruned_by_screen},
                      {"regions", summary.regions},
                      {"bounds", summary.bounds},
                      {"pairs", summary.pairs},
                      {"pruned_at_root", summary.pruned_at_root},
                      {"dropped", summary.dropped},
                      {"limited_by_rounding", summary.verdict.limited_by_rounding() ? 1 : 0}};
  }

  const Ensemble& ensemble_;
  const NativeBoundOptions& options_;
  const ProgressCallback& progress_;
  std::stop_token stop_;
  const EngineNetworks networks_;
  std::unique_ptr<TaskTeam> team_;
  NativeJournal journal_;
  std::optional<Domain> domain_;
  std::optional<ProofParts> proof_;
  std::string work_log_;
  std::int64_t lists_ = 0;
  double logged_ = ProcessorSeconds();
};

}  // namespace

Result<Certificate> ComputeBounds(const Ensemble& ensemble, const NativeBoundOptions& options,
                                  const ProgressCallback& progress, std::stop_token stop) {
  return NativeBound(ensemble, options, progress, std::move(stop)).Run();
}

Result<Digest> WriteGuardProof(const std::string& path, const Certificate& certificate,
                               std::span<const BoxProof> proofs) {
  LUCID_ASSIGN(ProofWriter writer,
               ProofWriter::Create(
                   path, {certificate.network_digest, certificate.ensemble_digest,
                          certificate.member_error, static_cast<std::int32_t>(proofs.size())}));
  for (std::size_t label = 0; label < proofs.size(); ++label) {
    const auto of = static_cast<std::int32_t>(label);
    for (const ProofSplit& split : proofs[label].splits) LUCID_TRY(writer.Add(of, split));
    for (const ProofClosing& claim : proofs[label].claims) LUCID_TRY(writer.Add(of, claim));
  }
  LUCID_TRY(writer.Finish());
  return Sha256OfFile(path);
}

}  // namespace lucid
