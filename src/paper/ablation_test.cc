#include "lucid/paper/ablation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "certificate/test_support.h"
#include "paper/test_support.h"

namespace lucid {
namespace {

TEST(Variants, HaveNamesThatAreReadBack) {
  for (const Variant variant : kVariants) {
    const auto named = VariantNamed(NameOf(variant));
    ASSERT_TRUE(named.ok());
    EXPECT_EQ(*named, variant);
  }
  for (const char* name : {"", "hm", "Full", "HMBRiS", "naive "}) {
    EXPECT_FALSE(VariantNamed(name).ok()) << name;
  }
}

// Table 4 of the paper, row by row: hyper-network, matching dependencies, relax-if-similar, BaB.
TEST(Variants, AreMadeOfThePartsThePaperSays) {
  const auto parts = [](Variant v) {
    return std::vector<bool>{UsesHyperNetwork(v), UsesMatchingDependencies(v),
                             UsesRelaxIfSimilar(v), UsesBranchAndBound(v)};
  };
  EXPECT_EQ(parts(Variant::kNaive), (std::vector{false, false, false, false}));
  EXPECT_EQ(parts(Variant::kH), (std::vector{true, false, false, false}));
  EXPECT_EQ(parts(Variant::kHM), (std::vector{true, true, false, false}));
  EXPECT_EQ(parts(Variant::kHMRiS), (std::vector{true, true, true, false}));
  EXPECT_EQ(parts(Variant::kHMB), (std::vector{true, true, false, true}));
  EXPECT_EQ(parts(Variant::kFull), (std::vector{true, true, true, true}));
}

TEST(MilpBoundOptions, ValidateNamesTheFieldThatIsOutOfRange) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(MilpBoundOptions().Validate(2).ok());
  const auto refused = [](const char* field, auto change) {
    MilpBoundOptions options;
    change(options);
    const Status status = options.Validate(3);
    ASSERT_FALSE(status.ok()) << field;
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalidInput);
    EXPECT_NE(status.error().message.find(field), std::string::npos) << status.error().message;
  };
  for (const double bad : {-1e-9, kNan, 1e300}) {
    refused("tau", [&](auto& o) { o.tau = bad; });
    refused("gap", [&](auto& o) { o.common.gap = bad; });
  }
  for (const double bad : {0.0, -1.0, kNan}) {
    refused("time-limit", [&](auto& o) { o.common.time_limit = bad; });
    refused("class-limit", [&](auto& o) { o.common.class_limit = bad; });
    refused("subset-limit", [&](auto& o) { o.subset_limit = bad; });
  }
  for (const std::int32_t bad : {-1, 3}) refused("class", [&](auto& o) { o.common.label = bad; });
  MilpBoundOptions last;
  last.common.label = 2;
  last.common.gap = last.tau = 0;
  EXPECT_TRUE(last.Validate(3).ok());
}

TEST(MilpBoundOptions, CanonicalIsWhatDeterminesTheBoundsAndNoMore) {
  const MilpBoundOptions plain;
  const auto differs = [&](auto change) {
    MilpBoundOptions options;
    change(options);
    return options.Canonical() != plain.Canonical();
  };
  EXPECT_TRUE(differs([](auto& o) { o.variant = Variant::kHMB; }));
  EXPECT_TRUE(differs([](auto& o) { o.tau = std::nextafter(o.tau, 1); }));
  EXPECT_TRUE(differs([](auto& o) { o.common.gap = std::nextafter(o.common.gap, 1); }));
  EXPECT_TRUE(differs([](auto& o) { o.tighten = !o.tighten; }));
  EXPECT_TRUE(differs([](auto& o) { o.common.seed = 1; }));
  EXPECT_FALSE(differs([](auto& o) { o.common.time_limit = 1; }));
  EXPECT_FALSE(differs([](auto& o) { o.common.class_limit = 1; }));
  EXPECT_FALSE(differs([](auto& o) { o.subset_limit = 1; }));
  EXPECT_FALSE(differs([](auto& o) { o.common.threads = 7; }));
  EXPECT_FALSE(differs([](auto& o) { o.common.journal = "file"; }));
  EXPECT_FALSE(differs([](auto& o) { o.common.resume = true; }));
  EXPECT_FALSE(differs([](auto& o) { o.common.command = {"lucid"}; }));
}

TEST(RunAblation, EveryVariantIsAtOrAboveTheBestWitnessOfAll) {
  Stream stream(2, "ablation");
  Network network = RandomNetwork(Hidden({{HiddenLayer::Kind::kDense, 3}}, 2, 2), stream);
  Balance(network, stream);
  const ImportedRun run(network, RandomMembers(network, 5, 0.1, stream));
  const Ensemble ensemble = run.Open();
  const TemporaryFolder folder;
  AblationOptions options;
  options.folder = folder / "variants";
  options.bound.common.threads = 1;
  const auto rows = RunAblation(ensemble, options);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows->size(), std::size(kVariants));
  double lower = 0;
  for (const AblationRow& row : *rows) {
    for (const ClassBound& bound : row.certificate.classes) {
      if (bound.label == 0) lower = std::max(lower, bound.beta_lower);
    }
  }
  EXPECT_GT(lower, 0);
  for (const AblationRow& row : *rows) {
    SCOPED_TRACE(NameOf(row.variant));
    EXPECT_GE(row.certificate.classes[0].beta_upper, lower);
    if (row.variant == Variant::kH) {
      EXPECT_GE(row.seconds_to_h[0], 0);
    }
  }
  // A second time everything is read from the folder.
  options.bound.common.resume = true;
  const auto again = RunAblation(ensemble, options);
  ASSERT_TRUE(again.ok()) << again.error().message;
  for (std::size_t r = 0; r < rows->size(); ++r) {
    EXPECT_EQ((*again)[r].certificate.seconds, (*rows)[r].certificate.seconds);
  }
}

}  // namespace
}  // namespace lucid
