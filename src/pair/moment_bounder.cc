#include "pair/moment_bounder.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "numeric/dense_algebra.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

// The constraints of a neuron, in the order of the header.
enum Kind {
  kBoxZ,
  kBoxDelta,
  kBoxBelow,
  kAbove,
  kRelu,
  kMemberRelu,
  kActive,
  kInactive,
  kBetween,
  kKinds
};

}  // namespace

bool MomentBounder::Fits(const Architecture& architecture) {
  std::int64_t constraints = architecture.inputs() + 2;
  for (const Layer& layer : architecture.layers()) {
    if (layer.relu) constraints += kKinds * layer.outputs;
  }
  return constraints <= kMostConstraints;
}

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// A range is widened to this share of the widest one of its layer, which is sound, because the
// solver cannot scale numbers of very different sizes. Of a difference that was widened nothing is
// stated but its range.
constexpr double kNarrow = 1e-3;
constexpr double kThinnest = 1e-9;  // an input that is not cut any more
// The interior-point method.
constexpr int kMostSteps = 60;
constexpr double kNear = 0.01;                       // ends within that of the optimum
constexpr double kBack = 0.95;                       // of the way to the boundary
constexpr double kRidge = 1e-13;                     // on the Schur complement, whose diagonal is 1
constexpr double kStartSmall = 0.01;                 // multipliers of what is no box, to begin with
constexpr double kFresh = 0.03;                      // of a warm start's multipliers
constexpr double kHalfWay = 1;                       // of the bound that the gap is, half-way
constexpr double kFirstSlack = 1, kNextSlack = 0.1;  // above the first bound, cold and warm

MatrixXd MatrixOf(const DenseLayer& layer) {
  return Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                    Eigen::OuterStride<>>(layer.weights.values.data(), layer.weights.rows,
                                          layer.weights.columns,
                                          Eigen::OuterStride<>(layer.weights.stride));
}
VectorXd BiasOf(const DenseLayer& layer) {
  return Eigen::Map<const VectorXd>(layer.bias.data(), layer.weights.rows);
}

// The cubic work is done by numeric/dense_algebra.h, which has kernels for every instruction set;
// Eigen, compiled for the oldest one, holds the matrices and does the rest.
MatrixXd Times(const MatrixXd& a, const MatrixXd& b) {
  MatrixXd out(a.rows(), b.cols());
  MultiplyMatrices(a.data(), b.data(), a.rows(), a.cols(), b.cols(), out.data());
  return out;
}
bool Compute(CholeskyFactor& factor, const MatrixXd& m) {
  return factor.Compute(m.data(), m.rows());
}
VectorXd SolveWith(const CholeskyFactor& factor, VectorXd right) {
  factor.Solve(right.data());
  return right;
}
MatrixXd InverseOf(const CholeskyFactor& factor, Index n) {
  MatrixXd out(n, n);
  factor.Inverse(out.data());
  return out;
}

MatrixXd Symmetric(const MatrixXd& m) { return 0.5 * (m + m.transpose()); }

// Linear functions of v, as columns, and what each coefficient was added up from.
struct Linear {
  MatrixXd value, size;
  void SetZero(Index rows, Index columns) {
    value.setZero(rows, columns);
    size.setZero(rows, columns);
  }
  void Copy(Index to, const Linear& from, Index column) {
    value.col(to) = from.value.col(column);
    size.col(to) = from.size.col(column);
  }
  void SetUnit(Index column, Index row) { value(row, column) = size(row, column) = 1; }
  // Adds c to the constants of all columns.
  void AddConstants(const VectorXd& c, const VectorXd& from) {
    value.row(0) += c.transpose();
    size.row(0) += from.transpose();
  }
};

// The quadratics q_i of a region, and what multipliers of them prove.
struct Quadratics {
  explicit Quadratics(const Network& network)
      : architecture(network.architecture),
        dense(DenseLayers(network)),
        member(DenseLayers(network)) {
    inputs = architecture.inputs();
    first_slot.push_back(inputs);
    narrow.resize(dense.size());
    for (std::size_t l = 0; l + 1 < dense.size(); ++l) {
      hidden += dense[l].weights.rows;
      first_slot.push_back(first_slot.back() + kKinds * dense[l].weights.rows);
    }
  }

  // c times the product of two linear functions: rows of v, or (from n on) columns of `products`.
  struct Term {
    std::int32_t constraint, p, q;
    double c, size;  // size: at or above |c|, and what c was added up from
  };
  struct Open {
    std::size_t layer;
    Index unit;
    bool same;  // of a difference too small to matter
  };

  void Enter(const PairFacts& ranges, std::span<const float> parameters,
             const PairQuestion& question, const Band& band) {
    FindOpen(ranges);
    Propagate(ranges, parameters, question);
    AddConstraints(ranges, band);
  }

  static bool Inactive(const PairRanges& r, Index k) { return r.u[k] <= 0 && r.u[k] + r.b[k] <= 0; }
  static bool Active(const PairRanges& r, Index k) { return r.l[k] >= 0 && r.l[k] + r.a[k] >= 0; }

  static Interval DeltaRange(const PairRanges& r, Index k) {
    return {std::min(r.a[k], 0.0), std::max(r.b[k], 0.0)};
  }

  void FindOpen(const PairFacts& ranges) {
    open.clear();
    for (std::size_t l = 0; l + 1 < dense.size(); ++l) {
      const PairRanges& r = ranges.ranges(l);
      narrow[l] = {};
      for (Index k = 0; k < dense[l].weights.rows; ++k) {
        narrow[l].sum = std::max(narrow[l].sum, kNarrow * (r.u[k] - r.l[k]));
        narrow[l].delta = std::max(narrow[l].delta, kNarrow * DeltaRange(r, k).Width());
      }
      for (Index k = 0; k < dense[l].weights.rows; ++k) {
        if (Inactive(r, k) || Active(r, k)) continue;
        open.push_back({l, k, DeltaRange(r, k).Width() <= narrow[l].delta});
      }
    }
    n = 1 + inputs + 2 * static_cast<Index>(open.size());
  }
  Index RowOfZ(Index neuron) const { return 1 + inputs + 2 * neuron; }

  // z^ and d^ of every open neuron, f and f - g + err, as functions of v.
  void Propagate(const PairFacts& ranges, std::span<const float> parameters,
                 const PairQuestion& question) {
    products.SetZero(n, 2 * static_cast<Index>(open.size()) + 2);
    Linear z, delta, sum, difference;
    z.SetZero(n, inputs);
    delta.SetZero(n, inputs);
    for (Index i = 0; i < inputs; ++i) z.SetUnit(i, 1 + i);
    Index neuron = 0;
    for (std::size_t l = 0; l < dense.size(); ++l) {
      WriteDense(architecture.layers()[l], parameters, member[l]);
      const MatrixXd w = MatrixOf(dense[l]), m = MatrixOf(member[l]), dw = m - w;
      const VectorXd b = BiasOf(dense[l]), db = BiasOf(member[l]) - b;
      if (l + 1 == dense.size()) {
        SetOutputs(w, m, dw, b, db, z, delta, question);
        break;
      }
      sum.value = Times(z.value, w.transpose());
      sum.size = Times(z.size, w.cwiseAbs().transpose());
      sum.AddConstants(b, b.cwiseAbs());
      difference.value = Times(delta.value, m.transpose()) + Times(z.value, dw.transpose());
      difference.size =
          Times(delta.size, m.cwiseAbs().transpose()) + Times(z.size, dw.cwiseAbs().transpose());
      difference.AddConstants(db, db.cwiseAbs());
      const PairRanges& r = ranges.ranges(l);
      z.SetZero(n, w.rows());
      delta.SetZero(n, w.rows());
      for (Index k = 0; k < w.rows(); ++k) {
        if (Inactive(r, k)) continue;
        if (Active(r, k)) {
          z.Copy(k, sum, k);
          delta.Copy(k, difference, k);
          continue;
        }
        const Index row = RowOfZ(neuron);
        z.SetUnit(k, row);
        delta.SetUnit(k, row + 1);
        SetProduct(2 * neuron, row, sum, k);
        SetProduct(2 * neuron + 1, row + 1, difference, k);
        ++neuron;
      }
    }
  }
  // v_row minus a linear function.
  void SetProduct(Index column, Index row, const Linear& from, Index k) {
    products.value.col(column) = -from.value.col(k);
    products.size.col(column) = from.size.col(k);
    products.value(row, column) += 1;
    products.size(row, column) += 1;
  }

  // Differences of members and N first: they are small, and so is their rounding.
  void SetOutputs(const MatrixXd& w, const MatrixXd& m, const MatrixXd& dw, const VectorXd& b,
                  const VectorXd& db, const Linear& z, const Linear& delta,
                  const PairQuestion& question) {
    const Index c = question.label, o = question.other;
    const VectorXd own = (w.row(c) - w.row(o)).transpose();
    const VectorXd theirs = (m.row(c) - m.row(o)).transpose();
    const VectorXd change = (dw.row(c) - dw.row(o)).transpose();
    const VectorXd change_size = (dw.row(c).cwiseAbs() + dw.row(o).cwiseAbs()).transpose();
    f.value = z.value * own;
    f.size = z.size * own.cwiseAbs();
    f.value(0) += b[c] - b[o];
    f.size(0) += std::abs(b[c]) + std::abs(b[o]);
    leak.value = -(z.value * change + delta.value * theirs);
    leak.size = z.size * change_size + delta.size * theirs.cwiseAbs();
    leak.value(0) += question.member_error - (db[c] - db[o]);
    leak.size(0) += question.member_error + std::abs(db[c]) + std::abs(db[o]);
  }

  // --- The constraints. ---

  void Start(Index slot, bool equation, double scale, bool box) {
    free.push_back(equation);
    slots.push_back(slot);
    scales.push_back(scale);
    boxes.push_back(box);
  }
  void Add(double c, Index p, Index q, double size) {
    terms.push_back({static_cast<std::int32_t>(free.size()) - 1, static_cast<std::int32_t>(p),
                     static_cast<std::int32_t>(q), c, size});
  }
  void Add(double c, Index p, Index q) { Add(c, p, q, std::abs(c)); }

  void AddBox(Index slot, Index row, double from, double to, double at_least) {
    const double missing = std::max(at_least, 0.5 * kThinnest) - (to - from);
    if (missing > 0) {
      from -= missing;
      to += missing;
    }
    lower[row] = from;
    upper[row] = to;
    Start(slot, false, 0.25 * (to - from) * (to - from), true);
    Add(-1, row, row);
    Add(from + to, 0, row, std::abs(from) + std::abs(to));
    Add(-from * to, 0, 0);
  }

  void AddConstraints(const PairFacts& ranges, const Band& band) {
    terms.clear();
    free.clear();
    slots.clear();
    scales.clear();
    boxes.clear();
    lower.setOnes(n);
    upper.setOnes(n);
    for (Index i = 0; i < inputs; ++i) {
      const Interval side = ranges.box()[static_cast<std::size_t>(i)];
      AddBox(i, 1 + i, side.lower, side.upper, 0);
    }
    for (std::size_t s = 0; s < open.size(); ++s) {
      const PairRanges& r = ranges.ranges(open[s].layer);
      const Index k = open[s].unit, z = RowOfZ(static_cast<Index>(s)), delta = z + 1;
      const Index above = n + 2 * static_cast<Index>(s), beyond = above + 1;  // z - z^, delta - d^
      const Index slot = first_slot[open[s].layer] + kKinds * k;
      const Narrow& thin = narrow[open[s].layer];
      AddBox(slot + kBoxZ, z, std::max(r.l[k], 0.0), std::max(r.u[k], 0.0), thin.sum);
      AddBox(slot + kBoxDelta, delta, DeltaRange(r, k).lower, DeltaRange(r, k).upper, thin.delta);
      const double z_scale = 0.5 * (upper[z] - lower[z]);
      const double delta_scale = 0.5 * (upper[delta] - lower[delta]);
      const double below = std::max({-r.l[k], thin.sum, kThinnest});
      Start(slot + kBoxBelow, false, 0.25 * below * below, true);
      Add(-1, above, above);
      Add(below, 0, above);
      Start(slot + kAbove, false, z_scale, false);
      Add(1, 0, above);
      Start(slot + kRelu, true, z_scale * z_scale, false);
      Add(1, z, above);
      if (open[s].same) continue;
      Start(slot + kMemberRelu, true, z_scale * delta_scale, false);
      Add(1, z, beyond);
      Add(1, delta, above);
      Add(1, delta, beyond);
      Start(slot + kActive, false, z_scale * delta_scale, false);
      Add(1, z, beyond);
      Start(slot + kInactive, false, z_scale * delta_scale, false);
      Add(1, delta, above);
      Start(slot + kBetween, false, delta_scale * delta_scale, false);
      Add(-1, delta, beyond);
    }
    const Index last = products.value.cols() - 2;
    products.value.col(last) = f.value;
    products.value.col(last + 1) = -f.value;
    products.size.col(last) = products.size.col(last + 1) = f.size;
    products.value(0, last) -= band.least;
    products.value(0, last + 1) += band.most;
    products.size(0, last) += std::abs(band.least);
    products.size(0, last + 1) += std::abs(band.most);
    const double half = std::max(0.5 * (band.most - band.least), kThinnest);
    Start(first_slot.back(), false, half * half, true);
    Add(1, n + last, n + last + 1);
    // The bound itself: what the value at (1, v) = (1, 0) has to be raised by.
    Start(first_slot.back() + 1, true, 0, false);
    Add(-1, 0, 0);
    first_term.assign(free.size() + 1, 0);
    for (const Term& term : terms) ++first_term[static_cast<std::size_t>(term.constraint) + 1];
    for (std::size_t i = 0; i + 1 < first_term.size(); ++i) first_term[i + 1] += first_term[i];
  }

  // out = minus the matrix of sum_i y_i q_i, and of f - g + err if `objective`.
  void Slack(const VectorXd& y, bool objective, MatrixXd& out) const {
    Assemble(products.value, -0.5, out,
             [&](const Term& term) { return y[term.constraint] * term.c; });
    if (objective) AddObjective(leak.value, -0.5, out);
  }
  // Each entry is at or above the sum of the absolute values that the entry of Slack is added up
  // from.
  void SlackSize(const VectorXd& y, MatrixXd& out) const {
    Assemble(products.size, 0.5, out,
             [&](const Term& term) { return std::abs(y[term.constraint]) * term.size; });
    AddObjective(leak.size, 0.5, out);
  }
  template <class Weight>
  void Assemble(const MatrixXd& columns, double sign, MatrixXd& out, const Weight& weight) const {
    out.setZero(n, n);
    for (const Term& term : terms) {
      const double v = sign * weight(term);
      if (v == 0) continue;
      if (term.q < n) {
        out(term.p, term.q) += v;
        out(term.q, term.p) += v;
      } else if (term.p < n) {
        out.col(term.p) += v * columns.col(term.q - n);
        out.row(term.p) += v * columns.col(term.q - n).transpose();
      } else {
        const auto p = columns.col(term.p - n), q = columns.col(term.q - n);
        out += v * (p * q.transpose() + q * p.transpose());
      }
    }
  }
  static void AddObjective(const VectorXd& linear, double sign, MatrixXd& out) {
    out.col(0) += sign * linear;
    out.row(0) += sign * linear.transpose();
  }

  // --- What is proved. ---

  // The maximum over the ranges of v of -(1, v) S (1, v), S the slack of y without its last, from
  // above. With S = (s, -r'; -r, Q), the concave part, and any point p:
  //   -s + 2 r.v - v.Qv = -s + 2 r.p - p.Qp + 2 (r - Qp).(v - p) - (v - p).Q(v - p).
  // Every entry of S is a sum of fewer than `count` products; gamma = gamma_count times the sizes
  // added up covers them and the sums here. A Cholesky factor that exists in floating point is that
  // of Q + E with |E_ij| <= gamma sqrt(Q_ii Q_jj) (Demmel; Rump 2006), whatever the order of sums.
  //
  // What is charged, with M = most . size most, where most >= |(1, v)| and most >= |p| entry by
  // entry, and size >= the absolute values that each entry of S was added up from:
  //   S as computed instead of S:                          at most 1 gamma M
  //   the computed value -s + 2 r.p - p.Qp:                at most 3 gamma M (three sums)
  //   the computed left = r - Qp, times 2 |v - p|:         at most 4 gamma M (|v - p| <= 2 most)
  // which is 8 gamma M; 16 are charged, so that the roundings of M itself, relative to it, are
  // covered. 2 (r - Qp).(v - p) is at most 2 linear as computed; 2.5 cover the roundings of
  // `linear`. -(v - p).Q(v - p) is at most (v - p).E(v - p) <= gamma curved^2, 2 are charged.
  // `tiny` covers whatever underflows: fewer than n^2 (count + 4) products, each by 2^-1074.
  double Prove(const VectorXd& multipliers) const {
    VectorXd y = multipliers;
    y[y.size() - 1] = 0;
    for (Index i = 0; i < y.size(); ++i) {
      if (!free[static_cast<std::size_t>(i)]) y[i] = std::max(y[i], 0.0);
    }
    MatrixXd s, size;
    Slack(y, true, s);
    SlackSize(y, size);
    const Index rest = n - 1;
    const MatrixXd q = s.bottomRightCorner(rest, rest);
    CholeskyFactor factor;
    if (!Compute(factor, q)) return kInfinity;
    const VectorXd r = -s.col(0).tail(rest);
    const VectorXd p = SolveWith(factor, r), left = r - q * p;
    if (!p.allFinite() || !left.allFinite()) return kInfinity;
    const double count =
        static_cast<double>(terms.size()) + 4.0 * static_cast<double>(n + hidden) + 64;
    const double gamma = 4 * count * 0x1p-53;
    VectorXd most(n);
    most[0] = 1;
    double linear = 0, curved = 0;
    for (Index i = 0; i < rest; ++i) {
      const double from = lower[i + 1], to = upper[i + 1];
      const double reach = std::max(std::abs(to - p[i]), std::abs(p[i] - from));
      most[i + 1] = std::max({std::abs(from), std::abs(to), std::abs(p[i])});
      linear += std::abs(left[i]) * reach;
      curved += std::sqrt(q(i, i)) * reach;
    }
    const double value = -s(0, 0) + 2 * r.dot(p) - p.dot(q * p);
    const double charge = gamma * (16 * most.dot(size * most) + 2 * curved * curved) + 2.5 * linear;
    constexpr double tiny = 0x1p-900;
    const double proved = value + charge + gamma * std::abs(value) + tiny;
    return std::isfinite(proved) ? proved : kInfinity;
  }

  // The input with the largest measure that has a length; -1: none has.
  template <class Measure>
  std::int32_t WidestBy(const Measure& measure) const {
    std::int32_t found = -1;
    double most = -1;
    for (Index i = 0; i < inputs; ++i) {
      if (upper[1 + i] - lower[1 + i] <= 4 * kThinnest || !(measure(i) > most)) continue;
      most = measure(i);
      found = static_cast<std::int32_t>(i);
    }
    return found;
  }

  bool IsFree(Index i) const { return free[static_cast<std::size_t>(i)] != 0; }

  const Architecture architecture;
  const std::vector<DenseLayer> dense;
  std::vector<DenseLayer> member;
  Index inputs = 0, hidden = 0, n = 0;  // n: of v
  std::vector<Index> first_slot;        // of a layer's multipliers, when saved
  std::vector<Open> open;
  struct Narrow {
    double sum = 0, delta = 0;
  };
  std::vector<Narrow> narrow;  // of every layer
  Linear products;             // z - z^ and delta - d^ of every open neuron; f - least, most - f
  struct {
    VectorXd value, size;
  } f, leak;  // leak: f - g + err
  std::vector<Term> terms;
  std::vector<std::size_t> first_term;  // of every constraint
  std::vector<char> free, boxes;        // of every constraint: an equation; concave
  std::vector<Index> slots;
  std::vector<double> scales;  // about how large a constraint's value gets
  VectorXd lower, upper;       // of v
};

}  // namespace

// Multipliers that prove a small bound.
struct MomentBounder::Relaxation {
  explicit Relaxation(const Network& network) : form(network) {}

  void Enter(const PairFacts& pair, std::span<const float> parameters, const PairQuestion& question,
             const Band& band) {
    form.Enter(pair, parameters, question, band);
    widest = form.WidestBy([&](Index i) { return form.upper[1 + i] - form.lower[1 + i]; });
  }

  // max leak . X_0 over X >= 0 with X_00 = 1 and q_i(X) >= 0: a primal-dual method with the
  // HKM direction, predictor and corrector. Keeps S(y) positive definite, so that every step's
  // multipliers prove something. All of it in plain double: what comes out is advice.
  double Solve(double enough, std::vector<float>& saved, const std::function<bool()>& expired,
               std::vector<float>* half_way) {
    const auto m = static_cast<Index>(form.free.size());
    solved = false;
    VectorXd y(m);
    MatrixXd s;
    if (!StartHalfWay(saved, half_way, y) && !StartMultipliers(saved, y)) return kInfinity;
    if (half_way != nullptr) half_way->clear();
    form.Slack(y, true, s);
    CholeskyFactor factor, schur_factor;
    if (!Compute(factor, s)) return kInfinity;
    MatrixXd inverse = InverseOf(factor, form.n);
    const double begin = 1 / inverse(0, 0);
    MatrixXd x = begin * inverse;
    VectorXd slack = VectorXd::Zero(m);  // q_i(X)
    double barriers = static_cast<double>(form.n);
    for (Index i = 0; i < m; ++i) {
      if (form.IsFree(i)) continue;
      slack[i] = begin / y[i];
      ++barriers;
    }
    VectorXd cost = VectorXd::Zero(m);
    cost[m - 1] = 1;
    for (int step = 0; step < kMostSteps; ++step) {
      if (y[m - 1] <= enough || (expired && expired())) break;
      MatrixXd schur;
      FillSchur(x, inverse, slack, y, schur);
      const VectorXd scale = schur.diagonal().cwiseSqrt().cwiseInverse();
      for (Index j = 0; j < m; ++j) {
        schur.col(j).tail(m - j).array() *= scale[j] * scale.tail(m - j).array();
      }
      schur.diagonal().array() += kRidge;
      if (!Compute(schur_factor, schur)) break;
      const auto solve = [&](const VectorXd& right) -> VectorXd {
        return scale.cwiseProduct(SolveWith(schur_factor, scale.cwiseProduct(right)));
      };
      const double gap = (x.cwiseProduct(s).sum() + Product(slack, y)) / barriers;
      MatrixXd ds;
      VectorXd dy = solve(-cost);
      form.Slack(dy, false, ds);
      MatrixXd dx = -x - Symmetric(Times(Times(x, ds), inverse));
      VectorXd dslack = -slack - ByMultiplier(slack.cwiseProduct(dy), y);
      double primal = std::min({1.0, LargestStep(x, dx, 1), LargestStep(slack, dslack)});
      double dual = std::min({1.0, LargestStep(s, ds, 1), LargestStep(y, dy)});
      const double reached = ((x + primal * dx).cwiseProduct(s + dual * ds).sum() +
                              Product(slack + primal * dslack, y + dual * dy)) /
                             barriers;
      double centring = std::clamp(std::pow(std::max(reached, 0.0) / gap, 2), 0.02, 1.0);
      if (std::min(primal, dual) < 0.2) centring = std::max(centring, 0.3);
      const double next = centring * gap;
      const MatrixXd second = Symmetric(Times(Times(dx, ds), inverse));
      const VectorXd second_slack = ByMultiplier(dslack.cwiseProduct(dy), y);
      const VectorXd ones = ByMultiplier(VectorXd::Ones(m), y);
      dy = solve(next * (Values(inverse) + ones) - cost - Values(second) - second_slack);
      form.Slack(dy, false, ds);
      dx = next * inverse - x - Symmetric(Times(Times(x, ds), inverse)) - second;
      dslack = next * ones - slack - ByMultiplier(slack.cwiseProduct(dy), y) - second_slack;
      primal = std::min(
          {1.0, kBack * LargestStep(x, dx, 1 / kBack), kBack * LargestStep(slack, dslack)});
      dual = std::min({1.0, kBack * LargestStep(s, ds, 1 / kBack), kBack * LargestStep(y, dy)});
      const VectorXd trial = y + dual * dy;
      form.Slack(trial, true, s);
      if (!Compute(factor, s) || !trial.allFinite()) break;
      y = trial;
      x += primal * dx;
      slack += primal * dslack;
      inverse = InverseOf(factor, form.n);
      if (half_way != nullptr && half_way->empty() &&
          next * barriers < kHalfWay * std::abs(y[m - 1])) {
        *half_way = InFloats(y, 0);
      }
      const bool feasible = std::abs(x(0, 0) - 1) < 1e-3;
      solved = feasible && next * barriers < kNear * std::abs(y[m - 1]);
      if (solved) break;
    }
    widest =
        form.WidestBy([&](Index i) { return y[i] * form.scales[static_cast<std::size_t>(i)]; });
    return ProveSaved(y, saved);
  }

  // Saves the multipliers as float32, and proves what these give. Near the optimum the matrix is
  // nearly singular, and the rounded ones may need a little more of the boxes, which are concave.
  double ProveSaved(VectorXd y, std::vector<float>& saved) const {
    double proved = kInfinity;
    for (const double more : {0.0, 1e-6, 1e-5, 1e-4}) {
      saved = InFloats(y, more);
      for (Index i = 0; i + 1 < y.size(); ++i) {
        y[i] = saved[static_cast<std::size_t>(form.slots[static_cast<std::size_t>(i)])];
      }
      proved = form.Prove(y);
      if (std::isfinite(proved)) break;
    }
    return proved;
  }

  // Those of every slot, of boxes by so much more.
  std::vector<float> InFloats(const VectorXd& y, double more) const {
    std::vector<float> saved(static_cast<std::size_t>(form.first_slot.back()) + 1, 0);
    for (Index i = 0; i + 1 < y.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      saved[static_cast<std::size_t>(form.slots[at])] =
          static_cast<float>(form.boxes[at] != 0 ? y[i] * (1 + more) : y[i]);
    }
    return saved;
  }

  // What y's last entry has to be, so that all of the slack is positive definite, and `more` of it.
  // False: what else is in y does not allow it.
  bool FinishStart(double share, double more, VectorXd& y) const {
    const Index m = y.size();
    y[m - 1] = 0;
    MatrixXd s;
    form.Slack(y, true, s);
    CholeskyFactor factor;
    if (!Compute(factor, s.bottomRightCorner(form.n - 1, form.n - 1))) return false;
    const VectorXd r = s.col(0).tail(form.n - 1);
    const double least = -s(0, 0) + r.dot(SolveWith(factor, r));
    y[m - 1] = least + more * std::max(std::abs(least), share);
    return std::isfinite(y[m - 1]);
  }

  // How much of the objective a coordinate can make out.
  double Share() const {
    double share = 0;
    for (Index i = 1; i < form.n; ++i) {
      share += std::abs(form.leak.value(i)) * 0.5 * (form.upper[i] - form.lower[i]) /
               static_cast<double>(form.n);
    }
    return std::max(share, 1e-12);
  }

  // From another pair's, with as little of the boxes as makes the slack positive definite. Where
  // two pairs differ in what is open, multipliers are missing. False: there is no such start.
  bool StartHalfWay(const std::vector<float>& saved, const std::vector<float>* half_way,
                    VectorXd& y) const {
    const auto slots = static_cast<std::size_t>(form.first_slot.back()) + 1;
    if (half_way == nullptr || half_way->size() != slots || !saved.empty()) return false;
    const double share = Share();
    for (const double fresh : {0.03, 0.06, 0.12, 0.25, 0.5}) {
      for (Index i = 0; i + 1 < y.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double own = Own(i, 1, share);
        y[i] = (1 - fresh) * (*half_way)[static_cast<std::size_t>(form.slots[at])] + fresh * own;
        if (!form.IsFree(i) && y[i] <= 0) y[i] = own;
      }
      if (FinishStart(share, kNextSlack, y)) return true;
    }
    return false;
  }

  double Own(Index i, double weight, double share) const {
    const auto at = static_cast<std::size_t>(i);
    return form.IsFree(i) ? 0 : (form.boxes[at] ? weight : kStartSmall) * share / form.scales[at];
  }

  // Multipliers with a positive definite slack: large ones of the boxes, which are concave; or
  // mostly those of a region around this one, whose slack is close to singular by itself.
  bool StartMultipliers(const std::vector<float>& saved, VectorXd& y) const {
    const double share = Share();
    bool warm = saved.size() == static_cast<std::size_t>(form.first_slot.back()) + 1;
    double weight = 1;
    for (int attempt = 0; attempt < 24; ++attempt) {
      for (Index i = 0; i + 1 < y.size(); ++i) {
        const double own = Own(i, weight, share);
        y[i] = own;
        if (!warm) continue;
        y[i] = (1 - kFresh) *
                   saved[static_cast<std::size_t>(form.slots[static_cast<std::size_t>(i)])] +
               kFresh * own;
      }
      if (FinishStart(share, warm ? kNextSlack : kFirstSlack, y)) return true;
      if (!warm) weight *= 4;
      warm = false;
    }
    return false;
  }

  // -q_i(M) of every constraint.
  VectorXd Values(const MatrixXd& m) const {
    const MatrixXd with = Times(m, form.products.value);
    VectorXd values = VectorXd::Zero(static_cast<Index>(form.free.size()));
    for (const Term& term : form.terms) {
      const double value =
          term.q < form.n ? m(term.p, term.q)
          : term.p < form.n
              ? with(term.p, term.q - form.n)
              : form.products.value.col(term.p - form.n).dot(with.col(term.q - form.n));
      values[term.constraint] -= term.c * value;
    }
    return values;
  }

  // All products p.Mq of rows of v and columns of `products`.
  MatrixXd Gram(const MatrixXd& m) const {
    const Index columns = form.products.value.cols();
    const MatrixXd with = Times(m, form.products.value);
    MatrixXd gram(form.n + columns, form.n + columns);
    gram.topLeftCorner(form.n, form.n) = m;
    gram.topRightCorner(form.n, columns) = with;
    gram.bottomLeftCorner(columns, form.n) = with.transpose();
    gram.bottomRightCorner(columns, columns) = Times(form.products.value.transpose(), with);
    return gram;
  }

  // The lower half of tr(Q_i S^-1 Q_j X), and slack / y on the diagonal of inequalities. Products
  // of two vectors each, so that every entry takes some look-ups.
  void FillSchur(const MatrixXd& x, const MatrixXd& inverse, const VectorXd& slack,
                 const VectorXd& y, MatrixXd& schur) const {
    const MatrixXd of_x = Gram(x), of_s = Gram(inverse);
    schur.setZero(y.size(), y.size());
    for (const Term& one : form.terms) {
      const double *xp = of_x.col(one.p).data(), *xq = of_x.col(one.q).data();
      const double *sp = of_s.col(one.p).data(), *sq = of_s.col(one.q).data();
      double* out = schur.col(one.constraint).data();
      for (std::size_t t = form.first_term[static_cast<std::size_t>(one.constraint)];
           t < form.terms.size(); ++t) {
        const Term& two = form.terms[t];
        out[two.constraint] += 0.25 * one.c * two.c *
                               (sq[two.p] * xp[two.q] + sq[two.q] * xp[two.p] +
                                sp[two.p] * xq[two.q] + sp[two.q] * xq[two.p]);
      }
    }
    schur.diagonal() += ByMultiplier(slack, y);
  }

  // v / y of the inequalities, 0 of the equations.
  VectorXd ByMultiplier(const VectorXd& v, const VectorXd& y) const {
    VectorXd out(v.size());
    for (Index i = 0; i < v.size(); ++i) out[i] = form.IsFree(i) ? 0 : v[i] / y[i];
    return out;
  }
  double Product(const VectorXd& slack, const VectorXd& y) const {
    double sum = 0;
    for (Index i = 0; i < y.size(); ++i) sum += form.IsFree(i) ? 0 : slack[i] * y[i];
    return sum;
  }
  double LargestStep(const VectorXd& v, const VectorXd& d) const {
    double step = kInfinity;
    for (Index i = 0; i < v.size(); ++i) {
      if (!form.IsFree(i) && d[i] < 0) step = std::min(step, -v[i] / d[i]);
    }
    return step;
  }
  static double LargestStep(const MatrixXd& m, const MatrixXd& d, double first) {
    CholeskyFactor factor;
    for (double step = first; step > 1e-6; step *= 0.8) {
      if (Compute(factor, m + step * d)) return step;
    }
    return 0;
  }

  using Term = Quadratics::Term;
  Quadratics form;
  std::int32_t widest = -1;
  bool solved = false;  // near its optimum; else the solver could not go on
};

MomentBounder::MomentBounder(const Network& network)
    : relaxation_(std::make_unique<Relaxation>(network)) {}
MomentBounder::~MomentBounder() = default;

double MomentBounder::Bound(const PairFacts& pair, std::span<const float> parameters,
                            const PairQuestion& question, const Band& band, double enough,
                            std::vector<float>& multipliers, const std::function<bool()>& expired,
                            std::vector<float>* half_way) {
  if (!pair.bounded) return kInfinity;
  relaxation_->Enter(pair, parameters, question, band);
  const bool warm = !multipliers.empty();
  const double bound = relaxation_->Solve(enough, multipliers, expired, half_way);
  if (relaxation_->solved || !warm || bound <= enough) return bound;
  multipliers.clear();
  return std::min(bound, relaxation_->Solve(enough, multipliers, expired, nullptr));
}

std::int32_t MomentBounder::WidestInput() const { return relaxation_->widest; }

}  // namespace lucid
