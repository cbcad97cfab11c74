#include "numeric/floating_point.h"

#include <gtest/gtest.h>

#include <cfenv>

#if defined(__SSE2__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

namespace lucid {
namespace {

TEST(FloatingPoint, IsAsBoundsNeedItWhenAProgramStarts) { EXPECT_TRUE(CheckFloatingPoint().ok()); }

TEST(FloatingPoint, EveryOtherRoundingModeIsRefused) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const Status status = CheckFloatingPoint();
    std::fesetround(FE_TONEAREST);
    ASSERT_FALSE(status.ok()) << mode;
    EXPECT_NE(status.error().message.find("round to nearest"), std::string::npos);
  }
}

#if defined(__SSE2__)
TEST(FloatingPoint, FlushedAndIgnoredSubnormalsAreRefused) {
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  const Status flushed = CheckFloatingPoint();
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_OFF);
  EXPECT_FALSE(flushed.ok());
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
  const Status ignored = CheckFloatingPoint();
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_OFF);
  EXPECT_FALSE(ignored.ok());
  EXPECT_TRUE(CheckFloatingPoint().ok());
}
#endif

}  // namespace
}  // namespace lucid
