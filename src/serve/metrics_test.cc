#include "serve/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

namespace lucid {
namespace {

using namespace std::chrono_literals;
using Time = Metrics::Clock::time_point;

TEST(LatencyHistogram, QuantilesAreRightWithinASixteenth) {
  LatencyHistogram histogram;
  std::mt19937_64 random(5);
  std::lognormal_distribution<double> latency(std::log(300e3), 1.5);  // nanoseconds
  std::vector<double> all(20'000);
  for (double& seconds : all) {
    const auto nanoseconds = static_cast<std::int64_t>(latency(random));
    seconds = static_cast<double>(nanoseconds) * 1e-9;
    histogram.Add(std::chrono::nanoseconds(nanoseconds));
  }
  std::ranges::sort(all);
  const auto snapshot = histogram.Take();
  EXPECT_EQ(snapshot.total, 20'000);
  for (const double q : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const double exact = all[static_cast<std::size_t>(std::ceil(q * 20'000)) - 1];
    EXPECT_GE(snapshot.Quantile(q), std::max(exact, 1e-6)) << q;
    EXPECT_LE(snapshot.Quantile(q), std::max(exact * (1 + 1.0 / 16) * 1.0001, 1.0626e-6)) << q;
  }
  double sum = 0;
  for (const double seconds : all) sum += seconds;
  EXPECT_NEAR(snapshot.seconds, sum, 1e-9 * sum);
}

TEST(LatencyHistogram, ExtremesHaveAPlace) {
  LatencyHistogram histogram;
  for (const auto latency : {-5ns, 0ns, 1ns, 999ns, 1000ns}) histogram.Add(latency);
  histogram.Add(std::chrono::nanoseconds(std::int64_t{1} << 60));
  const auto snapshot = histogram.Take();
  EXPECT_EQ(snapshot.total, 6);
  EXPECT_EQ(snapshot.counts.front(), 5);
  EXPECT_EQ(snapshot.counts.back(), 1);
  EXPECT_EQ(LatencyHistogram().Take().Quantile(0.5), 0);
}

// Ends of doublings are ends of buckets: what Prometheus is told is exact.
TEST(LatencyHistogram, CountsBelowPowersOfTwoAreExact) {
  LatencyHistogram histogram;
  for (std::int64_t microseconds = 0; microseconds < 4096; ++microseconds) {
    histogram.Add(std::chrono::microseconds(microseconds));
  }
  const auto snapshot = histogram.Take();
  for (int k = 1; k <= 12; ++k) EXPECT_EQ(snapshot.AtMost(std::ldexp(1e-6, k)), 1 << k) << k;
}

TEST(Metrics, CountsByEndpointAndStatus) {
  Metrics metrics(Time{});
  metrics.Count(
      {.endpoint = Endpoint::kPredict, .status = 200, .latency = 1ms, .rows = 5, .noised = 2},
      Time{});
  metrics.Count({.endpoint = Endpoint::kPredict, .status = 204, .latency = 1ms}, Time{});
  metrics.Count({.endpoint = Endpoint::kInfer, .status = 503, .latency = 1ms}, Time{});
  metrics.Count({.endpoint = Endpoint::kOther, .status = 77, .latency = 1ms}, Time{});
  const auto snapshot = metrics.Take(Time{2s});
  EXPECT_EQ(snapshot.requests[static_cast<int>(Endpoint::kPredict)][1], 2);
  EXPECT_EQ(snapshot.requests[static_cast<int>(Endpoint::kInfer)][4], 1);
  EXPECT_EQ(snapshot.requests[static_cast<int>(Endpoint::kOther)][0], 1);
  EXPECT_EQ(snapshot.Requests(), 4);
  EXPECT_EQ(snapshot.rows, 5);
  EXPECT_EQ(snapshot.noised, 2);
  EXPECT_EQ(snapshot.uptime, 2);
}

TEST(Metrics, HistoryHasOneEntryForEverySecondThatIsOver) {
  Metrics metrics(Time{});
  const auto ask = [&](std::chrono::milliseconds at, int status) {
    metrics.Count(
        {.endpoint = Endpoint::kPredict, .status = status, .latency = 3ms, .rows = 2, .noised = 1},
        Time{at});
  };
  EXPECT_TRUE(metrics.Take(Time{999ms}).seconds.empty());
  ask(100ms, 200);
  ask(200ms, 500);
  ask(2500ms, 200);
  const auto seconds = metrics.Take(Time{4s}).seconds;
  ASSERT_EQ(seconds.size(), 4);
  EXPECT_EQ(seconds[0].requests, 2);
  EXPECT_EQ(seconds[0].failures, 1);
  EXPECT_EQ(seconds[0].rows, 4);
  EXPECT_EQ(seconds[0].noised, 2);
  EXPECT_NEAR(seconds[0].p99, 3e-3, 1e-3);
  EXPECT_EQ(seconds[1].requests, 0);
  EXPECT_EQ(seconds[2].requests, 1);
  EXPECT_EQ(seconds[3].requests, 0);
}

TEST(Metrics, HistoryForgetsWhatIsOld) {
  Metrics metrics(Time{});
  const Metrics::Request request{.endpoint = Endpoint::kPredict, .latency = 1ms};
  for (int second = 0; second < 1000; second += 2) metrics.Count(request, Time{second * 1s});
  const auto seconds = metrics.Take(Time{1000s}).seconds;
  ASSERT_EQ(seconds.size(), Metrics::kSeconds);
  for (const TrafficSecond& second : seconds) {
    EXPECT_EQ(second.requests, second.second % 2 == 0 ? 1 : 0) << second.second;
  }
  EXPECT_EQ(seconds.back().second, 999);
  // An hour without a request: nothing of before is left in the chart.
  for (const TrafficSecond& second : metrics.Take(Time{4600s}).seconds) {
    EXPECT_EQ(second.requests, 0);
  }
}

TEST(Metrics, ThreadsLoseNothing) {
  Metrics metrics(Time{});
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 5000; ++i) {
          metrics.Count({.endpoint = Endpoint::kInfer, .latency = 1ms, .rows = 1}, Time{i * 1ms});
          if (i % 500 == 0) (void)metrics.Take(Time{i * 1ms});
        }
      });
    }
  }
  const auto snapshot = metrics.Take(Time{10s});
  EXPECT_EQ(snapshot.Requests(), 20'000);
  EXPECT_EQ(snapshot.rows, 20'000);
  EXPECT_EQ(snapshot.latency.total, 20'000);
}

}  // namespace
}  // namespace lucid
