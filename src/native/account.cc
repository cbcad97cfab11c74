#include "native/account.h"

#include <fmt/format.h>

#include <algorithm>

#include "numeric/rounding.h"

namespace lucid {
namespace {

// Steele, Lea and Flood's SplitMix64: a bijection of the 64-bit numbers without visible order.
std::uint64_t Scatter(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

Account::Account(std::int32_t label, std::int64_t members, std::int64_t classes)
    : label_(label),
      members_(members),
      classes_(classes),
      held_(static_cast<std::size_t>(members * classes)) {}

std::size_t Account::IndexOf(const RegionPair& pair) const {
  return static_cast<std::size_t>(pair.member * classes_ + pair.other);
}

std::uint64_t Account::WholeOf(std::size_t index) const {
  // A place that stands for the class itself has nothing to show.
  if (static_cast<std::int64_t>(index) % classes_ == label_) return 0;
  return Scatter(Scatter(static_cast<std::uint64_t>(label_) + 1) ^ index);
}

std::vector<RegionPair> Account::OpenAll(double bound) const {
  std::vector<RegionPair> pairs;
  pairs.reserve(held_.size());
  for (std::int32_t member = 0; member < members_; ++member) {
    for (std::int32_t other = 0; other < classes_; ++other) {
      if (other == label_) continue;
      RegionPair pair{member, other, bound};
      pair.share = WholeOf(IndexOf(pair));
      pairs.push_back(pair);
    }
  }
  return pairs;
}

std::pair<std::uint64_t, std::uint64_t> Account::Cut(std::uint64_t share) {
  const std::uint64_t first = Scatter(share);
  return {first, share - first};
}

void Account::Close(const RegionPair& pair, double bound, Reason reason) {
  double& largest = reason == Reason::kBound      ? largest_bound_
                    : reason == Reason::kRounding ? largest_rounding_
                                                  : largest_given_up_;
  largest = bound >= 0 ? std::max(largest, bound) : bound < 0 ? largest : kInfinity;
  held_[IndexOf(pair)] += pair.share;
}

double Account::largest() const {
  return std::max({largest_bound_, largest_rounding_, largest_given_up_});
}

Status Account::Check(std::span<const RegionPair> waiting) const {
  std::vector<std::uint64_t> sums = held_;
  for (const RegionPair& pair : waiting) {
    if (pair.member < 0 || pair.member >= members_ || pair.other < 0 || pair.other >= classes_ ||
        pair.other == label_ || !(pair.bound >= 0)) {
      return InternalError(fmt::format("class {}: there is no pair of member {} and class {}",
                                       label_, pair.member, pair.other));
    }
    sums[IndexOf(pair)] += pair.share;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == WholeOf(i)) continue;
    return InternalError(fmt::format(
        "class {}: the account of member {} against class {} does not balance: some input was "
        "lost or counted twice, nothing is proved",
        label_, static_cast<std::int64_t>(i) / classes_, static_cast<std::int64_t>(i) % classes_));
  }
  return Ok();
}

Result<Verdict> Account::Settle(std::span<const RegionPair> waiting, double target) const {
  LUCID_TRY(Check(waiting));
  double open = 0;
  for (const RegionPair& pair : waiting) open = std::max(open, pair.bound);
  Verdict verdict;
  verdict.upper_ = std::max(open, largest());
  verdict.finished_ = std::max({open, largest_bound_, largest_given_up_}) <= target;
  verdict.limited_by_rounding_ = verdict.finished_ && largest_rounding_ > target;
  return verdict;
}

void Account::Write(std::string& out) const {
  for (const double bound : {largest_bound_, largest_rounding_, largest_given_up_}) {
    PutBytes(out, bound);
  }
  for (const std::uint64_t share : held_) PutBytes(out, share);
}

void Account::Read(ByteCursor& in) {
  for (double* bound : {&largest_bound_, &largest_rounding_, &largest_given_up_}) {
    *bound = in.Take<double>();
    in.Require(*bound >= 0);
  }
  for (std::uint64_t& share : held_) share = in.Take<std::uint64_t>();
}

}  // namespace lucid
