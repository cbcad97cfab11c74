#include "check/pool.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "base/parallel.h"
#include "check/slope.h"
#include "random/stream.h"

namespace lucid {
namespace {

constexpr int kTries = 64;       // pairs drawn before a start settles for a point off the boundary
constexpr int kBisections = 30;  // float32 inputs: no more bits to find

// ---- drawing -----------------------------------------------------------------------------------

// A corner of the box, a point inside, or something between: most leaks lie on a face.
std::vector<float> Draw(std::int64_t inputs, Stream& stream) {
  const std::uint64_t kind = stream.Below(3);
  std::vector<float> x(static_cast<std::size_t>(inputs));
  for (float& value : x) {
    const bool corner = kind == 0 || (kind == 1 && stream.Below(2) == 0);
    value = corner ? static_cast<float>(stream.Below(2)) : static_cast<float>(stream.Uniform());
  }
  return x;
}

class Drawer {
 public:
  explicit Drawer(const Network& network)
      : inputs_(network.architecture.inputs()), network_(network.architecture) {
    std::ranges::copy(network.parameters, network_.parameters().begin());
  }

  PoolPoint Start(std::uint64_t seed, std::int64_t index) {
    Stream stream(seed, "falsify start", static_cast<std::uint64_t>(index));
    std::vector<float> a = Draw(inputs_, stream);
    const std::int32_t label = Label(a);
    for (int i = 0; index % 4 != 3 && i < kTries; ++i) {
      std::vector<float> b = Draw(inputs_, stream);
      if (Label(b) != label) return Bisect(std::move(a), std::move(b), label);
    }
    return {std::move(a), label, label};
  }

 private:
  std::int32_t Label(std::span<const float> x) {
    const std::span<const double> logits = network_.Logits(x);
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  }

  PoolPoint Bisect(std::vector<float> a, std::vector<float> b, std::int32_t label) {
    std::int32_t other = Label(b);
    for (int i = 0; i < kBisections; ++i) {
      std::vector<float> middle(a.size());
      for (std::size_t k = 0; k < a.size(); ++k) middle[k] = 0.5F * (a[k] + b[k]);
      const std::int32_t found = Label(middle);
      if (found != label) other = found;
      (found == label ? a : b) = std::move(middle);
    }
    return {std::move(a), label, other};
  }

  std::int64_t inputs_;
  SlopeNetwork network_;
};

// ---- scoring -----------------------------------------------------------------------------------

// So many points go through a network together: the inner loops run over points, which vectorises
// without changing any sum.
constexpr std::int64_t kLanes = 16;

using Quad [[gnu::vector_size(16)]] = float;

Quad Load(const float* from) {
  Quad value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

class LaneNetwork {
 public:
  explicit LaneNetwork(const Architecture& architecture) : architecture_(architecture) {
    const auto size = static_cast<std::size_t>(architecture.widest() * kLanes);
    for (auto& buffer : buffers_) buffer.resize(size);
  }

  // in and the result: [unit][lane].
  const float* Logits(std::span<const float> parameters, const float* in) {
    for (const Layer& layer : architecture_.layers()) {
      float* out = (in == buffers_[0].data() ? buffers_[1] : buffers_[0]).data();
      for (std::int64_t o = 0; o < layer.filters; ++o) {
        for (std::int64_t t = 0; t < layer.positions; ++t) {
          Unit(layer, parameters.data(), o, in + t * layer.stride * kLanes,
               out + (o * layer.positions + t) * kLanes);
        }
      }
      in = out;
    }
    return in;
  }

 private:
  static void Unit(const Layer& layer, const float* parameters, std::int64_t o, const float* in,
                   float* out) {
    const TapRuns runs(layer);
    const float* w = parameters + layer.weight_at + o * layer.taps;
    // Four sums by name: of an array the compiler keeps every partial sum in memory.
    const Quad bias = Quad{} + parameters[layer.bias_at + o];
    Quad a = bias, b = bias, c = bias, d = bias;
    for (std::int64_t run = 0; run < runs.count; ++run) {
      const float* h = in + run * runs.step * kLanes;
      for (std::int64_t k = 0; k < runs.length; ++k, ++w, h += kLanes) {
        a += *w * Load(h);
        b += *w * Load(h + 4);
        c += *w * Load(h + 8);
        d += *w * Load(h + 12);
      }
    }
    const Quad sums[] = {a, b, c, d};
    std::memcpy(out, sums, sizeof sums);
    for (std::int64_t p = 0; layer.relu && p < kLanes; ++p) out[p] = std::max(out[p], 0.0F);
  }

  const Architecture& architecture_;
  std::array<std::vector<float>, 2> buffers_;
};

// The pool in groups of kLanes; the last one is filled up with its own last point.
std::vector<float> ToLanes(std::span<const PoolPoint> pool, std::int64_t inputs) {
  const auto count = static_cast<std::int64_t>(pool.size());
  const std::int64_t groups = (count + kLanes - 1) / kLanes;
  std::vector<float> lanes(static_cast<std::size_t>(groups * kLanes * inputs));
  for (std::int64_t i = 0; i < groups * kLanes; ++i) {
    const std::vector<float>& x = pool[std::min(i, count - 1)].x;
    float* group = lanes.data() + i / kLanes * kLanes * inputs;
    for (std::int64_t k = 0; k < inputs; ++k) group[k * kLanes + i % kLanes] = x[k];
  }
  return lanes;
}

// The margin of a class from logits [class][lane].
double MarginOf(const float* logits, std::int64_t classes, std::int64_t lane, std::int32_t label) {
  double other = -std::numeric_limits<double>::infinity();
  for (std::int64_t k = 0; k < classes; ++k) {
    if (k != label) other = std::max<double>(other, logits[k * kLanes + lane]);
  }
  return logits[label * kLanes + lane] - other;
}

bool Better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.member != b.member ? a.member < b.member : a.point < b.point;
}

void KeepBest(std::vector<Candidate>& candidates, std::size_t count) {
  const std::size_t kept = std::min(count, candidates.size());
  std::ranges::partial_sort(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(kept),
                            Better);
  candidates.resize(kept);
}

using PerClass = std::vector<std::vector<Candidate>>;

class Scorer {
 public:
  Scorer(const Ensemble& ensemble, std::span<const PoolPoint> pool, std::size_t per_member)
      : ensemble_(ensemble),
        pool_(pool),
        per_member_(per_member),
        classes_(ensemble.network().architecture.classes()),
        lanes_(ToLanes(pool, ensemble.network().architecture.inputs())) {
    LaneNetwork network(ensemble.network().architecture);
    own_.resize(pool.size());
    ForEachMargin(network, ensemble.network().parameters,
                  [&](std::int64_t i, int side, double f) { own_[i][side] = f; });
  }

  PerClass Best(LaneNetwork& network, std::span<float> parameters, std::int64_t member) const {
    ensemble_.CopyParameters(member, parameters);
    PerClass best(static_cast<std::size_t>(classes_));
    ForEachMargin(network, parameters, [&](std::int64_t i, int side, double g) {
      const double f = own_[i][side], h = f - g;
      const bool boundary = pool_[i].label != pool_[i].other;
      std::vector<Candidate>& list = best[side == 0 ? pool_[i].label : pool_[i].other];
      list.push_back({boundary ? h : std::min(f, h), member, i});
      if (list.size() >= 8 * per_member_) KeepBest(list, per_member_);
    });
    for (std::vector<Candidate>& list : best) KeepBest(list, per_member_);
    return best;
  }

 private:
  // Calls body(point, side, margin) with the margin of the point's label (side 0) and of the other
  // side's (1).
  template <typename Body>
  void ForEachMargin(LaneNetwork& network, std::span<const float> parameters, Body body) const {
    const std::int64_t inputs = ensemble_.network().architecture.inputs();
    const auto count = static_cast<std::int64_t>(pool_.size());
    for (std::int64_t start = 0; start < count; start += kLanes) {
      const float* logits = network.Logits(parameters, lanes_.data() + start * inputs);
      for (std::int64_t i = start; i < std::min(count, start + kLanes); ++i) {
        const PoolPoint& point = pool_[i];
        body(i, 0, MarginOf(logits, classes_, i - start, point.label));
        if (point.other == point.label) continue;
        body(i, 1, MarginOf(logits, classes_, i - start, point.other));
      }
    }
  }

  const Ensemble& ensemble_;
  std::span<const PoolPoint> pool_;
  std::size_t per_member_;
  std::int64_t classes_;
  std::vector<float> lanes_;
  std::vector<std::array<double, 2>> own_;  // N's margins
};

}  // namespace

Result<std::vector<PoolPoint>> MakePool(const Network& network, std::uint64_t seed,
                                        std::int64_t starts, int threads,
                                        const std::stop_token& stop) {
  std::vector<PoolPoint> pool(static_cast<std::size_t>(starts));
  std::vector<std::optional<Drawer>> drawers(static_cast<std::size_t>(EffectiveThreads(threads)));
  LUCID_TRY(ParallelFor(starts, threads, stop, [&](std::int64_t i, int worker) {
    std::optional<Drawer>& drawer = drawers[worker];
    if (!drawer.has_value()) drawer.emplace(network);
    pool[i] = drawer->Start(seed, i);
    return Ok();
  }));
  return pool;
}

Result<std::vector<std::vector<Candidate>>> ScorePool(const Ensemble& ensemble,
                                                      std::span<const PoolPoint> pool,
                                                      std::size_t per_member, std::size_t per_class,
                                                      int threads, const ProgressCallback& progress,
                                                      const std::stop_token& stop) {
  struct Worker {
    LaneNetwork network;
    std::vector<float> parameters;
  };
  const Architecture& architecture = ensemble.network().architecture;
  PerClass all(static_cast<std::size_t>(architecture.classes()));
  if (pool.empty()) return all;
  const Scorer scorer(ensemble, pool, per_member);
  std::vector<std::optional<Worker>> workers(static_cast<std::size_t>(EffectiveThreads(threads)));
  std::mutex mutex;
  std::int64_t done = 0;
  LUCID_TRY(ParallelFor(ensemble.members(), threads, stop, [&](std::int64_t member, int index) {
    std::optional<Worker>& worker = workers[index];
    if (!worker.has_value()) {
      worker.emplace(Worker{LaneNetwork(architecture),
                            std::vector<float>(ensemble.network().parameters.size())});
    }
    const PerClass best = scorer.Best(worker->network, worker->parameters, member);
    const std::lock_guard lock(mutex);
    for (std::size_t c = 0; c < all.size(); ++c) {
      all[c].insert(all[c].end(), best[c].begin(), best[c].end());
      // Which candidates are thrown away does not depend on the order of members: Better is total.
      if (all[c].size() >= 4 * per_class + 1024) KeepBest(all[c], per_class);
    }
    if (progress) progress({"trying every member", "members", ++done, ensemble.members(), 0});
    return Ok();
  }));
  for (std::vector<Candidate>& list : all) KeepBest(list, per_class);
  return all;
}

}  // namespace lucid
