// A small prover for tests: bounds pairs with the engine's RegionBounder and splits until all are
// closed. Slow and simple; the engine's search is elsewhere.
#pragma once

#include <string>
#include <vector>

#include "certificate/test_support.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certificate/proof.h"
#include "lucid/ensemble/ensemble.h"
#include "pair/region_bounder.h"

namespace lucid {

// What a proof of one class says.
struct ProofContent {
  std::vector<ProofSplit> splits;
  std::vector<ProofClosing> closings;
};
struct LabelledContent {
  std::int32_t label = 0;
  ProofContent content;
};

struct ProverOptions {
  double target = 0;         // every bound is at or below it
  std::size_t nodes = 3000;  // at most so many
  bool phases = false;       // split phases, too
  bool bands = false;        // leave out inputs below the target
};

// A random network whose decision boundary passes through the middle of the domain, and members
// near it: they disagree somewhere, with every class.
ImportedRun UndecidedRun(const std::string& architecture, std::uint64_t seed, int members,
                         double distance);

struct Proved {
  ProofContent content;  // of a proof for one class; empty if the limit was hit
  double largest = 0;    // of the bounds that close pairs, or 0
};
Proved Prove(const Ensemble& ensemble, std::int32_t label, double member_error,
             const ProverOptions& options);

// The bound of the class that the root alone gives.
double RootBound(const Ensemble& ensemble, std::int32_t label, double member_error);

double LargestMemberError(const Ensemble& ensemble);

ProofHeader HeaderFor(const Certificate& certificate);

// Writes all of it, in this order, with a seal that is right.
void WriteProof(const std::string& path, const ProofHeader& header,
                const std::vector<LabelledContent>& contents);

}  // namespace lucid
