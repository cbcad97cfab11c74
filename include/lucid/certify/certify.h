// From a trained run to everything that its guards read: certificate, index and spatial bounds.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certificate/proof.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/native/bound.h"
#include "lucid/paper/bound.h"
#include "lucid/promise/promise.h"

namespace lucid {

struct CertifyOptions {
  // The engine that proves the bounds, with its options. The default is the native engine.
  std::variant<NativeBoundOptions, MilpBoundOptions> engine;
  // The file of the certificate. Empty: RUN/certificate.json, and RUN/bounds.csv beside it records
  // how the bounds closed in.
  std::string certificate;
  // Also write the proof, beside the certificate, unless the engine's options name another file.
  // Only the native engine writes one.
  bool proof = true;
  // Bounds to decide about instead of searching for the smallest, the same for every class. (The
  // native engine stops when they are proved or refuted; of the paper's only the outcome is noted.)
  std::optional<DeclaredDecision> declared;
  bool index = true;               // also write RUN/index.safetensors, which the exact guard reads
  bool spatial = true;             // also write RUN/spatial.lucid, which the spatial guard reads
  SpatialOptions spatial_options;  // its threads and team are those of the engine

  BoundOptions& bound();  // what both engines ask for
  const BoundOptions& bound() const;
};

// The decision about the bounds that the run itself declared. Requires: manifest.declared.
DeclaredDecision OwnDecision(const Manifest& manifest);

// Where a search for this certificate is saved, so that it can be resumed.
std::string JournalPath(const std::string& certificate);

// What a search goes on with that is not told what may be asked: the domain of the certificate in
// this file if there is one of this run, otherwise the default of the schema. Bounds of one domain
// do not improve those of another.
DomainKind DomainOfEarlier(const Ensemble& ensemble, const std::string& certificate);

struct CertifySummary {
  Certificate certificate;         // as it was written
  std::string path;                // of the certificate
  Promise promise;                 // that the run keeps with it
  std::vector<std::int32_t> kept;  // classes whose earlier upper bound was smaller, and stays
  bool finished = false;           // every class that was asked for ended by itself
  bool guided = true;              // false: the spatial bounds had no training data to go by
  bool boxes_help = true;          // false: spatial bounds were not written, they spare too little
};

// Computes the bounds of `ensemble`, which was opened from the folder `run`, and writes the files.
// Where the certificate's file holds one of this run and domain, the smaller upper bound of every
// class stays with its part of the proof, and the larger lower bound with its witness.
// The certificate is written as soon as there are bounds, and once more when the files that it
// names by their digests are there. A stop during the first part gives looser bounds, a stop during
// the second a certificate without those files; neither is an error. Errors: of ComputeBounds and
// ComputeBoundsByMilp; kIo.
Result<CertifySummary> Certify(const Ensemble& ensemble, const std::string& run,
                               const CertifyOptions& options = {},
                               const ProgressCallback& progress = {}, std::stop_token stop = {});

// The part of a helper in `team` while rank 0 certifies the same run with either engine: it does
// tasks of the search, of the index and of the spatial bounds, and keeps no books, so that nothing
// is lost with it but what it has in hand. Returns when rank 0 has ended. Requires: not rank 0.
// Errors: a run or a program that are not those of rank 0.
Status HelpCertify(const Ensemble& ensemble, Team& team, int threads, std::stop_token stop = {});

}  // namespace lucid
