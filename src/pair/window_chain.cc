#include "pair/window_chain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "numeric/rounding.h"

namespace lucid {
namespace {

constexpr std::size_t kMostCells = 1 << 20;   // of all windows
constexpr std::size_t kMostPieces = 1 << 12;  // of an input: five of them fit into 64 bits
constexpr int kPasses = 20;                   // of the search for tilts, between cuts
constexpr int kFails = 3;                     // passes in a row that gain nothing: smaller steps
constexpr double kShrink = 0.5;
constexpr double kUnderflow = 0x1p-499;

// Adds two largest sums, rounded up. -inf means that there is no sum; a sum that overflows
// downwards exists all the same.
double Sum(double a, double b) {
  if (std::min(a, b) == -kInfinity) return -kInfinity;
  return Up(std::max(a + b, std::numeric_limits<double>::lowest()));
}

}  // namespace

WindowShape WindowShape::Of(const Architecture& architecture) {
  WindowShape shape;
  for (const Layer& layer : architecture.layers()) {
    if (layer.kind != HiddenLayer::Kind::kConv) break;
    ++shape.layers;
    shape.width += (layer.width - 1) * shape.stride;
    shape.stride *= layer.stride;
    shape.count = layer.positions;
  }
  return shape;
}

WindowChain::WindowChain(const WindowShape& shape)
    : shape_(shape),
      width_(static_cast<std::size_t>(shape.width)),
      // A line at a point, or the tilts of an input.
      gamma_(GammaUp(2 * shape.width + shape.count + 16)) {}

void WindowChain::Start(std::span<const Interval> box) {
  state_.windows.assign(static_cast<std::size_t>(shape_.count), {});
  for (std::size_t p = 0; p < state_.windows.size(); ++p) {
    state_.windows[p].first = p * static_cast<std::size_t>(shape_.stride);
    state_.windows[p].cells.resize(1);
  }
  edges_.clear();
  for (const Interval& side : box) edges_.push_back({side.lower, side.upper});
  point_.clear();
}

Interval WindowChain::Side(const Window& window, const Cell& cell, std::size_t j) const {
  const std::vector<double>& of = edges_[window.first + j];
  return {of[cell.at[j]], of[cell.at[j] + 1U]};
}

std::size_t WindowChain::Cells() const {
  return std::transform_reduce(state_.windows.begin(), state_.windows.end(), std::size_t{0},
                               std::plus<>(),
                               [](const Window& window) { return window.cells.size(); });
}

// What is charged for the rounding of sums whose terms add up to `size`, here and in a checker:
// twice what a line at a point, or the tilts of an input, can be off by, and as much for every sum
// along the chain.
double WindowChain::Charge(double size) const {
  return (1 + kRoom) * 4 * gamma_ * size + kUnderflow;
}

double WindowChain::Value(const Window& window, const Cell& cell) const {
  double value = cell.constant, size = std::abs(cell.constant);
  for (std::size_t j = 0; j < width_; ++j) {
    const Interval side = Side(window, cell, j);
    const double slope = cell.slopes[j] - window.tilt[j];
    value += slope > 0 ? slope * side.upper : slope * side.lower;
    size += (std::abs(cell.slopes[j]) + std::abs(window.tilt[j])) *
            std::max(std::abs(side.lower), std::abs(side.upper));
  }
  const double charged = Up(value + Charge(size));
  return std::isfinite(charged) ? charged : kInfinity;
}

std::vector<float> WindowChain::Tilts() const {
  std::vector<float> tilts;
  for (const Window& window : state_.windows) {
    for (std::size_t j = 0; j < width_; ++j) tilts.push_back(static_cast<float>(window.tilt[j]));
  }
  return tilts;
}

// What all tilts together give back: for each input its interval's best.
double WindowChain::RestOfTilts() const {
  double sum = 0;
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    double tilt = 0, size = 0;
    ForWindowsOf(i, [&](const Window& window, std::size_t j) {
      tilt += window.tilt[j];
      size += std::abs(window.tilt[j]);
    });
    const double low = edges_[i].front(), high = edges_[i].back();
    const double reach = std::max(std::abs(low), std::abs(high));
    sum = Up(sum + Up(std::max(tilt * low, tilt * high) + Charge(size * reach)));
  }
  return sum;
}

// ---- pieces ----

bool WindowChain::Divisible(std::size_t input) const {
  return edges_[input].front() < edges_[input].back() &&
         std::ranges::any_of(state_.windows, [&](const Window& of) { return Sees(of, input); });
}

bool WindowChain::Divisible() const {
  for (std::size_t input = 0; input < edges_.size(); ++input) {
    if (Divisible(input)) return true;
  }
  return false;
}

bool WindowChain::Halve(std::size_t input, std::vector<std::uint16_t>& halved) {
  if (!Divisible(input)) return true;
  std::vector<double>& of = edges_[input];
  std::size_t cells = 0;
  for (const Window& window : state_.windows) {
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
  for (Window& window : state_.windows) {
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

// ---- the largest sum ----

void WindowChain::Match() {
  std::vector<Window>& windows = state_.windows;
  for (std::size_t p = 0; p <= windows.size(); ++p) {
    MatchNeighbours(p == 0 ? nullptr : &windows[p - 1],
                    p == windows.size() ? nullptr : &windows[p]);
  }
}

// `before` is null for the first window, `after` for the last.
void WindowChain::MatchNeighbours(Window* before, Window* after) {
  const std::size_t shared = width_ - std::min(width_, static_cast<std::size_t>(shape_.stride));
  const auto key = [&](const Cell& cell, std::size_t from) {
    std::uint64_t key = 0;
    for (std::size_t j = from; j < from + shared; ++j) key = key * kMostPieces + cell.at[j];
    return key;
  };
  if (after == nullptr) {
    for (Cell& cell : before->cells) cell.after = 0;
    before->most_after.assign(1, 0);
    return;
  }
  std::vector<std::uint64_t> keys;
  if (before == nullptr) {
    keys.push_back(0);
  } else {
    for (const Cell& cell : before->cells) keys.push_back(key(cell, width_ - shared));
  }
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  const auto number = [&](std::uint64_t key) {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(keys, key) - keys.begin());
  };
  // Choices that no cell before has get a number of their own, which has no sum.
  const auto none = static_cast<std::uint32_t>(keys.size());
  for (Cell& cell : after->cells) {
    const std::uint64_t wanted = before == nullptr ? 0 : key(cell, 0);
    const std::uint32_t found = number(wanted);
    cell.before = found < none && keys[found] == wanted ? found : none;
  }
  after->most.assign(keys.size() + 1, before == nullptr ? 0 : -kInfinity);
  after->best.assign(keys.size() + 1, -1);
  if (before == nullptr) return;
  for (Cell& cell : before->cells) cell.after = number(key(cell, width_ - shared));
  before->most_after.assign(keys.size() + 1, -kInfinity);
}

double WindowChain::Forward() {
  std::vector<Window>& windows = state_.windows;
  for (std::size_t p = 0; p < windows.size(); ++p) {
    Window& window = windows[p];
    Window* next = p + 1 < windows.size() ? &windows[p + 1] : nullptr;
    if (next != nullptr) std::ranges::fill(next->most, -kInfinity);
    end_ = {};
    for (std::size_t c = 0; c < window.cells.size(); ++c) {
      Cell& cell = window.cells[c];
      cell.value = Value(window, cell);
      const double sum = Sum(window.most[cell.before], cell.value);
      double& most = next != nullptr ? next->most[cell.after] : end_.most;
      if (!(sum > most)) continue;
      most = sum;
      (next != nullptr ? next->best[cell.after] : end_.cell) = static_cast<std::int32_t>(c);
    }
  }
  return end_.most;
}

void WindowChain::Backward() {
  std::vector<Window>& windows = state_.windows;
  for (std::size_t p = windows.size() - 1; p > 0; --p) {
    std::vector<double>& most = windows[p - 1].most_after;
    std::ranges::fill(most, -kInfinity);
    for (const Cell& cell : windows[p].cells) {
      double& at = most[cell.before];
      at = std::max(at, Sum(windows[p].most_after[cell.after], cell.value));
    }
  }
}

bool WindowChain::Drop(double enough) {
  Match();
  Forward();
  Backward();
  const double others = Up(state_.rest + RestOfTilts());
  for (Window& window : state_.windows) {
    std::erase_if(window.cells, [&](const Cell& cell) {
      const double through =
          Sum(Sum(window.most[cell.before], cell.value), window.most_after[cell.after]);
      return Sum(through, others) <= enough;
    });
    if (window.cells.empty()) return false;
  }
  return true;
}

// ---- tilts ----

double WindowChain::Tilt(double enough, const std::function<bool()>& expired) {
  Match();
  double best = kInfinity, share = 1;
  int fails = 0;
  std::vector<Vector> kept;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double most = Forward();
    if (most == -kInfinity) return most;  // what was dropped left no sum
    const double bound = Up(state_.rest + Up(most + RestOfTilts()));
    if (bound < best || kept.empty()) {
      best = bound;
      fails = 0;
      kept.clear();
      for (const Window& window : state_.windows) kept.push_back(window.tilt);
    } else if (++fails >= kFails) {
      fails = 0;
      share *= kShrink;
    }
    if (best <= enough || expired()) break;
    if (!Step(share * (bound - enough))) break;
  }
  for (std::size_t p = 0; p < kept.size(); ++p) state_.windows[p].tilt = kept[p];
  return best;
}

std::vector<WindowChain::Vector> WindowChain::PlacesOfLargest() const {
  std::vector<Vector> x(state_.windows.size());
  std::int32_t at = end_.cell;
  for (std::size_t p = x.size(); p-- > 0;) {
    if (at < 0) return {};
    const Window& window = state_.windows[p];
    const Cell& cell = window.cells[static_cast<std::size_t>(at)];
    for (std::size_t j = 0; j < width_; ++j) {
      const Interval side = Side(window, cell, j);
      x[p][j] = cell.slopes[j] - window.tilt[j] > 0 ? side.upper : side.lower;
    }
    at = window.best[cell.before];
  }
  return x;
}

bool WindowChain::Step(double much) {
  std::vector<Vector> x = PlacesOfLargest();
  if (x.empty()) return false;
  double square = 0;
  point_.clear();
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    double sum = 0, count = 0;
    const auto put = [&](const Window& window, std::size_t j) -> double& {
      return x[static_cast<std::size_t>(&window - state_.windows.data())][j];
    };
    ForWindowsOf(i, [&](const Window& window, std::size_t j) { sum += put(window, j), ++count; });
    const double mean = point_.emplace_back(count > 0 ? sum / count : edges_[i].front());
    ForWindowsOf(i, [&](const Window& window, std::size_t j) {
      put(window, j) -= mean;
      square += put(window, j) * put(window, j);
    });
  }
  if (!(square > 0)) return false;
  bool finite = true;
  for (std::size_t p = 0; p < x.size(); ++p) {
    for (std::size_t j = 0; j < width_; ++j) {
      double& tilt = state_.windows[p].tilt[j];
      tilt = static_cast<float>(tilt + much / square * x[p][j]);
      finite = finite && std::isfinite(tilt);
    }
  }
  return finite;
}

}  // namespace lucid
