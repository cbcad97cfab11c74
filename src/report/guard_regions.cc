#include <algorithm>

#include "lucid/certificate/spatial.h"
#include "lucid/report/leak_picture.h"

namespace lucid {
namespace {

// Stands for an infinite bound: it is above any confidence, and small enough to interpolate with.
constexpr double kVeryLarge = 1e9;

// A guard answers as it is only where f~ - e > bound: it noises where bound - (f~ - e) >= 0.
template <typename BoundAt>
GuardRegion RegionOf(const LeakMap& map, double network_error, const BoundAt& bound_at) {
  GuardRegion region;
  const auto points = static_cast<std::size_t>(map.points());
  region.values.resize(points);
  for (std::size_t k = 0; k < points; ++k) {
    const std::int32_t label = map.labels[k];
    const double confidence = map.network.values[static_cast<std::size_t>(label) * points + k];
    region.values[k] = std::min(bound_at(label, k), kVeryLarge) - (confidence - network_error);
  }
  return region;
}

}  // namespace

std::int64_t GuardRegion::noised() const {
  return std::ranges::count_if(values, [](double value) { return value >= 0; });
}

GuardRegion ComputeDeclaredRegion(const LeakMap& map, double bound, double network_error) {
  return RegionOf(map, network_error, [bound](std::int32_t, std::size_t) { return bound; });
}

GuardRegions ComputeGuardRegions(const LeakMap& map, const Certificate& certificate,
                                 const SpatialBounds* spatial) {
  GuardRegions regions;
  regions.scalar = RegionOf(map, certificate.network_error, [&](std::int32_t label, std::size_t) {
    return certificate.classes[static_cast<std::size_t>(label)].beta_upper;
  });
  if (spatial == nullptr) return regions;
  regions.spatial =
      RegionOf(map, certificate.network_error, [&](std::int32_t label, std::size_t k) {
        const auto i = static_cast<std::int64_t>(k) % map.grid;
        const auto j = static_cast<std::int64_t>(k) / map.grid;
        const float x[] = {static_cast<float>(map.Coordinate(i)),
                           static_cast<float>(map.Coordinate(j))};
        const double beta = certificate.classes[static_cast<std::size_t>(label)].beta_upper;
        return std::min(beta, spatial->Bound(label, x));
      });
  return regions;
}

}  // namespace lucid
