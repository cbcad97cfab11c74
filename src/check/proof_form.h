// A linear function of one layer's z and delta on its way down to the input (proof_bounder.h has
// the notation and what is charged for rounding), and the layers that it passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "check/proof_lines.h"
#include "lucid/nn/network.h"

namespace lucid {

struct ProofMatrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> weights, bias;  // row by row
  ProofMatrix(std::size_t r, std::size_t c) : rows(r), columns(c), weights(r * c), bias(r) {}
  const double* row(std::size_t r) const { return weights.data() + r * columns; }
  void Read(const Layer& shape, std::span<const float> parameters);
};

struct ProofRanges {
  std::vector<double> low, high;
  explicit ProofRanges(std::size_t n) : low(n), high(n) {}
  double Size(std::size_t k) const;  // the largest absolute value in range k
};

// A hidden layer, and what is known of it in the region.
struct ProofLayer {
  ProofLayer(std::size_t units, std::size_t inputs);
  ProofMatrix network, member, difference;
  std::vector<char> split;  // the region fixes a phase of this unit
  // What is known of N alone.
  ProofRanges sum, output;
  std::vector<double> scale;  // s_k without the member
  std::vector<OutputLines> output_lines;
  // What is known of N and the member together.
  std::vector<SumPolygon> polygons;
  ProofRanges pair_output, delta;
  std::vector<double> pair_scale;
  std::vector<NeuronLines> lines;
};

// a . x >= at_least for every x in question.
struct ProofHalfSpace {
  std::vector<double> a;
  double at_least = 0;
};

class ProofForm {
 public:
  // What all that underflows adds up to at most.
  static constexpr double kUnderflow = 0x1p-500;

  // `terms` is n of proof_bounder.h.
  explicit ProofForm(std::int64_t terms);

  // The function is above + constant + cz . z + cd . delta, z and delta of the layer in hand.
  std::vector<double> cz, cd;
  double constant = 0, above = 0;  // of this layer, of those above
  double size = 0;                 // S

  // A function of so many units, whose coefficients are set by the caller. cd and the constants
  // are 0.
  void Start(std::size_t units);
  // Begins what the layer below gets, of so many units; Unfold adds to it, and after PassDown that
  // layer is the one in hand.
  void StartNextLayer(std::size_t columns);
  // Adds a z^ + d d^ of unit k.
  void Unfold(const ProofLayer& layer, std::size_t k, double a, double d);
  void PassDown();
  // All of it by the layer's lines, of N alone or of N and the member.
  void SubstituteLines(const ProofLayer& layer, bool member);
  // At the input: adds its terms to S.
  void AddInputSize(const ProofRanges& x);
  // At the input: the largest value over the box and the half spaces.
  double Largest(const ProofRanges& x, std::span<const ProofHalfSpace> half_spaces);
  // The constants with what the function may be off by; NaN is +inf.
  double ChargedConstant() const;

 private:
  double LargestOverBox(const ProofRanges& x, double gamma) const;
  void LeanOn(const ProofHalfSpace& half, const ProofRanges& x);

  const std::int64_t terms_;
  const double gamma_;
  std::vector<double> next_z_, next_d_;  // what the layer below gets
  std::vector<std::pair<double, std::size_t>> breaks_;
};

}  // namespace lucid
