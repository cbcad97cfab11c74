#include "base/task_team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "support/local_team.h"

namespace lucid {
namespace {

// The leader's teams come one after the other, and each counts its lists from 1. A helper that
// takes the first list of a later team for that of an earlier one answers nothing, or what another
// topic asks.
TEST(TaskTeam, AHelperServesOneTeamAfterTheOther) {
  constexpr std::int64_t kTasks = 200;
  LocalTeamOf processes(3, [](Team& helper) {
    std::string topic;
    const TeamService service{[&topic](std::string_view begun, const std::stop_token&) {
                                topic = begun;
                                return Ok();
                              },
                              [&topic](ByteCursor& in, int, std::string& out) {
                                PutBytes(out, in.Take<std::int64_t>() * std::stoll(topic));
                                return in.ok() ? Ok() : Status(InternalError("no question"));
                              }};
    return HelpTaskTeam(helper, "numbers", 1, service, {});
  });
  std::int64_t away = 0;
  for (const std::int64_t factor : {3, 5, 7, 11}) {
    const auto team = TaskTeam::Gather(processes.leader(), "numbers", {});
    ASSERT_TRUE(team.ok()) << team.error().message;
    std::vector<std::int64_t> found(kTasks, -1);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    TeamTasks tasks;
    tasks.topic = std::to_string(factor);
    tasks.count = kTasks;
    tasks.ask = [](std::int64_t task, std::string& out) { PutBytes(out, task); };
    tasks.take = [&](std::int64_t task, ByteCursor& in) {
      found[static_cast<std::size_t>(task)] = in.Take<std::int64_t>();
      return in.ok();
    };
    tasks.here = [&](std::int64_t task, int) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // the helpers get some, too
      found[static_cast<std::size_t>(task)] = task * factor;
    };
    tasks.expired = [&] { return std::chrono::steady_clock::now() > give_up; };
    const Result<bool> done = (*team)->Run(tasks, 1);
    ASSERT_TRUE(done.ok()) << done.error().message;
    ASSERT_TRUE(*done) << "helpers did not answer";
    for (std::int64_t task = 0; task < kTasks; ++task) {
      EXPECT_EQ(found[static_cast<std::size_t>(task)], task * factor);
    }
    away += (*team)->traffic().tasks_away;
  }
  EXPECT_GT(away, 0) << "the test has become easy";
}

}  // namespace
}  // namespace lucid
