#include "audit/recertified.h"

#include <algorithm>
#include <mutex>

#include "base/byte_fields.h"
#include "guard/packed_networks.h"

namespace lucid {
namespace {

// A point that every network so far agrees on.
struct OpenPoint {
  std::size_t index = 0;      // of the point
  std::vector<double> shift;  // logits of N_-i minus those of N
  std::int32_t label = 0;     // of N_-i
};

// One network at a time.
class Logits {
 public:
  explicit Logits(const Architecture& architecture) : networks_(architecture, 1) {}
  Status Take(const Network& network) { return networks_.Set(0, network.parameters); }
  std::span<const double> At(std::span<const float> x) {
    networks_.SetInput(x, memory_);
    return networks_.Logits(0, memory_);
  }

 private:
  PackedNetworks networks_;
  PassMemory memory_;
};

Result<std::vector<OpenPoint>> Prepare(const Ensemble& ensemble,
                                       std::span<const PointWithout> points, Logits& logits) {
  std::vector<OpenPoint> open;
  for (std::size_t i = 0; i < points.size(); ++i) {
    LUCID_TRY(logits.Take(ensemble.Member(points[i].member)));
    const auto without = logits.At(points[i].x);
    open.push_back({i, {without.begin(), without.end()}, LabelOf(without)});
  }
  LUCID_TRY(logits.Take(ensemble.network()));
  for (OpenPoint& point : open) {
    const auto with = logits.At(points[point.index].x);
    for (std::size_t c = 0; c < with.size(); ++c) point.shift[c] -= with[c];
  }
  return open;
}

// Points of one task. Each task looks at all members.
constexpr std::int64_t kPoints = 32;

Result<std::vector<char>> Noised(const Ensemble& ensemble, std::span<const PointWithout> points,
                                 const std::stop_token& stop) {
  Logits logits(ensemble.network().architecture);
  LUCID_ASSIGN(std::vector<OpenPoint> open, Prepare(ensemble, points, logits));
  std::vector<char> noised(points.size(), 0);
  std::vector<double> estimate;
  for (std::int64_t j = 0; j < ensemble.members() && !open.empty(); ++j) {
    if (stop.stop_requested()) return Interrupted("stopped on request");
    LUCID_TRY(logits.Take(ensemble.Member(j)));
    std::erase_if(open, [&](const OpenPoint& point) {
      if (points[point.index].member == j) return false;
      const auto of_member = logits.At(points[point.index].x);
      estimate.assign(of_member.begin(), of_member.end());
      for (std::size_t c = 0; c < estimate.size(); ++c) estimate[c] += point.shift[c];
      const bool disagrees = LabelOf(estimate) != point.label;
      if (disagrees) noised[point.index] = 1;
      return disagrees;
    });
  }
  return noised;
}

}  // namespace

Result<std::vector<bool>> NoisedWithoutRow(const Ensemble& ensemble,
                                           std::span<const PointWithout> points, TaskTeam* team,
                                           int threads, const ProgressCallback& progress,
                                           const std::stop_token& stop) {
  std::vector<char> noised(points.size());
  std::mutex mutex;
  std::int64_t done = 0;
  const auto part = [&](std::int64_t task) {
    const auto from = static_cast<std::size_t>(task * kPoints);
    return points.subspan(from, std::min<std::size_t>(kPoints, points.size() - from));
  };
  const auto keep = [&](std::int64_t task, const std::vector<char>& found) {
    std::ranges::copy(found, noised.begin() + task * kPoints);
    const std::lock_guard lock(mutex);
    done += std::ssize(found);
    if (progress) progress({"certifying anew", "points", done, std::ssize(points)});
  };
  TeamTasks tasks;
  tasks.topic = kRecertifiedTopic;
  tasks.count = (std::ssize(points) + kPoints - 1) / kPoints;
  tasks.ask = [&](std::int64_t task, std::string& out) {
    BytesOut io(out);
    io.Count(part(task).size());
    for (const PointWithout& point : part(task)) {
      io(point.member);
      for (const float& value : point.x) io(value);
    }
  };
  tasks.take = [&](std::int64_t task, ByteCursor& in) {
    std::vector<char> found(part(task).size());
    for (char& one : found) {
      one = in.Take<char>();
      in.Require(one == 0 || one == 1);
    }
    if (in.ok()) keep(task, found);
    return in.ok();
  };
  const auto here = [&](std::int64_t task, int) -> Status {
    LUCID_ASSIGN(const std::vector<char> found, Noised(ensemble, part(task), stop));
    keep(task, found);
    return Ok();
  };
  LUCID_TRY(DoTasks(team, std::move(tasks), here, threads, stop));
  return std::vector<bool>(noised.begin(), noised.end());
}

Status AnswerNoisedWithoutRow(const Ensemble& ensemble, const std::stop_token& stop, ByteCursor& in,
                              std::string& out) {
  BytesIn io(in);
  const auto inputs = static_cast<std::size_t>(ensemble.network().architecture.inputs());
  std::vector<PointWithout> points(static_cast<std::size_t>(io.Count(0)));
  std::vector<float> values(points.size() * inputs);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::span<float> x = std::span(values).subspan(i * inputs, inputs);
    io(points[i].member);
    for (float& value : x) io(value);
    points[i].x = x;
    io.Require(points[i].member >= 0 && points[i].member < ensemble.members());
  }
  if (!io.ok()) return InternalError("a task of the leader is damaged");
  const auto noised = Noised(ensemble, points, stop);
  if (!noised.ok()) {
    // Nobody waits for it any more.
    return noised.error().kind == ErrorKind::kInterrupted ? Ok() : Status(noised.error());
  }
  for (const char one : *noised) PutBytes(out, one);
  return Ok();
}

}  // namespace lucid
