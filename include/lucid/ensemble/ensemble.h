// The networks of a run on disk: N first, then one leave-one-out network per unit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/base/team.h"
#include "lucid/data/dataset.h"
#include "lucid/nn/network.h"
#include "lucid/train/instruction_set.h"
#include "lucid/train/options.h"

namespace lucid {

// Which part of a run this process trains, for job arrays. {1, 1} is all of it.
struct Shard {
  std::int64_t index = 1;  // from 1 to count
  std::int64_t count = 1;
  static Result<Shard> Parse(const std::string& text);  // "2/8"
};

struct PrivacyTotal {
  double epsilon = 0, delta = 0;
};

// What private trainings on one population have cost so far, and may.
struct PopulationAccount {
  std::string name;
  PrivacyTotal total, spent;
};

// The share of N's median confidence that private runs declare as their bound (docs/bound.md).
inline constexpr double kDeclaredShare = 0.05;

struct EnsembleOptions {
  TrainOptions train;
  // train.seed is that of RUN/seed instead, which is made from the system's entropy if it is not
  // there. Shards need a seed that is given: they share it.
  bool seed_from_entropy = false;
  // Not empty: networks are trained by this command instead, and of `train` only the seed counts.
  // /bin/sh -c runs it once per network, `threads` at a time, with LUCID_DATA (the data folder),
  // LUCID_ROWS (how many training rows it has), LUCID_LEAVE_OUT (the rows to leave out, from 0 and
  // with commas between them, or "none"), LUCID_SEED, LUCID_ARCH (canonical) and LUCID_OUT (the
  // .safetensors file to write).
  std::string trainer;
  // The command is a worker instead: it is started `threads` times at most, stays alive, and gets
  // the same as a line of JSON for every network (docs/ensemble.md).
  bool trainer_stays = false;
  // Tries first whether the command is seeded, knows no order of the rows and leaves out what it is
  // told (thirteen trainings at most).
  bool check_trainer = false;
  std::int64_t members = 0;  // 0: a member for every unit; otherwise only so many, evenly spaced,
                             // and every artefact says that the run is partial
  // Private training. Where its secret is (empty: RUN/secret); made where there is none yet.
  std::string secret_file;
  bool seeded_noise = false;  // the secret comes from the seed: nothing is private
  // Not empty: whose data this is. What a private training costs is written into this file before
  // the first step, together with the declared total when the file is made. Of other trainings only
  // its name counts, without folder and extension: the population whose budget answers spend.
  std::string population_file;
  std::optional<PrivacyTotal> population_total;
  // > 0: bounds are declared as so many times the median confidence of N over reference inputs.
  double declare = 0;
  std::optional<Table> reference;  // rows of people who are not in D; else inputs of the domain
  // What of the options was made from D, in words ("the expected number of rows"); empty: nothing.
  // A private run then promises `full, chosen after looking` (docs/fit.md), as it does where the
  // schema says of itself that it was made from data.
  std::string after_looking;
  Shard shard;
  bool resume = false;                            // go on with what an earlier process left
  int threads = 0;                                // 0: all cores
  std::optional<InstructionSet> instruction_set;  // none: the fastest here; the bits are the same
  std::vector<std::string> command;               // recorded in the manifest
  Team* team = nullptr;                           // processes that share the work; null: none
};

// What put the networks of a run into it: an instruction set of this program, a trainer's command,
// a merge of shards, or an import.
enum class NetworkMaker { kAvx512, kAvx2, kPortable, kCommand, kMerge, kImport };
std::string_view NameOf(NetworkMaker maker);  // "avx2", "command", "merged", "imported", ...
Result<NetworkMaker> NetworkMakerNamed(std::string_view name);

// What a member of a run is.
enum class Adjacency {
  kUnitRemoved,         // training without the unit's rows, to the bit (docs/training.md, rule R)
  kBlanked,             // of format 1: training with a blank in the row's place
  kAsTrainedElsewhere,  // what an import or a trainer command says
};
std::string_view NameOf(Adjacency adjacency);  // "unit removed", "blanked", ...

// A private run, beside its options.
struct PrivateRun {
  PrivacyStatement statement;
  Digest secret;        // SHA-256 of the secret
  bool seeded = false;  // the secret came from the seed: nothing is private
};

// Bounds that were declared before anything was certified: r times the lower median of N's
// confidence over reference inputs, one number for all classes.
struct DeclaredBounds {
  double r = 0;
  double median = 0;      // 0 if it was not finite
  std::string reference;  // "domain", or the digest of the reference rows
  double bound() const { return r * median; }
};

// A bound that was tried after something was known of the run (`lucid bound --declare`).
struct DeclareAttempt {
  double r = 0;
  std::string outcome;  // "proved", "refuted", "open"
};

// What a run is and where it came from: RUN/manifest.json.
struct Manifest {
  int format = 2;
  std::string version, build;
  NetworkMaker maker = NetworkMaker::kPortable;
  std::vector<std::string> command;
  std::string folder;  // where it was read; not in the file
  std::string data_directory;
  std::int64_t rows = 0;                         // of the training set
  std::string population;                        // whose budget it was charged to; "": no one's
  std::optional<PrivacyTotal> population_total;  // what trainings on it may cost together
  std::int64_t max_rows = 0, rows_per_unit = 0;  // how it was loaded (LoadOptions)
  std::string unit = "row";  // what a member leaves out: a row, or a column's units
  std::int64_t units = 0;    // different ones: equal rows that are units of their own count once
  Adjacency adjacency = Adjacency::kUnitRemoved;
  std::int64_t members = 0;     // leave-one-out networks trained; 0: not yet (a private run's N is
                                // there before them)
  bool partial = false;         // members < units
  std::int64_t not_finite = 0;  // members of a private run of which nothing can be proved
  std::int64_t expected_rows = 0;  // n0 of the training; 0: it knows none
  bool expected_from_data = false;
  std::optional<PrivateRun> private_run;
  std::optional<DeclaredBounds> declared;
  std::vector<DeclareAttempt> attempts;  // in order
  std::string after_looking;             // EnsembleOptions::after_looking
  Schema schema;
  Architecture architecture;
  std::string training;                          // how: SGD options, a command, "imported ..."
  double train_accuracy = 0, test_accuracy = 0;  // test: NaN where there is no test file
  double seconds = 0;                            // of the process that finished it
  // Of everything that determines the weights, and of what was chosen beside them: what was
  // declared and what came from the data.
  Digest run_key;
  Digest schema_digest, train_digest, test_digest, network_digest, ensemble_digest;
  Digest order_digest;  // of the training rows as they stood: what a row's number means
};

// The data of a run, loaded as it was for training. Values outside of [0,1] are clipped: a run that
// was trained without clipping had none of them, and its digests tell. Rows of a private run that
// do not encode are dropped, as they were. Where data_directory does not hold the run's rows (any
// more), a folder that does is looked for in and beside the run's own folder, by its digests.
// Errors: no data is found, it has another schema, or its rows stand in another order. Whether
// these are still the run's rows, the digests of the result say.
Result<Dataset> LoadRunData(const Manifest& manifest);

// Files of a run directory.
inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kNetworkFile = "network.safetensors";
inline constexpr const char* kEnsembleFile = "ensemble.safetensors";
inline constexpr const char* kSecretFile = "secret";
inline constexpr const char* kSeedFile = "seed";

struct TrainSummary {
  std::string run;
  std::int64_t rows = 0;
  std::int64_t units = 0;
  std::string unit;
  std::string adjacency;
  std::int64_t expected_rows = 0;
  bool expected_from_data = false;
  std::optional<PrivateRun> private_run;
  std::optional<DeclaredBounds> declared;
  std::optional<PopulationAccount> population;
  std::int64_t dropped = 0;      // rows of the training file that did not encode (private runs)
  std::int64_t not_finite = 0;   // members of a private run of which nothing can be proved
  std::int64_t members = 0;      // leave-one-out networks in this run (or shard)
  std::int64_t trained_now = 0;  // networks trained by this process
  std::int64_t parameters = 0;
  bool complete = false;  // false for a shard: merge when all are there
  bool partial = false;
  double train_accuracy = 0, test_accuracy = 0;
  double seconds = 0, networks_per_second = 0;  // of this process
  NetworkMaker maker = NetworkMaker::kPortable;
};

// Trains N and its leave-one-out networks into the folder `run`. Memory does not grow with the
// number of rows. Killed at any moment, it loses at most the networks in flight; called again with
// options.resume it ends with the same bytes.
// Errors: a folder that holds another run or an unfinished one (without resume), no space, no
// permission, divergence; nothing that was there is lost. kInterrupted when stopped. A private run
// writes N, its bounds and a manifest before the members, and no member ends it; no row of its
// data is an error if they were loaded with LoadOptions::total, and neither are no rows at all.
Result<TrainSummary> TrainEnsemble(const Dataset& dataset, const Architecture& architecture,
                                   const EnsembleOptions& options, const std::string& run,
                                   const ProgressCallback& progress = {},
                                   std::stop_token stop = {});

// The part of a helper in options.team while rank 0 calls TrainEnsemble with the same arguments: it
// makes networks for rank 0 until that has all of them. It reads the data and writes nothing.
// Requires: a team, and not its rank 0. Errors: data, options or a program that are not those of
// rank 0; kInterrupted when stopped.
Status HelpTrainEnsemble(const Dataset& dataset, const Architecture& architecture,
                         const EnsembleOptions& options, const std::string& run,
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
  bool partial = false;                      // there may be units without a network
  bool may_equal = false;                    // all members may equal N: a training of no rows
  int threads = 0;                           // 0: all cores
  std::vector<std::string> command;          // recorded in the manifest
};

// Makes a run of networks trained elsewhere (see ImportNetwork for the files): `network` is N;
// `members` is a folder with a file for each leave-one-out network, whose name holds one number,
// the left-out row, or a safetensors file with a first axis of networks and, unless they are all
// rows in order, I64 [n] "rows". Called again after a stop it goes on; what the run is made of is
// in its key.
// A unit is named by its first row; of equal rows that are units of their own the first names all.
// Errors: units missing (unless options.partial), rows out of range, a unit named twice; networks
// that do not fit the data, differ in architecture, or are not finite; members that all equal N
// (unless options.may_equal); as TrainEnsemble for the folder.
Result<TrainSummary> ImportEnsemble(const Dataset& dataset, const std::string& network,
                                    const std::string& members, const ImportOptions& options,
                                    const std::string& run, const ProgressCallback& progress = {},
                                    std::stop_token stop = {});

// Notes an attempt in the manifest of a run. Errors: as OpenRunNetwork; kIo.
Status NoteAttempt(const std::string& run, const DeclareAttempt& attempt);

// The bounds that `r` gives a run: of the median in its manifest, or, where there is none, of the
// one over inputs of the domain.
double BoundFor(double r, const Manifest& manifest, const Network& network);

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
  // The name of the unit it was trained without: the unit's first row.
  std::int64_t RowOf(std::int64_t member) const;
  // Requires: 0 <= member < members(), out.size() == parameters.
  void CopyParameters(std::int64_t member, std::span<float> out) const;
  Network Member(std::int64_t member) const;

 private:
  struct Impl;
  explicit Ensemble(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// TrainEnsemble, and opens the run that it leaves.
inline Result<Ensemble> Train(const Dataset& dataset, const Architecture& architecture,
                              const EnsembleOptions& options, const std::string& run,
                              const ProgressCallback& progress = {}, std::stop_token stop = {}) {
  LUCID_TRY(TrainEnsemble(dataset, architecture, options, run, progress, std::move(stop)));
  return Ensemble::Open(run);
}

}  // namespace lucid
