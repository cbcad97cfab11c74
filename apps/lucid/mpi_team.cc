// MPI as it comes from Debian, one thread at a time, messages without waiting.
#define OMPI_SKIP_MPICXX 1
#include <fmt/format.h>
#include <mpi.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <list>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>

#include "command.h"
#include "join_team.h"

namespace lucid::app {
namespace {

constexpr int kMessageTag = 1, kOverTag = 2, kByeTag = 3;

class MpiTeam final : public Team {
 public:
  explicit MpiTeam(int* count) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    char host[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    MPI_Get_processor_name(host, &length);
    name_ =
        fmt::format("rank {} on {}", rank_, std::string(host, static_cast<std::size_t>(length)));
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, count);
    MPI_Comm_free(&here);
  }
  // The leader says that it is over. Helpers answer when all that they sent has been taken, and
  // then all leave MPI together.
  ~MpiTeam() override {
    if (rank_ == 0) {
      for (int other = 1; other < size_; ++other) Post(other, kOverTag, "");
      for (int here = size_ - 1; here > 0;) {
        Discard();
        std::lock_guard lock(mutex_);
        if (Take(kByeTag)) --here;
      }
    } else {
      while (!is_over() || Discard()) {
      }
      Post(0, kByeTag, "");
    }
    while (Discard()) {
    }
    MPI_Finalize();
  }
  MpiTeam(const MpiTeam&) = delete;
  MpiTeam& operator=(const MpiTeam&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return name_; }
  void Send(int to, std::string bytes) override { Post(to, kMessageTag, std::move(bytes)); }

  std::optional<TeamMessage> Receive() override {
    std::lock_guard lock(mutex_);
    DropSent();
    return Take(kMessageTag);
  }
  bool is_over() override {
    std::lock_guard lock(mutex_);
    if (!over_ && rank_ != 0) over_ = Take(kOverTag).has_value();
    return over_;
  }

 private:
  struct Pending {
    std::string bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void Post(int to, int tag, std::string bytes) {
    std::lock_guard lock(mutex_);
    DropSent();
    Pending& pending = sent_.emplace_back();
    pending.bytes = std::move(bytes);
    MPI_Isend(pending.bytes.data(), static_cast<int>(pending.bytes.size()), MPI_BYTE, to, tag,
              MPI_COMM_WORLD, &pending.request);
  }
  // Takes what nobody will read, and waits a moment. Returns whether something that was sent from
  // here is still on its way.
  bool Discard() {
    while (Receive()) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::lock_guard lock(mutex_);
    DropSent();
    return !sent_.empty();
  }
  // What has arrived may be forgotten. Requires: the lock.
  void DropSent() {
    sent_.remove_if([](Pending& pending) {
      int arrived = 0;
      MPI_Test(&pending.request, &arrived, MPI_STATUS_IGNORE);
      return arrived != 0;
    });
  }
  std::optional<TeamMessage> Take(int tag) {
    int there = 0, length = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, &handle, &status);
    if (there == 0) return std::nullopt;
    MPI_Get_count(&status, MPI_BYTE, &length);
    TeamMessage message{status.MPI_SOURCE, std::string(static_cast<std::size_t>(length), '\0')};
    MPI_Mrecv(message.bytes.data(), length, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
    return message;
  }

  int rank_ = 0, size_ = 1;
  std::string name_;
  std::mutex mutex_;
  std::list<Pending> sent_;
  bool over_ = false;
};

// Ends this process if the processes of the job have not met in time: MPI waits for ever for one
// that has died before.
class MeetingGuard {
 public:
  MeetingGuard() : thread_([](const std::stop_token& met) { Watch(met); }) {}

 private:
  static void Watch(const std::stop_token& met) {
    int seconds = 300;
    if (const char* const text = std::getenv("LUCID_MPI_TIMEOUT")) {
      std::from_chars(text, text + std::string_view(text).size(), seconds);
    }
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(lock, met, std::chrono::seconds(seconds),
                                           [] { return false; });
    if (met.stop_requested()) return;
    Complain(
        fmt::format("lucid: the processes of this job have not met within {} s (one may have died, "
                    "or cannot be reached): start the job again; LUCID_MPI_TIMEOUT=SECONDS waits "
                    "longer",
                    seconds));
    std::_Exit(kBadInput);
  }
  std::jthread thread_;
};

bool StartedByMpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<Team>> JoinTeam(int& processes_here) {
  processes_here = 1;
  if (!StartedByMpi()) return std::unique_ptr<Team>();
  const MeetingGuard guard;
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (provided < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    return InvalidInput("this MPI lets no other thread than the first one send messages");
  }
  return std::unique_ptr<Team>(std::make_unique<MpiTeam>(&processes_here));
}

}  // namespace lucid::app
