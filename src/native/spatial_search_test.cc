#include "native/spatial_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "native/engine.h"
#include "native/guard_proof.h"
#include "native/region_search.h"
#include "pair/test_support.h"

namespace lucid {
namespace {

// Every second input is binary.
Schema AnySchema(std::int64_t inputs) {
  std::string text = "column,kind,offset,divisor,categories\nlabel,label,,,0|1|2\n";
  for (std::int64_t j = 0; j < inputs; ++j) {
    text += "x" + std::to_string(j) + (j % 2 == 0 ? ",numeric,0,1,\n" : ",binary,,,0|1\n");
  }
  return *Schema::Parse(text, "schema");
}

struct Problem {
  Problem(std::uint64_t seed, std::int64_t inputs, std::int64_t classes, double distance = 0.05) {
    Stream stream(seed, "spatial search");
    network = RandomNetwork(Hidden({{.units = 5}, {.units = 4}}, inputs, classes), stream);
    Balance(network, stream);
    members = std::make_unique<MemoryMembers>(RandomMembers(network, 6, distance, stream));
    error = LargestError(*members, 1).value();
    for (std::int32_t label = 0; label < classes; ++label) {
      claims.push_back(BoundEachMember(network, *members, label, error, 1).value());
      upper.push_back(UpperOfMembers(claims.back(), members->count(), classes));
    }
    for (std::int64_t i = 0; i < 400 * inputs; ++i) {
      guides.push_back(static_cast<float>(stream.Uniform()));
    }
  }

  SpatialBounds::Tree Search(std::int32_t label, const SpatialSearchOptions& options,
                             const Domain& domain) const {
    const double beta_upper = std::ranges::max(upper[label]);
    const auto proof = SearchSpatialBounds(
        network, *members, domain, {label, beta_upper, error, claims[label]}, guides, options);
    EXPECT_TRUE(proof.ok());
    return TreeOf(*proof, members->count(), network.architecture.classes(), label, beta_upper);
  }
  SpatialBounds Bounds(const SpatialSearchOptions& options, const Domain& domain) const {
    std::vector<SpatialBounds::Tree> trees;
    for (std::size_t label = 0; label < upper.size(); ++label) {
      trees.push_back(Search(static_cast<std::int32_t>(label), options, domain));
    }
    auto bounds = SpatialBounds::Parse(SpatialBounds::Encode(network.architecture.inputs(), trees),
                                       "spatial");
    EXPECT_TRUE(bounds.ok()) << bounds.error().message;
    return *bounds;
  }

  Network network;
  std::unique_ptr<MemoryMembers> members;
  double error = 0;
  std::vector<std::vector<ProofClosing>> claims;
  std::vector<std::vector<double>> upper;
  std::vector<float> guides;
};

SpatialSearchOptions Options() {
  SpatialSearchOptions options;
  options.leaves = 60;
  options.seconds = 1e6;
  options.threads = 1;
  return options;
}

// Any point; now and then one that lies exactly on a cut.
std::vector<float> AnyPoint(const SpatialBounds& bounds, Stream& stream) {
  std::vector<float> x;
  for (std::int64_t j = 0; j < bounds.features(); ++j) {
    x.push_back(static_cast<float>(stream.Below(4) == 0 ? static_cast<double>(stream.Below(2))
                                                        : stream.Uniform()));
  }
  const auto& tree = bounds.tree(static_cast<std::int32_t>(stream.Below(bounds.classes())));
  const SpatialBounds::Node& node = tree[stream.Below(tree.size())];
  if (node.feature >= 0 && stream.Below(2) == 0) x[node.feature] = static_cast<float>(node.value);
  return x;
}

// Returns how many members the input leaks to, and expects its confidence at or below the bound of
// its box if it does.
std::int64_t CheckPoint(const Problem& problem, const SpatialBounds& bounds,
                        const std::vector<float>& x) {
  const Point point(x.begin(), x.end());
  const std::vector<Exact> outputs = Evaluate(problem.network, point).pre.back();
  const auto label = static_cast<std::int32_t>(std::ranges::max_element(outputs) - outputs.begin());
  const double f = static_cast<double>(ConfidenceOf(outputs, label));
  const double bound = bounds.Bound(label, x);
  EXPECT_LE(bound, std::ranges::max(problem.upper[label]));
  std::int64_t leaks = 0;
  for (std::int64_t m = 0; m < problem.members->count(); ++m) {
    const auto other = Evaluate(problem.members->Member(m), point).pre.back();
    if (ConfidenceOf(other, label) > problem.error) continue;
    ++leaks;
    EXPECT_LE(f, bound) << testing::PrintToString(x) << ", member " << m;
  }
  return leaks;
}

// Looks at many inputs; returns how often they leak.
std::int64_t CheckPoints(const Problem& problem, const SpatialBounds& bounds, const Domain& domain,
                         int count, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Stream stream(seed, "points");
  std::int64_t leaks = 0;
  for (int i = 0; i < count; ++i) {
    std::vector<float> x = AnyPoint(bounds, stream);
    for (const Domain::Group& group : domain.groups()) x[group.first] = std::round(x[group.first]);
    leaks += CheckPoint(problem, bounds, x);
  }
  return leaks;
}

TEST(SpatialSearch, NoLeakingInputIsAboveTheBoundOfItsBox) {
  std::int64_t leaks = 0, leaves = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Problem problem(seed, 1 + static_cast<std::int64_t>(seed % 3), 2 + seed % 2);
    const Domain domain = Domain::Box(AnySchema(problem.network.architecture.inputs()));
    const SpatialBounds bounds = problem.Bounds(Options(), domain);
    for (std::int32_t c = 0; c < bounds.classes(); ++c) leaves += bounds.leaves(c);
    leaks += CheckPoints(problem, bounds, domain, 3000, seed);
  }
  EXPECT_GT(leaks, 300);  // else nothing was looked at
  EXPECT_GT(leaves, 200);
}

TEST(SpatialSearch, BoxesOfASchemasDomainHoldItsInputs) {
  std::int64_t leaks = 0;
  for (std::uint64_t seed = 20; seed < 26; ++seed) {
    const Problem problem(seed, 4, 2, 0.2);
    const Domain domain = Domain::OfSchema(AnySchema(4));
    leaks += CheckPoints(problem, problem.Bounds(Options(), domain), domain, 3000, seed);
  }
  EXPECT_GT(leaks, 100);
}

// In the plane, where boxes are cut until they are nearly exact: everywhere on a grid, and on the
// edges of boxes and right beside them.
TEST(SpatialSearch, HoldsAllOverThePlaneAndOnTheEdgesOfBoxes) {
  std::int64_t leaks = 0, leaves = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Problem problem(seed, 2, 2 + static_cast<std::int64_t>(seed % 2));
    Stream stream(seed, "edges");
    for (int i = 0; i < 20000; ++i) problem.guides.push_back(static_cast<float>(stream.Uniform()));
    SpatialSearchOptions options = Options();
    options.leaves = 400;
    const Schema schema = *Schema::Parse(
        "column,kind,offset,divisor,categories\nlabel,label,,,0|1|2\nx,numeric,0,1,\n"
        "y,numeric,0,1,\n",
        "schema");
    const SpatialBounds bounds = problem.Bounds(options, Domain::Box(schema));
    std::vector<std::vector<float>> ends = {{0, 1}, {0, 1}};
    for (std::int32_t c = 0; c < bounds.classes(); ++c) {
      leaves += bounds.leaves(c);
      for (const SpatialBounds::Node& node : bounds.tree(c)) {
        if (node.feature < 0) continue;
        const auto at = static_cast<float>(node.value);
        for (const float end : {at, std::nextafter(at, 0.0F), std::nextafter(at, 1.0F)}) {
          ends[node.feature].push_back(end);
        }
      }
    }
    for (int i = 0; i < 60 * 60 + 4000; ++i) {
      std::vector<float> x = {static_cast<float>(i / 60) / 59, static_cast<float>(i % 60) / 59};
      if (i >= 60 * 60) {
        x = {static_cast<float>(stream.Uniform()), static_cast<float>(stream.Uniform())};
        const std::uint64_t feature = stream.Below(2);
        x[feature] = ends[feature][stream.Below(ends[feature].size())];
        // Every second time at a corner.
        if (i % 2 == 0) x[1 - feature] = ends[1 - feature][stream.Below(ends[1 - feature].size())];
      }
      leaks += CheckPoint(problem, bounds, x);
    }
  }
  EXPECT_GT(leaks, 300);  // else nothing was looked at
  EXPECT_GT(leaves, 500);
}

// Guides that no member gives another label: fewer of them are at or below the bound of their box
// than below the scalar one.
TEST(SpatialSearch, HelpsTheInputsItIsGuidedBy) {
  std::int64_t scalar = 0, spatial = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Problem problem(seed, 2, 2, 0.02);
    const SpatialBounds bounds = problem.Bounds(Options(), Domain::Box(AnySchema(2)));
    const Evaluator evaluator(problem.network);
    for (std::size_t at = 0; at < problem.guides.size(); at += 2) {
      const auto x = std::span(problem.guides).subspan(at, 2);
      const Decision decision = evaluator.Decide(x);
      bool leaks = false;
      for (std::int64_t m = 0; m < problem.members->count(); ++m) {
        leaks |= Evaluator(problem.members->Member(m)).Decide(x).label != decision.label;
      }
      if (leaks) continue;
      scalar += decision.confidence <= std::ranges::max(problem.upper[decision.label]);
      spatial += decision.confidence <= bounds.Bound(decision.label, x);
    }
  }
  EXPECT_GT(scalar, 100);
  EXPECT_LT(spatial, scalar / 2);
}

TEST(SpatialSearch, ThreadsDoNotShow) {
  const Problem problem(3, 3, 3);
  const Domain domain = Domain::Box(AnySchema(3));
  SpatialSearchOptions options = Options();
  const SpatialBounds one = problem.Bounds(options, domain);
  options.threads = 4;
  EXPECT_EQ(problem.Bounds(options, domain).digest(), one.digest());
}

TEST(SpatialSearch, KeepsToItsLeavesAndItsTime) {
  const Problem problem(4, 3, 2);
  const Domain domain = Domain::Box(AnySchema(3));
  for (const std::int64_t leaves : {1, 2, 7, 31}) {
    SpatialSearchOptions options = Options();
    options.leaves = leaves;
    const SpatialBounds bounds = problem.Bounds(options, domain);
    EXPECT_LE(bounds.leaves(0), leaves);
    EXPECT_LE(bounds.leaves(1), leaves);
  }
  SpatialSearchOptions none = Options(), stopped = Options();
  none.seconds = 0;
  std::stop_source source;
  source.request_stop();
  stopped.stop = source.get_token();
  for (const SpatialSearchOptions& options : {none, stopped}) {
    const SpatialBounds bounds = problem.Bounds(options, domain);
    EXPECT_EQ(bounds.leaves(0), 1);
    EXPECT_EQ(bounds.tree(0)[0].value, std::ranges::max(problem.upper[0]));
  }
}

}  // namespace
}  // namespace lucid
