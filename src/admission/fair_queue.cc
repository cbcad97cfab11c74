#include "admission/fair_queue.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace lucid {

FairQueue::FairQueue(int threads, OnError on_error) : on_error_(std::move(on_error)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

FairQueue::~FairQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void FairQueue::Submit(std::string_view client, Task task) {
  if (threads_.empty()) return task();
  {
    const std::lock_guard lock(mutex_);
    auto turn = turns_.find(client);
    if (turn == turns_.end()) {
      turn = turns_.emplace(client, Turn{}).first;
      turn->second.used = now_;
    }
    turn->second.waiting.push_back(std::move(task));
  }
  wake_.notify_one();
}

void FairQueue::Settle() {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [this] { return turns_.empty(); });
}

// A task that runs has used a slice in advance, so that no client gets all threads.
FairQueue::Turns::iterator FairQueue::Next() {
  auto next = turns_.end();
  Clock::duration least{0};
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    if (turn->second.waiting.empty()) continue;
    const Clock::duration used = turn->second.used + turn->second.running * kSlice;
    if (next == turns_.end() || used < least) next = turn, least = used;
  }
  return next;
}

void FairQueue::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto turn = Next();
    if (turn == turns_.end()) {
      if (ending_) return;  // tasks that run submit theirs on threads that go on
      wake_.wait(lock);
      continue;
    }
    Turn& client = turn->second;
    now_ = std::max(now_, client.used);
    Task task = std::move(client.waiting.front());
    client.waiting.pop_front();
    ++client.running;
    lock.unlock();
    const Clock::time_point start = Clock::now();
    try {
      task();
    } catch (const std::exception& e) {
      // Out of memory for one request: the others need not be gone with it.
      on_error_(e.what());
    }
    task = nullptr;  // what it holds is let go outside of the lock
    const Clock::duration spent = Clock::now() - start;
    lock.lock();
    --client.running;
    client.used += spent;
    if (client.running == 0 && client.waiting.empty()) {
      turns_.erase(turn);
      if (turns_.empty()) settled_.notify_all();
    }
  }
}

}  // namespace lucid
