// The iDP-DB of every class of a run by the native engine: what `lucid bound` computes.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/base/team.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certificate/proof.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// What both engines ask for.
struct BoundOptions {
  double gap = 0.01;  // relative: (beta_upper - beta_lower) / beta_upper at which a class is done
  double time_limit = 8 * 3600.0;                                // seconds for all classes together
  double class_limit = std::numeric_limits<double>::infinity();  // seconds for one class
  std::optional<std::int32_t> label;  // only this class; the others stay unknown (+inf)
  std::uint64_t seed = 0;             // of clustering and attack
  int threads = 0;                    // 0: all cores
  bool resume = false;                // go on with the journal of an earlier process
  std::string journal;                // file; empty: none
  std::vector<std::string> command;   // recorded in the certificate
  // Processes that share the work; null: none. Without a limit the bounds are the same bits for any
  // number of them.
  Team* team = nullptr;
  // Told the bounds of a class whenever they change, with the seconds since its start. Optional.
  std::function<void(std::int32_t label, double seconds, double lower, double upper)> trace;

  Status Validate(std::int32_t classes) const;
  // Whether every class that was asked for ended by itself.
  bool Finished(const Certificate& certificate) const;
};

// engine "native": attack, screen, region search with differential linear bounds.
struct NativeBoundOptions {
  BoundOptions common;
  DomainKind domain = DomainKind::kBox;         // what may be asked
  std::int64_t memory = std::int64_t{1} << 30;  // bytes for regions that wait
  std::string proof;                            // file to write the proof to; empty: none
  double save_every = 30;                       // seconds between two writes of the journal
  // A bound b >= 0 to decide about, for every class, instead of searching for the smallest: a class
  // ends when its beta_upper is at most b, and everything ends at the first witness above b.
  std::optional<double> decide;
  // A member that was bounded by lines so many times gets a costlier bound, by windows or moments.
  // None: as soon as the costlier bound takes no longer than those bounds did together. It decides
  // how long a search takes, never whether its bounds hold.
  std::optional<std::int64_t> closer_after;
  // So many times as many regions are taken in a round, for so many times as many processes to find
  // work in it. It decides how long a search takes, never whether its bounds hold.
  int width = 1;
  // A file for what every task of the search took and how many bytes it would be as a message, for
  // tools/cluster_curve; empty: none. Not in a team.
  std::string work_log;
  // How often the attack before the search climbs to a leaking input, and at most each attack on
  // one member during the search (0: there is no attack); none: by the number of inputs and the
  // time. It decides how long a search takes, as well.
  std::optional<std::int64_t> attack_climbs;
  // For tests. Wherever the clock is looked at, by any thread, this is asked whether the time of a
  // class is up, whatever the clock says. Optional.
  std::function<bool(std::int32_t label)> out_of_time;

  Status Validate(std::int32_t classes) const;
  // Everything that determines the bounds, in one fixed spelling (not limits, threads, files).
  std::string Canonical() const;
};

// The native engine for every class. Ensures: the bounds of the certificate are proved (see
// ClassBound); they are those of the last finished round when a limit or a stop ends it. Killed at
// any moment, it loses what it did since the journal was last written, some 30 seconds. Errors:
// options out of range; a journal of other options or of another run, or damaged.
Result<Certificate> ComputeBounds(const Ensemble& ensemble, const NativeBoundOptions& options,
                                  const ProgressCallback& progress = {}, std::stop_token stop = {});

// The part of a helper in `team` while rank 0 computes bounds of the same run: it does tasks of the
// search and keeps no books, so that nothing is lost with it but what it has in hand. Returns when
// rank 0 has ended. Requires: not rank 0. Errors: a run or a program that are not those of rank 0.
Status HelpBounds(const Ensemble& ensemble, Team& team, int threads, std::stop_token stop = {});

// What shows bounds of one class: cuts of the domain, parents before their children, and claims
// about the parts. The records of a proof (docs/proof.md); the checker's own code agreed to each.
struct BoxProof {
  std::vector<ProofSplit> splits;
  std::vector<ProofClosing> claims;
};
// Writes them for lucid-check, class by class. Returns the digest of the file.
Result<Digest> WriteGuardProof(const std::string& path, const Certificate& certificate,
                               std::span<const BoxProof> proofs);

struct MemberBounds {
  // Of every class c and member i a number U[c][i]: no x of [0,1]^d with f(x) > U[c][i] has
  // g_i(x) <= member_error. From linear bounds over the whole domain: what MemberIndex is built of.
  std::vector<std::vector<double>> upper;
  std::vector<BoxProof> proofs;  // of every class
};
// Errors: kInterrupted when stopped.
// `team`: processes that share the work (HelpBounds), or null.
Result<MemberBounds> BoundMembers(const Ensemble& ensemble, double member_error, int threads = 0,
                                  const ProgressCallback& progress = {}, std::stop_token stop = {},
                                  Team* team = nullptr);

struct SpatialOptions {
  std::int64_t leaves = 4096;  // boxes of a class, at most
  double time_limit = 30;      // seconds of processor time of each thread, for all classes
  int threads = 0;             // 0: all cores
  // The bounds are worth a file if they spare at least this share of the guiding inputs that the
  // scalar guard noises. With many inputs boxes are too coarse for that.
  double least_spared = 0.05;
  Team* team = nullptr;  // processes that share the work (HelpBounds); they do not show in the file

  Status Validate() const;
};

// The spatial bounds of a certificate, as the bytes of kSpatialFile: the domain cut into boxes
// where it helps inputs like `guides` (rows x inputs; the training data, say; where there are none,
// random inputs of the domain). They say where bounds should be tight, never what they are.
// `members` is BoundMembers' answer for certificate.member_error. Ended by the leaves, the time, a
// stop, or when nothing is left to gain: every end gives valid bounds. No bytes: they spare too few
// inputs.
struct SpatialFile {
  std::string bytes;
  std::vector<BoxProof> proofs;  // of every class
};
Result<SpatialFile> ComputeSpatialBounds(const Ensemble& ensemble, const Certificate& certificate,
                                         const MemberBounds& members, std::span<const float> guides,
                                         const SpatialOptions& options,
                                         const ProgressCallback& progress = {},
                                         std::stop_token stop = {});

}  // namespace lucid
