// The two engines share the attack only: where both end, they have to find the same bounds.
#include <gtest/gtest.h>

#include "certificate/test_support.h"
#include "lucid/native/bound.h"
#include "lucid/paper/bound.h"
#include "pair/test_support.h"

namespace lucid {
namespace {

TEST(Engines, AgreeOnARunWithLeaks) {
  Stream stream(4, "run for bounds");
  Network network = RandomNetwork(
      Hidden({{HiddenLayer::Kind::kDense, 4}, {HiddenLayer::Kind::kDense, 3}}, 3, 2), stream);
  Balance(network, stream);
  const ImportedRun run(network, RandomMembers(network, 12, 0.03, stream));
  const Ensemble ensemble = run.Open();

  MilpBoundOptions milp;
  milp.common.gap = 1e-4;
  milp.common.threads = 1;
  milp.variant = Variant::kHMB;
  const auto theirs = ComputeBoundsByMilp(ensemble, milp);
  ASSERT_TRUE(theirs.ok()) << theirs.error().message;
  NativeBoundOptions options;
  options.common.gap = 1e-4;
  options.common.threads = 1;
  const auto ours = ComputeBounds(ensemble, options);
  ASSERT_TRUE(ours.ok()) << ours.error().message;
  for (std::size_t c = 0; c < ours->classes.size(); ++c) {
    const ClassBound &native = ours->classes[c], &other = theirs->classes[c];
    ASSERT_NE(native.status, BoundStatus::kDeadline);
    ASSERT_NE(other.status, BoundStatus::kDeadline);
    EXPECT_GE(native.beta_upper, other.beta_lower) << "UNSOUND";
    EXPECT_GE(other.beta_upper, native.beta_lower) << "UNSOUND (milp)";
    // Both end within their gap of the same truth.
    EXPECT_LE(native.beta_upper, other.beta_upper * (1 + options.common.gap) + 2e-6);
  }
}

}  // namespace
}  // namespace lucid
