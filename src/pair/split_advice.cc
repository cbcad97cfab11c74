#include "pair/split_advice.h"

#include <algorithm>
#include <cmath>

#include "numeric/interval.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

constexpr double kTiny = 1e-300;  // keeps a ratio of widths finite
constexpr int kSideSteps = 5;     // away from lambda, for a maximiser on the other side
// A neuron's second phase is advised if it loses at least this many times as much as the first one.
constexpr double kOtherPhase = 1;
// Two maximisers are separated if f - g of a real input, less the target, is more than this share
// of what the bound is above the target.
constexpr double kRealShare = 0.15;

// A maximiser of the Lagrangian: half of what the relaxation's optimum is mixed from.
struct Side {
  double slope = 0;       // d bound / d lambda there
  double difference = 0;  // f - g there, by the networks themselves
  std::vector<double> x, sums, differences, losses;
};

class Adviser {
 public:
  Adviser(const PairFacts& pair, const PairQuestion& question, const Multipliers& multipliers,
          DualWork& work)
      : pair_(pair),
        question_(multipliers.Applied(question)),
        multipliers_(multipliers),
        work_(work) {
    work_.MoveTo(pair.region->region, multipliers);
  }

  SplitAdvice Run(double target) {
    const double lambda = multipliers_.lambda;
    const Side here = SideAt(lambda);
    Side there = here;
    double away = 1e-5 * (1 + lambda);
    for (int i = 0; i < kSideSteps && there.slope * here.slope > 0; ++i, away *= 8) {
      there = SideAt(std::max(lambda - std::copysign(away, here.slope), 0.0));
    }
    const double bound = Evaluate(lambda);
    const bool two_sides = there.slope * here.slope <= 0;
    SplitAdvice advice;
    MixLosses(here, two_sides ? there : here, advice);
    FindPhases(advice);
    // Real inputs on both sides of g = err may have an f - g about as large as the bound, although
    // their f is small. Then no better bound of f - g helps. A cut that separates the two sides
    // does, because each part gets a lambda of its own.
    const double real = std::max(here.difference, there.difference);
    if (two_sides && real - target > kRealShare * (bound - target)) {
      advice.input = SeparatingInput(here, there);
    }
    if (advice.input < 0) advice.input = WorstInput();
    return advice;
  }

 private:
  double Evaluate(double lambda) {
    return EvaluateDual(pair_, question_, lambda, work_.point, multipliers_.Slopes(), work_.terms)
        .value;
  }

  Side SideAt(double lambda) {
    Evaluate(lambda);
    FindGradient(pair_, question_, work_.terms, work_.gradient);
    FindValues(pair_, work_.terms, work_.gradient.x, work_.values);
    Side side;
    side.slope = work_.gradient.by_lambda;
    side.difference = OutputDifference();
    const auto append = [](const PaddedArray& from, std::vector<double>& to) {
      to.insert(to.end(), from.data(), from.data() + from.size());
    };
    append(work_.gradient.x, side.x);
    for (std::size_t m = 0; m < pair_.layers.size(); ++m) {
      append(work_.terms.layers[m].peaks.sum, side.sums);
      append(work_.terms.layers[m].peaks.difference, side.differences);
      append(work_.values.layers[m].loss, side.losses);
    }
    return side;
  }

  // f - g of the networks at work_.values.
  double OutputDifference() const {
    const DenseLayer& ours = pair_.network_output();
    const DenseLayer& theirs = pair_.member_output;
    const std::int32_t c = question_.label, other = question_.other;
    const PairValues::Layer& top = work_.values.layers.back();
    double value = ours.bias[c] - ours.bias[other] - theirs.bias[c] + theirs.bias[other];
    for (std::int64_t k = 0; k < top.z.size(); ++k) {
      value +=
          (ours.weights.row(c)[k] - ours.weights.row(other)[k]) * top.z[k] -
          (theirs.weights.row(c)[k] - theirs.weights.row(other)[k]) * (top.z[k] + top.delta[k]);
    }
    return value;
  }

  // At the best lambda the Lagrangian has maximisers on both sides of g = err, and the relaxation's
  // optimum is a mixture of them, at which g = err. There, not at either of them, is where a
  // neuron's term is above what its function gives.
  void MixLosses(const Side& one, const Side& other, SplitAdvice& advice) {
    const double total = std::abs(one.slope) + std::abs(other.slope);
    const double v = total > 0 ? std::abs(other.slope) / total : 0.5, w = 1 - v;
    for (std::size_t j = 0; j < one.x.size(); ++j) {
      advice.point.push_back(v * one.x[j] + w * other.x[j]);
    }
    std::size_t at = 0;
    for (const DualTerms::Layer& layer : work_.terms.layers) {
      std::vector<double>& losses = losses_.emplace_back();
      for (std::int64_t k = 0; k < layer.cz.size(); ++k, ++at) {
        const auto gain = [&](double sum, double difference) {
          const double z = Relu(sum);
          return layer.cz[k] * z + layer.cd[k] * (Relu(sum + difference) - z);
        };
        const double mixed = gain(v * one.sums[at] + w * other.sums[at],
                                  v * one.differences[at] + w * other.differences[at]);
        const double bend = v * gain(one.sums[at], one.differences[at]) +
                            w * gain(other.sums[at], other.differences[at]) - mixed;
        losses.push_back(std::max(bend, 0.0) + v * one.losses[at] + w * other.losses[at]);
      }
    }
  }

  void FindPhases(SplitAdvice& advice) const {
    double first = 0, second = 0;
    for (std::size_t m = 0; m < losses_.size(); ++m) {
      const PairRanges& r = pair_.ranges(m);
      for (std::int64_t k = 0; k < std::ssize(losses_[m]); ++k) {
        const bool n_open = NetworkOpen(r, k), m_open = MemberOpen(r, k);
        const bool again = pair_.region->layers[m].split[k] != 0;
        double& most = again ? second : first;
        advice.open += n_open || m_open;
        if ((!n_open && !m_open) || losses_[m][k] <= most) continue;
        most = losses_[m][k];
        // delta has to be bounded from above: y >= 0 gives delta <= d^, y <= 0 gives delta <= 0;
        // from below: z^ >= 0 gives delta >= d^, z^ <= 0 gives delta >= 0.
        const bool member = m_open && (work_.terms.layers[m].cd[k] > 0 || !n_open);
        (again ? advice.other_phase : advice.phase) =
            PhaseSplit{static_cast<std::int32_t>(m), static_cast<std::int32_t>(k), member, true};
      }
    }
    // The other phase of a neuron leaves a sliver where its phases differ: only if it loses most.
    if (second < kOtherPhase * first) advice.other_phase.reset();
  }

  // The input in which the two sides differ and to which f, with a chord for every neuron that is
  // open, owes most of its difference. -1: there is none.
  std::int32_t SeparatingInput(const Side& one, const Side& other) const {
    const DenseLayer& output = pair_.network_output();
    std::vector<double> slopes(static_cast<std::size_t>(output.weights.columns));
    const Measure measure(output, question_);
    for (std::size_t k = 0; k < slopes.size(); ++k) {
      slopes[k] = measure.Weight(static_cast<std::int64_t>(k)).value;
    }
    for (std::size_t m = pair_.layers.size(); m-- > 0;) {
      const PairFacts::Layer& layer = pair_.layers[m];
      for (std::int64_t k = 0; k < layer.units(); ++k) {
        const double l = layer.ranges.l[k], u = layer.ranges.u[k];
        slopes[k] *= u <= 0 ? 0 : l >= 0 ? 1 : u / (u - l);
      }
      PaddedArray below(layer.network->weights.columns);
      AddTransposed(slopes.data(), layer.network->weights, pair_.network->unit_lists[m],
                    below.data());
      slopes.assign(below.data(), below.data() + below.size());
    }
    std::int32_t best = -1;
    double most = 0;
    for (std::size_t j = 0; j < slopes.size(); ++j) {
      const double share = std::abs(slopes[j] * (one.x[j] - other.x[j]));
      if (share > most) most = share, best = static_cast<std::int32_t>(j);
    }
    return best;
  }

  // The input that is to blame for most of the loss. The loss of a neuron is shared out among the
  // inputs by how much of the range of its sum comes from each. To this comes an input's own part
  // of the linear bound. -1: the box is a point.
  std::int32_t WorstInput() {
    const RegionFacts& region = *pair_.region;
    std::vector<double> of_inputs(static_cast<std::size_t>(pair_.network->inputs), 0.0);
    for (std::size_t m = pair_.layers.size(); m-- > 0;) {
      const PaddedMatrix& weights = pair_.layers[m].network->weights;
      const CentredIntervals& below = m == 0 ? region.x : region.layers[m - 1].z;
      std::vector<double>& blame = m == 0 ? of_inputs : losses_[m - 1];
      for (std::int64_t k = 0; k < weights.rows; ++k) {
        const double loss = losses_[m][k];
        if (loss <= 0) continue;
        const double* row = weights.row(k);
        double range = kTiny;
        for (std::int64_t j = 0; j < weights.columns; ++j) {
          range += std::abs(row[j]) * below.radius[j];
        }
        for (std::int64_t j = 0; j < weights.columns; ++j) {
          blame[j] += loss / range * std::abs(row[j]) * below.radius[j];
        }
      }
    }
    std::int32_t worst = -1;
    double most = -1;
    for (std::size_t j = 0; j < of_inputs.size(); ++j) {
      const auto at = static_cast<std::int64_t>(j);
      const double score = of_inputs[j] + std::abs(work_.terms.cx[at]) * region.x.radius[at];
      if (pair_.box()[j].lower < pair_.box()[j].upper && score > most) {
        most = score;
        worst = static_cast<std::int32_t>(j);
      }
    }
    return worst;
  }

  const PairFacts& pair_;
  const PairQuestion question_;
  const Multipliers& multipliers_;
  DualWork& work_;
  std::vector<std::vector<double>> losses_;  // of every hidden neuron
};

}  // namespace

SplitAdvice AdviseSplit(const PairFacts& pair, const PairQuestion& question,
                        const Multipliers& multipliers, double target, DualWork& work) {
  return Adviser(pair, question, multipliers, work).Run(target);
}

std::optional<PhaseSplit> FindOpenPhase(const PairFacts& pair, const PairQuestion& question,
                                        const Multipliers& multipliers, std::size_t from,
                                        std::span<const double> x, double least, DualWork& work) {
  work.point.SetPushes(pair.region->region, multipliers.pushes);
  EvaluateDual(pair, question, multipliers.lambda, work.point, OpenSlopes::kDefault, work.terms);
  PaddedArray at(static_cast<std::int64_t>(x.size()));
  std::ranges::copy(x, at.data());
  FindValues(pair, work.terms, at, work.values);
  std::optional<PhaseSplit> found;
  for (std::size_t m = from; m < pair.layers.size(); ++m) {
    const PairRanges& ranges = pair.ranges(m);
    const PaddedArray& loss = work.values.layers[m].loss;
    for (std::int64_t k = 0; k < pair.layers[m].units(); ++k) {
      const bool ours = NetworkOpen(ranges, k);
      if ((!ours && !MemberOpen(ranges, k)) || !(loss[k] > least)) continue;
      least = loss[k];
      found = PhaseSplit{static_cast<std::int32_t>(m), static_cast<std::int32_t>(k), !ours, true};
    }
  }
  return found;
}

}  // namespace lucid
