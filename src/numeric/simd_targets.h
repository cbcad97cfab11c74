// The instruction sets that kernels are compiled for. Requires: included before
// hwy/foreach_target.h, in every file that includes that one.
//
// Three paths are kept: AVX-512 (Highway's AVX3), AVX2 and the compiler's baseline, which is SSE2
// on x86-64 and NEON on arm64. SSE4 would be the baseline with another name (no fused multiply-add
// there either), and the later AVX-512 sets add nothing that a kernel here uses. The vectors of SVE
// have no size that the compiler knows, and the kernels keep vectors in arrays: NEON serves there.
#pragma once

#include <hwy/detect_targets.h>

// Names that older versions of Highway do not have (Debian 12 has 1.0.3, Debian 13 has 1.2).
#ifndef HWY_AVX3_ZEN4
#define HWY_AVX3_ZEN4 0
#endif
#ifndef HWY_AVX3_SPR
#define HWY_AVX3_SPR 0
#endif
#ifndef HWY_AVX10_2
#define HWY_AVX10_2 0
#endif
#ifndef HWY_NEON_BF16
#define HWY_NEON_BF16 0
#endif

#define LUCID_UNUSED_TARGETS                                                                   \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_AVX10_2 | HWY_SVE | \
   HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_NEON_BF16)
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS LUCID_UNUSED_TARGETS
