// Proofs that hold are accepted; every way to spoil one is refused, and the report names the node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "certificate/proof_reader.h"
#include "lucid/check/check.h"
#include "proof/prover.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using Kind = ProofClosing::Kind;
using How = ProofSplit::How;

void ExpectSame(const ProofRecord& a, const ProofRecord& b) {
  EXPECT_EQ(a.label, b.label);
  ASSERT_EQ(a.what.index(), b.what.index());
  if (const auto* x = std::get_if<ProofSplit>(&a.what)) {
    const auto& y = std::get<ProofSplit>(b.what);
    EXPECT_EQ(std::tie(x->node, x->how, x->layer, x->unit, x->at, x->first_child),
              std::tie(y.node, y.how, y.layer, y.unit, y.at, y.first_child));
    return;
  }
  const auto &x = std::get<ProofClosing>(a.what), &y = std::get<ProofClosing>(b.what);
  EXPECT_EQ(std::tie(x.node, x.member, x.other, x.kind, x.band, x.value, x.below, x.weights,
                     x.lambda, x.multipliers, x.cases),
            std::tie(y.node, y.member, y.other, y.kind, y.band, y.value, y.below, y.weights,
                     y.lambda, y.multipliers, y.cases));
}

ProofCase RandomCase(Stream& stream) {
  using enum ProofCase::Kind;
  const auto some = [&] {
    std::vector<float> numbers(stream.Below(9));
    for (float& number : numbers) number = static_cast<float>(stream.Normal());
    return numbers;
  };
  ProofCase one;
  one.kind = static_cast<ProofCase::Kind>(3 + stream.Below(4));
  if (one.kind == kLines || one.kind == kMultipliers) one.lambda = stream.Uniform();
  if (one.kind == kMultipliers) one.multipliers = some();
  for (std::uint64_t n = 0; one.kind == kWindows && n < 1 + stream.Below(4); ++n) {
    ProofRound& round = one.rounds.emplace_back();
    round.halved.resize(stream.Below(4), static_cast<std::uint16_t>(stream.Below(1 << 16)));
    round.tilts = some();
    round.aims = n == 0 || stream.Below(2) == 0;
    if (round.aims)
      round.lambda = stream.Uniform(), round.pushes = some(), round.choose_by = some();
  }
  return one;
}

// The same claim against a mixture of the two other classes of three.
ProofClosing Mixed(ProofClosing closing, std::int32_t label, Stream& stream) {
  closing.below = -1;
  closing.weights.assign(3, 0);
  const auto first = static_cast<std::uint8_t>(1 + stream.Below(kWholeWeight - 1));
  closing.weights[static_cast<std::size_t>((label + 1) % 3)] = first;
  closing.weights[static_cast<std::size_t>((label + 2) % 3)] =
      static_cast<std::uint8_t>(kWholeWeight - first);
  return closing;
}

// A closing of this kind with all the fields that it has.
ProofClosing RandomClosing(Kind kind, Stream& stream) {
  ProofClosing closing;
  closing.kind = kind;
  closing.node = stream.Below(1ull << 60);
  closing.member = static_cast<std::int32_t>(stream.Below(9000));
  closing.other = static_cast<std::int32_t>(stream.Below(3));
  if (stream.Below(2) == 0) {
    const double least = stream.Uniform();
    closing.band = ProofBand{least, stream.Below(2) == 0 ? kInfinity : least + stream.Uniform()};
  }
  if (kind == Kind::kNoInput) {
    if (stream.Below(2) == 0) closing.member = ProofClosing::kEveryPair, closing.other = 0;
    if (closing.member < 0 && closing.band) closing.band->most = kInfinity;
    return closing;
  }
  closing.value = stream.Uniform();
  if (kind == Kind::kLines || kind == Kind::kMultipliers) {
    closing.below = static_cast<std::int32_t>(stream.Below(3));
    closing.lambda = stream.Uniform();
  }
  if (kind == Kind::kMultipliers || kind == Kind::kMoments) {
    for (int k = 0; k < 40; ++k) {
      closing.multipliers.push_back(stream.Below(2) == 0 ? 0 : static_cast<float>(stream.Normal()));
    }
  }
  if (kind == Kind::kWindows) {
    const auto cuts = stream.Below(4);
    for (std::uint64_t n = 0; n <= cuts; ++n) {
      if (n < cuts) closing.cases.push_back({ProofCase::Kind::kMemberPhase, 1, 7});
      closing.cases.push_back(RandomCase(stream));
    }
  }
  return closing;
}

const Check* CheckNamed(const CheckReport& report, const std::string& name) {
  const auto at = std::ranges::find(report.checks, name, &Check::name);
  return at == report.checks.end() ? nullptr : &*at;
}

// ---- the file ----------------------------------------------------------------------------------

class ProofFileTest : public testing::Test {
 protected:
  // Writes random records, and the same once more in two parts.
  void Write() {
    Stream stream(3, "proof round trip");
    ProofWriter whole = ProofWriter::Create(folder_ / "proof", header_).value();
    ProofWriter parts[] = {ProofWriter::Create(folder_ / "0", header_).value(),
                           ProofWriter::Create(folder_ / "1", header_).value()};
    for (int n = 0; n < 3000; ++n) {
      ProofRecord record{static_cast<std::int32_t>(stream.Below(3)), ProofSplit{}};
      if (stream.Below(3) == 0) {
        ProofSplit split;
        split.node = stream.Below(1ull << 60);
        split.how = static_cast<How>(1 + stream.Below(3));
        split.unit = static_cast<std::int32_t>(stream.Below(50));
        split.first_child = stream.Below(1ull << 60);
        if (split.how == How::kInput) split.at = stream.Uniform();
        if (split.how != How::kInput) split.layer = static_cast<std::int32_t>(stream.Below(4));
        record.what = split;
      } else {
        const auto kind = static_cast<Kind>(stream.Below(6));
        ProofClosing closing = RandomClosing(kind, stream);
        const bool lines = kind == Kind::kLines || kind == Kind::kMultipliers;
        if (lines && stream.Below(2) == 0) closing = Mixed(closing, record.label, stream);
        record.what = closing;
      }
      for (ProofWriter* writer : {&whole, &parts[n < 1700 ? 0 : 1]}) {
        const Status added = std::visit(
            [&](const auto& what) { return writer->Add(record.label, what); }, record.what);
        ASSERT_TRUE(added.ok()) << added.error().message;
      }
      written_.push_back(std::move(record));
    }
    for (ProofWriter* writer : {&whole, &parts[0], &parts[1]}) ASSERT_TRUE(writer->Finish().ok());
  }
  void ExpectWritten(const ProofFile& file) {
    EXPECT_EQ(file.header(), header_);
    std::size_t at = 0;
    for (std::size_t b = 0; b < file.blocks(); ++b) {
      const std::vector<ProofRecord> records = file.ReadBlock(b).value();
      for (const ProofRecord& record : records) {
        ASSERT_LT(at, written_.size());
        ExpectSame(record, written_[at++]);
      }
    }
    EXPECT_EQ(at, written_.size());
    EXPECT_EQ(at, file.splits() + file.closings());
  }

  const ProofHeader header_{Sha256Of("network"), Sha256Of("ensemble"), 0x1.8p-40, 3};
  TemporaryFolder folder_;
  std::vector<ProofRecord> written_;
};

TEST_F(ProofFileTest, BringsBackWhatWasWritten) {
  Write();
  const ProofFile file = ProofFile::Open(folder_ / "proof").value();
  EXPECT_GT(file.blocks(), 2U);
  ExpectWritten(file);
}

TEST_F(ProofFileTest, PartsMerge) {
  Write();
  const std::vector<std::string> parts = {folder_ / "0", folder_ / "1"};
  ASSERT_TRUE(MergeProofs(parts, folder_ / "merged").ok());
  ExpectWritten(ProofFile::Open(folder_ / "merged").value());
  ProofHeader other = header_;
  other.member_error = 0;
  ASSERT_TRUE(ProofWriter::Create(folder_ / "other", other)->Finish().ok());
  const std::vector<std::string> mixed = {folder_ / "0", folder_ / "other"};
  EXPECT_EQ(MergeProofs(mixed, folder_ / "mixed").error().kind, ErrorKind::kMismatch);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "mixed"));
  std::ofstream(folder_ / "1", std::ios::binary | std::ios::app) << 'x';
  EXPECT_FALSE(MergeProofs(parts, folder_ / "damaged").ok());
}

TEST_F(ProofFileTest, LeavesNothingBehindUnlessItIsFinished) {
  const TemporaryFolder& folder = folder_;
  std::filesystem::create_directories(folder / "here");
  const auto files = [&] {
    const auto list = std::filesystem::directory_iterator(folder / "here");
    return std::distance(begin(list), end(list));
  };
  const ProofHeader& header = header_;
  {
    ProofWriter writer = ProofWriter::Create(folder / "here/proof", header).value();
    EXPECT_TRUE(writer.Add(0, ProofSplit{}).ok());
    EXPECT_EQ(files(), 1);
    EXPECT_FALSE(std::filesystem::exists(folder / "here/proof"));
  }
  EXPECT_EQ(files(), 0);
  {
    ProofWriter writer = ProofWriter::Create(folder / "here/proof", header).value();
    Stream stream(4, "bad records");
    const auto refused = [&](Kind kind, const auto& spoil) {
      ProofClosing bad = RandomClosing(kind, stream);
      spoil(bad);
      EXPECT_FALSE(writer.Add(0, bad).ok());
    };
    refused(Kind::kLines, [](ProofClosing& c) { c.lambda = -1; });
    refused(Kind::kLines, [](ProofClosing& c) { c.below = -1; });
    const auto mixed = [&](Kind kind, std::vector<std::uint8_t> weights) {
      refused(kind, [&](ProofClosing& c) { c.below = -1, c.weights = weights; });
    };
    mixed(Kind::kLines, {0, 128, 127});
    mixed(Kind::kLines, {0, 129, 128});
    mixed(Kind::kLines, {1, 128, 127});
    mixed(Kind::kLines, {0, 128, 128, 0});
    mixed(Kind::kMultipliers, {0, 255});
    mixed(Kind::kMoments, {0, 128, 128});
    refused(Kind::kLines, [](ProofClosing& c) { c.below = 1, c.weights = {0, 128, 128}; });
    refused(Kind::kMoments, [](ProofClosing& c) { c.multipliers[0] = std::nanf(""); });
    refused(Kind::kMoments, [](ProofClosing& c) { c.value = kInfinity; });
    refused(Kind::kWindows, [](ProofClosing& c) { c.cases.pop_back(); });
    refused(Kind::kIntervals, [](ProofClosing& c) { c.member = -1; });
    refused(Kind::kIntervals, [](ProofClosing& c) { c.band = ProofBand{1, 0.5}; });
    refused(Kind::kNoInput, [](ProofClosing& c) { c.member = -1, c.band = ProofBand{0, 1}; });
    EXPECT_FALSE(writer.Add(3, ProofSplit{}).ok()) << "no such class";
    EXPECT_FALSE(writer.Finish().ok()) << "something is missing";
  }
  EXPECT_EQ(files(), 0);
  EXPECT_EQ(ProofWriter::Create(folder / "none/proof", header).error().kind, ErrorKind::kIo);
}

// ---- a proof that can be checked by hand -------------------------------------------------------

// N: relu(x) - 0.5 against 0; the member relu(x - 0.3) - 0.5 against 0. They disagree where N's
// confidence is at most 0.3, reached at x = 0.8. With lambda 1, f - (g - e) = -delta + e for class
// 0 and delta + e for class 1, delta in [-0.3, 0]; no multipliers are needed.
class HandMadeProof : public testing::Test {
 protected:
  HandMadeProof() : run_(Make(0), {Make(-0.3F), Make(-0.3F)}), ensemble_(run_.Open()) {
    certificate_ = Claim(ensemble_, 0);
    certificate_.engine = Engine::kNative;
    certificate_.member_error = LargestMemberError(ensemble_);
    certificate_.classes[0].beta_upper = 0.300001;
    certificate_.classes[1].beta_upper = 1e-6;
    for (std::int32_t label = 0; label < 2; ++label) {
      contents_.push_back({label, {}});
      for (std::int32_t member = 0; member < 2; ++member) {
        contents_.back().content.closings.push_back(Closing(label, member));
      }
    }
  }
  ProofClosing Closing(std::int32_t label, std::int32_t member) const {
    ProofClosing closing;
    closing.member = member;
    closing.other = closing.below = 1 - label;
    closing.kind = Kind::kMultipliers;
    closing.value = certificate_.classes[label].beta_upper;
    closing.lambda = 1;
    closing.multipliers = {0, 0};
    return closing;
  }
  static Network Make(float bias) {
    return {Architecture::FromCanonical("1 > dense 1 > 2").value(), {1, bias, 1, 0, -0.5F, 0}};
  }
  std::string path() const { return folder_ / "proof"; }
  CheckReport Run() {
    WriteProof(path(), HeaderFor(certificate_), contents_);
    return CheckProof(certificate_, ensemble_, path()).value();
  }
  void ExpectRefused(const std::string& name, const std::string& why) {
    const CheckReport report = Run();
    ASSERT_NE(report.FirstProblem(), nullptr) << why;
    EXPECT_EQ(report.FirstProblem()->name, name);
    EXPECT_THAT(report.FirstProblem()->detail, HasSubstr(why));
  }

  TemporaryFolder folder_;
  ImportedRun run_;
  Ensemble ensemble_;
  Certificate certificate_;
  std::vector<LabelledContent> contents_;
};

TEST_F(HandMadeProof, IsAccepted) {
  EXPECT_TRUE(CheckBinding(certificate_, ensemble_).value().accepted());
  const CheckReport report = Run();
  EXPECT_TRUE(report.accepted()) << report.FirstProblem()->name << report.FirstProblem()->detail;
  EXPECT_THAT(CheckNamed(report, "proof of class 0")->detail,
              HasSubstr("0 splits, 2 closings, largest bound 0.3000"));
  ASSERT_NE(CheckNamed(report, "witness of class 1"), nullptr);
}

TEST_F(HandMadeProof, IsRefusedBelowTheTruth) {
  certificate_.classes[0].beta_upper = 0.299;
  ExpectRefused("proof of class 0", "member 0 against class 1 is left open in node 0");
  for (ProofClosing& closing : contents_[0].content.closings) closing.value = 0.299;
  ExpectRefused("proof of class 0",
                "node 0, member 0 against class 1: the bound by multipliers is 0.3000");
}

TEST_F(HandMadeProof, IsAcceptedByIntervalsAndByLines) {
  for (const Kind kind : {Kind::kIntervals, Kind::kLines}) {
    for (LabelledContent& of_class : contents_) {
      for (ProofClosing& closing : of_class.content.closings) {
        closing.kind = kind;
        closing.multipliers.clear();
      }
    }
    const CheckReport report = Run();
    EXPECT_TRUE(report.accepted()) << report.FirstProblem()->detail;
  }
}

TEST_F(HandMadeProof, AWitnessIsEvaluatedExactly) {
  certificate_.classes[0].witness = Witness{{0.75F}, 1, 1};
  certificate_.classes[0].beta_lower = 0.25;
  EXPECT_TRUE(Run().accepted());
  certificate_.classes[0].beta_lower = 0.25000000001;
  ExpectRefused("witness of class 0", "below beta_lower");
}

TEST_F(HandMadeProof, OfAnotherRunIsRefused) {
  WriteProof(path(), HeaderFor(certificate_), contents_);
  const auto refused = [&](const Certificate& other, const std::string& word) {
    const CheckReport report = CheckProof(other, ensemble_, path()).value();
    EXPECT_EQ(report.FirstProblem()->name, "proof file");
    EXPECT_THAT(report.FirstProblem()->detail, HasSubstr(word));
    EXPECT_EQ(CheckNamed(report, "proof of class 0")->outcome, Check::Outcome::kNotDone);
  };
  Certificate other = certificate_;
  other.member_error *= 2;
  refused(other, "another members' error");
  other = certificate_;
  other.network_digest = Sha256Of("another");
  refused(other, "another network");
  other = certificate_;
  other.ensemble_digest = Sha256Of("another");
  refused(other, "another ensemble");
  EXPECT_EQ(CheckProof(certificate_, ensemble_, folder_ / "none").error().kind, ErrorKind::kIo);
}

TEST_F(HandMadeProof, AClassWithoutProofIsNotDone) {
  contents_.pop_back();
  ExpectRefused("proof of class 1", "no proof of this class");
  certificate_.classes[1].beta_upper = kInfinity;
  const CheckReport report = Run();
  EXPECT_TRUE(report.accepted());
  EXPECT_THAT(CheckNamed(report, "proof of class 1")->detail, HasSubstr("nothing is claimed"));
}

TEST_F(HandMadeProof, EveryChangedByteIsNoticed) {
  WriteProof(path(), HeaderFor(certificate_), contents_);
  const std::string good = ReadTextFile(path()).value();
  ASSERT_TRUE(ProofFile::Parse(good, "proof").ok());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int bit : {0, 7}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      ASSERT_FALSE(ProofFile::Parse(bad, "proof").ok()) << "byte " << i;
    }
    ASSERT_FALSE(ProofFile::Parse(std::string_view(good).substr(0, i), "proof").ok());
  }
  EXPECT_FALSE(ProofFile::Parse(good + std::string(1, '\0'), "proof").ok());
}

// With the seal put right, what is left is noticed by the reader or changes nothing that is
// believed: the class, the bound and the tree are still checked.
TEST_F(HandMadeProof, EveryChangedByteUnderANewSealIsHarmless) {
  certificate_.classes[0].beta_upper = 0.2999;  // false: so no change of the file may be accepted
  certificate_.classes[1].beta_upper = 0;
  WriteProof(path(), HeaderFor(certificate_), contents_);
  const std::string good = ReadTextFile(path()).value();
  ASSERT_FALSE(CheckProof(certificate_, ensemble_, path()).value().accepted());
  for (std::size_t i = 0; i + 32 < good.size(); ++i) {
    for (const int bit : {0, 3, 6, 7}) {
      std::string bad = good.substr(0, good.size() - 32);
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const Digest seal = Sha256Of(bad);
      bad.append(reinterpret_cast<const char*>(seal.bytes.data()), seal.bytes.size());
      std::ofstream(path(), std::ios::binary) << bad;
      const Result<CheckReport> report = CheckProof(certificate_, ensemble_, path());
      ASSERT_TRUE(!report.ok() || !report->accepted()) << "byte " << i << ", bit " << bit;
    }
  }
}

TEST_F(HandMadeProof, InPartsIsAccepted) {
  WriteProof(folder_ / "0", HeaderFor(certificate_), {contents_[0]});
  WriteProof(folder_ / "1", HeaderFor(certificate_), {contents_[1]});
  const std::vector<std::string> parts = {folder_ / "0", folder_ / "1"};
  EXPECT_TRUE(CheckProof(certificate_, ensemble_, parts).value().accepted());
  EXPECT_FALSE(CheckProof(certificate_, ensemble_, parts[0]).value().accepted());
}

TEST_F(HandMadeProof, AMissingClosingIsRefusedAndARepeatedOneIsNot) {
  std::vector<ProofClosing>& closings = contents_[0].content.closings;
  closings.push_back(closings.front());
  EXPECT_TRUE(Run().accepted());
  closings.erase(closings.begin() + 1);
  ExpectRefused("proof of class 0", "member 1 against class 1 is left open in node 0");
}

TEST_F(HandMadeProof, ALieAboutEmptinessIsRefused) {
  ProofClosing& closing = contents_[1].content.closings[1];
  closing.kind = Kind::kNoInput;
  ExpectRefused("proof of class 1", "node 0, member 1 against class 0: said to leave no input");
  closing.member = ProofClosing::kEveryPair;
  closing.other = 0;
  ExpectRefused("proof of class 1", "node 0: said to hold no input");
}

// Bands: what is below `least` is not spoken of, so it has to be below the bound; what is above
// `most` has to be shown by another closing, here, above or below.
TEST_F(HandMadeProof, BandsAreChained) {
  std::vector<ProofClosing>& closings = contents_[0].content.closings;
  const std::vector<ProofClosing> good = closings;
  const auto with = [&](double least, double most) {
    closings = good;
    for (ProofClosing& closing : closings) closing.band = ProofBand{least, most};
  };
  with(0.3, kInfinity);
  EXPECT_TRUE(Run().accepted());
  with(0.31, kInfinity);
  ExpectRefused("proof of class 0", "member 0 against class 1 is left open");
  with(0.1, 0.4);
  ExpectRefused("proof of class 0", "member 0 against class 1 is left open");
  for (const double known : {0.4, 0.41}) {
    with(0.1, 0.4);
    for (ProofClosing more : good) {
      more.value = known;
      closings.push_back(more);
    }
    EXPECT_EQ(Run().accepted(), known <= 0.4) << known;
  }
}

TEST_F(HandMadeProof, TreesThatAreNoneAreRefused) {
  const std::vector<ProofClosing> closings = contents_[0].content.closings;
  const auto tree = [&](std::initializer_list<std::pair<std::uint64_t, std::uint64_t>> splits,
                        std::initializer_list<std::uint64_t> leaves, const std::string& why) {
    ProofContent& content = contents_[0].content;
    content = {};
    for (const auto& [node, first_child] : splits) {
      content.splits.push_back({node, How::kInput, 0, 0, 0.5, first_child});
    }
    for (const std::uint64_t leaf : leaves) {
      for (ProofClosing closing : closings) {
        closing.node = leaf;
        content.closings.push_back(closing);
      }
    }
    if (!why.empty()) return ExpectRefused("proof of class 0", why);
    const CheckReport report = Run();
    EXPECT_TRUE(report.accepted()) << report.FirstProblem()->detail;
  };
  tree({{0, 5}}, {6, 5}, "");
  tree({{0, 5}}, {6}, "member 0 against class 1 is left open in node 5");
  tree({{0, 5}}, {5}, "member 0 against class 1 is left open in node 6");
  tree({{0, 5}}, {5, 6, 9}, "nothing leads to node 9");
  tree({{0, 5}, {9, 11}}, {5, 6}, "nothing leads to node 9");
  tree({{0, 5}, {5, 5}}, {6}, "node 5 is a child of both node 0 and node 5");
  tree({{0, 5}, {6, 6}}, {5, 7}, "node 6 is a child of both node 0 and node 6");
  tree({{0, 5}, {5, 0}}, {5, 6}, "node 5 has the root as its child");
  // Two ways to cut one node: half of each shows nothing, all of either does.
  tree({{0, 5}, {0, 7}}, {5, 8}, "member 0 against class 1 is left open");
  tree({{0, 5}, {0, 7}}, {5, 8, 7}, "");
  tree({{0, 5}, {0, 7}}, {5, 6}, "");
  // A cycle beside the tree.
  tree({{0, 5}, {21, 22}, {22, 20}}, {5, 6}, "a cycle");
}

TEST_F(HandMadeProof, AWayThatIsTooLongIsRefused) {
  ProofContent& content = contents_[0].content;
  for (std::uint64_t n = 0; n < 4100; ++n) {
    content.splits.push_back({2 * n, How::kInput, 0, 0, 0.5, 2 * n + 1});
  }
  ExpectRefused("proof of class 0", "too far from the root");
}

TEST_F(HandMadeProof, RecordsThatDoNotFitTheRunAreRefused) {
  const ProofContent good = contents_[0].content;
  const auto refused = [&](const auto& spoil, const std::string& why) {
    contents_[0].content = good;
    spoil(contents_[0].content.closings[0]);
    ExpectRefused("proof file", why);
  };
  refused([](ProofClosing& c) { c.member = 2; }, "it closes member 2, there are 2");
  refused([](ProofClosing& c) { c.other = 0; }, "it closes class 0 against 0");
  refused([](ProofClosing& c) { c.below = 0; }, "it measures class 0 against 0");
  refused([](ProofClosing& c) { c.below = 2; }, "it measures class 0 against 2");
  refused([](ProofClosing& c) { c.multipliers.push_back(0); },
          "member 0 has 3 multipliers, a network of this run has 2");
  refused([](ProofClosing& c) { c.kind = Kind::kMoments; },
          "member 0 has 2 multipliers, a network of this run has 11");
  const auto split = [&](How how, std::int32_t layer, std::int32_t unit, const std::string& why) {
    contents_[0].content = good;
    contents_[0].content.splits = {{0, how, layer, unit, 0, 1}};
    ExpectRefused("proof file", why);
  };
  split(How::kMemberPhase, 1, 0, "it splits layer 1, there are 1");
  split(How::kNetworkPhase, 0, 1, "it splits unit 1, there are 1");
  split(How::kInput, 0, 1, "it splits input 1, there are 1");
}

// ---- proofs with splits ------------------------------------------------------------------------

// The architecture, and whether phases are split and bands used.
class SearchedProof : public testing::TestWithParam<std::tuple<const char*, bool, bool>> {
 protected:
  SearchedProof()
      : run_(UndecidedRun(std::get<0>(GetParam()), 11, 5, 0.3)), ensemble_(run_.Open()) {
    certificate_ = UnprovedCertificate(ensemble_);
    certificate_.engine = Engine::kNative;
    certificate_.member_error = LargestMemberError(ensemble_);
    for (ClassBound& bound : certificate_.classes) {
      const double root = RootBound(ensemble_, bound.label, certificate_.member_error);
      for (const double share : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.01}) {
        Proved proved =
            Prove(ensemble_, bound.label, certificate_.member_error,
                  {share * root, 400, std::get<1>(GetParam()), std::get<2>(GetParam())});
        if (proved.content.closings.empty()) continue;
        bound.beta_upper = proved.largest;
        contents_.push_back({bound.label, std::move(proved.content)});
        break;
      }
    }
  }
  void SetUp() override {
    // The prover of these tests is weaker than the engine: without bands it closes nothing of the
    // deepest network.
    if (contents_.empty()) GTEST_SKIP() << "the tests' own prover found no proof";
  }
  CheckReport Run(int threads = 0) {
    WriteProof(folder_ / "proof", HeaderFor(certificate_), contents_);
    return CheckProof(certificate_, ensemble_, folder_ / "proof", {threads}).value();
  }
  // A closing by multipliers that is not of the root.
  std::pair<LabelledContent*, ProofClosing*> SomeClosing() {
    for (LabelledContent& of_class : contents_) {
      for (ProofClosing& closing : of_class.content.closings) {
        if (closing.kind == Kind::kMultipliers && closing.node > 0) return {&of_class, &closing};
      }
    }
    return {nullptr, nullptr};
  }
  static std::string WhereIs(const ProofClosing& closing) {
    return "node " + std::to_string(closing.node) + ", member " + std::to_string(closing.member) +
           " against class " + std::to_string(closing.other);
  }
  void ExpectRefused(std::int32_t label, const std::string& why) {
    const CheckReport report = Run();
    ASSERT_NE(report.FirstProblem(), nullptr) << why;
    EXPECT_EQ(report.FirstProblem()->name, "proof of class " + std::to_string(label));
    EXPECT_THAT(report.FirstProblem()->detail, HasSubstr(why));
    for (const int threads : {1, 3}) {
      EXPECT_EQ(Run(threads).FirstProblem()->detail, report.FirstProblem()->detail);
    }
  }

  TemporaryFolder folder_;
  ImportedRun run_;
  Ensemble ensemble_;
  Certificate certificate_;
  std::vector<LabelledContent> contents_;
};

TEST_P(SearchedProof, IsAcceptedInAnyOrderAndOnAnyNumberOfThreads) {
  const CheckReport report = Run(1);
  ASSERT_TRUE(report.accepted()) << report.FirstProblem()->name << report.FirstProblem()->detail;
  std::size_t splits = 0;  // a class that needs none may have no content either
  for (const LabelledContent& of_class : contents_) splits += of_class.content.splits.size();
  if (!std::get<2>(GetParam())) EXPECT_GT(splits, 3U);  // bands may need none
  for (LabelledContent& of_class : contents_) {
    std::ranges::reverse(of_class.content.splits);
    std::ranges::reverse(of_class.content.closings);
  }
  const CheckReport again = Run(3);
  ASSERT_TRUE(again.accepted());
  for (std::size_t i = 0; i < report.checks.size(); ++i) {
    EXPECT_EQ(report.checks[i].detail, again.checks[i].detail);
  }
}

// A bound below a leak that is there is refused, whatever the closings say.
TEST_P(SearchedProof, ABoundBelowALeakIsRefused) {
  const FalsifyReport found = Falsify(certificate_, ensemble_, {.starts = 500}).value();
  for (LabelledContent& of_class : contents_) {
    const std::optional<Leak>& leak = found.largest[static_cast<std::size_t>(of_class.label)];
    if (!leak) continue;
    ClassBound& bound = certificate_.classes[of_class.label];
    const LabelledContent good = of_class;
    const std::string name = "proof of class " + std::to_string(bound.label);
    const double beta = bound.beta_upper;
    bound.beta_upper = 0.99 * leak->confidence;
    EXPECT_THAT(CheckNamed(Run(), name)->detail,
                testing::ContainsRegex("member [0-9]+ against class [0-9] is left open"));
    // Now the closings lie, too.
    for (ProofClosing& closing : of_class.content.closings) {
      closing.value = std::min(closing.value, bound.beta_upper);
      if (closing.band) closing.band->least = std::min(closing.band->least, bound.beta_upper);
    }
    EXPECT_EQ(CheckNamed(Run(), name)->outcome, Check::Outcome::kFailed);
    bound.beta_upper = beta;
    of_class = good;
  }
}

// Without bands the largest bound is what the closings show, and no less. (In a band N alone may
// leave no input, and then closings of pairs say nothing more.)
TEST_P(SearchedProof, ABoundOnePercentLowerIsRefused) {
  if (std::get<2>(GetParam())) GTEST_SKIP() << "with bands more may be shown than is said";
  for (LabelledContent& of_class : contents_) {
    ClassBound& bound = certificate_.classes[of_class.label];
    const LabelledContent good = of_class;
    const std::string name = "proof of class " + std::to_string(bound.label);
    const double beta = bound.beta_upper;
    bound.beta_upper *= 0.99;
    EXPECT_THAT(CheckNamed(Run(), name)->detail,
                testing::ContainsRegex("member [0-9]+ against class [0-9] is left open"));
    // Now the closings lie, too.
    for (ProofClosing& closing : of_class.content.closings) {
      closing.value = std::min(closing.value, bound.beta_upper);
      if (closing.band) closing.band->least = std::min(closing.band->least, bound.beta_upper);
    }
    const CheckReport report = Run();
    EXPECT_EQ(CheckNamed(report, name)->outcome, Check::Outcome::kFailed);
    EXPECT_THAT(
        CheckNamed(report, name)->detail,
        testing::ContainsRegex("node [0-9]+, member [0-9]+ against class [0-9]: the bound by"));
    bound.beta_upper = beta;
    of_class = good;
  }
}

// Where the member always agrees a larger lambda is as good, and where N is not sure none is
// needed: not every change is refused, but those that are name the place.
TEST_P(SearchedProof, AnotherLambdaIsRefusedWhereItMatters) {
  int refused = 0;
  for (LabelledContent& of_class : contents_) {
    for (ProofClosing& closing : of_class.content.closings) {
      if (closing.kind == Kind::kNoInput || refused > 3) continue;
      const ProofClosing good = closing;
      for (const double lambda : {0.0, 1e6}) {
        closing.lambda = lambda;
        const CheckReport report = Run();
        if (report.accepted()) continue;
        EXPECT_THAT(report.FirstProblem()->detail, HasSubstr(WhereIs(closing)));
        ++refused;
      }
      closing = good;
    }
  }
  if (!std::get<2>(GetParam()) && !contents_.empty()) EXPECT_GT(refused, 0);
}

TEST_P(SearchedProof, ChangedMultipliersAreRefusedByName) {
  const auto [of_class, closing] = SomeClosing();
  if (closing == nullptr) GTEST_SKIP() << "no multipliers below the root";
  const ProofClosing good = *closing;
  // Of the first layer, whose sums have a range; behind a dead neuron any multiplier would do.
  for (const float by : {1e6F, -1e6F}) {
    closing->multipliers.front() += by;
    ExpectRefused(of_class->label, WhereIs(*closing));
    *closing = good;
  }
  closing->kind = Kind::kNoInput;
  ExpectRefused(of_class->label, WhereIs(*closing));
  *closing = good;
  closing->node = 0;
  EXPECT_FALSE(Run().accepted()) << "a closing of a smaller region";
  *closing = good;
  EXPECT_TRUE(Run().accepted());
}

TEST_P(SearchedProof, AMissingClosingOrSplitIsRefused) {
  if (std::get<2>(GetParam())) GTEST_SKIP() << "with bands some closings may not be needed";
  for (LabelledContent& of_class : contents_) {
    const ProofContent good = of_class.content;
    for (const std::size_t at : {std::size_t{0}, good.closings.size() / 2}) {
      of_class.content.closings.erase(of_class.content.closings.begin() +
                                      static_cast<std::ptrdiff_t>(at));
      EXPECT_FALSE(Run().accepted());
      of_class.content = good;
    }
    if (good.splits.empty()) continue;
    of_class.content.splits.pop_back();
    EXPECT_FALSE(Run().accepted());
    of_class.content = good;
  }
  EXPECT_TRUE(Run().accepted());
}

TEST_P(SearchedProof, AnotherSplitPointIsRefused) {
  int splits = 0, refused = 0;
  for (LabelledContent& of_class : contents_) {
    for (ProofSplit& split : of_class.content.splits) {
      if (split.how != How::kInput || splits > 4) continue;
      ++splits;
      const double good = split.at;
      // All of the region on one side, which therefore is as hard as its parent.
      for (const double at : {-1.0, 2.0}) {
        split.at = at;
        refused += Run().accepted() ? 0 : 1;
      }
      split.at = good;
    }
  }
  if (splits == 0) GTEST_SKIP() << "no input was split";
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(Run().accepted());
}

TEST_P(SearchedProof, AStopIsAnError) {
  WriteProof(folder_ / "proof", HeaderFor(certificate_), contents_);
  std::stop_source stop;
  stop.request_stop();
  const auto report =
      CheckProof(certificate_, ensemble_, folder_ / "proof", {}, {}, stop.get_token());
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::kInterrupted);
}

INSTANTIATE_TEST_SUITE_P(Networks, SearchedProof,
                         testing::Combine(testing::Values("2 > dense 4 > dense 4 > 2",
                                                          "3 > dense 5 > dense 4 > 3",
                                                          "2 > dense 4 > dense 4 > dense 4 > 2"),
                                          testing::Bool(), testing::Bool()));

}  // namespace
}  // namespace lucid
