// One subset's MILP, solved by cutting the domain into boxes: each has neuron bounds, and with them
// big-Ms, of its own.
#pragma once

#include <cstdint>

#include "lucid/base/result.h"
#include "pair/hyper_network.h"
#include "paper/branch_and_bound.h"
#include "paper/encoding.h"
#include "paper/repair.h"

namespace lucid {

struct BoxSearchOptions {
  EncodingOptions encoding;
  MilpOptions milp;  // `repair` and `max_nodes` are set by the search
  bool tighten =
      false;  // the whole domain's neuron bounds by LP, if its root LP does not settle it
};

// Best-first over boxes: the one with the largest bound gets its MILP, for a few nodes; if that
// does not settle it, the box is cut in two. Ensures, for the input box of `facts`: as Encode and
// MilpResult say; result.nodes counts the nodes of all boxes.
Result<MilpResult> MaximiseOverBoxes(const NetworkFacts& facts, const HyperNetwork& hyper,
                                     std::int32_t label, const BoxSearchOptions& options,
                                     Repair& repair);

}  // namespace lucid
