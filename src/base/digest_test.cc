#include "lucid/base/digest.h"

#include <gtest/gtest.h>

#include <string>

#include "base/files.h"
#include "base/hasher.h"
#include "support/scratch_folder.h"

namespace lucid {
namespace {

TEST(Digest, MatchesThePublishedVector) {
  EXPECT_EQ(Sha256Of("abc").Hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, HexRoundTripsAndRefusesEverythingElse) {
  const Digest digest = Sha256Of("x");
  EXPECT_EQ(Digest::FromHex(digest.Hex()).value(), digest);
  EXPECT_FALSE(Digest::FromHex("").ok());
  EXPECT_FALSE(Digest::FromHex(digest.Hex() + "0").ok());
  EXPECT_FALSE(Digest::FromHex(std::string(64, 'g')).ok());
  EXPECT_FALSE(Digest::FromHex(std::string(64, 'A')).ok()) << "one spelling only";
}

TEST(Digest, FieldsCannotRunIntoEachOther) {
  EXPECT_NE(Hasher().Text("ab").Text("c").Finish(), Hasher().Text("a").Text("bc").Finish());
}

TEST(Digest, OfAFileEqualsOfItsBytes) {
  const std::string path = ScratchFolder() + "/file";
  const std::string content(3'000'001, 'z');
  ASSERT_TRUE(WriteFileAtomically(path, content).ok());
  EXPECT_EQ(Sha256OfFile(path).value(), Sha256Of(content));
  EXPECT_FALSE(Sha256OfFile(path + ".absent").ok());
}

}  // namespace
}  // namespace lucid
