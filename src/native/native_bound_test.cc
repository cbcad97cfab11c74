#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "certificate/proof_reader.h"
#include "certificate/test_support.h"
#include "lucid/check/check.h"
#include "lucid/native/bound.h"
#include "pair/test_support.h"
#include "support/oracle.h"

namespace lucid {
namespace {

namespace fs = std::filesystem;

// Several members each leak a little; three inputs, so that brute force can tell the truth.
class NativeBoundTest : public testing::Test {
 protected:
  struct Made {
    Network network;
    std::vector<Network> members;
  };
  static Made Make() {
    Stream stream(4, "run for bounds");
    Network network = RandomNetwork(
        Hidden({{HiddenLayer::Kind::kDense, 4}, {HiddenLayer::Kind::kDense, 3}}, 3, 2), stream);
    Balance(network, stream);
    std::vector<Network> members = RandomMembers(network, 12, 0.03, stream);
    return {network, members};
  }

  NativeBoundOptions Options() const {
    NativeBoundOptions options;
    options.common.gap = 1e-3;
    options.common.threads = 1;
    return options;
  }
  Certificate Bounds(const NativeBoundOptions& options) const {
    const auto found = ComputeBounds(ensemble_, options);
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found.value();
  }
  double Truth(std::int32_t label) const {
    return static_cast<double>(BruteForceBeta(made_.network, made_.members, label, 0, 1e-12).beta);
  }
  // The bounds contain the truth, and the checks that know nothing of the engine find no fault.
  void ExpectProved(const Certificate& certificate, const std::string& proof) {
    ASSERT_TRUE(certificate.proof.has_value());
    const auto report = CheckProof(certificate, ensemble_, proof);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->accepted())
        << report->FirstProblem()->name << ": " << report->FirstProblem()->detail;
  }
  void ExpectValid(const Certificate& certificate) const {
    EXPECT_EQ(certificate.engine, Engine::kNative);
    for (const ClassBound& bound : certificate.classes) {
      SCOPED_TRACE(testing::Message() << "class " << bound.label);
      const double truth = Truth(bound.label);
      EXPECT_GE(bound.beta_upper, truth - 1e-10) << "UNSOUND";
      EXPECT_LE(bound.beta_lower, truth + 1e-10);
      EXPECT_LE(bound.beta_lower, bound.beta_upper);
      EXPECT_EQ(bound.witness.has_value(), bound.beta_lower > 0);
    }
    CheckOptions one_thread;
    one_thread.threads = 1;
    const auto binding = CheckBinding(certificate, ensemble_, one_thread);
    ASSERT_TRUE(binding.ok()) << binding.error().message;
    EXPECT_TRUE(binding->accepted())
        << binding->FirstProblem()->name << ": " << binding->FirstProblem()->detail;
    FalsifyOptions search;
    search.starts = 200;
    search.threads = 1;
    const auto falsified = Falsify(certificate, ensemble_, search);
    ASSERT_TRUE(falsified.ok()) << falsified.error().message;
    EXPECT_TRUE(falsified->leaks.empty()) << "UNSOUND";
    for (const Check& check : falsified->checks.checks) {
      EXPECT_NE(check.outcome, Check::Outcome::kFailed) << check.name << ": " << check.detail;
    }
  }
  void ExpectEqualWithinTheGap(const Certificate& a, const Certificate& b, double gap) const {
    ASSERT_EQ(a.classes.size(), b.classes.size());
    for (std::size_t c = 0; c < a.classes.size(); ++c) {
      const double slack = 2 * gap * b.classes[c].beta_upper + 2e-6;
      EXPECT_NEAR(a.classes[c].beta_upper, b.classes[c].beta_upper, slack) << "class " << c;
      EXPECT_NE(a.classes[c].status, BoundStatus::kDeadline);
    }
  }
  // Stopped before it starts.
  Certificate Stopped(const NativeBoundOptions& options) const {
    std::stop_source source;
    source.request_stop();
    const auto found = ComputeBounds(ensemble_, options, {}, source.get_token());
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found.value();
  }

  const Made made_ = Make();
  const ImportedRun run_{made_.network, made_.members};
  const Ensemble ensemble_ = run_.Open();
  const TemporaryFolder folder_;
};

TEST_F(NativeBoundTest, GivesACertificateThatEveryCheckAccepts) {
  const Certificate certificate = Bounds(Options());
  ExpectValid(certificate);
  double largest = 0;
  for (const ClassBound& bound : certificate.classes) {
    EXPECT_NE(bound.status, BoundStatus::kDeadline);
    EXPECT_LE(bound.beta_upper - bound.beta_lower, 1e-3 * bound.beta_upper + 2e-6);
    largest = std::max(largest, bound.beta_lower);
  }
  EXPECT_GT(largest, 0.01) << "a run without a leak shows nothing";
}

TEST_F(NativeBoundTest, OneThreadAndFourGiveTheSameBits) {
  NativeBoundOptions options = Options();
  const Certificate one = Bounds(options);
  options.common.threads = 4;
  const Certificate four = Bounds(options);
  for (std::size_t c = 0; c < one.classes.size(); ++c) {
    EXPECT_EQ(one.classes[c].beta_upper, four.classes[c].beta_upper);
    EXPECT_EQ(one.classes[c].beta_lower, four.classes[c].beta_lower);
    EXPECT_EQ(one.classes[c].counters, four.classes[c].counters);
  }
}

TEST_F(NativeBoundTest, AGapOfZeroIsExactOnATinyRun) {
  NativeBoundOptions options = Options();
  options.common.gap = 0;
  const Certificate certificate = Bounds(options);
  ExpectValid(certificate);
  for (const ClassBound& bound : certificate.classes) {
    EXPECT_EQ(bound.status, BoundStatus::kExact) << bound.beta_lower << " " << bound.beta_upper;
    EXPECT_NEAR(bound.beta_upper, Truth(bound.label), 2e-6);
  }
}

TEST_F(NativeBoundTest, AGapOfOneIsValid) {
  NativeBoundOptions options = Options();
  options.common.gap = 1;
  ExpectValid(Bounds(options));
}

TEST_F(NativeBoundTest, AStopBeforeTheStartGivesACeilingAndNoError) {
  const Certificate stopped = Stopped(Options());
  ExpectValid(stopped);
  for (const ClassBound& bound : stopped.classes) {
    EXPECT_EQ(bound.status, BoundStatus::kDeadline);
    EXPECT_LT(bound.beta_upper, 1e6);
  }
}

TEST_F(NativeBoundTest, NoTimeGivesACeilingAndNoError) {
  NativeBoundOptions options = Options();
  options.common.time_limit = 1e-9;
  const Certificate hurried = Bounds(options);
  ExpectValid(hurried);
  for (const ClassBound& bound : hurried.classes) {
    EXPECT_EQ(bound.status, BoundStatus::kDeadline);
    EXPECT_LT(bound.beta_upper, 1e6);
  }
}

TEST_F(NativeBoundTest, OnlyTheClassThatIsAskedForIsBounded) {
  NativeBoundOptions options = Options();
  options.common.label = 1;
  const Certificate one = Bounds(options);
  ASSERT_EQ(one.classes.size(), 2U);
  EXPECT_EQ(one.classes[0].beta_upper, std::numeric_limits<double>::infinity());
  EXPECT_EQ(one.classes[1].beta_upper, Bounds(Options()).classes[1].beta_upper);
}

TEST_F(NativeBoundTest, TheTraceClosesInOnTheBound) {
  NativeBoundOptions options = Options();
  std::vector<std::vector<std::pair<double, double>>> seen(2);
  options.common.trace = [&](std::int32_t label, double, double lower, double upper) {
    seen[label].emplace_back(lower, upper);
  };
  const Certificate certificate = Bounds(options);
  for (std::size_t c = 0; c < 2; ++c) {
    ASSERT_FALSE(seen[c].empty());
    for (const auto& [lower, upper] : seen[c]) {
      EXPECT_GE(upper, certificate.classes[c].beta_lower) << "UNSOUND";
      EXPECT_LE(lower, certificate.classes[c].beta_upper);
    }
    EXPECT_EQ(seen[c].back().second, certificate.classes[c].beta_upper);
  }
}

TEST_F(NativeBoundTest, ResumedAfterAnEndBeforeTheSearchItEndsWithinTheGapOfTheWhole) {
  NativeBoundOptions options = Options();
  const Certificate whole = Bounds(options);
  options.common.journal = folder_ / "native.journal";
  Stopped(options);
  options.common.resume = true;
  const Certificate resumed = Bounds(options);
  ExpectValid(resumed);
  ExpectEqualWithinTheGap(resumed, whole, options.common.gap);
  EXPECT_FALSE(fs::exists(options.common.journal)) << "nothing is left to resume";
}

// A run whose classes take many rounds each, stopped in the first round of the first.
class LongRunTest : public testing::Test {
 protected:
  static ImportedRun Make() {
    Stream stream(4, "long run for bounds");
    Network network = RandomNetwork(
        Hidden({{HiddenLayer::Kind::kDense, 8}, {HiddenLayer::Kind::kDense, 8}}, 5, 2), stream);
    Balance(network, stream);
    return {network, RandomMembers(network, 6, 0.05, stream)};
  }
  NativeBoundOptions Options() const {
    NativeBoundOptions options;
    options.common.gap = 0.03;
    options.common.threads = 1;
    options.common.journal = folder_ / "native.journal";
    return options;
  }
  // Its bounds as the search first reports them end it.
  Certificate Stopped(NativeBoundOptions options) const {
    std::stop_source source;
    options.common.trace = [&](std::int32_t, double, double, double) { source.request_stop(); };
    const auto found = ComputeBounds(ensemble_, options, {}, source.get_token());
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found.value();
  }

  const ImportedRun run_ = Make();
  const Ensemble ensemble_ = run_.Open();
  const TemporaryFolder folder_;
};

TEST_F(LongRunTest, ResumedAgainAndAgainItEndsWithinTheGapOfTheWhole) {
  NativeBoundOptions options = Options();
  const auto whole = ComputeBounds(ensemble_, options);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  double upper[2] = {kInfinity, kInfinity};
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    const Certificate part = Stopped(options);
    EXPECT_TRUE(fs::exists(options.common.journal)) << "the test has become easy";
    options.common.resume = true;
    for (std::size_t c = 0; c < 2; ++c) {
      const ClassBound& bound = part.classes[c];
      EXPECT_GE(bound.beta_upper, whole->classes[c].beta_lower) << "UNSOUND";
      EXPECT_LE(bound.beta_lower, whole->classes[c].beta_upper);
      EXPECT_EQ(bound.status, BoundStatus::kDeadline);
      if (c == 0) {
        EXPECT_LE(bound.beta_upper, upper[c]) << "a resume lost what was proved";
      }
      upper[c] = bound.beta_upper;
    }
  }
  const auto resumed = ComputeBounds(ensemble_, options);
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  for (std::size_t c = 0; c < 2; ++c) {
    const ClassBound &a = resumed->classes[c], &b = whole->classes[c];
    EXPECT_NE(a.status, BoundStatus::kDeadline);
    EXPECT_NEAR(a.beta_upper, b.beta_upper, 2 * options.common.gap * b.beta_upper);
    EXPECT_GE(a.beta_upper, b.beta_lower) << "UNSOUND";
    EXPECT_GE(b.beta_upper, a.beta_lower) << "UNSOUND";
  }
  EXPECT_FALSE(fs::exists(options.common.journal)) << "nothing is left to resume";
}

// Members that always like class 0 less than N does: class 1 cannot leak, which is seen at once,
// and all the time is for class 0, whose exact bound takes longer than there is.
TEST(NativeBound, TimeThatAClassDoesNotNeedGoesToTheOthers) {
  Stream stream(11, "time left over");
  const Network network = RandomNetwork(
      Hidden({{HiddenLayer::Kind::kDense, 30}, {HiddenLayer::Kind::kDense, 30}}, 14, 2), stream);
  std::vector<Network> members = RandomMembers(network, 2, 0.001, stream);
  for (Network& member : members) {
    member.parameters[network.architecture.layers().back().bias_at] -= 20;
  }
  const ImportedRun run(network, members);
  const Ensemble ensemble = run.Open();
  NativeBoundOptions options;
  options.common.gap = 0;
  options.common.threads = 1;
  options.common.time_limit = 6;
  std::vector<std::int32_t> labels;  // in the order of the search
  std::vector<double> seconds, upper;
  options.common.trace = [&](std::int32_t label, double at, double, double bound) {
    if (labels.empty() || labels.back() != label) labels.push_back(label);
    if (label != 0) return;
    if (!seconds.empty()) {
      EXPECT_GE(at, seconds.back());
      // The last of a search is what the certificate says: a checker's rounding more.
      EXPECT_LE(bound, upper.back() * (1 + 1e-8)) << "going on lost what was proved";
    }
    seconds.push_back(at);
    upper.push_back(bound);
  };
  const auto found = ComputeBounds(ensemble, options);
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_EQ(found->classes[0].status, BoundStatus::kDeadline) << "the test has become easy";
  ASSERT_NE(found->classes[1].status, BoundStatus::kDeadline) << "the test has become hard";
  EXPECT_EQ(labels, (std::vector<std::int32_t>{0, 1, 0}));
}

TEST_F(LongRunTest, AJournalOfOtherOptionsIsRefused) {
  NativeBoundOptions options = Options();
  Stopped(options);
  ASSERT_TRUE(fs::exists(options.common.journal));
  options.common.resume = true;
  options.common.gap = 0.5;
  const auto other = ComputeBounds(ensemble_, options);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::kMismatch);
  EXPECT_TRUE(fs::exists(options.common.journal)) << "it belongs to somebody";
}

TEST_F(NativeBoundTest, AJournalThatIsNotResumedIsKeptBeside) {
  NativeBoundOptions options = Options();
  options.common.journal = folder_ / "native.journal";
  std::ofstream(options.common.journal) << "of an earlier search";
  Bounds(options);
  EXPECT_FALSE(fs::exists(options.common.journal));
  EXPECT_TRUE(fs::exists(options.common.journal + ".old"));
}

TEST_F(NativeBoundTest, ADamagedJournalIsRefused) {
  NativeBoundOptions options = Options();
  options.common.journal = folder_ / "native.journal";
  options.common.resume = true;
  std::ofstream(options.common.journal) << "not a journal";
  const auto found = ComputeBounds(ensemble_, options);
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("damaged"), std::string::npos) << found.error().message;
}

TEST_F(NativeBoundTest, OptionsOutOfRangeAreNamed) {
  const auto refused = [&](const NativeBoundOptions& options, const std::string& word) {
    const auto found = ComputeBounds(ensemble_, options);
    ASSERT_FALSE(found.ok()) << word;
    EXPECT_EQ(found.error().kind, ErrorKind::kInvalidInput);
    EXPECT_NE(found.error().message.find(word), std::string::npos) << found.error().message;
  };
  NativeBoundOptions memory = Options();
  memory.memory = (1 << 20) - 1;
  refused(memory, "memory");
  for (const double gap : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    NativeBoundOptions options = Options();
    options.common.gap = gap;
    refused(options, "gap");
  }
  NativeBoundOptions label = Options();
  label.common.label = 2;
  refused(label, "class");
}

TEST_F(NativeBoundTest, WritesAProofThatTheCheckerAccepts) {
  NativeBoundOptions options = Options();
  options.common.gap = 0.05;
  const Certificate without = Bounds(options);
  options.proof = folder_ / "proof";
  const Certificate certificate = Bounds(options);
  ExpectValid(certificate);
  ExpectProved(certificate, options.proof);
  EXPECT_EQ(certificate.proof->bytes, static_cast<std::int64_t>(fs::file_size(options.proof)));
  for (std::size_t c = 0; c < certificate.classes.size(); ++c) {
    EXPECT_NEAR(certificate.classes[c].beta_upper, without.classes[c].beta_upper,
                1e-6 * without.classes[c].beta_upper);
  }
}

// Stopped again and again, with a save after every round: the parts of the proof make one, which
// shows what the certificate says at each of the stops.
TEST_F(NativeBoundTest, AProofGoesOnWhereASearchWasStopped) {
  NativeBoundOptions options = Options();
  options.common.gap = 0.002;
  options.proof = folder_ / "proof";
  options.common.journal = folder_ / "native.journal";
  options.save_every = 0;
  options.common.time_limit = 0.01;
  int stops = 0;
  Certificate certificate = Bounds(options);
  for (options.common.resume = true; !options.common.Finished(certificate) && stops < 200;
       ++stops) {
    if (stops % 5 == 0) ExpectProved(certificate, options.proof);
    options.common.time_limit *= 1.3;
    certificate = Bounds(options);
  }
  EXPECT_GT(stops, 0) << "the search ended at once";
  EXPECT_TRUE(options.common.Finished(certificate));
  ExpectProved(certificate, options.proof);
  EXPECT_FALSE(fs::exists(options.proof + ".part0")) << "parts of a proof that is whole";
}

// How many closings of a kind the proof has.
int Closings(const std::string& path, ProofClosing::Kind kind) {
  const ProofFile file = ProofFile::Open(path).value();
  int count = 0;
  for (std::size_t b = 0; b < file.blocks(); ++b) {
    const auto records = file.ReadBlock(b).value();
    for (const ProofRecord& record : records) {
      const auto* closing = std::get_if<ProofClosing>(&record.what);
      count += closing != nullptr && closing->kind == kind;
    }
  }
  return count;
}

// The proof with every claim at or below `most`.
void WriteLies(const std::string& path, double most, const std::string& lies_path) {
  const ProofFile file = ProofFile::Open(path).value();
  ProofWriter lies = ProofWriter::Create(lies_path, file.header()).value();
  for (std::size_t b = 0; b < file.blocks(); ++b) {
    std::vector<ProofRecord> records = file.ReadBlock(b).value();
    for (ProofRecord& record : records) {
      if (auto* closing = std::get_if<ProofClosing>(&record.what)) {
        if (closing->band) closing->band->least = std::min(closing->band->least, most);
        closing->value = std::min(closing->value, most);
      }
      ASSERT_TRUE(
          std::visit([&](const auto& what) { return lies.Add(record.label, what); }, record.what)
              .ok());
    }
  }
  ASSERT_TRUE(lies.Finish().ok());
}

// Of a network that begins with convolutions: with a proof it has the same bounds as without, and
// what the proof says is not accepted with numbers that are one percent below a leak.
TEST(NativeBound, WindowsAreProved) {
  using enum HiddenLayer::Kind;
  int by_windows = 0, leaking = 0;
  for (std::uint64_t seed = 330; seed < 342 && leaking < 2; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Stream stream(seed, "run for windows");
    Network network =
        RandomNetwork(Hidden({{kConv, 3, 2, 1}, {kConv, 3, 2, 1}, {kDense, 2}}, 13, 2), stream);
    Balance(network, stream);
    const ImportedRun run(network, RandomMembers(network, 2, 0.05, stream));
    const Ensemble ensemble = run.Open();
    TemporaryFolder folder;
    NativeBoundOptions options;
    options.common.gap = 0.3;
    options.common.threads = 1;
    options.common.time_limit = 60;
    options.closer_after = 1;
    const Certificate without = ComputeBounds(ensemble, options).value();
    if (!(without.classes[0].beta_lower > 0.001)) continue;
    ++leaking;
    options.proof = folder / "proof";
    Certificate with = ComputeBounds(ensemble, options).value();
    for (std::size_t c = 0; c < 2; ++c) {
      EXPECT_LE(with.classes[c].beta_upper, (1 + 1e-6) * without.classes[c].beta_upper);
    }
    const CheckReport report = CheckProof(with, ensemble, options.proof).value();
    EXPECT_TRUE(report.accepted()) << report.FirstProblem()->detail;
    by_windows += Closings(options.proof, ProofClosing::Kind::kWindows);
    const double less = 0.99 * with.classes[0].beta_lower;
    WriteLies(options.proof, less, folder / "lies");
    with.classes[0].beta_upper = less;
    EXPECT_FALSE(CheckProof(with, ensemble, folder / "lies").value().accepted()) << "UNSOUND";
  }
  EXPECT_EQ(leaking, 2);
  EXPECT_GT(by_windows, 0);
}

// Of three classes, too, a search with a proof looks closely where one without does.
TEST(NativeBound, MomentsOfThreeClassesAreProved) {
  int by_moments = 0, lies = 0;
  for (std::uint64_t seed = 350; seed < 380 && (by_moments == 0 || lies == 0); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Stream stream(seed, "run for moments");
    using enum HiddenLayer::Kind;
    Network network = RandomNetwork(Hidden({{kDense, 4}}, 12, 3), stream);
    Balance(network, stream);
    const ImportedRun run(network, RandomMembers(network, 2, 0.05, stream));
    const Ensemble ensemble = run.Open();
    TemporaryFolder folder;
    NativeBoundOptions options;
    options.common.gap = 0.5;
    options.common.threads = 1;
    options.common.time_limit = 3;
    options.closer_after = 1;
    options.common.label = 0;
    const Certificate without = ComputeBounds(ensemble, options).value();
    if (!options.common.Finished(without)) continue;
    options.common.time_limit = 60;
    options.proof = folder / "proof";
    Certificate with = ComputeBounds(ensemble, options).value();
    EXPECT_LE(with.classes[0].beta_upper, (1 + 1e-6) * without.classes[0].beta_upper);
    const CheckReport report = CheckProof(with, ensemble, options.proof).value();
    EXPECT_TRUE(report.accepted()) << report.FirstProblem()->detail;
    by_moments += Closings(options.proof, ProofClosing::Kind::kMoments);
    if (!(with.classes[0].beta_lower > 0.001)) continue;
    const double less = 0.99 * with.classes[0].beta_lower;
    WriteLies(options.proof, less, folder / "lies");
    with.classes[0].beta_upper = less;
    EXPECT_FALSE(CheckProof(with, ensemble, folder / "lies").value().accepted()) << "UNSOUND";
    ++lies;
  }
  EXPECT_GT(by_moments, 0);
  EXPECT_GT(lies, 0);
}

}  // namespace
}  // namespace lucid
