#include "attack/attack_pool.h"

#include <algorithm>
#include <numeric>

#include "attack/attack_score.h"
#include "attack/network_gradient.h"
#include "random/stream.h"

namespace lucid {
namespace {

constexpr int kDraws = 6;            // rounds of drawing until both sides have enough points
constexpr std::size_t kRare = 32;    // a side with fewer points is helped by gradient steps
constexpr std::size_t kPushed = 64;  // points that are helped
constexpr int kPushSteps = 40;
constexpr int kBisections = 16;

class BoundaryDraw {
 public:
  BoundaryDraw(const Network& network, std::int32_t label, std::span<const float> data,
               std::uint64_t seed)
      : network_(network),
        data_(data),
        inputs_(static_cast<std::size_t>(network.architecture.inputs())),
        scorer_(network.architecture, label),
        gradient_(network.architecture, network.parameters, label),
        stream_(seed, "attack pool", static_cast<std::uint64_t>(label)) {}

  std::vector<float> Run(std::size_t count) {
    for (int i = 0; i < kDraws && std::min(inside_.size(), outside_.size()) < count / 4; ++i) {
      Draw(2 * count);
    }
    if (inside_.size() < kRare) Push(+1);
    if (outside_.size() < kRare) Push(-1);
    if (inside_.empty()) return {};
    return outside_.empty() ? LeastConfident(count) : Bisect(count);
  }

 private:
  std::span<const float> at(std::size_t p) const {
    return std::span(points_).subspan(p * inputs_, inputs_);
  }

  std::vector<float> Confidences(std::span<const float> points) {
    std::vector<float> f(points.size() / inputs_);
    scorer_.Score(network_.parameters, PointBatch(points, static_cast<std::int64_t>(inputs_)), f);
    return f;
  }

  void Add(std::span<const float> points) {
    const std::vector<float> f = Confidences(points);
    for (const float value : f) {
      (value > 0 ? inside_ : outside_).push_back(confidence_.size());
      confidence_.push_back(value);
    }
    points_.insert(points_.end(), points.begin(), points.end());
  }

  void Draw(std::size_t count) {
    std::vector<float> points(count * inputs_);
    const std::size_t kinds = data_.empty() ? 2 : 3;
    for (std::size_t p = 0; p < count; ++p) {
      const auto x = std::span(points).subspan(p * inputs_, inputs_);
      if (p % kinds == 0) {
        for (float& v : x) v = static_cast<float>(stream_.Below(2));
      } else if (p % kinds == 1) {
        for (float& v : x) v = static_cast<float>(stream_.Uniform());
      } else {
        const std::size_t row = stream_.Below(data_.size() / inputs_);
        for (std::size_t j = 0; j < inputs_; ++j) {
          x[j] = std::clamp(data_[row * inputs_ + j], 0.0f, 1.0f);
        }
      }
    }
    Add(points);
  }

  // Moves the points nearest to a side that has few towards it: sign * f by sign steps in a box
  // that halves when they fail.
  void Push(double sign) {
    std::vector<std::size_t> order(confidence_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return sign * confidence_[a] > sign * confidence_[b];
    });
    order.resize(std::min(order.size(), kPushed));
    std::vector<float> pushed;
    std::vector<double> x(inputs_), trial(inputs_), slope(inputs_);
    for (const std::size_t p : order) {
      std::ranges::copy(at(p), x.begin());
      double best = sign * gradient_.Evaluate(x), radius = 0.25;
      gradient_.Gradient(slope);
      for (int i = 0; i < kPushSteps; ++i) {
        for (std::size_t j = 0; j < inputs_; ++j) {
          const double direction = slope[j] > 0 ? sign : slope[j] < 0 ? -sign : 0;
          trial[j] = std::clamp(x[j] + radius * direction, 0.0, 1.0);
        }
        const double value = sign * gradient_.Evaluate(trial);
        if (value <= best) {
          radius /= 2;
          continue;
        }
        best = value;
        std::swap(x, trial);
        gradient_.Gradient(slope);
      }
      for (const double v : x) pushed.push_back(static_cast<float>(v));
    }
    Add(pushed);
  }

  std::vector<float> LeastConfident(std::size_t count) const {
    std::vector<std::size_t> order = inside_;
    std::ranges::stable_sort(order, {}, [&](std::size_t p) { return confidence_[p]; });
    std::vector<float> result;
    for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
      result.insert(result.end(), at(order[i]).begin(), at(order[i]).end());
    }
    return result;
  }

  std::vector<float> Bisect(std::size_t count) {
    std::vector<float> in, out;
    for (std::size_t i = 0; i < count; ++i) {
      const auto a = at(inside_[stream_.Below(inside_.size())]);
      const auto b = at(outside_[stream_.Below(outside_.size())]);
      in.insert(in.end(), a.begin(), a.end());
      out.insert(out.end(), b.begin(), b.end());
    }
    std::vector<float> middle(in.size());
    for (int i = 0; i < kBisections; ++i) {
      for (std::size_t j = 0; j < in.size(); ++j) middle[j] = (in[j] + out[j]) / 2;
      const std::vector<float> f = Confidences(middle);
      for (std::size_t p = 0; p < count; ++p) {
        std::copy_n(middle.begin() + p * inputs_, inputs_,
                    (f[p] > 0 ? in : out).begin() + p * inputs_);
      }
    }
    return in;
  }

  const Network& network_;
  std::span<const float> data_;
  std::size_t inputs_;
  PointScorer scorer_;
  NetworkGradient gradient_;
  Stream stream_;
  std::vector<float> points_, confidence_;     // all that were drawn
  std::vector<std::size_t> inside_, outside_;  // of them
};

}  // namespace

std::vector<float> DrawBoundary(const Network& network, std::int32_t label,
                                std::span<const float> data, std::int64_t count,
                                std::uint64_t seed) {
  return BoundaryDraw(network, label, data, seed).Run(static_cast<std::size_t>(count));
}

}  // namespace lucid
