// The native engine on one or more runs, with one thread and with all, beside the paper's engine on
// the same run with the time the native one took, times a factor. Every figure is printed only
// after the answers were checked against each other.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>

#include "base/parallel.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/native/bound.h"
#include "lucid/paper/bound.h"

namespace lucid {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string trace;
  double gap = 0.01, limit = 600, milp_factor = 10;
};

std::int64_t Counter(const ClassBound& bound, std::string_view name) {
  for (const auto& [key, value] : bound.counters) {
    if (key == name) return value;
  }
  return 0;
}

void PrintRow(std::string_view engine, int threads, const Certificate& certificate) {
  std::int64_t regions = 0, bounds = 0;
  double seconds = 0;
  std::string betas;
  for (const ClassBound& bound : certificate.classes) {
    regions += Counter(bound, "regions");
    bounds += Counter(bound, "bounds");
    seconds += bound.seconds;
    betas += fmt::format("  [{:8.5f}, {:8.5f}] {:5.1f} %", bound.beta_lower, bound.beta_upper,
                         100 * bound.Gap());
  }
  fmt::print("{:<8} {:>7} {:>8.2f} s {}", engine, threads, seconds, betas);
  if (regions > 0) {
    fmt::print("  {:>8} regions, {:.0f}/s, {:.0f} bounds/s", regions,
               static_cast<double>(regions) / seconds, static_cast<double>(bounds) / seconds);
  }
  fmt::print("\n");
}

// No engine's upper bound may be below what another one found to leak.
Status Compare(const Certificate& a, const Certificate& b) {
  for (std::size_t c = 0; c < a.classes.size(); ++c) {
    const double lower = std::max(a.classes[c].beta_lower, b.classes[c].beta_lower);
    const double upper = std::min(a.classes[c].beta_upper, b.classes[c].beta_upper);
    if (lower <= upper) continue;
    return Error{ErrorKind::kInternal,
                 fmt::format("class {}: a witness of {} above a bound of {}", c, lower, upper)};
  }
  return Ok();
}

Status Measure(const std::string& run, const Options& options, std::ostream* trace) {
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run));
  fmt::print("\n{}: {} members of {} parameters, {}\n", run, ensemble.members(),
             ensemble.network().parameters.size(), ensemble.network().architecture.Canonical());
  NativeBoundOptions native;
  native.common.gap = options.gap;
  native.common.time_limit = options.limit;
  std::vector<int> threads = {1};
  if (EffectiveThreads(0) > 1) threads.push_back(EffectiveThreads(0));
  std::vector<Certificate> results;
  double seconds = 0;
  for (const int count : threads) {
    native.common.threads = count;
    if (trace != nullptr && count == threads.back()) {
      native.common.trace = [&](std::int32_t label, double at, double lower, double upper) {
        *trace << fmt::format("{},{},{:.3f},{:.6g},{:.6g}\n", run, label, at, lower, upper);
      };
    }
    LUCID_ASSIGN(results.emplace_back(), ComputeBounds(ensemble, native));
    PrintRow("native", count, results.back());
    seconds = results.back().seconds;
  }
  for (const Certificate& result : results) LUCID_TRY(Compare(results.front(), result));
  if (options.milp_factor <= 0) return Ok();
  MilpBoundOptions milp;
  milp.common.gap = options.gap;
  milp.common.time_limit = std::max(options.milp_factor * seconds, 1.0);
  milp.subset_limit = milp.common.time_limit / 4;
  LUCID_ASSIGN(const Certificate paper, ComputeBoundsByMilp(ensemble, milp));
  LUCID_TRY(Compare(results.back(), paper));
  PrintRow("milp", threads.back(), paper);
  return Ok();
}

Status Run(const Options& options) {
  std::ofstream trace;
  if (!options.trace.empty()) {
    trace.open(options.trace);
    trace << "run,class,seconds,lower,upper\n";
    if (!trace) return Error{ErrorKind::kIo, fmt::format("cannot write '{}'", options.trace)};
  }
  fmt::print("engine   threads   seconds  [beta_lower, beta_upper] and gap of every class\n");
  for (const std::string& run : options.runs) {
    LUCID_TRY(Measure(run, options, options.trace.empty() ? nullptr : &trace));
  }
  return Ok();
}

}  // namespace
}  // namespace lucid

int main(int argc, char** argv) {
  CLI::App app("The native engine beside the paper's, on the same runs");
  lucid::Options options;
  app.add_option("runs", options.runs, "Folders of runs")->required();
  app.add_option("--gap", options.gap, "At which a class is done")->capture_default_str();
  app.add_option("--limit", options.limit, "Seconds for the native engine")->capture_default_str();
  app.add_option("--milp-factor", options.milp_factor,
                 "The paper's engine gets this many times what the native one took; 0: not run")
      ->capture_default_str();
  app.add_option("--trace", options.trace, "CSV file for the bounds over time");
  CLI11_PARSE(app, argc, argv);
  const lucid::Status status = lucid::Run(options);
  if (status.ok()) return 0;
  fmt::print(stderr, "bound_benchmark: {}\n", status.error().message);
  return 1;
}
