#include "check/proof_windows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "numeric/rounding.h"

namespace lucid {
namespace {

constexpr std::size_t kMostCells = 1 << 20, kMostPieces = 1 << 12;  // five pieces make a key
constexpr double kUnderflow = 0x1p-500;
constexpr std::uint32_t kNoNeighbour = std::numeric_limits<std::uint32_t>::max();

// Adds the largest sums of two parts of a chain; -inf means that a part has no sum.
double AddSums(double a, double b) {
  if (a == -kInfinity || b == -kInfinity) return -kInfinity;
  const double sum = Up(std::max(a + b, std::numeric_limits<double>::lowest()));
  return std::isnan(sum) ? kInfinity : sum;
}

// What one window sees, as a network of its own; nothing reads its outputs.
Network OneWindow(const Network& whole, const WindowLayout& layout) {
  std::vector<HiddenLayer> hidden;
  for (const Layer& layer : whole.architecture.layers().first(layout.layers)) {
    hidden.push_back({layer.kind, layer.filters, layer.width, layer.stride});
  }
  Network window{Architecture::Build(hidden, static_cast<std::int64_t>(layout.width), 2).value(),
                 {}};
  window.parameters.resize(static_cast<std::size_t>(window.architecture.parameters()));
  return window;
}

}  // namespace

WindowLayout::WindowLayout(const Architecture& architecture) {
  for (const Layer& layer : architecture.layers()) {
    if (layer.kind != HiddenLayer::Kind::kConv) break;
    ++layers;
    width += static_cast<std::size_t>(layer.width - 1) * stride;
    stride *= static_cast<std::size_t>(layer.stride);
    count = static_cast<std::size_t>(layer.positions);
  }
}

struct ProofWindows::Chain {
  Chain(const Network& network, const Domain* domain)
      : layout(network.architecture),
        whole(network, domain),
        one(OneWindow(network, layout)),
        window(WithWeights(network.parameters)),
        shared(layout.width - std::min(layout.width, layout.stride)),
        gamma(GammaUp(static_cast<std::int64_t>(2 * layout.width + layout.count + 16))),
        windows(layout.count) {}

  struct Cell {
    std::array<std::uint16_t, WindowLayout::kWidest> piece{};
    std::uint32_t before = 0, after = 0;  // the choice of pieces that it shares on either side
    std::array<double, WindowLayout::kWidest> slopes{};
    double constant = kInfinity, value = kInfinity;
  };
  struct Window {
    std::vector<Cell> cells;
    std::vector<double> z, delta;               // h of the last convolution's units here
    std::vector<double> sum_before, sum_after;  // the largest, by the choice of shared pieces
  };

  // A network of one window with the convolutions of these parameters, which stand in front.
  const Network& WithWeights(std::span<const float> parameters) {
    const auto convolutions = static_cast<std::size_t>(one.architecture.layers().back().weight_at);
    std::ranges::copy(parameters.first(convolutions), one.parameters.begin());
    return one;
  }

  // The side that begins with the first of the cases, which it takes off.
  double Side(const Pair& pair, ProofRegion& region, std::span<const ProofCase>& cases,
              double value) {
    using enum ProofCase::Kind;
    const ProofCase& first = cases.front();
    cases = cases.subspan(1);
    if (first.Cuts()) {
      double worst = -kInfinity;
      for (const bool active : {false, true}) {
        region.phases.push_back({first.layer, first.unit, first.kind == kMemberPhase, active});
        worst = std::max(worst, Side(pair, region, cases, value));
        region.phases.pop_back();
        if (!(worst <= value)) return worst;
      }
      return worst;
    }
    if (!whole.EnterRegion(region, pair.band, pair.ties)) return -kInfinity;
    if (!whole.EnterMember(pair.member)) return -kInfinity;
    switch (first.kind) {
      case kLines:
        return whole.BoundByLines(pair.question, first.lambda);
      case kMultipliers:
        return whole.Bound(pair.question, first.lambda, first.multipliers);
      case kWindows:
        return BoundByRounds(pair, region, first.rounds, value);
      default:
        return kInfinity;  // there may be inputs
    }
  }

  double BoundByRounds(const Pair& pair, const ProofRegion& region,
                       std::span<const ProofRound> rounds, double value) {
    Start(region);
    double bound = kInfinity;
    for (const ProofRound& round : rounds) {
      for (const std::uint16_t input : round.halved) {
        if (!Halve(input)) return kInfinity;
      }
      // Lines of the round before are lines over parts of their cells, too.
      if (bound < kInfinity && Drop(value) <= value) return value;
      if (round.aims) {
        if (round.pushes.size() > region.phases.size()) return kInfinity;
        Aim(pair.question, round);
        tilts = round.choose_by;
      }
      LayLines(pair.ties);
      tilts = round.tilts;
      bound = Drop(value);
      if (bound <= value) return value;
    }
    return bound;
  }

  void Start(const ProofRegion& region) {
    edges.clear();
    for (std::size_t i = 0; i < region.lower.size(); ++i) {
      edges.push_back({region.lower[i], region.upper[i]});
    }
    for (Window& of : windows) of.cells.assign(1, {});
  }

  // What the layers above leave. Lines over anything else are forgotten.
  void Aim(const ProofBounder::Question& question, const ProofRound& round) {
    const ProofBounder::Rest of =
        whole.RestOf(layout.layers - 1, question, round.lambda, round.pushes);
    rest = of.constant;
    for (std::size_t p = 0; p < windows.size(); ++p) {
      windows[p].z.clear();
      windows[p].delta.clear();
      for (std::size_t k = p; k < of.z.size(); k += windows.size()) {  // a unit of every filter
        windows[p].z.push_back(of.z[k]);
        windows[p].delta.push_back(of.delta[k]);
      }
      for (Cell& cell : windows[p].cells) cell.constant = kInfinity;
    }
  }

  std::size_t FirstOf(std::size_t p) const { return p * layout.stride; }
  bool Sees(std::size_t p, std::size_t input) const {
    return input >= FirstOf(p) && input < FirstOf(p) + layout.width;
  }
  Interval SideOf(std::size_t p, const Cell& cell, std::size_t j) const {
    const std::vector<double>& of = edges[FirstOf(p) + j];
    return {of[cell.piece[j]], of[cell.piece[j] + 1U]};
  }

  // Cuts all pieces of the input. False: that makes too many.
  bool Halve(std::size_t input) {
    std::vector<double>& of = edges[input];
    if (2 * (of.size() - 1) > kMostPieces) return false;
    std::vector<double> finer = {of.front()};
    for (std::size_t i = 0; i + 1 < of.size(); ++i) {
      finer.push_back(std::clamp(0.5 * of[i] + 0.5 * of[i + 1], of[i], of[i + 1]));
      finer.push_back(of[i + 1]);
    }
    of = std::move(finer);
    std::size_t total = 0;
    for (std::size_t p = 0; p < windows.size(); ++p) {
      std::vector<Cell>& cells = windows[p].cells;
      const std::size_t count = cells.size();
      total += Sees(p, input) ? 2 * count : count;
      if (total > kMostCells) return false;
      if (!Sees(p, input)) continue;
      const std::size_t j = input - FirstOf(p);
      for (Cell& cell : cells) cell.piece[j] = static_cast<std::uint16_t>(2 * cell.piece[j]);
      cells.resize(2 * count);
      std::copy_n(cells.begin(), count, cells.begin() + static_cast<std::ptrdiff_t>(count));
      for (std::size_t c = count; c < 2 * count; ++c) ++cells[c].piece[j];
    }
    return true;
  }

  // Over every cell the best of the line that it has and of two more, by the tilts in hand. Cells
  // that are the same box are entered once.
  void LayLines(Ties ties) {
    struct Place {
      std::uint32_t p, c;
    };
    std::vector<Place> places;
    for (std::uint32_t p = 0; p < windows.size(); ++p) {
      for (std::uint32_t c = 0; c < windows[p].cells.size(); ++c) places.push_back({p, c});
    }
    const auto cell_at = [&](const Place& at) -> Cell& { return windows[at.p].cells[at.c]; };
    const auto order = [&](const Place& a, const Place& b) {
      for (std::size_t j = 0; j < layout.width; ++j) {
        const Interval one_side = SideOf(a.p, cell_at(a), j), other = SideOf(b.p, cell_at(b), j);
        if (one_side.lower != other.lower) return one_side.lower < other.lower ? -1 : 1;
        if (one_side.upper != other.upper) return one_side.upper < other.upper ? -1 : 1;
      }
      return 0;
    };
    std::ranges::sort(places, [&](const auto& a, const auto& b) { return order(a, b) < 0; });
    ProofRegion box;
    box.lower.resize(layout.width);
    box.upper.resize(layout.width);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::size_t p = places[i].p;
      Cell& cell = cell_at(places[i]);
      if (i == 0 || order(places[i - 1], places[i]) != 0) {
        for (std::size_t j = 0; j < layout.width; ++j) {
          box.lower[j] = SideOf(p, cell, j).lower;
          box.upper[j] = SideOf(p, cell, j).upper;
        }
        usable = window.EnterRegion(box, std::nullopt, ties) && window.EnterMemberAgain();
      }
      if (!usable) continue;
      cell.value = ValueOf(p, cell);
      for (const bool flat : {false, true}) {
        const ProofBounder::Line line = window.LineOver(windows[p].z, windows[p].delta, flat);
        Cell next = cell;
        next.constant = line.constant;
        std::ranges::copy(line.slopes, next.slopes.begin());
        next.value = ValueOf(p, next);
        if (IsBetter(next.value, cell.value, ties)) cell = next;
      }
    }
  }

  // An engine takes the first of lines that are as good as equal; both are right.
  static bool IsBetter(double value, double than, Ties ties) {
    if (std::isinf(than)) return value < than;
    const double tie = ties == Ties::kAsComputed ? 0 : 1e-9 * (std::abs(value) + std::abs(than));
    return ties == Ties::kLast ? value < than + tie : value < than - tie;
  }

  double Tilt(std::size_t p, std::size_t j) const { return tilts[p * layout.width + j]; }

  // The largest of the cell's line, tilted.
  double ValueOf(std::size_t p, const Cell& cell) const {
    double value = cell.constant, size = std::abs(cell.constant);
    for (std::size_t j = 0; j < layout.width; ++j) {
      const Interval x = SideOf(p, cell, j);
      const double slope = cell.slopes[j] - Tilt(p, j);
      value += std::max(slope * x.lower, slope * x.upper);
      size += (std::abs(cell.slopes[j]) + std::abs(Tilt(p, j))) *
              std::max(std::abs(x.lower), std::abs(x.upper));
    }
    const double charged = Up(value + Up(4 * gamma * size + kUnderflow));
    return std::isfinite(charged) ? charged : kInfinity;
  }

  // sum_i max(T_i x_i).
  double SumOfTilts() const {
    double sum = 0;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      double tilt = 0, size = 0;
      for (std::size_t p = 0; p < windows.size(); ++p) {
        if (!Sees(p, i)) continue;
        tilt += Tilt(p, i - FirstOf(p));
        size += std::abs(Tilt(p, i - FirstOf(p)));
      }
      const double low = edges[i].front(), high = edges[i].back();
      size *= std::max(std::abs(low), std::abs(high));
      sum = Up(sum + Up(std::max(tilt * low, tilt * high) + Up(4 * gamma * size + kUnderflow)));
    }
    return std::isnan(sum) ? kInfinity : sum;
  }

  // The choice of pieces of the inputs that are shared, which begin at the cell's `from`.
  std::uint64_t KeyOf(const Cell& cell, std::size_t from) const {
    std::uint64_t key = 0;
    for (std::size_t j = from; j < from + shared; ++j) key = key * kMostPieces + cell.piece[j];
    return key;
  }

  // Numbers the choices between neighbours: those that the cells on the left have.
  void Match() {
    std::vector<std::uint64_t> keys;
    windows.front().sum_before.assign(1, 0.0);
    windows.back().sum_after.assign(1, 0.0);
    for (Cell& cell : windows.front().cells) cell.before = 0;
    for (Cell& cell : windows.back().cells) cell.after = 0;
    for (std::size_t p = 0; p + 1 < windows.size(); ++p) {
      keys.clear();
      for (const Cell& cell : windows[p].cells) keys.push_back(KeyOf(cell, layout.width - shared));
      std::ranges::sort(keys);
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
      const auto number = [&](std::uint64_t key) {
        const auto at = std::ranges::lower_bound(keys, key);
        return at != keys.end() && *at == key ? static_cast<std::uint32_t>(at - keys.begin())
                                              : kNoNeighbour;
      };
      for (Cell& cell : windows[p].cells) cell.after = number(KeyOf(cell, layout.width - shared));
      for (Cell& cell : windows[p + 1].cells) cell.before = number(KeyOf(cell, 0));
      windows[p].sum_after.assign(keys.size(), -kInfinity);
      windows[p + 1].sum_before.assign(keys.size(), -kInfinity);
    }
  }

  // Leaves the cells through which a sum is above `value`. The result is the largest sum of all,
  // those of dropped cells included; -inf: there is no chain.
  double Drop(double value) {
    Match();
    for (std::size_t p = 0; p < windows.size(); ++p) {
      for (Cell& cell : windows[p].cells) {
        cell.value = ValueOf(p, cell);
        if (cell.before == kNoNeighbour || p + 1 == windows.size()) continue;
        double& next = windows[p + 1].sum_before[cell.after];
        next = std::max(next, AddSums(windows[p].sum_before[cell.before], cell.value));
      }
    }
    for (std::size_t p = windows.size() - 1; p > 0; --p) {
      for (const Cell& cell : windows[p].cells) {
        if (cell.before == kNoNeighbour) continue;
        double& next = windows[p - 1].sum_after[cell.before];
        next = std::max(next, AddSums(windows[p].sum_after[cell.after], cell.value));
      }
    }
    const double others = AddSums(rest, SumOfTilts());
    double largest = -kInfinity;
    for (Window& of : windows) {
      double here = -kInfinity;
      std::erase_if(of.cells, [&](const Cell& cell) {
        if (cell.before == kNoNeighbour) return true;
        const double chain = AddSums(of.sum_before[cell.before], cell.value);
        const double through = AddSums(AddSums(chain, of.sum_after[cell.after]), others);
        here = std::max(here, through);
        return through <= value;
      });
      largest = std::max(largest, here);
    }
    return largest;
  }

  const WindowLayout layout;
  ProofBounder whole;
  Network one;
  ProofBounder window;
  const std::size_t shared;  // inputs that neighbours have in common
  const double gamma;
  double rest = 0;
  bool usable = true;                      // the window that was entered last
  std::vector<float> tilts;                // of every window's inputs
  std::vector<std::vector<double>> edges;  // of every input's pieces
  std::vector<Window> windows;
};

ProofWindows::ProofWindows(const Network& network, const Domain* domain)
    : chain_(std::make_unique<Chain>(network, domain)) {}
ProofWindows::~ProofWindows() = default;
ProofWindows::ProofWindows(ProofWindows&&) noexcept = default;

double ProofWindows::Bound(const Pair& pair, std::span<const ProofCase> cases, double value) {
  Chain& chain = *chain_;
  ProofRegion region = pair.region, box;
  box.lower.assign(chain.layout.width, 0.0);
  box.upper.assign(chain.layout.width, 1.0);
  if (!chain.window.EnterRegion(box)) return kInfinity;
  chain.window.EnterMember(chain.WithWeights(pair.member).parameters);
  return chain.Side(pair, region, cases, value);
}

}  // namespace lucid
