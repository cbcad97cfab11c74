// What a long computation tells its caller while it runs. The library never prints; programs
// render.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace lucid {

struct Progress {
  std::string_view what;   // "training", "checking the store", ...
  std::string_view unit;   // "networks", "bytes", ...
  std::int64_t done = 0;   // of `total`, including what an earlier run had done
  std::int64_t total = 0;  // 0: not known
  std::int64_t done_before =
      0;  // of `done`, how many were there at the start (rates leave them out)
  std::string_view detail = {};  // what else is worth knowing now: "beta in [0.21, 0.24]"
};

// Called from any thread, one call at a time. Empty: nobody is looking.
using ProgressCallback = std::function<void(const Progress&)>;

}  // namespace lucid
