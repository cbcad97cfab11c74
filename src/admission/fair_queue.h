// Work for many clients on a few threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lucid {

// Clients take turns by the time that their tasks have taken: the next task is one of the client
// that has had least of it since its tasks began to wait. So a client that asks a lot waits for
// itself, and somebody who asks seldom is next. A task is not interrupted: whoever has much to do
// works for kSlice and submits the rest anew. Thread-safe.
class FairQueue {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kSlice{2};
  using Task = std::function<void()>;
  // Gets what a task has thrown, on the task's thread.
  using OnError = std::function<void(std::string_view what)>;

  // threads 0: Submit runs the task itself, and throws what it throws.
  FairQueue(int threads, OnError on_error);
  ~FairQueue();  // runs what waits
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  void Submit(std::string_view client, Task task);
  // Waits until nothing waits or runs. Not within a task.
  void Settle();

 private:
  // Of a client with tasks that wait or run.
  struct Turn {
    std::deque<Task> waiting;
    std::int64_t running = 0;
    Clock::duration used{0};  // on the clock of now_
  };
  using Turns = std::map<std::string, Turn, std::less<>>;

  void Run();
  Turns::iterator Next();  // end: nothing waits. Requires: mutex_ is held

  OnError on_error_;
  std::mutex mutex_;
  std::condition_variable wake_, settled_;
  Turns turns_;
  Clock::duration now_{0};  // what a client that comes now counts as having used
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lucid
