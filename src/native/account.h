// The account of one class: what a search has to show, and what it has shown of it.
//
// A pair is a member and a class other than the class in question. A search has to bound N's
// confidence for every pair over the whole domain. The account gives every pair a number, its
// whole. Each region that waits holds a share of the whole of each of its pairs. A region that is
// cut hands its shares on to its two parts. A pair that is closed or given up in a region hands its
// share to the account, together with a proved bound. So for every pair
//   what the account holds + what the waiting regions hold = the whole      (modulo 2^64).
// A region that was lost, counted twice, or closed for another pair or another class breaks this
// equation. Shares are scattered over all 64-bit numbers, so a broken equation holds by accident
// with probability 2^-64. Only an account whose equations hold gives a verdict, and only a verdict
// can say that a class is finished.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "lucid/base/result.h"

namespace lucid {

struct PairProof;  // proof_log.h

// A member that may give class `other` at least as much as the class in question, in one region.
struct RegionPair {
  std::int32_t member = 0, other = 0;
  double bound = 0;                // proved, of the confidence at which it leaks in the region
  float lambda = 1;                // where the next search for multipliers starts
  std::uint64_t share = 0;         // of the pair's whole
  std::shared_ptr<PairProof> why;  // of the bound, while a proof is written; null: not known
};

// What a search proved for its class. Only an account makes one.
class Verdict {
 public:
  Verdict() = default;  // nothing is proved
  // No leaking input of the domain has a larger confidence.
  double upper() const { return upper_; }
  // The bound is as tight as was asked, or as the rounding of the networks' own sums allows.
  bool finished() const { return finished_; }
  // Rounding is why the bound is not as tight as was asked.
  bool limited_by_rounding() const { return limited_by_rounding_; }

 private:
  friend class Account;
  double upper_ = std::numeric_limits<double>::infinity();
  bool finished_ = false, limited_by_rounding_ = false;
};

class Account {
 public:
  enum class Reason {
    kBound,     // the bound is at or below the target, or no input is left
    kRounding,  // the bound is above the target only by what rounding adds to it
    kGivenUp,   // the region is not looked at any more, and its bound counts as it is
  };

  Account() = default;  // of no pairs
  Account(std::int32_t label, std::int64_t members, std::int64_t classes);

  // Every pair, each with its whole. The start of a search, once.
  std::vector<RegionPair> OpenAll(double bound) const;
  // The shares of the two parts of a region.
  static std::pair<std::uint64_t, std::uint64_t> Cut(std::uint64_t share);
  // Takes the pair's share. `bound` holds for the pair in the region; NaN proves nothing.
  void Close(const RegionPair& pair, double bound, Reason reason);

  // The largest bound of what was closed or given up.
  double largest() const;

  // Whether the waiting pairs and the account make up the whole of every pair. kInternal names the
  // first pair for which they do not.
  Status Check(std::span<const RegionPair> waiting) const;
  // Errors: as Check.
  Result<Verdict> Settle(std::span<const RegionPair> waiting, double target) const;

  void Write(std::string& out) const;
  // Reads an account of the same class and sizes. If the bytes are of another one or damaged,
  // in.ok() is false.
  void Read(ByteCursor& in);

  bool operator==(const Account&) const = default;

 private:
  std::size_t IndexOf(const RegionPair& pair) const;
  std::uint64_t WholeOf(std::size_t index) const;

  std::int32_t label_ = 0;
  std::int64_t members_ = 0, classes_ = 0;
  std::vector<std::uint64_t> held_;  // by member and other class; the class itself has a place, too
  double largest_bound_ = 0, largest_rounding_ = 0, largest_given_up_ = 0;
};

}  // namespace lucid
