#include "lucid/data/catalogue.h"

#include "data/download.h"
#include "data/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;

constexpr char kEntry[] = R"(
[[dataset]]
name = "tiny"
title = "t"
licence = "l"
citation = "c"
labels = { "n" = 0, "y" = 1 }
schema = "column,kind,offset,divisor,categories\nx,numeric,0,1,\nlabel,label,,,n|y\n"
[[dataset.file]]
name = "tiny.csv"
url = "https://example.org/tiny.csv"
sha256 = "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
bytes = 10
role = "train"
)";

// kEntry with one text in the place of another.
std::string With(const std::string& old, const std::string& now) {
  std::string text = kEntry;
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

TEST(Catalogue, TheOneInTheLibraryIsValidAndNamesLicenceAndCitation) {
  const std::vector<CatalogueEntry> catalogue = LoadCatalogue().value();
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : catalogue) {
    names.push_back(entry.name);
    EXPECT_FALSE(entry.licence.empty());
    EXPECT_FALSE(entry.citation.empty());
    for (const CatalogueFile& file : entry.files) EXPECT_TRUE(CheckUrl(file.url).ok());
  }
  EXPECT_THAT(names, testing::ElementsAre("adult", "breast_cancer", "credit", "crypto", "digits",
                                          "heart", "iris", "pima", "wine"));
  EXPECT_EQ(FindInCatalogue(catalogue, "wine").value().schema.classes(), 3);
  EXPECT_EQ(Message(FindInCatalogue(catalogue, "mnist")),
            "no data set 'mnist' in the catalogue (it has adult, breast_cancer, credit, crypto, "
            "digits, heart, iris, pima, wine)");
}

TEST(Catalogue, SchemasAreThoseOfTheSharedData) {
  const std::vector<CatalogueEntry> catalogue = LoadCatalogue().value();
  const std::pair<const char*, const char*> kNames[] = {
      {"adult", "adult"},       {"breast_cancer", "breast_cancer"},
      {"credit", "credit"},     {"crypto", "crypto"},
      {"digits", "digits"},     {"heart", "heart_cleveland"},
      {"pima", "pima_diabetes"}};
  for (const auto& [name, shared] : kNames) {
    LUCID_NEED_SHARED(directory, shared);
    EXPECT_EQ(FindInCatalogue(catalogue, name).value().schema,
              Schema::Load(directory + "/schema.csv").value());
  }
}

TEST(Catalogue, ErrorsSayWhatIsWrong) {
  ASSERT_EQ(ParseCatalogue(kEntry, "c.toml").value().size(), 1u);
  const auto error = [](const std::string& old, const std::string& now) {
    const std::string message = Message(ParseCatalogue(With(old, now), "c.toml"));
    EXPECT_THAT(message, testing::StartsWith("c.toml:"));
    EXPECT_THAT(message, IsOneLine());
    return message;
  };
  EXPECT_THAT(error("name = \"tiny\"", "name = "), HasSubstr("c.toml:3: "));
  EXPECT_THAT(error("licence = \"l\"", ""), HasSubstr("'licence' is missing"));
  EXPECT_THAT(error("licence", "license"), HasSubstr("key 'license' is unknown"));
  EXPECT_THAT(error("https://", "http://"), HasSubstr("must begin 'https://'"));
  EXPECT_THAT(error("5b00", "5B00"), HasSubstr("is not a SHA-256 digest"));
  EXPECT_THAT(error("bytes = 10", ""), HasSubstr("'bytes' must be an integer from 1"));
  EXPECT_THAT(error("bytes = 10", "bytes = \"10\""), HasSubstr("'bytes' must be an integer"));
  EXPECT_THAT(error("role = \"train\"", "role = \"split\""), HasSubstr("'test_every'"));
  EXPECT_THAT(error("role = \"train\"", "role = \"other\""), HasSubstr("role 'other' is unknown"));
  EXPECT_THAT(error("\"y\" = 1", "\"y\" = 2"), HasSubstr("label 'y' must have a class index"));
  EXPECT_THAT(error("\"tiny.csv\"", "\"../tiny.csv\""), HasSubstr("is not a plain file name"));
  EXPECT_THAT(error("citation = \"c\"", "citation = \"c\"\ncolumns = [\"x\", \"y\"]"),
              HasSubstr("column 'label' of the schema must be one of 'columns'"));
  EXPECT_THAT(error("x,numeric,0,1,\\n", ""), HasSubstr("no feature column"));
  EXPECT_THAT(Message(ParseCatalogue(std::string(kEntry) + kEntry, "c.toml")),
              HasSubstr("data set 'tiny' is there twice"));
}

TEST(CheckUrl, AllowsHttpsAndThisMachineOnly) {
  for (const char* good : {"https://example.org/a", "http://127.0.0.1:80/a", "http://localhost/a",
                           "http://[::1]:8080/a"}) {
    EXPECT_TRUE(CheckUrl(good).ok()) << good;
  }
  for (const char* bad :
       {"http://example.org/a", "ftp://example.org/a", "file:///etc/passwd",
        "http://127.0.0.1.example.org/", "http://localhost@example.org/", "a b", ""}) {
    EXPECT_FALSE(CheckUrl(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace lucid
