// One neuron of N and of a member together: which pairs of weighted sums it can have, and lines
// over and under its output. The checker's own code; docs/proof.md has the rules.
#pragma once

namespace lucid {

// The possible pairs (z^, d^) of N's weighted sum and of how much the member's is larger:
// l <= z^ <= u, a <= d^ <= b, and z^ + d^ >= 0 (sign 1), <= 0 (sign -1) or either (sign 0).
struct SumPolygon {
  double l = 0, u = 0, a = 0, b = 0;
  int sign = 0;
};

// Ensures: result >= cz relu(z^) + cd (relu(z^ + d^) - relu(z^)) - A z^ - D d^ at every pair of the
// polygon. (+inf for a polygon without a pair, or numbers that are not finite.)
double PeakUp(const SumPolygon& polygon, double cz, double cd, double big_a, double big_d);

// z = relu(z^) <= su z^ + tu and >= sl z^ where l <= z^ <= u. All slopes in [0, 1].
struct OutputLines {
  double su = 0, tu = 0, sl = 0;
};
// delta = relu(z^ + d^) - relu(z^) <= q d^ + p z^ + r z + t (or >=). All slopes in [-1, 1].
struct DifferenceLine {
  double q = 0, p = 0, r = 0, t = 0;
};
struct NeuronLines {
  OutputLines output;
  DifferenceLine over, under;
};

// Lines are chosen by comparing numbers, and two programs round them in two ways. So a candidate
// has to be better than those before it by more than rounding (kRule); where the engine still may
// have chosen another way, the others can be tried, which are as right.
enum class Ties { kRule, kAsComputed, kLast };

// Ensures: right for every z^ of [l, u]. Requires: l <= u, finite.
OutputLines ChooseOutput(double l, double u, Ties ties);
// Ensures: right for every pair of the polygon. `split`: the region fixes a phase of this neuron.
NeuronLines ChooseLines(const SumPolygon& polygon, bool split, Ties ties);

}  // namespace lucid
