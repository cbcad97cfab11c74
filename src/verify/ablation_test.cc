#include "lucid/verify/ablation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "certificate/test_support.h"
#include "verify/test_support.h"

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
    refused("gap", [&](auto& o) { o.gap = bad; });
  }
  for (const double bad : {0.0, -1.0, kNan}) {
    refused("time-limit", [&](auto& o) { o.time_limit = bad; });
    refused("class-limit", [&](auto& o) { o.class_limit = bad; });
    refused("subset-limit", [&](auto& o) { o.subset_limit = bad; });
  }
  for (const std::int32_t bad : {-1, 3}) refused("class", [&](auto& o) { o.label = bad; });
  MilpBoundOptions last;
  last.label = 2;
  last.gap = last.tau = 0;
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
  EXPECT_TRUE(differs([](auto& o) { o.gap = std::nextafter(o.gap, 1); }));
  EXPECT_TRUE(differs([](auto& o) { o.tighten = !o.tighten; }));
  EXPECT_TRUE(differs([](auto& o) { o.seed = 1; }));
  EXPECT_FALSE(differs([](auto& o) { o.time_limit = 1; }));
  EXPECT_FALSE(differs([](auto& o) { o.class_limit = 1; }));
  EXPECT_FALSE(differs([](auto& o) { o.subset_limit = 1; }));
  EXPECT_FALSE(differs([](auto& o) { o.threads = 7; }));
  EXPECT_FALSE(differs([](auto& o) { o.journal = "file"; }));
  EXPECT_FALSE(differs([](auto& o) { o.resume = true; }));
  EXPECT_FALSE(differs([](auto& o) { o.command = {"lucid"}; }));
}

// The mechanism's answers one by one: utility 1 for the predicted class and 0 for the others, so
// each class has weight e^(eps u / 2); the probability of the right one is added up.
double BySimulation(const Evaluator& network, const Certificate& certificate, const Table& test,
                    double epsilon) {
  const auto classes = static_cast<std::int32_t>(certificate.classes.size());
  double right = 0;
  for (std::int64_t i = 0; i < test.rows(); ++i) {
    const Decision decision = network.Decide(test.row(i));
    std::vector<double> weights;
    weights.reserve(static_cast<std::size_t>(classes));
    for (std::int32_t c = 0; c < classes; ++c) {
      weights.push_back(std::exp(epsilon * (c == decision.label ? 1 : 0) / 2));
    }
    if (decision.confidence - certificate.network_error >
        certificate.classes[decision.label].beta_upper) {
      weights.assign(weights.size(), 0);
      weights[decision.label] = 1;
    }
    double sum = 0;
    for (const double weight : weights) sum += weight;
    right += weights[test.y[i]] / sum;
  }
  return right / static_cast<double>(test.rows());
}

Table RandomTable(std::int64_t features, std::int32_t classes, std::int64_t rows, Stream& stream) {
  Table table;
  table.features = features;
  for (std::int64_t i = 0; i < rows * features; ++i) {
    table.x.push_back(static_cast<float>(stream.Uniform()));
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    table.y.push_back(static_cast<std::int32_t>(stream.Below(static_cast<std::uint64_t>(classes))));
  }
  return table;
}

TEST(ExpectedAccuracy, EqualsTheMechanismAnswerByAnswer) {
  for (const std::int32_t classes : {2, 3, 4}) {
    SCOPED_TRACE(testing::Message() << "seed 11, " << classes << " classes");
    Stream stream(11, "accuracy", static_cast<std::uint64_t>(classes));
    Network network = RandomNetwork(Hidden({{HiddenLayer::Kind::kDense, 5}}, 3, classes), stream);
    Balance(network, stream);
    const Evaluator evaluator(network);
    const Table test = RandomTable(3, classes, 200, stream);
    Certificate certificate = CertificateFor(network);
    for (const double beta : {0.0, 0.05, 0.2, 100.0, kInf}) {
      for (ClassBound& bound : certificate.classes) {
        bound.beta_upper = beta * (1 + 0.5 * bound.label);
      }
      for (const double epsilon : {0.0, 0.2, 1.0, 8.0}) {
        EXPECT_NEAR(ExpectedAccuracy(evaluator, certificate, test, epsilon),
                    BySimulation(evaluator, certificate, test, epsilon), 1e-12);
      }
    }
    // Everything is noised: with eps = 0 every class is as likely.
    EXPECT_NEAR(ExpectedAccuracy(evaluator, certificate, test, 0), 1.0 / classes, 1e-12);
    for (ClassBound& bound : certificate.classes) bound.beta_upper = 0;
    certificate.network_error = 0;
    EXPECT_NEAR(ExpectedAccuracy(evaluator, certificate, test, 0), Accuracy(evaluator, test),
                1e-12);
  }
}

// f = x - 0.5 exactly: the input whose confidence equals beta + error is noised, the next is not.
TEST(ExpectedAccuracy, NoisesUpToTheBoundIncludingTheForwardError) {
  const Network network = HandMade("1 > dense 1 > 2", {1, 0, 1, 0, -0.5F, 0});
  Certificate certificate = CertificateFor(network);
  certificate.network_error = 0.125;
  certificate.classes[0].beta_upper = 0.125;
  const Evaluator evaluator(network);
  const auto at = [&](float x) {
    return ExpectedAccuracy(evaluator, certificate, {1, {x}, {0}, 0}, 0);
  };
  EXPECT_EQ(at(0.75F), 0.5);
  EXPECT_EQ(at(std::nextafter(0.75F, 1.0F)), 1);
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
  options.bound.threads = 1;
  Table test = RandomTable(2, 2, 50, stream);
  for (std::int64_t i = 0; i < test.rows(); ++i) {  // so that noise can only do harm
    test.y[i] = Evaluator(network).Decide(test.row(i)).label;
  }
  const auto rows = RunAblation(ensemble, &test, options);
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
    EXPECT_TRUE(row.accuracy_0 > 0 && row.accuracy_0 <= row.accuracy_1);
    if (row.variant == Variant::kH) {
      EXPECT_GE(row.seconds_to_h[0], 0);
    }
  }
  // A second time everything is read from the folder.
  options.bound.resume = true;
  const auto again = RunAblation(ensemble, &test, options);
  ASSERT_TRUE(again.ok()) << again.error().message;
  for (std::size_t r = 0; r < rows->size(); ++r) {
    EXPECT_EQ((*again)[r].certificate.seconds, (*rows)[r].certificate.seconds);
  }
}

}  // namespace
}  // namespace lucid
