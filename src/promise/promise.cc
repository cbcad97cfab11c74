#include "lucid/promise/promise.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"

namespace lucid {
namespace {

std::string UnitWords(const Manifest& manifest) {
  return manifest.unit == "row" ? "row" : "unit of column " + manifest.unit;
}

// Why the run itself cannot keep `full`, whatever the access; empty: it can.
std::string WhyNotFull(const Manifest& manifest) {
  if (!manifest.private_run) {
    return "the training was not private: whoever computes the noised set of the world without a "
           "unit tells the two worlds apart";
  }
  if (manifest.private_run->seeded) return "the noise came from the seed: nothing is private";
  if (!manifest.declared) return "the run declared no bounds: lucid train --declare";
  return "";
}

// Whether every input that an access may be asked is one that the certificate speaks of.
bool Covers(DomainKind certified, DomainKind asked) {
  return certified == DomainKind::kBox || certified == asked;
}

// Why the certificate does not show that the declared bound hides every member; empty: it does.
std::string WhyNotHidden(const Certificate& certificate, double bound, DomainKind domain) {
  if (!Covers(certificate.domain, domain)) {
    return fmt::format("the certificate is for the domain {}, the access for {}",
                       NameOf(certificate.domain), NameOf(domain));
  }
  for (const ClassBound& c : certificate.classes) {
    if (c.beta_lower > bound) {
      return fmt::format("refuted: class {} leaks up to {:.6g}, above the declared bound {:.6g}",
                         c.label, c.beta_lower, bound);
    }
  }
  for (const ClassBound& c : certificate.classes) {
    if (!(c.beta_upper <= bound)) {
      return fmt::format("open: class {} is not proved below the declared bound {:.6g}", c.label,
                         bound);
    }
  }
  return "";
}

// Why `labels` is not kept; empty: it is.
std::string WhyNotLabels(const Manifest& manifest, const Certificate* certificate, bool declared,
                         const AccessTerms& access) {
  if (manifest.not_finite > 0) {
    return "some members are not finite, so nothing can be proved of them";
  }
  if (certificate == nullptr) return "nothing is certified yet: lucid bound";
  if (!access.trusted) return "lucid-check has not accepted the certificate";
  if (declared) {
    const double bound = manifest.declared->bound();
    const DomainKind domain = access.domain.value_or(DefaultDomain(manifest.schema));
    if (std::string why = WhyNotHidden(*certificate, bound, domain); !why.empty()) return why;
  }
  if (access.epsilon > 0 && !access.counted) {
    return fmt::format("every new answer costs epsilon {}, and no ledger counts it",
                       access.epsilon);
  }
  return "";
}

std::string PartialWords(const Manifest& manifest, const Certificate& certificate) {
  if (!certificate.partial) return "";
  return fmt::format(", only for the {} of {} units that have a member", manifest.members,
                     manifest.units);
}

std::string LabelsWords(const Manifest& manifest, const Certificate& certificate, bool declared,
                        const AccessTerms& access) {
  std::string words = fmt::format(
      "labels do not tell N from a network without one {}, as long as the noised set is held "
      "fixed; {} (adjacency: {}; bounds {})",
      UnitWords(manifest),
      access.epsilon > 0 ? fmt::format("every new answer costs epsilon {}", access.epsilon)
                         : std::string("any number of answers"),
      NameOf(manifest.adjacency), declared ? "declared" : "after looking");
  return words + PartialWords(manifest, certificate);
}

}  // namespace

Result<WantedPromise> WantedPromiseNamed(std::string_view name) {
  if (name.empty()) return WantedPromise::kWhatever;
  if (name == "labels") return WantedPromise::kLabels;
  if (name == "full") return WantedPromise::kFull;
  if (name == "both") return WantedPromise::kBoth;
  return InvalidInput(fmt::format("promise '{}' is not one of: labels, full, both", name));
}

Digest PopulationOf(const Manifest& manifest) {
  return manifest.population.empty() ? manifest.train_digest
                                     : Sha256Of("population " + manifest.population);
}

bool HasDeclaredAccess(const Manifest& manifest) { return WhyNotFull(manifest).empty(); }

Promise PromiseOf(const Manifest& manifest, const Certificate* certificate,
                  const AccessTerms& access) {
  if (certificate != nullptr && (certificate->run_key != manifest.run_key ||
                                 certificate->ensemble_digest != manifest.ensemble_digest)) {
    certificate = nullptr;
  }
  const bool declared = HasDeclaredAccess(manifest) && access.scalar;
  Promise promise;
  promise.chosen_after_looking_ = access.only_if_certified || !manifest.after_looking.empty();
  if (declared) {
    const PrivacyStatement& s = manifest.private_run->statement;
    promise.full_ = Promise::Loss{s.epsilon, s.delta};
    promise.full_line_ = fmt::format(
        "(epsilon {}, delta {:.3g}) for each {}, against everything that clients see, any number "
        "of answers; of this one training",
        s.epsilon, s.delta, UnitWords(manifest));
    if (const auto& total = manifest.population_total) {
      promise.full_line_ += fmt::format(
          "; all trainings on population {} together: at most (epsilon {}, delta {:.3g})",
          manifest.population, total->epsilon, total->delta);
    }
    if (!manifest.after_looking.empty()) {
      promise.full_line_ += fmt::format("; {} came from the data", manifest.after_looking);
    }
  } else {
    promise.full_line_ = WhyNotFull(manifest);
    if (promise.full_line_.empty()) {
      promise.full_line_ = "this guard's noised set is made from members: use the scalar guard";
    }
  }
  promise.labels_line_ = WhyNotLabels(manifest, certificate, declared, access);
  promise.labels_ = promise.labels_line_.empty();
  if (promise.labels_) {
    promise.labels_line_ = LabelsWords(manifest, *certificate, declared, access);
    promise.labels_price_ = fmt::format("labels: epsilon {} per answer{}", access.epsilon,
                                        PartialWords(manifest, *certificate));
  }
  return promise;
}

std::string_view Promise::name() const {
  if (full()) return labels_ ? "labels+full" : "full";
  return labels_ ? "labels" : "none";
}

std::string_view Promise::public_name() const { return full() ? "full" : name(); }

std::string Promise::Title() const {
  return std::string(name()) + (chosen_after_looking() ? ", chosen after looking" : "");
}

std::string Promise::Price() const {
  std::string price = labels_price_;
  if (full()) {
    price += fmt::format("{}full: ({}, {:.3g}) once", price.empty() ? "" : "; ", full_->epsilon,
                         full_->delta);
  }
  return price.empty() ? "none" : price;
}

std::vector<std::string> Promise::Lines() const {
  std::string full_words = (full() ? "" : "no, ") + full_line_;
  if (chosen_after_looking()) {
    full_words +=
        "; chosen after looking: that this is served tells clients something that the promise does "
        "not cover";
  }
  return {"promise full: " + full_words,
          "promise labels: " + ((labels_ ? "" : "no, ") + labels_line_)};
}

std::string Promise::PublicStatement() const {
  if (full()) {
    return "Everything that clients of this service ever see is (" +
           fmt::format("epsilon {}, delta {:.3g}", full_->epsilon, full_->delta) +
           ")-differentially private for adding or removing one unit of the training data, for any "
           "number of questions of all clients together." +
           (chosen_after_looking() ? " What is served was chosen after looking at the training "
                                     "data; that choice is not covered."
                                   : "");
  }
  if (labels_) {
    return "As long as the set of noised inputs is held fixed, the labels of this service do not "
           "tell whether the network was trained with or without any one unit of the training data "
           "that is protected.";
  }
  return "This service promises nothing about its training data.";
}

std::string Promise::NotCovered() const {
  if (full()) {
    return "groups (k units: k times), other trainings on the same people, what the operator "
           "publishes by hand, time";
  }
  return labels_ ? "an attacker who can compute the noised inputs of the world without the unit, "
                   "groups, what the operator publishes by hand, time"
                 : "everything";
}

Status Promise::Require(WantedPromise wanted) const {
  const bool wants_full = wanted == WantedPromise::kFull || wanted == WantedPromise::kBoth;
  const bool wants_labels = wanted == WantedPromise::kLabels || wanted == WantedPromise::kBoth;
  if (wants_full && !full()) {
    return InvalidInput(fmt::format("the promise full is not kept: {}", full_line_));
  }
  if (wants_labels && !labels_) {
    return InvalidInput(fmt::format("the promise labels is not kept: {}", labels_line_));
  }
  return Ok();
}

Result<Promise> PromiseOfRun(const std::string& run, const std::string& certificate,
                             const AccessTerms& access) {
  LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(run));
  const std::string path = certificate.empty() ? PathIn(run, kCertificateFile) : certificate;
  const Result<Certificate> found = LoadCertificate(path);
  return PromiseOf(opened.manifest, found.ok() ? &*found : nullptr, access);
}

}  // namespace lucid
