// The steps that every run is built with, wherever its networks come from.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>

#include "ensemble/store.h"
#include "lucid/data/units.h"
#include "lucid/ensemble/ensemble.h"
#include "random/secret_stream.h"

namespace lucid {

// What a run keeps to itself. A helper, which has no folder of the run, gets it from its leader.
struct RunKeys {
  std::uint64_t seed = 0;
  std::optional<Secret> secret = {};  // of a private run
};

// Everything that building one store works with.
struct Job {
  const Dataset& dataset;
  EnsembleOptions options;  // options.train is resolved where it counts
  std::string run;
  std::vector<Unit> units;
  StoreSpec spec;        // of the file being made
  std::string training;  // for the manifest; in the run key
  Adjacency adjacency = Adjacency::kUnitRemoved;
  bool partial = false;  // units without a member
  const ProgressCallback& report;
  std::string target;  // the final path of the file
  std::stop_token stop;
  std::int64_t expected_rows = 0;
  bool expected_from_data = false;
  std::optional<PrivateRun> private_run = {};
  std::optional<PopulationAccount> population = {};
  RunKeys keys = {};
  TableKeys table_keys = {};  // of the training rows; empty where no network is trained here
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  bool whole() const { return options.shard.count == 1; }
  void Report(std::string_view what, std::int64_t done, std::int64_t before) const {
    const auto total = static_cast<std::int64_t>(spec.rows.size());
    if (report) report({what, "networks", done, total, before});
  }
};

// How a network comes to be: trained here, trained by a command, read from a file.
class NetworkSource {
 public:
  virtual ~NetworkSource() = default;
  virtual std::int64_t lanes() const { return 1; }  // networks at a time
  virtual std::string verb() const = 0;             // "training": for progress
  virtual NetworkMaker maker() const = 0;
  // Whether the other members are made although one could not be, so that --resume needs that one.
  virtual bool goes_on_after_failure() const { return false; }
  // Makes network k without the unit whose first row is left_out[k] (-1: N) into
  // out[k * parameters ...]. Thread-safe.
  // Requires: 1 <= left_out.size() <= lanes().
  virtual Status Make(std::span<const std::int64_t> left_out, std::span<float> out,
                      std::stop_token stop) const = 0;
  // Looks at the store once more when it holds all its networks, before it counts as done.
  virtual Status CheckMade(const Store& /*store*/) const { return Ok(); }

  // What becomes of networks first, first + 1, ... of left_out. Thread-safe.
  struct Taker {
    std::function<Status(std::int64_t first, std::span<const float> weights)> take;
    // They could not be made. An error ends everything.
    std::function<Status(std::int64_t first, const Error& error)> fail;
  };
  // Makes all of them, as many at a time as it likes, on so many threads here.
  virtual Status MakeAll(std::span<const std::int64_t> left_out, std::int64_t parameters,
                         int threads, std::stop_token stop, const Taker& taker) const;
};

// Fills the store of `job` with what is missing; a whole run gets its manifest.
Result<TrainSummary> BuildRun(const Job& job, const NetworkSource& source);

}  // namespace lucid
