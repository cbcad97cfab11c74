#include "lucid/guard/member_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/files.h"
#include "guard/test_support.h"
#include "lucid/native/bound.h"
#include "native/engine.h"
#include "support/brute_force.h"
#include "test_paths.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using Upper = std::vector<std::vector<double>>;

double MemberError(const Ensemble& ensemble) {
  return LargestError(EnsembleMembers(ensemble), 1).value();
}

std::vector<float> RandomInput(std::int64_t inputs, Stream& stream) {
  std::vector<float> x;
  for (std::int64_t j = 0; j < inputs; ++j) x.push_back(static_cast<float>(stream.Uniform()));
  return x;
}

struct Tally {
  std::int64_t inputs = 0, wrong = 0, disagree = 0, run = 0;
};

// Asks both. Everything but the answer itself must hold even for an index of wrong bounds.
void Compare(const MemberIndex& index, const BruteForce& brute_force, std::span<const float> x,
             Tally& tally) {
  const MemberAnswer answer = index.Ask(x);
  const bool expected = brute_force.AnyMemberDisagrees(x);
  const Decision decision = brute_force.network().Decide(x);
  EXPECT_EQ(answer.decision.label, decision.label);
  if (!std::isnan(decision.confidence)) {
    EXPECT_EQ(answer.decision.confidence, decision.confidence);
  }
  if (answer.Disagrees()) {
    EXPECT_NE(brute_force.members()[answer.member].Decide(x).label, decision.label);
  }
  EXPECT_EQ(index.AnyMemberDisagrees(x), answer.Disagrees());
  ++tally.inputs;
  tally.wrong += answer.Disagrees() != expected;
  tally.disagree += expected;
  tally.run += answer.run;
}

// Random inputs, corners, and pairs of neighbours on either side of N's decision boundary.
std::vector<std::vector<float>> InputsToTry(const BruteForce& brute_force, std::int64_t inputs,
                                            int count, Stream& stream) {
  std::vector<std::vector<float>> tried;
  tried.reserve(2 * static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) tried.push_back(RandomInput(inputs, stream));
  for (int i = 0; i < count / 4; ++i) {
    std::vector<float> corner = RandomInput(inputs, stream);
    for (float& value : corner) value = std::round(value);
    tried.push_back(corner);
  }
  for (int i = 0; i < count / 4; ++i) {
    std::vector<float> a = tried[stream.Below(tried.size())];
    std::vector<float> b = tried[stream.Below(tried.size())];
    for (int step = 0; step < 40; ++step) {
      std::vector<float> middle = a;
      for (std::size_t j = 0; j < a.size(); ++j) middle[j] = (a[j] + b[j]) / 2;
      const bool with_a =
          brute_force.network().Decide(middle).label == brute_force.network().Decide(a).label;
      (with_a ? a : b) = middle;
    }
    tried.push_back(a);
    tried.push_back(b);
  }
  return tried;
}

Tally CompareAll(const MemberIndex& index, const Ensemble& ensemble, int count,
                 std::uint64_t seed) {
  Stream stream(seed, "inputs of the index test");
  const BruteForce brute_force(ensemble);
  Tally tally;
  const std::int64_t inputs = ensemble.network().architecture.inputs();
  for (const auto& x : InputsToTry(brute_force, inputs, count, stream)) {
    Compare(index, brute_force, x, tally);
  }
  return tally;
}

Ensemble RandomRun(const TemporaryFolder& folder, const std::string& name,
                   const Architecture& architecture, int members, double distance,
                   std::uint64_t seed) {
  Stream stream(seed, "networks of the index test");
  Network network = RandomNetwork(architecture, stream);
  Balance(network, stream);
  return MakeRun(folder, name, network, RandomMembers(network, members, distance, stream));
}

Upper Everywhere(const Ensemble& ensemble, double value) {
  return Upper(static_cast<std::size_t>(ensemble.network().architecture.classes()),
               std::vector<double>(static_cast<std::size_t>(ensemble.members()), value));
}

MemberIndex IndexOf(const Ensemble& ensemble, const Upper& upper) {
  return MemberIndex::Build(ensemble, upper, MemberError(ensemble), 1).value();
}

TEST(MemberIndexTest, EqualsBruteForceOnRandomNetworks) {
  const TemporaryFolder folder;
  Tally all;
  std::int64_t brute_force_runs = 0;
  std::uint64_t seed = 1;
  for (const Architecture& architecture : SmallArchitectures()) {
    for (const double distance : {0.3, 0.005}) {
      SCOPED_TRACE(testing::Message() << architecture.Canonical() << ", seed " << seed);
      const Ensemble ensemble =
          RandomRun(folder, std::to_string(seed), architecture, 12, distance, seed);
      const double error = MemberError(ensemble);
      const MemberIndex index = IndexOf(ensemble, BoundMembers(ensemble, error, 1).value().upper);
      const Tally tally = CompareAll(index, ensemble, 400, seed);
      EXPECT_EQ(tally.wrong, 0);
      all.disagree += tally.disagree;
      all.run += tally.run;
      brute_force_runs += 12 * (tally.inputs - tally.disagree);
      ++seed;
    }
  }
  EXPECT_GT(all.disagree, 1000);                 // the question was open
  EXPECT_LT(all.run, brute_force_runs * 3 / 4);  // and members were skipped
}

// The test above can fail: bounds that promise too much change answers.
TEST(MemberIndexTest, BoundsThatAreTooLowAreNoticed) {
  const TemporaryFolder folder;
  const Ensemble ensemble = RandomRun(folder, "run", SmallArchitectures()[1], 12, 0.3, 1);
  EXPECT_GT(CompareAll(IndexOf(ensemble, Everywhere(ensemble, 0)), ensemble, 400, 1).wrong, 0);
  // One member's bounds are enough, if it is a member that others do not stand in for.
  Stream stream(1, "networks of the index test");
  Network network = RandomNetwork(SmallArchitectures()[1], stream);
  Balance(network, stream);
  std::vector<Network> members(4, network);
  members[2] = RandomMembers(network, 1, 0.3, stream).front();
  const Ensemble alone = MakeRun(folder, "alone", network, members);
  Upper upper = BoundMembers(alone, MemberError(alone), 1).value().upper;
  EXPECT_EQ(CompareAll(IndexOf(alone, upper), alone, 400, 1).wrong, 0);
  for (std::vector<double>& of_class : upper) of_class[2] /= 1000;
  EXPECT_GT(CompareAll(IndexOf(alone, upper), alone, 400, 1).wrong, 0);
}

TEST(MemberIndexTest, WithoutBoundsEveryMemberIsRun) {
  const TemporaryFolder folder;
  const Ensemble ensemble = RandomRun(folder, "run", SmallArchitectures()[5], 9, 0.02, 3);
  const MemberIndex index = IndexOf(ensemble, Everywhere(ensemble, kInfinity));
  EXPECT_EQ(index.LargestUpper(0), kInfinity);
  EXPECT_EQ(index.members(), 9);
  const Tally tally = CompareAll(index, ensemble, 300, 3);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GE(tally.run, 9 * (tally.inputs - tally.disagree));
}

TEST(MemberIndexTest, BoundsBelowZeroCountAsZero) {
  const TemporaryFolder folder;
  Stream stream(4, "networks of the index test");
  const Network network = RandomNetwork(SmallArchitectures()[0], stream);
  // Members like N never disagree: 0 is a bound for them, up to their forward error.
  const Ensemble ensemble = MakeRun(folder, "run", network, {3, network});
  const MemberIndex index = IndexOf(ensemble, Everywhere(ensemble, -kInfinity));
  EXPECT_EQ(index.LargestUpper(1), 0);
  const Tally tally = CompareAll(index, ensemble, 300, 4);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.disagree, 0);
  EXPECT_LT(tally.run, 3 * tally.inputs);
}

// Outputs (0, h - shift) with h = x; class 1 from `shift` on, and there, at the tie, class 0.
Network Step(float slope, float shift) {
  const Architecture architecture = Hidden({{HiddenLayer::Kind::kDense, 1}}, 1, 2);
  Network network{architecture, {}};
  network.parameters = {1, 0, 0, slope, 0, -shift};  // weight, bias; weights, biases
  return network;
}

TEST(MemberIndexTest, TiesAreDecidedAsTheEvaluatorDoes) {
  const TemporaryFolder folder;
  // Always tied: class 0 everywhere, with confidence 0. Earlier: class 1 from 1/4 on. As N.
  const Ensemble ensemble =
      MakeRun(folder, "run", Step(1, 0.5F), {Step(0, 0), Step(1, 0.25F), Step(1, 0.5F)});
  const double e = MemberError(ensemble);
  // The exact suprema of f where g <= e.
  const Upper upper = {{0.5, SumUp(0.25, e), e}, {0.5, SumUp(-0.25, e), e}};
  const MemberIndex index = IndexOf(ensemble, upper);
  const BruteForce brute_force(ensemble);
  Tally tally;
  for (int i = 0; i <= 1024; ++i) {
    const auto x = static_cast<float>(i) / 1024;
    for (const float near : {x, std::nextafter(x, 0.0F), std::nextafter(x, 1.0F)}) {
      Compare(index, brute_force, std::vector{near}, tally);
    }
  }
  EXPECT_EQ(tally.wrong, 0);
  // N is tied: class 0, and the member that is past its own tie says 1.
  const MemberAnswer tied = index.Ask(std::vector{0.5F});
  EXPECT_EQ(tied.decision.label, 0);
  EXPECT_EQ(tied.decision.confidence, 0);
  EXPECT_EQ(tied.member, 1);
  // The member is tied, where N is as sure of class 1 as it can be: f equals the bound.
  const MemberAnswer sure = index.Ask(std::vector{1.0F});
  EXPECT_EQ(sure.decision.label, 1);
  EXPECT_EQ(sure.member, 0);
}

TEST(MemberIndexTest, OutsideOfTheDomainNoBoundCounts) {
  const TemporaryFolder folder;
  const Ensemble ensemble = RandomRun(folder, "run", SmallArchitectures()[0], 9, 0.3, 1);
  const MemberIndex index = IndexOf(ensemble, Everywhere(ensemble, 0));  // wrong in the domain
  const BruteForce brute_force(ensemble);
  Stream stream(6, "outside");
  Tally tally;
  for (int i = 0; i < 1000; ++i) {
    std::vector<float> x = RandomInput(3, stream);
    const float bad[] = {-1e-16F,
                         1.0000001F,
                         7,
                         -3,
                         std::numeric_limits<float>::quiet_NaN(),
                         std::numeric_limits<float>::infinity()};
    x[stream.Below(3)] = bad[stream.Below(std::size(bad))];
    Compare(index, brute_force, x, tally);
    const MemberAnswer answer = index.Ask(x);
    EXPECT_TRUE(answer.Disagrees() || answer.run == 9);
  }
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GT(tally.disagree, 0);
}

TEST(MemberIndexTest, BuildRefusesWhatIsNoBound) {
  const TemporaryFolder folder;
  const Ensemble ensemble = RandomRun(folder, "run", SmallArchitectures()[1], 5, 0.1, 1);
  const double error = MemberError(ensemble);
  const auto message = [&](const Upper& upper, double member_error) {
    const auto index = MemberIndex::Build(ensemble, upper, member_error);
    return index.ok() ? "accepted" : index.error().message;
  };
  Upper upper = Everywhere(ensemble, 1);
  EXPECT_EQ(message(upper, error), "accepted");
  EXPECT_THAT(message(upper, error * 0.99), HasSubstr("proved for a forward error of"));
  EXPECT_THAT(message(upper, std::nan("")), HasSubstr("proved for a forward error of"));
  upper[2][4] = std::nan("");
  EXPECT_EQ(message(upper, error), "index: class 2, member 4: the bound is not a number");
  upper[2].pop_back();
  EXPECT_EQ(message(upper, error), "index: class 2: bounds of 4 members, the run has 5");
  upper.pop_back();
  EXPECT_EQ(message(upper, error), "index: bounds of 2 classes, the run has 3");
}

TEST(MemberIndexTest, IsTheSameAfterSavingAndLoading) {
  const TemporaryFolder folder;
  const Ensemble ensemble = RandomRun(folder, "run", SmallArchitectures()[1], 9, 0.02, 8);
  const double error = MemberError(ensemble);
  const MemberIndex index = IndexOf(ensemble, BoundMembers(ensemble, error, 1).value().upper);
  ASSERT_TRUE(index.Save(folder / "run/index.safetensors").ok());
  const auto loaded = MemberIndex::Load(ensemble, folder / "run/index.safetensors");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  Stream stream(8, "saved");
  for (int i = 0; i < 500; ++i) {
    const std::vector<float> x = RandomInput(3, stream);
    const MemberAnswer before = index.Ask(x), after = loaded->Ask(x);
    EXPECT_EQ(before.member, after.member);
    EXPECT_EQ(before.run, after.run);
  }
  EXPECT_EQ(index.LargestUpper(2), loaded->LargestUpper(2));
}

TEST(MemberIndexTest, RefusesDamagedFilesAndOtherRuns) {
  const TemporaryFolder folder;
  const Architecture architecture = SmallArchitectures()[0];
  const Ensemble ensemble = RandomRun(folder, "run", architecture, 5, 0.1, 1);
  const std::string path = folder / "index";
  const auto message = [&](const Ensemble& of) {
    const auto index = MemberIndex::Load(of, path);
    return index.ok() ? "accepted" : index.error().message;
  };
  ASSERT_TRUE(IndexOf(ensemble, Everywhere(ensemble, 1)).Save(path).ok());
  EXPECT_EQ(message(ensemble), "accepted");
  EXPECT_THAT(message(RandomRun(folder, "2", architecture, 5, 0.1, 2)), HasSubstr("another run"));
  EXPECT_THAT(message(RandomRun(folder, "3", architecture, 4, 0.1, 1)), HasSubstr("another run"));
  EXPECT_THAT(message(RandomRun(folder, "4", SmallArchitectures()[1], 5, 0.1, 1)),
              HasSubstr("was made for networks"));

  const std::string bytes = ReadTextFile(path).value();
  for (std::size_t i = 0; i < bytes.size(); i += 37) {  // member_table_test.cc has every bit
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    ASSERT_TRUE(WriteFileAtomically(path, changed).ok());
    ASSERT_THAT(message(ensemble), HasSubstr("the seal at its end")) << i;
  }
  ASSERT_TRUE(WriteFileAtomically(path, bytes.substr(0, bytes.size() / 2)).ok());
  EXPECT_THAT(message(ensemble), HasSubstr("the seal at its end"));
  ASSERT_TRUE(WriteFileAtomically(path, "").ok());
  EXPECT_THAT(message(ensemble), HasSubstr("truncated"));
  std::filesystem::remove(path);
  EXPECT_THAT(message(ensemble), HasSubstr(path));
}

TEST(MemberIndexTest, EqualsBruteForceOnTrainedNetworks) {
  const std::string data = std::string(LUCID_SHARED_DATA) + "/crypto";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no " << data;
  const TemporaryFolder folder;
  const Dataset dataset = LoadDataset(data).value();
  EnsembleOptions options;
  options.train.batch = 100;
  options.train.epochs = 5;
  options.members = 8;
  const auto architecture = Architecture::FromName("2x8", dataset.features(), 2).value();
  const auto trained = TrainEnsemble(dataset, architecture, options, folder / "run");
  ASSERT_TRUE(trained.ok()) << trained.error().message;
  const Ensemble ensemble = Ensemble::Open(folder / "run").value();
  const double error = MemberError(ensemble);
  const MemberIndex index = IndexOf(ensemble, BoundMembers(ensemble, error, 1).value().upper);
  const BruteForce brute_force(ensemble);
  Tally tally;
  for (std::int64_t i = 0; i < dataset.test.rows(); ++i) {
    Compare(index, brute_force, dataset.test.row(i), tally);
  }
  Stream stream(9, "random inputs");
  for (int i = 0; i < 100000; ++i) {
    Compare(index, brute_force, RandomInput(dataset.features(), stream), tally);
  }
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GT(tally.disagree, 0);
  EXPECT_GT(CompareAll(IndexOf(ensemble, Everywhere(ensemble, 0)), ensemble, 3000, 9).wrong, 0);
}

}  // namespace
}  // namespace lucid
