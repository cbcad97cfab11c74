#include "paper/encoding.h"

#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"

namespace lucid {
namespace {

constexpr int kOther = 2;  // tags of what is neither a neuron of N nor of the hyper-network

class Encoder {
 public:
  Encoder(const NetworkFacts& facts, const HyperNetwork& hyper, const NeuronBounds& bounds,
          std::int32_t label, const EncodingOptions& options)
      : facts_(facts),
        hyper_(hyper),
        bounds_(bounds),
        label_(label),
        options_(options),
        differences_(PropagateDifferences(facts.network, hyper, facts.bounds)) {}

  Encoding Build() {
    for (const Interval& range : facts_.bounds.input) {
      const auto unit = static_cast<std::int64_t>(out_.input.size());
      out_.input.push_back(
          model().AddColumn(range, 0, NeuronTag(kOther, 0, unit, NeuronPart::kOutput)));
    }
    LayerColumns of_network = out_.input, of_member = out_.input;
    const auto layers = facts_.network.architecture.layers();
    for (std::size_t m = 0; m < layers.size(); ++m) {
      of_network = AddLayer(model(), 0, m, facts_.point, facts_.bounds, of_network, nullptr,
                            out_.network_sums);
      const std::vector<char> similar = SimilarNeurons(m);
      of_member = AddLayer(model(), 1, m, hyper_, bounds_, of_member, &similar, out_.member_sums);
      if (options_.matching_dependencies) Match(m, of_network, of_member);
    }
    Confident(of_network);
    Disagreeing(of_member);
    return std::move(out_);
  }

 private:
  MilpModel& model() { return out_.model; }

  std::vector<char> SimilarNeurons(std::size_t m) const {
    const auto& differences = differences_.post[m];
    std::vector<char> similar(differences.size(), 0);
    if (!options_.relax_if_similar) return similar;
    for (std::size_t k = 0; k < similar.size(); ++k) {
      similar[k] = differences[k].upper - differences[k].lower <= options_.tau;
    }
    return similar;
  }

  // phi_MD: z + lower <= z# <= z + upper.
  void Match(std::size_t m, const LayerColumns& of_network, const LayerColumns& of_member) {
    for (std::size_t k = 0; k < of_network.size(); ++k) {
      std::vector<Term> terms;
      if (of_member[k] >= 0) terms.push_back({of_member[k], 1});
      if (of_network[k] >= 0) terms.push_back({of_network[k], -1});
      const Interval difference = differences_.post[m][k];
      if (terms.empty()) continue;
      model().AddRow(difference.lower, difference.upper, terms,
                     NeuronTag(1, m, static_cast<std::int64_t>(k), NeuronPart::kMatch));
    }
  }

  // Eq. 3a and 3c, left: max beta, beta <= z_c - z_c' for every other class.
  void Confident(const LayerColumns& outputs) {
    const double largest = LargestConfidence(facts_.point, facts_.bounds, label_);
    // beta >= 0 at least: an input of smaller confidence has another label in N.
    out_.beta = model().AddColumn({options_.floor, std::max(largest, options_.floor)}, /*cost=*/1,
                                  NeuronTag(kOther, 1, 0, NeuronPart::kOutput));
    for (std::size_t other = 0; other < outputs.size(); ++other) {
      if (other == static_cast<std::size_t>(label_)) continue;
      model().AddRow(0, kInfinity, {{outputs[label_], 1}, {outputs[other], -1}, {out_.beta, -1}},
                     NeuronTag(kOther, 1, static_cast<std::int64_t>(other), NeuronPart::kAbove));
    }
  }

  // Eq. 3c, right: some other class is at least as large, up to the members' forward error.
  void Disagreeing(const LayerColumns& outputs) {
    std::vector<Term> chosen;
    for (std::size_t other = 0; other < outputs.size(); ++other) {
      if (other == static_cast<std::size_t>(label_)) continue;
      const auto tag = [&](NeuronPart part) {
        return NeuronTag(kOther, 2, static_cast<std::int64_t>(other), part);
      };
      std::vector<Term> terms = {{outputs[label_], 1}, {outputs[other], -1}};
      double limit = options_.member_error;
      if (outputs.size() > 2) {
        // z_c - z_c' <= error + M (1 - a), M = max(z_c - z_c') - error.
        const double largest = LargestDifference(hyper_, bounds_, label_, other);
        const double big_m = std::max(0.0, AddUp(largest, -options_.member_error));
        chosen.push_back({model().AddBinary(tag(NeuronPart::kPhase)), 1});
        terms.push_back({chosen.back().column, big_m});
        limit = AddUp(limit, big_m);
      }
      model().AddRow(-kInfinity, limit, terms, tag(NeuronPart::kActive));
    }
    if (!chosen.empty())
      model().AddRow(1, kInfinity, chosen, NeuronTag(kOther, 2, 0, NeuronPart::kMatch));
  }

  const NetworkFacts& facts_;
  const HyperNetwork& hyper_;
  const NeuronBounds& bounds_;
  const std::int32_t label_;
  const EncodingOptions& options_;
  const DifferenceBounds differences_;
  Encoding out_;
};

}  // namespace

Encoding Encode(const NetworkFacts& facts, const HyperNetwork& hyper, const NeuronBounds& bounds,
                std::int32_t label, const EncodingOptions& options) {
  return Encoder(facts, hyper, bounds, label, options).Build();
}

}  // namespace lucid
