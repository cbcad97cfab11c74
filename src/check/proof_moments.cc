#include "check/proof_moments.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "numeric/rounding.h"

namespace lucid {
namespace {

// A range is widened to this share of the widest one of its layer, which is sound. An engine's
// solver cannot scale numbers of very different sizes, so its multipliers are for the wider ranges.
constexpr double kNarrow = 1e-3;
constexpr double kThinnest = 1e-9;
constexpr double kTooLarge = 0x1p200, kUnderflow = 0x1p-400;

// The constraints of a hidden unit, in the order of the multipliers.
enum Kind { kBoxZ, kBoxDelta, kBoxBelow, kAbove, kRelu, kMemberRelu, kActive, kInactive, kBetween };
constexpr std::size_t kKinds = 9;

// Rows of numbers, and beside each what it was added up from.
struct SizedRows {
  std::size_t columns = 0;
  std::vector<double> value, size;
  void Reset(std::size_t rows, std::size_t of) {
    columns = of;
    value.assign(rows * of, 0.0);
    size.assign(rows * of, 0.0);
  }
  double* values(std::size_t r) { return value.data() + r * columns; }
  double* sizes(std::size_t r) { return size.data() + r * columns; }
  const double* values(std::size_t r) const { return value.data() + r * columns; }
  const double* sizes(std::size_t r) const { return size.data() + r * columns; }
  void Add(std::size_t r, std::size_t c, double v, double s) {
    value[r * columns + c] += v;
    size[r * columns + c] += s;
  }
  // Row r += factor times a row of another table.
  void AddRow(std::size_t r, double factor, const SizedRows& other, std::size_t from) {
    if (factor == 0) return;
    const double bulk = std::abs(factor);
    double *v = values(r), *s = sizes(r);
    const double *ov = other.values(from), *os = other.sizes(from);
    for (std::size_t c = 0; c < columns; ++c) v[c] += factor * ov[c];
    for (std::size_t c = 0; c < columns; ++c) s[c] += bulk * os[c];
  }
};

}  // namespace

struct ProofMoments::Form {
  explicit Form(const Network& network)
      : architecture(network.architecture), ours(network.parameters), theirs(ours.size()) {
    inputs = static_cast<std::size_t>(architecture.inputs());
    for (const Layer& layer : architecture.layers()) {
      if (layer.relu) hidden += static_cast<std::size_t>(layer.outputs);
    }
  }

  static bool Inactive(const SumPolygon& p) { return p.u <= 0 && p.u + p.b <= 0; }
  static bool Active(const SumPolygon& p) { return p.l >= 0 && p.l + p.a >= 0; }
  static double DeltaLow(const SumPolygon& p) { return std::min(p.a, 0.0); }
  static double DeltaHigh(const SumPolygon& p) { return std::max(p.b, 0.0); }

  // ---- linear functions of v ----

  // Calls use(unit, input, N's weight, the member's) for every weight of a layer.
  template <class Use>
  void ForEachWeight(const Layer& layer, const Use& use) const {
    const bool dense = layer.kind == HiddenLayer::Kind::kDense;
    for (std::int64_t o = 0; o < layer.filters; ++o) {
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        for (std::int64_t k = 0; k < layer.taps; ++k) {
          const std::size_t at = layer.weight_at + o * layer.taps + k;
          use(static_cast<std::size_t>(o * layer.positions + t),
              static_cast<std::size_t>(dense ? k : t * layer.stride + layer.TapOffset(k)),
              static_cast<double>(ours[at]), static_cast<double>(theirs[at]));
        }
      }
    }
  }

  // z^ and d^ of a layer's units from z and delta below.
  void Unfold(const Layer& layer, const SizedRows& z, const SizedRows& delta, SizedRows& sum,
              SizedRows& difference) const {
    const auto units = static_cast<std::size_t>(layer.outputs);
    sum.Reset(units, n);
    difference.Reset(units, n);
    for (std::size_t u = 0; u < units; ++u) {
      const std::size_t at = layer.bias_at + u / static_cast<std::size_t>(layer.positions);
      const double b = ours[at], db = static_cast<double>(theirs[at]) - b;
      sum.Add(u, 0, b, std::abs(b));
      difference.Add(u, 0, db, std::abs(db));
    }
    ForEachWeight(layer, [&](std::size_t u, std::size_t i, double w, double m) {
      sum.AddRow(u, w, z, i);
      difference.AddRow(u, m - w, z, i);
      difference.AddRow(u, m, delta, i);
    });
  }

  // The rows of v, and z^, d^ of the open neurons; f and f - g + e.
  void Propagate(const ProofBounder& ranges, const ProofBounder::Question& question) {
    SizedRows z, delta, sum, difference;
    z.Reset(inputs, n);
    delta.Reset(inputs, n);
    for (std::size_t i = 0; i < inputs; ++i) z.Add(i, 1 + i, 1, 1);
    std::size_t neuron = 0;
    const auto layers = architecture.layers();
    functions.Reset(2 * open.size() + 2, n);
    for (std::size_t l = 0; l + 1 < layers.size(); ++l) {
      Unfold(layers[l], z, delta, sum, difference);
      const auto units = static_cast<std::size_t>(layers[l].outputs);
      z.Reset(units, n);
      delta.Reset(units, n);
      for (std::size_t k = 0; k < units; ++k) {
        const SumPolygon& p = ranges.polygons(l)[k];
        if (Inactive(p)) continue;
        if (Active(p)) {
          z.AddRow(k, 1, sum, k);
          delta.AddRow(k, 1, difference, k);
          continue;
        }
        const std::size_t row = RowOfZ(neuron);
        z.Add(k, row, 1, 1);
        delta.Add(k, row + 1, 1, 1);
        functions.AddRow(2 * neuron, -1, sum, k);  // z - z^
        functions.Add(2 * neuron, row, 1, 1);
        functions.AddRow(2 * neuron + 1, -1, difference, k);  // delta - d^
        functions.Add(2 * neuron + 1, row + 1, 1, 1);
        ++neuron;
      }
    }
    SetOutputs(layers.back(), z, delta, question);
  }

  void SetOutputs(const Layer& layer, const SizedRows& z, const SizedRows& delta,
                  const ProofBounder::Question& question) {
    f.Reset(1, n);
    leak.Reset(1, n);
    const auto bias = [&](const std::vector<float>& from, std::int32_t c) {
      return static_cast<double>(from[layer.bias_at + static_cast<std::size_t>(c)]);
    };
    const std::int32_t label = question.label, other = question.other;
    const double ours_c = bias(ours, label), ours_o = bias(ours, other);
    const double change_c = bias(theirs, label) - ours_c, change_o = bias(theirs, other) - ours_o;
    f.Add(0, 0, ours_c - ours_o, std::abs(ours_c) + std::abs(ours_o));
    leak.Add(0, 0, question.member_error - (change_c - change_o),
             question.member_error + std::abs(change_c) + std::abs(change_o));
    // f - g = -(dW_c - dW_o) z - (W'_c - W'_o) delta, and the biases' difference.
    ForEachWeight(layer, [&](std::size_t u, std::size_t i, double w, double m) {
      const double sign = u == static_cast<std::size_t>(label)   ? 1
                          : u == static_cast<std::size_t>(other) ? -1
                                                                 : 0;
      f.AddRow(0, sign * w, z, i);
      leak.AddRow(0, -sign * (m - w), z, i);
      leak.AddRow(0, -sign * m, delta, i);
    });
  }

  // ---- the matrix ----

  // A factor of a product: a row of v, or a linear function.
  struct Factor {
    bool row = true;
    std::size_t at = 0;
  };
  static Factor Row(std::size_t at) { return {true, at}; }
  static Factor Function(std::size_t at) { return {false, at}; }

  // S -= weight times the product of two factors; `size` is at or above |weight|.
  void AddProduct(double weight, double size, Factor p, Factor q) {
    if (weight == 0 && size == 0) return;
    ++terms;
    const double v = -0.5 * weight, bulk = 0.5 * size;
    if (p.row && q.row) {
      matrix.Add(p.at, q.at, v, bulk);
      matrix.Add(q.at, p.at, v, bulk);
      return;
    }
    if (!p.row && q.row) std::swap(p, q);
    const double *fv = functions.values(q.at), *fs = functions.sizes(q.at);
    if (p.row) {
      for (std::size_t c = 0; c < n; ++c) {
        matrix.Add(p.at, c, v * fv[c], bulk * fs[c]);
        matrix.Add(c, p.at, v * fv[c], bulk * fs[c]);
      }
      return;
    }
    const double *gv = functions.values(p.at), *gs = functions.sizes(p.at);
    for (std::size_t r = 0; r < n; ++r) {
      if (gs[r] == 0 && fs[r] == 0) continue;
      double *mv = matrix.values(r), *ms = matrix.sizes(r);
      for (std::size_t c = 0; c < n; ++c) mv[c] += v * (gv[r] * fv[c] + fv[r] * gv[c]);
      for (std::size_t c = 0; c < n; ++c) ms[c] += bulk * (gs[r] * fs[c] + fs[r] * gs[c]);
    }
  }
  void AddProduct(double weight, Factor p, Factor q) { AddProduct(weight, std::abs(weight), p, q); }

  // (v_row - from)(to - v_row), wide enough.
  void AddBox(double y, std::size_t row, double from, double to, double at_least) {
    const double missing = std::max(at_least, 0.5 * kThinnest) - (to - from);
    if (missing > 0) {
      from = Down(from - missing);
      to = Up(to + missing);
    }
    lower[row] = from;
    upper[row] = to;
    AddProduct(-y, Row(row), Row(row));
    AddProduct(y * (from + to), y * (std::abs(from) + std::abs(to)), Row(0), Row(row));
    AddProduct(-y * from * to, Row(0), Row(0));
  }

  void AddNeuron(std::size_t s, std::span<const float> y, const SumPolygon& p, double thin_sum,
                 double thin_delta) {
    const Factor z = Row(RowOfZ(s)), delta = Row(RowOfZ(s) + 1);
    const Factor above = Function(2 * s), beyond = Function(2 * s + 1);  // z - z^, delta - d^
    const auto at_least_0 = [&](Kind kind) { return std::max(static_cast<double>(y[kind]), 0.0); };
    AddBox(at_least_0(kBoxZ), z.at, std::max(p.l, 0.0), std::max(p.u, 0.0), thin_sum);
    AddBox(at_least_0(kBoxDelta), delta.at, DeltaLow(p), DeltaHigh(p), thin_delta);
    const double below = std::max({-p.l, thin_sum, kThinnest});
    AddProduct(-at_least_0(kBoxBelow), above, above);
    AddProduct(below * at_least_0(kBoxBelow), Row(0), above);
    AddProduct(at_least_0(kAbove), Row(0), above);
    AddProduct(y[kRelu], z, above);
    AddProduct(y[kMemberRelu], z, beyond);
    AddProduct(y[kMemberRelu], delta, above);
    AddProduct(y[kMemberRelu], delta, beyond);
    AddProduct(at_least_0(kActive), z, beyond);
    AddProduct(at_least_0(kInactive), delta, above);
    AddProduct(-at_least_0(kBetween), delta, beyond);
  }

  void AddBand(double y, const ProofBounder::Band& band) {
    const std::size_t first = 2 * open.size();
    functions.AddRow(first, 1, f, 0);
    functions.Add(first, 0, -band.least, std::abs(band.least));
    functions.AddRow(first + 1, -1, f, 0);
    functions.Add(first + 1, 0, band.most, std::abs(band.most));
    AddProduct(std::max(y, 0.0), Function(first), Function(first + 1));
  }

  void FindOpen(const ProofBounder& ranges) {
    open.clear();
    const auto layers = architecture.layers();
    for (std::size_t l = 0; l + 1 < layers.size(); ++l) {
      for (std::size_t k = 0; k < ranges.polygons(l).size(); ++k) {
        const SumPolygon& p = ranges.polygons(l)[k];
        if (!Inactive(p) && !Active(p)) open.emplace_back(l, k);
      }
    }
    n = 1 + inputs + 2 * open.size();
  }
  std::size_t RowOfZ(std::size_t neuron) const { return 1 + inputs + 2 * neuron; }

  void Assemble(const ProofBounder& ranges, const ProofBounder::Question& question,
                const std::optional<ProofBounder::Band>& band, std::span<const float> y) {
    FindOpen(ranges);
    Propagate(ranges, question);
    matrix.Reset(n, n);
    lower.assign(n, 1.0);
    upper.assign(n, 1.0);
    terms = 0;
    for (std::size_t i = 0; i < inputs; ++i) {
      const Interval side = ranges.Input(i);
      AddBox(std::max(static_cast<double>(y[i]), 0.0), 1 + i, side.lower, side.upper, 0);
    }
    std::size_t s = 0, first = inputs;
    for (std::size_t l = 0; l + 1 < architecture.layers().size(); ++l) {
      const std::vector<SumPolygon>& polygons = ranges.polygons(l);
      double thin_sum = 0, thin_delta = 0;
      for (const SumPolygon& p : polygons) {
        thin_sum = std::max(thin_sum, kNarrow * (p.u - p.l));
        thin_delta = std::max(thin_delta, kNarrow * (DeltaHigh(p) - DeltaLow(p)));
      }
      for (; s < open.size() && open[s].first == l; ++s) {
        const std::size_t unit = open[s].second;
        AddNeuron(s, y.subspan(first + kKinds * unit, kKinds), polygons[unit], thin_sum,
                  thin_delta);
      }
      first += kKinds * polygons.size();
    }
    if (band && std::isfinite(band->most)) AddBand(y[first], *band);
    // The objective is linear: a product with 1.
    for (std::size_t c = 0; c < n; ++c) {
      matrix.Add(0, c, -0.5 * leak.value[c], 0.5 * leak.size[c]);
      matrix.Add(c, 0, -0.5 * leak.value[c], 0.5 * leak.size[c]);
    }
  }

  // ---- what it proves ----

  // The lower triangle of Q's Cholesky factor in `factor`, row by row. False: Q has none.
  bool FindFactor() {
    const std::size_t rest = n - 1;
    factor.assign(rest * rest, 0.0);
    for (std::size_t i = 0; i < rest; ++i) {
      double* row = factor.data() + i * rest;
      for (std::size_t j = 0; j <= i; ++j) {
        const double* other = factor.data() + j * rest;
        double sum = matrix.values(i + 1)[j + 1];
        for (std::size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
        if (j < i) {
          row[j] = sum / other[j];
        } else {
          if (!(sum > 0)) return false;
          row[j] = std::sqrt(sum);
        }
      }
    }
    return true;
  }

  // p with Qp = r, about.
  std::vector<double> Solve(const std::vector<double>& r) const {
    const std::size_t rest = n - 1;
    std::vector<double> p = r;
    for (std::size_t i = 0; i < rest; ++i) {
      const double* row = factor.data() + i * rest;
      for (std::size_t k = 0; k < i; ++k) p[i] -= row[k] * p[k];
      p[i] /= row[i];
    }
    for (std::size_t i = rest; i-- > 0;) {
      p[i] /= factor[i * rest + i];
      const double* row = factor.data() + i * rest;
      for (std::size_t k = 0; k < i; ++k) p[k] -= row[k] * p[i];
    }
    return p;
  }

  double Prove() {
    if (!FindFactor()) return kInfinity;
    const std::size_t rest = n - 1;
    std::vector<double> r(rest), most(n, 1.0);
    for (std::size_t i = 0; i < rest; ++i) r[i] = -matrix.values(i + 1)[0];
    const std::vector<double> p = Solve(r);
    double value = -matrix.values(0)[0], linear = 0, curved = 0, sizes = 0;
    for (std::size_t i = 0; i < rest; ++i) {
      const double* row = matrix.values(i + 1) + 1;
      double product = 0;
      for (std::size_t j = 0; j < rest; ++j) product += row[j] * p[j];
      const double from = lower[i + 1], to = upper[i + 1];
      const double reach = std::max(std::abs(to - p[i]), std::abs(p[i] - from));
      most[i + 1] = std::max({std::abs(from), std::abs(to), std::abs(p[i])});
      value += (2 * r[i] - product) * p[i];
      linear += std::abs(r[i] - product) * reach;
      curved += std::sqrt(row[i]) * reach;
    }
    for (std::size_t i = 0; i < n; ++i) {
      double product = 0;
      for (std::size_t j = 0; j < n; ++j) product += matrix.sizes(i)[j] * most[j];
      sizes += most[i] * product;
    }
    const auto layers = static_cast<std::int64_t>(architecture.layers().size());
    const auto chain = static_cast<std::int64_t>(2 * (hidden + inputs)) + 8 * layers;
    const double gamma = GammaUp(2 * (terms + 2 * chain + static_cast<std::int64_t>(4 * n) + 64));
    const double charge = gamma * (16 * sizes + 2 * curved * curved) + 2.5 * linear;
    // Where nothing is that large, all that underflows is less than kUnderflow together.
    if (!(sizes < kTooLarge) || !(curved < kTooLarge)) return kInfinity;
    const double proved = Up(value + charge + gamma * std::abs(value)) + kUnderflow;
    return std::isfinite(proved) ? proved : kInfinity;
  }

  const Architecture architecture;
  const std::vector<float> ours;
  std::vector<float> theirs;
  std::size_t inputs = 0, hidden = 0, n = 0;              // n: of v
  std::vector<std::pair<std::size_t, std::size_t>> open;  // layer and unit
  SizedRows functions;  // z - z^ and delta - d^ of every open neuron; f - least, most - f
  SizedRows f, leak;    // leak: f - g + e
  SizedRows matrix;     // S
  std::int64_t terms = 0;
  std::vector<double> lower, upper;  // of v
  std::vector<double> factor;
};

ProofMoments::ProofMoments(const Network& network) : form_(std::make_unique<Form>(network)) {}
ProofMoments::~ProofMoments() = default;
ProofMoments::ProofMoments(ProofMoments&&) noexcept = default;

double ProofMoments::Bound(const ProofBounder& ranges, const ProofBounder::Question& question,
                           const std::optional<ProofBounder::Band>& band,
                           std::span<const float> parameters, std::span<const float> multipliers) {
  if (!ranges.usable()) return kInfinity;
  std::ranges::copy(parameters, form_->theirs.begin());
  form_->Assemble(ranges, question, band, multipliers);
  return form_->Prove();
}

}  // namespace lucid
