// The threads of a region search, each with a worker of its own, and the processes that help it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/task_team.h"
#include "native/region_parts.h"
#include "native/region_tasks.h"
#include "native/region_work.h"

namespace lucid::region_search {

class WorkerTeam {
 public:
  // Keeps references.
  WorkerTeam(const Network& network, const Members& members, std::int32_t label,
             double member_error, const RegionSearchOptions& options, const RegionWork& work,
             const RegionCutter& cutter)
      : options_(options),
        work_(work),
        member_error_(member_error),
        tools_{network, members, label, options, work, cutter, {}, options.threads},
        workers_(MakeWorkers(network, label, options.threads, options.domain)) {
    tools_.expired = [this](const Worker& worker) {
      // One task may take a minute. In a team the thread that waits for the others reports.
      if (options_.team == nullptr && &worker == &first() && meanwhile_) meanwhile_();
      return work_.Expired();
    };
  }
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  Worker& first() const { return *workers_.front(); }
  const std::vector<std::unique_ptr<Worker>>& workers() const { return workers_; }  // of threads
  // What to call now and then during closer looks, each of which may take a minute. (Not during
  // other tasks: regions that are being cut are in nobody's books, so that a bound that was
  // reported then would leave them out.)
  void SetMeanwhile(std::function<void()> meanwhile) { meanwhile_ = std::move(meanwhile); }

  // Does all tasks, on all threads and with the processes that help. False: out of time, some are
  // not done.
  template <class Task>
  Result<bool> Do(std::vector<Task>& tasks) const {
    const auto count = static_cast<std::int64_t>(tasks.size());
    if (options_.team != nullptr) return DoInTeam(tasks);
    if (options_.work_log) return DoWithLog(tasks);
    const Status status =
        ParallelFor(count, options_.threads, options_.stop, [&](std::int64_t i, int w) -> Status {
          if (work_.Expired()) return Interrupted("out of time");
          tasks[static_cast<std::size_t>(i)].Do(tools_, *workers_[static_cast<std::size_t>(w)]);
          return Ok();
        });
    if (status.ok()) return true;
    if (status.error().kind == ErrorKind::kInterrupted) return false;
    return status.error();
  }

 private:
  template <class Task>
  Result<bool> DoInTeam(std::vector<Task>& tasks) const {
    TaskTopic topic;
    topic.kind = Task::kKind;
    topic.label = tools_.label;
    topic.member_error = member_error_;
    topic.with_claims = work_.WritesProof();
    topic.flat = options_.flat;
    topic.improve_witnesses = options_.improve_witnesses;
    topic.domain = options_.domain == nullptr ? DomainKind::kBox : options_.domain->kind();
    topic.target = work_.target;
    topic.close_by_rounding = work_.close_by_rounding;
    const auto task = [&](std::int64_t i) -> Task& { return tasks[static_cast<std::size_t>(i)]; };
    TeamTasks all;
    all.topic = topic.Bytes();
    all.count = static_cast<std::int64_t>(tasks.size());
    all.ask = [&](std::int64_t i, std::string& out) { task(i).Ask(out); };
    all.take = [&](std::int64_t i, ByteCursor& in) { return task(i).Take(in); };
    all.here = [&](std::int64_t i, int w) {
      task(i).Do(tools_, *workers_[static_cast<std::size_t>(w)]);
    };
    all.expired = [&] { return work_.Expired(); };
    if constexpr (Task::kKind == TaskKind::kCloser) all.meanwhile = meanwhile_;
    return options_.team->Run(all, options_.threads);
  }

  // One after another, and through the messages that a helper would get and send.
  template <class Task>
  Result<bool> DoWithLog(std::vector<Task>& tasks) const {
    TaskTimes times;
    times.kind = NameOf(Task::kKind);
    for (Task& task : tasks) {
      if (work_.Expired()) return false;
      std::string asked, answered;
      task.Ask(asked);
      ByteCursor question(asked);
      const double begin = ProcessorSeconds();
      const bool done = AnswerTask(Task::kKind, question, tools_, first(), answered);
      const double seconds = ProcessorSeconds() - begin;
      ByteCursor answer(answered);
      if (!done || !task.Take(answer) || answer.left() != 0) {
        return InternalError("a task cannot be told to another process");
      }
      times.tasks.push_back({seconds, asked.size(), answered.size()});
    }
    options_.work_log(times);
    return true;
  }

  const RegionSearchOptions& options_;
  const RegionWork& work_;
  const double member_error_;
  TaskTools tools_;
  std::function<void()> meanwhile_;
  const std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace lucid::region_search
