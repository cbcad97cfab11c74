#include "check/proof_bounder.h"

#include <cmath>

#include "lucid/certificate/proof.h"
#include "numeric/rounding.h"

namespace lucid {

ProofBounder::ProofBounder(const Network& network, const Domain* domain)
    : facts_(network, domain), form_(facts_.terms()) {}

bool ProofBounder::EnterRegion(const ProofRegion& region, const std::optional<Band>& band,
                               Ties ties) {
  return facts_.EnterRegion(region, band, ties);
}
bool ProofBounder::EnterMember(std::span<const float> parameters, bool quick) {
  return facts_.EnterMember(parameters, quick);
}
bool ProofBounder::EnterMemberAgain(bool quick) { return facts_.EnterMemberAgain(quick); }

Interval ProofBounder::Sum(std::size_t layer, std::size_t unit) const {
  return {facts_.hidden()[layer].sum.low[unit], facts_.hidden()[layer].sum.high[unit]};
}

Interval ProofBounder::Difference(std::size_t layer, std::size_t unit) const {
  const SumPolygon& polygon = facts_.hidden()[layer].polygons[unit];
  return {polygon.a, polygon.b};
}

namespace {

// N_label less what it is measured against, of one column of the outputs' weights or of the biases.
// f is the least N_label - N_j over all j, so that no mixture of these is below f.
struct Measured {
  double value = 0, size = 0;  // size: the absolute values that it is made of
};

template <class Output>
Measured Measure(const ProofBounder::Question& question, const Output& output) {
  const double own = output(question.label);
  if (question.weights.empty()) {
    const double below = output(question.below);
    return {own - below, std::abs(own) + std::abs(below)};
  }
  Measured sum;
  for (std::size_t j = 0; j < question.weights.size(); ++j) {
    const double weight = question.weights[j];
    if (weight == 0) continue;
    sum.value += weight * (own - output(static_cast<std::int32_t>(j)));
    sum.size += weight * (std::abs(own) + std::abs(output(static_cast<std::int32_t>(j))));
  }
  return {sum.value / kWholeWeight, sum.size / kWholeWeight};
}

}  // namespace

// With c' = `below` and c'' = `other`, f - lambda (P_c - P_c'' - e) is at most
// N_c - N_c' - lambda (P_c - P_c'' - e), whose terms in z and delta of the last hidden layer are
// cz = (W_c - W_c') - lambda (W'_c - W'_c''), cd = -lambda (W'_c - W'_c''). It is at least f where
// P_c - P_c'' <= e, as lambda >= 0. Against a mixture, N_c' is the mixture of the N_j. Below, with
// A and D of the layer,
//   cz z + cd delta = (cz z + cd delta - A z^ - D d^) + A z^ + D d^
// for every neuron: the bracket is at most its peak, the rest goes down.
void ProofBounder::StartBound(const Question& question, double lambda) {
  const std::int32_t label = question.label, other = question.other;
  const ProofMatrix &ours = facts_.output(), &theirs = facts_.member_output();
  form_.Start(ours.columns);
  const auto bias = [&](const ProofMatrix& m, std::int32_t c) { return m.bias[c]; };
  const Measured biases = Measure(question, [&](std::int32_t c) { return bias(ours, c); });
  form_.constant =
      biases.value - lambda * (bias(theirs, label) - bias(theirs, other) - question.member_error);
  form_.size = biases.size + lambda * (std::abs(bias(theirs, label)) +
                                       std::abs(bias(theirs, other)) + question.member_error);
  for (std::size_t k = 0; k < ours.columns; ++k) {
    const auto [w, parts] = Measure(question, [&](std::int32_t c) { return ours.row(c)[k]; });
    const double w_size = question.weights.empty() ? std::abs(w) : parts;
    const double v = lambda * (theirs.row(label)[k] - theirs.row(other)[k]);
    form_.cz[k] = w - v;
    form_.cd[k] = -v;
    // Without hidden layers, z is the input and delta is 0.
    form_.size +=
        (w_size + 2 * std::abs(v)) *
        (facts_.hidden().empty() ? facts_.x().Size(k) : facts_.hidden().back().pair_scale[k]);
  }
}

ProofBounder::Slopes ProofBounder::SlopesByRule(const ProofLayer& layer, std::size_t k,
                                                bool flat) const {
  const NeuronLines& lines = layer.lines[k];
  const double cz = form_.cz[k], cd = form_.cd[k];
  const auto [l, u, a, b, sign] = layer.polygons[k];
  const bool open = l < 0 && u > 0 && sign == 0 && l + a < 0 && u + b > 0;
  if (flat && (open || layer.split[k] != 0)) {
    // Differences by themselves: between 0 and d^.
    const double over = a >= 0 ? 1 : b <= 0 ? 0 : b / (b - a);
    const double s = cz > 0 ? lines.output.su : lines.output.sl;
    return {s * cz, (cd > 0 ? over : 1 - over) * cd};
  }
  const DifferenceLine& line = cd > 0 ? lines.over : lines.under;
  const double s = cz + cd * line.r > 0 ? lines.output.su : lines.output.sl;
  return {s * cz + (line.p + line.r * s) * cd, line.q * cd};
}

void ProofBounder::Descend(Source source, std::span<const float> dual, std::size_t to) {
  std::size_t end = dual.size();
  for (std::size_t m = facts_.hidden().size(); m-- > to;) {
    const ProofLayer& layer = facts_.hidden()[m];
    const std::size_t units = layer.network.rows;
    std::vector<Slopes> pushed;
    for (std::size_t n = 0; n < pushes_.size(); ++n) {
      const ProofPhase& phase = facts_.region().phases[n];
      if (phase.layer != static_cast<std::int32_t>(m)) continue;
      pushed.resize(units);
      pushed[phase.unit].a += pushes_[n];
      if (phase.member) pushed[phase.unit].d += pushes_[n];
    }
    std::span<const float> big_a, big_d;
    if (source == Source::kGiven) {
      big_d = dual.subspan(end - units, units);
      big_a = dual.subspan(end - 2 * units, units);
      end -= 2 * units;
    }
    form_.StartNextLayer(layer.network.columns);
    for (std::size_t k = 0; k < units; ++k) {
      const double cz = form_.cz[k], cd = form_.cd[k];
      Slopes slopes;
      if (source == Source::kGiven) {
        slopes = {big_a[k], big_d[k]};
      } else if (source != Source::kZero) {
        slopes = SlopesByRule(layer, k, source == Source::kFlatLines);
      }
      if (!pushed.empty()) slopes = {slopes.a + pushed[k].a, slopes.d + pushed[k].d};
      const auto [a, d] = slopes;
      form_.constant += PeakUp(layer.polygons[k], cz, cd, a, d);
      form_.size += (std::abs(cz) + std::abs(cd) + std::abs(a) + std::abs(d)) * layer.pair_scale[k];
      if (a != 0 || d != 0) form_.Unfold(layer, k, a, d);
    }
    form_.PassDown();
  }
}

double ProofBounder::Bound(const Question& question, double lambda, std::span<const float> dual) {
  if (!facts_.usable()) return kInfinity;
  StartBound(question, lambda);
  Descend(Source::kGiven, dual);
  return form_.Largest(facts_.box());
}

double ProofBounder::BoundByLines(const Question& question, double lambda) {
  if (!facts_.usable()) return kInfinity;
  StartBound(question, lambda);
  Descend(Source::kLines, {});
  return form_.Largest(facts_.box());
}

double ProofBounder::BoundByIntervals(const Question& question) {
  if (!facts_.usable()) return kInfinity;
  StartBound(question, 1);
  Descend(Source::kZero, {});
  return form_.Largest(facts_.box());
}

// The rounding of what is left is in S, too: a layer's part of S holds what its coefficients for
// the layer below are off by, times z and delta there.
ProofBounder::Rest ProofBounder::RestOf(std::size_t layer, const Question& question, double lambda,
                                        std::span<const float> pushes) {
  if (!facts_.usable()) return {kInfinity, {}, {}};
  StartBound(question, lambda);
  pushes_.assign(pushes.begin(), pushes.end());
  Descend(Source::kLines, {}, layer + 1);
  pushes_.clear();
  return {form_.ChargedConstant(), form_.cz, form_.cd};
}

ProofBounder::Line ProofBounder::LineOver(std::span<const double> z, std::span<const double> delta,
                                          bool flat) {
  if (!facts_.usable()) return {kInfinity, {}};
  form_.Start(z.size());
  form_.cz.assign(z.begin(), z.end());
  form_.cd.assign(delta.begin(), delta.end());
  Descend(flat ? Source::kFlatLines : Source::kLines, {});
  form_.AddInputSize(facts_.x());
  return {form_.ChargedConstant(), form_.cz};
}

}  // namespace lucid
