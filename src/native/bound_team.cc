#include "native/bound_team.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/parallel.h"
#include "ensemble/engine_networks.h"
#include "native/member_bounds.h"
#include "native/region_tasks.h"
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

Status HelpBounds(const Ensemble& ensemble, Team& team, int threads, std::stop_token stop) {
  LUCID_TRY(CheckFloatingPoint());
  const EngineNetworks networks(ensemble);
  const auto classes = static_cast<std::int32_t>(ensemble.network().architecture.classes());
  std::optional<HelpedSearch> search;
  TaskTopic current;
  std::stop_token nobody_waits;
  TeamService service;
  service.begin = [&](std::string_view bytes, std::stop_token dropped) -> Status {
    TaskTopic topic;
    if (!TaskTopic::Read(bytes, topic) || topic.label < 0 || topic.label >= classes) {
      return InternalError("the leader's tasks are of no kind that is known here");
    }
    current = topic;
    nobody_waits = dropped;
    if (topic.kind == TaskKind::kMembers) return Ok();
    if (!search || !search->Serves(topic)) search.emplace(ensemble, networks, topic, threads);
    search->Begin(topic, std::move(dropped));
    return Ok();
  };
  service.answer = [&](ByteCursor& in, int worker, std::string& out) -> Status {
    if (current.kind == TaskKind::kMembers) {
      return AnswerMembers(ensemble, networks, current.label, current.member_error, nobody_waits,
                           in, out);
    }
    if (search->Answer(in, worker, out)) return Ok();
    return InternalError("a task of the leader is damaged, or its answer cannot be told");
  };
  return HelpTaskTeam(team, SubjectOf(ensemble), threads, service, std::move(stop));
}

}  // namespace lucid
