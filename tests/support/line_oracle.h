// The true iDP-DB of networks with one input, in rational arithmetic: no rounding anywhere.
#pragma once

#include <gmpxx.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "lucid/nn/network.h"

namespace lucid {

// A network with one input is piecewise linear: its outputs on one piece of [0,1].
struct LinePiece {
  struct Form {
    mpq_class slope, at_zero;
    mpq_class At(const mpq_class& x) const { return slope * x + at_zero; }
  };
  mpq_class from, to;
  std::vector<Form> outputs;
};

// All pieces, in order. Requires: one input, dense layers (or none).
std::vector<LinePiece> PiecesOf(const Network& network);

// max { f(x) : x in [0,1], f(x) >= 0, P_c(x) - P_k(x) <= allowance for some k != c }, exactly, of
// N's and one member's pieces; nothing if there is no such x.
std::optional<mpq_class> ExactBeta(const std::vector<LinePiece>& network,
                                   const std::vector<LinePiece>& member, std::int32_t label,
                                   const mpq_class& allowance);

}  // namespace lucid
