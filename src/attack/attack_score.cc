#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attack/attack_score.cc"
#include "numeric/simd_targets.h"

#include <hwy/foreach_target.h>  // IWYU pragma: keep: includes this file once per instruction set

#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "attack/attack_score.h"
#include "base/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A block is J filters by kInner vectors of points: its sums stay in registers.
constexpr int kInner = 4;
#if HWY_TARGET <= HWY_AVX3
constexpr int kOuter = 6;
#else
constexpr int kOuter = 3;
#endif

using D = hn::CappedTag<float, kAttackStrip / kInner>;
using V = hn::Vec<D>;

// Filters [o, o + J) at position t, all points of a strip.
template <int J>
HWY_INLINE void FilterBlock(const Layer& layer, const std::int32_t* offsets,
                            const float* parameters, const StripValues* in, StripValues* out,
                            std::int64_t o, std::int64_t t) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t taps = layer.taps;
  const float* const weights = parameters + layer.weight_at + o * taps;
  const float* const biases = parameters + layer.bias_at + o;
  const StripValues* const place = in + t * layer.stride;
  // Max with the floor is the ReLU; the last layer has none.
  const V floor = hn::Set(d, layer.relu ? 0.0f : -std::numeric_limits<float>::infinity());
  for (std::int64_t p = 0; p < kAttackStrip; p += kInner * lanes) {
    V sum[J][kInner];
    for (int j = 0; j < J; ++j) {
      for (int r = 0; r < kInner; ++r) sum[j][r] = hn::Set(d, biases[j]);
    }
    for (std::int64_t k = 0; k < taps; ++k) {
      const float* const h = place[offsets[k]].at.data() + p;
      V w[J];
      for (int j = 0; j < J; ++j) w[j] = hn::Set(d, weights[j * taps + k]);
      for (int r = 0; r < kInner; ++r) {
        const V value = hn::Load(d, h + r * lanes);
        for (int j = 0; j < J; ++j) sum[j][r] = hn::Add(sum[j][r], hn::Mul(w[j], value));
      }
    }
    for (int j = 0; j < J; ++j) {
      float* const unit = out[(o + j) * layer.positions + t].at.data() + p;
      for (int r = 0; r < kInner; ++r) hn::Store(hn::Max(sum[j][r], floor), d, unit + r * lanes);
    }
  }
}

void LayerForward(const Layer& layer, const std::int32_t* offsets, const float* parameters,
                  const StripValues* in, StripValues* out) {
  for (std::int64_t t = 0; t < layer.positions; ++t) {
    std::int64_t o = 0;
    for (; o + kOuter <= layer.filters; o += kOuter) {
      FilterBlock<kOuter>(layer, offsets, parameters, in, out, o, t);
    }
    for (; o + 2 <= layer.filters; o += 2) {
      FilterBlock<2>(layer, offsets, parameters, in, out, o, t);
    }
    if (o < layer.filters) FilterBlock<1>(layer, offsets, parameters, in, out, o, t);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lucid {
namespace {

HWY_EXPORT(LayerForward);

// Members that one thread takes at a time.
constexpr std::int64_t kMembersPerPiece = 16;

// What one thread has seen: per point the least confident members, a max-heap. The order of
// MemberScore is total, so it does not show which thread had which member.
class LeastConfident {
 public:
  LeastConfident(std::size_t points, std::size_t keep) : keep_(keep), heaps_(points) {}

  void Offer(std::size_t point, const MemberScore& score) {
    std::vector<MemberScore>& heap = heaps_[point];
    if (heap.size() == keep_) {
      if (!(score < heap.front())) return;
      std::ranges::pop_heap(heap);
      heap.back() = score;
    } else {
      heap.push_back(score);
    }
    std::ranges::push_heap(heap);
  }
  void Merge(const LeastConfident& other) {
    for (std::size_t p = 0; p < heaps_.size(); ++p) {
      for (const MemberScore& score : other.heaps_[p]) Offer(p, score);
    }
  }
  std::vector<std::vector<MemberScore>> TakeSorted() {
    for (auto& heap : heaps_) std::ranges::sort_heap(heap);
    return std::move(heaps_);
  }

 private:
  std::size_t keep_;
  std::vector<std::vector<MemberScore>> heaps_;
};

}  // namespace

PointBatch::PointBatch(std::span<const float> points, std::int64_t inputs)
    : size_(static_cast<std::int64_t>(points.size()) / inputs), inputs_(inputs) {
  values_.resize(static_cast<std::size_t>(strips() * inputs));
  for (std::int64_t p = 0; p < size_; ++p) {
    StripValues* const strip = values_.data() + p / kAttackStrip * inputs;
    for (std::int64_t j = 0; j < inputs; ++j)
      strip[j].at[p % kAttackStrip] = points[p * inputs + j];
  }
}

PointScorer::PointScorer(const Architecture& architecture, std::int32_t label) : label_(label) {
  for (const Layer& shape : architecture.layers()) {
    PlacedLayer layer{shape, {}};
    for (std::int64_t k = 0; k < shape.taps; ++k) {
      layer.offsets.push_back(static_cast<std::int32_t>(shape.TapOffset(k)));
    }
    layers_.push_back(std::move(layer));
  }
  front_.resize(static_cast<std::size_t>(architecture.widest()));
  back_.resize(static_cast<std::size_t>(architecture.widest()));
}

void PointScorer::Score(std::span<const float> parameters, const PointBatch& points,
                        std::span<float> out) {
  const auto forward = HWY_DYNAMIC_DISPATCH(LayerForward);
  for (std::int64_t s = 0; s < points.strips(); ++s) {
    const StripValues* in = points.strip(s);
    for (const PlacedLayer& layer : layers_) {
      forward(layer.shape, layer.offsets.data(), parameters.data(), in, front_.data());
      std::swap(front_, back_);
      in = back_.data();
    }
    const std::int64_t first = s * kAttackStrip;
    const std::int64_t last = std::min(first + kAttackStrip, points.size());
    for (std::int64_t p = first; p < last; ++p) {
      float other = -std::numeric_limits<float>::infinity();
      for (std::int64_t c = 0; c < layers_.back().shape.outputs; ++c) {
        if (c != label_) other = std::max(other, in[c].at[p - first]);
      }
      out[p] = in[label_].at[p - first] - other;
    }
  }
}

Result<std::vector<std::vector<MemberScore>>> ScoreMembers(const Members& members,
                                                           std::int32_t label,
                                                           const PointBatch& points,
                                                           std::size_t keep, int threads,
                                                           std::stop_token stop) {
  struct Worker {
    PointScorer scorer;
    LeastConfident least;
    std::vector<float> parameters, g;
  };
  const Architecture& architecture = members.architecture();
  const auto size = static_cast<std::size_t>(points.size());
  const Worker fresh{PointScorer(architecture, label), LeastConfident(size, keep),
                     std::vector<float>(static_cast<std::size_t>(architecture.parameters())),
                     std::vector<float>(size)};
  std::vector<Worker> workers(static_cast<std::size_t>(EffectiveThreads(threads)), fresh);

  const std::int64_t count = members.count();
  const std::int64_t pieces = (count + kMembersPerPiece - 1) / kMembersPerPiece;
  LUCID_TRY(ParallelFor(pieces, threads, stop, [&](std::int64_t piece, int w) {
    Worker& worker = workers[w];
    const std::int64_t first = piece * kMembersPerPiece;
    for (std::int64_t m = first; m < std::min(first + kMembersPerPiece, count); ++m) {
      members.CopyParameters(m, worker.parameters);
      worker.scorer.Score(worker.parameters, points, worker.g);
      for (std::size_t p = 0; p < size; ++p) worker.least.Offer(p, {worker.g[p], m});
    }
    return Ok();
  }));
  for (std::size_t w = 1; w < workers.size(); ++w) workers[0].least.Merge(workers[w].least);
  return workers[0].least.TakeSorted();
}

}  // namespace lucid
#endif  // HWY_ONCE
