// A loop over independent pieces of work on a few threads.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "lucid/base/result.h"

namespace lucid {

// Calls body(i, worker) for every i in [0, count), each once, on up to `threads` threads (0: all
// cores), in ascending order of start; worker is in [0, threads). Ensures: the first error (by
// index) is returned and no further piece is started after one; a requested stop starts no further
// piece and returns kInterrupted. Which thread runs which piece is not defined: results may not
// depend on it.
Status ParallelFor(std::int64_t count, int threads, std::stop_token stop,
                   const std::function<Status(std::int64_t index, int worker)>& body);

// The number of threads that `threads` asks for: itself, or all cores if 0.
int EffectiveThreads(int threads);

}  // namespace lucid
