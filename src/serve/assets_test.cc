#include "serve/assets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <nlohmann/json.hpp>
#include <set>

#include "lucid/base/digest.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using testing::Not;

// The text between two marks that are there once.
std::string Between(std::string_view text, std::string_view from, std::string_view to) {
  const std::size_t begin = text.find(from) + from.size(), end = text.find(to, begin);
  EXPECT_EQ(text.find(from, begin), std::string_view::npos);
  return std::string(text.substr(begin, end - begin));
}

std::string PolicySource(const std::string& element) {
  const Digest digest = Sha256Of(element);
  unsigned char base64[64];
  EVP_EncodeBlock(base64, digest.bytes.data(), 32);
  return std::string("'sha256-") + reinterpret_cast<const char*>(base64) + "'";
}

TEST(Console, IsOnePageWithoutOutsideReferences) {
  const std::string page(ConsolePage());
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_THAT(page, Not(HasSubstr("/*console")));
  for (const char* outside : {"src=", "https://", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(page, HasSubstr("fetch('status.json'"));
}

// The policy lets in exactly this script and this style, by their hashes; attributes that would
// need more are not used.
TEST(Console, ThePolicyNamesItsScriptAndStyle) {
  const std::string page(ConsolePage());
  EXPECT_THAT(ConsolePolicy(),
              HasSubstr("script-src " + PolicySource(Between(page, "<script>", "</script>"))));
  EXPECT_THAT(ConsolePolicy(),
              HasSubstr("style-src " + PolicySource(Between(page, "<style>", "</style>"))));
  EXPECT_THAT(ConsolePolicy(), HasSubstr("default-src 'none'"));
  EXPECT_THAT(ConsolePolicy(), Not(HasSubstr("unsafe")));
  EXPECT_THAT(page, Not(testing::ContainsRegex(" on[a-z]+=\"")));
  EXPECT_THAT(page, Not(HasSubstr(" style=\"")));
}

TEST(OpenApi, IsADocumentWhoseReferencesAllLeadSomewhere) {
  const auto document = nlohmann::json::parse(OpenApiDocument(), nullptr, false);
  ASSERT_TRUE(document.is_object());
  EXPECT_EQ(document["openapi"], "3.1.0");
  std::set<std::string> ids;
  for (const auto& [path, item] : document["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      EXPECT_TRUE(ids.insert(operation["operationId"]).second) << path;
      EXPECT_TRUE(operation["responses"].contains("200")) << path;
    }
  }
  EXPECT_EQ(ids.size(), 10);
  int references = 0;
  const std::function<void(const nlohmann::json&)> follow = [&](const nlohmann::json& node) {
    if (node.is_object() && node.contains("$ref")) {
      const auto target = node["$ref"].get<std::string>();
      ASSERT_TRUE(target.starts_with("#"));
      EXPECT_TRUE(document.contains(nlohmann::json::json_pointer(target.substr(1)))) << target;
      ++references;
    }
    if (node.is_structured()) {
      for (const auto& child : node) follow(child);
    }
  };
  follow(document);
  EXPECT_GT(references, 40);
}

// Clients read it: it must not speak of what they may not know.
TEST(OpenApi, SaysNothingOfTheGuard) {
  std::string text(OpenApiDocument());
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* word : {"confidence", "beta", "nois", "budget", "epsilon", "ledger"}) {
    EXPECT_THAT(text, Not(HasSubstr(word)));
  }
}

}  // namespace
}  // namespace lucid
