// The bounds of several processes, here threads with queues between them: those of one process, to
// the bit. tests/soundness shows the same searches to exact answers, tests/e2e and tests/cluster
// try real processes under mpirun.
#include "native/bound_team.h"

#include <gmock/gmock.h>

#include "base/files.h"
#include "certificate/test_support.h"
#include "lucid/check/check.h"
#include "lucid/native/bound.h"
#include "native/task_bytes.h"
#include "pair/test_support.h"
#include "support/local_team.h"

namespace lucid {
namespace {

using testing::HasSubstr;

struct Made {
  Network network;
  std::vector<Network> members;
};

Made Make(std::uint64_t seed, std::int64_t inputs, std::int64_t classes, std::int64_t members) {
  Stream stream(seed, "team bounds");
  using enum HiddenLayer::Kind;
  const std::int64_t units = inputs > 10 ? 3 : 6;  // with many inputs a search takes long
  Made made{RandomNetwork(Hidden({{kDense, units}, {kDense, units}}, inputs, classes), stream), {}};
  Balance(made.network, stream);
  made.members = RandomMembers(made.network, members, 0.05, stream);
  return made;
}

class BoundTeam : public testing::Test {
 protected:
  void Open(const Made& made) {
    run_.emplace(made.network, made.members);
    ensemble_.emplace(run_->Open());
  }
  NativeBoundOptions Options() const {
    NativeBoundOptions options;
    options.common.gap = 1e-3;
    options.common.threads = 1;
    options.proof = folder_ / "proof";
    return options;
  }
  Certificate Alone(const NativeBoundOptions& options) const {
    const auto found = ComputeBounds(*ensemble_, options);
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found.value();
  }
  Result<Certificate> Together(int processes, NativeBoundOptions options,
                               std::stop_token stop = {}) const {
    LocalTeamOf team(processes, [this](Team& helper) { return HelpBounds(*ensemble_, helper, 1); });
    options.common.team = &team.leader();
    return ComputeBounds(*ensemble_, options, {}, std::move(stop));
  }
  void ExpectSame(const Certificate& a, const Certificate& b) {
    ASSERT_EQ(a.classes.size(), b.classes.size());
    for (std::size_t c = 0; c < a.classes.size(); ++c) {
      SCOPED_TRACE(testing::Message() << "class " << c);
      EXPECT_EQ(a.classes[c].beta_upper, b.classes[c].beta_upper);
      EXPECT_EQ(a.classes[c].beta_lower, b.classes[c].beta_lower);
      EXPECT_EQ(a.classes[c].status, b.classes[c].status);
      EXPECT_EQ(a.classes[c].counters, b.classes[c].counters);
      ASSERT_EQ(a.classes[c].witness.has_value(), b.classes[c].witness.has_value());
      if (!a.classes[c].witness) continue;
      EXPECT_EQ(a.classes[c].witness->x, b.classes[c].witness->x);
      EXPECT_EQ(a.classes[c].witness->member, b.classes[c].witness->member);
    }
    ASSERT_EQ(a.proof.has_value(), b.proof.has_value());
    if (a.proof) EXPECT_EQ(a.proof->digest, b.proof->digest);
  }

  std::optional<ImportedRun> run_;
  std::optional<Ensemble> ensemble_;
  const TemporaryFolder folder_;
};

// Few inputs and many, two classes and three, boxes, phases, bands and closer looks; with a proof
// and without; an optimum and decisions: the same certificate and the same bytes of the proof.
TEST_F(BoundTeam, GivesTheBitsOfOneProcess) {
  struct Shape {
    std::int64_t inputs, classes, members;
  };
  std::int64_t regions = 0;
  for (const Shape shape : {Shape{3, 2, 40}, Shape{3, 3, 20}, Shape{12, 2, 12}, Shape{12, 3, 6}}) {
    Open(Make(7, shape.inputs, shape.classes, shape.members));
    for (const bool proof : {true, false}) {
      for (const double decide : {-1.0, 0.02, 1.0}) {
        SCOPED_TRACE(testing::Message() << shape.inputs << " inputs, " << shape.classes
                                        << " classes, decide " << decide << " proof " << proof);
        NativeBoundOptions options = Options();
        if (!proof) options.proof.clear();
        if (decide >= 0) options.decide = decide;
        options.closer_after = 6;
        options.attack_climbs = 8;
        options.common.gap = shape.inputs > 10 ? 0.5 : 0.01;
        const Certificate alone = Alone(options);
        for (const auto& [name, count] : alone.classes[0].counters) {
          if (name == "regions") regions += count;
        }
        for (const int processes : {2, 5}) {
          const auto together = Together(processes, options);
          ASSERT_TRUE(together.ok()) << together.error().message;
          ExpectSame(alone, *together);
        }
        if (!proof) continue;
        const auto report = CheckProof(alone, *ensemble_, options.proof);
        ASSERT_TRUE(report.ok()) << report.error().message;
        EXPECT_TRUE(report->accepted())
            << report->FirstProblem()->name << ": " << report->FirstProblem()->detail;
      }
    }
  }
  EXPECT_GT(regions, 200) << "searches that end at once show little";
}

// What a team left is gone on with by another number of processes, or by one.
TEST_F(BoundTeam, AnotherNumberOfProcessesGoesOn) {
  Open(Make(3, 3, 2, 40));
  NativeBoundOptions options = Options();
  options.common.gap = 1e-3;
  options.common.journal = folder_ / "journal";
  options.save_every = 0;
  const Certificate alone = [&] {
    NativeBoundOptions whole = options;
    whole.common.journal.clear();
    whole.proof = folder_ / "whole";
    return Alone(whole);
  }();
  int interrupted = 0;
  std::int64_t looks = 4;
  for (const int processes : {4, 1, 2, 3, 1, 4, 2}) {
    std::atomic<std::int64_t> left = looks;
    looks *= 3;
    options.out_of_time = [&](std::int32_t) { return --left < 0; };
    const auto found = Together(processes, options);
    ASSERT_TRUE(found.ok()) << found.error().message;
    const auto report = CheckProof(*found, *ensemble_, options.proof);
    ASSERT_TRUE(report.ok() && report->accepted());
    for (std::size_t c = 0; c < alone.classes.size(); ++c) {
      EXPECT_GE(found->classes[c].beta_upper, alone.classes[c].beta_lower) << "UNSOUND";
    }
    interrupted += options.common.Finished(*found) ? 0 : 1;
    options.common.resume = std::filesystem::exists(options.common.journal);
  }
  EXPECT_GE(interrupted, 2);
  options.out_of_time = {};
  const auto last = Together(3, options);
  ASSERT_TRUE(last.ok()) << last.error().message;
  for (std::size_t c = 0; c < alone.classes.size(); ++c) {
    EXPECT_NE(last->classes[c].status, BoundStatus::kDeadline);
    EXPECT_NEAR(last->classes[c].beta_upper, alone.classes[c].beta_upper,
                2 * options.common.gap * alone.classes[c].beta_upper + 2e-6);
  }
}

TEST_F(BoundTeam, AnotherRunIsRefused) {
  Open(Make(3, 3, 2, 4));
  const Made other = Make(4, 3, 2, 4);
  const ImportedRun elsewhere(other.network, other.members);
  const Ensemble others = elsewhere.Open();
  LocalTeamOf team(2, [&](Team& helper) { return HelpBounds(others, helper, 1); });
  NativeBoundOptions options = Options();
  options.common.team = &team.leader();
  const auto found = ComputeBounds(*ensemble_, options);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message, HasSubstr("rank 1: what is here is not what the leader"));
}

// A helper that is told to stop ends the job for all, with what is proved by then.
TEST_F(BoundTeam, AStoppedHelperEndsTheJobWithAState) {
  Open(Make(3, 12, 2, 60));
  std::stop_source source;
  LocalTeamOf team(3, [&](Team& helper) {
    return HelpBounds(*ensemble_, helper, 1,
                      helper.rank() == 2 ? source.get_token() : std::stop_token());
  });
  NativeBoundOptions options = Options();
  options.common.gap = 0;
  options.common.journal = folder_ / "journal";
  options.common.team = &team.leader();
  options.common.trace = [&](std::int32_t, double, double, double) { source.request_stop(); };
  const auto found = ComputeBounds(*ensemble_, options);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_FALSE(options.common.Finished(*found));
  EXPECT_TRUE(std::filesystem::exists(options.common.journal));
}

// What a helper does not understand, or the leader, ends the job with an error and not with a
// bound.
class LyingTeam final : public Team {
 public:
  LyingTeam(Team& team, int kind) : team_(team), kind_(kind) {}
  int rank() const override { return team_.rank(); }
  int size() const override { return team_.size(); }
  std::string name() const override { return team_.name(); }
  void Send(int to, std::string bytes) override {
    if (bytes[0] == 'A' && kind_ == 0) bytes.resize(bytes.size() - 1);     // too short
    if (bytes[0] == 'A' && kind_ == 1) bytes += '\0';                      // too long
    if (bytes[0] == 'A' && kind_ == 2) bytes[9] = static_cast<char>(120);  // of another task
    if (bytes[0] == 'A' && kind_ == 3) team_.Send(to, bytes);              // twice
    team_.Send(to, std::move(bytes));
  }
  std::optional<TeamMessage> Receive() override { return team_.Receive(); }
  bool is_over() override { return team_.is_over(); }

 private:
  Team& team_;
  const int kind_;
};

TEST_F(BoundTeam, ADamagedAnswerIsAnError) {
  Open(Make(3, 3, 2, 60));
  for (const int kind : {0, 1, 2, 3}) {
    LocalTeamOf team(2, [&](Team& helper) {
      LyingTeam lying(helper, kind);
      return HelpBounds(*ensemble_, lying, 1);
    });
    NativeBoundOptions options = Options();
    options.common.team = &team.leader();
    const auto found = ComputeBounds(*ensemble_, options);
    if (kind == 3 && found.ok()) {  // every second answer came when its job was over
      ExpectSame(Alone(Options()), *found);
      continue;
    }
    ASSERT_FALSE(found.ok()) << kind;
    EXPECT_THAT(found.error().message, HasSubstr("a helper")) << kind;
  }
}

// ---- spatial bounds
// -------------------------------------------------------------------------------

class SpatialTeam : public BoundTeam {
 protected:
  SpatialFile Make(Team* team, const Certificate& certificate, const MemberBounds& members,
                   int threads = 1) const {
    SpatialOptions options;
    options.leaves = 60;
    options.time_limit = 1e6;
    options.threads = threads;
    options.least_spared = 0;
    options.team = team;
    auto file = ComputeSpatialBounds(*ensemble_, certificate, members, {}, options);
    EXPECT_TRUE(file.ok()) << file.error().message;
    return file.ok() ? *std::move(file) : SpatialFile();
  }
  Digest ProofOf(const Certificate& certificate, const SpatialFile& file) const {
    return WriteGuardProof(folder_ / "spatial", certificate, file.proofs).value();
  }
};

// In the plane, where boxes are halved, and with more inputs, where cuts are looked for.
TEST_F(SpatialTeam, GivesTheBytesOfOneProcess) {
  for (const std::int64_t inputs : {2, 3, 12}) {
    SCOPED_TRACE(testing::Message() << inputs << " inputs");
    Open(lucid::Make(9, inputs, inputs == 3 ? 3 : 2, inputs > 10 ? 6 : 20));
    NativeBoundOptions options = Options();
    options.common.gap = 0.5;
    options.attack_climbs = 8;
    const Certificate certificate = Alone(options);
    const MemberBounds members = BoundMembers(*ensemble_, certificate.member_error, 1).value();
    const SpatialFile alone = Make(nullptr, certificate, members);
    std::size_t splits = 0;
    for (const BoxProof& proof : alone.proofs) splits += proof.splits.size();
    EXPECT_GT(splits, 20U) << "a search of few boxes shows little";
    for (const int processes : {2, 5}) {
      LocalTeamOf team(processes,
                       [this](Team& helper) { return HelpBounds(*ensemble_, helper, 2); });
      const SpatialFile together = Make(&team.leader(), certificate, members, 1 + processes % 2);
      EXPECT_TRUE(together.bytes == alone.bytes) << processes;
      EXPECT_EQ(ProofOf(certificate, together), ProofOf(certificate, alone)) << processes;
    }
  }
}

TEST_F(SpatialTeam, ADamagedAnswerIsAnError) {
  Open(lucid::Make(9, 3, 2, 20));
  NativeBoundOptions options = Options();
  options.common.gap = 0.5;
  const Certificate certificate = Alone(options);
  const MemberBounds members = BoundMembers(*ensemble_, certificate.member_error, 1).value();
  for (const int kind : {0, 1, 2}) {
    LocalTeamOf team(3, [&](Team& helper) {
      LyingTeam lying(helper, kind);
      return HelpBounds(*ensemble_, lying, 1);
    });
    SpatialOptions spatial;
    spatial.time_limit = 1e6;
    spatial.threads = 1;
    spatial.team = &team.leader();
    const auto found = ComputeSpatialBounds(*ensemble_, certificate, members, {}, spatial);
    ASSERT_FALSE(found.ok()) << kind;
    EXPECT_THAT(found.error().message, HasSubstr("a helper")) << kind;
  }
}

// Every field of a claim comes back as it was.
TEST(TaskBytes, ClaimsComeBack) {
  ProofClosing closing;
  closing.node = 7;
  closing.member = 3;
  closing.other = 1;
  closing.kind = ProofClosing::Kind::kWindows;
  closing.band = ProofBand{0.25, kInfinity};
  closing.value = 0.5;
  closing.below = 2;
  closing.weights = {0, 1, 255};
  closing.lambda = 1.5;
  closing.multipliers = {1, -2, 3.5F};
  ProofCase cut, windows;
  cut.kind = ProofCase::Kind::kMemberPhase;
  cut.layer = 1;
  cut.unit = 4;
  windows.kind = ProofCase::Kind::kWindows;
  windows.rounds.push_back({{1, 2}, true, 0.75, {1}, {2, 3}, {4}});
  closing.cases = {cut, windows};
  std::string bytes;
  BytesOut out(bytes);
  out(closing);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    ByteCursor cursor(std::string_view(bytes).substr(0, size));
    BytesIn in(cursor);
    ProofClosing back;
    in(back);
    EXPECT_EQ(in.ok(), size == bytes.size()) << size;
    if (!in.ok()) continue;
    EXPECT_EQ(back.node, closing.node);
    EXPECT_EQ(back.member, closing.member);
    EXPECT_EQ(back.other, closing.other);
    EXPECT_EQ(back.kind, closing.kind);
    EXPECT_EQ(back.band, closing.band);
    EXPECT_EQ(back.value, closing.value);
    EXPECT_EQ(back.below, closing.below);
    EXPECT_EQ(back.weights, closing.weights);
    EXPECT_EQ(back.lambda, closing.lambda);
    EXPECT_EQ(back.multipliers, closing.multipliers);
    EXPECT_EQ(back.cases, closing.cases);
  }
}

}  // namespace
}  // namespace lucid
