// The windows of a convolution as a chain: what single windows give, cut into cells, and the
// largest sum of cells that agree on the inputs they share (window_bounder.h has the idea).
//
// Every input's interval is cut into pieces. A cell of a window is one choice of a piece for each
// of its inputs; a line bounds the window's function h_p over the cell. Each window also has a
// tilt, one number per input, which is taken from its function and given back for the whole input.
// Any lines that hold and any tilts give a bound that holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "lucid/nn/network.h"
#include "numeric/interval.h"
#include "numeric/rounding.h"

namespace lucid {

// The leading convolutions as one: a place of the last one sees `width` inputs, and the next place
// sees those `stride` further on. `layers` is 0 if the network does not begin with a convolution.
struct WindowShape {
  static WindowShape Of(const Architecture& architecture);

  std::size_t layers = 0;
  std::int64_t width = 1, stride = 1, count = 0;
};

class WindowChain {
 public:
  static constexpr std::int64_t kWidest = 6;
  // A charge for rounding is multiplied by this where a checker, which rounds in another order,
  // has to come to the same answer.
  static constexpr double kRoom = 8;

  using Vector = std::array<double, kWidest>;  // one number per input of a window
  struct Cell {
    std::array<std::uint16_t, kWidest> at{};  // the piece of each input
    std::uint32_t before = 0, after = 0;      // what it shares with the windows on either side
    Vector slopes{};                          // of its line
    double constant = kInfinity;              // of its line; infinite: it has none yet
    double value = 0;                         // the line's largest, with the tilts of the last pass
  };
  struct Window {
    std::size_t first = 0;  // its inputs are first, first + 1, ...
    std::vector<Cell> cells;
    Vector tilt{};
    std::vector<double> z, delta;    // the coefficients of the last convolution's neurons
    std::vector<double> most;        // the largest sum of the windows before, per shared choice
    std::vector<std::int32_t> best;  // the last cell of that sum
    std::vector<double> most_after;  // the largest sum of the windows after, per shared choice
  };
  // What a step can be taken back to.
  struct State {
    std::vector<Window> windows;
    double rest = 0;  // the part of the bound that no window has a share in
  };

  // Requires: shape.width <= kWidest.
  explicit WindowChain(const WindowShape& shape);

  // One piece per input of this box, one cell per window, tilts of 0.
  void Start(std::span<const Interval> box);

  std::size_t width() const { return width_; }
  std::size_t inputs() const { return edges_.size(); }
  State& state() { return state_; }
  const State& state() const { return state_; }
  // Where the windows put the inputs on average in the last step; empty before the first one.
  const std::vector<double>& point() const { return point_; }

  Interval Side(const Window& window, const Cell& cell, std::size_t j) const;
  std::size_t Cells() const;
  // The largest value of the cell's line minus the tilt, rounded up.
  double Value(const Window& window, const Cell& cell) const;
  // The tilts of all windows, one after the other. A proof has them as floats.
  std::vector<float> Tilts() const;

  // Whether smaller pieces of any input could tell more.
  bool Divisible() const;
  // Halves every piece of the input and adds the input to `halved`, unless its pieces are points or
  // no window sees it. The parts of a cell keep its line. False: there would be too many cells.
  bool Halve(std::size_t input, std::vector<std::uint16_t>& halved);
  // Drops the cells through which no sum is above `enough`. False: none is left.
  bool Drop(double enough);
  // Moves the tilts to the best bound that these cells give, and returns it. It descends along what
  // the windows of the largest sum disagree on. -inf: no sum is left.
  double Tilt(double enough, const std::function<bool()>& expired);

 private:
  bool Sees(const Window& window, std::size_t input) const {
    return input >= window.first && input < window.first + width_;
  }
  template <class Do>
  void ForWindowsOf(std::size_t input, const Do& act) const {
    for (const Window& window : state_.windows) {
      if (Sees(window, input)) act(window, input - window.first);
    }
  }
  bool Divisible(std::size_t input) const;
  double Charge(double size) const;
  double RestOfTilts() const;

  // Numbers the choices of pieces of the inputs that neighbouring windows share.
  void Match();
  void MatchNeighbours(Window* before, Window* after);
  // The largest sum along the windows. Requires: Match.
  double Forward();
  // Fills most_after. Requires: Forward.
  void Backward();
  // Moves the tilts so far that the disagreement along the largest sum would be worth `much`.
  // False: the windows agree, or the tilts overflow. Requires: Forward.
  bool Step(double much);
  // Where the largest sum puts the inputs of each window. Empty: there is no such sum.
  std::vector<Vector> PlacesOfLargest() const;

  const WindowShape shape_;
  const std::size_t width_;
  const double gamma_;
  std::vector<std::vector<double>> edges_;  // of every input's pieces
  State state_;
  struct {
    double most = -kInfinity;
    std::int32_t cell = -1;
  } end_;  // the largest sum, and its last cell
  std::vector<double> point_;
};

}  // namespace lucid
