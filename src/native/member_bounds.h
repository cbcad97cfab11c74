// A helper's part of BoundMembers.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "base/bytes.h"
#include "ensemble/engine_networks.h"
#include "lucid/base/result.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// Reads which members are asked for, and writes the claims that bound them. Thread-safe. Errors:
// members that are not there. After a stop it may write nothing.
Status AnswerMembers(const Ensemble& ensemble, const EngineNetworks& networks, std::int32_t label,
                     double member_error, const std::stop_token& stop, ByteCursor& in,
                     std::string& out);

}  // namespace lucid
