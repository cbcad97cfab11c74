// The fastest this core can multiply and add: what a kernel's speed is a share of.
#pragma once

#include <string>

namespace lucid {

struct FmaPeak {
  std::string instruction_set;  // Highway's name of the best one on this machine
  double gflops = 0;            // float32, a fused multiply-add counted as two
};

// Runs independent chains of fused multiply-adds that never leave the registers, for a few tens of
// milliseconds of wall time on this thread. (A machine without the instruction: a product and a
// sum.)
FmaPeak MeasureFmaPeak();

}  // namespace lucid
