// Proofs that hold are accepted; every way to spoil one is refused, and the report names the node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "certificate/proof_reader.h"
#include "lucid/certificate/check.h"
#include "proof/prover.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using enum ProofNode::Split;

std::vector<LabelledNode> ReadAll(const ProofFile& file) {
  std::vector<LabelledNode> nodes;
  for (std::size_t b = 0; b < file.blocks(); ++b) {
    std::vector<ProofPart> parts = file.ReadBlock(b).value();
    for (ProofPart& part : parts) {
      if (part.begins) {
        nodes.push_back({part.label, std::move(part.node)});
      } else {
        std::ranges::move(part.node.closings, std::back_inserter(nodes.back().node.closings));
      }
    }
  }
  return nodes;
}

void ExpectSame(const ProofNode& a, const ProofNode& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.split, b.split);
  EXPECT_EQ(a.layer, b.layer);
  EXPECT_EQ(a.unit, b.unit);
  EXPECT_EQ(a.at, b.at);
  EXPECT_EQ(a.first_child, b.first_child);
  ASSERT_EQ(a.closings.size(), b.closings.size());
  for (std::size_t i = 0; i < a.closings.size(); ++i) {
    const ProofClosing &x = a.closings[i], &y = b.closings[i];
    EXPECT_EQ(x.member, y.member);
    EXPECT_EQ(x.other, y.other);
    EXPECT_EQ(x.below, y.below);
    EXPECT_EQ(x.empty, y.empty);
    EXPECT_EQ(x.lambda, y.lambda);
    EXPECT_EQ(x.dual, y.dual);
  }
}

const Check* CheckNamed(const CheckReport& report, const std::string& name) {
  const auto at = std::ranges::find(report.checks, name, &Check::name);
  return at == report.checks.end() ? nullptr : &*at;
}

// ---- the file ----------------------------------------------------------------------------------

TEST(ProofFileTest, BringsBackWhatWasWritten) {
  TemporaryFolder folder;
  Stream stream(3, "proof round trip");
  std::vector<LabelledNode> nodes;
  for (std::uint64_t n = 0; n < 300; ++n) {
    LabelledNode item{static_cast<std::int32_t>(stream.Below(3)), {}};
    item.node.id = stream.Below(1ull << 60);
    item.node.split = static_cast<ProofNode::Split>(stream.Below(4));
    if (item.node.split != kNone) {
      item.node.unit = static_cast<std::int32_t>(stream.Below(50));
      item.node.first_child = stream.Below(1ull << 60);
      if (item.node.split == kInput) {
        item.node.at = stream.Uniform();
      } else {
        item.node.layer = static_cast<std::int32_t>(stream.Below(4));
      }
    }
    for (std::uint64_t i = n == 7 ? 2000 : stream.Below(4); i > 0; --i) {
      ProofClosing closing{static_cast<std::int32_t>(stream.Below(9000)),
                           static_cast<std::int32_t>(stream.Below(3)),
                           stream.Below(3) == 0,
                           0,
                           {}};
      if (!closing.empty) {
        closing.below = static_cast<std::int32_t>(stream.Below(3));
        closing.lambda = stream.Uniform();
        for (int k = 0; k < 40; ++k) {
          closing.dual.push_back(stream.Below(2) == 0 ? 0 : static_cast<float>(stream.Normal()));
        }
      }
      item.node.closings.push_back(closing);
    }
    nodes.push_back(item);
  }
  const ProofHeader header{Sha256Of("network"), Sha256Of("ensemble"), 0x1.8p-40, 3};
  WriteProof(folder / "proof", header, nodes);
  const ProofFile file = ProofFile::Open(folder / "proof").value();
  EXPECT_EQ(file.header().network_digest, header.network_digest);
  EXPECT_EQ(file.header().ensemble_digest, header.ensemble_digest);
  EXPECT_EQ(file.header().member_error, header.member_error);
  EXPECT_EQ(file.header().classes, 3);
  EXPECT_GT(file.blocks(), 3U) << "a node with many closings goes over several blocks";
  const std::vector<LabelledNode> back = ReadAll(file);
  ASSERT_EQ(back.size(), nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    EXPECT_EQ(back[n].label, nodes[n].label);
    ExpectSame(back[n].node, nodes[n].node);
  }
}

TEST(ProofFileTest, LeavesNothingBehindUnlessItIsFinished) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "here");
  const auto files = [&] {
    const auto list = std::filesystem::directory_iterator(folder / "here");
    return std::distance(begin(list), end(list));
  };
  const ProofHeader header{{}, {}, 0, 2};
  {
    ProofWriter writer = ProofWriter::Create(folder / "here/proof", header).value();
    EXPECT_TRUE(writer.Add(0, {}).ok());
    EXPECT_EQ(files(), 1);
    EXPECT_FALSE(std::filesystem::exists(folder / "here/proof"));
  }
  EXPECT_EQ(files(), 0);
  {
    ProofWriter writer = ProofWriter::Create(folder / "here/proof", header).value();
    ProofNode bad;
    bad.closings.push_back({0, 1, false, -1, {}, 1});
    EXPECT_FALSE(writer.Add(0, bad).ok()) << "a negative lambda";
    bad.closings = {{0, 1, false, 1, {}}};
    EXPECT_FALSE(writer.Add(0, bad).ok()) << "N against no class";
    EXPECT_FALSE(writer.Add(2, {}).ok()) << "no such class";
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
    certificate_.engine = "native";
    certificate_.member_error = LargestMemberError(ensemble_);
    certificate_.classes[0].beta_upper = 0.300001;
    certificate_.classes[1].beta_upper = 1e-6;
    for (std::int32_t label = 0; label < 2; ++label) {
      ProofNode root;
      for (std::int32_t member = 0; member < 2; ++member) {
        root.closings.push_back({member, 1 - label, false, 1, {0, 0}, 1 - label});
      }
      nodes_.push_back({label, root});
    }
  }
  static Network Make(float bias) {
    return {Architecture::FromCanonical("1 > dense 1 > 2").value(), {1, bias, 1, 0, -0.5F, 0}};
  }
  std::string path() const { return folder_ / "proof"; }
  CheckReport Run() {
    WriteProof(path(), HeaderFor(certificate_), nodes_);
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
  std::vector<LabelledNode> nodes_;
};

TEST_F(HandMadeProof, IsAccepted) {
  EXPECT_TRUE(CheckBinding(certificate_, ensemble_).value().accepted());
  const CheckReport report = Run();
  EXPECT_TRUE(report.accepted()) << report.FirstProblem()->name << report.FirstProblem()->detail;
  EXPECT_THAT(CheckNamed(report, "proof of class 0")->detail,
              HasSubstr("1 nodes, 2 closings, largest bound 0.3000"));
  ASSERT_NE(CheckNamed(report, "witness of class 1"), nullptr);
}

TEST_F(HandMadeProof, IsRefusedBelowTheTruth) {
  certificate_.classes[0].beta_upper = 0.299;
  ExpectRefused("proof of class 0", "node 0, member 0 against class 1: the bound is 0.3000");
}

TEST_F(HandMadeProof, AWitnessIsEvaluatedExactly) {
  certificate_.classes[0].witness = Witness{{0.75F}, 1, 1};
  certificate_.classes[0].beta_lower = 0.25;
  EXPECT_TRUE(Run().accepted());
  certificate_.classes[0].beta_lower = 0.25000000001;
  ExpectRefused("witness of class 0", "below beta_lower");
}

TEST_F(HandMadeProof, OfAnotherRunIsRefused) {
  WriteProof(path(), HeaderFor(certificate_), nodes_);
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
  nodes_.pop_back();
  ExpectRefused("proof of class 1", "no proof of this class");
  certificate_.classes[1].beta_upper = kInf;
  const CheckReport report = Run();
  EXPECT_TRUE(report.accepted());
  EXPECT_THAT(CheckNamed(report, "proof of class 1")->detail, HasSubstr("nothing is claimed"));
}

TEST_F(HandMadeProof, EveryChangedByteIsNoticed) {
  WriteProof(path(), HeaderFor(certificate_), nodes_);
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
  WriteProof(path(), HeaderFor(certificate_), nodes_);
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

TEST_F(HandMadeProof, AMissingOrRepeatedClosingIsRefused) {
  ProofNode& root = nodes_[0].node;
  const ProofClosing last = root.closings.back();
  root.closings.pop_back();
  ExpectRefused("proof of class 0", "node 0 is a leaf and leaves member 1 against class 1 open");
  root.closings = {last, last};
  ExpectRefused("proof of class 0", "node 0 closes member 1 against class 1, which is closed");
}

TEST_F(HandMadeProof, ALieAboutEmptinessIsRefused) {
  nodes_[1].node.closings[1] = {1, 0, true, 0, {}};
  ExpectRefused("proof of class 1", "node 0, member 1 against class 0: said to leave no input");
}

TEST_F(HandMadeProof, TreesThatAreNoneAreRefused) {
  const std::vector<ProofClosing> closings = nodes_[0].node.closings;
  const auto node = [&](std::uint64_t id, std::uint64_t first_child) {
    ProofNode result;
    result.id = id;
    if (first_child == 0) {
      result.closings = closings;
      return result;
    }
    result.split = kInput;
    result.at = 0.5;
    result.first_child = first_child;
    return result;
  };
  const auto refused = [&](std::vector<ProofNode> tree, const std::string& why) {
    nodes_.resize(2);
    const LabelledNode other = nodes_[1];
    nodes_.clear();
    for (ProofNode& item : tree) nodes_.push_back({0, std::move(item)});
    nodes_.push_back(other);
    if (why.empty()) {
      const CheckReport report = Run();
      EXPECT_TRUE(report.accepted()) << report.FirstProblem()->detail;
    } else {
      ExpectRefused("proof of class 0", why);
    }
    nodes_ = {{0, {}}, other};
  };
  refused({node(0, 5), node(6, 0), node(5, 0)}, "");
  refused({node(0, 5), node(6, 0)}, "node 0 has no first child, but there may be inputs");
  refused({node(0, 5), node(5, 0)}, "node 0 has no second child");
  refused({node(0, 5), node(5, 0), node(6, 0), node(5, 0)}, "node 5 is there twice");
  refused({node(0, 5), node(5, 0), node(6, 0), node(9, 0)}, "nothing leads to node 9");
  refused({node(5, 0), node(6, 0)}, "no node 0");
  refused({node(0, 5), node(5, 5), node(6, 0)}, "node 5 is a child of both");
  refused({node(0, 1), node(1, 1)}, "node 1 is a child of both");
  ProofNode root_below = node(0, 5);
  ProofNode cycle = node(5, 1);
  cycle.first_child = 0;
  refused({root_below, cycle, node(6, 0)}, "node 5 has the root as its child");
}

TEST_F(HandMadeProof, ACycleBesideTheTreeIsRefused) {
  ProofNode a, b;
  a.id = 7, a.split = kInput, a.at = 0.5, a.first_child = 20;
  b.id = 20, b.split = kInput, b.at = 0.5, b.first_child = 6;
  nodes_.insert(nodes_.begin() + 1, {{0, a}, {0, b}});
  ExpectRefused("proof of class 0", "a cycle");
}

TEST_F(HandMadeProof, RecordsThatDoNotFitTheRunAreRefused) {
  const ProofNode good = nodes_[0].node;
  const auto refused = [&](const std::string& why) {
    ExpectRefused("proof file", why);
    nodes_[0].node = good;
  };
  nodes_[0].node.closings[0].member = 2;
  refused("it closes member 2, there are 2");
  nodes_[0].node.closings[0].other = 0;
  refused("it closes class 0 against 0");
  for (const std::int32_t below : {0, 2}) {
    nodes_[0].node.closings[0].below = below;
    refused("it measures class 0 against " + std::to_string(below));
  }
  nodes_[0].node.closings[0].dual = {0, 0, 0};
  refused("member 0 has 3 multipliers, a network of this run has 2");
  nodes_[0].node.split = kMemberPhase, nodes_[0].node.layer = 1;
  refused("it splits layer 1, there are 1");
  nodes_[0].node.split = kNetworkPhase, nodes_[0].node.unit = 1;
  refused("it splits unit 1, there are 1");
  nodes_[0].node.split = kInput, nodes_[0].node.unit = 1;
  refused("it splits input 1, there are 1");
}

// ---- proofs with splits ------------------------------------------------------------------------

class SearchedProof : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  SearchedProof()
      : run_(UndecidedRun(std::get<0>(GetParam()), 11, 5, 0.3)), ensemble_(run_.Open()) {
    certificate_ = UnprovedCertificate(ensemble_);
    certificate_.engine = "native";
    certificate_.member_error = LargestMemberError(ensemble_);
    for (ClassBound& bound : certificate_.classes) {
      const double root = RootBound(ensemble_, bound.label, certificate_.member_error);
      for (const double share : {0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.01}) {
        const Proved proved = Prove(ensemble_, bound.label, certificate_.member_error,
                                    {share * root, 400, std::get<1>(GetParam())});
        if (proved.nodes.empty()) continue;
        bound.beta_upper = proved.largest * (1 + 1e-9);  // as an engine does
        for (const ProofNode& node : proved.nodes) nodes_.push_back({bound.label, node});
        break;
      }
    }
  }
  CheckReport Run(int threads = 0) {
    WriteProof(folder_ / "proof", HeaderFor(certificate_), nodes_);
    return CheckProof(certificate_, ensemble_, folder_ / "proof", {threads}).value();
  }
  // A closing by multipliers, and its node.
  std::pair<LabelledNode*, ProofClosing*> SomeClosing(bool inner_only = false) {
    for (auto item = nodes_.rbegin(); item != nodes_.rend(); ++item) {
      if (inner_only && item->node.id == 0) continue;
      for (ProofClosing& closing : item->node.closings) {
        if (!closing.empty) return {&*item, &closing};
      }
    }
    return {nullptr, nullptr};
  }
  static std::string WhereIs(const LabelledNode& item, const ProofClosing& closing) {
    return "node " + std::to_string(item.node.id) + ", member " + std::to_string(closing.member) +
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
  std::vector<LabelledNode> nodes_;
};

TEST_P(SearchedProof, IsAcceptedInAnyOrderAndOnAnyNumberOfThreads) {
  const CheckReport report = Run(1);
  ASSERT_TRUE(report.accepted()) << report.FirstProblem()->name << report.FirstProblem()->detail;
  EXPECT_GT(nodes_.size(), 5U);
  std::ranges::reverse(nodes_);
  const CheckReport again = Run(3);
  ASSERT_TRUE(again.accepted());
  for (std::size_t i = 0; i < report.checks.size(); ++i) {
    EXPECT_EQ(report.checks[i].detail, again.checks[i].detail);
  }
}

TEST_P(SearchedProof, ABoundOnePercentLowerIsRefused) {
  for (ClassBound& bound : certificate_.classes) {
    const double good = bound.beta_upper;
    bound.beta_upper *= 0.99;
    const CheckReport report = Run();
    const Check* check = CheckNamed(report, "proof of class " + std::to_string(bound.label));
    EXPECT_EQ(check->outcome, Check::Outcome::kFailed) << check->detail;
    EXPECT_THAT(check->detail, testing::ContainsRegex("node [0-9]+, member [0-9]+ against class"));
    bound.beta_upper = good;
  }
}

// Where the member always agrees a larger lambda is as good, and where N is not sure none is
// needed: not every change is refused, but those that are name the place.
TEST_P(SearchedProof, AnotherLambdaIsRefusedWhereItMatters) {
  int refused = 0;
  for (LabelledNode& item : nodes_) {
    for (ProofClosing& closing : item.node.closings) {
      if (closing.empty || refused > 3) continue;
      const ProofClosing good = closing;
      for (const double lambda : {0.0, 1e6}) {
        closing.lambda = lambda;
        const CheckReport report = Run();
        if (report.accepted()) continue;
        EXPECT_THAT(report.FirstProblem()->detail, HasSubstr(WhereIs(item, closing)));
        ++refused;
      }
      closing = good;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_P(SearchedProof, ChangedMultipliersAreRefusedByName) {
  const auto [item, closing] = SomeClosing(true);
  ASSERT_NE(item, nullptr);
  const ProofClosing good = *closing;
  // Of the first layer, whose sums have a range; behind a dead neuron any multiplier would do.
  closing->dual.front() += 1e6F;
  ExpectRefused(item->label, WhereIs(*item, *closing));
  *closing = good;
  closing->dual.front() -= 1e6F;
  ExpectRefused(item->label, WhereIs(*item, *closing));
  *closing = good;
  closing->empty = true;
  ExpectRefused(item->label, WhereIs(*item, *closing));
  *closing = good;
  EXPECT_TRUE(Run().accepted());
}

TEST_P(SearchedProof, AMissingClosingChildOrSplitIsRefused) {
  const auto [item, closing] = SomeClosing(true);
  ASSERT_NE(item, nullptr);
  const LabelledNode good = *item;
  item->node.closings.erase(item->node.closings.begin() + (closing - item->node.closings.data()));
  const CheckReport report = Run();
  EXPECT_FALSE(report.accepted());
  *item = good;
  ASSERT_TRUE(Run().accepted());
  // A leaf away: its parent has one child only.
  const auto leaf = std::ranges::find_if(
      nodes_, [](const LabelledNode& n) { return n.node.split == kNone && n.node.id != 0; });
  ASSERT_NE(leaf, nodes_.end());
  const LabelledNode kept = *leaf;
  const auto parent = std::ranges::find_if(nodes_, [&](const LabelledNode& n) {
    return n.label == kept.label && n.node.split != kNone &&
           (n.node.first_child == kept.node.id || n.node.first_child + 1 == kept.node.id);
  });
  const std::string name = "node " + std::to_string(parent->node.id) + " has no ";
  nodes_.erase(leaf);
  ExpectRefused(kept.label, name);
}

TEST_P(SearchedProof, AnotherSplitPointIsRefused) {
  const auto item =
      std::ranges::find_if(nodes_, [](const LabelledNode& n) { return n.node.split == kInput; });
  if (item == nodes_.end()) GTEST_SKIP() << "no input was split";
  const double good = item->node.at;
  // All of the region on one side, which therefore is as hard as its parent.
  int refused = 0;
  for (const double at : {-1.0, 2.0}) {
    item->node.at = at;
    const CheckReport report = Run();
    refused += report.accepted() ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
  item->node.at = good;
  EXPECT_TRUE(Run().accepted());
}

TEST_P(SearchedProof, AStopIsAnError) {
  WriteProof(folder_ / "proof", HeaderFor(certificate_), nodes_);
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
                                          testing::Bool()));

}  // namespace
}  // namespace lucid
