#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <charconv>

namespace lucid {
namespace {

TEST(Quoted, ShowsPrintableTextAsItIs) {
  EXPECT_EQ(Quoted("Some-college"), "'Some-college'");
  EXPECT_EQ(Quoted("naïve €"), "'naïve €'");
  EXPECT_EQ(Quoted(""), "''");
}

TEST(Quoted, EscapesControlsBrokenUtf8AndTerminalTricks) {
  EXPECT_EQ(Quoted("a\nb\x1b[2J"), "'a\\x0ab\\x1b[2J'");
  EXPECT_EQ(Quoted(std::string_view("\0", 1)), "'\\x00'");
  EXPECT_EQ(Quoted("\xff\xc3"), "'\\xff\\xc3'");
  EXPECT_EQ(Quoted("\xc0\xaf"), "'\\xc0\\xaf'") << "overlong form";
  EXPECT_EQ(Quoted("\xed\xa0\x80"), "'\\xed\\xa0\\x80'") << "surrogate";
  EXPECT_EQ(Quoted("\xc2\x9b"), "'\\xc2\\x9b'") << "C1 control";
  EXPECT_EQ(Quoted("\xe2\x80\xae"), "'\\xe2\\x80\\xae'") << "right-to-left override";
}

TEST(Quoted, CutsLongTextAtACharacter) {
  EXPECT_EQ(Quoted(std::string(41, 'x')), "'" + std::string(40, 'x') + "...'");
  EXPECT_EQ(Quoted(std::string(40, 'x')), "'" + std::string(40, 'x') + "'");
  std::string euros;
  for (int i = 0; i < 50; ++i) euros += "€";
  EXPECT_EQ(Quoted(euros), "'" + euros.substr(0, 120) + "...'");
}

TEST(Quoted, IsAlwaysOneShortLine) {
  EXPECT_TRUE(rc::check([](const std::string& value) {
    const std::string shown = Quoted(value);
    for (const unsigned char c : shown) RC_ASSERT(c >= 0x20 && c != 0x7f);
    RC_ASSERT(shown.size() <= 40 * 4 + 5);
  }));
}

TEST(Escaped, KeepsAllAndStaysOneLine) {
  EXPECT_EQ(Escaped(std::string(100, 'x')), std::string(100, 'x'));
  EXPECT_EQ(Escaped("a\nb \xff \xc3\xa9"), "a\\x0ab \\xff \xc3\xa9");
}

TEST(IsUtf8, TellsTextFromBytes) {
  for (const char* text :
       {"", "plain", "na\xc3\xafve \xe2\x82\xac", "\xf0\x9f\x99\x82", "\x1b\n"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* bytes :
       {"caf\xe9", "\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80"}) {
    EXPECT_FALSE(IsUtf8(bytes)) << bytes;
  }
}

TEST(ParseNumber, TakesTheWholeCellOrNothing) {
  EXPECT_EQ(ParseNumber("-12.5e1").value(), -125);
  EXPECT_EQ(ParseNumber("0").value(), 0);
  for (const char* bad : {"", " 1", "1 ", "1,5", "1.5x", "+1", "0x10", "1e", "--1", "."}) {
    EXPECT_THAT(ParseNumber(bad).error().message, testing::HasSubstr("is not a number")) << bad;
  }
}

TEST(ParseNumber, RefusesWhatIsNotFinite) {
  for (const char* bad : {"nan", "NaN", "inf", "-inf", "infinity"}) {
    EXPECT_THAT(ParseNumber(bad).error().message, testing::HasSubstr("is not a finite number"))
        << bad;
  }
  EXPECT_THAT(ParseNumber("1e999").error().message,
              testing::HasSubstr("beyond the range of a double"));
}

TEST(ParseNumber, GivesTheDoubleThatWasWritten) {
  EXPECT_TRUE(rc::check([](double value) {
    RC_PRE(std::isfinite(value));
    char text[64];
    const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
    RC_ASSERT(ParseNumber(std::string_view(text, end)).value() == value);
  }));
}

}  // namespace
}  // namespace lucid
