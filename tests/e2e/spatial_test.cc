// The spatial guard end to end in two dimensions, against every network of the run.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lucid/certificate/spatial.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/guard.h"
#include "lucid/nn/network.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

class SpatialGuard : public testing::Test {
 protected:
  SpatialGuard() {
    for (const char* step :
         {"data synth2d --rows 90 --test-rows 30 --seed 3 --out d",
          "train --data d --arch 2x12 --batch 30 --epochs 150 --lr 0.3 --out r",
          "bound r --gap 0.05 --index --spatial --spatial-limit 5m --no-proof"}) {
      const Outcome outcome = RunLucid(Words(step), {.folder = folder_.path()});
      EXPECT_EQ(outcome.code, 0) << outcome;
    }
  }

  Guard Open(GuardKind kind) const {
    GuardOptions options;
    options.guard = kind;
    return Guard::Open(folder_ / "r", options, GuardKey::Random()).value();
  }

  Scratch folder_;
};

std::vector<float> Grid(int steps) {
  std::vector<float> rows;
  for (int i = 0; i <= steps; ++i) {
    for (int j = 0; j <= steps; ++j) {
      for (const int at : {i, j}) {
        rows.push_back(static_cast<float>(at) / static_cast<float>(steps));
      }
    }
  }
  return rows;
}

// The corners of all boxes of a tree, and the inputs right beside them.
void AddCorners(const SpatialBounds::Tree& tree, std::int32_t at, const float (&low)[2],
                const float (&high)[2], std::vector<float>& rows) {
  const SpatialBounds::Node& node = tree[at];
  if (node.feature < 0) {
    const auto beside = [](float end) {
      return std::vector{end, std::max(std::nextafter(end, -1.0F), 0.0F),
                         std::min(std::nextafter(end, 2.0F), 1.0F)};
    };
    for (const float first : {low[0], high[0]}) {
      for (const float second : {low[1], high[1], 0.5F * (low[1] + high[1])}) {
        for (const float x : beside(first)) {
          for (const float y : beside(second)) rows.insert(rows.end(), {x, y});
        }
      }
    }
    return;
  }
  float to[2] = {high[0], high[1]}, from[2] = {low[0], low[1]};
  to[node.feature] = from[node.feature] = static_cast<float>(node.value);
  AddCorners(tree, at + 1, low, to, rows);
  AddCorners(tree, node.second, from, high, rows);
}

// Whether some member gives the row another label than N, by running all of them.
std::vector<char> Leaks(const Ensemble& ensemble, const std::vector<float>& rows) {
  const Evaluator network(ensemble.network());
  std::vector<std::int32_t> labels;
  for (std::size_t at = 0; at < rows.size(); at += 2) {
    labels.push_back(network.Decide(std::span(rows).subspan(at, 2)).label);
  }
  std::vector<char> leaks(labels.size());
  for (std::int64_t i = 0; i < ensemble.members(); ++i) {
    const Evaluator member(ensemble.Member(i));
    for (std::size_t r = 0; r < labels.size(); ++r) {
      if (leaks[r] == 0) {
        leaks[r] = member.Decide(std::span(rows).subspan(2 * r, 2)).label != labels[r];
      }
    }
  }
  return leaks;
}

TEST_F(SpatialGuard, NoisesEveryInputThatLeaksAndFewOthers) {
  const Ensemble ensemble = Ensemble::Open(folder_ / "r").value();
  const auto bounds = SpatialBounds::Load(folder_ / "r/spatial.lucid").value();
  std::vector<float> rows = Grid(300);
  const std::size_t grid = rows.size() / 2;
  for (std::int32_t c = 0; c < bounds.classes(); ++c) {
    EXPECT_GT(bounds.leaves(c), 30);
    AddCorners(bounds.tree(c), 0, {0, 0}, {1, 1}, rows);
  }
  const Guard scalar = Open(GuardKind::kScalar), spatial = Open(GuardKind::kSpatial),
              exact = Open(GuardKind::kExact);
  const std::vector<char> leaks = Leaks(ensemble, rows);
  int of_scalar = 0, of_spatial = 0, of_exact = 0, leaking_corners = 0;
  for (std::size_t r = 0; r < leaks.size(); ++r) {
    const auto x = std::span(rows).subspan(2 * r, 2);
    const bool noised = spatial.Ask(x).noised;
    if (leaks[r] != 0) {
      ASSERT_TRUE(noised) << x[0] << ", " << x[1] << (r < grid ? "" : ", beside a box's corner");
      leaking_corners += r >= grid;
    }
    if (r >= grid) continue;
    of_scalar += scalar.Ask(x).noised;
    of_spatial += noised;
    of_exact += exact.Ask(x).noised;
  }
  EXPECT_GT(leaking_corners, 100);  // else nothing was looked at
  EXPECT_GT(of_exact, 500);
  EXPECT_LE(of_spatial, 1.2 * of_exact);
  EXPECT_GT(of_scalar, 1.3 * of_exact) << "the scalar guard does as well: the test shows nothing";
}

}  // namespace
}  // namespace lucid::test
