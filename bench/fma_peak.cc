#include "fma_peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_peak.cc"
#include "numeric/simd_targets.h"

#include <hwy/foreach_target.h>  // IWYU pragma: keep: includes this file once per instruction set

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Two units of latency four to five need ten chains; AVX2's sixteen registers leave room for
// twelve.
constexpr int kChains = 12;

// Returns the operations done; `sink` keeps the compiler from leaving them out.
double FmaChains(std::int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999f), addend = hn::Set(d, 1e-3f);  // every chain tends to 1
  hn::Vec<decltype(d)> sum[kChains];
  for (int c = 0; c < kChains; ++c) sum[c] = hn::Set(d, static_cast<float>(c));
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) sum[c] = hn::MulAdd(sum[c], factor, addend);
  }
  for (int c = 1; c < kChains; ++c) sum[0] = hn::Add(sum[0], sum[c]);
  *sink = hn::GetLane(sum[0]);
  return 2.0 * kChains * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace lucid {

HWY_EXPORT(FmaChains);
HWY_EXPORT(TargetName);

FmaPeak MeasureFmaPeak() {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kRounds = 400'000;
  FmaPeak peak{HWY_DYNAMIC_DISPATCH(TargetName)(), 0};
  volatile float kept = 0;
  for (int run = 0; run < 20; ++run) {  // short runs: the fastest one met no interruption
    float sink = 0;
    const auto start = Clock::now();
    const double operations = HWY_DYNAMIC_DISPATCH(FmaChains)(kRounds, &sink);
    const std::chrono::duration<double> seconds = Clock::now() - start;
    kept = sink;
    peak.gflops = std::max(peak.gflops, operations / seconds.count() / 1e9);
  }
  static_cast<void>(kept);
  return peak;
}

}  // namespace lucid

#endif  // HWY_ONCE
