#include "pair/dual_bound.h"

#include <algorithm>
#include <cmath>

#include "lucid/certificate/proof.h"
#include "numeric/interval.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

double Dot(const PaddedArray& a, const PaddedArray& b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// s, p and q of every neuron for the coefficients cz and cd that the layer has.
void ChooseSlopes(const PairFacts::Layer& facts, const DualPoint::Layer& point, OpenSlopes slopes,
                  DualTerms::Layer& layer) {
  const PairLines& lines = facts.lines;
  for (std::int64_t k = 0; k < facts.units(); ++k) {
    const bool over = layer.cd[k] > 0;
    const double r = over ? lines.ur[k] : lines.lr[k];
    const double s = layer.cz[k] + layer.cd[k] * r > 0 ? lines.su[k] : lines.sl[k];
    layer.s[k] = s;
    layer.p[k] = (over ? lines.up[k] : lines.lp[k]) + r * s;
    layer.q[k] = over ? lines.uq[k] : lines.lq[k];
  }
  if (slopes == OpenSlopes::kOfPoint) {
    for (const std::int32_t k : facts.open) {
      layer.s[k] = point.s[k], layer.p[k] = point.p[k], layer.q[k] = point.q[k];
    }
  } else if (slopes == OpenSlopes::kFlat) {
    // Differences by themselves: between 0 and d^.
    for (const std::int32_t k : facts.open) {
      const double a = facts.ranges.a[k], b = facts.ranges.b[k];
      const double over = a >= 0 ? 1 : b <= 0 ? 0 : b / (b - a);
      layer.s[k] = layer.cz[k] > 0 ? lines.su[k] : lines.sl[k];
      layer.p[k] = 0;
      layer.q[k] = layer.cd[k] > 0 ? over : 1 - over;
    }
  }
}

void ChooseDual(const PairFacts::Layer& facts, const DualPoint::Layer& point, OpenSlopes slopes,
                DualTerms::Layer& layer) {
  ChooseSlopes(facts, point, slopes, layer);
  for (std::int64_t k = 0; k < facts.units(); ++k) {
    const double cz = layer.cz[k], cd = layer.cd[k];
    layer.big_a[k] = layer.s[k] * cz + layer.p[k] * cd + point.push_a[k];
    layer.big_d[k] = layer.q[k] * cd + point.push_d[k];
  }
}

// A sum, and what its terms' absolute values add up to: the rounding charge is proportional to it.
struct SizedSum {
  double value = 0, size = 0;
};

// N_c - N_c' - lambda (P_c - P_c'' - err) as cz z + cd delta + constant of the last hidden layer.
SizedSum StartObjective(const PairFacts& pair, const PairQuestion& question, double lambda,
                        DualTerms& terms) {
  const DenseLayer& ours = pair.network_output();
  const DenseLayer& theirs = pair.member_output;
  const std::int32_t c = question.label, other = question.other;
  const Measure measure(ours, question);
  DualTerms::Layer& top = terms.layers.back();
  const PairFacts::Layer& facts = pair.layers.back();
  SizedSum bound;
  for (std::int64_t k = 0; k < facts.units(); ++k) {
    const auto [w, w_size] = measure.Weight(k);
    const double v = lambda * (theirs.weights.row(c)[k] - theirs.weights.row(other)[k]);
    top.cz[k] = w - v;
    top.cd[k] = -v;
    bound.size += (w_size + 2 * std::abs(v)) * facts.size[k];
  }
  const auto [bias, bias_size] = measure.Bias();
  bound.size += bias_size + lambda * (std::abs(theirs.bias[c]) + std::abs(theirs.bias[other]) +
                                      question.member_error);
  bound.value = bias - lambda * (theirs.bias[c] - theirs.bias[other] - question.member_error);
  return bound;
}

// One layer's cz and cd become those of the layer below, or the inputs' coefficients.
void SubstituteLayer(const PairFacts& pair, std::size_t m, SizedSum& bound, DualTerms& terms) {
  const PairFacts::Layer& facts = pair.layers[m];
  DualTerms::Layer& layer = terms.layers[m];
  FindPeaks(facts.units(), facts.ranges, layer.cz.data(), layer.cd.data(), layer.big_a.data(),
            layer.big_d.data(), layer.peaks);
  for (std::int64_t k = 0; k < facts.units(); ++k) {
    bound.value += layer.peaks.value[k];
    bound.size += (std::abs(layer.cz[k]) + std::abs(layer.cd[k]) + std::abs(layer.big_a[k]) +
                   std::abs(layer.big_d[k])) *
                  facts.size[k];
  }
  bound.value += Dot(layer.big_a, facts.network->bias, facts.units()) +
                 Dot(layer.big_d, facts.difference.bias, facts.units());
  const std::vector<std::int32_t>& all = pair.network->unit_lists[m];
  PaddedArray& next_z = m == 0 ? terms.cx : terms.layers[m - 1].cz;
  next_z.Reset(next_z.size());
  AddTransposed(layer.big_a.data(), facts.network->weights, all, next_z.data());
  AddTransposed(layer.big_d.data(), facts.difference.weights, all, next_z.data());
  if (m == 0) return;
  PaddedArray& next_d = terms.layers[m - 1].cd;
  next_d.Reset(next_d.size());
  AddTransposed(layer.big_d.data(), facts.member.weights, all, next_d.data());
}

// From the last hidden layer's cz and cd down to the inputs' coefficients. Without a point, A and D
// are as they are.
void Substitute(const PairFacts& pair, const DualPoint* point, OpenSlopes slopes, SizedSum& bound,
                DualTerms& terms) {
  for (std::size_t m = terms.layers.size(); m-- > 0;) {
    terms.layers[m].above = Up(bound.value + 4 * pair.network->gamma * bound.size);
    if (point != nullptr) ChooseDual(pair.layers[m], point->layers[m], slopes, terms.layers[m]);
    SubstituteLayer(pair, m, bound, terms);
  }
  const RegionFacts& region = *pair.region;
  for (std::int64_t j = 0; j < pair.network->inputs; ++j) {
    bound.size += std::abs(terms.cx[j]) * region.x.size[j];
  }
}

ChargedBound Evaluate(const PairFacts& pair, const PairQuestion& question, double lambda,
                      const DualPoint* point, OpenSlopes slopes, DualTerms& terms) {
  SizedSum bound = StartObjective(pair, question, lambda, terms);
  Substitute(pair, point, slopes, bound, terms);
  const InputPoints& points = pair.region->points;
  const Box& box = points.empty() ? pair.box() : points.free_box();
  for (std::int64_t j = 0; j < pair.network->inputs; ++j) {
    bound.value += std::max(terms.cx[j] * box[j].lower, terms.cx[j] * box[j].upper);
  }
  if (!points.empty()) bound.value += points.Largest(terms.cx.data());
  return Charge(pair, bound.value, bound.size);
}

// z^ and d^ of a layer from z and delta of the one below (null: 0).
void Propagate(const PairFacts::Layer& facts, const PaddedArray& z, const PaddedArray* delta,
               PaddedArray& sum, PaddedArray& difference) {
  for (std::int64_t k = 0; k < facts.units(); ++k) {
    sum[k] = facts.network->bias[k];
    difference[k] = facts.difference.bias[k];
  }
  AddProduct(facts.network->weights, z.data(), sum.data());
  AddProduct(facts.difference.weights, z.data(), difference.data());
  if (delta != nullptr) AddProduct(facts.member.weights, delta->data(), difference.data());
}

std::int64_t UnitsOf(const DenseNetwork& network, std::size_t m) {
  return network.layers[m].weights.rows;
}

}  // namespace

double ChargedBound::WithSlack(double bound) { return Up(std::max(bound, 0.0) * (1 + 0x1p-30)); }

Measure::Measure(const DenseLayer& outputs, const PairQuestion& question)
    : outputs_(outputs), label_(question.label), below_(question.below) {
  for (std::size_t j = 0; j < question.weights.size(); ++j) {
    if (question.weights[j] == 0) continue;
    mixed_.emplace_back(static_cast<std::int32_t>(j),
                        static_cast<double>(question.weights[j]) / kWholeWeight);
  }
}

// A product of a weight of eight bits and a float is exact in double. So a mixture of m classes
// takes m roundings, of numbers that are at most `size`.
Measure::Sized Measure::Weight(std::int64_t k) const {
  const double own = outputs_.weights.row(label_)[k];
  if (mixed_.empty()) {
    const double value = own - outputs_.weights.row(below_)[k];
    return {value, std::abs(value)};
  }
  Sized sum{own, std::abs(own)};
  for (const auto& [j, weight] : mixed_) {
    const double part = weight * outputs_.weights.row(j)[k];
    sum.value -= part;
    sum.size += std::abs(part);
  }
  return sum;
}

Measure::Sized Measure::Bias() const {
  const double own = outputs_.bias[label_];
  if (mixed_.empty()) {
    return {own - outputs_.bias[below_], std::abs(own) + std::abs(outputs_.bias[below_])};
  }
  Sized sum{own, std::abs(own)};
  for (const auto& [j, weight] : mixed_) {
    const double part = weight * outputs_.bias[j];
    sum.value -= part;
    sum.size += std::abs(part);
  }
  return sum;
}

ChargedBound Charge(const PairFacts& pair, double bound, double size) {
  const double charge =
      4 * pair.network->gamma * size + 0x1p-499;  // and all underflow, as the checker has it
  const double total = Up(bound + charge);
  // NaN, too, proves nothing.
  return {total < kInfinity && pair.bounded ? total : kInfinity, charge};
}

DualPoint::DualPoint(const DenseNetwork& network) : layers(network.hidden()) {
  for (std::size_t m = 0; m < layers.size(); ++m) {
    Layer& layer = layers[m];
    for (PaddedArray* array : {&layer.s, &layer.p, &layer.q, &layer.push_a, &layer.push_d}) {
      array->Reset(UnitsOf(network, m));
    }
  }
}

void DualPoint::SetPushes(const Region& region, std::span<const float> pushes) {
  for (Layer& layer : layers) {
    layer.push_a.Reset(layer.push_a.size());
    layer.push_d.Reset(layer.push_d.size());
  }
  for (std::size_t n = 0; n < pushes.size(); ++n) {
    const PhaseSplit& phase = region.phases[n];
    layers[phase.layer].push_a[phase.unit] += pushes[n];
    if (phase.member) layers[phase.layer].push_d[phase.unit] += pushes[n];
  }
}

void DualPoint::SetSlopes(std::span<const float> slopes) {
  std::size_t at = 0;
  for (Layer& layer : layers) {
    for (std::int64_t k = 0; k < layer.s.size(); ++k) {
      layer.s[k] = slopes[at++];
      layer.p[k] = slopes[at++];
      layer.q[k] = slopes[at++];
    }
  }
}

std::vector<float> DualPoint::Slopes() const {
  std::vector<float> slopes;
  std::int64_t units = 0;
  for (const Layer& layer : layers) units += layer.s.size();
  slopes.reserve(static_cast<std::size_t>(3 * units));
  for (const Layer& layer : layers) {
    for (std::int64_t k = 0; k < layer.s.size(); ++k) {
      for (const double value : {layer.s[k], layer.p[k], layer.q[k]}) {
        slopes.push_back(static_cast<float>(value));
      }
    }
  }
  return slopes;
}

DualTerms::DualTerms(const DenseNetwork& network) : layers(network.hidden()) {
  for (std::size_t m = 0; m < layers.size(); ++m) {
    Layer& layer = layers[m];
    const std::int64_t units = UnitsOf(network, m);
    for (PaddedArray* array :
         {&layer.cz, &layer.cd, &layer.big_a, &layer.big_d, &layer.s, &layer.p, &layer.q}) {
      array->Reset(units);
    }
    layer.peaks.Reset(units);
  }
  cx.Reset(network.inputs);
}

ChargedBound EvaluateDual(const PairFacts& pair, const PairQuestion& question, double lambda,
                          const DualPoint& point, OpenSlopes slopes, DualTerms& terms) {
  return Evaluate(pair, question, lambda, &point, slopes, terms);
}

ChargedBound EvaluateGivenDual(const PairFacts& pair, const PairQuestion& question, double lambda,
                               DualTerms& terms) {
  return Evaluate(pair, question, lambda, nullptr, OpenSlopes::kDefault, terms);
}

ChargedBound EvaluateLine(const PairFacts& pair, const DualPoint& point, OpenSlopes slopes,
                          DualTerms& terms) {
  SizedSum bound;
  Substitute(pair, &point, slopes, bound, terms);
  return Charge(pair, bound.value, bound.size);
}

DualGradient::DualGradient(const DenseNetwork& network) : layers(network.hidden()) {
  for (std::size_t m = 0; m < layers.size(); ++m) {
    Layer& layer = layers[m];
    for (PaddedArray* array : {&layer.by_a, &layer.by_d, &layer.z, &layer.delta}) {
      array->Reset(UnitsOf(network, m));
    }
  }
  x.Reset(network.inputs);
}

// The chain rule downwards from the outputs is the network upwards from the input: with the peaks'
// z^*, d^* and z^, d^ what the layer below says they should be, d bound / d A = z^ - z^*,
// d bound / d D = d^ - d^*, and the next layer sees z* + s (z^ - z^*) and
// delta* + p (z^ - z^*) + q (d^ - d^*).
void FindGradient(const PairFacts& pair, const PairQuestion& question, const DualTerms& terms,
                  DualGradient& gradient) {
  const Box& box = pair.box();
  for (std::int64_t j = 0; j < pair.network->inputs; ++j) {
    gradient.x[j] = terms.cx[j] > 0 ? box[j].upper : box[j].lower;
  }
  const InputPoints& points = pair.region->points;
  if (!points.empty()) points.PutLargest(terms.cx.data(), gradient.x.data());
  for (std::size_t m = 0; m < terms.layers.size(); ++m) {
    DualGradient::Layer& layer = gradient.layers[m];
    DualGradient::Layer* below = m == 0 ? nullptr : &gradient.layers[m - 1];
    const DualTerms::Layer& of = terms.layers[m];
    Propagate(pair.layers[m], below == nullptr ? gradient.x : below->z,
              below == nullptr ? nullptr : &below->delta, layer.by_a, layer.by_d);
    for (std::int64_t k = 0; k < pair.layers[m].units(); ++k) {
      const double sum = of.peaks.sum[k], difference = of.peaks.difference[k];
      const double by_a = layer.by_a[k] -= sum;
      const double by_d = layer.by_d[k] -= difference;
      const double z = Relu(sum);
      layer.z[k] = z + of.s[k] * by_a;
      layer.delta[k] = Relu(sum + difference) - z + of.p[k] * by_a + of.q[k] * by_d;
    }
  }
  const DualGradient::Layer& top = gradient.layers.back();
  const DenseLayer& theirs = pair.member_output;
  const std::int32_t c = question.label, other = question.other;
  double slope = question.member_error - theirs.bias[c] + theirs.bias[other];
  for (std::int64_t k = 0; k < pair.layers.back().units(); ++k) {
    slope -= (theirs.weights.row(c)[k] - theirs.weights.row(other)[k]) * (top.z[k] + top.delta[k]);
  }
  gradient.by_lambda = slope;
  if (!question.mix) return;
  const DenseLayer& ours = pair.network_output();
  gradient.by_class.assign(static_cast<std::size_t>(ours.weights.rows), 0.0);
  for (std::int64_t j = 0; j < ours.weights.rows; ++j) {
    double& value = gradient.by_class[static_cast<std::size_t>(j)];
    value = ours.bias[c] - ours.bias[j];
    for (std::int64_t k = 0; k < pair.layers.back().units(); ++k) {
      value += (ours.weights.row(c)[k] - ours.weights.row(j)[k]) * top.z[k];
    }
  }
}

PairValues::PairValues(const DenseNetwork& network) : layers(network.hidden()) {
  for (std::size_t m = 0; m < layers.size(); ++m) {
    Layer& layer = layers[m];
    for (PaddedArray* array :
         {&layer.sum, &layer.difference, &layer.z, &layer.delta, &layer.loss}) {
      array->Reset(UnitsOf(network, m));
    }
  }
}

void FindValues(const PairFacts& pair, const DualTerms& terms, const PaddedArray& x,
                PairValues& values) {
  for (std::size_t m = 0; m < terms.layers.size(); ++m) {
    PairValues::Layer& layer = values.layers[m];
    PairValues::Layer* below = m == 0 ? nullptr : &values.layers[m - 1];
    const DualTerms::Layer& of = terms.layers[m];
    Propagate(pair.layers[m], below == nullptr ? x : below->z,
              below == nullptr ? nullptr : &below->delta, layer.sum, layer.difference);
    for (std::int64_t k = 0; k < pair.layers[m].units(); ++k) {
      const double sum = layer.sum[k], difference = layer.difference[k];
      const double z = Relu(sum), delta = Relu(sum + difference) - z;
      layer.z[k] = z;
      layer.delta[k] = delta;
      const double term =
          of.cz[k] * z + of.cd[k] * delta - of.big_a[k] * sum - of.big_d[k] * difference;
      layer.loss[k] = std::max(of.peaks.value[k] - term, 0.0);
    }
  }
}

}  // namespace lucid
