// Which promise an access to a run keeps. It is computed here, from the run's manifest and
// certificate, and stated nowhere else: commands, console, report and certificate show what this
// header gives them. docs/threat_model.md states both promises in full.
//
//   labels  A service with N's labels and one with the labels of the network without a unit, both
//           with the same noised set, cannot be told apart by answers at epsilon 0.
//   full    The whole service, noised set and all, is (E, delta)-differentially private for adding
//           or removing one unit: everything that clients ever see.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// The properties of an access that decide which promises it keeps.
struct AccessTerms {
  // The noised set is that of one bound per class. Guards that look at members, or at bounds made
  // of them, are not scalar.
  bool scalar = true;
  // What may be asked of an access with declared bounds. None: the default of the run's schema.
  std::optional<DomainKind> domain;
  double epsilon = 0;   // of an answer
  bool counted = true;  // above epsilon 0: a ledger counts what answers cost
  bool trusted = true;  // lucid-check accepted the certificate, or nobody asks for that
  // The access opens only if `labels` is certified. Then opening tells that it is.
  bool only_if_certified = false;
};

// An answer to `--promise`.
enum class WantedPromise { kWhatever, kLabels, kFull, kBoth };
// "labels", "full", "both"; an empty name is kWhatever.
Result<WantedPromise> WantedPromiseNamed(std::string_view name);

// Whether a scalar access to this run takes its bounds from the manifest, and needs neither
// certificate nor members: the run is private and declared its bounds. No other code decides this.
bool HasDeclaredAccess(const Manifest& manifest);

// The population whose budget answers spend: the one that a run names, or its training rows if it
// names none. A ledger belongs to one population.
Digest PopulationOf(const Manifest& manifest);

class Promise {
 public:
  // (epsilon, delta) of `full`.
  struct Loss {
    double epsilon = 0, delta = 0;
  };

  bool labels() const { return labels_; }
  bool full() const { return full_.has_value(); }
  const std::optional<Loss>& loss() const { return full_; }
  // What is served was chosen by looking at something that is not private.
  bool chosen_after_looking() const { return full() && chosen_after_looking_; }

  // "none", "labels", "full", "labels+full".
  std::string_view name() const;
  // What clients may be told: for a private run never more than "full", because whether `labels`
  // was certified is a function of the data.
  std::string_view public_name() const;
  // The name with what qualifies it: "labels+full, chosen after looking".
  std::string Title() const;
  // In a few words, for a cell of a table: "labels: epsilon 0.2 per answer; full: (1, 1e-06) once",
  // "none".
  std::string Price() const;
  // Two sentences for operators, one per promise: what is kept at which price, or why it is not.
  std::vector<std::string> Lines() const;

  // The sentences about public_name(), for readers who are not operators.
  std::string PublicStatement() const;
  std::string NotCovered() const;

  // Errors: kInvalidInput says which promise is not kept, and why: more was asked for than there
  // is.
  Status Require(WantedPromise wanted) const;

 private:
  friend Promise PromiseOf(const Manifest&, const Certificate*, const AccessTerms&);

  bool labels_ = false;
  std::optional<Loss> full_;
  bool chosen_after_looking_ = false;
  std::string labels_line_, full_line_;  // the words: of what is kept, or why it is not
  std::string labels_price_;
};

// What an access to the run keeps. `certificate`: null if there is none. One of another run counts
// as none.
Promise PromiseOf(const Manifest& manifest, const Certificate* certificate,
                  const AccessTerms& access = {});

// The same from the files of a run; `certificate` empty: RUN/certificate.json. A certificate that
// is not there or cannot be read counts as none: it must never decide whether a run is served.
// Errors: the manifest.
Result<Promise> PromiseOfRun(const std::string& run, const std::string& certificate = "",
                             const AccessTerms& access = {});

}  // namespace lucid
