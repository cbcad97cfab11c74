#include "base/task_team.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "base/parallel.h"

namespace lucid {
namespace {

// The first byte of a message.
constexpr char kTicket = 'T';    // leader: version, digest of the program, subject
constexpr char kReady = 'R';     // helper: its threads (int32)
constexpr char kBlock = 'W';     // leader: job, first task, tasks, topic, questions
constexpr char kAnswers = 'A';   // helper: job, first task, tasks, answers
constexpr char kDropped = 'C';   // leader: the job that nobody waits for any more
constexpr char kStopped = 'S';   // helper: it was told to stop
constexpr char kFinished = 'F';  // leader: no more tasks

constexpr std::uint64_t kNoJob = 0;  // a team's first job is number 1
constexpr std::int64_t kMostInBlock = 64;
// A thread without a task looks again after so long whether one came up.
constexpr auto kUntilMore = std::chrono::microseconds(200);

void PutText(std::string& out, std::string_view text) {
  PutBytes(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

std::string TakeText(ByteCursor& in) {
  const auto size = in.Take<std::uint64_t>();
  in.Require(size <= in.left());
  if (!in.ok()) return {};
  std::string text(static_cast<std::size_t>(size), '\0');
  for (char& letter : text) letter = in.Take<char>();
  return text;
}

bool Is(const TeamMessage& message, char kind) {
  return !message.bytes.empty() && message.bytes[0] == kind;
}

ByteCursor Behind(const TeamMessage& message) {
  return ByteCursor(std::string_view(message.bytes).substr(1));
}

}  // namespace

// ---- leader -------------------------------------------------------------------------------------

// The tasks of one call of Run. Every task is taken once, by a thread here or into a block.
struct TaskTeam::Round {
  struct Block {
    int rank = 0;
    std::int64_t count = 0;
  };

  explicit Round(const TeamTasks& all) : tasks(all), count(all.count) {}
  std::int64_t Take(std::int64_t most, std::int64_t& first) {
    first = next.load();
    std::int64_t taken = 0;
    do {
      taken = std::min(most, count - first);
    } while (taken > 0 && !next.compare_exchange_weak(first, first + taken));
    return std::max<std::int64_t>(taken, 0);
  }
  // A block that keeps a process busy but leaves enough for the others.
  std::int64_t BlockSize() const {
    return std::clamp<std::int64_t>((count - next) / (2 * lanes), 1, kMostInBlock);
  }
  // Tasks that threads here are about to take.
  std::int64_t LeftToThreadsHere() const {
    if (tasks.more) return own - doing;
    return count <= own ? count.load() : 0;
  }
  // Whether all tasks are done and no others came up.
  bool IsDone() {
    if (done < count) return false;
    if (!tasks.more) return true;
    count = tasks.more();
    return done == count;
  }

  const TeamTasks& tasks;
  std::atomic<std::int64_t> count;  // of tasks by now
  std::atomic<std::int64_t> next = 0, done = 0;
  std::atomic<bool> ended = false;
  std::atomic<int> working = 0;  // threads here that are not done
  std::atomic<int> doing = 0;    // those of them that are doing a task
  int own = 0;                   // threads here
  std::int64_t lanes = 1;        // threads of all processes
  std::map<std::int64_t, Block> away;
  std::vector<int> blocks;  // away, by rank
};

Result<std::unique_ptr<TaskTeam>> TaskTeam::Gather(Team& team, const std::string& subject,
                                                   std::stop_token stop) {
  std::unique_ptr<TaskTeam> made(new TaskTeam(team, std::move(stop)));
  made->threads_.assign(static_cast<std::size_t>(team.size()), 0);
  const ProgramTag program = ProgramTag::OfThisProcess();
  std::string ticket(1, kTicket);
  for (const std::string& text : {program.version, program.digest, subject}) PutText(ticket, text);
  for (int rank = 1; rank < team.size(); ++rank) made->Send(rank, ticket);
  TeamPause pause;
  for (int waiting = team.size() - 1; waiting > 0 && !made->stop_.stop_requested();) {
    const std::optional<TeamMessage> message = team.Receive();
    if (!message) {
      pause.Wait(/*busy=*/false);
      continue;
    }
    pause.Reset();
    if (const auto reason = GaveUp(*message)) return *reason;
    if (Is(*message, kStopped)) made->stop_.request_stop();
    if (!Is(*message, kReady)) continue;  // an answer that came too late
    ByteCursor in = Behind(*message);
    const auto threads = in.Take<std::int32_t>();
    if (!in.ok() || threads < 1) return InternalError("a helper has no threads");
    made->threads_[static_cast<std::size_t>(message->from)] = threads;
    --waiting;
  }
  return made;
}

TaskTeam::~TaskTeam() {
  for (int rank = 1; rank < team_.size(); ++rank) Send(rank, std::string(1, kFinished));
}

void TaskTeam::Send(int rank, std::string bytes) {
  ++traffic_.messages;
  traffic_.bytes += static_cast<std::int64_t>(bytes.size());
  team_.Send(rank, std::move(bytes));
}

// A helper has a block for each thread, and one more as long as there are many tasks.
void TaskTeam::HandOut(Round& round) {
  for (std::size_t rank = 1; rank < threads_.size(); ++rank) {
    while (true) {
      const std::int64_t waiting = round.count - round.next;
      if (waiting <= round.LeftToThreadsHere()) return;  // they are begun here at once
      const bool many = waiting >= 2 * round.lanes;
      const int most = round.tasks.whole_process ? 1 : threads_[rank] + (many ? 1 : 0);
      if (round.blocks[rank] >= most) break;
      std::int64_t first = 0;
      const std::int64_t count = round.Take(round.BlockSize(), first);
      if (count == 0) return;
      std::string bytes(1, kBlock);
      PutBytes(bytes, job_);
      PutBytes(bytes, first);
      PutBytes(bytes, count);
      PutText(bytes, round.tasks.topic);
      for (std::int64_t task = first; task < first + count; ++task) round.tasks.ask(task, bytes);
      round.away[first] = {static_cast<int>(rank), count};
      ++round.blocks[rank];
      Send(static_cast<int>(rank), std::move(bytes));
    }
  }
}

Status TaskTeam::TakeIn(const TeamMessage& message, Round& round) {
  ++traffic_.messages;
  traffic_.bytes += static_cast<std::int64_t>(message.bytes.size());
  if (const auto reason = GaveUp(message)) return *reason;
  if (Is(message, kStopped)) stop_.request_stop();
  if (!Is(message, kAnswers)) return Ok();
  ByteCursor in = Behind(message);
  if (in.Take<std::uint64_t>() != job_) return Ok();  // too late
  const auto first = in.Take<std::int64_t>();
  const auto count = in.Take<std::int64_t>();
  const auto block = round.away.find(first);
  const bool asked = block != round.away.end() && block->second.rank == message.from &&
                     block->second.count == count;
  if (!asked) return InternalError("a helper answered what nobody had asked it");
  for (std::int64_t task = first; task < first + count; ++task) {
    if (!round.tasks.take(task, in) || !in.ok()) {
      return InternalError("a helper's answer is damaged");
    }
  }
  if (in.left() != 0) return InternalError("a helper's answer is longer than it should be");
  round.away.erase(block);
  --round.blocks[static_cast<std::size_t>(message.from)];
  round.done += count;
  traffic_.tasks_away += count;
  return Ok();
}

Result<bool> TaskTeam::Run(const TeamTasks& tasks, int threads) {
  ++job_;
  Round round(tasks);
  round.blocks.assign(threads_.size(), 0);
  const int lanes_here = tasks.whole_process ? 1 : EffectiveThreads(threads);
  round.own =
      tasks.more ? lanes_here : static_cast<int>(std::min<std::int64_t>(lanes_here, tasks.count));
  round.lanes = lanes_here;
  for (const int of_helper : threads_) {
    round.lanes += tasks.whole_process ? std::min(of_helper, 1) : of_helper;
  }
  const auto work_here = [&](int worker) {
    std::int64_t task = 0;
    while (!round.ended) {
      if (tasks.expired()) round.ended = true;
      if (round.ended) break;
      ++round.doing;
      const bool taken = round.Take(1, task) > 0;
      if (taken) {
        tasks.here(task, worker);
        ++round.done;
      }
      --round.doing;
      if (taken) continue;
      if (!tasks.more) break;
      std::this_thread::sleep_for(kUntilMore);
    }
    --round.working;
  };
  Status status;
  {
    round.working = round.own;
    std::vector<std::jthread> workers;
    for (int w = 0; w < round.own; ++w) workers.emplace_back(work_here, w);
    TeamPause pause;
    while (status.ok() && !round.ended && !round.IsDone()) {
      if (tasks.more) round.count = tasks.more();
      HandOut(round);
      const std::optional<TeamMessage> message = team_.Receive();
      if (message) {
        pause.Reset();
        status = TakeIn(*message, round);
        continue;
      }
      if (tasks.expired() || stop_.stop_requested()) round.ended = true;
      if (tasks.meanwhile) tasks.meanwhile();
      pause.Wait(round.working > 0);
    }
    round.ended = true;
  }
  if (!round.away.empty()) {
    std::string dropped(1, kDropped);
    PutBytes(dropped, job_);
    for (int rank = 1; rank < team_.size(); ++rank) Send(rank, dropped);
  }
  if (!status.ok()) return status.error();
  traffic_.tasks += round.count;
  return round.done == round.count;
}

std::int64_t TaskTeam::Lanes(int threads) const {
  return std::accumulate(threads_.begin(), threads_.end(), std::int64_t{EffectiveThreads(threads)});
}

Status DoTasks(TaskTeam* team, TeamTasks tasks,
               const std::function<Status(std::int64_t task, int worker)>& here, int threads,
               const std::stop_token& stop) {
  if (team == nullptr) {
    return ParallelFor(tasks.count, tasks.whole_process ? 1 : threads, stop, here);
  }
  std::mutex mutex;
  Status failed = Ok();
  std::atomic<bool> over = false;
  tasks.here = [&](std::int64_t task, int worker) {
    Status done = here(task, worker);
    if (done.ok()) return;
    const std::lock_guard lock(mutex);
    if (failed.ok()) failed = std::move(done);
    over = true;
  };
  tasks.expired = [&, expired = std::move(tasks.expired)] {
    return over || stop.stop_requested() || team->stop().stop_requested() || (expired && expired());
  };
  LUCID_ASSIGN(const bool all, team->Run(tasks, threads));
  LUCID_TRY(failed);
  return all ? Ok() : Status(Interrupted("stopped on request"));
}

// ---- helper -------------------------------------------------------------------------------------

namespace {

struct Block {
  std::uint64_t job = 0;
  std::int64_t first = 0, count = 0;
  std::string topic, questions;
};

std::optional<Block> ReadBlock(const TeamMessage& message) {
  ByteCursor in = Behind(message);
  Block block;
  block.job = in.Take<std::uint64_t>();
  block.first = in.Take<std::int64_t>();
  block.count = in.Take<std::int64_t>();
  block.topic = TakeText(in);
  if (!in.ok() || block.count < 1) return std::nullopt;
  block.questions = message.bytes.substr(message.bytes.size() - in.left());
  return block;
}

// The threads of a helper, and the blocks that wait for them.
class Desk {
 public:
  Desk(Team& team, int threads, const TeamService& service) : team_(team), service_(service) {
    for (int w = 0; w < threads; ++w) {
      workers_.emplace_back([this, w](const std::stop_token& end) { Work(w, end); });
    }
  }
  ~Desk() { Drop(); }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  bool busy() const { return busy_ > 0; }

  // Errors: of the service, once the tasks of another job are over.
  Status Put(Block block) {
    if (block.job != job_) {
      Drop();
      job_ = block.job;
      dropped_ = std::stop_source();
      LUCID_TRY(service_.begin(block.topic, dropped_.get_token()));
    }
    const std::lock_guard lock(mutex_);
    ++busy_;
    waiting_.push_back(std::move(block));
    changed_.notify_one();
    return Ok();
  }
  // Nobody waits for this job any more.
  void Drop(std::uint64_t job) {
    if (job == job_) Drop();
  }
  // Nobody waits for anything any more. Returns when no task is being done. The next block begins a
  // job, whatever its number: another leader's team counts its jobs anew.
  void Drop() {
    dropped_.request_stop();
    std::unique_lock lock(mutex_);
    busy_ -= static_cast<int>(waiting_.size());
    waiting_.clear();
    finished_.wait(lock, [this] { return busy_ == 0; });
    job_ = kNoJob;
  }

 private:
  void Work(int worker, const std::stop_token& end) {
    while (true) {
      Block block;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, end, [this] { return !waiting_.empty(); });
        if (waiting_.empty()) return;
        block = std::move(waiting_.front());
        waiting_.pop_front();
      }
      const Status status = Answer(block, worker);
      if (!status.ok()) team_.Send(0, GivingUp(team_, status.error()));
      const std::lock_guard lock(mutex_);
      --busy_;
      finished_.notify_all();
    }
  }
  Status Answer(const Block& block, int worker) {
    std::string bytes(1, kAnswers);
    PutBytes(bytes, block.job);
    PutBytes(bytes, block.first);
    PutBytes(bytes, block.count);
    ByteCursor in(block.questions);
    for (std::int64_t n = 0; n < block.count; ++n) {
      if (dropped_.stop_requested()) return Ok();
      LUCID_TRY(service_.answer(in, worker, bytes));
    }
    // What was dropped in the middle of a task is no answer.
    if (!dropped_.stop_requested()) team_.Send(0, std::move(bytes));
    return Ok();
  }

  Team& team_;
  const TeamService& service_;
  std::uint64_t job_ = kNoJob;
  std::stop_source dropped_;   // changes only while no task is being done
  std::atomic<int> busy_ = 0;  // blocks that wait or are worked on
  std::mutex mutex_;
  std::condition_variable_any changed_, finished_;
  std::deque<Block> waiting_;
  std::vector<std::jthread> workers_;  // the last one: they end before what they use
};

Status CheckTicket(const TeamMessage& message, const std::string& subject) {
  if (!Is(message, kTicket)) return InternalError("the leader's first word is none");
  ByteCursor in = Behind(message);
  ProgramTag leader;
  leader.version = TakeText(in);
  leader.digest = TakeText(in);
  const std::string theirs = TakeText(in);
  LUCID_TRY(CheckLeadersProgram(leader));
  if (!in.ok()) return InternalError("the leader's ticket is damaged");
  if (theirs == subject) return Ok();
  return Mismatch(fmt::format("what is here is not what the leader works on: '{}' here, '{}' there",
                              subject, theirs));
}

}  // namespace

Status HelpTaskTeam(Team& team, const std::string& subject, int threads, const TeamService& service,
                    std::stop_token stop) {
  threads = EffectiveThreads(threads);
  Desk desk(team, threads, service);
  bool gathered = false, stopped = false;
  TeamPause pause;
  while (!team.is_over()) {
    if (stop.stop_requested() && !stopped) {
      stopped = true;
      desk.Drop();
      team.Send(0, std::string(1, kStopped));
    }
    const std::optional<TeamMessage> message = team.Receive();
    if (!message) {
      pause.Wait(desk.busy());
      continue;
    }
    pause.Reset();
    if (!gathered) {
      LUCID_TRY(CheckTicket(*message, subject));
      gathered = true;
      std::string ready(1, kReady);
      PutBytes(ready, static_cast<std::int32_t>(threads));
      team.Send(0, std::move(ready));
      if (stopped) team.Send(0, std::string(1, kStopped));
    } else if (Is(*message, kFinished)) {
      desk.Drop();
      gathered = false;
    } else if (Is(*message, kDropped)) {
      ByteCursor in = Behind(*message);
      desk.Drop(in.Take<std::uint64_t>());
    } else if (std::optional<Block> block = ReadBlock(*message); block && Is(*message, kBlock)) {
      if (!stopped) LUCID_TRY(desk.Put(std::move(*block)));
    } else {
      return InternalError("the leader's message is none");
    }
  }
  return Ok();
}

}  // namespace lucid
