#include "check/guard_cover.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "numeric/rounding.h"

namespace lucid {

// A way down from the root, and the least value that the claims on it show of every pair.
class ClaimsOnTheWay {
 public:
  static constexpr std::size_t kNowhere = ProofTree::kNone;  // the proof has no such node

  ClaimsOnTheWay(const ProofTree& tree, const ProofShape& shape)
      : tree_(tree),
        least_(static_cast<std::size_t>(shape.members * (shape.classes - 1)), kInfinity) {}

  // How much to undo, for Leave.
  std::size_t Enter(std::size_t node) {
    const std::size_t mark = trail_.size();
    if (node == kNowhere) return mark;
    const ProofTree::Node& at = tree_.nodes_[node];
    for (std::size_t c = 0; c < at.claims; ++c) {
      const ProofTree::Claim& claim = tree_.claims_[at.first_claim + c];
      if (claim.most != kInfinity) continue;  // it says nothing about larger f
      double& least = claim.pair == ProofTree::kEveryPair ? of_all_ : least_[claim.pair];
      if (!(claim.value < least)) continue;
      trail_.emplace_back(claim.pair, least);
      least = claim.value;
    }
    return mark;
  }
  void Leave(std::size_t mark) {
    for (; trail_.size() > mark; trail_.pop_back()) {
      const auto& [pair, before] = trail_.back();
      (pair == ProofTree::kEveryPair ? of_all_ : least_[pair]) = before;
    }
  }
  // The node behind this cut, or nowhere.
  std::size_t ChildOf(std::size_t node, const SpatialBounds::Node& cut, unsigned side) const {
    if (node == kNowhere) return kNowhere;
    const ProofTree::Node& at = tree_.nodes_[node];
    for (std::size_t s = 0; s < at.splits; ++s) {
      const ProofTree::Split& split = tree_.splits_[at.first_split + s];
      if (split.how == ProofSplit::How::kInput && split.unit == cut.feature &&
          split.at == cut.value) {
        return tree_.Find(split.first_child + side);
      }
    }
    return kNowhere;
  }

  double Least(std::size_t pair) const { return std::min(of_all_, least_[pair]); }
  std::optional<std::size_t> FirstAbove(double bound) const {
    if (of_all_ <= bound) return std::nullopt;
    const auto at = std::ranges::find_if(least_, [&](double least) { return !(least <= bound); });
    if (at == least_.end()) return std::nullopt;
    return static_cast<std::size_t>(at - least_.begin());
  }

 private:
  const ProofTree& tree_;
  std::vector<double> least_;  // of every pair
  double of_all_ = kInfinity;
  std::vector<std::pair<std::uint64_t, double>> trail_;  // pairs, and their least before
};

namespace {

std::string OpenPair(std::size_t pair, const ProofShape& shape, std::int32_t label) {
  const auto others = static_cast<std::size_t>(shape.classes - 1);
  const std::size_t other = pair % others;
  return fmt::format("member {} against class {}", pair / others,
                     other + (other >= static_cast<std::size_t>(label) ? 1 : 0));
}

}  // namespace

std::string FindOpenMember(const ProofTree& proof, const ProofShape& shape, std::int32_t label,
                           const RankedMembers& members) {
  ClaimsOnTheWay claims(proof, shape);
  claims.Enter(0);
  const auto others = static_cast<std::size_t>(shape.classes - 1);
  for (std::size_t k = 0; k < members.order.size(); ++k) {
    const double bound = members.upper[k];
    for (std::size_t other = 0; other < others; ++other) {
      const std::size_t pair = static_cast<std::size_t>(members.order[k]) * others + other;
      if (claims.Least(pair) <= bound) continue;
      return fmt::format("{}: the bound {} is not shown", OpenPair(pair, shape, label), bound);
    }
  }
  return "";
}

std::string FindOpenBox(const ProofTree& proof, const ProofShape& shape, std::int32_t label,
                        double beta_upper, const SpatialBounds::Tree& boxes) {
  ClaimsOnTheWay claims(proof, shape);
  struct Place {
    std::size_t box = 0, node = 0;
    std::size_t mark = 0;
    unsigned sides = 0;  // that were looked at
  };
  std::vector<Place> way = {{0, 0, claims.Enter(0), 0}};
  while (!way.empty()) {
    Place& place = way.back();
    const SpatialBounds::Node& box = boxes[place.box];
    if (box.feature >= 0 && place.sides < 2) {
      const unsigned side = place.sides++;
      const std::size_t child = side == 0 ? place.box + 1 : static_cast<std::size_t>(box.second);
      const std::size_t node = claims.ChildOf(place.node, box, side);
      way.push_back({child, node, claims.Enter(node), 0});
      continue;
    }
    if (box.feature < 0 && !(beta_upper <= box.value)) {
      if (const auto pair = claims.FirstAbove(box.value)) {
        return fmt::format("box {}, {}: the bound {} is not shown", place.box,
                           OpenPair(*pair, shape, label), box.value);
      }
    }
    claims.Leave(place.mark);
    way.pop_back();
  }
  return "";
}

}  // namespace lucid
