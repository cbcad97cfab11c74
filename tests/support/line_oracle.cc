#include "support/line_oracle.h"

#include <algorithm>

namespace lucid {
namespace {

using Form = LinePiece::Form;

// Where the form is 0, if that is inside of (from, to).
std::optional<mpq_class> ZeroOf(const Form& form, const mpq_class& from, const mpq_class& to) {
  if (form.slope == 0) return std::nullopt;
  mpq_class zero = -form.at_zero / form.slope;
  if (zero <= from || zero >= to) return std::nullopt;
  return zero;
}

Form Minus(const Form& a, const Form& b) { return {a.slope - b.slope, a.at_zero - b.at_zero}; }

// One layer more: the piece is cut where a neuron changes its phase.
void AddLayer(const Network& network, const Layer& layer, const LinePiece& piece,
              std::vector<LinePiece>& out) {
  std::vector<Form> sums;
  for (std::int64_t unit = 0; unit < layer.outputs; ++unit) {
    Form sum{0, mpq_class(network.parameters[layer.bias_at + unit])};
    for (std::int64_t k = 0; k < layer.taps; ++k) {
      const mpq_class weight(network.parameters[layer.weight_at + unit * layer.taps + k]);
      sum.slope += weight * piece.outputs[k].slope;
      sum.at_zero += weight * piece.outputs[k].at_zero;
    }
    sums.push_back(std::move(sum));
  }
  if (!layer.relu) {
    out.push_back({piece.from, piece.to, std::move(sums)});
    return;
  }
  std::vector<mpq_class> ends = {piece.from, piece.to};
  for (const Form& sum : sums) {
    if (auto zero = ZeroOf(sum, piece.from, piece.to)) ends.push_back(std::move(*zero));
  }
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (std::size_t n = 0; n + 1 < ends.size(); ++n) {
    LinePiece& part = out.emplace_back(LinePiece{ends[n], ends[n + 1], sums});
    const mpq_class middle = (ends[n] + ends[n + 1]) / 2;
    for (Form& form : part.outputs) {
      if (form.At(middle) < 0) form = {0, 0};
    }
  }
}

// The largest f in [from, to], f being the smallest of these forms: at an end, or where two meet.
mpq_class LargestConfidence(const std::vector<Form>& forms, const mpq_class& from,
                            const mpq_class& to) {
  std::vector<mpq_class> candidates = {from, to};
  for (std::size_t i = 0; i < forms.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (auto tie = ZeroOf(Minus(forms[i], forms[k]), from, to)) candidates.push_back(*tie);
    }
  }
  std::optional<mpq_class> largest;
  for (const mpq_class& x : candidates) {
    mpq_class f = forms.front().At(x);
    for (const Form& form : forms) f = std::min(f, form.At(x));
    if (!largest || f > *largest) largest = f;
  }
  return *largest;
}

// The part of [from, to] where the form is at most 0; false: none.
bool KeepNegative(const Form& form, mpq_class& from, mpq_class& to) {
  const bool at_from = form.At(from) <= 0, at_to = form.At(to) <= 0;
  if (at_from && at_to) return true;
  if (!at_from && !at_to) return false;
  (at_from ? to : from) = -form.at_zero / form.slope;
  return true;
}

}  // namespace

std::vector<LinePiece> PiecesOf(const Network& network) {
  std::vector<LinePiece> pieces = {{0, 1, {{1, 0}}}};
  for (const Layer& layer : network.architecture.layers()) {
    std::vector<LinePiece> next;
    for (const LinePiece& piece : pieces) AddLayer(network, layer, piece, next);
    pieces = std::move(next);
  }
  return pieces;
}

std::optional<mpq_class> ExactBeta(const std::vector<LinePiece>& network,
                                   const std::vector<LinePiece>& member, std::int32_t label,
                                   const mpq_class& allowance) {
  std::optional<mpq_class> beta;
  const auto c = static_cast<std::size_t>(label);
  for (std::size_t n = 0, m = 0; n < network.size() && m < member.size();) {
    const LinePiece &ours = network[n], &theirs = member[m];
    const mpq_class from = std::max(ours.from, theirs.from), to = std::min(ours.to, theirs.to);
    std::vector<Form> forms;
    for (std::size_t k = 0; k < ours.outputs.size(); ++k) {
      if (k != c) forms.push_back(Minus(ours.outputs[c], ours.outputs[k]));
    }
    for (std::size_t k = 0; k < theirs.outputs.size(); ++k) {
      if (k == c) continue;
      Form g = Minus(theirs.outputs[c], theirs.outputs[k]);
      g.at_zero -= allowance;
      mpq_class first = from, last = to;
      if (!KeepNegative(g, first, last)) continue;
      const mpq_class largest = LargestConfidence(forms, first, last);
      if (largest >= 0 && (!beta || largest > *beta)) beta = largest;
    }
    (ours.to < theirs.to ? n : m) += 1;
  }
  return beta;
}

}  // namespace lucid
