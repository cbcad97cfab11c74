#include "proof/prover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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
    std::vector<ProofNode> nodes;
    std::vector<Work> stack = {Root()};
    std::uint64_t next = 1;
    while (!stack.empty()) {
      Work work = std::move(stack.back());
      stack.pop_back();
      if (!bounder_.EnterRegion(work.region)) continue;  // not in the file: holds no input
      ProofNode node;
      node.id = work.id;
      std::vector<Pair> rest;
      for (const Pair& pair : work.alive) {
        if (!Close(pair, node)) rest.push_back(pair);
      }
      if (!rest.empty()) {
        node.first_child = next;
        for (Work& child : Split(work, std::move(rest), node)) {
          child.id = next++;
          stack.push_back(std::move(child));
        }
      }
      nodes.push_back(std::move(node));
      if (nodes.size() > options_.nodes) return {};
    }
    return {std::move(nodes), largest_};
  }

  double Largest(const Work& work) {
    double largest = 0;
    EXPECT_TRUE(bounder_.EnterRegion(work.region));
    for (const Pair& pair : work.alive) largest = std::max(largest, BoundOf(pair, 10));
    return largest;
  }

 private:
  PairQuestion QuestionOf(const Pair& pair) const {
    return {label_, pair.other, pair.other, member_error_};
  }

  double BoundOf(const Pair& pair, int steps) {
    ensemble_.CopyParameters(pair.member, parameters_);
    if (!bounder_.EnterMember(parameters_)) return -1;
    multipliers_ = {};
    return bounder_.Bound(QuestionOf(pair), multipliers_, steps, 0.999 * options_.target);
  }

  bool Close(const Pair& pair, ProofNode& node) {
    ensemble_.CopyParameters(pair.member, parameters_);
    if (!bounder_.EnterMember(parameters_)) {
      node.closings.push_back({pair.member, pair.other, true, 0, {}});
      return true;
    }
    BoundOf(pair, 10);
    const std::vector<float> dual = bounder_.Dual();
    const double bound = bounder_.BoundOfDual(QuestionOf(pair), multipliers_.lambda, dual);
    if (bound <= options_.target) {
      largest_ = std::max(largest_, bound);
      node.closings.push_back(
          {pair.member, pair.other, false, multipliers_.lambda, dual, pair.other});
      return true;
    }
    return false;
  }

  // Phases of one neuron after the other, or the widest input: no search to speak of, but every
  // kind of split.
  std::vector<Work> Split(const Work& work, std::vector<Pair> rest, ProofNode& node) {
    std::vector<Work> children(2, Work{0, work.region, std::move(rest)});
    const auto layers = ensemble_.network().architecture.layers();
    const std::size_t turn = work.region.phases.size();
    if (options_.phases && work.id % 2 == 0 && turn < 4) {
      PhaseSplit phase;
      phase.layer = static_cast<std::int32_t>(turn % (layers.size() - 1));
      phase.unit = static_cast<std::int32_t>(
          (turn / 2 + work.id) % static_cast<std::uint64_t>(layers[phase.layer].outputs));
      phase.member = work.id % 4 == 0;
      node.split = phase.member ? ProofNode::Split::kMemberPhase : ProofNode::Split::kNetworkPhase;
      node.layer = phase.layer;
      node.unit = phase.unit;
      for (const bool active : {false, true}) {
        phase.active = active;
        children[active ? 1 : 0].region.phases.push_back(phase);
      }
      return children;
    }
    const auto widest = std::ranges::max_element(
        work.region.box, {}, [](const Interval& x) { return x.upper - x.lower; });
    const auto input = widest - work.region.box.begin();
    node.split = ProofNode::Split::kInput;
    node.unit = static_cast<std::int32_t>(input);
    node.at = 0.5 * (widest->lower + widest->upper);
    children[0].region.box[input].upper = node.at;
    children[1].region.box[input].lower = node.at;
    return children;
  }

  const Ensemble& ensemble_;
  const std::int32_t label_;
  const double member_error_;
  const ProverOptions options_;
  RegionBounder bounder_;
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
                const std::vector<LabelledNode>& nodes) {
  Result<ProofWriter> writer = ProofWriter::Create(path, header);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  for (const LabelledNode& item : nodes) {
    const Status added = writer->Add(item.label, item.node);
    ASSERT_TRUE(added.ok()) << added.error().message;
  }
  const Status finished = writer->Finish();
  ASSERT_TRUE(finished.ok()) << finished.error().message;
}

}  // namespace lucid
