#include "report/contour.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lucid {
namespace {

// Where a line crosses an edge of the grid is a place. Horizontal edges (from a node to its right
// neighbour) have even numbers, vertical ones (to the upper neighbour) odd ones.
class Tracer {
 public:
  Tracer(std::span<const double> values, std::int64_t grid, ContourEnds ends)
      : values_(values), grid_(grid), pad_(ends == ContourEnds::kClosed ? 1 : 0) {
    next_.assign(static_cast<std::size_t>(2 * side() * side()), kNone);
    has_previous_.assign(next_.size(), 0);
  }

  std::vector<Contour> Run() {
    for (std::int64_t j = 0; j + 1 < side(); ++j) {
      for (std::int64_t i = 0; i + 1 < side(); ++i) LinkCell(i, j);
    }
    std::vector<Contour> contours;
    // Lines with a beginning first; what is left then are rings.
    for (const bool rings : {false, true}) {
      for (std::size_t at = 0; at < next_.size(); ++at) {
        if (next_[at] == kNone || (!rings && has_previous_[at] != 0)) continue;
        contours.push_back(Follow(static_cast<std::int64_t>(at), rings));
      }
    }
    return contours;
  }

 private:
  static constexpr std::int64_t kNone = -1;

  std::int64_t side() const { return grid_ + 2 * pad_; }

  // Around the grid lies one ring of nodes that are not positive, at the same places as the grid's
  // own edge: cells of no width whose lines run along the edge.
  std::int64_t Clamped(std::int64_t i) const {
    return std::clamp<std::int64_t>(i - pad_, 0, grid_ - 1);
  }
  bool Outside(std::int64_t i) const { return i < pad_ || i >= side() - pad_; }
  double Value(std::int64_t i, std::int64_t j) const {
    if (Outside(i) || Outside(j)) return -1;
    return values_[static_cast<std::size_t>(Clamped(j) * grid_ + Clamped(i))];
  }

  std::int64_t Horizontal(std::int64_t i, std::int64_t j) const { return 2 * (j * side() + i); }
  std::int64_t Vertical(std::int64_t i, std::int64_t j) const { return 2 * (j * side() + i) + 1; }

  void Link(std::int64_t from, std::int64_t to) {
    next_[static_cast<std::size_t>(from)] = to;
    has_previous_[static_cast<std::size_t>(to)] = 1;
  }

  // Adds the one or two pieces of line in the cell above and to the right of node (i, j). Corners
  // go counter-clockwise from the lower left; edge k lies between corner k and corner k + 1. A
  // piece enters where the way around the cell goes from positive to not positive.
  void LinkCell(std::int64_t i, std::int64_t j) {
    const double corner[4] = {Value(i, j), Value(i + 1, j), Value(i + 1, j + 1), Value(i, j + 1)};
    const std::int64_t edge[4] = {Horizontal(i, j), Vertical(i + 1, j), Horizontal(i, j + 1),
                                  Vertical(i, j)};
    const auto positive = [&](int k) { return corner[k % 4] > 0; };
    // At a saddle both ways to pair the four crossings are possible: cut off the positive corners
    // if the middle is not positive, otherwise the others.
    const bool middle = corner[0] + corner[1] + corner[2] + corner[3] > 0;
    const bool saddle =
        positive(0) == positive(2) && positive(1) == positive(3) && positive(0) != positive(1);
    for (int k = 0; k < 4; ++k) {
      if (!positive(k) || positive(k + 1)) continue;
      // Positive on the left: the line goes from where positive ends to where it began.
      int end = k;
      do {
        end = saddle && middle ? (end + 1) % 4 : (end + 3) % 4;
      } while (!(!positive(end) && positive(end + 1)));
      Link(edge[k], edge[end]);
    }
  }

  ContourPoint PlaceOf(std::int64_t place) const {
    const std::int64_t node = place / 2, i = node % side(), j = node / side();
    const std::int64_t i2 = place % 2 == 0 ? i + 1 : i, j2 = place % 2 == 0 ? j : j + 1;
    const double a = Value(i, j), b = Value(i2, j2);
    const double t = a / (a - b);  // the signs differ, or one is zero and the other positive
    const auto mix = [t](std::int64_t from, std::int64_t to) {
      return static_cast<double>(from) + t * static_cast<double>(to - from);
    };
    return {mix(Clamped(i), Clamped(i2)), mix(Clamped(j), Clamped(j2))};
  }

  Contour Follow(std::int64_t place, bool closed) {
    Contour contour;
    contour.closed = closed;
    while (place != kNone) {
      contour.points.push_back(PlaceOf(place));
      const std::int64_t following = std::exchange(next_[static_cast<std::size_t>(place)], kNone);
      // A ring comes back to its first place, whose way on is used up by then.
      if (closed && following != kNone && next_[static_cast<std::size_t>(following)] == kNone)
        break;
      place = following;
    }
    return contour;
  }

  std::span<const double> values_;
  std::int64_t grid_, pad_;
  std::vector<std::int64_t> next_;
  std::vector<char> has_previous_;
};

double DistanceToSegment(ContourPoint p, ContourPoint a, ContourPoint b) {
  const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  double t = length > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length : 0;
  t = std::clamp(t, 0.0, 1.0);
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

}  // namespace

std::vector<Contour> ZeroContours(std::span<const double> values, std::int64_t grid,
                                  ContourEnds ends) {
  return Tracer(values, grid, ends).Run();
}

Contour Simplified(const Contour& contour, double tolerance) {
  const std::vector<ContourPoint>& all = contour.points;
  if (all.size() < 3) return contour;
  std::vector<char> keep(all.size(), 0);
  keep.front() = keep.back() = 1;
  std::vector<std::pair<std::size_t, std::size_t>> parts = {{0, all.size() - 1}};
  while (!parts.empty()) {
    const auto [first, last] = parts.back();
    parts.pop_back();
    double furthest = tolerance;
    std::size_t split = 0;
    for (std::size_t k = first + 1; k < last; ++k) {
      const double distance = DistanceToSegment(all[k], all[first], all[last]);
      if (distance > furthest) {
        furthest = distance;
        split = k;
      }
    }
    if (split == 0) continue;
    keep[split] = 1;
    parts.push_back({first, split});
    parts.push_back({split, last});
  }
  Contour simple;
  simple.closed = contour.closed;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (keep[k] != 0) simple.points.push_back(all[k]);
  }
  return simple;
}

}  // namespace lucid
