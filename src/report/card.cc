#include "lucid/report/card.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "lucid/base/digest.h"
#include "lucid/base/version.h"
#include "lucid/certificate/certificate.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/guard.h"
#include "lucid/promise/promise.h"
#include "report/markup.h"
#include "report/page_style.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

std::string RandomId() {
  const GuardKey key = GuardKey::Random();  // entropy; the id is a hash of it
  const std::string bytes(reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size());
  return Sha256Of("lucid-service" + bytes).Hex().substr(0, 32);
}

// Never the seed, and of the size of the data only what was declared.
std::string RecipeOf(const Manifest& manifest) {
  const Result<TrainOptions> options = TrainOptions::FromCanonical(manifest.training);
  if (!options.ok()) return "trained elsewhere";
  using Method = TrainOptions::Method;
  std::string recipe = fmt::format(
      "{}, batch {}, {} epochs, rate {}, {}",
      options->method == Method::kPrivate   ? "private gradient descent with clipped units"
      : options->method == Method::kClipped ? "gradient descent with clipped units"
                                            : "gradient descent",
      options->batch, options->epochs, options->rate,
      options->schedule == TrainOptions::Schedule::kCosine ? "cosine decay" : "constant");
  if (options->method != Method::kPlain) recipe += fmt::format(", clip {}", options->clip);
  if (manifest.expected_rows > 0 && !manifest.expected_from_data) {
    recipe += fmt::format(", for {} expected rows", manifest.expected_rows);
  }
  return recipe;
}

DomainKind DomainOf(const std::string& run, const Manifest& manifest, const Promise& promise,
                    const CardOptions& options) {
  if (options.domain) return *options.domain;
  if (promise.full()) return DefaultDomain(manifest.schema);
  const std::string& given = options.certificate;
  const Result<Certificate> certificate =
      LoadCertificate(given.empty() ? PathIn(run, kCertificateFile) : given);
  return certificate.ok() ? certificate->domain : DefaultDomain(manifest.schema);
}

}  // namespace

Result<PrivacyCard> MakeCard(const std::string& run, const CardOptions& options) {
  LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(run));
  const Manifest& manifest = opened.manifest;
  const AccessTerms access{.domain = options.domain, .epsilon = options.answer_epsilon};
  Promise promise = PromiseOf(manifest, nullptr, access);
  if (!promise.full()) {
    LUCID_ASSIGN(promise, PromiseOfRun(run, options.certificate, access));
  }
  PrivacyCard card;
  card.promise = promise.public_name();
  card.statement = promise.PublicStatement();
  card.not_covered = promise.NotCovered();
  card.unit = manifest.unit;
  card.adjacency = promise.full() ? "one unit added or removed" : NameOf(manifest.adjacency);
  if (promise.full()) {
    card.epsilon = promise.loss()->epsilon;
    card.delta = promise.loss()->delta;
    card.r = manifest.declared->r;
  }
  card.answer_epsilon = options.answer_epsilon;
  card.domain = DomainOf(run, manifest, promise, options);
  card.recipe = RecipeOf(manifest);
  card.version = Version();
  card.service = options.service.empty() ? RandomId() : options.service;
  return card;
}

std::string CardJson(const PrivacyCard& card) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  const Json json = {{"promise", card.promise},
                     {"statement", card.statement},
                     {"not_covered", card.not_covered},
                     {"unit", card.unit},
                     {"adjacency", card.adjacency},
                     {"epsilon", number(card.epsilon)},
                     {"delta", number(card.delta)},
                     {"r", number(card.r)},
                     {"answer_epsilon", card.answer_epsilon},
                     {"domain", NameOf(card.domain)},
                     {"recipe", card.recipe},
                     {"lucid", card.version},
                     {"service", card.service}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string CardPage(const PrivacyCard& card) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>\n<title>Privacy card</title>\n<style>\n{}</style>\n</head>\n<body>\n"
      "<main>\n<h1>Privacy card: {}</h1>\n<p class=\"lede\">{}</p>\n<div class=\"scroll\"><table "
      "class=\"facts\">\n<tbody>\n",
      PageStyle(), EscapedMarkup(card.promise), EscapedMarkup(card.statement));
  const auto fact = [&](std::string_view name, const std::string& value) {
    page += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", name, EscapedMarkup(value));
  };
  fact("unit", card.unit);
  fact("adjacency", card.adjacency);
  if (card.epsilon) fact("epsilon, delta", fmt::format("{}, {:.3g}", *card.epsilon, *card.delta));
  if (card.r) fact("declared bound", fmt::format("{} of the median confidence", *card.r));
  fact("epsilon of an answer", fmt::format("{}", card.answer_epsilon));
  fact("domain", std::string(NameOf(card.domain)));
  fact("training", card.recipe);
  fact("not covered", card.not_covered);
  fact("made by", "LUCID " + card.version);
  fact("service", card.service);
  page +=
      "</tbody></table></div>\n<footer>Whoever publishes more about this service than this card "
      "and its answers makes a release that the promise does not cover.</footer>\n</main>\n"
      "</body>\n</html>\n";
  return page;
}

}  // namespace lucid
