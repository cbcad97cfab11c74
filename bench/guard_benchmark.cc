// What a guarded answer costs beside the bare forward pass. Every guard answers every row, and is
// compared with the definition, before any time is taken; the cases take turns, so that noise meets
// all alike.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <thread>

#include "base/clock.h"
#include "guard/packed_networks.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/guard.h"

namespace lucid {
namespace {

struct Options {
  std::string run, data, certificate;
  std::int64_t rounds = 200, brute_force = 300;
  int threads = 2;
};

struct Rows {
  std::int64_t features = 0;
  std::vector<float> values;
  std::int64_t count() const { return std::ssize(values) / features; }
  std::span<const float> row(std::int64_t i) const {
    return std::span(values).subspan(static_cast<std::size_t>(i * features),
                                     static_cast<std::size_t>(features));
  }
};

// One way to answer; `ask` is null for what only makes sense as a whole.
struct Case {
  std::string name;
  std::function<void(std::span<const float>)> ask;
  std::function<void()> all;
  double seconds = std::numeric_limits<double>::infinity();  // of the fastest pass over all rows
  std::vector<double> per_row = {};                          // the fastest of each row
};

// ---- answers ------------------------------------------------------------------------------------

Status CheckBatch(const Guard& guard, const Rows& rows, std::span<const GuardedAnswer> single) {
  std::vector<GuardedAnswer> batched(single.size());
  guard.AskBatch(rows.values, batched);
  for (std::size_t i = 0; i < single.size(); ++i) {
    if (batched[i].label == single[i].label && batched[i].noised == single[i].noised) continue;
    return InternalError(fmt::format("row {}: single and batched answers differ", i));
  }
  return Ok();
}

// The exact guard's definition, on some rows evenly spread.
Status CheckBruteForce(const Options& options, const Rows& rows,
                       std::span<const GuardedAnswer> answers) {
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(options.run));
  std::vector<Evaluator> members;
  for (std::int64_t i = 0; i < ensemble.members(); ++i) members.emplace_back(ensemble.Member(i));
  const Evaluator network(ensemble.network());
  const std::int64_t step = std::max<std::int64_t>(1, rows.count() / options.brute_force);
  for (std::int64_t i = 0; i < rows.count(); i += step) {
    const std::int32_t label = network.Decide(rows.row(i)).label;
    const bool disagrees = std::ranges::any_of(
        members, [&](const Evaluator& m) { return m.Decide(rows.row(i)).label != label; });
    if (disagrees == answers[i].noised) continue;
    return InternalError(fmt::format("row {}: the exact guard and brute force differ", i));
  }
  return Ok();
}

// Prints the noised share. `outer`: the guard before, whose noised set contains this one's.
Status CheckAnswers(const Options& options, const Guard& guard, const Evaluator& network,
                    const Rows& rows, std::vector<GuardedAnswer>& outer) {
  std::vector<GuardedAnswer> answers;
  std::int64_t noised = 0;
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    answers.push_back(guard.Ask(rows.row(i)));
    noised += answers.back().noised ? 1 : 0;
    if (!answers.back().noised && answers.back().label != network.Decide(rows.row(i)).label) {
      return InternalError(fmt::format("row {}: not noised, and not N's label", i));
    }
    if (!outer.empty() && answers.back().noised && !outer[i].noised) {
      return InternalError(fmt::format("row {}: noised here and not by the guard before", i));
    }
  }
  LUCID_TRY(CheckBatch(guard, rows, answers));
  const GuardKind kind = guard.options().guard;
  if (kind == GuardKind::kExact) LUCID_TRY(CheckBruteForce(options, rows, answers));
  fmt::print("{}: {:.2f} % of {} rows noised; answers checked\n", NameOf(kind),
             100 * static_cast<double>(noised) / static_cast<double>(rows.count()), rows.count());
  outer = std::move(answers);
  return Ok();
}

// ---- times --------------------------------------------------------------------------------------

void Measure(std::vector<Case>& cases, const Rows& rows, std::int64_t rounds) {
  for (Case& one : cases) {
    one.per_row.assign(static_cast<std::size_t>(rows.count()),
                       std::numeric_limits<double>::infinity());
  }
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (Case& one : cases) {
      const Clock::time_point start = Clock::now();
      one.all();
      one.seconds = std::min(one.seconds, SecondsSince(start));
      if (!one.ask || round % 4 != 0) continue;
      for (std::int64_t i = 0; i < rows.count(); ++i) {
        const Clock::time_point before = Clock::now();
        one.ask(rows.row(i));
        one.per_row[i] = std::min(one.per_row[i], SecondsSince(before));
      }
    }
  }
}

void PrintTable(std::vector<Case>& cases, const Rows& rows) {
  fmt::print("\n{:<24} {:>9} {:>10} {:>11} {:>9} {:>9}\n", "", "us/query", "x forward", "queries/s",
             "p50 us", "p99 us");
  const double bare = cases.front().seconds;
  for (Case& one : cases) {
    const double each = one.seconds / static_cast<double>(rows.count());
    fmt::print("{:<24} {:>9.3f} {:>10.2f} {:>11.0f}", one.name, 1e6 * each, one.seconds / bare,
               1 / each);
    if (one.ask) {
      std::ranges::sort(one.per_row);
      fmt::print(" {:>9.3f} {:>9.3f}", 1e6 * one.per_row[one.per_row.size() / 2],
                 1e6 * one.per_row[one.per_row.size() * 99 / 100]);
    }
    fmt::print("\n");
  }
}

// Seconds in which all threads together answer all rows once, each at the pace of its own fastest
// pass while the others run.
double OnThreads(const Guard& guard, const Rows& rows, const Options& options) {
  std::vector<double> fastest(static_cast<std::size_t>(options.threads),
                              std::numeric_limits<double>::infinity());
  {
    std::vector<std::jthread> threads;
    threads.reserve(fastest.size());
    for (double& own : fastest) {
      threads.emplace_back([&] {
        std::vector<GuardedAnswer> answers(static_cast<std::size_t>(rows.count()));
        for (std::int64_t i = 0; i < options.rounds; ++i) {
          const Clock::time_point start = Clock::now();
          guard.AskBatch(rows.values, answers);
          own = std::min(own, SecondsSince(start));
        }
      });
    }
  }
  double rate = 0;
  for (const double own : fastest) rate += 1 / own;
  return 1 / rate;
}

std::function<void()> OverRows(const Rows& rows,
                               const std::function<void(std::span<const float>)>& ask) {
  return [&rows, ask] {
    for (std::int64_t i = 0; i < rows.count(); ++i) ask(rows.row(i));
  };
}

Status Run(const Options& options) {
  LUCID_ASSIGN(const RunNetwork run, OpenRunNetwork(options.run));
  const std::string data = options.data.empty() ? run.manifest.data_directory : options.data;
  LUCID_ASSIGN(const Dataset dataset, LoadDataset(data));
  if (dataset.schema_digest != run.manifest.schema_digest || dataset.test.rows() == 0) {
    return Mismatch(fmt::format("'{}' is not the data of this run, or has no test rows", data));
  }
  const Evaluator network(run.network);
  Rows rows{dataset.features(), dataset.test.x};
  std::vector<Guard> guards;
  std::vector<GuardedAnswer> outer;
  for (const GuardKind kind : {GuardKind::kScalar, GuardKind::kSpatial, GuardKind::kExact}) {
    auto guard = Guard::Open(options.run, options.certificate, {.guard = kind, .epsilon = 1},
                             GuardKey::Random());
    if (!guard.ok() && kind != GuardKind::kScalar) {
      fmt::print("{}: skipped: {}\n", NameOf(kind), guard.error().message);
      continue;
    }
    LUCID_TRY(guard);
    for (std::int64_t i = 0; guards.empty() && i < rows.count(); ++i) {
      LUCID_TRY(guard->Canonicalize(std::span(rows.values)
                                        .subspan(static_cast<std::size_t>(i * rows.features),
                                                 static_cast<std::size_t>(rows.features))));
    }
    LUCID_TRY(CheckAnswers(options, *guard, network, rows, outer));
    guards.push_back(std::move(*guard));
  }
  fmt::print("{}, {} parameters\n", run.manifest.architecture.Canonical(),
             run.manifest.architecture.parameters());

  std::int64_t sum = 0;  // used, so that no answer is optimised away
  const auto bare = [&](std::span<const float> x) { sum += network.Decide(x).label; };
  PackedNetworks packed(run.network.architecture, 1);
  LUCID_TRY(packed.Set(0, run.network.parameters));
  PassMemory memory;
  const auto packed_pass = [&](std::span<const float> x) {
    packed.SetInput(x, memory);
    sum += DecisionOf(packed.Logits(0, memory)).label;
  };
  std::vector<Case> cases = {{"forward pass (Evaluator)", bare, OverRows(rows, bare)},
                             {"forward pass (guard's)", packed_pass, OverRows(rows, packed_pass)}};
  for (const Guard& guard : guards) {
    const auto ask = [&sum, &guard](std::span<const float> x) { sum += guard.Ask(x).label; };
    cases.push_back(
        {fmt::format("{} guard", NameOf(guard.options().guard)), ask, OverRows(rows, ask)});
  }
  std::vector<GuardedAnswer> answers(static_cast<std::size_t>(rows.count()));
  cases.push_back({"scalar, batched", nullptr, [&] { guards[0].AskBatch(rows.values, answers); }});
  Measure(cases, rows, options.rounds);

  cases.push_back({fmt::format("the same, {} threads", options.threads), nullptr, nullptr,
                   OnThreads(guards[0], rows, options)});
  PrintTable(cases, rows);
  return sum >= 0 ? Ok() : InternalError("labels are never negative");
}

}  // namespace
}  // namespace lucid

int main(int argc, char** argv) {
  CLI::App app("Guarded answers beside the bare forward pass");
  lucid::Options options;
  app.add_option("run", options.run, "Folder of the run, with its certificate")->required();
  app.add_option("--data", options.data, "Folder of its data (default: as in its manifest)");
  app.add_option("--certificate", options.certificate, "(default: RUN/certificate.json)");
  app.add_option("--rounds", options.rounds, "Passes over the rows")->check(CLI::PositiveNumber);
  app.add_option("--brute-force", options.brute_force, "Rows to run every member on")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Of the last case")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const lucid::Status status = lucid::Run(options);
  if (status.ok()) return 0;
  fmt::print(stderr, "guard_benchmark: {}\n", status.error().message);
  return 1;
}
