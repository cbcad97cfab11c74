// The |D|+1 networks of a run on disk: N first, then one leave-one-out network per row.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/data/dataset.h"
#include "lucid/nn/network.h"
#include "lucid/train/options.h"

namespace lucid {

// Which part of a run this process trains, for job arrays. {1, 1} is all of it.
struct Shard {
  std::int64_t index = 1;  // from 1 to count
  std::int64_t count = 1;
  static Result<Shard> Parse(const std::string& text);  // "2/8"
};

struct EnsembleOptions {
  TrainOptions train;
  // Not empty: networks are trained by this command instead, and of `train` only the seed counts.
  // /bin/sh -c runs it once per network, `threads` at a time, with LUCID_DATA (the data folder),
  // LUCID_ROWS (how many of its training rows), LUCID_LEAVE_OUT (the row to leave out, from 0, or
  // "none"), LUCID_SEED, LUCID_ARCH (canonical) and LUCID_OUT (the .safetensors file to write).
  std::string trainer;
  std::int64_t members = 0;  // 0: a member for every row; otherwise only so many, evenly spaced,
                             // and every artefact says that the run is partial
  Shard shard;
  bool resume = false;                   // go on with what an earlier process left
  int threads = 0;                       // 0: all cores
  std::string instruction_set = "auto";  // auto, avx512, avx2, portable: same bits, other speed
  std::vector<std::string> command;      // recorded in the manifest
};

// What a run is and where it came from: RUN/manifest.json.
struct Manifest {
  std::string version, build, instruction_set;
  std::vector<std::string> command;
  std::string data_directory;
  std::int64_t rows = 0;     // of the training set
  std::int64_t members = 0;  // leave-one-out networks trained
  bool partial = false;      // members < rows
  Schema schema;
  Architecture architecture;
  std::string training;                          // how: SGD options, a command, "imported ..."
  double train_accuracy = 0, test_accuracy = 0;  // test: NaN where there is no test file
  double seconds = 0;                            // of the process that finished it
  Digest run_key;                                // of everything that determines the weights
  Digest schema_digest, train_digest, test_digest, network_digest, ensemble_digest;
};

// Files of a run directory.
inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kNetworkFile = "network.safetensors";
inline constexpr const char* kEnsembleFile = "ensemble.safetensors";

struct TrainSummary {
  std::string run;
  std::int64_t rows = 0;
  std::int64_t members = 0;      // leave-one-out networks in this run (or shard)
  std::int64_t trained_now = 0;  // networks trained by this process
  std::int64_t parameters = 0;
  bool complete = false;  // false for a shard: merge when all are there
  bool partial = false;
  double train_accuracy = 0, test_accuracy = 0;
  double seconds = 0, networks_per_second = 0;  // of this process
  std::string instruction_set;
};

// Trains N and its leave-one-out networks into the folder `run`. Memory does not grow with the
// number of rows. Killed at any moment, it loses at most the networks in flight; called again with
// options.resume it ends with the same bytes.
// Errors: a folder that holds another run or an unfinished one (without resume), no space, no
// permission, divergence; nothing that was there is lost. kInterrupted when stopped.
Result<TrainSummary> TrainEnsemble(const Dataset& dataset, const Architecture& architecture,
                                   const EnsembleOptions& options, const std::string& run,
                                   const ProgressCallback& progress = {},
                                   std::stop_token stop = {});

// Joins the shards found in `folders` (every one of 1..count of this run) into the run `run`. The
// result is the same bytes as without shards. Every network is checked against its digest on the
// way.
Result<TrainSummary> MergeShards(const Dataset& dataset, const Architecture& architecture,
                                 const EnsembleOptions& options, const std::string& run,
                                 const std::vector<std::string>& folders,
                                 const ProgressCallback& progress = {}, std::stop_token stop = {});

struct ImportOptions {
  std::optional<Architecture> architecture;  // given: every network must have it
  bool partial = false;                      // there may be rows without a network
  int threads = 0;                           // 0: all cores
  std::vector<std::string> command;          // recorded in the manifest
};

// Makes a run of networks trained elsewhere (see ImportNetwork for the files): `network` is N;
// `members` is a folder with a file for each leave-one-out network, whose name holds one number,
// the left-out row, or a safetensors file with a first axis of networks and, unless they are all
// rows in order, I64 [n] "rows". Called again after a stop it goes on; what the run is made of is
// in its key.
// Errors: rows missing (unless options.partial), out of range or there twice; networks that do not
// fit the data, differ in architecture, or are not finite; as TrainEnsemble for the folder.
Result<TrainSummary> ImportEnsemble(const Dataset& dataset, const std::string& network,
                                    const std::string& members, const ImportOptions& options,
                                    const std::string& run, const ProgressCallback& progress = {},
                                    std::stop_token stop = {});

// A run without its members: what serving needs.
struct RunNetwork {
  Manifest manifest;
  Network network;  // N
};
// Checks the manifest and the digest of N's file. Does not look at the ensemble.
Result<RunNetwork> OpenRunNetwork(const std::string& run);

// A finished run, opened for reading. The ensemble is mapped, not loaded. Move-only, thread-safe.
class Ensemble {
 public:
  // Checks the manifest, the digests of both files, shapes and that everything belongs together.
  static Result<Ensemble> Open(const std::string& run, const ProgressCallback& progress = {});
  ~Ensemble();
  Ensemble(Ensemble&&) noexcept;
  Ensemble& operator=(Ensemble&&) noexcept;

  const Manifest& manifest() const;
  const Network& network() const;  // N
  std::int64_t members() const;
  std::int64_t RowOf(std::int64_t member) const;  // the row it was trained without
  // Requires: 0 <= member < members(), out.size() == parameters.
  void CopyParameters(std::int64_t member, std::span<float> out) const;
  Network Member(std::int64_t member) const;

 private:
  struct Impl;
  explicit Ensemble(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
