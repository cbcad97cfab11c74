#include "lucid/baselines/naive_idp.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "guard/test_support.h"
#include "lucid/guard/member_index.h"
#include "lucid/native/bound.h"

namespace lucid {
namespace {

class NaiveIdpTest : public testing::TestWithParam<std::string> {
 protected:
  // 40 members close enough to N to agree with it at most inputs.
  NaiveIdpTest() : stream_(7, "naive") {
    network_ = RandomNetwork(Architecture::FromCanonical(GetParam()).value(), stream_);
    Balance(network_, stream_);
    members_ = RandomMembers(network_, 40, 0.02, stream_);
    for (int i = 0; i < 500 * network_.architecture.inputs(); ++i) {
      points_.x.push_back(stream_.Below(4) == 0 ? 0.0f : static_cast<float>(stream_.Uniform()));
    }
    points_.features = network_.architecture.inputs();
    points_.y.resize(500);
  }

  // By Evaluator, a member after the other.
  AccessDecision BruteForce(std::span<const float> x) const {
    const std::int32_t label = Evaluator(network_).Decide(x).label;
    return {label, std::ranges::any_of(members_, [&](const Network& member) {
              return Evaluator(member).Decide(x).label != label;
            })};
  }

  Stream stream_;
  Network network_;
  std::vector<Network> members_;
  Table points_;
  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Architectures, NaiveIdpTest,
                         testing::Values("3 > dense 8 > dense 8 > 2", "4 > dense 9 > 3",
                                         "6 > conv 2 width 3 stride 1 > dense 4 > 2"));

TEST_P(NaiveIdpTest, EqualsEveryMemberAskedByItself) {
  const Ensemble ensemble = MakeRun(folder_, "run", network_, members_);
  const NaiveIdp naive = NaiveIdp::Create(ensemble).value();
  for (const int threads : {1, 3}) {
    const auto all = naive.DecideAll(points_, threads).value();
    std::int64_t noised = 0;
    for (std::int64_t i = 0; i < points_.rows(); ++i) {
      const AccessDecision expected = BruteForce(points_.row(i));
      EXPECT_EQ(all[i], expected) << "row " << i;
      EXPECT_EQ(naive.Decide(points_.row(i)), expected) << "row " << i;
      noised += expected.noised;
    }
    EXPECT_GT(noised, 5) << "members that never disagree show nothing";
    EXPECT_LT(noised, points_.rows() - 5);
  }
}

TEST_P(NaiveIdpTest, EqualsTheExactIndex) {
  const Ensemble ensemble = MakeRun(folder_, "run", network_, members_);
  const NaiveIdp naive = NaiveIdp::Create(ensemble).value();
  double error = 0;
  for (const Network& member : members_) {
    error = std::max(error, Evaluator(member).ConfidenceErrorBound());
  }
  const auto upper = BoundMembers(ensemble, error).value().upper;
  const MemberIndex index = MemberIndex::Build(ensemble, upper, error).value();
  for (std::int64_t i = 0; i < points_.rows(); ++i) {
    EXPECT_EQ(naive.Decide(points_.row(i)).noised, index.AnyMemberDisagrees(points_.row(i)));
  }
}

TEST_P(NaiveIdpTest, StopsOnRequest) {
  const Ensemble ensemble = MakeRun(folder_, "run", network_, members_);
  std::stop_source stop;
  stop.request_stop();
  const auto stopped =
      NaiveIdp::Create(ensemble).value().DecideAll(points_, 1, {}, stop.get_token());
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace lucid
