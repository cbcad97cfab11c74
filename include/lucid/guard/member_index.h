// Which members of an ensemble can give an input another label than N: the exact question of
// Naive-iDP, answered without running all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/nn/network.h"

namespace lucid {

class Ensemble;

// What the index found at one input.
struct MemberAnswer {
  Decision decision;         // of N, as Evaluator::Decide gives it
  std::int64_t member = -1;  // a member whose label is another one; -1: there is none
  std::int64_t run = 0;      // how many members were run to find out
  bool Disagrees() const { return member >= 0; }
};

// For every class c and member i the index holds a proved number U[c][i]:
//   no x of [0,1]^d with f(x) > U[c][i] has g_i(x) <= e_i,                                      (1)
// where, in exact arithmetic, f is output c of N minus its largest other output, g_i the same of
// member i, and e_i bounds the error of member i's computed confidence
// (Evaluator::ConfidenceErrorBound). A query whose label by N is c runs members in descending order
// of U[c][.], stops at the first with another label, and skips those with
//   f~ - network_error, rounded down, > U[c][i]                                                 (2)
// where f~ is N's computed confidence.
//
// The answer equals brute force (the label of Evaluator::Decide of any member is not that of N) at
// every x. Proof. Members that are run are run with Evaluator's arithmetic, so let i be skipped: x
// is in [0,1]^d and (2) holds. Then f(x) >= f~ - network_error > U[c][i], so g_i(x) > e_i by (1).
// If the computed label of i were another one, the computed output c of i would be at most its
// largest other computed output - equal to it in a tie that a smaller class wins - and each
// computed output is within LogitErrorBound of the exact one: g_i(x) <= 2 LogitErrorBound <= e_i, a
// contradiction. So i's computed label is c. Nothing was assumed of N at a tie: c is N's computed
// label, f may even be a little below 0, and then (2) fails for every U >= 0. QED
//
// Inputs with a value outside of [0,1] (a NaN, or one that kEncodingSlack lets through: -1e-16) are
// none of (1)'s: all members are run, until one disagrees.
//
// The index holds no reference to the ensemble. Memory: 4 bytes per parameter of all members, and 8
// per class and member. Thread-safe, immutable.
class MemberIndex {
 public:
  // upper[c][i] is U[c][i]; +inf: not known (the member is run for every input of class c); below 0
  // counts as 0. They must have been proved as in (1) with member_error in the place of e_i.
  // Errors: sizes that are not classes x members, NaN, a member_error below some member's e_i.
  // threads: 0 means all cores. O(parameters of all members).
  static Result<MemberIndex> Build(const Ensemble& ensemble,
                                   std::span<const std::vector<double>> upper, double member_error,
                                   int threads = 0);

  // Replaces the file atomically.
  Status Save(const std::string& path) const;
  // Refuses a file with any changed byte, and one of another run: kMismatch or kInvalidInput. The
  // seal finds damage, not forgery: who can write the file can claim any bound.
  static Result<MemberIndex> Load(const Ensemble& ensemble, const std::string& path,
                                  int threads = 0);

  ~MemberIndex();
  MemberIndex(MemberIndex&&) noexcept;
  MemberIndex& operator=(MemberIndex&&) noexcept;

  // Requires: x.size() == inputs.
  MemberAnswer Ask(std::span<const float> x) const;
  bool AnyMemberDisagrees(std::span<const float> x) const { return Ask(x).Disagrees(); }

  std::int64_t members() const;
  // The digest of the bytes of its file, by which a certificate names it.
  const Digest& digest() const;
  // The largest U[label][.] (rounded up to float32): an input of the domain whose computed
  // confidence minus network_error is above it needs no member at all.
  double LargestUpper(std::int32_t label) const;

 private:
  struct Impl;
  explicit MemberIndex(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace lucid
