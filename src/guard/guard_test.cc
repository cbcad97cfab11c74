#include "lucid/guard/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>

#include "base/files.h"
#include "guard/test_support.h"
#include "lucid/certificate/spatial.h"
#include "lucid/guard/member_index.h"
#include "lucid/native/bound.h"
#include "native/engine.h"
#include "numeric/rounding.h"
#include "support/files.h"

namespace lucid {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum GuardKind;
using Rows = std::vector<std::vector<float>>;

constexpr GuardKind kKinds[] = {kScalar, kSpatial, kExact};

// A run and what was proved about it.
struct Proved {
  Ensemble ensemble;
  Certificate certificate;
  Guard::Parts parts;

  Guard Make(const GuardOptions& options, const GuardKey& key = GuardKey::Random()) const {
    return Try(options, key).value();
  }
  Result<Guard> Try(const GuardOptions& options, const GuardKey& key = GuardKey::Random()) const {
    const auto verified = VerifiedCertificate::Verify(certificate, ensemble.network()).value();
    return Guard::Create(ensemble.network(), verified, ensemble.manifest().schema, options, key,
                         parts);
  }
};

// Writes the parts beside the run and names them in the certificate, as `lucid bound` does.
void Save(Proved& proved, const std::string& run, std::span<const SpatialBounds::Tree> trees) {
  const std::int64_t features = proved.ensemble.manifest().schema.features();
  const std::string bytes = SpatialBounds::Encode(features, trees);
  ASSERT_TRUE(WriteFileAtomically(run + "/" + kSpatialFile, bytes).ok());
  auto spatial = SpatialBounds::Parse(bytes, "spatial").value();
  proved.parts.spatial = std::make_shared<const SpatialBounds>(std::move(spatial));
  const double error = proved.certificate.member_error;
  auto index = MemberIndex::Build(proved.ensemble,
                                  BoundMembers(proved.ensemble, error, 1).value().upper, error, 1)
                   .value();
  ASSERT_TRUE(index.Save(run + "/" + kIndexFile).ok());
  proved.parts.index = std::make_shared<const MemberIndex>(std::move(index));
  proved.certificate.spatial_digest = proved.parts.spatial->digest();
  proved.certificate.index_digest = proved.parts.index->digest();
  ASSERT_TRUE(SaveCertificate(proved.certificate, run + "/" + kCertificateFile).ok());
}

// A random run with the native engine's bounds. Its partition says nothing that beta does not.
Proved RandomProved(const TemporaryFolder& folder, std::uint64_t seed, double distance = 0.05) {
  Stream stream(seed, "guard test");
  const std::int64_t classes = 2 + static_cast<std::int64_t>(seed % 2);
  using enum HiddenLayer::Kind;
  Network network = RandomNetwork(Hidden({{kDense, 6}, {kDense, 5}}, 3, classes), stream);
  Balance(network, stream);
  const std::string name = std::to_string(seed);
  Ensemble ensemble = MakeRun(folder, name, network, RandomMembers(network, 8, distance, stream));
  NativeBoundOptions options;
  options.common.gap = 0.2;  // proved all the same, and quick
  options.common.threads = 1;
  Certificate certificate = ComputeBounds(ensemble, options).value();
  Proved proved{std::move(ensemble), std::move(certificate), {}};
  std::vector<SpatialBounds::Tree> trees;
  for (const ClassBound& bound : proved.certificate.classes) {
    trees.push_back({{0, 2, 0.5}, {-1, 0, bound.beta_upper}, {-1, 0, bound.beta_upper}});
  }
  Save(proved, folder / name, trees);
  return proved;
}

// N gives class 1 where x0 > 1/2. The member gives it where x0 > 1/2 + 3/8 max(0, x1 - 1/2): they
// disagree in a wedge, where f is at most 3/16.
Network Wedge(float slope) {
  return HandMade("2 > dense 2 > 2", {1, 0, 0, 1, 0, -0.5F,         // x0; max(0, x1 - 1/2)
                                      0, 0, 1, -slope, 0, -0.5F});  // 0; x0 - slope ... - 1/2
}

Proved WedgeProved(const TemporaryFolder& folder) {
  Ensemble ensemble = MakeRun(folder, "wedge", Wedge(0), {Wedge(0), Wedge(0.375F)});
  Certificate certificate = Claim(ensemble, 0);
  certificate.member_error = LargestError(EnsembleMembers(ensemble), 1).value();
  const double e = certificate.member_error, most = SumUp(0.1875, e);
  certificate.classes[0].beta_upper = e;
  certificate.classes[1].beta_upper = most;
  certificate.classes[1].beta_lower = 0.125;
  certificate.classes[1].witness = Witness{{0.625F, 1}, 1, 1};
  Proved proved{std::move(ensemble), std::move(certificate), {}};
  // Below x1 = 1/2 the two agree.
  const std::vector<SpatialBounds::Tree> trees = {{{-1, 0, e}},
                                                  {{1, 2, 0.5}, {-1, 0, e}, {-1, 0, most}}};
  Save(proved, folder / "wedge", trees);
  return proved;
}

// Everything is noised: nothing is known.
Proved NothingProved(const TemporaryFolder& folder, const std::string& name,
                     const Network& network) {
  Ensemble ensemble = MakeRun(folder, name, network, {network, network});
  Certificate certificate = Claim(ensemble, kInfinity);
  return {std::move(ensemble), std::move(certificate), {}};
}

Rows RandomRows(std::int64_t features, int count, std::uint64_t seed) {
  Stream stream(seed, "rows of the guard test");
  Rows rows(static_cast<std::size_t>(count));
  for (std::vector<float>& x : rows) {
    for (std::int64_t j = 0; j < features; ++j) x.push_back(static_cast<float>(stream.Uniform()));
  }
  return rows;
}

std::vector<float> Joined(const Rows& rows) {
  std::vector<float> all;
  for (const std::vector<float>& x : rows) all.insert(all.end(), x.begin(), x.end());
  return all;
}

bool AnyMemberDisagrees(const Ensemble& ensemble, std::span<const float> x) {
  const std::int32_t label = Evaluator(ensemble.network()).Decide(x).label;
  for (std::int64_t i = 0; i < ensemble.members(); ++i) {
    if (Evaluator(ensemble.Member(i)).Decide(x).label != label) return true;
  }
  return false;
}

// ---- who is noised ------------------------------------------------------------------------------

void ExpectNestedAndExact(const Proved& proved, const Rows& rows) {
  const GuardKey key = GuardKey::Random();
  std::vector<Guard> guards;
  for (const GuardKind kind : kKinds) guards.push_back(proved.Make({.guard = kind}, key));
  const Evaluator network(proved.ensemble.network());
  for (const std::vector<float>& x : rows) {
    const bool scalar = guards[0].Ask(x).noised, spatial = guards[1].Ask(x).noised,
               exact = guards[2].Ask(x).noised;
    EXPECT_LE(exact, spatial);
    EXPECT_LE(spatial, scalar);
    EXPECT_EQ(exact, AnyMemberDisagrees(proved.ensemble, x));
    for (const Guard& guard : guards) {
      if (!guard.Ask(x).noised) {
        EXPECT_EQ(guard.Label(x), network.Decide(x).label);
      }
    }
  }
}

TEST(GuardTest, NoisedSetsAreNestedAndTheExactOneEqualsBruteForce) {
  const TemporaryFolder folder;
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    SCOPED_TRACE(seed);
    ExpectNestedAndExact(RandomProved(folder, seed), RandomRows(3, 300, seed));
  }
}

TEST(GuardTest, EachGuardNoisesLessThanTheOneBefore) {
  const TemporaryFolder folder;
  const Proved proved = WedgeProved(folder);
  const Rows rows = RandomRows(2, 4000, 1);
  ExpectNestedAndExact(proved, rows);
  std::vector<int> noised;
  for (const GuardKind kind : kKinds) {
    const Guard guard = proved.Make({.guard = kind});
    noised.push_back(0);
    for (const std::vector<float>& x : rows) noised.back() += guard.Ask(x).noised ? 1 : 0;
  }
  // Areas: 3/16; half of it; a triangle of half of that.
  EXPECT_NEAR(noised[0], 4000.0 * 3 / 16, 150);
  EXPECT_NEAR(noised[1], 4000.0 * 3 / 32, 120);
  EXPECT_NEAR(noised[2], 4000.0 * 3 / 64, 100);
}

TEST(GuardTest, ThePlantedLeakIsNoisedByEveryGuard) {
  const TemporaryFolder folder;
  std::vector<Proved> runs;
  runs.push_back(WedgeProved(folder));
  for (const std::uint64_t seed : {1, 2, 3}) runs.push_back(RandomProved(folder, seed));
  int witnesses = 0;
  for (const Proved& proved : runs) {
    for (const ClassBound& bound : proved.certificate.classes) {
      if (!bound.witness) continue;
      ++witnesses;
      std::vector<float> x = bound.witness->x;
      for (const GuardKind kind : kKinds) {
        const Guard guard = proved.Make({.guard = kind});
        ASSERT_TRUE(guard.Canonicalize(x).ok());
        EXPECT_TRUE(guard.Ask(x).noised) << NameOf(kind);
      }
    }
  }
  EXPECT_GE(witnesses, 4);
}

TEST(GuardTest, TheForwardErrorCountsAgainstTheAnswer) {
  const TemporaryFolder folder;
  Proved proved = WedgeProved(folder);
  const std::vector<float> x = {0.8F, 0.3F};
  const Evaluator network(proved.ensemble.network());
  const double known = network.Decide(x).confidence - network.ConfidenceErrorBound();
  const auto noised_with = [&](double beta) {
    proved.certificate.classes[1].beta_upper = beta;
    return proved.Make({}).Ask(x).noised;
  };
  EXPECT_TRUE(noised_with(known));
  EXPECT_TRUE(noised_with(NextDown(known)));  // the difference itself was rounded
  EXPECT_FALSE(noised_with(NextDown(NextDown(known))));
}

TEST(GuardTest, AClassOfWhichNothingIsKnownIsAlwaysNoised) {
  const TemporaryFolder folder;
  Proved proved = WedgeProved(folder);
  proved.certificate.classes[1].beta_upper = kInfinity;
  const Guard guard = proved.Make({});
  EXPECT_TRUE(guard.Ask(std::vector<float>{1, 0}).noised);
  EXPECT_FALSE(guard.Ask(std::vector<float>{0, 0}).noised);
}

TEST(GuardTest, InputsThatShouldHaveBeenRefusedAreNoised) {
  const TemporaryFolder folder;
  const Proved proved = WedgeProved(folder);
  for (const GuardKind kind : kKinds) {
    const Guard guard = proved.Make({.guard = kind});
    ASSERT_FALSE(guard.Ask(std::vector<float>{1, 0}).noised);
    for (const float bad : {-1e-16F, 1.0000001F, 7.0F, std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      EXPECT_TRUE(guard.Ask(std::vector<float>{1, bad}).noised) << bad;
      EXPECT_TRUE(guard.Ask(std::vector<float>{bad, 0}).noised) << bad;
    }
  }
}

// ---- the memo -----------------------------------------------------------------------------------

TEST(GuardTest, RepeatedReorderedBatchedAndReplicatedQueriesGetTheSameAnswers) {
  const TemporaryFolder folder;
  const Proved proved = RandomProved(folder, 3, 0.3);
  const TemporaryFolder keys;
  const Rows rows = RandomRows(3, 501, 2);
  for (const GuardKind kind : kKinds) {
    const GuardOptions options{.guard = kind, .mechanism = MechanismKind::kKrr, .epsilon = 0.5};
    const Guard guard = proved.Make(options, GuardKey::LoadOrCreate(keys / "key").value());
    std::vector<std::int32_t> labels;
    int noised = 0;
    for (const std::vector<float>& x : rows) {
      const GuardedAnswer answer = guard.Ask(x);
      labels.push_back(answer.label);
      noised += answer.noised ? 1 : 0;
    }
    EXPECT_GT(noised, 50);
    // Another process with the same key file, from the run's files, asked backwards.
    const Guard replica =
        Guard::Open(folder / "3", "", options, GuardKey::LoadOrCreate(keys / "key").value())
            .value();
    for (std::size_t i = rows.size(); i-- > 0;) EXPECT_EQ(replica.Label(rows[i]), labels[i]);
    // Batches of any size, at any place.
    const std::vector<float> all = Joined(rows);
    for (const std::size_t size : {1, 2, 3, 7, 16, 64, 501}) {
      for (std::size_t first = 0; first < rows.size(); first += size) {
        const std::size_t count = std::min(size, rows.size() - first);
        std::vector<GuardedAnswer> answers(count);
        replica.AskBatch(std::span(all).subspan(3 * first, 3 * count), answers);
        for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(answers[i].label, labels[first + i]);
      }
    }
  }
}

TEST(GuardTest, BatchesTakeBudgetsAndDrawsPerRow) {
  const TemporaryFolder folder;
  const Proved proved = RandomProved(folder, 1, 0.3);
  const Guard guard = proved.Make({.epsilon = 1});
  const Rows rows = RandomRows(3, 100, 5);
  std::vector<Budget> budgets;
  std::vector<Draw> draws;
  Stream stream(1, "draws");
  for (int i = 0; i < 100; ++i) {
    budgets.push_back(stream.Below(2) == 0 ? Budget::kLeft : Budget::kSpent);
    draws.push_back({stream.Next(), stream.Next(), stream.Next()});
  }
  std::vector<GuardedAnswer> hashed(100), drawn(100), spent(100);
  guard.AskBatch(Joined(rows), hashed, budgets);
  guard.AskBatch(Joined(rows), drawn, budgets, draws);
  guard.AskBatch(Joined(rows), spent, Budget::kSpent);
  const Evaluator network(proved.ensemble.network());
  const Mechanism uniform = Mechanism::Create(MechanismKind::kPaper, 0, guard.classes()).value();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(hashed[i].label, guard.Ask(rows[i], budgets[i]).label);
    EXPECT_EQ(spent[i].label, guard.Ask(rows[i], Budget::kSpent).label);
    const Mechanism& mechanism = budgets[i] == Budget::kLeft ? guard.mechanism() : uniform;
    const std::int32_t label = network.Decide(rows[i]).label;
    EXPECT_EQ(drawn[i].label, mechanism.Answer(label, drawn[i].noised, draws[i]));
    EXPECT_EQ(drawn[i].label, guard.Ask(rows[i], budgets[i], draws[i]).label);
  }
}

TEST(GuardTest, ThreadsShareAGuard) {
  const TemporaryFolder folder;
  const Proved proved = RandomProved(folder, 2, 0.3);
  const Rows rows = RandomRows(3, 200, 6);
  for (const GuardKind kind : kKinds) {
    const Guard guard = proved.Make({.guard = kind, .epsilon = 0.5});
    std::vector<std::int32_t> expected;
    for (const std::vector<float>& x : rows) expected.push_back(guard.Label(x));
    std::vector<int> wrong(4);
    {
      std::vector<std::jthread> threads;
      threads.reserve(wrong.size());
      for (int& count : wrong) {
        threads.emplace_back([&] {
          for (std::size_t i = 0; i < rows.size(); ++i) {
            count += guard.Label(rows[i]) != expected[i] ? 1 : 0;
          }
        });
      }
    }
    EXPECT_EQ(std::accumulate(wrong.begin(), wrong.end(), 0), 0);
  }
}

// How often two guards that noise everything give the same of two labels. Independent uniform
// answers to 10,000 inputs agree in 1/2 up to 0.038 but for a probability of 1e-12 (Hoeffding).
double Agreement(const Guard& a, const Guard& b, Budget b_budget = Budget::kLeft) {
  constexpr int kCount = 10000;
  int agree = 0;
  for (const std::vector<float>& x : RandomRows(a.features(), kCount, 7)) {
    agree += a.Ask(x).label == b.Ask(x, b_budget).label ? 1 : 0;
  }
  return static_cast<double>(agree) / kCount;
}
constexpr double kMargin = 0.038;

TEST(GuardTest, ModelsEpsilonsMechanismsAndKeysShareNoDraw) {
  const TemporaryFolder folder;
  const Proved one = NothingProved(folder, "one", Wedge(0));
  const Proved other = NothingProved(folder, "other", Wedge(0.25F));
  const GuardKey key = GuardKey::Random();
  const Guard guard = one.Make({}, key);
  EXPECT_EQ(Agreement(guard, one.Make({}, key)), 1);
  EXPECT_NEAR(Agreement(guard, one.Make({})), 0.5, kMargin) << "another key";
  EXPECT_NEAR(Agreement(guard, other.Make({}, key)), 0.5, kMargin) << "another model";
  EXPECT_NEAR(Agreement(guard, one.Make({.mechanism = MechanismKind::kKrr}, key)), 0.5, kMargin);
  // So small that its answers are uniform, too.
  const Guard tiny = one.Make({.epsilon = 1e-300}, key);
  EXPECT_NEAR(Agreement(guard, tiny), 0.5, kMargin) << "another epsilon";
  // Without budget it is the guard of epsilon 0, and not itself.
  EXPECT_NEAR(Agreement(tiny, tiny, Budget::kSpent), 0.5, kMargin);
  EXPECT_EQ(Agreement(guard, tiny, Budget::kSpent), 1);
}

// One draw that met two noised sets would tell on which side of them an input lies.
TEST(GuardTest, NoisedSetsShareNoDraw) {
  const TemporaryFolder folder;
  Proved one = NothingProved(folder, "one", Wedge(0));
  const GuardKey key = GuardKey::Random();
  const Guard everything = one.Make({}, key);
  one.certificate.classes[1].beta_upper = 1e9;  // above every confidence, and another number
  const Guard other_bound = one.Make({}, key);
  EXPECT_EQ(Agreement(other_bound, one.Make({}, key)), 1);
  EXPECT_NEAR(Agreement(everything, other_bound), 0.5, kMargin);
  EXPECT_NE(everything.Fingerprint(std::vector{0.5F, 0.5F}),
            other_bound.Fingerprint(std::vector{0.5F, 0.5F}));

  const Proved wedge = WedgeProved(folder);
  const Guard scalar = wedge.Make({.epsilon = 1}, key),
              exact = wedge.Make({.guard = kExact, .epsilon = 1}, key);
  EXPECT_NE(scalar.Fingerprint(std::vector{0.5F, 0.5F}),
            exact.Fingerprint(std::vector{0.5F, 0.5F}));
}

// Bounds that a private run declared.
RunNetwork DeclaredRun(const Proved& proved, double r, double median) {
  RunNetwork run{proved.ensemble.manifest(), proved.ensemble.network()};
  run.manifest.private_run = PrivateRun{};
  run.manifest.declared = DeclaredBounds{r, median, "domain"};
  return run;
}

TEST(GuardTest, DeclaredBoundsNoiseWhatIsNotAboveThem) {
  const TemporaryFolder folder;
  const Proved proved = RandomProved(folder, 4);
  const Network& network = proved.ensemble.network();
  const Evaluator evaluator(network);
  std::vector<double> confidences;
  const Rows rows = RandomRows(network.architecture.inputs(), 500, 8);
  for (const auto& x : rows) confidences.push_back(evaluator.Decide(x).confidence);
  std::ranges::nth_element(confidences, confidences.begin() + 250);
  const RunNetwork run = DeclaredRun(proved, 0.5, 2 * confidences[250]);
  const Guard guard = Guard::CreateDeclared(run, {}, GuardKey::Random()).value();
  EXPECT_EQ(guard.certificate(), nullptr);
  EXPECT_EQ(guard.domain(), DomainKind::kBox);
  int noised = 0;
  for (const auto& x : rows) {
    const Decision decision = evaluator.Decide(x);
    const bool expected =
        !(decision.confidence - evaluator.ConfidenceErrorBound() > run.manifest.declared->bound());
    const GuardedAnswer answer = guard.Ask(x);
    EXPECT_EQ(answer.noised, expected) << decision.confidence;
    if (!answer.noised) {
      EXPECT_EQ(answer.label, decision.label);
    }
    noised += answer.noised;
  }
  EXPECT_NEAR(noised, 251, 1);
}

TEST(GuardTest, FingerprintsNameInputAndGuard) {
  const TemporaryFolder folder;
  const Proved proved = NothingProved(folder, "one", Wedge(0));
  const GuardKey key = GuardKey::Random();
  const Guard guard = proved.Make({.epsilon = 1}, key);
  const std::vector<float> x = {0.5F, 0.5F}, y = {0.5F, std::nextafter(0.5F, 1.0F)};
  EXPECT_EQ(guard.Fingerprint(x), proved.Make({.epsilon = 1}, key).Fingerprint(x));
  EXPECT_NE(guard.Fingerprint(x), guard.Fingerprint(y));
  EXPECT_NE(guard.Fingerprint(x), proved.Make({.epsilon = 2}, key).Fingerprint(x));
  EXPECT_NE(guard.Fingerprint(x), proved.Make({.epsilon = 1}).Fingerprint(x));
}

// ---- probabilities ------------------------------------------------------------------------------

// The share of each answer over distinct noised inputs of one label.
std::vector<double> Shares(const Guard& guard, const Evaluator& network, std::int32_t label,
                           int count, Budget budget) {
  std::vector<double> shares(static_cast<std::size_t>(guard.classes()));
  int asked = 0;
  for (const std::vector<float>& x : RandomRows(guard.features(), 4 * count, 9)) {
    if (network.Decide(x).label != label || asked == count) continue;
    ++asked;
    shares[guard.Ask(x, budget).label] += 1.0 / count;
  }
  EXPECT_EQ(asked, count);
  return shares;
}

// An attacker who sees an answer learns at most epsilon about the label it came from, and so about
// the row whose absence would change the label. Each share of 50,000 answers is off by more than
// `margin` with a probability of at most 1e-12 (Hoeffding): 2e-11 for all 20. The key is random.
TEST(GuardTest, AnswersOfAdjacentDataSetsAreAsLikelyUpToEpsilon) {
  constexpr int kCount = 50000;
  const double margin = std::sqrt(std::log(2 / 1e-12) / (2.0 * kCount));
  const TemporaryFolder folder;
  const Proved proved = NothingProved(folder, "one", Wedge(0));
  const Evaluator network(proved.ensemble.network());
  for (const double epsilon : {0.0, 1.0}) {
    for (const MechanismKind kind : {MechanismKind::kPaper, MechanismKind::kKrr}) {
      const Guard guard = proved.Make({.mechanism = kind, .epsilon = epsilon});
      const std::vector<double> from[] = {Shares(guard, network, 0, kCount, Budget::kLeft),
                                          Shares(guard, network, 1, kCount, Budget::kLeft)};
      const double power = std::exp(guard.mechanism().EffectiveEpsilon());
      for (const int label : {0, 1}) {
        const int other = 1 - label;
        EXPECT_NEAR(from[label][label], guard.mechanism().ProbabilityOfLabel(), margin);
        EXPECT_NEAR(from[label][other], guard.mechanism().ProbabilityOfEachOther(), margin);
        EXPECT_LE(from[label][label] - margin, power * (from[other][label] + margin));
      }
      EXPECT_LE(power, std::exp(epsilon));
      for (const int label : {0, 1}) {  // without budget: a coin
        EXPECT_NEAR(Shares(guard, network, label, kCount, Budget::kSpent)[0], 0.5, margin);
      }
    }
  }
}

// The same over keys instead of inputs: what one input gets is fixed by the key alone.
TEST(GuardTest, OneInputsAnswerIsAsRandomAsItsKey) {
  constexpr int kCount = 4000;
  const double margin = std::sqrt(std::log(2 / 1e-12) / (2.0 * kCount));
  const TemporaryFolder folder;
  const Proved proved = NothingProved(folder, "one", Wedge(0));
  const std::vector<float> x = {0.75F, 0.5F};  // of class 1
  int ones = 0;
  double expected = 0;
  for (int i = 0; i < kCount; ++i) {
    const Guard guard = proved.Make({.mechanism = MechanismKind::kKrr, .epsilon = 1});
    ones += guard.Label(x);
    expected = guard.mechanism().ProbabilityOfLabel();
  }
  EXPECT_NEAR(static_cast<double>(ones) / kCount, expected, margin);
}

// ---- inputs -------------------------------------------------------------------------------------

class CanonicalTest : public testing::Test {
 protected:
  std::string Complaint(std::vector<float> x, const Guard& guard) {
    const Status status = guard.Canonicalize(x);
    return status.ok() ? "accepted" : status.error().message;
  }
  std::vector<float> Of(std::vector<float> x, const Guard& guard) {
    const Status status = guard.Canonicalize(x);
    EXPECT_TRUE(status.ok()) << status.error().message;
    std::vector<float> again = x;
    EXPECT_TRUE(guard.Canonicalize(again).ok());
    EXPECT_EQ(again, x) << "idempotent";
    for (const float value : x) EXPECT_FALSE(std::signbit(value));
    return x;
  }
  TemporaryFolder folder_;
  Proved proved_ = NothingProved(folder_, "one", Wedge(0));
  Guard guard_ = proved_.Make({});
};

TEST_F(CanonicalTest, OneInputHasOneSpelling) {
  const float subnormal = std::numeric_limits<float>::denorm_min();
  const float normal = std::numeric_limits<float>::min();
  using Row = std::vector<float>;
  EXPECT_EQ(Of({-0.0F, 1}, guard_), (Row{0, 1}));
  EXPECT_EQ(Of({subnormal, std::nextafter(normal, 0.0F)}, guard_), (Row{0, 0}));
  EXPECT_EQ(Of({-subnormal, -normal}, guard_), (Row{0, 0}));
  EXPECT_EQ(Of({-1.6e-16F, -1e-15F}, guard_), (Row{0, 0}));
  EXPECT_EQ(Of({normal, std::nextafter(1.0F, 0.0F)}, guard_),
            (Row{normal, std::nextafter(1.0F, 0.0F)}));
}

TEST_F(CanonicalTest, WhatTheCertificateDoesNotCoverIsRefused) {
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF, 1.0000001F, -1e-14F, 2.0F, -1.0F}) {
    EXPECT_THAT(Complaint({0.5F, bad}, guard_), HasSubstr("f1")) << bad;
    EXPECT_THAT(Complaint({bad, 0.5F}, guard_), HasSubstr("f0")) << bad;
  }
  EXPECT_THAT(Complaint({0.5F, 1.5F}, guard_), HasSubstr("1.5"));
  EXPECT_THAT(Complaint({0.5F}, guard_), HasSubstr("has 1 values, must have 2"));
  EXPECT_THAT(Complaint({0.5F, 0, 0}, guard_), HasSubstr("has 3 values, must have 2"));
  EXPECT_THAT(Complaint({}, guard_), HasSubstr("has 0 values, must have 2"));
}

TEST_F(CanonicalTest, TheGridRoundsToItsMultiples) {
  const Guard coarse = proved_.Make({.grid_bits = 2}), fine = proved_.Make({.grid_bits = 23});
  using Row = std::vector<float>;
  EXPECT_EQ(Of({0.374F, 0.376F}, coarse), (Row{0.25F, 0.5F}));
  EXPECT_EQ(Of({1, 0.1F}, coarse), (Row{1, 0}));
  EXPECT_EQ(Of({0x1p-23F, 0x1.8p-25F}, fine), (Row{0x1p-23F, 0}));
  EXPECT_EQ(Of({1, std::nextafter(1.0F, 0.0F)}, fine), (Row{1, 1}));
  EXPECT_THAT(Complaint({1.01F, 0}, coarse), HasSubstr("f0")) << "refused before it is rounded";
}

TEST_F(CanonicalTest, InTheSchemasDomainOnlyRecordsAreAnswered) {
  const Schema schema = Schema::Parse(
                            "column,kind,offset,divisor,categories\nage,numeric,0,100,\n"
                            "job,quarter-circle,,,a|b|c\nyes,binary,,,n|y\nlabel,label,,,no|yes\n",
                            "schema")
                            .value();
  const Network network = RandomNetwork("4 > dense 3 > 2", 1);
  Certificate certificate = CertificateFor(network);
  certificate.domain = DomainKind::kSchema;
  certificate.schema_digest = Sha256Of(schema.Canonical());
  for (ClassBound& bound : certificate.classes) bound = {.label = bound.label};
  const auto verified = VerifiedCertificate::Verify(certificate, network).value();
  const Guard guard =
      Guard::Create(network, verified, schema, {.grid_bits = 1}, GuardKey::Random()).value();
  const float half = std::sqrt(0.5F);
  const std::vector<float> x = Of({0.3F, half, half, 1}, guard);
  EXPECT_EQ(x, (std::vector<float>{0.5F, half, half, 1})) << "the grid leaves the circle alone";
  const float rest = 6.123234e-17F;  // of cos(pi / 2), as Encoder computes it
  EXPECT_EQ(Of({0, rest, 1, 0}, guard), (std::vector<float>{0, rest, 1, 0}));
  EXPECT_THAT(Complaint({0, 0.5F, 0.5F, 1}, guard), HasSubstr("'job'"));
  EXPECT_THAT(Complaint({0, 1, 0, 0.5F}, guard), HasSubstr("'yes'"));
  // Asked all the same, what is no record is noised: the bounds say nothing about it.
  EXPECT_FALSE(guard.Ask(x).noised);
  EXPECT_TRUE(guard.Ask(std::vector<float>{0.5F, 0.5F, 0.5F, 1}).noised);
  EXPECT_TRUE(guard.Ask(std::vector<float>{0.5F, half, half, 0.5F}).noised);
}

// ---- making one ---------------------------------------------------------------------------------

std::string Complaint(const Result<Guard>& guard) {
  return guard.ok() ? "accepted" : guard.error().message;
}

TEST(GuardTest, OnlyWhatBelongsTogetherMakesAGuard) {
  const TemporaryFolder folder;
  Proved proved = WedgeProved(folder);
  const Proved other = RandomProved(folder, 2);
  const auto verified = VerifiedCertificate::Verify(proved.certificate, proved.ensemble.network());
  const Schema& schema = proved.ensemble.manifest().schema;
  const GuardKey key = GuardKey::Random();
  EXPECT_THAT(Complaint(Guard::Create(Wedge(0.125F), *verified, schema, {}, key)),
              HasSubstr("not of this network"));
  EXPECT_THAT(Complaint(Guard::Create(proved.ensemble.network(), *verified,
                                      other.ensemble.manifest().schema, {}, key)),
              HasSubstr("not of this schema"));

  const Guard::Parts good = proved.parts;
  EXPECT_EQ(Complaint(proved.Try({.guard = kExact})), "accepted");
  proved.parts = {good.spatial, other.parts.index};
  EXPECT_THAT(Complaint(proved.Try({.guard = kExact})),
              HasSubstr("digest of the index of members"));
  proved.parts = {other.parts.spatial, good.index};
  EXPECT_THAT(Complaint(proved.Try({.guard = kSpatial})),
              HasSubstr("digest of the spatial bounds"));
  EXPECT_THAT(Complaint(proved.Try({.guard = kExact})), HasSubstr("digest of the spatial bounds"));
  EXPECT_EQ(Complaint(proved.Try({.guard = kScalar})), "accepted") << "which uses neither";
  proved.parts = {};
  EXPECT_THAT(Complaint(proved.Try({.guard = kExact})), HasSubstr("was given none"));
  EXPECT_THAT(Complaint(proved.Try({.guard = kSpatial})), HasSubstr("was given none"));
  proved.parts = {nullptr, good.index};
  EXPECT_EQ(Complaint(proved.Try({.guard = kExact})), "accepted");
  proved.parts = good;
  proved.certificate.spatial_digest = proved.certificate.index_digest = std::nullopt;
  EXPECT_THAT(Complaint(proved.Try({.guard = kExact})),
              HasSubstr("the index of members, and the certificate names none: lucid bound"));
  EXPECT_THAT(Complaint(proved.Try({.guard = kSpatial})),
              HasSubstr("the spatial bounds, and the certificate names none: lucid bound"));
}

TEST(GuardTest, OptionsAreChecked) {
  const TemporaryFolder folder;
  const Proved proved = NothingProved(folder, "one", Wedge(0));
  EXPECT_THAT(Complaint(proved.Try({.epsilon = -1})), HasSubstr("epsilon is -1"));
  EXPECT_THAT(Complaint(proved.Try({.epsilon = std::nan("")})), HasSubstr("epsilon is nan"));
  EXPECT_THAT(Complaint(proved.Try({.epsilon = kInfinity})), HasSubstr("epsilon is inf"));
  EXPECT_THAT(Complaint(proved.Try({.grid_bits = -1})), HasSubstr("grid_bits is -1"));
  EXPECT_THAT(Complaint(proved.Try({.grid_bits = 24})), HasSubstr("grid_bits is 24"));
  for (const GuardKind kind : kKinds) EXPECT_EQ(GuardNamed(NameOf(kind)).value(), kind);
  EXPECT_THAT(GuardNamed("none").error().message, HasSubstr("'none'"));
}

TEST(GuardTest, DeclaredBoundsArePrivateRunsOnly) {
  const TemporaryFolder folder;
  const Proved proved = NothingProved(folder, "one", Wedge(0));
  const auto complaint = [](const RunNetwork& run, const GuardOptions& options = {}) {
    return Complaint(Guard::CreateDeclared(run, options, GuardKey::Random()));
  };
  RunNetwork run = DeclaredRun(proved, 0.05, 1);
  EXPECT_EQ(complaint(run), "accepted");
  EXPECT_THAT(complaint(run, {.guard = kExact}), HasSubstr("scalar guard"));
  EXPECT_THAT(complaint(run, {.epsilon = -1}), HasSubstr("epsilon is -1"));
  run.manifest.private_run->seeded = true;
  EXPECT_THAT(complaint(run), HasSubstr("not private"));
  run = DeclaredRun(proved, 0.05, 1);
  run.manifest.declared.reset();
  EXPECT_THAT(complaint(run), HasSubstr("declared no bounds"));
  run = DeclaredRun(proved, 0.05, 1);
  run.manifest.private_run.reset();
  EXPECT_THAT(complaint(run), HasSubstr("not private"));
}

TEST(GuardTest, OpensARunAndSaysWhatIsMissing) {
  const TemporaryFolder folder;
  const Proved proved = WedgeProved(folder);
  const std::string run = folder / "wedge";
  const auto open = [&](GuardKind kind, const std::string& certificate = "") {
    return Complaint(Guard::Open(run, certificate, {.guard = kind}, GuardKey::Random()));
  };
  for (const GuardKind kind : kKinds) EXPECT_EQ(open(kind), "accepted");
  // Another run's certificate, of the same network.
  const Proved same = NothingProved(folder, "same", Wedge(0));
  ASSERT_TRUE(SaveCertificate(same.certificate, folder / "same.json").ok());
  EXPECT_THAT(open(kScalar, folder / "same.json"), HasSubstr("of another run"));
  EXPECT_THAT(open(kScalar, folder / "none.json"), HasSubstr("none.json': lucid bound"));
  // The ensemble is what must not be served from: only the exact guard reads it.
  std::filesystem::remove(run + "/" + kEnsembleFile);
  EXPECT_EQ(open(kScalar), "accepted");
  EXPECT_EQ(open(kSpatial), "accepted");
  EXPECT_THAT(open(kExact), HasSubstr(kEnsembleFile));
  std::filesystem::remove(run + "/" + kIndexFile);
  EXPECT_THAT(open(kExact), AllOf(HasSubstr(kIndexFile), HasSubstr("lucid bound")));
  std::filesystem::remove(run + "/" + kSpatialFile);
  EXPECT_THAT(open(kSpatial), AllOf(HasSubstr(kSpatialFile), HasSubstr("lucid bound")));
  EXPECT_EQ(open(kScalar), "accepted");
  WriteBytes(run + "/" + kNetworkFile, "damaged");
  EXPECT_THAT(open(kScalar), HasSubstr(kNetworkFile));
}

TEST(GuardTest, ARecordGetsTheLabelOfWhatItEncodesTo) {
  const TemporaryFolder folder;
  const Proved proved = RandomProved(folder, 4);
  const Guard guard = proved.Make({.epsilon = 1});
  std::vector<float> x = {0.25F, 0.5F, 1.0F};
  ASSERT_TRUE(guard.Canonicalize(x).ok());
  EXPECT_EQ(guard.LabelRecord({"0.25", "0.5", "1"}).value(), guard.Label(x));
  EXPECT_THAT(guard.LabelRecord({"0.25", "0.5", "1.5"}).error().message, HasSubstr("1.5"));
  EXPECT_FALSE(guard.LabelRecord({"0.25", "0.5"}).ok());
  EXPECT_FALSE(guard.LabelRecord({"0.25", "much", "1"}).ok());
}

}  // namespace
}  // namespace lucid
