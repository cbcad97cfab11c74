// The forward pass in rational arithmetic: no rounding, so what it says about an input is a fact.
#pragma once

#include <gmpxx.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/nn/network.h"

namespace lucid {

// Requires: x.size() == inputs, finite.
std::vector<mpq_class> ExactLogits(const Network& network, std::span<const float> x);

// The smallest class with the largest logit.
std::int32_t ExactLabel(std::span<const mpq_class> logits);

// logit of `label` minus the largest other one: f for N, g for a member.
mpq_class ExactMargin(std::span<const mpq_class> logits, std::int32_t label);

// Ensures: the largest double <= value.
double RoundedDown(const mpq_class& value);

}  // namespace lucid
