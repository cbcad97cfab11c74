#include "lucid/promise/promise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lucid {
namespace {

using testing::HasSubstr;

Manifest PlainRun() {
  Manifest manifest;
  manifest.units = 9;
  manifest.members = 9;
  manifest.run_key = Sha256Of("run");
  manifest.ensemble_digest = Sha256Of("ensemble");
  return manifest;
}

// Declares the bound 0.5 for both classes.
Manifest PrivateManifest() {
  Manifest manifest = PlainRun();
  manifest.private_run = PrivateRun{};
  manifest.private_run->statement.epsilon = 0.75;
  manifest.private_run->statement.delta = 1e-6;
  manifest.declared = DeclaredBounds{0.25, 2, "domain"};
  return manifest;
}

Certificate CertificateOf(const Manifest& manifest, double lower, double upper) {
  Certificate certificate;
  certificate.run_key = manifest.run_key;
  certificate.ensemble_digest = manifest.ensemble_digest;
  certificate.classes.resize(2);
  certificate.classes[1].label = 1;
  certificate.classes[1].beta_lower = lower;
  certificate.classes[1].beta_upper = upper;
  return certificate;
}

std::string NameFor(const Manifest& manifest, const std::optional<Certificate>& certificate,
                    const AccessTerms& access = {}) {
  return std::string(PromiseOf(manifest, certificate ? &*certificate : nullptr, access).name());
}

TEST(PromiseTest, ARunThatIsNotPrivateKeepsLabelsOnceCertified) {
  const Manifest run = PlainRun();
  EXPECT_EQ(NameFor(run, {}), "none");
  EXPECT_EQ(NameFor(run, CertificateOf(run, 0, 0.7)), "labels");
  EXPECT_EQ(NameFor(run, CertificateOf(run, 0, 0.7), {.scalar = false}), "labels");
  Manifest declares = run;  // bounds of its own do not make it private
  declares.declared = DeclaredBounds{0.25, 2, "domain"};
  EXPECT_EQ(NameFor(declares, {}), "none");
  EXPECT_EQ(NameFor(declares, CertificateOf(run, 0, 0.7)), "labels");
}

TEST(PromiseTest, APrivateRunKeepsFullWhateverIsCertified) {
  const Manifest run = PrivateManifest();
  EXPECT_EQ(NameFor(run, {}), "full");
  EXPECT_EQ(NameFor(run, CertificateOf(run, 0.6, 0.7)), "full");  // refuted
  EXPECT_EQ(NameFor(run, CertificateOf(run, 0.4, 0.7)), "full");  // open
  EXPECT_EQ(NameFor(run, CertificateOf(run, 0.4, 0.5)), "labels+full");
  Manifest begun = run;
  begun.members = 0;
  begun.not_finite = 3;
  EXPECT_EQ(NameFor(begun, CertificateOf(run, 0.4, 0.5)), "full");
}

TEST(PromiseTest, ClientsOfAPrivateRunAreToldTheSameWhateverIsCertified) {
  const Manifest run = PrivateManifest();
  for (const double upper : {0.5, 0.7}) {
    const Certificate certificate = CertificateOf(run, 0.4, upper);
    EXPECT_EQ(PromiseOf(run, &certificate).public_name(), "full");
  }
  EXPECT_EQ(PromiseOf(run, nullptr).public_name(), "full");
}

TEST(PromiseTest, GuardsThatLookAtMembersKeepLabelsOnly) {
  const Manifest run = PrivateManifest();
  // Their bounds are the certificate's, so a declared bound that was refuted does not matter.
  EXPECT_EQ(NameFor(run, CertificateOf(run, 0.6, 0.7), {.scalar = false}), "labels");
  EXPECT_EQ(NameFor(run, {}, {.scalar = false}), "none");
}

TEST(PromiseTest, NoiseFromTheSeedOrNoDeclaredBoundsIsNotFull) {
  Manifest seeded = PrivateManifest();
  seeded.private_run->seeded = true;
  EXPECT_EQ(NameFor(seeded, {}), "none");
  EXPECT_FALSE(HasDeclaredAccess(seeded));
  EXPECT_EQ(NameFor(seeded, CertificateOf(seeded, 0.4, 0.5)), "labels");
  Manifest undeclared = PrivateManifest();
  undeclared.declared.reset();
  EXPECT_EQ(NameFor(undeclared, {}), "none");
  EXPECT_FALSE(HasDeclaredAccess(undeclared));
  EXPECT_TRUE(HasDeclaredAccess(PrivateManifest()));
}

TEST(PromiseTest, ACertificateCountsOnlyForItsRunAndItsDomain) {
  const Manifest run = PrivateManifest();
  Certificate certificate = CertificateOf(run, 0.4, 0.5);
  certificate.domain = DomainKind::kSchema;
  EXPECT_EQ(NameFor(run, certificate, {.domain = DomainKind::kBox}), "full");
  EXPECT_EQ(NameFor(run, certificate, {.domain = DomainKind::kSchema}), "labels+full");
  certificate.domain = DomainKind::kBox;
  EXPECT_EQ(NameFor(run, certificate, {.domain = DomainKind::kSchema}), "labels+full");
  certificate.ensemble_digest = Sha256Of("other members");
  EXPECT_EQ(NameFor(run, certificate), "full");
  certificate = CertificateOf(PlainRun(), 0, 0.1);
  certificate.run_key = Sha256Of("other run");
  EXPECT_EQ(NameFor(PlainRun(), certificate), "none");
}

TEST(PromiseTest, AnswersThatNobodyCountsKeepNoLabels) {
  const Manifest run = PrivateManifest();
  const Certificate certificate = CertificateOf(run, 0.4, 0.5);
  EXPECT_EQ(NameFor(run, certificate, {.epsilon = 1, .counted = false}), "full");
  EXPECT_EQ(NameFor(run, certificate, {.epsilon = 1, .counted = true}), "labels+full");
  EXPECT_EQ(NameFor(run, certificate, {.epsilon = 0, .counted = false}), "labels+full");
}

TEST(PromiseTest, OpeningOnlyIfCertifiedIsSaid) {
  const Manifest run = PrivateManifest();
  const Certificate certificate = CertificateOf(run, 0.4, 0.5);
  const Promise asked = PromiseOf(run, &certificate, {.only_if_certified = true});
  EXPECT_EQ(asked.Title(), "labels+full, chosen after looking");
  EXPECT_THAT(asked.Lines()[0], HasSubstr("chosen after looking"));
  EXPECT_EQ(PromiseOf(run, &certificate).Title(), "labels+full");
}

TEST(PromiseTest, ASchemaFromTheDataIsSaidToOperatorsAndToClients) {
  Manifest run = PrivateManifest();
  EXPECT_THAT(PromiseOf(run, nullptr).PublicStatement(), testing::Not(HasSubstr("after looking")));
  run.after_looking = "the schema";
  const Promise promise = PromiseOf(run, nullptr);
  EXPECT_EQ(promise.Title(), "full, chosen after looking");
  EXPECT_THAT(promise.Lines().front(), HasSubstr("the schema came from the data"));
  EXPECT_THAT(promise.PublicStatement(), HasSubstr("chosen after looking"));
}

TEST(PromiseTest, WhatAPopulationMayPayIsSaidBesideThisTraining) {
  Manifest run = PrivateManifest();
  EXPECT_THAT(PromiseOf(run, nullptr).Lines().front(), testing::EndsWith("of this one training"));
  run.population = "clinic";
  run.population_total = PrivacyTotal{2, 1e-5};
  EXPECT_THAT(
      PromiseOf(run, nullptr).Lines().front(),
      HasSubstr("of this one training; all trainings on population clinic together: at most "
                "(epsilon 2, delta 1e-05)"));
}

TEST(PromiseTest, RequireNamesWhatIsMissing) {
  const Promise full = PromiseOf(PrivateManifest(), nullptr);
  EXPECT_TRUE(full.Require(WantedPromise::kWhatever).ok());
  EXPECT_TRUE(full.Require(WantedPromise::kFull).ok());
  for (const WantedPromise wanted : {WantedPromise::kLabels, WantedPromise::kBoth}) {
    const Status status = full.Require(wanted);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalidInput);
    EXPECT_THAT(status.error().message, HasSubstr("labels is not kept: nothing is certified"));
  }
  EXPECT_THAT(PromiseOf(PlainRun(), nullptr).Require(WantedPromise::kFull).error().message,
              HasSubstr("full is not kept: the training was not private"));
  EXPECT_EQ(WantedPromiseNamed("both").value(), WantedPromise::kBoth);
  EXPECT_EQ(WantedPromiseNamed("").value(), WantedPromise::kWhatever);
  EXPECT_FALSE(WantedPromiseNamed("idp").ok());
}

TEST(PromiseTest, TheWordsNameUnitPriceAndWhatIsHeldFixed) {
  Manifest run = PrivateManifest();
  run.unit = "patient";
  Certificate certificate = CertificateOf(run, 0.4, 0.5);
  certificate.partial = true;
  run.members = 4;
  const auto lines = PromiseOf(run, &certificate).Lines();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], HasSubstr("promise full: (epsilon 0.75, delta 1e-06) for each unit of "
                                  "column patient"));
  EXPECT_THAT(lines[1], HasSubstr("as long as the noised set is held fixed"));
  EXPECT_THAT(lines[1], HasSubstr("only for the 4 of 9 units"));
  EXPECT_THAT(PromiseOf(run, nullptr).Lines()[1], HasSubstr("promise labels: no, nothing"));
  EXPECT_EQ(PromiseOf(run, &certificate, {.epsilon = 0.2}).Price(),
            "labels: epsilon 0.2 per answer, only for the 4 of 9 units that have a member; full: "
            "(0.75, 1e-06) once");
  EXPECT_EQ(PromiseOf(PlainRun(), nullptr).Price(), "none");
}

}  // namespace
}  // namespace lucid
