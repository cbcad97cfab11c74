#include "paper/cluster.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "random/stream.h"

namespace lucid {
namespace {

// Bounds of the work (36,000 members of 3,752 parameters take seconds, not minutes). The number of
// clusters and the first centres come from a sample of at most kSampleValues parameters (but at
// least kSmallestSample members); Lloyd's algorithm on all members then makes as many rounds as
// kFullValues multiplications allow, one at least. Up to 1,100 members of that size the sample is
// everything and nothing is cut short.
constexpr std::int64_t kSampleValues = std::int64_t{1} << 22;
constexpr std::int64_t kSmallestSample = 256;
constexpr std::int64_t kFullValues = std::int64_t{1} << 32;
// Pieces of work: fixed, so that sums do not depend on the number of threads.
constexpr std::int64_t kBlocks = 16;
// Tries per k-means++ centre; the best is kept (as scikit-learn does).
constexpr int kTries = 3;

// Squared L2 distance in eight sums of fixed order, which the compiler may keep in vectors.
double SquaredDistance(std::span<const float> point, const double* centre) {
  constexpr std::size_t kLanes = 8;
  double sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= point.size(); i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const double d = static_cast<double>(point[i + j]) - centre[i + j];
      sums[j] += d * d;
    }
  }
  for (; i < point.size(); ++i) {
    const double d = static_cast<double>(point[i]) - centre[i];
    sums[0] += d * d;
  }
  return std::accumulate(sums, sums + kLanes, 0.0);
}

// Parameters of some members: in memory, or copied from the store each time they are looked at.
class Points {
 public:
  Points(const Members& members, Subset subset, bool keep)
      : members_(members),
        subset_(std::move(subset)),
        size_(static_cast<std::size_t>(members.architecture().parameters())) {
    if (!keep) return;
    kept_.resize(subset_.size() * size_);
    for (std::size_t i = 0; i < subset_.size(); ++i) {
      members.CopyParameters(subset_[i], std::span(kept_).subspan(i * size_, size_));
    }
  }

  std::int64_t count() const { return std::ssize(subset_); }
  std::size_t size() const { return size_; }
  // Valid until the next call with the same buffer.
  std::span<const float> Get(std::int64_t i, std::vector<float>& buffer) const {
    if (!kept_.empty()) return std::span(kept_).subspan(i * size_, size_);
    buffer.resize(size_);
    members_.CopyParameters(subset_[i], buffer);
    return buffer;
  }

 private:
  const Members& members_;
  Subset subset_;
  std::size_t size_;
  std::vector<float> kept_;
};

struct Clustering {
  std::vector<std::vector<double>> centres;
  std::vector<std::int32_t> cluster;  // of each point
  std::vector<double> distance;       // squared, to its centre
  double inertia = 0;                 // their sum
};

class KMeans {
 public:
  KMeans(const Points& points, int threads, std::stop_token stop)
      : points_(points), threads_(threads), stop_(std::move(stop)) {}

  // k-means++: each next centre is a point drawn with probability proportional to its squared
  // distance from the centres so far. The first k of the result are a start for k clusters. Fewer
  // than `count` if the points are fewer.
  Result<std::vector<std::vector<double>>> Seed(int count, Stream& stream) const {
    std::vector<double> nearest(static_cast<std::size_t>(points_.count()),
                                std::numeric_limits<double>::infinity());
    std::vector<std::vector<double>> centres;
    while (std::ssize(centres) < count) {
      double best_sum = std::numeric_limits<double>::infinity();
      std::vector<double> best_nearest, best_centre;
      for (int attempt = 0; attempt < (centres.empty() ? 1 : kTries); ++attempt) {
        const std::int64_t drawn = centres.empty() ? DrawUniform(stream) : Draw(nearest, stream);
        if (drawn < 0) return centres;  // every point is a centre
        std::vector<float> buffer;
        const auto point = points_.Get(drawn, buffer);
        const std::vector<double> centre(point.begin(), point.end());
        LUCID_ASSIGN(auto candidate, Nearer(nearest, centre));
        const double sum = std::accumulate(candidate.begin(), candidate.end(), 0.0);
        if (sum >= best_sum) continue;
        best_sum = sum;
        best_nearest = std::move(candidate);
        best_centre = centre;
      }
      nearest = std::move(best_nearest);
      centres.push_back(std::move(best_centre));
    }
    return centres;
  }

  // Lloyd's algorithm: at most `iterations` rounds of "assign, move the centres to the means", then
  // a last assignment; ends early when no point changes its cluster.
  Result<Clustering> Lloyd(std::vector<std::vector<double>> centres, int iterations) const {
    Clustering clustering{std::move(centres), {}, {}, 0};
    for (int round = 0;; ++round) {
      const std::vector<std::int32_t> before = std::exchange(clustering.cluster, {});
      std::vector<Means> blocks;
      LUCID_TRY(Assign(clustering, blocks));
      if (round == iterations || clustering.cluster == before) return clustering;
      LUCID_TRY(MoveCentres(clustering, blocks));
    }
  }

 private:
  struct Means {
    std::vector<double> sums;  // [cluster][parameter]
    std::vector<std::int64_t> counts;
  };

  // body(first, last, block) for fixed ranges of points.
  Status ForBlocks(
      const std::function<Status(std::int64_t, std::int64_t, std::int64_t)>& body) const {
    const std::int64_t count = points_.count();
    return ParallelFor(kBlocks, threads_, stop_, [&](std::int64_t block, int) {
      return body(count * block / kBlocks, count * (block + 1) / kBlocks, block);
    });
  }

  std::int64_t DrawUniform(Stream& stream) const {
    return static_cast<std::int64_t>(stream.Below(static_cast<std::uint64_t>(points_.count())));
  }

  static std::int64_t Draw(std::span<const double> weights, Stream& stream) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    double rest = stream.Uniform() * sum;
    std::int64_t last = -1;  // rounding may leave a rest behind the last point
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!(weights[i] > 0)) continue;
      last = static_cast<std::int64_t>(i);
      if (rest < weights[i]) break;
      rest -= weights[i];
    }
    return last;
  }

  Result<std::vector<double>> Nearer(std::span<const double> nearest,
                                     std::span<const double> centre) const {
    std::vector<double> result(nearest.begin(), nearest.end());
    LUCID_TRY(ForBlocks([&](std::int64_t first, std::int64_t last, std::int64_t) -> Status {
      std::vector<float> buffer;
      for (std::int64_t i = first; i < last; ++i) {
        const double d = SquaredDistance(points_.Get(i, buffer), centre.data());
        result[i] = std::min(result[i], d);
      }
      return Ok();
    }));
    return result;
  }

  // Nearest centre of every point (the first of equally near ones), and the blocks' sums.
  Status Assign(Clustering& clustering, std::vector<Means>& blocks) const {
    const std::size_t k = clustering.centres.size(), size = points_.size();
    clustering.cluster.assign(static_cast<std::size_t>(points_.count()), 0);
    clustering.distance.assign(static_cast<std::size_t>(points_.count()), 0);
    blocks.resize(kBlocks);
    LUCID_TRY(ForBlocks([&](std::int64_t first, std::int64_t last, std::int64_t block) -> Status {
      Means& means = blocks[block];
      means.sums.assign(k * size, 0);
      means.counts.assign(k, 0);
      std::vector<float> buffer;
      for (std::int64_t i = first; i < last; ++i) {
        if (stop_.stop_requested()) return Interrupted("stopped on request");
        const auto point = points_.Get(i, buffer);
        double best = std::numeric_limits<double>::infinity();
        std::size_t cluster = 0;
        for (std::size_t c = 0; c < k; ++c) {
          const double d = SquaredDistance(point, clustering.centres[c].data());
          if (d < best) best = d, cluster = c;
        }
        clustering.cluster[i] = static_cast<std::int32_t>(cluster);
        clustering.distance[i] = best;
        ++means.counts[cluster];
        double* sums = means.sums.data() + cluster * size;
        for (std::size_t j = 0; j < size; ++j) sums[j] += static_cast<double>(point[j]);
      }
      return Ok();
    }));
    clustering.inertia =
        std::accumulate(clustering.distance.begin(), clustering.distance.end(), 0.0);
    return Ok();
  }

  // Moves every centre to the mean of its points. The centre of an empty cluster goes to the point
  // that is farthest from its own centre.
  Status MoveCentres(Clustering& clustering, std::span<const Means> blocks) const {
    const std::size_t size = points_.size();
    std::vector<std::size_t> empty;
    for (std::size_t c = 0; c < clustering.centres.size(); ++c) {
      std::int64_t count = 0;
      for (const Means& block : blocks) count += block.counts[c];
      if (count == 0) {
        empty.push_back(c);
        continue;
      }
      std::vector<double>& centre = clustering.centres[c];
      std::ranges::fill(centre, 0);
      for (const Means& block : blocks) {
        for (std::size_t j = 0; j < size; ++j) centre[j] += block.sums[c * size + j];
      }
      for (double& value : centre) value /= static_cast<double>(count);
    }
    for (const std::size_t c : empty) {
      const auto farthest = std::ranges::max_element(clustering.distance);
      if (!(*farthest > 0)) break;
      std::vector<float> buffer;
      const auto point = points_.Get(farthest - clustering.distance.begin(), buffer);
      clustering.centres[c].assign(point.begin(), point.end());
      *farthest = 0;  // not twice
    }
    return Ok();
  }

  const Points& points_;
  const int threads_;
  const std::stop_token stop_;
};

// The elbow: the number of clusters whose inertia lies deepest below the straight line from the
// first to the last point of the curve. inertia[k - 1] belongs to k.
std::size_t Elbow(std::span<const double> inertia) {
  const auto last = static_cast<double>(inertia.size() - 1);
  std::size_t best = 2;
  double deepest = -std::numeric_limits<double>::infinity();
  for (std::size_t k = 2; k <= inertia.size(); ++k) {
    const double share = static_cast<double>(k - 1) / last;
    const double line = (1 - share) * inertia.front() + share * inertia.back();
    const double depth = line - inertia[k - 1];
    if (depth > deepest) deepest = depth, best = k;
  }
  return best;
}

// The best clustering of the points, its k by the elbow method; no cluster at all if all are equal.
Result<Clustering> ClusterByElbow(const KMeans& means, const ClusterOptions& options,
                                  std::int64_t points) {
  Stream stream(options.seed, "k-means++");
  const auto most = static_cast<int>(std::min<std::int64_t>(options.max_clusters, points));
  LUCID_ASSIGN(const auto seeds, means.Seed(most, stream));
  if (seeds.size() < 2) return Clustering{};
  std::vector<Clustering> found;
  std::vector<double> inertia;
  for (std::size_t k = 1; k <= seeds.size(); ++k) {
    std::vector<std::vector<double>> start(seeds.begin(), seeds.begin() + k);
    LUCID_ASSIGN(auto clustering, means.Lloyd(std::move(start), options.max_iterations));
    inertia.push_back(clustering.inertia);
    found.push_back(std::move(clustering));
  }
  return std::move(found[Elbow(inertia) - 1]);
}

std::int64_t SampleSize(std::int64_t members, std::int64_t parameters) {
  return std::min(members, std::max(kSmallestSample, kSampleValues / parameters));
}

Subset Sample(const Subset& subset, std::int64_t size, std::uint64_t seed) {
  if (size == std::ssize(subset)) return subset;
  Subset sample = subset;
  Stream stream(seed, "k-means sample");
  stream.Shuffle(sample);
  sample.resize(static_cast<std::size_t>(size));
  std::ranges::sort(sample);
  return sample;
}

std::vector<Subset> Halves(const Subset& subset) {
  const auto middle = subset.begin() + std::ssize(subset) / 2;
  return {Subset(subset.begin(), middle), Subset(middle, subset.end())};
}

// The non-empty clusters, or halves if there are fewer than two.
std::vector<Subset> Group(const Subset& subset, const Clustering& clustering) {
  std::vector<Subset> parts(clustering.centres.size());
  for (std::size_t i = 0; i < clustering.cluster.size(); ++i) {
    parts[clustering.cluster[i]].push_back(subset[i]);
  }
  std::erase_if(parts, [](const Subset& part) { return part.empty(); });
  if (parts.size() < 2) return Halves(subset);
  std::ranges::sort(parts, {}, [](const Subset& part) { return part.front(); });
  return parts;
}

}  // namespace

Result<std::vector<Subset>> SplitBySimilarity(const Members& members, const Subset& subset,
                                              const ClusterOptions& options, std::stop_token stop) {
  if (subset.size() < 2) {
    return InvalidInput("cannot split a set of " + std::to_string(subset.size()) +
                        " members: two are needed");
  }
  if (options.max_clusters < 2) {
    return InvalidInput("max_clusters is " + std::to_string(options.max_clusters) +
                        ": at least 2 are needed");
  }
  if (options.max_iterations < 1) {
    return InvalidInput("max_iterations is " + std::to_string(options.max_iterations) +
                        ": at least 1 is needed");
  }
  const std::int64_t parameters = members.architecture().parameters();
  const std::int64_t sample_size = SampleSize(std::ssize(subset), parameters);
  const Points sample(members, Sample(subset, sample_size, options.seed), true);
  LUCID_ASSIGN(Clustering clustering,
               ClusterByElbow(KMeans(sample, options.threads, stop), options, sample_size));
  if (clustering.centres.empty() || sample_size == std::ssize(subset)) {
    return Group(subset, clustering);
  }
  const std::int64_t round = std::ssize(subset) * parameters * std::ssize(clustering.centres);
  const int rounds =
      static_cast<int>(std::clamp<std::int64_t>(kFullValues / round, 1, options.max_iterations));
  const Points all(members, subset, false);
  // The last assignment of Lloyd is a round of its own.
  LUCID_ASSIGN(clustering,
               KMeans(all, options.threads, stop).Lloyd(std::move(clustering.centres), rounds - 1));
  return Group(subset, clustering);
}

}  // namespace lucid
