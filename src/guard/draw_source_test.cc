#include "guard/draw_source.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include <cstring>
#include <set>

#include "certificate/test_support.h"
#include "support/files.h"

namespace lucid {
namespace {

using enum MechanismKind;

// Keys come from files or from the system; a test writes its own file.
GuardKey KeyOf(const std::string& digits) {
  const TemporaryFolder folder;
  WriteBytes(folder / "key", "lucid-guard-key-1\n" + digits + "\n");
  std::filesystem::permissions(folder / "key", std::filesystem::perms(0600));
  return GuardKey::LoadOrCreate(folder / "key").value();
}

DrawSource Source(const GuardKey& key, const Digest& network, MechanismKind kind, double epsilon,
                  std::int64_t classes = 2, NoisedSet noised = {}) {
  const std::vector<double> zeros(static_cast<std::size_t>(classes));
  if (noised.bounds.empty()) noised.bounds = zeros;
  return {key, network, noised, Mechanism::Create(kind, epsilon, classes).value()};
}

const std::vector<float> kInput = {0.25F, 1, 0};

// The layout that docs/guard.md gives, hashed here in one piece.
TEST(DrawSourceTest, IsTheDocumentedHash) {
  const GuardKey key = KeyOf(std::string(64, '3'));
  const Digest network = Sha256Of("a network");
  const Digest spatial = Sha256Of("boxes"), index = Sha256Of("members");
  const std::vector<double> bounds = {0.5, 0.25};
  std::string message("lucid-draw-2\0\0\0\0", 16);
  for (const Digest& digest : {network, spatial, index}) {
    message.append(reinterpret_cast<const char*>(digest.bytes.data()), 32);
  }
  message.append("\2\0\0\0\1\0\0\0", 8);                           // exact, krr
  message.append("\0\0\0\0\0\0\xe0\x3f\2\0\0\0\0\0\0\0", 16);      // 0.5, 2 classes
  message.append("\0\0\0\0\0\0\xe0\x3f\0\0\0\0\0\0\xd0\x3f", 16);  // 0.5, 0.25
  message.append("\0\0\x80\x3e\0\0\x80\x3f\0\0\0\0", 12);          // 0.25, 1, 0
  ASSERT_EQ(message.size(), 164);
  const auto hash = [&](std::size_t bytes) {
    std::vector<std::uint8_t> out(bytes);
    crypto_generichash(out.data(), bytes, reinterpret_cast<const std::uint8_t*>(message.data()),
                       message.size(), key.bytes().data(), 32);
    return out;
  };
  const DrawSource source =
      Source(key, network, kKrr, 0.5, 2, {GuardKind::kExact, bounds, spatial, index});
  const Draw draw = source.For(kInput);
  std::uint64_t words[3];
  std::memcpy(words, hash(24).data(), 24);
  EXPECT_EQ(draw.lie, words[0]);
  EXPECT_EQ(draw.pick_high, words[1]);
  EXPECT_EQ(draw.pick_low, words[2]);
  message.replace(0, 12, "lucid-mark-2");
  EXPECT_EQ(std::memcmp(source.Fingerprint(kInput).data(), hash(16).data(), 16), 0);
}

TEST(DrawSourceTest, NothingThatDiffersSharesADraw) {
  const GuardKey key = GuardKey::Random(), other_key = GuardKey::Random();
  const Digest network = Sha256Of("a"), other_network = Sha256Of("b");
  std::vector<DrawSource> sources;
  sources.push_back(Source(key, network, kPaper, 0.5));
  sources.push_back(Source(other_key, network, kPaper, 0.5));
  sources.push_back(Source(key, other_network, kPaper, 0.5));
  sources.push_back(Source(key, network, kKrr, 0.5));
  sources.push_back(Source(key, network, kPaper, 0));
  sources.push_back(Source(key, network, kPaper, std::nextafter(0.5, 1)));
  sources.push_back(Source(key, network, kPaper, 0.5, 3));
  // Noised sets: another guard, another bound of either class, other parts.
  const std::vector<double> first = {0.5, 0}, second = {0, 0.5};
  sources.push_back(Source(key, network, kPaper, 0.5, 2, {GuardKind::kSpatial, {}, {}, {}}));
  sources.push_back(Source(key, network, kPaper, 0.5, 2, {GuardKind::kScalar, first, {}, {}}));
  sources.push_back(Source(key, network, kPaper, 0.5, 2, {GuardKind::kScalar, second, {}, {}}));
  sources.push_back(
      Source(key, network, kPaper, 0.5, 2, {GuardKind::kScalar, {}, Sha256Of("c"), {}}));
  sources.push_back(
      Source(key, network, kPaper, 0.5, 2, {GuardKind::kScalar, {}, {}, Sha256Of("c")}));
  std::set<std::uint64_t> words;
  std::set<std::array<std::uint8_t, 16>> fingerprints;
  for (const DrawSource& source : sources) {
    for (const std::vector<float>& x :
         {kInput, {0.25F, 1, 0x1p-126F}, {0.25F, 1}, {0, 0.25F, 1}, {0.25F, 1, 0, 0}, {}}) {
      const Draw draw = source.For(x);
      words.insert({draw.lie, draw.pick_high, draw.pick_low});
      fingerprints.insert(source.Fingerprint(x));
      std::uint64_t mark = 0;  // is not the beginning of the draw
      std::memcpy(&mark, source.Fingerprint(x).data(), 8);
      words.insert(mark);
    }
  }
  EXPECT_EQ(words.size(), sources.size() * 6 * 4);
  EXPECT_EQ(fingerprints.size(), sources.size() * 6);
}

TEST(DrawSourceTest, TheSameIsAlwaysTheSame) {
  const GuardKey key = GuardKey::Random();
  DrawSource source = Source(key, Sha256Of("a"), kPaper, 1);
  const Draw first = source.For(kInput);
  const DrawSource moved = std::move(source);
  const DrawSource again = Source(key, Sha256Of("a"), kPaper, 1);
  for (const DrawSource* same : {&moved, &again}) {
    EXPECT_EQ(same->For(kInput).lie, first.lie);
    EXPECT_EQ(same->For(kInput).pick_low, first.pick_low);
  }
}

// Every bit of 20,000 draws is 1 half of the time. A fair bit is further off than the margin with a
// probability of at most 1e-12 (Hoeffding); 192 bits: 2e-10. The key is random.
TEST(DrawSourceTest, EveryBitIsFair) {
  constexpr int kCount = 20000;
  const DrawSource source = Source(GuardKey::Random(), Sha256Of("a"), kPaper, 1);
  std::vector<int> ones(192);
  for (int i = 0; i < kCount; ++i) {
    const Draw draw = source.For(std::vector{static_cast<float>(i) / kCount});
    const std::uint64_t words[] = {draw.lie, draw.pick_high, draw.pick_low};
    for (int bit = 0; bit < 192; ++bit) ones[bit] += words[bit / 64] >> (bit % 64) & 1;
  }
  const double margin = std::sqrt(std::log(2 / 1e-12) / (2.0 * kCount));
  for (const int count : ones) EXPECT_NEAR(static_cast<double>(count) / kCount, 0.5, margin);
}

}  // namespace
}  // namespace lucid
