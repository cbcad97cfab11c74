#include "serve/json_tape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lucid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Texts(const JsonTape::Value& container) {
  std::vector<std::string> texts;
  container.ForEach([&](const JsonTape::Value& value) { texts.emplace_back(value.text()); });
  return texts;
}

TEST(JsonTapeTest, KeepsNumbersAsTheyWereWritten) {
  const auto tape = JsonTape::Parse("[0.1, 1e3, -7, 18446744073709551616, 0.30000001192092896]", 8);
  ASSERT_TRUE(tape.ok()) << tape.error().message;
  EXPECT_THAT(Texts(tape->root()),
              ElementsAre("0.1", "1e3", "-7", "18446744073709551616", "0.30000001192092896"));
}

TEST(JsonTapeTest, FindsMembersAndSkipsWhatIsInside) {
  const auto tape = JsonTape::Parse(R"({"a":{"b":[1,[2]],"c":3},"b":"x\u00e9","n":null})", 8);
  ASSERT_TRUE(tape.ok()) << tape.error().message;
  const JsonTape::Value root = tape->root();
  EXPECT_EQ(root.size(), 3);
  JsonTape::Value member = root;
  ASSERT_TRUE(root.Find("b", member));
  EXPECT_EQ(member.text(), "x\u00e9");
  ASSERT_TRUE(root.Find("n", member));
  EXPECT_EQ(member.kind(), JsonTape::Kind::kNull);
  EXPECT_FALSE(root.Find("c", member));
  ASSERT_TRUE(root.Find("a", member));
  EXPECT_EQ(member.size(), 2);
  JsonTape::Value list = root;
  ASSERT_TRUE(member.Find("b", list));
  EXPECT_EQ(list.size(), 2);
  EXPECT_FALSE(list.Find("b", member)) << "a list has no members";
}

TEST(JsonTapeTest, CountsDepthExactly) {
  EXPECT_TRUE(JsonTape::Parse("[[[1]]]", 3).ok());
  const auto deep = JsonTape::Parse("[[[[1]]]]", 3);
  ASSERT_FALSE(deep.ok());
  EXPECT_THAT(deep.error().message, HasSubstr("deeper than 3"));
  // A million brackets must not use up the stack.
  EXPECT_FALSE(JsonTape::Parse(std::string(1'000'000, '['), 8).ok());
  EXPECT_FALSE(JsonTape::Parse(std::string(1'000'000, '['), 2'000'000).ok());
}

TEST(JsonTapeTest, RefusesWhatTwoReadersMightReadDifferently) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a":1,"b":2,"a":3})", "'a' is there twice"},
      {R"({"x":[{"k":1,"\u006b":2}]})", "'k' is there twice"},
      {"[NaN]", "not valid JSON"},
      {"[Infinity]", "not valid JSON"},
      {"[-Infinity]", "not valid JSON"},
      {"[1e999]", "too large"},
      {"[01]", "not valid JSON"},
      {"[1,]", "not valid JSON"},
      {"[1] 2", "not valid JSON"},
      {"", "not valid JSON"},
      {"[\"\xff\"]", "not valid JSON"},
      {"[\"\xed\xa0\x80\"]", "not valid JSON"},
      {"[\"a\nb\"]", "not valid JSON"},
      {"// comment\n[1]", "not valid JSON"},
      {R"(["\ud800"])", "not valid JSON"},
  };
  for (const auto& [text, word] : cases) {
    const auto tape = JsonTape::Parse(text, 8);
    ASSERT_FALSE(tape.ok()) << text;
    EXPECT_THAT(tape.error().message, HasSubstr(word)) << text;
  }
  EXPECT_TRUE(JsonTape::Parse(R"([{"a":1},{"a":2}])", 8).ok()) << "the same key in two objects";
}

}  // namespace
}  // namespace lucid
