#include "guard/draw_source.h"

#include <sodium.h>

#include <string>
#include <string_view>

#include "base/bytes.h"

namespace lucid {
namespace {

constexpr std::string_view kDrawTag = "lucid-draw-2", kFingerprintTag = "lucid-mark-2";
constexpr std::size_t kDrawBytes = 24, kFingerprintBytes = 16;

using State = crypto_generichash_state;

void Put(std::string& out, const Digest& digest) {
  out.append(reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size());
}

// BLAKE2b under the key, fed with what all inputs have in common. Fields of fixed length, as many
// bounds as the number of classes before them says, then the input: no two different messages are
// the same bytes.
State Begin(std::string_view tag, std::size_t out_bytes, const GuardKey& key, const Digest& network,
            const NoisedSet& noised, const Mechanism& mechanism) {
  std::string common(tag);
  common.resize(16, '\0');
  Put(common, network);
  Put(common, noised.spatial);
  Put(common, noised.index);
  PutBytes<std::uint32_t>(common, static_cast<std::uint32_t>(noised.guard));
  PutBytes<std::uint32_t>(common, mechanism.kind() == MechanismKind::kPaper ? 0 : 1);
  PutBytes<double>(common, mechanism.epsilon());
  PutBytes<std::uint64_t>(common, static_cast<std::uint64_t>(mechanism.classes()));
  // A bound -0 is the bound 0.
  for (const double bound : noised.bounds) PutBytes<double>(common, bound == 0 ? 0.0 : bound);
  State state;
  crypto_generichash_init(&state, key.bytes().data(), key.bytes().size(), out_bytes);
  crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(common.data()),
                            common.size());
  return state;
}

// A copy goes on where `begun` stands; libsodium wipes it at the end.
template <std::size_t N>
void Finish(const State& begun, std::span<const float> x, std::array<std::uint8_t, N>& out) {
  State state = begun;
  crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(x.data()),
                            x.size_bytes());
  crypto_generichash_final(&state, out.data(), out.size());
}

}  // namespace

struct DrawSource::States {
  State draw, fingerprint;

  ~States() {  // they hold the key
    sodium_memzero(&draw, sizeof draw);
    sodium_memzero(&fingerprint, sizeof fingerprint);
  }
};

DrawSource::DrawSource(const GuardKey& key, const Digest& network, const NoisedSet& noised,
                       const Mechanism& mechanism)
    : states_(std::make_unique<States>()) {
  states_->draw = Begin(kDrawTag, kDrawBytes, key, network, noised, mechanism);
  states_->fingerprint = Begin(kFingerprintTag, kFingerprintBytes, key, network, noised, mechanism);
}

DrawSource::~DrawSource() = default;
DrawSource::DrawSource(DrawSource&&) noexcept = default;
DrawSource& DrawSource::operator=(DrawSource&&) noexcept = default;

Draw DrawSource::For(std::span<const float> x) const {
  std::array<std::uint8_t, kDrawBytes> hash;
  Finish(states_->draw, x, hash);
  ByteCursor words({reinterpret_cast<const char*>(hash.data()), hash.size()});
  Draw draw;
  draw.lie = words.Take<std::uint64_t>();
  draw.pick_high = words.Take<std::uint64_t>();
  draw.pick_low = words.Take<std::uint64_t>();
  return draw;
}

std::array<std::uint8_t, 16> DrawSource::Fingerprint(std::span<const float> x) const {
  std::array<std::uint8_t, kFingerprintBytes> hash;
  Finish(states_->fingerprint, x, hash);
  return hash;
}

}  // namespace lucid
