// One list of tasks, done by several processes. The leader hands tasks out, in blocks, to its own
// threads and to helpers as these run out of them. A task is a function of its question: who does
// it changes nothing. All books are kept by the leader, in one process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "lucid/base/result.h"
#include "lucid/base/team.h"

namespace lucid {

struct TeamTasks {
  std::string topic;  // what the questions have in common, for TeamService::begin
  std::int64_t count = 0;
  // For a list that grows while it is done: called often, by the thread that called Run, it returns
  // how many tasks there are by now. The list ends when all are done and it names no more. May be
  // empty.
  std::function<std::int64_t()> more;
  bool whole_process = false;  // a task uses all threads of its process, which has one at a time
  // Writes the question of a task, reads the answer to it (false: that is none), or does it in this
  // process. These are called for different tasks at once, and `here` by several threads.
  std::function<void(std::int64_t task, std::string& out)> ask;
  std::function<bool(std::int64_t task, ByteCursor& in)> take;
  std::function<void(std::int64_t task, int worker)> here;
  std::function<bool()> expired;    // asked often, by any thread
  std::function<void()> meanwhile;  // called often, by the thread that called Run; may be empty
};

// What was sent and received, of all tasks so far.
struct TeamTraffic {
  std::int64_t messages = 0, bytes = 0;
  std::int64_t tasks = 0, tasks_away = 0;  // done anywhere, and by helpers
};

// The leader's side. For one thread.
class TaskTeam {
 public:
  // Tells every helper what the job is about and waits until all of them are ready. `subject`: what
  // a helper has to have, too, in one spelling. After a stop it waits for nobody, and Run does
  // nothing. Errors: a helper whose program or subject is another one, by its name.
  static Result<std::unique_ptr<TaskTeam>> Gather(Team& team, const std::string& subject,
                                                  std::stop_token stop);
  // Tells the helpers that there are no more tasks.
  ~TaskTeam();
  TaskTeam(const TaskTeam&) = delete;
  TaskTeam& operator=(const TaskTeam&) = delete;

  // Does every task once, on `threads` threads here and in the other processes. False: out of time,
  // or a process was stopped; some tasks are done, and no answer to the others will be taken.
  // Errors: of a helper.
  Result<bool> Run(const TeamTasks& tasks, int threads);

  // How many tasks are done at once, with so many threads here.
  std::int64_t Lanes(int threads) const;

  // Asked for where the caller's stop was, or where a helper was told to stop.
  std::stop_token stop() const { return stop_.get_token(); }
  const TeamTraffic& traffic() const { return traffic_; }

 private:
  struct Round;
  TaskTeam(Team& team, std::stop_token stop)
      : team_(team), forward_(std::move(stop), [this] { stop_.request_stop(); }) {}
  void Send(int rank, std::string bytes);
  Status TakeIn(const TeamMessage& message, Round& round);
  void HandOut(Round& round);

  Team& team_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> forward_;
  std::vector<int> threads_;  // by rank; 0 for the leader
  std::uint64_t job_ = 0;
  TeamTraffic traffic_;
};

// Does every task of a list by `here`, which may fail: on `threads` threads of this process, and
// with the processes of `team` unless that is null. Requires: tasks.here is empty. Errors: the
// first one of `here`; of a helper; kInterrupted when stopped, out of time, or by a helper's stop.
Status DoTasks(TaskTeam* team, TeamTasks tasks,
               const std::function<Status(std::int64_t task, int worker)>& here, int threads,
               const std::stop_token& stop);

// What a helper does.
struct TeamService {
  // The tasks that follow have this topic. `stop` says that nobody waits for their answers any
  // more. No task is being done while this runs.
  std::function<Status(std::string_view topic, std::stop_token stop)> begin;
  // Reads a question and writes the answer. Several threads do so at once, each as a worker of its
  // own. Errors: a question that is none.
  std::function<Status(ByteCursor& in, int worker, std::string& out)> answer;
};

// The helper's side: answers until the leader has ended. Requires: not rank 0. If it is told to
// stop, it says so to the leader and answers no more. Errors: the leader's program or subject is
// another one; of `service`.
Status HelpTaskTeam(Team& team, const std::string& subject, int threads, const TeamService& service,
                    std::stop_token stop);

}  // namespace lucid
