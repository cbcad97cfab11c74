#include "audit/recertified.h"

#include <algorithm>

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

}  // namespace

Result<std::vector<bool>> NoisedWithoutRow(const Ensemble& ensemble,
                                           std::span<const PointWithout> points,
                                           const ProgressCallback& progress,
                                           const std::stop_token& stop) {
  Logits logits(ensemble.network().architecture);
  LUCID_ASSIGN(std::vector<OpenPoint> open, Prepare(ensemble, points, logits));
  std::vector<bool> noised(points.size(), false);
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
      if (disagrees) noised[point.index] = true;
      return disagrees;
    });
    if (progress) progress({"certifying anew", "members", j + 1, ensemble.members()});
  }
  return noised;
}

}  // namespace lucid
