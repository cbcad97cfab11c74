#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/parallel.h"
#include "check/ascent.h"
#include "check/exact.h"
#include "check/pool.h"
#include "check/witness.h"
#include "lucid/check/check.h"
#include "lucid/data/domain.h"
#include "random/stream.h"

namespace lucid {
namespace {

constexpr std::int64_t kMaxStarts = 10'000'000;  // they are all in memory
// Of each member's starts so many may be climbed, so that one member does not crowd out the rest.
constexpr std::size_t kPerMember = 4;
constexpr std::size_t kElites = 24;    // local maxima kept apart, from which children are made
constexpr float kApart = 0.02F;        // by so much in some coordinate, or by their member
constexpr std::int64_t kRounds = 8;    // of children
constexpr std::size_t kConfirmed = 8;  // best local maxima given to exact arithmetic

// A point, a member, and N's margin of the class there once it was climbed.
struct Found {
  std::vector<float> x;
  std::int64_t member = 0;
  double f = 0;
};

bool Better(const Found& a, const Found& b) {
  if (a.f != b.f) return a.f > b.f;
  return a.member != b.member ? a.member < b.member : a.x < b.x;
}

bool Apart(const Found& a, const Found& b) {
  if (a.member != b.member) return true;
  for (std::size_t k = 0; k < a.x.size(); ++k) {
    if (std::abs(a.x[k] - b.x[k]) > kApart) return true;
  }
  return false;
}

// The best of `all`, kept apart.
std::vector<Found> Elites(std::vector<Found> all) {
  std::ranges::sort(all, Better);
  std::vector<Found> elites;
  for (Found& found : all) {
    if (elites.size() == kElites) break;
    const bool apart = std::ranges::all_of(elites, [&](const Found& e) { return Apart(e, found); });
    if (apart) elites.push_back(std::move(found));
  }
  return elites;
}

// A changed copy of one elite, better ones more often.
Found Child(const std::vector<Found>& elites, Stream& stream) {
  const auto pick = [&]() -> const Found& {
    const double u = stream.Uniform();
    return elites[static_cast<std::size_t>(u * u * static_cast<double>(elites.size()))];
  };
  Found child = pick();
  const std::uint64_t kind = stream.Below(4);
  if (kind == 0) {
    const Found& other = pick();
    for (std::size_t k = 0; k < child.x.size(); ++k) {
      if (stream.Below(2) == 0) child.x[k] = other.x[k];
    }
    if (stream.Below(2) == 0) child.member = other.member;
  } else if (kind == 1) {
    for (float& value : child.x) {
      value = std::clamp(value + static_cast<float>(0.05 * stream.Normal()), 0.0F, 1.0F);
    }
  } else {
    for (std::uint64_t n = 1 + stream.Below(3); n > 0; --n) {
      float& value = child.x[stream.Below(child.x.size())];
      value =
          kind == 2 ? static_cast<float>(stream.Below(2)) : static_cast<float>(stream.Uniform());
    }
  }
  return child;
}

// The search for one certificate. One stage after another; inside a stage every piece of work is
// independent and named by its index, so the number of threads does not show.
class Search {
 public:
  Search(const Ensemble& ensemble, Domain domain, const FalsifyOptions& options,
         ProgressCallback progress, std::stop_token stop)
      : ensemble_(ensemble),
        domain_(std::move(domain)),
        options_(options),
        progress_(std::move(progress)),
        stop_(std::move(stop)),
        classes_(static_cast<std::int32_t>(ensemble.network().architecture.classes())) {
    for (int w = 0; w < EffectiveThreads(options.threads); ++w) {
      SlopeNetwork network(ensemble.network().architecture);
      std::ranges::copy(ensemble.network().parameters, network.parameters().begin());
      workers_.push_back({std::move(network), SlopeNetwork(ensemble.network().architecture)});
    }
    const std::int64_t first = std::max<std::int64_t>(1, options.starts / 2);
    children_ = std::max<std::int64_t>(1, options.starts / kRounds);
    total_ = classes_ * (first + kRounds * (children_ + static_cast<std::int64_t>(kElites)));
    first_ = static_cast<std::size_t>(first);
  }

  // The best local maxima of each class, best first.
  Result<std::vector<std::vector<Found>>> Run() {
    LUCID_ASSIGN(std::vector<PoolPoint> pool, MakePool(ensemble_.network(), options_.seed,
                                                       options_.starts, options_.threads, stop_));
    if (!domain_.groups().empty()) MoveIntoDomain(pool);
    LUCID_ASSIGN(const auto candidates, Score(pool, first_, progress_));
    std::vector<std::vector<Found>> elites(static_cast<std::size_t>(classes_));
    for (std::int32_t c = 0; c < classes_; ++c) {
      std::vector<Found> starts;
      for (const Candidate& candidate : candidates[c]) {
        starts.push_back({pool[candidate.point].x, candidate.member, 0});
      }
      LUCID_TRY(Climb(c, std::move(starts), elites[c]));
      for (std::int64_t round = 0; round < kRounds && !elites[c].empty(); ++round) {
        LUCID_TRY(Breed(c, round, elites[c]));
      }
    }
    return elites;
  }

  std::int64_t points() const { return points_; }
  std::int64_t ascents() const { return ascents_; }

 private:
  struct Worker {
    SlopeNetwork network, member;
  };

  // Inside the domain there is no boundary to stand on.
  void MoveIntoDomain(std::vector<PoolPoint>& pool) {
    for (PoolPoint& point : pool) {
      domain_.Project(std::span(point.x));
      const std::span<const double> logits = workers_.front().network.Logits(point.x);
      point.label = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
      point.other = point.label;
    }
  }

  Result<std::vector<std::vector<Candidate>>> Score(std::span<const PoolPoint> pool,
                                                    std::size_t per_class,
                                                    const ProgressCallback& progress) {
    points_ += static_cast<std::int64_t>(pool.size());
    return ScorePool(ensemble_, pool, kPerMember, per_class, options_.threads, progress, stop_);
  }

  // Children of the elites, and the elites again with the members that disagree most there.
  Status Breed(std::int32_t label, std::int64_t round, std::vector<Found>& elites) {
    std::vector<Found> starts;
    for (std::int64_t i = 0; i < children_; ++i) {
      const std::int64_t index = (label * kRounds + round) * children_ + i;
      Stream stream(options_.seed, "falsify child", static_cast<std::uint64_t>(index));
      starts.push_back(Child(elites, stream));
      domain_.Project(std::span(starts.back().x));
    }
    std::vector<PoolPoint> points;
    points.reserve(elites.size());
    for (const Found& elite : elites) points.push_back({elite.x, label, label});
    LUCID_ASSIGN(const auto candidates, Score(points, kElites, {}));
    for (const Candidate& candidate : candidates[label]) {
      starts.push_back({points[candidate.point].x, candidate.member, 0});
    }
    return Climb(label, std::move(starts), elites);
  }

  // Climbs from every start and takes the best into `elites`.
  Status Climb(std::int32_t label, std::vector<Found> starts, std::vector<Found>& elites) {
    const auto count = static_cast<std::int64_t>(starts.size());
    std::mutex mutex;
    LUCID_TRY(ParallelFor(count, options_.threads, stop_, [&](std::int64_t i, int index) {
      Worker& worker = workers_[index];
      ensemble_.CopyParameters(starts[i].member, worker.member.parameters());
      std::optional<lucid::Climb> top =
          Ascend(worker.network, worker.member, label, domain_, std::move(starts[i].x));
      starts[i].f = top.has_value() ? top->f : 0;
      starts[i].x = top.has_value() ? std::move(top->x) : std::vector<float>();
      const std::lock_guard lock(mutex);
      ++ascents_;
      if (progress_) progress_({"looking for leaks", "ascents", ascents_, total_, 0});
      return Ok();
    }));
    std::erase_if(starts, [](const Found& found) { return found.x.empty(); });
    std::ranges::move(elites, std::back_inserter(starts));
    elites = Elites(std::move(starts));
    return Ok();
  }

  const Ensemble& ensemble_;
  const Domain domain_;
  const FalsifyOptions options_;
  const ProgressCallback progress_;
  const std::stop_token stop_;
  const std::int32_t classes_;
  std::vector<Worker> workers_;
  std::size_t first_ = 0;
  std::int64_t children_ = 0, total_ = 0, points_ = 0, ascents_ = 0;
};

// The best of the local maxima that is what it seems, in exact arithmetic.
std::optional<Leak> Confirm(const std::vector<Found>& found, std::int32_t label,
                            const Ensemble& ensemble, mpq_class& confidence) {
  for (std::size_t i = 0; i < std::min(kConfirmed, found.size()); ++i) {
    const ExactPoint exact = EvaluateExactly(ensemble, found[i].x, found[i].member, label);
    if (exact.label != label || exact.g > 0) continue;
    confidence = exact.f;
    return Leak{label,
                {found[i].x, found[i].member, ensemble.RowOf(found[i].member)},
                RoundedDown(exact.f)};
  }
  return std::nullopt;
}

}  // namespace

Status FalsifyOptions::Validate() const {
  if (starts < 1 || starts > kMaxStarts) {
    return InvalidInput(fmt::format("starts is {}, must be from 1 to {}", starts, kMaxStarts));
  }
  return Ok();
}

Result<FalsifyReport> Falsify(const Certificate& certificate, const Ensemble& ensemble,
                              const FalsifyOptions& options, const ProgressCallback& progress,
                              std::stop_token stop) {
  LUCID_TRY(options.Validate());
  LUCID_TRY(CheckSizes(certificate, ensemble));
  FalsifyReport report;
  for (const ClassBound& bound : certificate.classes) {
    report.checks.checks.push_back(CheckWitness(bound, ensemble));
  }
  Domain domain = Domain::Of(certificate.domain, ensemble.manifest().schema);
  Search search(ensemble, std::move(domain), options, progress, std::move(stop));
  LUCID_ASSIGN(const auto found, search.Run());
  report.points = search.points();
  report.ascents = search.ascents();
  for (const ClassBound& bound : certificate.classes) {
    mpq_class exact;
    report.largest.push_back(Confirm(found[bound.label], bound.label, ensemble, exact));
    const std::optional<Leak>& largest = report.largest.back();
    Check check{fmt::format("search of class {}", bound.label), Check::Outcome::kPassed,
                "no input found that N and a member disagree about"};
    if (largest.has_value()) {
      check.detail = fmt::format("largest confidence found {}, bound {}", largest->confidence,
                                 bound.beta_upper);
      if (std::isfinite(bound.beta_upper) && exact > mpq_class(bound.beta_upper)) {
        check.outcome = Check::Outcome::kFailed;
        check.detail = fmt::format("an input of confidence {} leaks, above the bound {}",
                                   largest->confidence, bound.beta_upper);
        report.leaks.push_back(*largest);
      }
    }
    report.checks.checks.push_back(std::move(check));
  }
  return report;
}

}  // namespace lucid
