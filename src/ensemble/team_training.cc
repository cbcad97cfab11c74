#include "ensemble/team_training.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/parallel.h"

namespace lucid {
namespace {

// The first byte of a message.
constexpr char kTicket = 'T';    // leader: what the job is (JSON)
constexpr char kReady = 'R';     // helper: how many groups it takes at a time (int64)
constexpr char kWork = 'W';      // leader: first network of the group, units to leave out (int64)
constexpr char kMade = 'M';      // helper: first network of the group (int64), parameters (float32)
constexpr char kFinished = 'F';  // leader: no more work

constexpr auto kPause = std::chrono::microseconds(500);  // between two looks at what has arrived

void Append(std::string& bytes, const void* data, std::size_t size) {
  bytes.append(static_cast<const char*>(data), size);
}

std::string WorkMessage(std::int64_t first, std::span<const std::int64_t> left_out) {
  std::string bytes(1, kWork);
  Append(bytes, &first, sizeof first);
  Append(bytes, left_out.data(), left_out.size_bytes());
  return bytes;
}

std::string MadeMessage(std::int64_t first, std::span<const float> weights) {
  std::string bytes(1, kMade);
  Append(bytes, &first, sizeof first);
  Append(bytes, weights.data(), weights.size_bytes());
  return bytes;
}

// The numbers behind the first byte. Errors: a length that is not theirs.
template <typename Number>
Result<std::vector<Number>> Numbers(std::string_view bytes) {
  if (bytes.size() % sizeof(Number) != 0) return InternalError("a message of a wrong length");
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

struct Work {
  std::int64_t first = 0;
  std::vector<std::int64_t> left_out;
};

Result<Work> ReadWork(std::string_view bytes) {
  LUCID_ASSIGN(const std::vector<std::int64_t> numbers, Numbers<std::int64_t>(bytes.substr(1)));
  if (numbers.size() < 2) return InternalError("work without networks");
  return Work{numbers[0], {numbers.begin() + 1, numbers.end()}};
}

std::string Hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", std::to_integer<int>(b));
  return text;
}

Result<std::optional<Secret>> SecretFromHex(const std::string& text) {
  if (text.empty()) return std::optional<Secret>();
  // A digest has as many bytes and the same spelling.
  const Result<Digest> bytes = Digest::FromHex(text);
  if (!bytes.ok()) return InternalError("a ticket with a damaged secret");
  return std::optional<Secret>(Secret(std::span<const std::uint8_t, 32>(bytes->bytes)));
}

std::string TicketMessage(const Job& job) {
  const RunKeys& keys = job.keys;
  const ProgramTag program = ProgramTag::OfThisProcess();
  const nlohmann::json ticket = {{"version", program.version},
                                 {"program", program.digest},
                                 {"seed", keys.seed},
                                 {"secret", keys.secret ? Hex(keys.secret->bytes()) : ""},
                                 {"run_key", job.spec.run_key.Hex()},
                                 {"order", job.dataset.train_order.Hex()}};
  return kTicket + ticket.dump();
}

Status CheckTicket(const Job& job, const JobTicket& ticket) {
  if (job.spec.run_key != ticket.run_key) {
    return Mismatch(
        fmt::format("'{}' holds other data here than at the leader, or the command is "
                    "another one",
                    job.dataset.directory));
  }
  if (job.dataset.train_order != ticket.order) {
    return Mismatch(fmt::format("the rows of '{}' stand in another order here than at the leader",
                                job.dataset.directory));
  }
  return Ok();
}

// Work that waits, and networks that are made, of a helper.
class Desk {
 public:
  void Put(Work work) {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    changed_.notify_one();
  }
  std::optional<Work> Take(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [&] { return !waiting_.empty(); });
    if (waiting_.empty() || stop.stop_requested()) return std::nullopt;
    Work work = std::move(waiting_.front());
    waiting_.pop_front();
    return work;
  }
  void Finish(Result<std::string> message) {
    std::lock_guard lock(mutex_);
    finished_.push_back(std::move(message));
  }
  std::optional<Result<std::string>> Finished() {
    std::lock_guard lock(mutex_);
    if (finished_.empty()) return std::nullopt;
    Result<std::string> message = std::move(finished_.front());
    finished_.pop_front();
    return message;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Work> waiting_;
  std::deque<Result<std::string>> finished_;
};

// The leader's group may hold more networks than this machine's vectors have lanes.
Result<std::string> MakeGroup(const NetworkSource& source, const Work& work,
                              std::int64_t parameters, const std::stop_token& stop) {
  std::vector<float> weights(work.left_out.size() * static_cast<std::size_t>(parameters));
  const auto lanes = static_cast<std::size_t>(source.lanes());
  for (std::size_t at = 0; at < work.left_out.size(); at += lanes) {
    const std::size_t size = std::min(lanes, work.left_out.size() - at);
    const auto width = static_cast<std::size_t>(parameters);
    LUCID_TRY(source.Make(std::span(work.left_out).subspan(at, size),
                          std::span(weights).subspan(at * width, size * width), stop));
  }
  return MadeMessage(work.first, weights);
}

}  // namespace

Result<JobTicket> ReadTicket(const std::string& bytes) {
  if (bytes.empty() || bytes[0] != kTicket) return InternalError("the leader's first word is none");
  const nlohmann::json json = nlohmann::json::parse(bytes.substr(1), nullptr, false);
  if (!json.is_object()) return Mismatch("the leader runs another program");
  LUCID_TRY(CheckLeadersProgram({json.value("version", ""), json.value("program", "")}));
  JobTicket ticket;
  ticket.keys.seed = json.value("seed", std::uint64_t{0});
  LUCID_ASSIGN(ticket.keys.secret, SecretFromHex(json.value("secret", "")));
  LUCID_ASSIGN(ticket.run_key, Digest::FromHex(json.value("run_key", "")));
  LUCID_ASSIGN(ticket.order, Digest::FromHex(json.value("order", "")));
  return ticket;
}

Result<std::unique_ptr<TeamSource>> TeamSource::Gather(Team& team, const Job& job,
                                                       const NetworkSource& own) {
  std::unique_ptr<TeamSource> source(new TeamSource(team, own));
  source->room_.assign(static_cast<std::size_t>(team.size()), 0);
  const std::string ticket = TicketMessage(job);
  for (int rank = 1; rank < team.size(); ++rank) team.Send(rank, ticket);
  for (int waiting = team.size() - 1; waiting > 0;) {
    if (job.stop.stop_requested()) return Interrupted("stopped before all helpers were ready");
    const std::optional<TeamMessage> message = team.Receive();
    if (!message) {
      std::this_thread::sleep_for(kPause);
      continue;
    }
    if (const auto reason = GaveUp(*message)) return *reason;
    if (message->bytes.empty() || message->bytes[0] != kReady) continue;
    LUCID_ASSIGN(const auto room, Numbers<std::int64_t>(message->bytes.substr(1)));
    source->room_[static_cast<std::size_t>(message->from)] = static_cast<int>(room.at(0));
    --waiting;
  }
  return source;
}

TeamSource::~TeamSource() {
  for (int rank = 1; rank < team_.size(); ++rank) team_.Send(rank, std::string(1, kFinished));
}

Status TeamSource::MakeAll(std::span<const std::int64_t> left_out, std::int64_t parameters,
                           int threads, std::stop_token stop, const Taker& taker) const {
  const std::int64_t lanes = own_.lanes();
  const std::int64_t groups = (std::ssize(left_out) + lanes - 1) / lanes;
  const auto group = [&](std::int64_t g) {
    return left_out.subspan(
        static_cast<std::size_t>(g * lanes),
        static_cast<std::size_t>(std::min(lanes, std::ssize(left_out) - g * lanes)));
  };
  std::atomic<std::int64_t> next{0}, made{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Status error;
  const auto fail = [&](const Status& status) {
    std::lock_guard lock(mutex);
    if (error.ok()) error = status;
    failed = true;
  };
  const auto work_here = [&] {
    while (!failed && !stop.stop_requested()) {
      const std::int64_t g = next++;
      if (g >= groups) return;
      std::vector<float> weights(group(g).size() * static_cast<std::size_t>(parameters));
      Status status = own_.Make(group(g), weights, stop);
      status = status.ok() ? taker.take(g * lanes, weights) : taker.fail(g * lanes, status.error());
      if (!status.ok()) return fail(status);
      ++made;
    }
  };
  std::vector<int> in_hand(room_.size());
  const auto hand_out = [&] {
    for (std::size_t rank = 1; rank < room_.size(); ++rank) {
      while (in_hand[rank] < room_[rank] && next < groups) {
        const std::int64_t g = next++;
        if (g >= groups) return;
        team_.Send(static_cast<int>(rank), WorkMessage(g * lanes, group(g)));
        ++in_hand[rank];
      }
    }
  };
  const auto take_in = [&](const TeamMessage& message) -> Status {
    if (const auto reason = GaveUp(message)) return *reason;
    if (message.bytes.size() < 1 + sizeof(std::int64_t) || message.bytes[0] != kMade) return Ok();
    std::int64_t first = 0;
    std::memcpy(&first, message.bytes.data() + 1, sizeof first);
    LUCID_ASSIGN(const auto weights,
                 Numbers<float>(std::string_view(message.bytes).substr(1 + sizeof first)));
    if (first < 0 || first % lanes != 0 || first / lanes >= groups ||
        weights.size() != group(first / lanes).size() * static_cast<std::size_t>(parameters)) {
      return InternalError("a helper sent networks that nobody asked for");
    }
    LUCID_TRY(taker.take(first, weights));
    --in_hand[static_cast<std::size_t>(message.from)];
    ++made;
    return Ok();
  };
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < EffectiveThreads(threads); ++i) workers.emplace_back(work_here);
    while (made < groups && !failed && !stop.stop_requested()) {
      hand_out();
      const std::optional<TeamMessage> message = team_.Receive();
      if (!message) {
        std::this_thread::sleep_for(kPause);
      } else if (const Status status = take_in(*message); !status.ok()) {
        fail(status);
      }
    }
  }
  if (!error.ok()) return error;
  if (made < groups) return Interrupted("stopped on request");
  return Ok();
}

Result<std::optional<std::string>> AwaitTicket(Team& team, std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (const std::optional<TeamMessage> message = team.Receive()) {
      return std::optional(message->bytes);
    }
    if (team.is_over()) return std::optional<std::string>();
    std::this_thread::sleep_for(kPause);
  }
  return Interrupted("stopped on request");
}

Status HelpMaking(Team& team, const Job& job, const JobTicket& ticket,
                  const NetworkSource& source) {
  LUCID_TRY(CheckTicket(job, ticket));
  const std::int64_t parameters = job.spec.architecture.parameters();
  const int threads = EffectiveThreads(job.options.threads);
  // One more group than threads: the next is there when one is finished.
  std::string ready(1, kReady);
  const std::int64_t room = threads + 1;
  Append(ready, &room, sizeof room);
  team.Send(0, std::move(ready));

  std::stop_source ended;
  const std::stop_callback stopped(job.stop, [&ended] { ended.request_stop(); });
  Desk desk;
  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      while (const std::optional<Work> work = desk.Take(ended.get_token())) {
        desk.Finish(MakeGroup(source, *work, parameters, ended.get_token()));
      }
    });
  }
  const auto serve = [&]() -> Status {
    while (!job.stop.stop_requested()) {
      if (std::optional<Result<std::string>> made = desk.Finished()) {
        LUCID_ASSIGN(std::string message, std::move(*made));
        team.Send(0, std::move(message));
      } else if (const std::optional<TeamMessage> message = team.Receive()) {
        if (message->bytes[0] == kFinished) return Ok();
        LUCID_ASSIGN(Work work, ReadWork(message->bytes));
        desk.Put(std::move(work));
      } else if (team.is_over()) {
        return Ok();
      } else {
        std::this_thread::sleep_for(kPause);
      }
    }
    return Interrupted("stopped on request");
  };
  const Status status = serve();
  ended.request_stop();  // networks that nobody waits for any more are given up
  return status;
}

}  // namespace lucid
