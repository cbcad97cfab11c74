#include "check/proof_form.h"

#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"

namespace lucid {

// Convolutions are written out: unit (o, t) of a layer sees the inputs t * stride + TapOffset(k).
// The entries it does not write are 0 from the start.
void ProofMatrix::Read(const Layer& shape, std::span<const float> parameters) {
  const bool dense = shape.kind == HiddenLayer::Kind::kDense;
  for (std::int64_t o = 0; o < shape.filters; ++o) {
    const std::span<const float> filter =
        parameters.subspan(shape.weight_at + o * shape.taps, shape.taps);
    for (std::int64_t t = 0; t < shape.positions; ++t) {
      const std::size_t unit = o * shape.positions + t;
      for (std::int64_t k = 0; k < shape.taps; ++k) {
        const std::int64_t column = dense ? k : t * shape.stride + shape.TapOffset(k);
        weights[unit * columns + column] = filter[k];
      }
      bias[unit] = parameters[shape.bias_at + o];
    }
  }
}

double ProofRanges::Size(std::size_t k) const {
  return std::max(std::abs(low[k]), std::abs(high[k]));
}

ProofLayer::ProofLayer(std::size_t units, std::size_t inputs)
    : network(units, inputs),
      member(units, inputs),
      difference(units, inputs),
      split(units),
      sum(units),
      output(units),
      scale(units),
      output_lines(units),
      polygons(units),
      pair_output(units),
      delta(units),
      pair_scale(units),
      lines(units) {}

ProofForm::ProofForm(std::int64_t terms) : terms_(terms), gamma_(GammaUp(terms)) {}

void ProofForm::Start(std::size_t units) {
  cz.resize(units);
  cd.assign(units, 0.0);
  constant = above = size = 0;
}

void ProofForm::StartNextLayer(std::size_t columns) {
  above += constant;
  constant = 0;
  next_z_.assign(columns, 0.0);
  next_d_.assign(columns, 0.0);
}

void ProofForm::Unfold(const ProofLayer& layer, std::size_t k, double a, double d) {
  const std::size_t columns = layer.network.columns;
  constant += a * layer.network.bias[k];
  const double* w = layer.network.row(k);
  if (d == 0) {
    for (std::size_t j = 0; j < columns; ++j) next_z_[j] += a * w[j];
    return;
  }
  constant += d * layer.difference.bias[k];
  const double* dw = layer.difference.row(k);
  const double* wm = layer.member.row(k);
  for (std::size_t j = 0; j < columns; ++j) next_z_[j] += a * w[j] + d * dw[j];
  for (std::size_t j = 0; j < columns; ++j) next_d_[j] += d * wm[j];
}

void ProofForm::PassDown() {
  std::swap(cz, next_z_);
  std::swap(cd, next_d_);
}

void ProofForm::SubstituteLines(const ProofLayer& layer, bool member) {
  StartNextLayer(layer.network.columns);
  for (std::size_t k = 0; k < layer.network.rows; ++k) {
    const double of_z = cz[k], of_d = cd[k];
    if (of_z == 0 && of_d == 0) continue;
    const OutputLines& output = member ? layer.lines[k].output : layer.output_lines[k];
    const DifferenceLine line = of_d == 0  ? DifferenceLine{}
                                : of_d > 0 ? layer.lines[k].over
                                           : layer.lines[k].under;
    const double z = of_z + of_d * line.r;
    const double a = z * (z > 0 ? output.su : output.sl) + of_d * line.p, d = of_d * line.q;
    const double intercept = z > 0 ? z * output.tu : 0, from_line = of_d * line.t;
    constant += intercept + from_line;
    size += (std::abs(of_z) + std::abs(of_d) + std::abs(a) + std::abs(d)) *
                (member ? layer.pair_scale[k] : layer.scale[k]) +
            intercept + std::abs(from_line);
    if (a != 0 || d != 0) Unfold(layer, k, a, d);
  }
  PassDown();
}

void ProofForm::AddInputSize(const ProofRanges& x) {
  for (std::size_t j = 0; j < cz.size(); ++j) size += std::abs(cz[j]) * x.Size(j);
}

double ProofForm::LargestOverBox(const ProofRanges& x, double gamma) const {
  double value = constant, sizes = size;
  for (std::size_t j = 0; j < cz.size(); ++j) {
    value += std::max(cz[j] * x.low[j], cz[j] * x.high[j]);
    sizes += std::abs(cz[j]) * x.Size(j);
  }
  const double result = Up(above + value + Up(4 * gamma * sizes + kUnderflow));
  return std::isnan(result) ? kInfinity : result;
}

double ProofForm::Largest(const ProofRanges& x, std::span<const ProofHalfSpace> half_spaces) {
  const double plain = LargestOverBox(x, gamma_);
  if (half_spaces.empty()) return plain;
  // The row as it was adds to S, too: the new one is made of it.
  AddInputSize(x);
  for (const ProofHalfSpace& half : half_spaces) LeanOn(half, x);
  const std::int64_t more = 8 * static_cast<std::int64_t>(half_spaces.size());
  return std::min(plain, LargestOverBox(x, GammaUp(terms_ + more)));
}

// Adds mu times the half space to the row in hand, mu >= 0 where its largest value over the box is
// smallest: the slope in mu is a . x - at_least at the corner x that is best, and grows where the
// row's coefficients change their signs. (Advice: whatever mu is, the bound holds.)
void ProofForm::LeanOn(const ProofHalfSpace& half, const ProofRanges& x) {
  double slope = -half.at_least;
  breaks_.clear();
  for (std::size_t j = 0; j < cz.size(); ++j) {
    const double width = std::abs(half.a[j]) * (x.high[j] - x.low[j]);
    const bool up = cz[j] > 0;
    slope += half.a[j] * (up ? x.high[j] : x.low[j]);
    if (width > 0 && (cz[j] * half.a[j] < 0 || (cz[j] == 0 && half.a[j] > 0))) {
      breaks_.emplace_back(-cz[j] / half.a[j], j);
    }
  }
  if (!(slope < 0)) return;
  std::ranges::sort(breaks_);
  double mu = 0;
  for (const auto& [at, j] : breaks_) {
    mu = at;
    slope += std::abs(half.a[j]) * (x.high[j] - x.low[j]);
    if (slope >= 0) break;
  }
  if (!(mu > 0)) return;
  for (std::size_t j = 0; j < cz.size(); ++j) {
    cz[j] += mu * half.a[j];
    size += mu * std::abs(half.a[j]) * x.Size(j);
  }
  constant -= mu * half.at_least;
  size += mu * std::abs(half.at_least);
}

double ProofForm::ChargedConstant() const {
  const double result = Up(above + constant + Up(4 * gamma_ * size + kUnderflow));
  return std::isnan(result) ? kInfinity : result;
}

}  // namespace lucid
