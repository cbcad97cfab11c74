// The bounds of every member over the whole domain, with their proofs: what an index is built of.
#include <algorithm>
#include <atomic>
#include <iterator>

#include "base/parallel.h"
#include "ensemble/engine_networks.h"
#include "native/bound_team.h"
#include "native/guard_proof.h"
#include "native/region_search.h"
#include "native/region_tasks.h"
#include "native/task_bytes.h"

namespace lucid {
namespace {

constexpr std::int64_t kBlock = 64;  // members of one task

Result<std::vector<ProofClosing>> ClaimsOf(const Ensemble& ensemble, const EngineNetworks& networks,
                                           MemberRange range, std::int32_t label,
                                           double member_error, int threads,
                                           const std::function<void(std::int64_t)>& done,
                                           const std::stop_token& stop) {
  const bool flat = ensemble.network().architecture.layers().size() == 1;
  BoxProof proof;
  LUCID_ASSIGN(proof.claims, BoundEachMember(networks.network(), networks.members(), range, label,
                                             member_error, threads, flat, done, stop));
  const Domain box = Domain::Of(DomainKind::kBox, ensemble.manifest().schema);
  LUCID_TRY(ConfirmClaims(ensemble, box, label, member_error, threads, stop, proof));
  return std::move(proof.claims);
}

// The same with the processes of a team, block by block.
Result<std::vector<ProofClosing>> ClaimsByTeam(const Ensemble& ensemble,
                                               const EngineNetworks& networks, std::int32_t label,
                                               double member_error, int threads,
                                               const std::function<void(std::int64_t)>& done,
                                               TaskTeam& team) {
  const std::int64_t members = ensemble.members();
  const auto range = [&](std::int64_t block) {
    return MemberRange{block * kBlock, std::min((block + 1) * kBlock, members)};
  };
  std::vector<Result<std::vector<ProofClosing>>> found(
      static_cast<std::size_t>((members + kBlock - 1) / kBlock), std::vector<ProofClosing>());
  std::atomic<std::int64_t> ready = 0;
  region_search::TaskTopic topic;
  topic.kind = region_search::TaskKind::kMembers;
  topic.label = label;
  topic.member_error = member_error;
  TeamTasks tasks;
  tasks.topic = topic.Bytes();
  tasks.count = std::ssize(found);
  tasks.ask = [&](std::int64_t block, std::string& out) {
    MemberRange asked = range(block);
    BytesOut question(out);
    question(asked.from, asked.to);
  };
  tasks.take = [&](std::int64_t block, ByteCursor& in) {
    BytesIn io(in);
    std::vector<ProofClosing> claims;
    List(io, claims);
    ++ready;
    found[static_cast<std::size_t>(block)] = std::move(claims);
    return io.ok();
  };
  tasks.here = [&](std::int64_t block, int) {
    found[static_cast<std::size_t>(block)] =
        ClaimsOf(ensemble, networks, range(block), label, member_error, 1, {}, team.stop());
    ++ready;
  };
  tasks.expired = [&] { return team.stop().stop_requested(); };
  tasks.meanwhile = [&] {
    if (done) done(std::min(ready * kBlock, members));
  };
  LUCID_ASSIGN(const bool all, team.Run(tasks, threads));
  if (!all) return Interrupted("stopped on request");
  std::vector<ProofClosing> claims;
  for (Result<std::vector<ProofClosing>>& block : found) {
    if (!block.ok()) return block.error();
    std::ranges::move(*block, std::back_inserter(claims));
  }
  return claims;
}

}  // namespace

Status AnswerMembers(const Ensemble& ensemble, const EngineNetworks& networks, std::int32_t label,
                     double member_error, const std::stop_token& stop, ByteCursor& in,
                     std::string& out) {
  MemberRange range;
  BytesIn question(in);
  question(range.from, range.to);
  question.Require(0 <= range.from && range.from < range.to && range.to <= ensemble.members());
  if (!question.ok()) return InternalError("the leader asked for members that are not there");
  auto claims = ClaimsOf(ensemble, networks, range, label, member_error, 1, {}, stop);
  if (!claims.ok()) {
    // Nobody waits for it any more.
    return claims.error().kind == ErrorKind::kInterrupted ? Ok() : Status(claims.error());
  }
  BytesOut answer(out);
  List(answer, *claims);
  return Ok();
}

Result<MemberBounds> BoundMembers(const Ensemble& ensemble, double member_error, int threads,
                                  const ProgressCallback& progress, std::stop_token stop,
                                  Team* team) {
  const EngineNetworks networks(ensemble);
  LUCID_ASSIGN(const auto helpers, GatherForBounds(team, ensemble, stop));
  const std::int64_t members = ensemble.members();
  const auto classes = static_cast<std::int32_t>(ensemble.network().architecture.classes());
  MemberBounds bounds;
  for (std::int32_t label = 0; label < classes; ++label) {
    const auto done = [&](std::int64_t count) {
      if (!progress) return;
      progress({"index", "bounds", label * members + count, classes * members, 0, ""});
    };
    BoxProof& proof = bounds.proofs.emplace_back();
    if (helpers) {
      LUCID_ASSIGN(proof.claims,
                   ClaimsByTeam(ensemble, networks, label, member_error, threads, done, *helpers));
    } else {
      LUCID_ASSIGN(proof.claims, ClaimsOf(ensemble, networks, {0, members}, label, member_error,
                                          threads, done, stop));
    }
    bounds.upper.push_back(UpperOfMembers(proof.claims, members, classes));
  }
  return bounds;
}

}  // namespace lucid
