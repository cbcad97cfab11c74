// Marching squares: the lines on which a function known on a square grid is zero.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lucid {

struct ContourPoint {
  double x = 0, y = 0;  // in grid steps: node (i, j) is at (i, j)
};

struct Contour {
  std::vector<ContourPoint> points;  // positive values lie to the left of the way (y upward)
  bool closed = false;               // the last point is followed by the first
};

enum class ContourEnds {
  kOpen,    // a line that leaves the grid ends there
  kClosed,  // lines follow the edge of the grid around the positive side: every line is a ring, and
            // filling all rings by the even-odd rule fills where the function is positive
};

// `values[j * grid + i]` is the function at node (i, j). Zero counts as not positive. A saddle is
// resolved by the sign of the mean of its four corners. Deterministic; O(grid^2).
// Requires: grid >= 2, values.size() == grid * grid, all finite.
std::vector<Contour> ZeroContours(std::span<const double> values, std::int64_t grid,
                                  ContourEnds ends);

// The same line with points left out that lie within `tolerance` of it (Douglas and Peucker).
Contour Simplified(const Contour& contour, double tolerance);

}  // namespace lucid
