#include "support/oracle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <utility>
#include <vector>

#include "pair/test_support.h"

namespace lucid {
namespace {

using Real = long double;

constexpr std::size_t kMaxInputs = 3;
constexpr Real kOnPlane = 1e-16L;  // a vertex this close counts as on the hyperplane

// c0 + c . x
struct Affine {
  std::array<Real, kMaxInputs> c = {};
  Real c0 = 0;

  Real At(const std::array<Real, kMaxInputs>& x) const {
    Real sum = c0;
    for (std::size_t j = 0; j < kMaxInputs; ++j) sum += c[j] * x[j];
    return sum;
  }
  void Add(Real factor, const Affine& other) {
    for (std::size_t j = 0; j < kMaxInputs; ++j) c[j] += factor * other.c[j];
    c0 += factor * other.c0;
  }
};

Affine Minus(Affine a, const Affine& b) {
  a.Add(-1, b);
  return a;
}

struct Vertex {
  std::array<Real, kMaxInputs> x = {};
  std::uint64_t planes = 0;  // the hyperplanes it lies on, by number
};

// A polytope by its vertices.
struct Cell {
  std::vector<Vertex> vertices;
  int planes = 0;  // hyperplanes so far
  int inputs = 0;

  static Cell UnitBox(int inputs) {
    Cell box{{}, 2 * inputs, inputs};
    for (unsigned corner = 0; corner < 1U << inputs; ++corner) {
      Vertex v;
      for (int j = 0; j < inputs; ++j) {
        const bool high = (corner >> j & 1U) != 0;
        v.x[j] = high ? 1 : 0;
        v.planes |= std::uint64_t{1} << (2 * j + (high ? 1 : 0));
      }
      box.vertices.push_back(v);
    }
    return box;
  }

  // The parts with form <= 0 and form >= 0; either may be empty. A hyperplane that has the cell on
  // one side cuts nothing off and is not counted. So all that are counted differ and touch the cell
  // from outside, and two vertices that share d - 1 of them are the ends of an edge. (Were those of
  // a member that equals N counted twice, any two vertices of a face would pass for an edge, and
  // points would breed.)
  std::pair<Cell, Cell> Cut(const Affine& form) const {
    std::vector<std::pair<Vertex, Real>> below, above;
    std::vector<Vertex> on;
    const std::uint64_t own = std::uint64_t{1} << planes;
    for (const Vertex& v : vertices) {
      const Real value = form.At(v.x);
      if (value < -kOnPlane) {
        below.emplace_back(v, value);
      } else if (value > kOnPlane) {
        above.emplace_back(v, value);
      } else {
        on.push_back({v.x, v.planes | own});
      }
    }
    if (above.empty()) return {*this, {}};
    if (below.empty()) return {{}, *this};
    for (const auto& [low, low_value] : below) {
      for (const auto& [high, high_value] : above) {
        const std::uint64_t common = low.planes & high.planes;
        if (std::popcount(common) < inputs - 1) continue;
        Vertex v{{}, common | own};
        const Real t = low_value / (low_value - high_value);
        for (std::size_t j = 0; j < kMaxInputs; ++j) v.x[j] = low.x[j] + t * (high.x[j] - low.x[j]);
        on.push_back(v);
      }
    }
    std::pair<Cell, Cell> parts{{on, planes + 1, inputs}, {on, planes + 1, inputs}};
    for (const auto& [v, value] : below) parts.first.vertices.push_back(v);
    for (const auto& [v, value] : above) parts.second.vertices.push_back(v);
    return parts;
  }
};

using Forms = std::vector<Affine>;
using CellVisitor = std::function<void(const Cell&, const Forms& outputs)>;

// Visits the cells of a dense network with its outputs as functions of x.
class PatternWalk {
 public:
  PatternWalk(const Network& network, const CellVisitor& visit)
      : network_(network), visit_(visit) {}

  void Run(const Cell& cell) const {
    Forms inputs(static_cast<std::size_t>(cell.inputs));
    for (std::size_t j = 0; j < inputs.size(); ++j) inputs[j].c[j] = 1;
    Walk(cell, 0, inputs, {});
  }

 private:
  // `above` holds the outputs of the first units of the layer.
  void Walk(const Cell& cell, std::size_t m, const Forms& below, const Forms& above) const {
    if (cell.vertices.empty()) return;
    const auto layers = network_.architecture.layers();
    if (m == layers.size()) return visit_(cell, below);
    const Layer& layer = layers[m];
    const auto unit = static_cast<std::int64_t>(above.size());
    if (unit == layer.outputs) return Walk(cell, m + 1, above, {});
    Affine sum;
    sum.c0 = network_.parameters[layer.bias_at + unit];
    for (std::int64_t k = 0; k < layer.taps; ++k) {
      sum.Add(network_.parameters[layer.weight_at + unit * layer.taps + k], below[k]);
    }
    Forms more = above;
    more.push_back(sum);
    if (!layer.relu) return Walk(cell, m, below, more);
    const auto [inactive, active] = cell.Cut(sum);
    Walk(active, m, below, more);
    more.back() = Affine();
    Walk(inactive, m, below, more);
  }

  const Network& network_;
  const CellVisitor& visit_;
};

class BruteForce {
 public:
  BruteForce(const Network& network, std::span<const Network> members, std::int32_t label,
             double allowance, double slack)
      : network_(network),
        members_(members),
        label_(static_cast<std::size_t>(label)),
        allowance_(allowance),
        limit_(static_cast<Exact>(allowance) + slack) {}

  TrueLeak Run() {
    const auto inputs = static_cast<int>(network_.architecture.inputs());
    const CellVisitor visit = [this](const Cell& cell, const Forms& outputs) {
      for (std::size_t other = 0; other < outputs.size(); ++other) {
        if (other != label_) OfNetwork(cell, outputs, other);
      }
    };
    PatternWalk(network_, visit).Run(Cell::UnitBox(inputs));
    return std::move(best_);
  }

 private:
  // The part of a cell of N where `second` is the largest other class, so that f is linear.
  void OfNetwork(Cell cell, const Forms& outputs, std::size_t second) {
    for (std::size_t other = 0; other < outputs.size(); ++other) {
      if (other == label_ || other == second) continue;
      cell = cell.Cut(Minus(outputs[other], outputs[second])).first;
    }
    const Affine f = Minus(outputs[label_], outputs[second]);
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const CellVisitor visit = [&](const Cell& part, const Forms& member_outputs) {
        for (std::size_t other = 0; other < member_outputs.size(); ++other) {
          if (other != label_) OfMember(part, f, member_outputs, other, i);
        }
      };
      if (Largest(cell, f) >= 0) PatternWalk(members_[i], visit).Run(cell);
    }
  }

  // The part where the member finds `other` at least as likely as the label.
  void OfMember(const Cell& cell, const Affine& f, const Forms& outputs, std::size_t other,
                std::size_t member) {
    if (Largest(cell, f) <= static_cast<Real>(best_.beta)) return;
    Affine g = Minus(outputs[label_], outputs[other]);
    g.c0 -= allowance_;
    // The cell's own vertices, too: g may touch the allowance in one of them only.
    for (const Cell& part : {cell.Cut(g).first, cell}) {
      for (const Vertex& v : part.vertices) {
        if (g.At(v.x) <= kOnPlane && f.At(v.x) > static_cast<Real>(best_.beta)) Try(v, member);
      }
    }
  }

  void Try(const Vertex& v, std::size_t member) {
    Point x;
    for (std::int64_t j = 0; j < network_.architecture.inputs(); ++j) {
      x.push_back(std::clamp(static_cast<double>(v.x[j]), 0.0, 1.0));
    }
    const auto label = static_cast<std::int32_t>(label_);
    const Exact f = ExactConfidence(network_, label, x);
    if (f <= best_.beta || ExactConfidence(members_[member], label, x) > limit_) return;
    best_ = {f, std::move(x), static_cast<std::int64_t>(member)};
  }

  static Real Largest(const Cell& cell, const Affine& form) {
    Real largest = -1e30L;
    for (const Vertex& v : cell.vertices) largest = std::max(largest, form.At(v.x));
    return largest;
  }

  const Network& network_;
  const std::span<const Network> members_;
  const std::size_t label_;
  const Real allowance_;
  const Exact limit_;
  TrueLeak best_;
};

}  // namespace

TrueLeak BruteForceBeta(const Network& network, std::span<const Network> members,
                        std::int32_t label, double allowance, double slack) {
  return BruteForce(network, members, label, allowance, slack).Run();
}

}  // namespace lucid
