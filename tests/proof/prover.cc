#include "proof/prover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lucid {
namespace {

struct Pair {
  std::int32_t member = 0, other = 0;
};

struct Work {
  std::uint64_t id = 0;
  Region region;
  std::vector<Pair> alive;
};

class Prover {
 public:
  Prover(const Ensemble& ensemble, std::int32_t label, double member_error, ProverOptions options)
      : ensemble_(ensemble),
        label_(label),
        member_error_(member_error),
        options_(options),
        bounder_(ensemble.network()),
        parameters_(ensemble.network().parameters.size()) {}

  Work Root() const {
    const Architecture& architecture = ensemble_.network().architecture;
    Work root;
    root.region.box = UnitBox(architecture.inputs());
    for (std::int64_t i = 0; i < ensemble_.members(); ++i) {
      for (std::int32_t c = 0; c < architecture.classes(); ++c) {
        if (c != label_) root.alive.push_back({static_cast<std::int32_t>(i), c});
      }
    }
    return root;
  }

  Proved Run() {
    ProofContent content;
    std::vector<Work> stack = {Root()};
    std::uint64_t next = 1;
    while (!stack.empty()) {
      Work work = std::move(stack.back());
      stack.pop_back();
      region_ = Enter(work.region);
      if (!region_) {
        ProofClosing& none = content.closings.emplace_back();
        none.node = work.id;
        none.member = ProofClosing::kEveryPair;
        none.band = BandOf();
        continue;
      }
      std::vector<Pair> rest;
      for (const Pair& pair : work.alive) {
        if (!Close(pair, work.id, content)) rest.push_back(pair);
      }
      if (!rest.empty()) {
        ProofSplit split;
        split.node = work.id;
        split.first_child = next;
        for (Work& child : Split(work, std::move(rest), split)) {
          child.id = next++;
          stack.push_back(std::move(child));
        }
        content.splits.push_back(split);
      }
      if (content.splits.size() > options_.nodes / 2) return {};
    }
    return {std::move(content), std::max(largest_, BandOf() ? BandOf()->least : 0.0)};
  }

  double Largest(const Work& work) {
    double largest = 0;
    region_ = Enter(work.region);
    EXPECT_TRUE(region_);
    for (const Pair& pair : work.alive) {
      const auto facts = Enter(pair);
      if (facts) largest = std::max(largest, BoundOf(*facts, pair, 10));
    }
    return largest;
  }

 private:
  PairQuestion QuestionOf(const Pair& pair) const {
    return {label_, pair.other, pair.other, member_error_};
  }

  Recycled<PairFacts> Enter(const Pair& pair) {
    ensemble_.CopyParameters(pair.member, parameters_);
    return bounder_.Enter(*region_, parameters_);
  }
  double BoundOf(const PairFacts& facts, const Pair& pair, int steps) {
    multipliers_ = {};
    return bounder_
        .Bound(facts, QuestionOf(pair), multipliers_, steps, 0.999 * options_.target, &dual_)
        .value;
  }

  std::optional<ProofBand> BandOf() const {
    if (!options_.bands) return std::nullopt;
    return ProofBand{0.5 * options_.target, std::numeric_limits<double>::infinity()};
  }
  Recycled<RegionFacts> Enter(const Region& region) {
    if (!options_.bands) return bounder_.Enter(region);
    const Band band{label_, BandOf()->least, BandOf()->most};
    return bounder_.Enter(region, &band);
  }

  // By multipliers or by the lines that the rules choose, now this, now that.
  bool Close(const Pair& pair, std::uint64_t node, ProofContent& content) {
    ProofClosing closing;
    closing.node = node;
    closing.member = pair.member;
    closing.other = pair.other;
    closing.band = BandOf();
    const Recycled<PairFacts> facts = Enter(pair);
    if (!facts) {
      content.closings.push_back(closing);
      return true;
    }
    const bool lines = pair.member % 2 == 0;
    const double found = BoundOf(*facts, pair, lines ? 0 : 10);
    closing.kind = lines ? ProofClosing::Kind::kLines : ProofClosing::Kind::kMultipliers;
    closing.below = pair.other;
    closing.lambda = multipliers_.lambda;
    if (!lines) closing.multipliers = dual_;
    const double bound =
        lines ? found
              : bounder_.BoundOfDual(*facts, QuestionOf(pair), closing.lambda, closing.multipliers)
                    .value;
    if (bound > options_.target) return false;
    closing.value = std::max(bound, 0.0) * (1 + 1e-9) + 1e-12;
    largest_ = std::max(largest_, closing.value);
    content.closings.push_back(std::move(closing));
    return true;
  }

  // Phases of one neuron after the other, or the widest input: no search to speak of, but every
  // kind of split.
  std::vector<Work> Split(const Work& work, std::vector<Pair> rest, ProofSplit& split) {
    std::vector<Work> children(2, Work{0, work.region, std::move(rest)});
    const auto layers = ensemble_.network().architecture.layers();
    const std::size_t turn = work.region.phases.size();
    if (options_.phases && work.id % 2 == 0 && turn < 4) {
      PhaseSplit phase;
      phase.layer = static_cast<std::int32_t>(turn % (layers.size() - 1));
      phase.unit = static_cast<std::int32_t>(
          (turn / 2 + work.id) % static_cast<std::uint64_t>(layers[phase.layer].outputs));
      phase.member = work.id % 4 == 0;
      split.how = phase.member ? ProofSplit::How::kMemberPhase : ProofSplit::How::kNetworkPhase;
      split.layer = phase.layer;
      split.unit = phase.unit;
      for (const bool active : {false, true}) {
        phase.active = active;
        children[active ? 1 : 0].region.phases.push_back(phase);
      }
      return children;
    }
    const auto widest = std::ranges::max_element(
        work.region.box, {}, [](const Interval& x) { return x.upper - x.lower; });
    const auto input = widest - work.region.box.begin();
    split.how = ProofSplit::How::kInput;
    split.unit = static_cast<std::int32_t>(input);
    split.at = 0.5 * (widest->lower + widest->upper);
    children[0].region.box[input].upper = split.at;
    children[1].region.box[input].lower = split.at;
    return children;
  }

  const Ensemble& ensemble_;
  const std::int32_t label_;
  const double member_error_;
  const ProverOptions options_;
  RegionBounder bounder_;
  Recycled<RegionFacts> region_;
  std::vector<float> dual_;
  std::vector<float> parameters_;
  Multipliers multipliers_;
  double largest_ = 0;
};

}  // namespace

ImportedRun UndecidedRun(const std::string& architecture, std::uint64_t seed, int members,
                         double distance) {
  Network network = RandomNetwork(architecture, seed);
  const std::vector<float> middle(static_cast<std::size_t>(network.architecture.inputs()), 0.5F);
  std::vector<double> logits(static_cast<std::size_t>(network.architecture.classes()));
  Evaluator(network).Logits(middle, logits);
  for (std::size_t c = 0; c < logits.size(); ++c) {
    network.parameters[network.architecture.layers().back().bias_at + c] -=
        static_cast<float>(logits[c]);
  }
  std::vector<Network> others;
  Stream stream(seed, "proof test members");
  for (int i = 0; i < members; ++i) {
    others.push_back(network);
    for (float& p : others.back().parameters) {
      p += static_cast<float>(distance * stream.Uniform(-1, 1));
    }
  }
  return {network, others};
}

Proved Prove(const Ensemble& ensemble, std::int32_t label, double member_error,
             const ProverOptions& options) {
  return Prover(ensemble, label, member_error, options).Run();
}

double RootBound(const Ensemble& ensemble, std::int32_t label, double member_error) {
  Prover prover(ensemble, label, member_error, {});
  return prover.Largest(prover.Root());
}

double LargestMemberError(const Ensemble& ensemble) {
  double largest = 0;
  for (std::int64_t i = 0; i < ensemble.members(); ++i) {
    largest = std::max(largest, Evaluator(ensemble.Member(i)).ConfidenceErrorBound());
  }
  return largest;
}

ProofHeader HeaderFor(const Certificate& certificate) {
  return {certificate.network_digest, certificate.ensemble_digest, certificate.member_error,
          static_cast<std::int32_t>(certificate.classes.size())};
}

void WriteProof(const std::string& path, const ProofHeader& header,
                const std::vector<LabelledContent>& contents) {
  Result<ProofWriter> writer = ProofWriter::Create(path, header);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  const auto expect = [](const Status& added) { ASSERT_TRUE(added.ok()) << added.error().message; };
  for (const auto& [label, content] : contents) {
    for (const ProofSplit& split : content.splits) expect(writer->Add(label, split));
    for (const ProofClosing& closing : content.closings) expect(writer->Add(label, closing));
  }
  EXPECT_TRUE(writer->Finish().ok());
}

}  // namespace lucid
