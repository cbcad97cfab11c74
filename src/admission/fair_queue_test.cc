#include "admission/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace lucid {
namespace {

class FairQueueTest : public testing::Test {
 protected:
  FairQueue::OnError OnError() {
    return [this](std::string_view what) { errors_ += what; };
  }
  // A task that keeps its thread until it is let go.
  FairQueue::Task Block() {
    return [this] { gate_.get_future().wait(); };
  }
  void LetGo() { gate_.set_value(); }
  // Notes that it ran, after `work` of time.
  FairQueue::Task Note(const std::string& name, FairQueue::Clock::duration work = {}) {
    return [this, name, work] {
      const auto end = FairQueue::Clock::now() + work;
      while (FairQueue::Clock::now() < end) {
      }
      const std::lock_guard lock(mutex_);
      order_ += name;
    };
  }

  std::promise<void> gate_;
  std::mutex mutex_;
  std::string order_, errors_;
};

TEST_F(FairQueueTest, WhoAsksSeldomIsNext) {
  FairQueue queue(1, OnError());
  queue.Submit("x", Block());
  for (int i = 0; i < 6; ++i) queue.Submit("greedy", Note("g", FairQueue::kSlice));
  queue.Submit("modest", Note("m"));
  queue.Submit("another", Note("a"));
  LetGo();
  queue.Settle();
  ASSERT_EQ(order_.size(), 8);
  EXPECT_LE(order_.find('m'), 2) << order_ << ": after one task of the greedy client at most";
  EXPECT_LE(order_.find('a'), 2) << order_;
}

// The processor time counts, not the number of tasks.
TEST_F(FairQueueTest, ClientsGetTheSameTimeAndNotTheSameNumberOfTasks) {
  FairQueue queue(1, OnError());
  queue.Submit("x", Block());
  for (int i = 0; i < 20; ++i) queue.Submit("long", Note("L", 4 * FairQueue::kSlice));
  for (int i = 0; i < 20; ++i) queue.Submit("short", Note("s", FairQueue::kSlice / 4));
  LetGo();
  queue.Settle();
  // A fair share would be 16 short ones for each long one; alternating would be one.
  const std::size_t last_short = order_.rfind('s');
  const auto longs = std::count(order_.begin(), order_.begin() + last_short, 'L');
  EXPECT_LE(longs, 10) << order_;
}

TEST_F(FairQueueTest, TasksOfOneClientRunInOrderOnOneThread) {
  FairQueue queue(1, OnError());
  for (const char* name : {"1", "2", "3"}) queue.Submit("a", Note(name));
  queue.Settle();
  EXPECT_EQ(order_, "123");
}

TEST_F(FairQueueTest, WhatATaskThrowsIsToldAndTheOthersRun) {
  FairQueue queue(1, OnError());
  queue.Submit("a", [] { throw std::runtime_error("no memory"); });
  queue.Submit("a", Note("1"));
  queue.Settle();
  EXPECT_EQ(order_, "1");
  EXPECT_EQ(errors_, "no memory");
}

TEST_F(FairQueueTest, TheEndRunsWhatWaits) {
  {
    FairQueue queue(1, OnError());
    queue.Submit("x", Block());
    queue.Submit("a", [&] { queue.Submit("a", Note("2")); });
    queue.Submit("b", Note("1"));
    LetGo();
  }
  EXPECT_EQ(order_.size(), 2);
}

TEST_F(FairQueueTest, WithoutThreadsSubmitRunsTheTask) {
  FairQueue queue(0, OnError());
  queue.Submit("a", Note("1"));
  EXPECT_EQ(order_, "1");
  EXPECT_THROW(queue.Submit("a", [] { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace lucid
