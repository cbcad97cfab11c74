#include "pair/sum_ranges.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "numeric/rounding.h"
#include "pair/adam.h"

namespace lucid {
namespace {

constexpr double kLargest = 1e280;  // sums of absolute values below it leave room for the rest
constexpr double kTiny = 1e-300;

// Settings of the descent (Adam; the best point is kept). None of them can make a bound wrong.
constexpr int kFirstSteps = 40, kNextSteps = 8;
constexpr double kFirstRate = 0.1, kNextRate = 0.05, kRateDecay = 0.93;

}  // namespace

SumRanger::SumRanger(const Network& network, const Box& box)
    : architecture_(network.architecture), inputs_(architecture_.inputs()) {
  const auto layers = architecture_.layers();
  units_ = layers[0].outputs;
  for (const auto& [shape, weights] : {std::pair{&layers[0], &first_}, {&layers[1], &second_}}) {
    for (DenseLayer* dense : {&weights->network, &weights->member, &weights->difference}) {
      *dense = EmptyDense(*shape);
    }
    WriteDense(*shape, network.parameters, weights->network);
  }
  all_.resize(static_cast<std::size_t>(units_));
  std::iota(all_.begin(), all_.end(), 0);
  gamma_ = GammaUp(2 * (units_ + inputs_) + 64);
  for (PaddedArray* array : {&centre_, &radius_, &x_size_, &cx_, &x_}) array->Reset(inputs_);
  for (PaddedArray* array : {&network_size_, &pair_size_, &objective_.cz, &objective_.cd, &a_, &d_,
                             &sum_at_, &diff_at_, &best_a_, &best_d_, &loss_, &step_a_, &step_d_}) {
    array->Reset(units_);
  }
  for (PairRanges* ranges : {&whole_, &ranges_}) ranges->Reset(units_);
  peaks_.Reset(units_);
  for (std::int64_t j = 0; j < inputs_; ++j) {
    const Interval x = box[j];
    centre_[j] = 0.5 * x.lower + 0.5 * x.upper;
    radius_[j] = Up(std::max(x.upper - centre_[j], centre_[j] - x.lower));
    x_size_[j] = std::max(std::abs(x.lower), std::abs(x.upper));
  }
  RangeOfSums(first_.network, whole_.l, whole_.u, network_size_);
}

// The ranges of the sums of the first layer, or of its differences, over the box.
void SumRanger::RangeOfSums(const DenseLayer& dense, PaddedArray& lower, PaddedArray& upper,
                            PaddedArray& size) const {
  PaddedArray reach(units_);
  for (std::int64_t k = 0; k < units_; ++k) {
    lower[k] = dense.bias[k];
    size[k] = std::abs(dense.bias[k]);
  }
  AddProduct(dense.weights, centre_.data(), lower.data());
  AddAbsoluteProduct(dense.weights, radius_.data(), reach.data());
  AddAbsoluteProduct(dense.weights, x_size_.data(), size.data());
  for (std::int64_t k = 0; k < units_; ++k) {
    const double middle = lower[k];
    const double outward = Up(reach[k] + 2 * gamma_ * size[k]);
    lower[k] = Down(middle - outward);
    upper[k] = Up(middle + outward);
  }
}

void SumRanger::Enter(std::span<const float> parameters) {
  const auto layers = architecture_.layers();
  WriteDense(layers[0], parameters, first_.member);
  WriteDense(layers[1], parameters, second_.member);
  SubtractDense(first_.member, first_.network, first_.difference);
  SubtractDense(second_.member, second_.network, second_.difference);
  RangeOfSums(first_.difference, whole_.a, whole_.b, pair_size_);
  for (std::int64_t k = 0; k < units_; ++k) pair_size_[k] += network_size_[k];
}

Interval SumRanger::NetworkSum(std::int64_t unit, std::int64_t nodes) {
  return Both(unit, /*pair=*/false, nodes);
}
Interval SumRanger::MemberDifference(std::int64_t unit, std::int64_t nodes) {
  return Both(unit, /*pair=*/true, nodes);
}

Interval SumRanger::Both(std::int64_t unit, bool pair, std::int64_t nodes) {
  const DenseLayer& of_z = pair ? second_.difference : second_.network;
  objective_.pair = pair;
  objective_.size = std::abs(of_z.bias[unit]);
  const auto maximise = [&](double sign) {
    for (std::int64_t k = 0; k < units_; ++k) {
      objective_.cz[k] = sign * of_z.weights.row(unit)[k];
      objective_.cd[k] = pair ? sign * second_.member.weights.row(unit)[k] : 0;
    }
    objective_.constant = sign * of_z.bias[unit];
    return Maximise(nodes / 2);
  };
  const double lower = -maximise(-1);
  return {lower, std::max(lower, maximise(1))};
}

// The largest bound of all nodes that wait, after `nodes` of them were looked at.
double SumRanger::Maximise(std::int64_t nodes) {
  lower_ = -kInfinity;
  std::vector<Node> open(1);
  open[0].phases.assign(static_cast<std::size_t>(units_), 0);
  Bound(open[0], kFirstSteps, kFirstRate);
  for (std::int64_t seen = 1; seen + 1 < nodes; seen += 2) {
    if (open.front().bound <= lower_ || open.front().branch < 0) break;
    std::pop_heap(open.begin(), open.end());
    Node parent = std::move(open.back());
    open.pop_back();
    for (const std::int8_t phase : {-1, 1}) {
      Node child = parent;
      child.phases[parent.branch] = phase;
      Bound(child, kNextSteps, kNextRate);
      child.bound = std::min(child.bound, parent.bound);
      open.push_back(std::move(child));
      std::push_heap(open.begin(), open.end());
    }
  }
  return open.front().bound;
}

void SumRanger::EnterPhases(const std::vector<std::int8_t>& phases) {
  for (std::int64_t k = 0; k < units_; ++k) {
    ranges_.l[k] = phases[k] > 0 ? 0 : whole_.l[k];
    ranges_.u[k] = phases[k] < 0 ? 0 : whole_.u[k];
    ranges_.a[k] = objective_.pair ? whole_.a[k] : 0;
    ranges_.b[k] = objective_.pair ? whole_.b[k] : 0;
  }
}

// A chord over what is to be large, a line through 0 under what is to be small; alike for d^.
void SumRanger::StartMultipliers() {
  for (std::int64_t k = 0; k < units_; ++k) {
    const double l = ranges_.l[k], u = ranges_.u[k], a = ranges_.a[k], b = ranges_.b[k];
    const double cz = objective_.cz[k], cd = objective_.cd[k];
    a_[k] = cz * (l >= 0 ? 1 : u <= 0 ? 0 : cz > 0 ? u / (u - l) : u > -l ? 1 : 0);
    const bool on = l >= 0 && l + a >= 0, off = u <= 0 && u + b <= 0;
    const double share = a < 0 && b > 0         ? (cd > 0 ? b : -a) / (b - a)
                         : (cd > 0) == (a >= 0) ? 1
                                                : 0;
    d_[k] = cd * (on ? 1 : off ? 0 : share);
  }
}

void SumRanger::Bound(Node& node, int steps, double rate) {
  EnterPhases(node.phases);
  StartMultipliers();
  for (std::int64_t k = 0; k < units_; ++k) {
    const double l = ranges_.l[k], u = ranges_.u[k], a = ranges_.a[k], b = ranges_.b[k];
    const bool known = (l >= 0 && l + a >= 0) || (u <= 0 && u + b <= 0);
    const bool moves = !known || node.phases[k] != 0;
    if (moves && !node.a.empty()) {
      // The chord of a neuron in N alone is the best there is, and changes with its range.
      if (node.phases[k] != 0 || objective_.pair || objective_.cz[k] <= 0) a_[k] = node.a[k];
      d_[k] = node.d[k];
    }
    const double thin = std::min(1.0, (b - a) / (u - l + kTiny));
    step_a_[k] = moves ? std::abs(objective_.cz[k]) + std::abs(objective_.cd[k]) * thin : 0;
    step_d_[k] = moves ? std::abs(objective_.cd[k]) : 0;
  }
  node.bound = kInfinity;
  Adam adam(static_cast<std::size_t>(2 * units_), rate, kRateDecay);
  for (int step = 0;; ++step) {
    const double bound = Evaluate();
    lower_ = std::max(lower_, RunAtPoint());
    if (bound < node.bound || step == 0) {
      node.bound = bound;
      for (std::int64_t k = 0; k < units_; ++k) {
        best_a_[k] = a_[k];
        best_d_[k] = d_[k];
        const double sum = sum_at_[k], difference = diff_at_[k], z = Relu(sum);
        loss_[k] = peaks_.value[k] -
                   (objective_.cz[k] * z + objective_.cd[k] * (Relu(sum + difference) - z) -
                    a_[k] * sum - d_[k] * difference);
      }
    }
    if (step == steps) break;
    adam.NextStep();
    for (std::int64_t k = 0; k < units_; ++k) {
      a_[k] -= step_a_[k] * adam.Step(sum_at_[k] - peaks_.sum[k]);
    }
    for (std::int64_t k = 0; objective_.pair && k < units_; ++k) {
      d_[k] -= step_d_[k] * adam.Step(diff_at_[k] - peaks_.difference[k]);
    }
  }
  node.a.assign(best_a_.data(), best_a_.data() + units_);
  node.d.assign(best_d_.data(), best_d_.data() + units_);
  node.branch = -1;
  double most = 0;
  for (std::int64_t k = 0; k < units_; ++k) {
    if (node.phases[k] != 0 || !(ranges_.l[k] < 0 && ranges_.u[k] > 0)) continue;
    if (loss_[k] > most) most = loss_[k], node.branch = static_cast<std::int32_t>(k);
  }
}

// The bound that a_ and d_ give; leaves the input where its linear part is largest in x_.
double SumRanger::Evaluate() {
  FindPeaks(units_, ranges_, objective_.cz.data(), objective_.cd.data(), a_.data(), d_.data(),
            peaks_);
  cx_.Reset(inputs_);
  AddTransposed(a_.data(), first_.network.weights, all_, cx_.data());
  if (objective_.pair) AddTransposed(d_.data(), first_.difference.weights, all_, cx_.data());
  double bound = objective_.constant, size = objective_.size;
  const PaddedArray& scale = objective_.pair ? pair_size_ : network_size_;
  for (std::int64_t k = 0; k < units_; ++k) {
    bound += peaks_.value[k] + a_[k] * first_.network.bias[k];
    if (objective_.pair) bound += d_[k] * first_.difference.bias[k];
    size += (std::abs(objective_.cz[k]) + std::abs(objective_.cd[k]) + std::abs(a_[k]) +
             std::abs(d_[k])) *
            scale[k];
  }
  for (std::int64_t j = 0; j < inputs_; ++j) {
    bound += cx_[j] * centre_[j] + std::abs(cx_[j]) * radius_[j];
    size += std::abs(cx_[j]) * x_size_[j];
    x_[j] = cx_[j] > 0 ? centre_[j] + radius_[j] : centre_[j] - radius_[j];
  }
  const double total = Up(bound + 4 * gamma_ * size);
  return total < kInfinity && size < kLargest ? total : kInfinity;  // NaN, too, proves nothing
}

// What the objective really is at x_: nothing rests on it, it says when a search is at its end.
double SumRanger::RunAtPoint() {
  for (std::int64_t k = 0; k < units_; ++k) {
    sum_at_[k] = first_.network.bias[k];
    diff_at_[k] = objective_.pair ? first_.difference.bias[k] : 0;
  }
  AddProduct(first_.network.weights, x_.data(), sum_at_.data());
  if (objective_.pair) AddProduct(first_.difference.weights, x_.data(), diff_at_.data());
  double value = objective_.constant;
  for (std::int64_t k = 0; k < units_; ++k) {
    const double z = Relu(sum_at_[k]);
    value += objective_.cz[k] * z + objective_.cd[k] * (Relu(sum_at_[k] + diff_at_[k]) - z);
  }
  return value;
}

}  // namespace lucid
