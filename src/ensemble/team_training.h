// One training by several processes: the leader has the run and hands out networks, helpers make
// them. What the run is, and every byte of it, does not depend on how many there are.
#pragma once

#include <memory>

#include "ensemble/builder.h"
#include "lucid/base/team.h"

namespace lucid {

// The leader's side.
class TeamSource final : public NetworkSource {
 public:
  // Tells every helper what the job is and waits until all are ready. Errors: a helper whose
  // program, data or options are not the leader's, by its name. `own`: what makes networks here.
  static Result<std::unique_ptr<TeamSource>> Gather(Team& team, const Job& job,
                                                    const NetworkSource& own);
  // Tells the helpers that this training is finished.
  ~TeamSource() override;
  TeamSource(const TeamSource&) = delete;
  TeamSource& operator=(const TeamSource&) = delete;

  std::int64_t lanes() const override { return own_.lanes(); }
  std::string verb() const override { return own_.verb(); }
  NetworkMaker maker() const override { return own_.maker(); }
  Status Make(std::span<const std::int64_t> left_out, std::span<float> out,
              std::stop_token stop) const override {
    return own_.Make(left_out, out, stop);
  }
  Status MakeAll(std::span<const std::int64_t> left_out, std::int64_t parameters, int threads,
                 std::stop_token stop, const Taker& taker) const override;

 private:
  TeamSource(Team& team, const NetworkSource& own) : team_(team), own_(own) {}

  Team& team_;
  const NetworkSource& own_;
  std::vector<int> room_;  // by rank: how many groups a helper takes at a time; 0 for the leader
};

// The job as the leader described it, if `bytes` does so. Errors: another program or version.
struct JobTicket {
  RunKeys keys;
  Digest run_key, order;
};
Result<JobTicket> ReadTicket(const std::string& bytes);

// Waits for the leader's first message. None: the leader has ended without one. Errors: a stop.
Result<std::optional<std::string>> AwaitTicket(Team& team, std::stop_token stop);

// The helper's side, once it has a job: makes networks until the leader says that it is finished.
// Errors: the job is not the ticket's; of `source`; a stop.
Status HelpMaking(Team& team, const Job& job, const JobTicket& ticket, const NetworkSource& source);

}  // namespace lucid
