// What a run will be, before any of it exists: its key, its members, its files.
#pragma once

#include <optional>
#include <string>

#include "ensemble/store.h"
#include "lucid/data/units.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// Everything that determines a run's weights, and how much data there is. The number of members,
// shards, threads and the instruction set are not in it: they change no network.
struct RunContents {
  Digest schema, train;
  std::int64_t rows = 0, units = 0;
  std::string architecture, training;  // canonical
  std::optional<Digest> secret = {};   // of a private run
  // ChoicesText: it changes no weights, but what the run promises. Empty: there are none.
  std::string choices = {};
};
// `format`: of the manifest, 1 or 2. Format 1 knows neither rows nor units.
Digest RunKey(int format, const RunContents& contents);

// How the networks come to be, in one fixed spelling: part of the run key. Requires: options.train
// is resolved unless there is a trainer command.
std::string TrainingText(const EnsembleOptions& options);
// What was chosen beside the training: by looking at D (`after_looking`, in words), and the share r
// that bounds are declared at with its reference (DeclaredBounds; r = 0: none are). A part of the
// run key, so that a manifest that was edited, or a run that goes on with another choice, is not
// taken for the same one.
std::string ChoicesText(const std::string& after_looking, double r, const std::string& reference);
std::string ImportedText(const Digest& networks);  // `networks`: of all rows and parameters
bool IsImported(const std::string& training);

// The left-out units of a run's networks in the order of the store: -1 (N), then ascending names.
std::vector<std::int64_t> NetworkRows(const std::vector<Unit>& units, std::int64_t members);
// The same of a run of format 1, whose every row had a member.
std::vector<std::int64_t> BlankedNetworkRows(std::int64_t rows, std::int64_t members);

// Errors: rows of a run that are not -1 followed by ascending rows of the data.
Status CheckNetworkRows(const std::vector<std::int64_t>& networks, std::int64_t rows);

// The part of `rows` that a shard trains: contiguous, sizes differing by at most one.
std::vector<std::int64_t> ShardOf(const std::vector<std::int64_t>& rows, const Shard& shard);

std::string ShardFile(const Shard& shard);  // "shard-2-of-8.safetensors"

// Errors: data of less than two units (unless `total`), or an architecture that does not fit it.
Status CheckData(const Dataset& dataset, const std::vector<Unit>& units,
                 const Architecture& architecture, bool total = false);

// Checks options against the data and lays out the store of the whole run. Requires: resolved
// options, as for TrainingText.
Result<StoreSpec> WholeRun(const Dataset& dataset, const std::vector<Unit>& units,
                           const Architecture& architecture, const EnsembleOptions& options,
                           const std::optional<Digest>& secret, const std::string& choices);

std::string EncodeManifest(const Manifest& manifest);
Result<Manifest> ParseManifest(std::string_view text, const std::string& source);

}  // namespace lucid
