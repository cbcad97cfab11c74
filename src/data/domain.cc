#include "lucid/data/domain.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "lucid/data/encoder.h"

namespace lucid {
namespace {

// In the one spelling a guard gives inputs: -1e-17 and -0 are 0.
std::vector<std::vector<float>> Canonical(std::vector<std::vector<float>> points) {
  for (std::vector<float>& point : points) {
    for (float& value : point) value = std::clamp(value, 0.0F, 1.0F) + 0.0F;
  }
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

Error OutOfDomain(const std::string& name, std::string_view value, std::string_view rule) {
  return InvalidInput(fmt::format("{}: {} is not {}", Quoted(name), value, rule));
}

}  // namespace

std::string_view NameOf(DomainKind kind) { return kind == DomainKind::kBox ? "box" : "schema"; }

Result<DomainKind> DomainNamed(std::string_view name) {
  for (const DomainKind kind : {DomainKind::kBox, DomainKind::kSchema}) {
    if (NameOf(kind) == name) return kind;
  }
  return InvalidInput(fmt::format("domain {}: must be box or schema", Quoted(name)));
}

DomainKind DefaultDomain(const Schema& schema) {
  const bool all_free = std::ranges::all_of(schema.columns(), [](const Column& column) {
    return !column.is_feature() || column.kind == ColumnKind::kNumeric;
  });
  return all_free ? DomainKind::kBox : DomainKind::kSchema;
}

Domain Domain::Box(const Schema& schema) {
  Domain domain;
  domain.names_ = schema.feature_names();
  return domain;
}

Domain Domain::OfSchema(const Schema& schema) {
  Domain domain = Box(schema);
  domain.kind_ = DomainKind::kSchema;
  const Encoder encoder(schema);
  std::int64_t at = 0;
  std::size_t feature = 0;
  for (const Column& column : schema.columns()) {
    if (!column.is_feature()) continue;
    if (column.kind != ColumnKind::kNumeric) {
      domain.groups_.push_back(
          {at, column.width(), Canonical(encoder.EncodingsOf(feature)), column.name});
    }
    at += column.width();
    ++feature;
  }
  return domain;
}

Status Domain::Contains(std::span<const float> x) const {
  for (std::size_t j = 0; j < x.size(); ++j) {
    if (x[j] >= 0 && x[j] <= 1) continue;
    return OutOfDomain(names_[j], fmt::format("{}", x[j]), "a number in [0,1]");
  }
  for (const Group& group : groups_) {
    const auto part =
        x.subspan(static_cast<std::size_t>(group.first), static_cast<std::size_t>(group.width));
    const auto found = std::ranges::any_of(
        group.points, [&](const auto& point) { return std::ranges::equal(point, part); });
    if (found) continue;
    return OutOfDomain(group.name, fmt::format("({:.9g})", fmt::join(part, ", ")),
                       "the encoding of one of its values");
  }
  return Ok();
}

bool Domain::Shrink(std::span<double> lower, std::span<double> upper) const {
  for (const Group& group : groups_) {
    const auto first = static_cast<std::size_t>(group.first);
    const auto width = static_cast<std::size_t>(group.width);
    const auto inside = [&](const std::vector<float>& point) {
      for (std::size_t j = 0; j < width; ++j) {
        if (point[j] < lower[first + j] || point[j] > upper[first + j]) return false;
      }
      return true;
    };
    std::vector<double> least(width, 2), most(width, -1);
    for (const std::vector<float>& point : group.points) {
      if (!inside(point)) continue;
      for (std::size_t j = 0; j < width; ++j) {
        least[j] = std::min<double>(least[j], point[j]);
        most[j] = std::max<double>(most[j], point[j]);
      }
    }
    if (most.front() < 0) return false;
    std::ranges::copy(least, lower.begin() + group.first);
    std::ranges::copy(most, upper.begin() + group.first);
  }
  return true;
}

const Domain::Group* Domain::GroupOf(std::int64_t feature) const {
  const auto found = std::ranges::find_if(groups_, [&](const Group& group) {
    return feature >= group.first && feature < group.first + group.width;
  });
  return found == groups_.end() ? nullptr : &*found;
}

void Domain::CopyGroups(std::span<const float> from, std::span<float> x) const {
  for (const Group& group : groups_) {
    std::copy_n(from.begin() + group.first, group.width, x.begin() + group.first);
  }
}

template <typename T>
void Domain::ProjectAny(std::span<T> x) const {
  for (const Group& group : groups_) {
    const auto part =
        x.subspan(static_cast<std::size_t>(group.first), static_cast<std::size_t>(group.width));
    const auto distance = [&](const std::vector<float>& point) {
      double sum = 0;
      for (std::size_t j = 0; j < point.size(); ++j) {
        const double difference = static_cast<double>(point[j]) - static_cast<double>(part[j]);
        sum += difference * difference;
      }
      return sum;
    };
    std::ranges::copy(*std::ranges::min_element(group.points, {}, distance), part.begin());
  }
}
void Domain::Project(std::span<double> x) const { ProjectAny(x); }
void Domain::Project(std::span<float> x) const { ProjectAny(x); }

double Domain::CutOf(std::int64_t feature, double lower, double upper) const {
  const double middle = 0.5 * (lower + upper);
  const Group* group = GroupOf(feature);
  if (group == nullptr) return middle;
  // Between two values that are there, so that each side gets one of them.
  double below = lower, above = upper;
  for (const std::vector<float>& point : group->points) {
    const double value = point[static_cast<std::size_t>(feature - group->first)];
    if (value <= middle) below = std::max(below, value);
    if (value > middle) above = std::min(above, value);
  }
  return 0.5 * (below + above);
}

}  // namespace lucid
