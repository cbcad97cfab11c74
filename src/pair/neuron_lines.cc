#include "pair/neuron_lines.h"

#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"

namespace lucid {
namespace {

// Lines are compared where two of them often meet exactly: rounding must not decide, or a proof's
// checker would choose another way.
bool Better(double more, double less) {
  constexpr double kTie = 1e-9;
  return std::isinf(more) || std::isinf(less) ||
         more > less + kTie * (std::abs(more) + std::abs(less));
}

// delta against q d^ + p z^ + r z + t.
struct DifferenceLine {
  double q = 0, p = 0, r = 0, t = 0;
};

// Which phases the ranges leave to neuron k, of N and of the member.
struct Phases {
  Phases(const PairRanges& r, std::int64_t k)
      : n_on(r.l[k] >= 0),
        n_off(r.u[k] <= 0),
        m_on(r.sign[k] > 0 || r.l[k] + r.a[k] >= 0),
        m_off(r.sign[k] < 0 || r.u[k] + r.b[k] <= 0) {}
  bool n_on, n_off, m_on, m_off;
};

// The best of some lines over and under delta, judged at the centre of the ranges.
struct LineChoice {
  LineChoice(double z_centre, double d_centre, std::int64_t k, const PairLines& lines)
      : zc(z_centre),
        dc(d_centre),
        z_low(lines.sl[k] * zc),
        z_high(lines.su[k] * zc + lines.tu[k]) {}
  void Over(const DifferenceLine& line) {
    const double at =
        line.q * dc + line.p * zc + (line.r < 0 ? line.r * z_low : line.r * z_high) + line.t;
    if (Better(over_at, at)) over = line, over_at = at;
  }
  void Under(const DifferenceLine& line) {
    const double at =
        line.q * dc + line.p * zc + (line.r < 0 ? line.r * z_high : line.r * z_low) + line.t;
    if (Better(at, under_at)) under = line, under_at = at;
  }
  const double zc, dc, z_low, z_high;
  DifferenceLine over, under;
  double over_at = kInfinity, under_at = -kInfinity;
};

// The range of z^ is narrower than the box says: a line through z^ would be exact in the range and
// far off elsewhere in the box. Lines in d^ stay small everywhere.
void ChooseSplitLines(const PairRanges& ranges, std::int64_t k, PairLines& lines) {
  const Phases phases(ranges, k);
  const double a = ranges.a[k], b = ranges.b[k];
  const double up = phases.m_on ? 1 : phases.m_off || b <= 0 ? 0 : a >= 0 ? 1 : b / (b - a);
  const double down = phases.n_on ? 1 : phases.n_off || a >= 0 ? 0 : b <= 0 ? 1 : -a / (b - a);
  lines.uq[k] = up, lines.up[k] = lines.ur[k] = 0;
  lines.lq[k] = down, lines.lp[k] = lines.lr[k] = 0;
}

// No phase is known. The candidates come from
//   z <= alpha u', z - z^ <= (1 - alpha)(-l'), alpha a <= delta <= alpha b,
//   (1 - alpha) a <= d^ - delta <= (1 - alpha) b   for some alpha in [0,1].
void TryOpenLines(double l, double u, double a, double b, double chord, LineChoice& choice) {
  const double u1 = std::max(u, -a), l1 = std::min(l, -b);
  if (a < 0 && b > 0) {
    const double q = b / (b - a);
    choice.Over({q, 0, 0, -q * a});
    choice.Under({1 - q, 0, 0, (1 - q) * -b});
  } else {
    a >= 0 ? choice.Over({1, 0, 0, 0}) : choice.Over({0, 0, 0, 0});
    b <= 0 ? choice.Under({1, 0, 0, 0}) : choice.Under({0, 0, 0, 0});
  }
  b > 0 ? choice.Over({0, b / -l1, -b / -l1, b}) : choice.Over({0, 0, b / u1, 0});
  a < 0 ? choice.Over({1, 0, a / u1, -a}) : choice.Over({1, a / l1, -a / l1, 0});
  choice.Over({chord, chord, -1, -chord * (l + a)});
  a < 0 ? choice.Under({0, a / -l1, -a / -l1, a}) : choice.Under({0, 0, a / u1, 0});
  b > 0 ? choice.Under({1, 0, b / u1, -b}) : choice.Under({1, b / l1, -b / l1, 0});
  choice.Under({0, 0, -1, 0});
  choice.Under({1, 1, -1, 0});
}

}  // namespace

bool HasSlope(const PairLines& lines, std::int64_t k) {
  for (const PaddedArray* slope :
       {&lines.su, &lines.sl, &lines.uq, &lines.up, &lines.ur, &lines.lq, &lines.lp, &lines.lr}) {
    if ((*slope)[k] != 0) return true;
  }
  return false;
}

void ChooseOutputLines(double l, double u, std::int64_t k, PairLines& lines) {
  if (l >= 0 || u <= 0) {
    lines.su[k] = lines.sl[k] = u <= 0 ? 0 : 1;
    lines.tu[k] = 0;
    return;
  }
  const double slope = u / (u - l);
  lines.su[k] = slope;
  // Over relu at both ends, hence between: z^ = l asks for -slope l, z^ = u for (1 - slope) u.
  lines.tu[k] = Up(Up(std::max(-slope * l, u - slope * u)) + 0x1p-51 * u);
  lines.sl[k] = u > -l ? 1 : 0;
}

void ChooseDifferenceLines(const PairRanges& ranges, bool split, std::int64_t k, PairLines& lines) {
  if (split) return ChooseSplitLines(ranges, k, lines);
  const double l = ranges.l[k], u = ranges.u[k], a = ranges.a[k], b = ranges.b[k];
  const Phases phases(ranges, k);
  using Line = DifferenceLine;
  LineChoice choice(0.5 * (l + u), 0.5 * (a + b), k, lines);
  const double yl = l + a, yu = u + b;
  const double chord = yu > yl ? std::clamp(yu / (yu - yl), 0.0, 1.0) : 0;
  if (phases.m_off) {
    choice.over = choice.under = phases.n_off ? Line{} : Line{0, 0, -1, 0};
  } else if (phases.m_on) {
    choice.over = choice.under = phases.n_on    ? Line{1, 0, 0, 0}
                                 : phases.n_off ? Line{1, 1, 0, 0}
                                                : Line{1, 1, -1, 0};
  } else if (phases.n_on) {
    choice.Under({1, 0, 0, 0});
    choice.Under({0, -1, 0, 0});
    const double from = std::max(a, -l);
    const double q = b > a ? std::clamp((std::max(b, from) - from) / (b - a), 0.0, 1.0) : 0;
    choice.Over({q, 0, 0, from - q * a});
    choice.Over({chord, chord - 1, 0, -chord * yl});
  } else if (phases.n_off) {
    choice.Under({0, 0, 0, 0});
    choice.Under({1, 1, 0, 0});
    if (u + a >= 0) {
      choice.Over({1, 0, 0, u});
    } else if (b > a) {
      const double q = std::clamp((u + b) / (b - a), 0.0, 1.0);
      choice.Over({q, 0, 0, -q * a});
    }
    choice.Over({chord, chord, 0, -chord * yl});
  } else {
    TryOpenLines(l, u, a, b, chord, choice);
  }
  lines.uq[k] = choice.over.q, lines.up[k] = choice.over.p, lines.ur[k] = choice.over.r;
  lines.lq[k] = choice.under.q, lines.lp[k] = choice.under.p, lines.lr[k] = choice.under.r;
}

// delta <= q d^ + p z^ + r z + t needs t >= the maximum of delta - r z - p z^ - q d^.
void InterceptFinder::Set(const PairRanges& ranges, PairLines& lines) {
  const std::int64_t n = ranges.l.size();
  if (cz_.size() < n) {
    for (PaddedArray* array : {&cz_, &cd_, &a_, &d_}) array->Reset(n);
    peaks_.Reset(n);
  }
  const auto slack = [&](std::int64_t k) {
    return 0x1p-45 * (std::max(std::abs(ranges.l[k]), std::abs(ranges.u[k])) +
                      std::max(std::abs(ranges.a[k]), std::abs(ranges.b[k])));
  };
  for (std::int64_t k = 0; k < n; ++k) cd_[k] = 1, cz_[k] = -lines.ur[k];
  FindPeaks(n, ranges, cz_.data(), cd_.data(), lines.up.data(), lines.uq.data(), peaks_);
  for (std::int64_t k = 0; k < n; ++k) lines.ut[k] = Up(peaks_.value[k] + slack(k));
  for (std::int64_t k = 0; k < n; ++k) {
    cd_[k] = -1, cz_[k] = lines.lr[k];
    a_[k] = -lines.lp[k], d_[k] = -lines.lq[k];
  }
  FindPeaks(n, ranges, cz_.data(), cd_.data(), a_.data(), d_.data(), peaks_);
  for (std::int64_t k = 0; k < n; ++k) lines.lt[k] = Down(-(peaks_.value[k] + slack(k)));
}

}  // namespace lucid
