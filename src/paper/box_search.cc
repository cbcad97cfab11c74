#include "paper/box_search.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <queue>

#include "native/region_search.h"
#include "numeric/rounding.h"
#include "paper/tighten.h"

namespace lucid {
namespace {

using Clock = std::chrono::steady_clock;

// Narrows `bounds` by others of the same neurons.
void IntersectWith(const NeuronBounds& other, NeuronBounds& bounds) {
  for (std::size_t m = 0; m < bounds.pre.size(); ++m) {
    for (std::size_t k = 0; k < bounds.pre[m].size(); ++k) {
      const Interval both = Intersect(bounds.pre[m][k], other.pre[m][k]);
      // An empty intersection: no input of this box is one that the other bounds speak of, so
      // either interval is right.
      if (both.lower <= both.upper) bounds.pre[m][k] = both;
    }
  }
}

class Search {
 public:
  Search(const NetworkFacts& facts, const HyperNetwork& hyper, std::int32_t label,
         const BoxSearchOptions& options, Repair& repair)
      : facts_(facts),
        hyper_(hyper),
        label_(label),
        options_(options),
        repair_(repair),
        known_(facts),
        known_hyper_(LinearBounds(hyper, facts.bounds.input)) {
    result_.incumbent = options.milp.incumbent;
  }

  Result<MilpResult> Run() {
    LUCID_TRY(Process({facts_.bounds.input, kInfinity, nullptr}));
    if (options_.tighten && !open_.empty() && open_.top().bound > Cutoff()) {
      const Clock::time_point now = Clock::now();  // for a part of the time
      LUCID_TRY(TightenByLp(known_, hyper_, known_hyper_, label_, options_.encoding,
                            {3, now + (options_.milp.deadline - now) / 4, options_.milp.stop}));
    }
    while (!open_.empty() && open_.top().bound > Cutoff()) {
      if (const auto end = OutOfTime()) return Finish(*end);
      const Piece piece = open_.top();
      open_.pop();
      LUCID_TRY(Process(piece));
    }
    return Finish(MilpResult::End::kSolved);
  }

 private:
  struct Piece {
    Box box;
    double bound;
    std::shared_ptr<const TaggedBasis> start;  // where the LP of the box it was cut from ended
    bool operator<(const Piece& other) const { return bound < other.bound; }
  };

  double Cutoff() const {
    return std::max(options_.milp.GoodEnough(result_.incumbent), options_.milp.enough);
  }

  std::optional<MilpResult::End> OutOfTime() const {
    if (options_.milp.stop.stop_requested()) return MilpResult::End::kStopped;
    if (Clock::now() >= options_.milp.deadline) return MilpResult::End::kDeadline;
    return std::nullopt;
  }

  MilpResult Finish(MilpResult::End end) {
    result_.end = end;
    result_.bound = UpperBound::Proved(ProvedBound());
    return result_;
  }

  double ProvedBound() const {
    return std::max({closed_, in_hand_, open_.empty() ? -kInfinity : open_.top().bound});
  }

  Status Process(const Piece& piece) {
    in_hand_ = piece.bound;
    NetworkFacts facts = facts_;
    facts.bounds = LinearBounds(facts.point, piece.box);
    NeuronBounds bounds = LinearBounds(hyper_, piece.box);
    IntersectWith(known_.bounds, facts.bounds);
    IntersectWith(known_hyper_, bounds);
    const Encoding encoding = Encode(facts, hyper_, bounds, label_, options_.encoding);
    LUCID_ASSIGN(const std::unique_ptr<LpSolver> lp, MakeHighsLp(encoding.model));
    if (piece.start != nullptr) lp->StartFrom(Translate(*piece.start, encoding.model));
    MilpOptions milp = options_.milp;
    milp.incumbent = result_.incumbent;
    milp.max_nodes = NodesFor(encoding.model);
    milp.report = [&](double bound, std::int64_t) {
      in_hand_ = std::min(in_hand_, bound);
      if (options_.milp.report) options_.milp.report(ProvedBound(), result_.nodes);
    };
    std::vector<double> x(encoding.input.size());
    milp.repair = [&](std::span<const double> point) {
      for (std::size_t j = 0; j < x.size(); ++j) x[j] = point[encoding.input[j]];
      return repair_.Near(x);
    };
    const MilpResult solved = Maximise(encoding.model, *lp, milp);
    result_.incumbent = std::max(result_.incumbent, solved.incumbent);
    result_.nodes += solved.nodes;
    result_.iterations += solved.iterations;
    const double bound = std::min(piece.bound, solved.bound.value());
    if (solved.end == MilpResult::End::kSolved || bound <= Cutoff()) {
      result_.unproved += solved.unproved;
      closed_ = std::max(closed_, bound);
    } else if (solved.end == MilpResult::End::kNodes) {
      // A basis takes about 20 kB: with very many boxes open, new ones start cold.
      constexpr std::size_t kRemembered = 20'000;
      std::shared_ptr<const TaggedBasis> start;
      if (open_.size() < kRemembered) {
        start = std::make_shared<TaggedBasis>(WithTags(lp->Basis(), encoding.model));
      }
      Cut(piece.box, bound, facts, start);
    } else {
      open_.push({piece.box, bound, piece.start});  // out of time
    }
    in_hand_ = -kInfinity;
    if (options_.milp.report && Clock::now() >= next_report_) {
      next_report_ = Clock::now() + std::chrono::seconds(1);
      options_.milp.report(ProvedBound(), result_.nodes);
    }
    return Ok();
  }

  // Few binaries are settled faster by deciding them, many by looking at smaller boxes; with many
  // inputs boxes shrink slowly, and more binaries are few.
  std::int64_t NodesFor(const MilpModel& model) const {
    constexpr std::size_t kFew = 24, kFewAmongInputs = 64;
    constexpr std::int64_t kSettle = 2000, kSettleAmongInputs = 20'000, kLook = 1;
    const bool many_inputs = std::ssize(facts_.bounds.input) > kFewInputs;
    if (model.binaries().size() > (many_inputs ? kFewAmongInputs : kFew)) return kLook;
    return many_inputs ? kSettleAmongInputs : kSettle;
  }

  // Cuts the box at the middle of the side that undecided neurons of the first layer depend on
  // most.
  void Cut(const Box& box, double bound, const NetworkFacts& facts,
           const std::shared_ptr<const TaggedBasis>& start) {
    const Layer& layer = facts.network.architecture.layers()[0];
    std::vector<double> effect(box.size(), 1e-9);  // some side is cut even if all are decided
    for (std::int64_t unit = 0; unit < layer.outputs; ++unit) {
      const Interval range = facts.bounds.pre[0][unit];
      if (range.lower >= 0 || range.upper <= 0) continue;
      const std::int64_t o = unit / layer.positions, t = unit % layer.positions;
      for (std::int64_t k = 0; k < layer.taps; ++k) {
        const float weight = facts.network.parameters[layer.weight_at + o * layer.taps + k];
        effect[t * layer.stride + layer.TapOffset(k)] += std::abs(weight);
      }
    }
    std::size_t side = 0;
    double best = -1;
    for (std::size_t j = 0; j < box.size(); ++j) {
      const double score = effect[j] * (box[j].upper - box[j].lower);
      if (score > best) {
        best = score;
        side = j;
      }
    }
    const double middle = box[side].lower + (box[side].upper - box[side].lower) / 2;
    Box low = box, high = box;
    low[side].upper = middle;  // both contain the middle: nothing falls between
    high[side].lower = middle;
    open_.push({std::move(low), bound, start});
    open_.push({std::move(high), bound, start});
  }

  const NetworkFacts& facts_;
  const HyperNetwork& hyper_;
  const std::int32_t label_;
  const BoxSearchOptions& options_;
  Repair& repair_;
  NetworkFacts known_;  // what holds in the whole domain
  NeuronBounds known_hyper_;
  std::priority_queue<Piece> open_;
  double closed_ = -kInfinity;   // the largest bound of a box that is done with
  double in_hand_ = -kInfinity;  // of the box that is being worked on
  Clock::time_point next_report_ = Clock::now() + std::chrono::seconds(1);
  MilpResult result_;
};

}  // namespace

Result<MilpResult> MaximiseOverBoxes(const NetworkFacts& facts, const HyperNetwork& hyper,
                                     std::int32_t label, const BoxSearchOptions& options,
                                     Repair& repair) {
  return Search(facts, hyper, label, options, repair).Run();
}

}  // namespace lucid
