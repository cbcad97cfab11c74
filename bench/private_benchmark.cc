// What privacy costs a training step: the sum of a batch's gradients as it is, with every example
// clipped, and with noise - beside the plain way to clip, an example at a time. The clipped sum is
// compared with the plain way's before any time is taken.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "baselines/example_gradients.h"
#include "baselines/privacy_noise.h"
#include "lucid/nn/architecture.h"
#include "random/stream.h"

namespace lucid {
namespace {

constexpr std::int64_t kFeatures = 21;  // as Adult has
constexpr double kClip = 1;

struct Case {
  const char* architecture;
  std::int64_t batch;
};
constexpr Case kCases[] = {{"2x50", 100}, {"2x50", 1024}, {"2x100", 1024}, {"conv", 1024}};

Table RandomTable(std::int64_t rows, Stream& stream) {
  Table table;
  table.features = kFeatures;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < kFeatures; ++k) {
      table.x.push_back(static_cast<float>(stream.Uniform()));
    }
    table.y.push_back(static_cast<std::int32_t>(stream.Below(2)));
  }
  return table;
}

// Microseconds of the fastest call of each, taking turns: others use the machine, too.
std::vector<double> Time(const std::vector<std::function<void()>>& works) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> best(works.size(), HUGE_VAL);
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < 5 || Clock::now() - begin < std::chrono::seconds(3); ++round) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      const Clock::time_point start = Clock::now();
      works[i]();
      const std::chrono::duration<double, std::micro> spent = Clock::now() - start;
      best[i] = std::min(best[i], spent.count());
    }
  }
  return best;
}

// A gradient for every example, its norm, its share of the sum.
void ClipOneByOne(ExampleGradients& gradients, std::span<const float> weights,
                  std::span<const std::int32_t> rows, const Loss& loss, std::span<float> one,
                  std::span<float> sum) {
  std::ranges::fill(sum, 0.0f);
  for (const std::int32_t& row : rows) {
    gradients.Sum(weights, std::span(&row, 1), loss, kNoClip, one);
    double square = 0;
    for (const float g : one) square += static_cast<double>(g) * g;
    const auto scale = static_cast<float>(std::min(1.0, kClip / (std::sqrt(square) + 1e-6)));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += scale * one[i];
  }
}

// False if the answers differ.
bool Run(const Case& c) {
  Stream stream(1, "private benchmark");
  const Architecture architecture = Architecture::FromName(c.architecture, kFeatures, 2).value();
  const Table table = RandomTable(c.batch, stream);
  std::vector<float> weights(static_cast<std::size_t>(architecture.parameters()));
  for (float& w : weights) w = static_cast<float>(stream.Uniform(-0.3, 0.3));
  std::vector<std::int32_t> rows(static_cast<std::size_t>(c.batch));
  std::iota(rows.begin(), rows.end(), 0);
  const CrossEntropy loss(table);
  const auto gradients =
      ExampleGradients::Create(architecture, table, AvailableInstructionSets().front());
  std::vector<float> sum(weights.size()), one(weights.size()), expected(weights.size());

  ClipOneByOne(*gradients, weights, rows, loss, one, expected);
  gradients->Sum(weights, rows, loss, kClip, sum);
  double distance = 0, norm = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    distance += std::pow(sum[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  if (!(std::sqrt(distance) <= 5e-4 * std::sqrt(norm))) {
    fmt::print(stderr, "{}: the clipped sums differ by {:.2g} of {:.2g}\n", c.architecture,
               std::sqrt(distance), std::sqrt(norm));
    return false;
  }

  PrivacyNoise noise = PrivacyNoise::Create({}).value();
  const auto sum_of = [&](double clip) { gradients->Sum(weights, rows, loss, clip, sum); };
  const std::vector<double> times = Time({
      [&] { sum_of(kNoClip); },
      [&] { sum_of(kClip); },
      [&] {
        sum_of(kClip);
        for (float& g : sum) g += static_cast<float>(noise.Normal());
      },
      [&] { ClipOneByOne(*gradients, weights, rows, loss, one, expected); },
  });
  const double plain = times[0], clipped = times[1], noisy = times[2], single = times[3];
  fmt::print("{:<6} {:>6} {:>11.1f} {:>11.1f} {:>11.1f} {:>11.1f} {:>9.2f} {:>9.2f} {:>9.1f}\n",
             c.architecture, c.batch, plain, clipped, noisy, single, clipped / plain, noisy / plain,
             single / clipped);
  return true;
}

}  // namespace
}  // namespace lucid

int main(int argc, char** argv) {
  CLI::App app("A step of DP-SGD beside a step of SGD");
  CLI11_PARSE(app, argc, argv);
  fmt::print("instruction set {}; microseconds for a batch, one thread\n",
             lucid::NameOf(lucid::AvailableInstructionSets().front()));
  fmt::print("{:<6} {:>6} {:>11} {:>11} {:>11} {:>11} {:>9} {:>9} {:>9}\n", "arch", "batch",
             "plain", "clipped", "+ noise", "one by one", "clip/pl", "dp/plain", "1by1/clip");
  return std::ranges::all_of(lucid::kCases, lucid::Run) ? 0 : 1;
}
