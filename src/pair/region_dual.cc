// RegionBounder: the bound as a function of its multipliers, its gradient, and the search for good
// ones.
#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"
#include "pair/adam.h"
#include "pair/region_bounder.h"

namespace lucid {
namespace {

constexpr double kTiny = 1e-300;  // keeps a ratio of widths finite

// Of the descent (Adam, keeping the best point). None of them can make a bound wrong.
constexpr int kLambdaSteps = 6;  // with the default lines
constexpr double kLeastLambda = 0.02;
constexpr int kSideSteps = 5;       // away from lambda, for a maximiser on the other side
constexpr double kFirstRate = 0.1;  // from the default lines
constexpr double kNextRate = 0.03;  // from a parent's slopes
constexpr double kRateDecay = 0.95;
constexpr int kFails = 3;             // steps in a row that gain nothing: go back, and smaller
constexpr double kLambdaScale = 0.5;  // lambda's step, as a share of bound / steepest slope
constexpr double kPushScale = 0.3;    // a push's step, as a share of bound / width of the sum
constexpr double kOtherPhase = 1;
constexpr double kRealShare = 0.15;  // of what a bound is above the target

double Dot(const PaddedArray& a, const PaddedArray& b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

// A and D from the default lines or from the open units' own slopes.
void RegionBounder::ChooseDual(Hidden& layer, Choice choice) {
  const PairLines& lines = layer.lines;
  for (std::int64_t k = 0; k < layer.units; ++k) {
    const bool over = layer.cd[k] > 0;
    const double r = over ? lines.ur[k] : lines.lr[k];
    const double s = layer.cz[k] + layer.cd[k] * r > 0 ? lines.su[k] : lines.sl[k];
    layer.s[k] = s;
    layer.p[k] = (over ? lines.up[k] : lines.lp[k]) + r * s;
    layer.q[k] = over ? lines.uq[k] : lines.lq[k];
  }
  if (choice == Choice::kOwnSlopes) {
    for (const std::int32_t k : layer.open) {
      layer.s[k] = layer.own_s[k], layer.p[k] = layer.own_p[k], layer.q[k] = layer.own_q[k];
    }
  } else if (choice == Choice::kFlatLines) {
    // Differences by themselves: between 0 and d^.
    for (const std::int32_t k : layer.open) {
      const double a = layer.ranges.a[k], b = layer.ranges.b[k];
      const double over = a >= 0 ? 1 : b <= 0 ? 0 : b / (b - a);
      layer.s[k] = layer.cz[k] > 0 ? lines.su[k] : lines.sl[k];
      layer.p[k] = 0;
      layer.q[k] = layer.cd[k] > 0 ? over : 1 - over;
    }
  } else {
    for (std::int64_t k = 0; k < layer.units; ++k) {
      layer.own_s[k] = layer.s[k], layer.own_p[k] = layer.p[k], layer.own_q[k] = layer.q[k];
    }
  }
  for (std::int64_t k = 0; k < layer.units; ++k) {
    const double cz = layer.cz[k], cd = layer.cd[k];
    layer.big_a[k] = layer.s[k] * cz + layer.p[k] * cd + layer.push_a[k];
    layer.big_d[k] = layer.q[k] * cd + layer.push_d[k];
  }
}

// N_c - N_c' - lambda (P_c - P_c'' - err) as cz z + cd delta + constant of the last hidden layer.
double RegionBounder::StartObjective(const PairQuestion& question, double lambda, double& size) {
  const DenseLayer& ours = dense_.back();
  const DenseLayer& theirs = member_output_;
  const std::int32_t c = question.label, other = question.other, below = question.below;
  Hidden& top = hidden_.back();
  for (std::int64_t k = 0; k < top.units; ++k) {
    const double w = ours.weights.row(c)[k] - ours.weights.row(below)[k];
    const double v = lambda * (theirs.weights.row(c)[k] - theirs.weights.row(other)[k]);
    top.cz[k] = w - v;
    top.cd[k] = -v;
    size += (std::abs(w) + 2 * std::abs(v)) * top.size[k];
  }
  size +=
      std::abs(ours.bias[c]) + std::abs(ours.bias[below]) +
      lambda * (std::abs(theirs.bias[c]) + std::abs(theirs.bias[other]) + question.member_error);
  return ours.bias[c] - ours.bias[below] -
         lambda * (theirs.bias[c] - theirs.bias[other] - question.member_error);
}

// From the last hidden layer's cz and cd down to the inputs' coefficients. Adds to the bound, and
// to `size`, what the rounding charge is proportional to.
void RegionBounder::Substitute(Choice choice, double& bound, double& size) {
  choice_ = choice;
  for (std::size_t m = hidden_.size(); m-- > 0;) {
    Hidden& layer = hidden_[m];
    layer.above = Up(bound + 4 * gamma_ * size);
    if (choice != Choice::kGivenDual) ChooseDual(layer, choice);
    FindPeaks(layer.units, layer.ranges, layer.cz.data(), layer.cd.data(), layer.big_a.data(),
              layer.big_d.data(), layer.peaks);
    for (std::int64_t k = 0; k < layer.units; ++k) {
      bound += layer.peaks.value[k];
      size += (std::abs(layer.cz[k]) + std::abs(layer.cd[k]) + std::abs(layer.big_a[k]) +
               std::abs(layer.big_d[k])) *
              layer.size[k];
    }
    bound += Dot(layer.big_a, layer.network->bias, layer.units) +
             Dot(layer.big_d, layer.difference.bias, layer.units);
    PaddedArray& next_z = m == 0 ? cx_ : hidden_[m - 1].cz;
    next_z.Reset(next_z.size());
    AddTransposed(layer.big_a.data(), layer.network->weights, all_[m], next_z.data());
    AddTransposed(layer.big_d.data(), layer.difference.weights, all_[m], next_z.data());
    if (m == 0) break;
    PaddedArray& next_d = hidden_[m - 1].cd;
    next_d.Reset(next_d.size());
    AddTransposed(layer.big_d.data(), layer.member.weights, all_[m], next_d.data());
  }
  for (std::int64_t j = 0; j < inputs_; ++j) size += std::abs(cx_[j]) * x_.size[j];
}

double RegionBounder::Evaluate(const PairQuestion& question, double lambda, Choice choice) {
  double size = 0;
  double bound = StartObjective(question, lambda, size);
  Substitute(choice, bound, size);
  for (std::int64_t j = 0; j < inputs_; ++j) {
    const Interval x = region_->box[j];
    bound += std::max(cx_[j] * x.lower, cx_[j] * x.upper);
  }
  return Charged(bound, size);
}

double RegionBounder::Charged(double bound, double size) {
  charge_ = 4 * gamma_ * size + 0x1p-499;  // and all underflow, as the checker has it
  const double total = Up(bound + charge_);
  return total < kInfinity && bounded_ ? total : kInfinity;  // NaN, too, proves nothing
}

RegionBounder::Rest RegionBounder::RestOf(std::size_t layer, const PairQuestion& question,
                                          double lambda, std::span<const float> pushes) {
  SetPushes(pushes);
  Evaluate(question, lambda, Choice::kDefaultLines);
  const Hidden& at = hidden_[layer];
  const auto count = static_cast<std::size_t>(at.units);
  return {bounded_ && at.above < kInfinity ? at.above : kInfinity,
          {at.cz.data(), count},
          {at.cd.data(), count}};
}

bool RegionBounder::NetworkOpen(const PairRanges& ranges, std::int64_t k) {
  return ranges.l[k] < 0 && ranges.u[k] > 0;
}
bool RegionBounder::MemberOpen(const PairRanges& ranges, std::int64_t k) {
  return ranges.sign[k] == 0 && ranges.l[k] + ranges.a[k] < 0 && ranges.u[k] + ranges.b[k] > 0;
}

std::optional<PhaseSplit> RegionBounder::OpenPhase(std::size_t from, std::span<const double> x,
                                                   double least) {
  std::ranges::copy(x, point_.data());
  RunAtPoint();
  std::optional<PhaseSplit> found;
  for (std::size_t m = from; m < hidden_.size(); ++m) {
    const Hidden& layer = hidden_[m];
    for (std::int64_t k = 0; k < layer.units; ++k) {
      const bool ours = NetworkOpen(layer.ranges, k);
      if ((!ours && !MemberOpen(layer.ranges, k)) || !(layer.scratch[k] > least)) continue;
      least = layer.scratch[k];
      found = PhaseSplit{static_cast<std::int32_t>(m), static_cast<std::int32_t>(k), !ours, true};
    }
  }
  return found;
}

RegionBounder::Line RegionBounder::LineOver(std::span<const double> z,
                                            std::span<const double> delta, bool flat) {
  Hidden& top = hidden_.back();
  std::ranges::copy(z, top.cz.data());
  std::ranges::copy(delta, top.cd.data());
  double bound = 0, size = 0;
  Substitute(flat ? Choice::kFlatLines : Choice::kDefaultLines, bound, size);
  return {Charged(bound, size), {cx_.data(), static_cast<std::size_t>(inputs_)}};
}

// Where the linear function of the last Evaluate is largest.
void RegionBounder::SetPoint() {
  for (std::int64_t j = 0; j < inputs_; ++j) {
    const Interval x = region_->box[j];
    point_[j] = cx_[j] > 0 ? x.upper : x.lower;
  }
}

// The chain rule downwards from the outputs is the network upwards from the input: with the peaks'
// z^*, d^* and z^, d^ what the layer below says they should be, d bound / d A = z^ - z^*,
// d bound / d D = d^ - d^*, and the next layer sees z* + s (z^ - z^*) and
// delta* + p (z^ - z^*) + q (d^ - d^*). Leaves both derivatives in sum_at and diff_at.
double RegionBounder::Gradient(const PairQuestion& question) {
  SetPoint();
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    Hidden& layer = hidden_[m];
    Propagate(m, m == 0 ? point_ : hidden_[m - 1].z_at, m == 0 ? nullptr : &hidden_[m - 1].d_at);
    for (std::int64_t k = 0; k < layer.units; ++k) {
      const double sum = layer.peaks.sum[k], difference = layer.peaks.difference[k];
      const double by_a = layer.sum_at[k] -= sum;
      const double by_d = layer.diff_at[k] -= difference;
      const double z = Relu(sum);
      layer.z_at[k] = z + layer.s[k] * by_a;
      layer.d_at[k] = Relu(sum + difference) - z + layer.p[k] * by_a + layer.q[k] * by_d;
    }
  }
  const Hidden& top = hidden_.back();
  const std::int32_t c = question.label, other = question.other;
  double slope = question.member_error - member_output_.bias[c] + member_output_.bias[other];
  for (std::int64_t k = 0; k < top.units; ++k) {
    slope -= (member_output_.weights.row(c)[k] - member_output_.weights.row(other)[k]) *
             (top.z_at[k] + top.d_at[k]);
  }
  return slope;
}

// z^ and d^ of layer m from z and delta below (null: 0).
void RegionBounder::Propagate(std::size_t m, const PaddedArray& z, const PaddedArray* delta) {
  Hidden& layer = hidden_[m];
  for (std::int64_t k = 0; k < layer.units; ++k) {
    layer.sum_at[k] = layer.network->bias[k];
    layer.diff_at[k] = layer.difference.bias[k];
  }
  AddProduct(layer.network->weights, z.data(), layer.sum_at.data());
  AddProduct(layer.difference.weights, z.data(), layer.diff_at.data());
  if (delta != nullptr) AddProduct(layer.member.weights, delta->data(), layer.diff_at.data());
}

double RegionBounder::Bound(const PairQuestion& question, Multipliers& multipliers, int steps,
                            double enough) {
  multipliers.pushes.resize(region_->phases.size());
  SetPushes(multipliers.pushes);
  const double start = multipliers.lambda;
  double given = kInfinity;
  if (!multipliers.slopes.empty()) {
    ReadSlopes(multipliers.slopes);
    given = Evaluate(question, start, Choice::kOwnSlopes);
    if (given <= enough) return given;
  }
  double value = Evaluate(question, start, Choice::kDefaultLines);
  // A smaller box asks for other lines than its parent's; a phase for hardly any.
  if (value < given || region_->phases.empty()) {
    value = SearchLambda(question, value, enough, multipliers.lambda);
  }
  const bool fresh = multipliers.slopes.empty() || value < given;  // both may be infinite
  if (!fresh) {
    multipliers.lambda = start;
    ReadSlopes(multipliers.slopes);
    value = Evaluate(question, start, Choice::kOwnSlopes);
  }
  multipliers.slopes.clear();
  if (steps > 0 && value > enough) {
    rate_ = fresh ? kFirstRate : kNextRate;
    return Descend(question, value, steps, enough, multipliers);
  }
  if (!fresh) multipliers.slopes = WriteSlopes();
  return value;
}

// With the default lines the bound is nearly convex in lambda: a bracket on the derivative's sign.
double RegionBounder::SearchLambda(const PairQuestion& question, double value, double enough,
                                   double& lambda) {
  double best = value, at = lambda, low = 0, high = kInfinity;
  for (int step = 0; step < kLambdaSteps && best > enough; ++step) {
    (Gradient(question) > 0 ? high : low) = at;
    // Near 0 it is 0 that is wanted: where the member surely flips, f alone counts.
    const double next = high == kInfinity               ? 2 * at + 0.1
                        : low == 0 && at < kLeastLambda ? 0
                                                        : 0.5 * (low + high);
    if (std::abs(next - at) < 1e-3 * (1 + at)) break;
    at = next;
    value = Evaluate(question, at, Choice::kDefaultLines);
    if (value < best) best = value, lambda = at;
  }
  return at == lambda ? best : Evaluate(question, lambda, Choice::kDefaultLines);
}

double RegionBounder::Descend(const PairQuestion& question, double value, int steps, double enough,
                              Multipliers& multipliers) {
  multipliers.slopes = WriteSlopes();
  const double scale = std::abs(value);
  double best = value, lambda = multipliers.lambda;
  std::vector<float> pushes = multipliers.pushes;
  int fails = 0;
  Adam adam(1 + multipliers.slopes.size() + pushes.size(), rate_, kRateDecay);
  for (int step = 0; step < steps && best > enough; ++step) {
    const double slope = Gradient(question);
    multipliers.steepest = std::max(multipliers.steepest, static_cast<float>(std::abs(slope)));
    adam.NextStep();
    lambda -= adam.Step(slope) * std::min(std::max(lambda, 0.05),
                                          kLambdaScale * scale / (multipliers.steepest + kTiny));
    lambda = std::max(lambda, 0.0);
    for (Hidden& layer : hidden_) {
      for (const std::int32_t k : layer.open) {
        const double by_a = layer.sum_at[k], by_d = layer.diff_at[k];
        const PairRanges& r = layer.ranges;
        const double thin = std::min(1.0, (r.b[k] - r.a[k]) / (r.u[k] - r.l[k] + kTiny));
        const auto move = [&](double& slope_of, double size, double gradient, double low) {
          slope_of = std::clamp(slope_of - size * adam.Step(gradient), low, 1.0);
        };
        move(layer.own_s[k], 1, layer.cz[k] * by_a, 0);
        move(layer.own_p[k], thin, layer.cd[k] * by_a, -1);
        move(layer.own_q[k], 1, layer.cd[k] * by_d, 0);
      }
    }
    for (std::size_t n = 0; n < pushes.size(); ++n) {
      const PhaseSplit& phase = region_->phases[n];
      const Hidden& layer = hidden_[phase.layer];
      const double gradient =
          layer.sum_at[phase.unit] + (phase.member ? layer.diff_at[phase.unit] : 0.0);
      pushes[n] -= static_cast<float>(adam.Step(gradient) * kPushScale * scale /
                                      (layer.width[phase.unit] + kTiny));
    }
    SetPushes(pushes);
    value = Evaluate(question, lambda, Choice::kOwnSlopes);
    if (value < best) {
      best = value;
      multipliers.lambda = lambda;
      multipliers.slopes = WriteSlopes();
      multipliers.pushes = pushes;
      fails = 0;
    } else if (++fails >= kFails) {
      // Too far: back to the best point, with smaller steps.
      adam.Shrink();
      fails = 0;
      lambda = multipliers.lambda;
      pushes = multipliers.pushes;
      ReadSlopes(multipliers.slopes);
      SetPushes(pushes);
      Evaluate(question, lambda, Choice::kOwnSlopes);
    }
  }
  // Slopes are kept as floats: what these give is what counts.
  ReadSlopes(multipliers.slopes);
  SetPushes(multipliers.pushes);
  return Evaluate(question, multipliers.lambda, Choice::kOwnSlopes);
}

void RegionBounder::SetPushes(std::span<const float> pushes) {
  for (Hidden& layer : hidden_) {
    layer.push_a.Reset(layer.units);
    layer.push_d.Reset(layer.units);
  }
  for (std::size_t n = 0; n < pushes.size(); ++n) {
    const PhaseSplit& phase = region_->phases[n];
    hidden_[phase.layer].push_a[phase.unit] += pushes[n];
    if (phase.member) hidden_[phase.layer].push_d[phase.unit] += pushes[n];
  }
}

void RegionBounder::ReadSlopes(std::span<const float> slopes) {
  std::size_t at = 0;
  for (Hidden& layer : hidden_) {
    for (std::int64_t k = 0; k < layer.units; ++k) {
      layer.own_s[k] = slopes[at++];
      layer.own_p[k] = slopes[at++];
      layer.own_q[k] = slopes[at++];
    }
  }
}

std::vector<float> RegionBounder::WriteSlopes() const {
  std::vector<float> slopes;
  slopes.reserve(static_cast<std::size_t>(3 * units_));
  for (const Hidden& layer : hidden_) {
    for (std::int64_t k = 0; k < layer.units; ++k) {
      for (const double value : {layer.own_s[k], layer.own_p[k], layer.own_q[k]}) {
        slopes.push_back(static_cast<float>(value));
      }
    }
  }
  return slopes;
}

std::vector<float> RegionBounder::Dual() const {
  std::vector<float> dual;
  dual.reserve(static_cast<std::size_t>(2 * units_));
  for (const Hidden& layer : hidden_) {
    for (const PaddedArray* part : {&layer.big_a, &layer.big_d}) {
      for (std::int64_t k = 0; k < layer.units; ++k) {
        dual.push_back(static_cast<float>((*part)[k]));
      }
    }
  }
  return dual;
}

double RegionBounder::BoundOfDual(const PairQuestion& question, double lambda,
                                  std::span<const float> dual) {
  std::size_t at = 0;
  for (Hidden& layer : hidden_) {
    for (PaddedArray* part : {&layer.big_a, &layer.big_d}) {
      for (std::int64_t k = 0; k < layer.units; ++k) (*part)[k] = dual[at++];
    }
  }
  return Evaluate(question, lambda, Choice::kGivenDual);
}

// N and the member as they are at point_. Leaves each neuron's loss in scratch: its peak minus its
// term there. Where the linear bound is largest, they add up to the bound minus the value.
void RegionBounder::RunAtPoint() {
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    Hidden& layer = hidden_[m];
    Propagate(m, m == 0 ? point_ : hidden_[m - 1].z_at, m == 0 ? nullptr : &hidden_[m - 1].d_at);
    for (std::int64_t k = 0; k < layer.units; ++k) {
      const double sum = layer.sum_at[k], difference = layer.diff_at[k];
      const double z = Relu(sum), delta = Relu(sum + difference) - z;
      layer.z_at[k] = z;
      layer.d_at[k] = delta;
      const double term = layer.cz[k] * z + layer.cd[k] * delta - layer.big_a[k] * sum -
                          layer.big_d[k] * difference;
      layer.scratch[k] = std::max(layer.peaks.value[k] - term, 0.0);
    }
  }
}

// After RunAtPoint.
double RegionBounder::OutputDifference(const PairQuestion& question) const {
  const DenseLayer& ours = dense_.back();
  const DenseLayer& theirs = member_output_;
  const std::int32_t c = question.label, other = question.other;
  const Hidden& top = hidden_.back();
  double value = ours.bias[c] - ours.bias[other] - theirs.bias[c] + theirs.bias[other];
  for (std::int64_t k = 0; k < top.units; ++k) {
    value +=
        (ours.weights.row(c)[k] - ours.weights.row(other)[k]) * top.z_at[k] -
        (theirs.weights.row(c)[k] - theirs.weights.row(other)[k]) * (top.z_at[k] + top.d_at[k]);
  }
  return value;
}

RegionBounder::Side RegionBounder::SideAt(const PairQuestion& question, double lambda) {
  Side side;
  Evaluate(question, lambda, choice_);
  side.slope = Gradient(question);  // and the point where the bound is largest
  RunAtPoint();
  side.difference = OutputDifference(question);
  side.x.assign(point_.data(), point_.data() + inputs_);
  for (const Hidden& layer : hidden_) {
    const auto append = [&](const PaddedArray& from, std::vector<double>& to) {
      to.insert(to.end(), from.data(), from.data() + layer.units);
    };
    append(layer.peaks.sum, side.sums);
    append(layer.peaks.difference, side.differences);
    append(layer.scratch, side.losses);
  }
  return side;
}

// At the best lambda the Lagrangian has maximisers on both sides of g = err, and the relaxation's
// optimum is a mixture of them, at which g = err. There, not at either of them, is where a neuron's
// term is above what its function gives. Leaves that loss in scratch and the mixture in point_.
void RegionBounder::MixLosses(const Side& one, const Side& other) {
  const double total = std::abs(one.slope) + std::abs(other.slope);
  const double v = total > 0 ? std::abs(other.slope) / total : 0.5, w = 1 - v;
  for (std::int64_t j = 0; j < inputs_; ++j) point_[j] = v * one.x[j] + w * other.x[j];
  std::size_t at = 0;
  for (Hidden& layer : hidden_) {
    for (std::int64_t k = 0; k < layer.units; ++k, ++at) {
      const auto gain = [&](double sum, double difference) {
        const double z = Relu(sum);
        return layer.cz[k] * z + layer.cd[k] * (Relu(sum + difference) - z);
      };
      const double mixed = gain(v * one.sums[at] + w * other.sums[at],
                                v * one.differences[at] + w * other.differences[at]);
      const double bend = v * gain(one.sums[at], one.differences[at]) +
                          w * gain(other.sums[at], other.differences[at]) - mixed;
      layer.scratch[k] = std::max(bend, 0.0) + v * one.losses[at] + w * other.losses[at];
    }
  }
}

SplitAdvice RegionBounder::Advise(const PairQuestion& question, const Multipliers& multipliers,
                                  double target) {
  const double lambda = multipliers.lambda;
  const Side here = SideAt(question, lambda);
  Side there = here;
  double away = 1e-5 * (1 + lambda);
  for (int i = 0; i < kSideSteps && there.slope * here.slope > 0; ++i, away *= 8) {
    there = SideAt(question, std::max(lambda - std::copysign(away, here.slope), 0.0));
  }
  const double bound = Evaluate(question, lambda, choice_);
  const bool two_sides = there.slope * here.slope <= 0;
  MixLosses(here, two_sides ? there : here);
  SplitAdvice advice;
  double first = 0, second = 0;
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    const Hidden& layer = hidden_[m];
    const PairRanges& r = layer.ranges;
    for (std::int64_t k = 0; k < layer.units; ++k) {
      const bool n_open = NetworkOpen(r, k), m_open = MemberOpen(r, k);
      const bool again = layer.split[k] != 0;
      double& most = again ? second : first;
      advice.open += n_open || m_open;
      if ((!n_open && !m_open) || layer.scratch[k] <= most) continue;
      most = layer.scratch[k];
      // delta has to be bounded from above: y >= 0 gives delta <= d^, y <= 0 gives delta <= 0;
      // from below: z^ >= 0 gives delta >= d^, z^ <= 0 gives delta >= 0.
      const bool member = m_open && (layer.cd[k] > 0 || !n_open);
      (again ? advice.other_phase : advice.phase) =
          PhaseSplit{static_cast<std::int32_t>(m), static_cast<std::int32_t>(k), member, true};
    }
  }
  // The other phase of a neuron leaves a sliver where its phases differ: only if it loses most.
  if (second < kOtherPhase * first) advice.other_phase.reset();
  // Where real inputs have an f - g about as large as the bound, no better bound of it helps: they
  // are excluded by their f alone, and lie on both sides of g = err, so that lambda cannot leave
  // the middle. A cut between the two sides lets it.
  const double real = std::max(here.difference, there.difference);
  if (two_sides && real - target > kRealShare * (bound - target)) {
    advice.input = SeparatingInput(question, here, there);
  }
  if (advice.input < 0) advice.input = WorstInput();
  return advice;
}

// The input in which the two sides differ and to which f, with a chord for every neuron that is
// open, owes most of its difference. -1: there is none.
std::int32_t RegionBounder::SeparatingInput(const PairQuestion& question, const Side& one,
                                            const Side& other) {
  const DenseLayer& output = dense_.back();
  std::vector<double> slopes(static_cast<std::size_t>(hidden_.back().units));
  for (std::size_t k = 0; k < slopes.size(); ++k) {
    slopes[k] = output.weights.row(question.label)[k] - output.weights.row(question.below)[k];
  }
  for (std::size_t m = hidden_.size(); m-- > 0;) {
    const Hidden& layer = hidden_[m];
    for (std::int64_t k = 0; k < layer.units; ++k) {
      const double l = layer.ranges.l[k], u = layer.ranges.u[k];
      slopes[k] *= u <= 0 ? 0 : l >= 0 ? 1 : u / (u - l);
    }
    PaddedArray below(layer.network->weights.columns);
    AddTransposed(slopes.data(), layer.network->weights, all_[m], below.data());
    slopes.assign(below.data(), below.data() + below.size());
  }
  std::int32_t best = -1;
  double most = 0;
  for (std::int64_t j = 0; j < inputs_; ++j) {
    const double share = std::abs(slopes[j] * (one.x[j] - other.x[j]));
    if (share > most) most = share, best = static_cast<std::int32_t>(j);
  }
  return best;
}

// Inputs are blamed for the neurons' losses by how much of a sum's range is theirs, and for their
// own part of the linear bound.
std::int32_t RegionBounder::WorstInput() {
  for (std::size_t m = hidden_.size(); m-- > 0;) {
    Hidden& layer = hidden_[m];
    const Range& below = m == 0 ? x_ : hidden_[m - 1].network_z;
    PaddedArray& blame = m == 0 ? blame_ : hidden_[m - 1].scratch;
    if (m == 0) blame.Reset(inputs_);
    const std::int64_t columns = layer.network->weights.columns;
    for (std::int64_t k = 0; k < layer.units; ++k) {
      const double loss = layer.scratch[k];
      if (loss <= 0) continue;
      const double* row = layer.network->weights.row(k);
      double range = kTiny;
      for (std::int64_t j = 0; j < columns; ++j) range += std::abs(row[j]) * below.radius[j];
      for (std::int64_t j = 0; j < columns; ++j) {
        blame[j] += loss / range * std::abs(row[j]) * below.radius[j];
      }
    }
  }
  std::int32_t worst = -1;
  double most = -1;
  for (std::int64_t j = 0; j < inputs_; ++j) {
    const double score = blame_[j] + std::abs(cx_[j]) * x_.radius[j];
    if (region_->box[j].lower < region_->box[j].upper && score > most) {
      most = score;
      worst = static_cast<std::int32_t>(j);
    }
  }
  return worst;
}

}  // namespace lucid
