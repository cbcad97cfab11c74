#include "native/bound_team.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/parallel.h"
#include "ensemble/engine_networks.h"
#include "native/guard_proof.h"
#include "native/region_tasks.h"
#include "native/spatial_box.h"
#include "numeric/floating_point.h"

namespace lucid {
namespace {

using region_search::AnswerTask;
using region_search::MakeWorkers;
using region_search::RegionCutter;
using region_search::RegionWork;
using region_search::TaskKind;
using region_search::TaskTools;
using region_search::TaskTopic;
using region_search::Worker;

// What a helper has for the tasks of one search.
class HelpedSearch {
 public:
  HelpedSearch(const Ensemble& ensemble, const EngineNetworks& networks, const TaskTopic& topic,
               int threads)
      : topic_(topic),
        domain_(Domain::Of(topic.domain, ensemble.manifest().schema)),
        options_(OptionsFor(topic, domain_)),
        work_(networks.network(), networks.members(), topic.label, topic.member_error, options_),
        cutter_(work_, networks.network(), topic.label, options_),
        tools_{networks.network(),
               networks.members(),
               topic.label,
               options_,
               work_,
               cutter_,
               [this](const Worker&) { return work_.Expired(); },
               threads},
        workers_(MakeWorkers(networks.network(), topic.label, threads, &domain_)) {}
  HelpedSearch(const HelpedSearch&) = delete;
  HelpedSearch& operator=(const HelpedSearch&) = delete;

  bool Serves(const TaskTopic& topic) const { return topic_.SameSearch(topic); }
  void Begin(const TaskTopic& topic, std::stop_token stop) {
    topic_ = topic;
    options_.stop = std::move(stop);
    work_.target = topic.target;
    work_.close_by_rounding = topic.close_by_rounding;
  }
  bool Answer(ByteCursor& in, int worker, std::string& out) const {
    return AnswerTask(topic_.kind, in, tools_, *workers_[static_cast<std::size_t>(worker)], out);
  }

 private:
  static RegionSearchOptions OptionsFor(const TaskTopic& topic, const Domain& domain) {
    RegionSearchOptions options;
    options.with_claims = topic.with_claims;
    options.flat = topic.flat;
    options.improve_witnesses = topic.improve_witnesses;
    options.domain = &domain;
    return options;
  }

  TaskTopic topic_;
  const Domain domain_;
  RegionSearchOptions options_;
  RegionWork work_;
  const RegionCutter cutter_;
  const TaskTools tools_;
  const std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

std::string SubjectOf(const Ensemble& ensemble) {
  const Manifest& manifest = ensemble.manifest();
  return fmt::format("bounds of run {} with networks {}, {} and schema {}", manifest.run_key.Hex(),
                     manifest.network_digest.Hex(), manifest.ensemble_digest.Hex(),
                     manifest.schema_digest.Hex());
}

Result<std::unique_ptr<TaskTeam>> GatherForBounds(Team* team, const Ensemble& ensemble,
                                                  std::stop_token stop) {
  if (team == nullptr || team->size() < 2) return std::unique_ptr<TaskTeam>();
  return TaskTeam::Gather(*team, SubjectOf(ensemble), std::move(stop));
}

struct NativeHelper::Impl {
  Impl(const Ensemble& of, int with) : ensemble(of), networks(of), threads(with) {}

  const Ensemble& ensemble;
  const EngineNetworks networks;
  const int threads;
  std::optional<HelpedSearch> search;                            // of the latest region search
  std::vector<std::unique_ptr<spatial::BoxWorker>> box_workers;  // once they are needed
  std::vector<std::unique_ptr<ClaimWorker>> claim_workers;       // the same
  TaskTopic current;
  std::optional<Domain> domain;  // of the current tasks
  std::stop_token nobody_waits;

  void BeginBoxes() {
    if (!domain || domain->kind() != current.domain) {
      // What a worker finds out holds in its domain only.
      box_workers.clear();
      claim_workers.clear();
      domain.emplace(Domain::Of(current.domain, ensemble.manifest().schema));
    }
    while (std::ssize(box_workers) < threads) {
      box_workers.push_back(std::make_unique<spatial::BoxWorker>(networks.network(), &*domain));
      claim_workers.push_back(std::make_unique<ClaimWorker>(ensemble.network(), *domain));
    }
  }
  bool AnswerBoxes(ByteCursor& in, std::size_t worker, std::string& out) const {
    if (current.kind == TaskKind::kConfirm) {
      return AnswerClaims(ensemble, *domain, current.label, current.member_error,
                          *claim_workers[worker], in, out);
    }
    const SpatialQuestion question{.label = current.label,
                                   .member_error = current.member_error,
                                   .claims = {},
                                   .flat = current.flat};
    const spatial::BoxWork work(networks.network(), networks.members(), *domain, question);
    return current.kind == TaskKind::kSpatialCut ? work.AnswerCut(in, *box_workers[worker], out)
                                                 : work.AnswerHalf(in, *box_workers[worker], out);
  }
};

NativeHelper::NativeHelper(const Ensemble& ensemble, int threads)
    : impl_(std::make_unique<Impl>(ensemble, EffectiveThreads(threads))) {}
NativeHelper::~NativeHelper() = default;

Status NativeHelper::Begin(std::string_view bytes, std::stop_token nobody_waits) {
  const auto classes = impl_->ensemble.network().architecture.classes();
  TaskTopic topic;
  if (!TaskTopic::Read(bytes, topic) || topic.label < 0 || topic.label >= classes) {
    return InternalError("the leader's tasks are of no kind that is known here");
  }
  impl_->current = topic;
  impl_->nobody_waits = nobody_waits;
  if (topic.kind == TaskKind::kMembers) return Ok();
  if (topic.kind >= TaskKind::kSpatialCut) {
    impl_->BeginBoxes();
    return Ok();
  }
  if (!impl_->search || !impl_->search->Serves(topic)) {
    impl_->search.emplace(impl_->ensemble, impl_->networks, topic, impl_->threads);
  }
  impl_->search->Begin(topic, std::move(nobody_waits));
  return Ok();
}

Status NativeHelper::Answer(ByteCursor& in, int worker, std::string& out) const {
  const TaskTopic& topic = impl_->current;
  if (topic.kind == TaskKind::kMembers) {
    return AnswerMembers(impl_->ensemble, impl_->networks, topic.label, topic.member_error,
                         impl_->nobody_waits, in, out);
  }
  const bool answered = topic.kind >= TaskKind::kSpatialCut
                            ? impl_->AnswerBoxes(in, static_cast<std::size_t>(worker), out)
                            : impl_->search->Answer(in, worker, out);
  if (answered) return Ok();
  return InternalError("a task of the leader is damaged, or its answer cannot be told");
}

Status HelpBounds(const Ensemble& ensemble, Team& team, int threads, std::stop_token stop) {
  LUCID_TRY(CheckFloatingPoint());
  NativeHelper helper(ensemble, threads);
  const TeamService service{
      [&](std::string_view topic, std::stop_token nobody_waits) {
        return helper.Begin(topic, std::move(nobody_waits));
      },
      [&](ByteCursor& in, int worker, std::string& out) { return helper.Answer(in, worker, out); }};
  return HelpTaskTeam(team, SubjectOf(ensemble), threads, service, std::move(stop));
}

}  // namespace lucid
