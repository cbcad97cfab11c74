#include "random/secret_stream.h"

#include <gtest/gtest.h>

#include <set>

#include "random/keyed_hash.h"

namespace lucid {
namespace {

TEST(SecretStream, AnyPartOfTheNameMakesAnotherStream) {
  const Secret secret = Secret::FromSeed(1), other = Secret::FromSeed(2);
  std::set<std::uint64_t> first;
  const auto take = [&](const Secret& s, const char* purpose, std::uint64_t index,
                        const char* context) {
    SecretStream stream(s, purpose, index, context);
    EXPECT_TRUE(first.insert(stream.Next()).second) << purpose << index << context;
  };
  take(secret, "a", 0, "c");
  take(other, "a", 0, "c");
  take(secret, "b", 0, "c");
  take(secret, "a", 1, "c");
  take(secret, "a", 0, "d");
}

TEST(SecretStream, EntropyDiffersAndASecretMovesOnce) {
  Secret a = Secret::FromEntropy().value();
  const Secret b = Secret::FromEntropy().value();
  EXPECT_FALSE(std::ranges::equal(a.bytes(), b.bytes()));
  const std::vector<std::byte> bytes(a.bytes().begin(), a.bytes().end());
  const Secret moved = std::move(a);
  EXPECT_TRUE(std::ranges::equal(moved.bytes(), bytes));
  // NOLINTNEXTLINE(bugprone-use-after-move): what is left behind is wiped.
  for (const std::byte byte : a.bytes()) EXPECT_EQ(byte, std::byte{0});
}

TEST(KeyedHash, DependsOnItsNameAndOnTheKey) {
  const Digest x = Sha256Of("x"), y = Sha256Of("y");
  const KeyedHash hash(std::uint64_t{1}, "coins", 0);
  EXPECT_EQ(hash(x), KeyedHash(std::uint64_t{1}, "coins", 0)(x));
  EXPECT_NE(hash(x), hash(y));
  EXPECT_NE(hash(x), KeyedHash(std::uint64_t{1}, "coins", 1)(x));
  EXPECT_NE(hash(x), KeyedHash(std::uint64_t{2}, "coins", 0)(x));
  EXPECT_NE(hash(x), KeyedHash(std::uint64_t{1}, "batches", 0)(x));
}

}  // namespace
}  // namespace lucid
