#include "lucid/certificate/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <type_traits>

#include "certificate/seal.h"
#include "certificate/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;

Network TheNetwork() { return RandomNetwork("3 > dense 4 > 2", 1); }
Certificate TheCertificate() { return CertificateFor(TheNetwork()); }

// The same text with the seal its content has: what a careful forger would write.
std::string Resealed(std::string text) {
  const std::size_t at = text.rfind(",\n  \"seal\"");
  text.resize(at);
  const Digest seal = Sha256Of(text + "\n}\n");
  return text + ",\n  \"seal\": \"" + seal.Hex() + "\"\n}\n";
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Certificate, RoundTripsExactly) {
  Certificate c = TheCertificate();
  for (const double beta : {0.0, 0x1p-1074, 0x1.fffffffffffffp-1023, 0.1, 1.0, 1e300, kInfinity}) {
    c.classes[0].beta_upper = beta;
    c.classes[0].beta_lower = std::isinf(beta) ? 1 : beta;
    const std::string text = EncodeCertificate(c);
    const auto again = ParseCertificate(text, "c");
    ASSERT_TRUE(again.ok()) << again.error().message << text;
    EXPECT_EQ(EncodeCertificate(*again), text);
    EXPECT_EQ(again->classes[0].beta_upper, beta);
    EXPECT_EQ(again->classes[0].beta_lower, c.classes[0].beta_lower);
    EXPECT_EQ(again->classes[1].beta_upper, kInfinity);
    EXPECT_FALSE(again->classes[1].witness.has_value());
    ASSERT_TRUE(again->classes[0].witness.has_value());
    EXPECT_EQ(again->classes[0].witness->x, c.classes[0].witness->x);
    EXPECT_EQ(again->classes[0].witness->member, 3);
    EXPECT_EQ(again->classes[0].witness->row, 11);
    EXPECT_EQ(again->classes[0].status, BoundStatus::kGap);
    EXPECT_EQ(again->network_error, c.network_error);
    EXPECT_EQ(again->member_error, c.member_error);
    EXPECT_EQ(again->command, c.command);
    EXPECT_EQ(again->options, c.options);
    EXPECT_EQ(again->seconds, c.seconds);
    EXPECT_EQ(again->network_digest, c.network_digest);
    EXPECT_EQ(again->ensemble_digest, c.ensemble_digest);
  }
}

TEST(Certificate, EveryFloatOfAWitnessRoundTrips) {
  Certificate c = TheCertificate();
  Stream stream(5, "floats");
  std::vector<float>& x = c.classes[0].witness->x;
  x.clear();
  for (int i = 0; i < 2000; ++i) {
    const float value = static_cast<float>(stream.Uniform());
    x.push_back(i % 3 == 0 ? value * 0x1p-120F : value);
  }
  const auto again = ParseCertificate(EncodeCertificate(c), "c");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->classes[0].witness->x, x);
}

TEST(Certificate, IsWrittenAsDocumented) {
  const std::string text = EncodeCertificate(TheCertificate());
  for (const char* part :
       {"{\n  \"format\": \"lucid-certificate-2\",\n  \"lucid\": \"0.1.0\",\n",
        "\"beta_upper\": 0.75,\n      \"beta_upper_hex\": \"0x1.8p-1\",",
        "\"beta_upper\": null,\n      \"beta_upper_hex\": \"inf\",", "\"gap\": 1.0",
        "\"status\": \"gap\"", "\"witness\": null", "\"members_pruned_by_screen\": 0",
        "\"regions\": 5", "\"subsets\": 12", "\"counters\": {}", "\"partial\": true"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Certificate, EveryChangedByteIsRefused) {
  const std::string good = EncodeCertificate(TheCertificate());
  ASSERT_TRUE(ParseCertificate(good, "c").ok());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int change : {1, 0x20, 0x80}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      ASSERT_FALSE(ParseCertificate(bad, "c").ok()) << "byte " << i << " ^ " << change;
    }
  }
}

TEST(Certificate, EveryTruncationAndExtensionIsRefused) {
  const std::string good = EncodeCertificate(TheCertificate());
  for (std::size_t size = 0; size < good.size(); ++size) {
    ASSERT_FALSE(ParseCertificate(good.substr(0, size), "c").ok()) << size;
  }
  EXPECT_FALSE(ParseCertificate(good + "\n", "c").ok());
  EXPECT_FALSE(ParseCertificate(" " + good, "c").ok());
  EXPECT_FALSE(ParseCertificate(good + good, "c").ok());
}

TEST(Certificate, EditsUnderARightSealAreRefusedWithTheFieldOrLine) {
  const std::string good = EncodeCertificate(TheCertificate());
  ASSERT_EQ(Resealed(good), good);
  const struct {
    const char *from, *to, *word;
  } cases[] = {
      {"\"beta_upper\": 0.75", "\"beta_upper\": 0.5", "beta_upper"},
      {"\"beta_upper\": 0.75", "\"beta_upper\": 0.750", "beta_upper"},
      {"\"gap\": 1.0", "\"gap\": 0.5", "gap"},
      {"0x1.8p-1", "0x1.0p-1", "classes/0/beta_lower"},
      {"0x1.8p-1", "0x1.80p-1", "beta_upper_hex"},
      {"0x1.8p-1", "-0x1.8p-1", "classes/0/beta_upper_hex"},
      {"0x1.8p-1", "0x-1.8p-1", "classes/0/beta_upper_hex"},
      {"0x1.8p-1", "nan", "classes/0/beta_upper_hex"},
      {"0x1.8p-1", "0xnan", "classes/0/beta_upper_hex"},
      {"0x1.8p-1", "0xinf", "classes/0/beta_upper_hex"},
      {"0x1.8p-1", "", "classes/0/beta_upper_hex"},
      {"\"status\": \"gap\"", "\"status\": \"good\"", "classes/0/status"},
      {"\"class\": 1", "\"class\": 0", "classes/1/class"},
      {"\"members\": 7", "\"members\": 21", "members"},
      {"\"members\": 7", "\"members\": 7.0", "members"},
      {"\"members\": 7", "\"members\": 18446744073709551615", "members"},
      {"\"domain\": \"box\"", "\"domain\": \"ball\"", "domain"},
      {"\"engine\": \"milp\",", "", "engine"},
      {"\"engine\": \"milp\",", "\"engine\": \"milp\",\n  \"more\": 1,", "more"},
      {"\"engine\": \"milp\",", "\"engine\": \"milp\",\n  \"engine\": \"milp\",", "engine"},
      {"\"engine\": \"milp\",", "\"engine\":  \"milp\",", "engine"},
      {"\"member\": 3", "\"member\": -3", "classes/0/witness/member"},
      {"0.10000000149011612", "0.1", "classes/0/witness/x"},
      {"0.10000000149011612", "null", "classes/0/witness/x"},
      {"0.10000000149011612", "1e300", "classes/0/witness/x"},
      {"\"subsets\": 12", "\"subsets\": 1.5", "classes/0/counters"},
      {"\"subsets\": 12", "\"subsets\": 12,\n        \"subsets\": 12", "subsets"},
      {"lucid-certificate-2", "lucid-certificate-3", "lucid-certificate-3"},
      {"lucid-certificate-2", "lucid-certificate-1", "could be too low"},
      {"\"seconds\": 1.5", "\"seconds\": -1.5", "seconds"},
      {"\"seconds\": 1.5", "\"seconds\": null", "seconds"},
  };
  for (const auto& item : cases) {
    const auto bad = ParseCertificate(Resealed(Replaced(good, item.from, item.to)), "c.json");
    ASSERT_FALSE(bad.ok()) << item.from << " -> " << item.to;
    EXPECT_THAT(bad.error().message, HasSubstr("c.json"));
    EXPECT_THAT(bad.error().message, HasSubstr(item.word)) << item.to;
    EXPECT_EQ(bad.error().message.find('\n'), std::string::npos);
  }
}

TEST(Certificate, ABoundWithoutAWitnessHasNoLowerBound) {
  Certificate c = TheCertificate();
  c.classes[0].witness.reset();
  EXPECT_FALSE(ParseCertificate(EncodeCertificate(c), "c").ok());
  c.classes[0].beta_lower = 0;
  EXPECT_TRUE(ParseCertificate(EncodeCertificate(c), "c").ok());
}

TEST(Certificate, IsSavedWholeAndLoaded) {
  const TemporaryFolder folder;
  const std::string path = folder / kCertificateFile;
  Certificate c = TheCertificate();
  ASSERT_TRUE(SaveCertificate(c, path).ok());
  const auto again = LoadCertificate(path);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(EncodeCertificate(*again), EncodeCertificate(c));

  c.classes[0].beta_upper = std::nan("");
  const Status refused = SaveCertificate(c, path);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("classes/0/beta_upper"));
  EXPECT_TRUE(LoadCertificate(path).ok()) << "the one that was there is untouched";
  EXPECT_EQ(LoadCertificate(folder / "none").error().kind, ErrorKind::kIo);
}

TEST(VerifiedCertificate, IsForOneNetwork) {
  const Network network = TheNetwork();
  const auto good = VerifiedCertificate::Verify(CertificateFor(network), network);
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_EQ(good->beta(0), 0.75);
  EXPECT_EQ(good->beta(1), kInfinity);

  Network other = network;
  other.parameters[0] = std::nextafter(other.parameters[0], 2.0F);
  const auto bad = VerifiedCertificate::Verify(CertificateFor(network), other);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind, ErrorKind::kMismatch);
  EXPECT_THAT(bad.error().message, HasSubstr("network digest"));
  const Network wider = RandomNetwork("3 > dense 5 > 2", 1);
  EXPECT_THAT(VerifiedCertificate::Verify(CertificateFor(network), wider).error().message,
              HasSubstr("architecture digest"));
}

TEST(VerifiedCertificate, RefusesAChangedErrorOrBound) {
  const Network network = TheNetwork();
  const auto refused = [&](auto change) {
    Certificate c = CertificateFor(network);
    change(c);
    const auto result = VerifiedCertificate::Verify(c, network);
    return result.ok() ? std::string() : result.error().message;
  };
  for (const double factor : {0.0, 0.5, 1 + 0x1p-52, 2.0, kInfinity}) {
    EXPECT_THAT(refused([&](Certificate& c) { c.network_error *= factor; }),
                HasSubstr("forward error"))
        << factor;
  }
  EXPECT_THAT(refused([](Certificate& c) { c.network_error = std::nan(""); }),
              HasSubstr("forward error"));
  EXPECT_THAT(refused([](Certificate& c) { c.classes.pop_back(); }), HasSubstr("classes"));
  EXPECT_THAT(refused([](Certificate& c) { c.classes[1].label = 0; }), HasSubstr("class 1"));
  EXPECT_THAT(refused([](Certificate& c) { c.classes[1].beta_upper = -1; }), HasSubstr("class 1"));
  EXPECT_THAT(refused([](Certificate& c) { c.classes[1].beta_upper = std::nan(""); }),
              HasSubstr("class 1"));
  EXPECT_THAT(refused([](Certificate& c) { c.classes[0].beta_lower = 2; }), HasSubstr("class 0"));
}

TEST(VerifiedCertificate, ComesOnlyFromVerify) {
  static_assert(!std::is_default_constructible_v<VerifiedCertificate>);
  static_assert(!std::is_constructible_v<VerifiedCertificate, Certificate>);
  static_assert(!std::is_convertible_v<Certificate, VerifiedCertificate>);
}

TEST(ClassBound, GapIsRelativeToTheUpperBound) {
  const auto gap = [](double upper, double lower) {
    ClassBound bound;
    bound.beta_upper = upper;
    bound.beta_lower = lower;
    return bound.Gap();
  };
  EXPECT_EQ(gap(0, 0), 0);
  EXPECT_EQ(gap(1, 0.75), 0.25);
  EXPECT_EQ(gap(kInfinity, 3), 1);
}

TEST(CertificateTest, TheOutcomeOfDeclaredBoundsFollowsFromTheBounds) {
  Certificate certificate = CertificateFor(TheNetwork());
  ClassBound& other = certificate.classes[1];
  other.beta_upper = 0.5;
  const auto outcome = [&](double bound) {
    certificate.declared = DeclaredDecision{0.05, {0.8, bound}, false};
    return certificate.Outcome();
  };
  EXPECT_EQ(outcome(0.5), DeclaredOutcome::kProved);
  EXPECT_EQ(outcome(std::nextafter(0.5, 0)), DeclaredOutcome::kOpen);
  other.beta_lower = 0.25;
  other.witness = certificate.classes[0].witness;
  EXPECT_EQ(outcome(0.25), DeclaredOutcome::kOpen);
  EXPECT_EQ(outcome(0.2), DeclaredOutcome::kRefuted);
  certificate.promise = "full";
  certificate.declared->after_looking = true;
  const std::string text = EncodeCertificate(certificate);
  const auto read = ParseCertificate(text, "test");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(EncodeCertificate(*read), text);
  EXPECT_EQ(read->promise, "full");
  EXPECT_TRUE(read->declared->after_looking);
  EXPECT_EQ(read->Outcome(), DeclaredOutcome::kRefuted);
  // A file that says "proved" of these numbers is refused, even if it is sealed anew.
  std::string document = text.substr(0, text.rfind(",\n  \"seal\"")) + "\n}\n";
  document.replace(document.find("\"refuted\""), 9, "\"proved\"");
  EXPECT_FALSE(ParseCertificate(WithSeal(document), "test").ok());
  EXPECT_TRUE(
      ParseCertificate(WithSeal(text.substr(0, text.rfind(",\n  \"seal\"")) + "\n}\n"), "test")
          .ok());
}

}  // namespace
}  // namespace lucid
