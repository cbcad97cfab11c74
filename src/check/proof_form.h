// A linear function of one layer's z and delta on its way down to the input (proof_bounder.h has
// the notation and what is charged for rounding), and the layers that it passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "check/proof_lines.h"
#include "lucid/data/domain.h"
#include "lucid/nn/network.h"

namespace lucid {

// Arrays that vectors go through are filled up with zeros to whole vectors of so many numbers.
inline constexpr std::size_t kProofLanes = 8;
constexpr std::size_t ProofLanes(std::size_t n) {
  return (n + kProofLanes - 1) / kProofLanes * kProofLanes;
}

struct ProofMatrix {
  std::size_t rows = 0, columns = 0, stride = 0;
  std::vector<double> weights, bias;  // row by row, filled up to whole vectors
  ProofMatrix(std::size_t r, std::size_t c)
      : rows(r), columns(c), stride(ProofLanes(c)), weights(r * stride), bias(ProofLanes(r)) {}
  const double* row(std::size_t r) const { return weights.data() + r * stride; }
  void Read(const Layer& shape, std::span<const float> parameters);
};

struct ProofRanges {
  std::vector<double> low, high;
  explicit ProofRanges(std::size_t n) : low(n), high(n) {}
  double Size(std::size_t k) const;  // the largest absolute value in range k
};

// The lines of a layer's units, each slope and intercept by itself, filled up to whole vectors.
struct LineTable {
  explicit LineTable(std::size_t units) {
    for (auto* of : {&su, &tu, &sl, &scale, &over_q, &over_p, &over_r, &over_t, &under_q, &under_p,
                     &under_r, &under_t}) {
      of->resize(ProofLanes(units));
    }
  }
  std::size_t size() const { return su.size(); }
  // Of unit k. It is in `alive` if some slope is not 0.
  void Set(std::size_t k, const NeuronLines& lines, double scale_of_unit);

  std::vector<double> su, tu, sl, scale;
  std::vector<double> over_q, over_p, over_r, over_t, under_q, under_p, under_r, under_t;
  std::vector<std::uint32_t> alive;
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
  LineTable network_table;
  // What is known of N and the member together.
  std::vector<SumPolygon> polygons;
  ProofRanges pair_output, delta;
  std::vector<double> pair_scale;
  std::vector<NeuronLines> lines;
  LineTable pair_table;
};

// The points of a domain's groups that a box holds. Every input of the domain in the box has one of
// them in every group.
class ProofPoints {
 public:
  // Without a domain there are no groups.
  explicit ProofPoints(const Domain* domain = nullptr);

  void Enter(std::span<const double> lower, std::span<const double> upper);
  // No group has more than one point here; then the box alone says all that can be said.
  bool none() const { return possible_.empty(); }
  // Sets the features of the other groups to 0.
  void Clear(std::span<double> x) const;
  // The sum over these groups of the largest c . x, rounded up. What is no number makes `c` times
  // the features' sizes no number, too.
  double Largest(const double* c) const;

 private:
  struct Point {
    std::vector<std::size_t> features;  // where it is not 0
    std::vector<double> values;
  };
  struct Group {
    std::size_t first = 0, width = 0;
    std::vector<Point> points;
  };
  static bool Holds(const Group& group, const Point& point, std::span<const double> lower,
                    std::span<const double> upper);
  std::vector<Group> groups_;
  std::vector<Group> possible_;  // of each group that is left, the points in the box
};

// The inputs in question: a box, filled up to whole vectors, and the points that it holds of
// features that take one of a few points together.
struct ProofBox {
  explicit ProofBox(const Domain* domain) : points(domain) {}
  void Set(const ProofRanges& x);
  std::vector<double> low, high, size;      // size: the largest absolute value
  std::vector<double> free_low, free_high;  // 0 where `points` says what is possible
  ProofPoints points;
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
  // At the input: adds its terms to S.
  void AddInputSize(const ProofRanges& x);
  // At the input: the largest value over the box and its points.
  double Largest(const ProofBox& x) const;
  // The constants with what the function may be off by; NaN is +inf.
  double ChargedConstant() const;

 private:
  const double gamma_;
  std::vector<double> next_z_, next_d_;  // what the layer below gets
};

}  // namespace lucid
