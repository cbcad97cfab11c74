// The privacy card: what may be published about a service, for people who have to document it.
#pragma once

#include <optional>
#include <string>

#include "lucid/base/result.h"
#include "lucid/data/domain.h"

namespace lucid {

// Everything on it is an option that was fixed before the data was looked at, or random. For a
// private run nothing else of the run is read: the promise is `full`, whether or not `labels` was
// certified as well, because that is a function of the data.
struct PrivacyCard {
  std::string promise;                   // as clients may be told
  std::string statement;                 // the promise in a sentence
  std::string not_covered;               // the same of what it does not cover
  std::string unit;                      // "row", or the column of the units
  std::string adjacency;                 // what the other world is
  std::optional<double> epsilon, delta;  // of private training
  std::optional<double> r;               // of declared bounds
  double answer_epsilon = 0;             // of an answer
  DomainKind domain = DomainKind::kBox;  // what may be asked
  std::string recipe;                    // of the training, without its seed
  std::string version;                   // of LUCID
  std::string service;                   // a random id
};

struct CardOptions {
  std::string certificate;    // empty: RUN/certificate.json; of a run that is not private
  double answer_epsilon = 0;  // as the service has it
  // None: the certificate's, and of a run that keeps `full` the default of its schema.
  std::optional<DomainKind> domain;
  std::string service;  // empty: a new one
};

// Errors: the run's files.
Result<PrivacyCard> MakeCard(const std::string& run, const CardOptions& options = {});

std::string CardJson(const PrivacyCard& card);
std::string CardPage(const PrivacyCard& card);  // HTML, one printed page

inline constexpr const char* kCardFile = "card.json";
inline constexpr const char* kCardPage = "card.html";

}  // namespace lucid
