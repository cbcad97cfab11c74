#include "audit/replay.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <string>
#include <tuple>

#include "base/hasher.h"
#include "lucid/data/units.h"
#include "random/stream.h"

namespace lucid {
namespace {

__extension__ using Wide = unsigned __int128;

std::uint64_t LittleEndian(std::span<const std::uint8_t> bytes, std::size_t at, int count = 8) {
  std::uint64_t value = 0;
  for (int i = count; i-- > 0;) value = value << 8 | bytes[at + static_cast<std::size_t>(i)];
  return value;
}

// SipHash-2-4 (Aumasson and Bernstein 2012) of 32 bytes under the first 16 bytes of `key`.
std::uint64_t SipHash(const Digest& key, const Digest& message) {
  const std::uint64_t k0 = LittleEndian(key.bytes, 0), k1 = LittleEndian(key.bytes, 8);
  std::uint64_t a = k0 ^ 0x736f6d6570736575, b = k1 ^ 0x646f72616e646f6d,
                c = k0 ^ 0x6c7967656e657261, d = k1 ^ 0x7465646279746573;
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      a += b, c += d;
      b = std::rotl(b, 13) ^ a, d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b, a += d;
      b = std::rotl(b, 17) ^ c, d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
  };
  const auto absorb = [&](std::uint64_t word) {
    d ^= word;
    rounds(2);
    a ^= word;
  };
  for (std::size_t at = 0; at < 32; at += 8) absorb(LittleEndian(message.bytes, at));
  absorb(std::uint64_t{32} << 56);
  c ^= 0xff;
  rounds(4);
  return a ^ b ^ c ^ d;
}

// The key stream of ChaCha20 (Bernstein 2008) with a nonce of zeros, in words of 64 bits.
class ChaCha {
 public:
  explicit ChaCha(const Digest& key) {
    constexpr std::array<std::uint32_t, 4> kConstant = {0x61707865, 0x3320646e, 0x79622d32,
                                                        0x6b206574};
    std::ranges::copy(kConstant, input_.begin());
    for (std::size_t i = 0; i < 8; ++i) {
      input_[4 + i] = static_cast<std::uint32_t>(LittleEndian(key.bytes, 4 * i, 4));
    }
  }

  std::uint64_t Next() {
    if (next_ == 16) NextBlock();
    const std::uint64_t low = block_[next_], high = block_[next_ + 1];
    next_ += 2;
    return high << 32 | low;
  }

 private:
  void NextBlock() {
    block_ = input_;
    const auto quarter = [this](int a, int b, int c, int d) {
      auto& x = block_;
      x[a] += x[b], x[d] = std::rotl(x[d] ^ x[a], 16);
      x[c] += x[d], x[b] = std::rotl(x[b] ^ x[c], 12);
      x[a] += x[b], x[d] = std::rotl(x[d] ^ x[a], 8);
      x[c] += x[d], x[b] = std::rotl(x[b] ^ x[c], 7);
    };
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < 4; ++i) quarter(i, 4 + i, 8 + i, 12 + i);
      for (int i = 0; i < 4; ++i) quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
    for (std::size_t i = 0; i < 16; ++i) block_[i] += input_[i];
    if (++input_[12] == 0) ++input_[13];
    next_ = 0;
  }

  std::array<std::uint32_t, 16> input_{}, block_{};
  std::size_t next_ = 16;
};

// The discrete Gaussian of Canonne, Kamath and Steinke (2020) with all numbers in 128 bits.
class GaussianDraws {
 public:
  GaussianDraws(std::uint64_t variance, const Digest& key) : s2_(variance), stream_(key) {
    t_ = 1;
    while (t_ * t_ <= s2_) t_ <<= 1;
    for (Wide bit = t_ >> 1; bit > 0; bit >>= 1) {
      if ((t_ - bit) * (t_ - bit) > s2_) t_ -= bit;  // the smallest t with t^2 > s2
    }
  }

  std::int64_t Next() {
    while (true) {
      const auto [size, negative] = Laplace();
      const Wide scaled = size * t_, apart = scaled > s2_ ? scaled - s2_ : s2_ - scaled;
      if (!Survives(apart * apart, 2 * s2_ * t_ * t_)) continue;
      const auto value = static_cast<std::int64_t>(size);
      return negative ? -value : value;
    }
  }

 private:
  // Uniform in [0, n): the top bits of one word or two, until they are below n.
  Wide Below(Wide n) {
    const Wide last = n - 1;
    const auto high = static_cast<std::uint64_t>(last >> 64);
    const auto low = static_cast<std::uint64_t>(last);
    if (last == 0) return 0;
    while (true) {
      const Wide draw =
          high == 0 ? Wide{stream_.Next() >> std::countl_zero(low)}
                    : (Wide{stream_.Next() >> std::countl_zero(high)} << 64 | Wide{stream_.Next()});
      if (draw < n) return draw;
    }
  }

  // With probability exp(-up / down).
  bool Survives(Wide up, Wide down) {
    for (; up > down; up -= down) {
      if (!Survives(1, 1)) return false;
    }
    std::uint64_t k = 1;
    while (Below(k) == 0 && Below(down) < up) ++k;
    return k % 2 == 1;
  }

  std::pair<Wide, bool> Laplace() {
    while (true) {
      const Wide rest = Below(t_);
      if (!Survives(rest, t_)) continue;
      Wide whole = 0;
      while (Survives(1, 1)) ++whole;
      const Wide size = rest + t_ * whole;
      const bool negative = (stream_.Next() >> 63) != 0;
      if (size != 0 || !negative) return {size, negative};
    }
  }

  Wide s2_, t_ = 0;
  ChaCha stream_;
};

}  // namespace

PrivateReplay::PrivateReplay(const Architecture& architecture, const Table& table,
                             const TrainOptions& options, const Secret& secret)
    : architecture_(architecture),
      table_(table),
      options_(options),
      secret_(secret),
      plan_{architecture, table, options, Clipping(), {}, {}, 0, {}, {}, {}, {}} {
  SetNumbers();
  RankRows();
  plan_.initial = InitialWeights();
  if (options_.standardise) StandardiseInputs();
  plan_.rate = [this](std::int64_t step) {
    const double turn =
        options_.schedule == TrainOptions::Schedule::kConstant
            ? 0.0
            : std::numbers::pi * static_cast<double>(step) / static_cast<double>(plan_.steps);
    return static_cast<float>(options_.rate * (1 + std::cos(turn)) / 2);
  };
  plan_.is_averaged = [this](std::int64_t step) {
    const std::int64_t left = plan_.steps - 1 - step;
    return left % options_.batches == 0 && left / options_.batches < options_.average_epochs;
  };
  plan_.rows = [this](std::int64_t step) { return Rows(step); };
  plan_.noise = [this](std::int64_t step) { return Noise(step); };
}

// docs/training.md: the grid, the charge, the sampling. All powers of two are exact.
void PrivateReplay::SetNumbers() {
  Clipping& c = *plan_.clipping;
  c.clip = static_cast<float>(options_.clip);
  c.grid = 0x1p-14F;
  while (c.grid > 0x1p-14F * c.clip) c.grid /= 2;
  while (2 * c.grid <= 0x1p-14F * c.clip) c.grid *= 2;
  double widest = 0;
  const auto layers = static_cast<double>(architecture_.layers().size());
  for (const Layer& layer : architecture_.layers()) {
    const bool dense = layer.kind == HiddenLayer::Kind::kDense;
    const std::int64_t longest =
        dense ? std::max(layer.taps + 1, layer.filters) : layer.filters * (layer.taps + 1);
    widest = std::max(widest, static_cast<double>(longest));
  }
  const auto per_unit = static_cast<double>(options_.rows_per_unit);
  const double eta = (widest + layers + 8) * 0x1p-24;
  c.sensitivity = (1 + eta) * static_cast<double>(c.clip) / static_cast<double>(c.grid) +
                  1.5 * per_unit * std::sqrt(static_cast<double>(architecture_.parameters()));
  c.unit_slack = static_cast<float>((widest + layers * per_unit * per_unit + 8) * 0x1p-23);
  const auto batch = static_cast<std::uint64_t>(options_.batch);
  const auto expected = static_cast<std::uint64_t>(options_.expected_rows);
  c.scale = static_cast<float>(static_cast<double>(c.grid) /
                               static_cast<double>(std::min(batch, expected)));
  everybody_ = batch >= expected;
  plan_.steps = options_.epochs;
  if (everybody_) return;
  threshold_ = static_cast<std::uint64_t>((Wide{batch} << 64) / expected);
  sampling_rate_ = std::nextafter(static_cast<double>(threshold_) * 0x1p-64, 2.0);
  const Wide rows = Wide{expected} * static_cast<std::uint64_t>(options_.epochs);
  plan_.steps = static_cast<std::int64_t>((rows + batch - 1) / batch);
}

// The order of sums: by which features of the unit's smallest row are above 1/2, 0 and 1/4, then by
// the keys of units and rows.
void PrivateReplay::RankRows() {
  const TableKeys keys = TableKeys::Of(table_);
  unit_keys_ = keys.units;
  const auto signature = [this](std::int64_t row) {
    std::string bits;
    const auto x =
        table_.row(row).first(std::min<std::size_t>(static_cast<std::size_t>(table_.features), 64));
    for (const float threshold : {0.5F, 0.0F, 0.25F}) {
      for (const float value : x) bits += value > threshold ? '1' : '0';
    }
    return bits;
  };
  struct UnitOrder {
    std::string smallest;
    std::int32_t number = 0;
  };
  std::map<Digest, UnitOrder> units;
  for (std::int64_t i = 0; i < table_.rows(); ++i) {
    const std::string own = signature(i);
    const auto [place, fresh] =
        units.try_emplace(unit_keys_[static_cast<std::size_t>(i)],
                          UnitOrder{own, static_cast<std::int32_t>(units.size())});
    if (!fresh) place->second.smallest = std::min(place->second.smallest, own);
    plan_.unit_of.push_back(place->second.number);
  }
  ranked_.resize(static_cast<std::size_t>(table_.rows()));
  std::iota(ranked_.begin(), ranked_.end(), 0);
  std::ranges::sort(ranked_, [&](std::int32_t a, std::int32_t b) {
    const auto &unit_a = unit_keys_[a], &unit_b = unit_keys_[b];
    return std::tie(units.at(unit_a).smallest, unit_a, keys.rows[a]) <
           std::tie(units.at(unit_b).smallest, unit_b, keys.rows[b]);
  });
}

std::int64_t PrivateReplay::squared_moment_sensitivity() const {
  return (options_.rows_per_unit * options_.rows_per_unit * (table_.features + 1)) << 20;
}

double PrivateReplay::moment_sensitivity() const {
  return std::sqrt(static_cast<double>(squared_moment_sensitivity()));
}

// docs/training.md: a count, sums and sums of squares in units of 1/1024, with noise; of what
// follows from them all inputs share one center and factor if the first layer is a convolution.
void PrivateReplay::StandardiseInputs() {
  const std::int64_t inputs = table_.features;
  std::vector<std::int64_t> sums(static_cast<std::size_t>(2 * inputs + 1));
  for (std::int64_t row = 0; row < table_.rows(); ++row) {
    std::vector<std::int64_t> own;
    for (const float x : table_.row(row)) {
      const double inside = std::isnan(x) ? 0.0 : std::clamp(static_cast<double>(x), 0.0, 1.0);
      own.push_back(std::lround(inside * 1024));
    }
    for (std::int64_t k = 0; k < inputs; ++k) {
      const std::int64_t x = own[static_cast<std::size_t>(k)];
      own.push_back((x * x + 512) >> 10);
    }
    Wide square = 0;
    for (const std::int64_t v : own) square += static_cast<Wide>(v * v);
    const Wide most = static_cast<Wide>(inputs) << 20;
    sums[0] += 1024;
    for (std::size_t i = 0; i < own.size(); ++i) {
      std::int64_t kept = own[i];
      if (square > most) {
        // The largest number whose square, over all, is not more than its share of `most`.
        const Wide share = static_cast<Wide>(own[i] * own[i]) * most;
        std::int64_t low = 0, high = own[i] + 1;
        while (high - low > 1) {
          const std::int64_t middle = (low + high) / 2;
          (static_cast<Wide>(middle * middle) * square <= share ? low : high) = middle;
        }
        kept = low;
      }
      sums[i + 1] += kept;
    }
  }
  const Digest key = Hasher()
                         .Text("lucid-secret-stream-1")
                         .Bytes(secret_.bytes())
                         .Text("moments")
                         .Number(std::uint64_t{0})
                         .Text(options_.Canonical())
                         .Finish();
  GaussianDraws draws(options_.moments_variance, key);
  for (std::int64_t& sum : sums) sum += draws.Next();

  const auto expected = static_cast<double>(options_.expected_rows);
  const double count = std::clamp(static_cast<double>(sums[0]) / 1024, std::max(1.0, expected / 2),
                                  2 * expected + 1);
  std::vector<double> first, second;
  for (std::int64_t k = 0; k < inputs; ++k) {
    first.push_back(static_cast<double>(sums[static_cast<std::size_t>(1 + k)]) / 1024 / count);
    second.push_back(static_cast<double>(sums[static_cast<std::size_t>(1 + inputs + k)]) / 1024 /
                     count);
  }
  if (architecture_.layers().front().kind != HiddenLayer::Kind::kDense) {
    const auto number = static_cast<double>(inputs);
    first.assign(first.size(), std::accumulate(first.begin(), first.end(), 0.0) / number);
    second.assign(second.size(), std::accumulate(second.begin(), second.end(), 0.0) / number);
  }
  plan_.inputs.emplace();
  for (std::size_t k = 0; k < first.size(); ++k) {
    const double center = std::clamp(first[k], 0.0, 1.0);
    const double variance = std::clamp(second[k] - center * center, 1.0 / 256, 0.25);
    plan_.inputs->centers.push_back(static_cast<float>(center));
    plan_.inputs->factors.push_back(static_cast<float>(0.5 / std::sqrt(variance)));
  }
}

std::vector<float> PrivateReplay::InitialWeights() const {
  Stream stream(options_.seed, "initial weights");
  std::vector<float> weights;
  for (const Layer& layer : architecture_.layers()) {
    const double bound = 1 / std::sqrt(static_cast<double>(layer.taps));
    for (std::int64_t i = 0; i < layer.filters * (layer.taps + 1); ++i) {
      weights.push_back(static_cast<float>(stream.Uniform(-bound, bound)));
    }
  }
  return weights;
}

std::span<const std::int32_t> PrivateReplay::Rows(std::int64_t step) {
  const Digest key = Hasher()
                         .Text("lucid-keyed-hash-1")
                         .Number(secret_.bytes().size())
                         .Bytes(secret_.bytes())
                         .Text("coins " + options_.Canonical())
                         .Number(static_cast<std::uint64_t>(step))
                         .Finish();
  rows_.clear();
  for (const std::int32_t row : ranked_) {
    const Digest& unit = unit_keys_[static_cast<std::size_t>(row)];
    if (everybody_ || SipHash(key, unit) < threshold_) rows_.push_back(row);
  }
  return rows_;
}

std::span<const std::int32_t> PrivateReplay::Noise(std::int64_t step) {
  const Digest key = Hasher()
                         .Text("lucid-secret-stream-1")
                         .Bytes(secret_.bytes())
                         .Text("noise")
                         .Number(static_cast<std::uint64_t>(step))
                         .Text(options_.Canonical())
                         .Finish();
  GaussianDraws draws(options_.noise_variance, key);
  noise_.resize(static_cast<std::size_t>(architecture_.parameters()));
  for (std::int32_t& x : noise_) x = static_cast<std::int32_t>(draws.Next());
  return noise_;
}

}  // namespace lucid
