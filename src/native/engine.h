// What both engines do alike.
#pragma once

#include "base/clock.h"
#include "ensemble/members.h"
#include "lucid/base/digest.h"
#include "lucid/certificate/certificate.h"
#include "lucid/data/domain.h"
#include "lucid/ensemble/ensemble.h"
#include "pair/neuron_bounds.h"

namespace lucid {

// The largest forward error of any member: every member's label is right about its exact outputs up
// to this. It takes microseconds a member and cannot be stopped, because no bound holds without it.
// Errors: a member whose forward error is not finite.
Result<double> LargestError(const Members& members, int threads);

// What a search's journal belongs to: this run's networks, these options (in their one spelling),
// this version.
Digest JournalKey(const Ensemble& ensemble, const std::string& options);

// How far the search of a class got, whose bounds are set. `finished`: the search ended by itself
// because the bounds were as tight as was asked.
BoundStatus StatusOf(const ClassBound& bound, bool finished);

// Makes the box as small as the inputs of the domain in it allow. False: there are none.
bool ShrinkBox(const Domain& domain, Box& box);

}  // namespace lucid
