// A team whose processes are threads with queues between them. (tests/e2e and tests/cluster try
// real processes under mpirun.)
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lucid/base/team.h"

namespace lucid {

// The mail of all.
struct Post {
  explicit Post(int size) : boxes(static_cast<std::size_t>(size)) {}
  std::mutex mutex;
  std::vector<std::deque<TeamMessage>> boxes;
  bool over = false;
};

class LocalTeam final : public Team {
 public:
  LocalTeam(Post& post, int rank) : post_(post), rank_(rank) {}
  ~LocalTeam() override {
    std::lock_guard lock(post_.mutex);
    if (rank_ == 0) post_.over = true;
  }
  LocalTeam(const LocalTeam&) = delete;
  LocalTeam& operator=(const LocalTeam&) = delete;
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(post_.boxes.size()); }
  std::string name() const override { return "rank " + std::to_string(rank_); }
  void Send(int to, std::string bytes) override {
    std::lock_guard lock(post_.mutex);
    post_.boxes[static_cast<std::size_t>(to)].push_back({rank_, std::move(bytes)});
  }
  std::optional<TeamMessage> Receive() override {
    std::lock_guard lock(post_.mutex);
    auto& box = post_.boxes[static_cast<std::size_t>(rank_)];
    if (box.empty()) return std::nullopt;
    TeamMessage message = std::move(box.front());
    box.pop_front();
    return message;
  }
  bool is_over() override {
    std::lock_guard lock(post_.mutex);
    return post_.over;
  }

 private:
  Post& post_;
  const int rank_;
};

// A leader with helpers, each of which runs `help` and tells the leader if that fails.
class LocalTeamOf {
 public:
  using Help = std::function<Status(Team& team)>;
  LocalTeamOf(int size, const Help& help)
      : post_(size), leader_(std::make_unique<LocalTeam>(post_, 0)) {
    for (int rank = 1; rank < size; ++rank) {
      helpers_.emplace_back([this, rank, help] {
        LocalTeam team(post_, rank);
        const Status status = help(team);
        if (!status.ok()) team.Send(0, GivingUp(team, status.error()));
      });
    }
  }
  ~LocalTeamOf() { leader_.reset(); }  // helpers wait for its end
  LocalTeamOf(const LocalTeamOf&) = delete;
  LocalTeamOf& operator=(const LocalTeamOf&) = delete;

  Team& leader() { return *leader_; }

 private:
  Post post_;
  std::unique_ptr<LocalTeam> leader_;
  std::vector<std::jthread> helpers_;
};

}  // namespace lucid
