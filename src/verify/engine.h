// What both engines do alike.
#pragma once

#include <algorithm>
#include <chrono>

#include "bounds/neuron_bounds.h"
#include "hyper/members.h"
#include "lucid/base/digest.h"
#include "lucid/certificate/certificate.h"
#include "lucid/data/domain.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

using Clock = std::chrono::steady_clock;

inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline Clock::time_point In(double seconds) {
  constexpr double kYears = 1e9;  // a time_point overflows beyond some centuries
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::clamp(seconds, 0.0, kYears)));
}

// The largest forward error of any member: every member's label is right about its exact outputs up
// to this. Not to be stopped: microseconds a member, and without it there is no bound at all.
Result<double> LargestError(const Members& members, int threads);

// What a search's journal belongs to: this run's networks, these options (in their one spelling),
// this version.
Digest JournalKey(const Ensemble& ensemble, const std::string& options);

// Of a class whose bounds are set. finished: it ended by itself, as tight as was asked.
BoundStatus StatusOf(const ClassBound& bound, bool finished);

// Makes the box as small as the inputs of the domain in it allow. False: there are none.
bool ShrinkBox(const Domain& domain, Box& box);

}  // namespace lucid
