// What is known of N, and of N and one member, over a region of inputs: intervals of all weighted
// sums and differences, and lines over and under every neuron's output. Both are plain values that
// nobody changes after FactFinder has made them; every bound of a pair is a function of PairFacts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "numeric/interval.h"
#include "pair/backward_rows.h"
#include "pair/dense_network.h"
#include "pair/half_spaces.h"
#include "pair/input_points.h"
#include "pair/neuron_lines.h"
#include "pair/region.h"

namespace lucid {

// What is known of N. With a band, everything is said only of the region's inputs whose f is in the
// band: the half spaces that the band and the phases of the first layer leave of the box make all
// intervals smaller.
struct RegionFacts {
  // `groups`: of inputs that take one of a few points together.
  RegionFacts(const DenseNetwork& network, InputPoints::Groups groups);

  struct Layer {
    PaddedArray lower, upper;         // of z^
    PaddedArray size;                 // sum_j |W_kj| |z_j| + |b_k|
    PaddedArray width;                // of z^ without the region's own phase of the neuron
    CentredIntervals z;               // of relu(z^)
    PairLines lines;                  // su, tu, sl only
    std::vector<std::int32_t> alive;  // neurons whose z can be above 0
    std::vector<char> split;  // neurons of which the region fixes a phase, in N or the member
  };
  Region region;
  std::optional<Band> band;
  CentredIntervals x;
  InputPoints points;
  HalfSpaces cuts;
  std::vector<Layer> layers;  // hidden ones
  bool bounded = false;       // no sum can overflow; else no interval means anything
};

// What is known of N and a member. It refers to the RegionFacts it was made from.
struct PairFacts {
  explicit PairFacts(const DenseNetwork& of);

  struct Layer {
    const DenseLayer* network = nullptr;
    DenseLayer member, difference;  // W', W' - W
    PairRanges ranges;              // of z^ and d^
    PaddedArray size;               // s_k of region_bounder.h
    CentredIntervals z, delta;
    PairLines lines;
    std::vector<std::int32_t> alive;  // neurons with a line that is not flat
    std::vector<std::int32_t> open;   // neurons with slopes of their own: no phase known, or split
    std::int64_t units() const { return size.size(); }
  };
  const PairRanges& ranges(std::size_t layer) const { return layers[layer].ranges; }
  const Box& box() const { return region->region.box; }
  const DenseLayer& network_output() const { return network->output(); }

  const DenseNetwork* network;
  const RegionFacts* region = nullptr;
  std::vector<Layer> layers;  // hidden ones
  DenseLayer member_output;
  bool bounded = false;  // no sum can overflow; else no interval means anything
};

// Whether N's, or the member's, phase of neuron k is not known.
inline bool NetworkOpen(const PairRanges& ranges, std::int64_t k) {
  return ranges.l[k] < 0 && ranges.u[k] > 0;
}
inline bool MemberOpen(const PairRanges& ranges, std::int64_t k) {
  return ranges.sign[k] == 0 && ranges.l[k] + ranges.a[k] < 0 && ranges.u[k] + ranges.b[k] > 0;
}

// Finds facts and writes them into storage that may have been used before. One per thread.
class FactFinder {
 public:
  explicit FactFinder(const DenseNetwork& network) : network_(network) {}

  // False: the region holds no input (in the band).
  bool Find(const Region& region, const Band* band, RegionFacts& facts);
  // False: no input of the region has the member's phases.
  bool Find(const RegionFacts& region, std::span<const float> parameters, PairFacts& facts);
  // Only intervals of every layer, by interval arithmetic alone, of an input in question or none:
  // a tenth of the time.
  void FindIntervals(const RegionFacts& region, std::span<const float> parameters,
                     PairFacts& facts);

 private:
  bool FindLayers(RegionFacts& facts);
  bool FindLayer(std::size_t m, RegionFacts& facts);
  void FindSums(std::size_t m, RegionFacts& facts);
  void AddPhaseCuts(const RegionFacts& facts, bool member, const DenseLayer& first,
                    HalfSpaces& cuts) const;
  bool AddBandCuts(RegionFacts& facts);
  void NarrowByBand(RegionFacts& facts) const;

  void Start(const RegionFacts& region, std::span<const float> parameters, PairFacts& facts) const;
  bool FindLayer(std::size_t m, PairFacts& facts);
  void FindDifferences(std::size_t m, PairFacts& facts);
  void ChooseLines(const std::vector<char>& split, PairFacts::Layer& layer);

  // Rows of the neurons in units_: their weights of z and of delta (null: none), then minus these.
  void StartRows(const DenseLayer& z, const DenseLayer* delta);
  // Intersects their ranges with what the rows, substituted down to the inputs, give over x.
  void NarrowByRows(const RegionFacts& region, std::span<const HalfSpaces* const> cuts,
                    PaddedArray& lower, PaddedArray& upper);

  const DenseNetwork& network_;
  BackwardRows rows_;
  std::vector<std::int32_t> units_;
  PaddedArray radius_;  // of a layer's sums
  HalfSpaces member_cuts_;
  InterceptFinder intercepts_;
};

}  // namespace lucid
