#include "pair/window_bounder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "numeric/rounding.h"

namespace lucid {
namespace {

constexpr std::int64_t kWidest = WindowBounder::kWidest;
constexpr std::size_t kMostCells = 1 << 20;   // of all windows
constexpr std::size_t kMostPieces = 1 << 12;  // of an input: five of them fit into 64 bits
constexpr int kPasses = 20;                   // of the search for tilts, between cuts
constexpr int kLineSteps = 5;                 // before cells are tried
constexpr int kFails = 3;                     // passes in a row that gain nothing: smaller steps
constexpr double kShrink = 0.5;
// With so many cells it ends where what is to come is not enough: gains get smaller, each about
// half of the one before.
constexpr std::size_t kManyCells = 1 << 15;
constexpr double kToCome = 2;
constexpr double kWorthCutting = 0.02;  // what a phase loses, of what a bound is too large by
constexpr std::size_t kMostPhases = 12;
constexpr std::size_t kMostWork = 24 << 20;  // cells of all cases
// Of lambda and pushes.
constexpr double kFirstStep = 0.064, kNextStep = 0.016, kLastStep = 0.0003, kStepShrink = 0.25;
constexpr std::size_t kFewCells = 1 << 16;  // with which they are moved on
constexpr double kPolishStep = 0.001, kLeastPolishStep = 1e-5;
constexpr int kPolishTrials = 2;
constexpr double kLeastGain = 0.001;  // of a step, of what a bound is too large by
// What is charged for rounding, times this, leaves room for a checker's charges.
constexpr double kRoom = 8;
constexpr double kUnderflow = 0x1p-499;

// Of lines that are as good as equal the first one is taken: rounding must not decide, or a checker
// would take another.
bool Better(double value, double than) {
  constexpr double kTie = 1e-9;
  return std::isinf(than) || value < than - kTie * (std::abs(value) + std::abs(than));
}

// Of largest sums; -inf: there is none. A sum that overflows downwards is one all the same.
double Sum(double a, double b) {
  if (std::min(a, b) == -kInfinity) return -kInfinity;
  return Up(std::max(a + b, std::numeric_limits<double>::lowest()));
}

// The leading convolutions as one: a place of the last sees `width` inputs, the next place the same
// `stride` further on.
struct Windows {
  std::size_t layers = 0;
  std::int64_t width = 1, stride = 1, count = 0;
};

Windows WindowsOf(const Architecture& architecture) {
  Windows windows;
  for (const Layer& layer : architecture.layers()) {
    if (layer.kind != HiddenLayer::Kind::kConv) break;
    ++windows.layers;
    windows.width += (layer.width - 1) * windows.stride;
    windows.stride *= layer.stride;
    windows.count = layer.positions;
  }
  return windows;
}

// The convolutions over a single window; nothing reads its outputs.
Architecture WindowArchitecture(const Architecture& whole) {
  const Windows windows = WindowsOf(whole);
  std::vector<HiddenLayer> hidden;
  for (std::size_t m = 0; m < windows.layers; ++m) {
    const Layer& layer = whole.layers()[m];
    hidden.push_back({layer.kind, layer.filters, layer.width, layer.stride});
  }
  return Architecture::Build(hidden, windows.width, 2).value();
}

std::vector<float> WindowParameters(const Architecture& window, std::span<const float> parameters) {
  const auto shared = static_cast<std::ptrdiff_t>(window.layers().back().weight_at);
  std::vector<float> own(parameters.begin(), parameters.begin() + shared);
  own.resize(static_cast<std::size_t>(window.parameters()));
  return own;
}

}  // namespace

bool WindowBounder::Fits(const Architecture& architecture) {
  const Windows windows = WindowsOf(architecture);
  return windows.layers > 0 && windows.width <= kWidest;
}

struct WindowBounder::Chain {
  explicit Chain(const Network& network)
      : windows(WindowsOf(network.architecture)),
        architecture(WindowArchitecture(network.architecture)),
        bounder({architecture, WindowParameters(architecture, network.parameters)}),
        width(static_cast<std::size_t>(windows.width)),
        // A line at a point, or the tilts of an input.
        gamma(GammaUp(2 * windows.width + windows.count + 16)) {}

  using Pieces = std::array<std::uint16_t, kWidest>;  // of a window's inputs
  using Vector = std::array<double, kWidest>;
  struct Cell {
    Pieces at{};
    std::uint32_t before = 0, after = 0;  // what it shares with the windows on either side
    Vector slopes{};
    double constant = kInfinity;
    double value = 0;  // its largest, with the tilts of the last pass
  };
  struct Window {
    std::size_t first = 0;  // of its inputs
    std::vector<Cell> cells;
    Vector tilt{};
    std::vector<double> z, delta;    // coefficients of the last convolution's neurons
    std::vector<double> most;        // the largest sums of all windows before, and its last cell
    std::vector<std::int32_t> best;  // there
    std::vector<double> most_after;  // the largest sums of all windows after
  };

  // What is known of the pair, and who bounds it.
  struct Pair {
    RegionBounder& bounder;
    const PairFacts& facts;
  };

  // `at` is where to start, and the best. The first `proved` of `rounds` are what the result comes
  // from.
  double Bound(const Pair& pair, const PairQuestion& question, double enough, bool coarse,
               Multipliers& at, const std::function<bool()>& has_expired) {
    const auto expired = [&] { return has_expired && has_expired(); };
    double best = Descend(pair, question, enough, coarse, at, expired);
    proved = rounds.size();
    if (coarse || best <= enough || expired()) return best;
    double last = best;
    Turn turn;
    for (std::size_t cut = 0; !expired() && work < kMostWork && Divisible(); ++cut) {
      if (!Drop(enough)) return Proved(enough);
      // Of every window one input.
      ProofRound round;
      for (std::size_t input = cut % width; input < edges.size(); input += width) {
        if (!Halve(input, round.halved)) return best;
      }
      round.tilts = Tilts();
      if (!Drop(enough)) {
        rounds.push_back(std::move(round));
        return Proved(enough);
      }
      if (!Fill(expired)) break;
      double here = Tilt(enough, expired);
      round.tilts = Tilts();
      if (Cells() <= kFewCells) {
        here = Polish(pair, question, enough, here, turn, at, round, expired);
      }
      rounds.push_back(std::move(round));
      here = std::max(here, enough);  // of what was dropped
      if (here < best) best = Proved(here);
      if (best <= enough) break;
      if ((cut + 1) % width != 0) continue;
      if (Cells() > kManyCells && here - kToCome * (last - here) > enough) break;
      last = here;
    }
    return best;
  }

  double Proved(double bound) {
    proved = rounds.size();
    return bound;
  }
  std::vector<float> Tilts() const {
    std::vector<float> tilts;
    for (const Window& window : chain) {
      for (std::size_t j = 0; j < width; ++j) tilts.push_back(static_cast<float>(window.tilt[j]));
    }
    return tilts;
  }

  // Whose turn it is to be moved, and by how much.
  struct Turn {
    std::size_t which = 0;
    int sign = 1, fails = 0;
    double step = kPolishStep;
  };
  static void Move(Multipliers& at, std::size_t which, double much) {
    if (which == 0) {
      at.lambda = std::max(at.lambda + much, 0.0);
    } else {
      at.pushes[which - 1] += static_cast<float>(much);
    }
  }

  // Some steps of the same with the cells as they are.
  template <class Expired>
  double Polish(const Pair& pair, const PairQuestion& question, double enough, double here,
                Turn& turn, Multipliers& at, ProofRound& round, const Expired& expired) {
    const int count = 2 * static_cast<int>(1 + at.pushes.size());
    for (int trial = 0; trial < kPolishTrials && here > enough && turn.step > kLeastPolishStep;
         ++trial) {
      Multipliers next = at;
      Move(next, turn.which, turn.sign * turn.step);
      const std::vector<Window> before = chain;
      const double rest_before = rest;
      Aim(pair, question, next);
      const double there = Fill(expired) ? Tilt(enough, expired) : kInfinity;
      if (there < here) {
        here = there;
        at = next;
        turn.fails = 0;
        round = {round.halved, true, at.lambda, at.pushes, std::move(round.tilts), Tilts()};
        continue;
      }
      chain = before;
      rest = rest_before;
      if (turn.sign < 0) turn.which = (turn.which + 1) % (1 + at.pushes.size());
      turn.sign = -turn.sign;
      if (++turn.fails >= count) {
        turn.step *= kStepShrink;
        turn.fails = 0;
      }
    }
    return here;
  }

  // What these multipliers leave to the windows; lines of other ones mean nothing then.
  void Aim(const Pair& pair, const PairQuestion& question, const Multipliers& at) {
    aimed = at;
    const RegionBounder::Rest of =
        pair.bounder.RestOf(pair.facts, windows.layers - 1, question, at.lambda, at.pushes);
    rest = Up(of.constant + kRoom * of.charge);
    for (std::size_t p = 0; p < chain.size(); ++p) {
      chain[p].z.clear();
      chain[p].delta.clear();
      for (std::size_t k = p; k < of.z.size(); k += chain.size()) {  // one of each filter
        chain[p].z.push_back(of.z[k]);
        chain[p].delta.push_back(of.delta[k]);
      }
      for (Cell& cell : chain[p].cells) cell.constant = kInfinity;
    }
  }

  // The best lambda and pushes of coarse cells, and the cells with these: downhill, one after the
  // other, with smaller and smaller steps.
  template <class Expired>
  double Descend(const Pair& pair, const PairQuestion& question, double enough, bool coarse,
                 Multipliers& at, const Expired& expired) {
    ProofRound round;
    const auto bound = [&](const Multipliers& with) {
      Start(pair, question, with);
      round = {{}, true, with.lambda, with.pushes, Tilts(), {}};
      for (std::size_t input = 0; input < edges.size(); ++input) {
        for (int n = 1; n < (coarse ? 2 : 4); n *= 2) Halve(input, round.halved);
      }
      const double found = rest < kInfinity && Fill(expired) ? Tilt(enough, expired) : kInfinity;
      round.tilts = Tilts();
      return found;
    };
    double best = bound(at);
    rounds.assign(1, round);
    bool there = true;  // at the best
    std::vector<float> signs(1 + at.pushes.size(), 1);
    double step = coarse ? kFirstStep : kNextStep;
    while (step > kLastStep && best > enough && best < kInfinity && work < kMostWork) {
      bool moved = false;
      for (std::size_t n = 0; n < signs.size() && best > enough; ++n) {
        // What coarse cells have no use for, finer ones hardly have.
        if (!coarse && n > 0 && at.pushes[n - 1] == 0) continue;
        for (int side = 0; side < 2; ++side) {
          if (expired()) return best;
          Multipliers next = at;
          Move(next, n, signs[n] * step);
          const double here = bound(next);
          there = here < best - kLeastGain * (best - enough);
          if (there) {
            best = here;
            at = next;
            rounds.assign(1, round);
            moved = true;
            break;
          }
          signs[n] = -signs[n];
        }
      }
      if (!moved) step *= kStepShrink;
    }
    if (!there) bound(at);
    return best;
  }

  // One cell a window.
  void Start(const Pair& pair, const PairQuestion& question, const Multipliers& at) {
    chain.assign(static_cast<std::size_t>(windows.count), {});
    for (std::size_t p = 0; p < chain.size(); ++p) {
      chain[p].first = p * static_cast<std::size_t>(windows.stride);
      chain[p].cells.resize(1);
    }
    edges.clear();
    for (const Interval& side : pair.facts.box()) edges.push_back({side.lower, side.upper});
    point.clear();
    Aim(pair, question, at);
  }

  Interval Side(const Window& window, const Cell& cell, std::size_t j) const {
    const std::vector<double>& of = edges[window.first + j];
    return {of[cell.at[j]], of[cell.at[j] + 1U]};
  }
  bool Sees(const Window& window, std::size_t input) const {
    return input >= window.first && input < window.first + width;
  }

  std::size_t Cells() const {
    return std::transform_reduce(chain.begin(), chain.end(), std::size_t{0}, std::plus<>(),
                                 [](const Window& window) { return window.cells.size(); });
  }

  // Whether smaller pieces of the input could tell more.
  bool Divisible(std::size_t input) const {
    return edges[input].front() < edges[input].back() &&
           std::ranges::any_of(chain, [&](const Window& of) { return Sees(of, input); });
  }
  bool Divisible() const {
    for (std::size_t input = 0; input < edges.size(); ++input) {
      if (Divisible(input)) return true;
    }
    return false;
  }

  // Every piece of the input, if it can be: `halved` has it then. Parts keep the lines of what they
  // are a part of. False: there would be too many.
  bool Halve(std::size_t input, std::vector<std::uint16_t>& halved) {
    if (!Divisible(input)) return true;
    std::vector<double>& of = edges[input];
    std::size_t cells = 0;
    for (const Window& window : chain) {
      cells += window.cells.size() * (Sees(window, input) ? 2 : 1);
    }
    if (cells > kMostCells || 2 * (of.size() - 1) > kMostPieces) return false;
    std::vector<double> finer = {of.front()};
    for (std::size_t i = 1; i < of.size(); ++i) {
      finer.push_back(0.5 * of[i - 1] + 0.5 * of[i]);
      finer.push_back(of[i]);
    }
    of = std::move(finer);
    halved.push_back(static_cast<std::uint16_t>(input));
    for (Window& window : chain) {
      if (!Sees(window, input)) continue;
      const std::size_t j = input - window.first, count = window.cells.size();
      window.cells.resize(2 * count);
      for (std::size_t c = count; c-- > 0;) {
        Cell& one = window.cells[2 * c];
        Cell& two = window.cells[2 * c + 1];
        one = window.cells[c];
        one.at[j] = static_cast<std::uint16_t>(2 * one.at[j]);
        two = one;
        ++two.at[j];
      }
    }
    return true;
  }

  // Cells of several windows that are the same box are entered once.
  template <class Expired>
  bool Fill(const Expired& expired) {
    std::vector<std::pair<Window*, Cell*>> jobs;
    for (Window& window : chain) {
      for (Cell& cell : window.cells) jobs.emplace_back(&window, &cell);
    }
    const auto compare = [&](const auto& one, const auto& two) {
      for (std::size_t j = 0; j < width; ++j) {
        const Interval a = Side(*one.first, *one.second, j), b = Side(*two.first, *two.second, j);
        if (a.lower != b.lower) return a.lower < b.lower ? -1 : 1;
        if (a.upper != b.upper) return a.upper < b.upper ? -1 : 1;
      }
      return 0;
    };
    std::ranges::sort(jobs, [&](const auto& a, const auto& b) { return compare(a, b) < 0; });
    work += jobs.size();
    Region region;
    region.box.resize(width);
    RegionBounder::EnteredPair facts;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      auto& [window, cell] = jobs[i];
      if (i % 256 == 0 && expired()) return false;
      if (i == 0 || compare(jobs[i - 1], jobs[i]) != 0) {
        for (std::size_t j = 0; j < width; ++j) region.box[j] = Side(*window, *cell, j);
        facts = {};
        facts = bounder.EnterPair(region, own);
      }
      // The best of two, and of the line that it has.
      cell->value = Value(*window, *cell);
      if (!facts) continue;  // a box holds inputs: not reached
      for (const OpenSlopes lines : {OpenSlopes::kDefault, OpenSlopes::kFlat}) {
        const RegionBounder::Line line = bounder.LineOver(*facts, window->z, window->delta, lines);
        Cell other = *cell;
        other.constant = Up(line.constant + kRoom * line.charge);
        std::ranges::copy(line.slopes, other.slopes.begin());
        other.value = Value(*window, other);
        if (Better(other.value, cell->value)) *cell = other;
      }
    }
    return true;
  }

  // For the rounding of sums whose terms add up to this, here and in a checker: twice what a line
  // at a point, or the tilts of an input, can be off by, and as much for every sum along the chain.
  double Charge(double size) const { return (1 + kRoom) * 4 * gamma * size + kUnderflow; }

  double Value(const Window& window, const Cell& cell) const {
    double value = cell.constant, size = std::abs(cell.constant);
    for (std::size_t j = 0; j < width; ++j) {
      const Interval side = Side(window, cell, j);
      const double slope = cell.slopes[j] - window.tilt[j];
      value += slope > 0 ? slope * side.upper : slope * side.lower;
      size += (std::abs(cell.slopes[j]) + std::abs(window.tilt[j])) *
              std::max(std::abs(side.lower), std::abs(side.upper));
    }
    const double charged = Up(value + Charge(size));
    return std::isfinite(charged) ? charged : kInfinity;
  }

  // Numbers the choices of pieces of the inputs that windows share, as far as cells have them.
  void Match() {
    const std::size_t shared = width - std::min(width, static_cast<std::size_t>(windows.stride));
    const auto key = [&](const Cell& cell, std::size_t from) {
      std::uint64_t key = 0;
      for (std::size_t j = from; j < from + shared; ++j) key = key * kMostPieces + cell.at[j];
      return key;
    };
    std::vector<std::uint64_t> keys;
    const auto number = [&](std::uint64_t key) {
      return static_cast<std::uint32_t>(std::ranges::lower_bound(keys, key) - keys.begin());
    };
    for (std::size_t p = 0; p <= chain.size(); ++p) {
      Window* before = p == 0 ? nullptr : &chain[p - 1];
      Window* after = p == chain.size() ? nullptr : &chain[p];
      keys.clear();
      if (before != nullptr && after != nullptr) {
        for (const Cell& cell : before->cells) keys.push_back(key(cell, width - shared));
      } else {
        keys.push_back(0);
      }
      std::ranges::sort(keys);
      keys.erase(std::ranges::unique(keys).begin(), keys.end());
      if (after == nullptr) {
        for (Cell& cell : before->cells) cell.after = 0;
        before->most_after.assign(1, 0);
        continue;
      }
      // Those that no cell before has get a number for themselves, with no sum.
      const auto none = static_cast<std::uint32_t>(keys.size());
      for (Cell& cell : after->cells) {
        const std::uint64_t wanted = before == nullptr ? 0 : key(cell, 0);
        const std::uint32_t found = number(wanted);
        cell.before = found < none && keys[found] == wanted ? found : none;
      }
      after->most.assign(keys.size() + 1, before == nullptr ? 0 : -kInfinity);
      after->best.assign(keys.size() + 1, -1);
      if (before == nullptr) continue;
      for (Cell& cell : before->cells) cell.after = number(key(cell, width - shared));
      before->most_after.assign(keys.size() + 1, -kInfinity);
    }
  }

  // The largest sum along the windows.
  double Forward() {
    for (std::size_t p = 0; p < chain.size(); ++p) {
      Window& window = chain[p];
      Window* next = p + 1 < chain.size() ? &chain[p + 1] : nullptr;
      if (next != nullptr) std::ranges::fill(next->most, -kInfinity);
      end = {};
      for (std::size_t c = 0; c < window.cells.size(); ++c) {
        Cell& cell = window.cells[c];
        cell.value = Value(window, cell);
        const double sum = Sum(window.most[cell.before], cell.value);
        double& most = next != nullptr ? next->most[cell.after] : end.most;
        if (!(sum > most)) continue;
        most = sum;
        (next != nullptr ? next->best[cell.after] : end.cell) = static_cast<std::int32_t>(c);
      }
    }
    return end.most;
  }

  // After Forward.
  void Backward() {
    for (std::size_t p = chain.size() - 1; p > 0; --p) {
      std::vector<double>& most = chain[p - 1].most_after;
      std::ranges::fill(most, -kInfinity);
      for (const Cell& cell : chain[p].cells) {
        double& at = most[cell.before];
        at = std::max(at, Sum(chain[p].most_after[cell.after], cell.value));
      }
    }
  }

  // Cells through which no sum is above what is enough. False: none is left.
  bool Drop(double enough) {
    Match();
    Forward();
    Backward();
    const double others = Up(rest + RestOfTilts());
    for (Window& window : chain) {
      std::erase_if(window.cells, [&](const Cell& cell) {
        const double through =
            Sum(Sum(window.most[cell.before], cell.value), window.most_after[cell.after]);
        return Sum(through, others) <= enough;
      });
      if (window.cells.empty()) return false;
    }
    return true;
  }

  template <class Do>
  void ForWindowsOf(std::size_t input, const Do& act) {
    for (Window& window : chain) {
      if (Sees(window, input)) act(window, input - window.first);
    }
  }

  double RestOfTilts() {
    double sum = 0;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      double tilt = 0, size = 0;
      ForWindowsOf(i, [&](const Window& window, std::size_t j) {
        tilt += window.tilt[j];
        size += std::abs(window.tilt[j]);
      });
      const double low = edges[i].front(), high = edges[i].back();
      const double reach = std::max(std::abs(low), std::abs(high));
      sum = Up(sum + Up(std::max(tilt * low, tilt * high) + Charge(size * reach)));
    }
    return sum;
  }

  // The best bound that these cells give, and its tilts: descent by what windows disagree on.
  template <class Expired>
  double Tilt(double enough, const Expired& expired) {
    Match();
    double best = kInfinity, share = 1;
    int fails = 0;
    std::vector<Vector> kept;
    for (int pass = 0; pass < kPasses; ++pass) {
      const double most = Forward();
      if (most == -kInfinity) return most;  // what was dropped left no sum
      const double bound = Up(rest + Up(most + RestOfTilts()));
      if (bound < best || kept.empty()) {
        best = bound;
        fails = 0;
        kept.clear();
        for (const Window& window : chain) kept.push_back(window.tilt);
      } else if (++fails >= kFails) {
        fails = 0;
        share *= kShrink;
      }
      if (best <= enough || expired()) break;
      if (!Step(share * (bound - enough))) break;
    }
    for (std::size_t p = 0; p < chain.size(); ++p) chain[p].tilt = kept[p];
    return best;
  }

  // The step after which the disagreement along the best cells would be worth `much`. False: there
  // is none.
  bool Step(double much) {
    std::vector<Vector> x(chain.size());
    std::int32_t at = end.cell;
    for (std::size_t p = chain.size(); p-- > 0;) {
      if (at < 0) return false;
      const Window& window = chain[p];
      const Cell& cell = window.cells[static_cast<std::size_t>(at)];
      for (std::size_t j = 0; j < width; ++j) {
        const Interval side = Side(window, cell, j);
        x[p][j] = cell.slopes[j] - window.tilt[j] > 0 ? side.upper : side.lower;
      }
      at = window.best[cell.before];
    }
    double square = 0;
    point.clear();
    for (std::size_t i = 0; i < edges.size(); ++i) {
      double sum = 0, count = 0;
      const auto put = [&](const Window& window, std::size_t j) -> double& {
        return x[static_cast<std::size_t>(&window - chain.data())][j];
      };
      ForWindowsOf(i, [&](const Window& window, std::size_t j) { sum += put(window, j), ++count; });
      const double mean = point.emplace_back(count > 0 ? sum / count : edges[i].front());
      ForWindowsOf(i, [&](const Window& window, std::size_t j) {
        put(window, j) -= mean;
        square += put(window, j) * put(window, j);
      });
    }
    if (!(square > 0)) return false;
    bool finite = true;
    for (std::size_t p = 0; p < chain.size(); ++p) {
      for (std::size_t j = 0; j < width; ++j) {
        // A proof has them as floats.
        double& tilt = chain[p].tilt[j];
        tilt = static_cast<float>(tilt + much / square * x[p][j]);
        finite = finite && std::isfinite(tilt);
      }
    }
    return finite;
  }

  const Windows windows;
  const Architecture architecture;
  RegionBounder bounder;
  const std::size_t width;
  const double gamma;
  std::size_t work = 0;            // cells that lines were asked for
  std::vector<float> own;          // the member's parameters of a window
  std::vector<ProofRound> rounds;  // what was done so far, and how much of it is needed
  std::size_t proved = 0;
  Multipliers aimed;                       // what left the windows what they have now
  double rest = 0;                         // what is not the windows'
  std::vector<std::vector<double>> edges;  // of every input's pieces
  std::vector<Window> chain;
  struct {
    double most = -kInfinity;
    std::int32_t cell = -1;
  } end;                      // the largest sum, and its last cell
  std::vector<double> point;  // where the windows put the inputs, on average, in the last step
};

WindowBounder::WindowBounder(const Network& network) : chain_(std::make_unique<Chain>(network)) {}
WindowBounder::~WindowBounder() = default;

// Cases are told apart by the phases of the layers above the windows: where all of these are known,
// what is left to the windows is exact but for where N's and the member's phase of a neuron differ,
// and that is what pushes are for.
struct WindowBounder::Cases {
  Chain& chain;
  RegionBounder& bounder;
  std::span<const float> parameters;
  const PairQuestion& question;
  const Band* band;
  const std::function<bool()>& expired;

  using Kind = ProofCase::Kind;
  using Why = std::vector<ProofCase>;

  double Bound(Region& region, double enough, Multipliers at, Why& why) const {
    why.assign(1, {});
    const RegionBounder::EnteredPair facts = bounder.EnterPair(region, parameters, band);
    if (!facts) return -kInfinity;
    const Chain::Pair pair{bounder, *facts};
    double bound = ByLines(*facts, enough, why.front());
    if (bound <= enough) return bound;
    at.pushes.resize(region.phases.size());
    const auto windows = [&](bool coarse) {
      const double found = chain.Bound(pair, question, enough, coarse, at, expired);
      if (!(found < bound)) return;
      bound = found;
      ProofCase& by = why.front() = {Kind::kWindows};
      by.rounds.assign(chain.rounds.begin(),
                       chain.rounds.begin() + static_cast<std::ptrdiff_t>(chain.proved));
    };
    const auto spent = [&] { return chain.work >= kMostWork || (expired && expired()); };
    windows(true);
    if (bound <= enough || bound == kInfinity || spent()) return bound;
    // What loses at least this much of what the bound is too large by.
    const auto open_phase = [&](double share) -> std::optional<PhaseSplit> {
      if (chain.point.empty() || region.phases.size() >= kMostPhases) return std::nullopt;
      return bounder.OpenPhase(*facts, question, chain.aimed, chain.windows.layers, chain.point,
                               share * (bound - enough));
    };
    std::optional<PhaseSplit> open = open_phase(kWorthCutting);
    if (!open) {
      windows(false);
      if (bound <= enough || spent()) return bound;
      open = open_phase(-1);  // any
      if (!open) return bound;
    }
    return Cut(region, *open, enough, at, bound, why);
  }

  // Both sides of a cut, unless that is no better than `bound`.
  double Cut(Region& region, PhaseSplit open, double enough, const Multipliers& at, double bound,
             Why& why) const {
    Why both = {{open.member ? Kind::kMemberPhase : Kind::kNetworkPhase, open.layer, open.unit}};
    double worst = -kInfinity;
    for (const bool active : {false, true}) {
      open.active = active;
      region.phases.push_back(open);
      Why side;
      // The other side need not be better than the worse one.
      worst = std::max(worst, Bound(region, std::max(enough, worst), at, side));
      std::ranges::move(side, std::back_inserter(both));
      region.phases.pop_back();
      if (worst >= bound) return bound;
    }
    why = std::move(both);
    return worst;
  }

  // As a proof has it.
  double ByLines(const PairFacts& facts, double enough, ProofCase& why) const {
    Multipliers multipliers;
    std::vector<float> dual;
    ChargedBound bound = bounder.Bound(facts, question, multipliers, kLineSteps, enough, &dual);
    why.lambda = multipliers.lambda;
    why.kind = Kind::kLines;
    if (!multipliers.slopes.empty() ||
        std::ranges::any_of(multipliers.pushes, [](float push) { return push != 0; })) {
      why.kind = Kind::kMultipliers;
      why.multipliers = std::move(dual);
      bound = bounder.BoundOfDual(facts, question, why.lambda, why.multipliers);
    }
    return std::isfinite(bound.value) ? bound.ForChecker() : kInfinity;
  }
};

double WindowBounder::Bound(RegionBounder& bounder, const Region& region, const Band* band,
                            std::span<const float> parameters, const PairQuestion& question,
                            double enough, std::vector<ProofCase>& why,
                            const std::function<bool()>& expired) {
  Region cases = region;
  chain_->own = WindowParameters(chain_->architecture, parameters);
  chain_->work = 0;
  return Cases{*chain_, bounder, parameters, question, band, expired}.Bound(cases, enough, {}, why);
}

}  // namespace lucid
