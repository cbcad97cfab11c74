#include "check/proof_lines.h"

#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"

namespace lucid {
namespace {

constexpr double kTieWidth = 1e-9;  // relative; far above rounding, far below what matters

// Is `value` smaller than `best`, when what is closer than the tie width counts as `ties` says?
bool Smaller(double value, double best, Ties ties) {
  if (ties == Ties::kAsComputed || best == kInfinity) return value < best;
  const double width = kTieWidth * (std::abs(value) + std::abs(best));
  return ties == Ties::kRule ? value < best - width : value <= best + width;
}

// The best of some lines at the centre of the ranges, one side of delta at a time.
class Contest {
 public:
  Contest(const SumPolygon& polygon, const OutputLines& output, Ties ties)
      : z_(0.5 * (polygon.l + polygon.u)),
        d_(0.5 * (polygon.a + polygon.b)),
        z_low_(output.sl * z_),
        z_high_(output.su * z_ + output.tu),
        ties_(ties) {}

  // A line over delta; z's part is what it is at worst.
  void Over(const DifferenceLine& line) {
    const double at =
        line.q * d_ + line.p * z_ + (line.r < 0 ? line.r * z_low_ : line.r * z_high_) + line.t;
    if (Smaller(at, over_at_, ties_)) over_ = line, over_at_ = at;
  }
  void Under(const DifferenceLine& line) {
    const double at =
        line.q * d_ + line.p * z_ + (line.r < 0 ? line.r * z_high_ : line.r * z_low_) + line.t;
    if (Smaller(-at, under_at_, ties_)) under_ = line, under_at_ = -at;
  }
  const DifferenceLine& over() const { return over_; }
  const DifferenceLine& under() const { return under_; }

 private:
  double z_, d_, z_low_, z_high_;
  Ties ties_;
  DifferenceLine over_, under_;
  double over_at_ = kInfinity, under_at_ = kInfinity;
};

// Neither phase of N's known, nor of the member's. Some alpha in [0, 1] (1 if both are active, 0 if
// neither is, else delta / d^) has
//   z <= alpha u', z - z^ <= (1 - alpha)(-l'), alpha a <= delta <= alpha b,
//   (1 - alpha) a <= d^ - delta <= (1 - alpha) b,   u' = max(u, -a), l' = min(l, -b);
// the candidates are what is left when alpha is eliminated.
void EnterOpen(const SumPolygon& s, double chord, Contest& contest) {
  const auto [l, u, a, b, sign] = s;
  const double top = std::max(u, -a), bottom = std::min(l, -b);
  if (a < 0 && b > 0) {
    const double q = b / (b - a);
    contest.Over({q, 0, 0, -q * a});
    contest.Under({1 - q, 0, 0, (1 - q) * -b});
  } else {
    contest.Over({a >= 0 ? 1.0 : 0.0, 0, 0, 0});
    contest.Under({b <= 0 ? 1.0 : 0.0, 0, 0, 0});
  }
  contest.Over(b > 0 ? DifferenceLine{0, b / -bottom, -b / -bottom, b}
                     : DifferenceLine{0, 0, b / top, 0});
  contest.Over(a < 0 ? DifferenceLine{1, 0, a / top, -a}
                     : DifferenceLine{1, a / bottom, -a / bottom, 0});
  contest.Over({chord, chord, -1, -chord * (l + a)});
  contest.Under(a < 0 ? DifferenceLine{0, a / -bottom, -a / -bottom, a}
                      : DifferenceLine{0, 0, a / top, 0});
  contest.Under(b > 0 ? DifferenceLine{1, 0, b / top, -b}
                      : DifferenceLine{1, b / bottom, -b / bottom, 0});
  contest.Under({0, 0, -1, 0});
  contest.Under({1, 1, -1, 0});
}

// N's phase known, the member's not. Both lines over delta pass through the same point above the
// centre: the first of them is taken, see Ties.
void EnterHalfOpen(const SumPolygon& s, double chord, Contest& contest) {
  const auto [l, u, a, b, sign] = s;
  if (l >= 0) {
    contest.Under({1, 0, 0, 0});
    contest.Under({0, -1, 0, 0});
    const double from = std::max(a, -l);
    const double q = b > a ? std::clamp((std::max(b, from) - from) / (b - a), 0.0, 1.0) : 0;
    contest.Over({q, 0, 0, from - q * a});
    contest.Over({chord, chord - 1, 0, -chord * (l + a)});
    return;
  }
  contest.Under({0, 0, 0, 0});
  contest.Under({1, 1, 0, 0});
  if (u + a >= 0) {
    contest.Over({1, 0, 0, u});
  } else if (b > a) {
    const double q = std::clamp((u + b) / (b - a), 0.0, 1.0);
    contest.Over({q, 0, 0, -q * a});
  }
  contest.Over({chord, chord, 0, -chord * (l + a)});
}

// Slopes only; a choice that is not good costs tightness and nothing else.
void ChooseSlopes(const SumPolygon& s, bool split, Ties ties, NeuronLines& lines) {
  const auto [l, u, a, b, sign] = s;
  const bool n_on = l >= 0, n_off = u <= 0;
  const bool m_on = sign > 0 || l + a >= 0, m_off = sign < 0 || u + b <= 0;
  if (split) {
    const double up = m_on ? 1 : m_off || b <= 0 ? 0 : a >= 0 ? 1 : b / (b - a);
    const double down = n_on ? 1 : n_off || a >= 0 ? 0 : b <= 0 ? 1 : -a / (b - a);
    lines.over = {up, 0, 0, 0};
    lines.under = {down, 0, 0, 0};
    return;
  }
  if (m_off) {
    lines.over = lines.under = n_off ? DifferenceLine{} : DifferenceLine{0, 0, -1, 0};
    return;
  }
  if (m_on) {
    lines.over = lines.under = n_on    ? DifferenceLine{1, 0, 0, 0}
                               : n_off ? DifferenceLine{1, 1, 0, 0}
                                       : DifferenceLine{1, 1, -1, 0};
    return;
  }
  const double low = l + a, high = u + b;
  const double chord = high > low ? std::clamp(high / (high - low), 0.0, 1.0) : 0;
  Contest contest(s, lines.output, ties);
  if (n_on || n_off) {
    EnterHalfOpen(s, chord, contest);
  } else {
    EnterOpen(s, chord, contest);
  }
  lines.over = contest.over();
  lines.under = contest.under();
}

}  // namespace

// The term is linear on each of the pieces that the lines z^ = 0 and z^ + d^ = 0 cut the polygon
// into, and a linear function on a bounded piece is largest at a corner. A corner is where two of
// z^ = l, z^ = u, z^ = 0, d^ = a, d^ = b, z^ + d^ = 0 meet: its z^ is l, u or 0, or (where the last
// meets d^ = a or d^ = b) -a or -b; and its d^ is a, b or -z^. All of these are exact doubles. With
// s the largest |z^| plus the largest |d^| and c the sum of the four |coefficients|, no partial
// result is larger than 2 c s, and there are 8 roundings.
double PeakUp(const SumPolygon& polygon, double cz, double cd, double big_a, double big_d) {
  const auto [l, u, a, b, sign] = polygon;
  double best = -kInfinity;
  for (const double z_hat : {l, u, 0.0, -a, -b}) {
    if (!(z_hat >= l && z_hat <= u)) continue;
    const double z = std::max(z_hat, 0.0);
    for (const double d_hat : {a, b, -z_hat}) {
      const bool inside = d_hat >= a && d_hat <= b && (sign <= 0 || d_hat >= -z_hat) &&
                          (sign >= 0 || d_hat <= -z_hat);
      if (!inside) continue;
      const double delta = std::max(z_hat + d_hat, 0.0) - z;
      best = std::max(best, cz * z + cd * delta - big_a * z_hat - big_d * d_hat);
    }
  }
  const double size = (std::abs(cz) + std::abs(cd) + std::abs(big_a) + std::abs(big_d)) *
                      (std::max(std::abs(l), std::abs(u)) + std::max(std::abs(a), std::abs(b)));
  const double result = Up(best + 32 * kUnitRoundoff * size);
  return std::isfinite(result) ? result : kInfinity;
}

OutputLines ChooseOutput(double l, double u, Ties ties) {
  if (u <= 0) return {0, 0, 0};
  if (l >= 0) return {1, 0, 1};
  const double slope = u / (u - l);
  // relu is convex: the line is over it if it is at both ends, which asks for t >= -slope l and
  // t >= u - slope u. Each is rounded twice, by at most 2^-52 u in all.
  const double t = Up(std::max(-slope * l, u - slope * u) + 0x1p-50 * u);
  // A line under relu with any slope in [0, 1] through 0.
  const bool steep = ties == Ties::kLast ? Smaller(-u, l, ties) : -u < l;
  return {slope, t, steep ? 1.0 : 0.0};
}

NeuronLines ChooseLines(const SumPolygon& polygon, bool split, Ties ties) {
  NeuronLines lines;
  lines.output = ChooseOutput(polygon.l, polygon.u, ties);
  ChooseSlopes(polygon, split, ties, lines);
  // delta <= q d^ + p z^ + r z + t asks for t >= the maximum of delta - r z - p z^ - q d^.
  DifferenceLine& over = lines.over;
  over.t = PeakUp(polygon, -over.r, 1, over.p, over.q);
  DifferenceLine& under = lines.under;
  under.t = -PeakUp(polygon, under.r, -1, -under.p, -under.q);
  return lines;
}

}  // namespace lucid
