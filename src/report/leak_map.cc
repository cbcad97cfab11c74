#include "lucid/report/leak_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/parallel.h"
#include "nn/decision.h"

namespace lucid {
namespace {

constexpr std::int32_t kNobody = std::numeric_limits<std::int32_t>::max();

// Inputs at which networks are compared: grid points or test rows.
struct Inputs {
  std::vector<float> x;              // two values each
  std::vector<std::int32_t> labels;  // of N
  std::size_t size() const { return labels.size(); }
  std::span<const float> at(std::size_t k) const { return std::span(x).subspan(2 * k, 2); }
};

// logits[c] - max of the others: the paper's C^c. Positive only where c is the label.
double ClassConfidence(std::span<const double> logits, std::size_t c) {
  double other = -std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < logits.size(); ++k) {
    if (k != c) other = std::max(other, logits[k]);
  }
  return logits[c] - other;
}

Inputs GridInputs(const LeakMap& map) {
  Inputs inputs;
  for (std::int64_t j = 0; j < map.grid; ++j) {
    for (std::int64_t i = 0; i < map.grid; ++i) {
      inputs.x.push_back(static_cast<float>(map.Coordinate(i)));
      inputs.x.push_back(static_cast<float>(map.Coordinate(j)));
    }
  }
  return inputs;
}

ConfidenceField EvaluateField(const Evaluator& evaluator, const Inputs& inputs) {
  const auto classes = static_cast<std::size_t>(evaluator.architecture().classes());
  const std::size_t points = inputs.x.size() / 2;
  ConfidenceField field{std::vector<double>(classes * points)};
  std::vector<double> logits(classes);
  for (std::size_t k = 0; k < points; ++k) {
    evaluator.Logits(inputs.at(k), logits);
    for (std::size_t c = 0; c < classes; ++c) {
      field.values[c * points + k] = ClassConfidence(logits, c);
    }
  }
  return field;
}

void LabelInputs(const Evaluator& evaluator, Inputs& inputs) {
  for (std::size_t k = 0; k < inputs.x.size() / 2; ++k) {
    inputs.labels.push_back(evaluator.Decide(inputs.at(k)).label);
  }
}

// What one thread has seen. Every field is a sum or a minimum, so the order of the members, and
// which thread had which, do not show in the result.
struct Tally {
  std::vector<std::int32_t> flips;    // per grid point: members with another label
  std::vector<std::int32_t> certain;  // the first member whose other label is no rounding error
  std::vector<double> margin;
  std::vector<char> test_leaks;  // per test row

  void Start(std::size_t points, std::size_t test_rows) {
    flips.assign(points, 0);
    certain.assign(points, kNobody);
    margin.assign(points, std::numeric_limits<double>::infinity());
    test_leaks.assign(test_rows, 0);
  }

  void Merge(const Tally& other) {
    for (std::size_t k = 0; k < flips.size(); ++k) {
      flips[k] += other.flips[k];
      certain[k] = std::min(certain[k], other.certain[k]);
      margin[k] = std::min(margin[k], other.margin[k]);
    }
    for (std::size_t k = 0; k < test_leaks.size(); ++k) test_leaks[k] |= other.test_leaks[k];
  }
};

class Comparison {
 public:
  Comparison(const Ensemble& ensemble, const Dataset& dataset, const LeakMapOptions& options)
      : ensemble_(ensemble), dataset_(dataset), options_(options), network_(ensemble.network()) {
    map_.grid = options.grid;
    map_.members = ensemble.members();
    map_.rows = ensemble.manifest().rows;
    grid_ = GridInputs(map_);
    LabelInputs(network_, grid_);
    test_.x = dataset.test.x;
    LabelInputs(network_, test_);
    classes_ = static_cast<std::size_t>(dataset.classes());
    flipped_.resize(static_cast<std::size_t>(map_.members) * classes_);
  }

  Result<LeakMap> Run(const ProgressCallback& progress, std::stop_token stop) {
    map_.network = EvaluateField(network_, grid_);
    LUCID_TRY(VisitMembers(progress, stop));
    map_.labels = grid_.labels;
    RankMembers();
    for (std::size_t c = 0; c < classes_; ++c) SummarizeClass(c);
    map_.flips = std::move(tally_.flips);
    map_.margin = std::move(tally_.margin);
    return std::move(map_);
  }

 private:
  Status VisitMembers(const ProgressCallback& progress, std::stop_token stop) {
    const auto workers = static_cast<std::size_t>(EffectiveThreads(options_.threads));
    std::vector<Tally> tallies(workers);
    for (Tally& tally : tallies) tally.Start(grid_.size(), test_.size());
    std::mutex mutex;
    std::int64_t done = 0;
    LUCID_TRY(ParallelFor(map_.members, options_.threads, stop,
                          [&](std::int64_t member, int worker) -> Status {
                            VisitMember(member, tallies[static_cast<std::size_t>(worker)]);
                            const std::lock_guard lock(mutex);
                            ++done;
                            if (progress)
                              progress({"comparing labels", "networks", done, map_.members, 0});
                            return Ok();
                          }));
    tally_ = std::move(tallies.front());
    for (std::size_t w = 1; w < workers; ++w) tally_.Merge(tallies[w]);
    return Ok();
  }

  void VisitMember(std::int64_t member, Tally& tally) {
    const Evaluator evaluator(ensemble_.Member(member));
    const double rounding = evaluator.ConfidenceErrorBound();
    std::vector<double> logits(classes_);
    std::int64_t* flipped = flipped_.data() + static_cast<std::size_t>(member) * classes_;
    for (std::size_t k = 0; k < grid_.size(); ++k) {
      evaluator.Logits(grid_.at(k), logits);
      const auto label = static_cast<std::size_t>(grid_.labels[k]);
      const double confidence = ClassConfidence(logits, label);
      tally.margin[k] = std::min(tally.margin[k], confidence);
      if (confidence > 0 || LabelOf(logits) == grid_.labels[k]) continue;
      ++tally.flips[k];
      ++flipped[label];
      if (confidence < -rounding) {
        tally.certain[k] = std::min(tally.certain[k], static_cast<std::int32_t>(member));
      }
    }
    for (std::size_t k = 0; k < test_.size(); ++k) {
      if (tally.test_leaks[k] == 0 && evaluator.Decide(test_.at(k)).label != test_.labels[k]) {
        tally.test_leaks[k] = 1;
      }
    }
  }

  std::int64_t Flipped(std::int64_t member, std::size_t c) const {
    return flipped_[static_cast<std::size_t>(member) * classes_ + c];
  }

  void RankMembers() {
    for (std::int64_t member = 0; member < map_.members; ++member) {
      std::int64_t points = 0;
      for (std::size_t c = 0; c < classes_; ++c) points += Flipped(member, c);
      if (points > 0) map_.influences.push_back({member, ensemble_.RowOf(member), points});
    }
    std::ranges::stable_sort(map_.influences, std::ranges::greater{}, &RowInfluence::points);
    const std::size_t drawn =
        std::min(static_cast<std::size_t>(options_.drawn_members), map_.influences.size());
    for (std::size_t k = 0; k < drawn; ++k) {
      const Evaluator evaluator(ensemble_.Member(map_.influences[k].member));
      map_.drawn.push_back(EvaluateField(evaluator, grid_));
    }
  }

  void SummarizeClass(std::size_t c) {
    ClassLeak leak;
    leak.label = static_cast<std::int32_t>(c);
    leak.name = dataset_.schema.label().categories[c];
    for (std::size_t k = 0; k < grid_.size(); ++k) {
      if (grid_.labels[k] != leak.label) continue;
      ++leak.points;
      leak.leaking += tally_.flips[k] > 0;
      if (tally_.certain[k] != kNobody) OfferWitness(k, leak);
    }
    for (std::size_t k = 0; k < test_.size(); ++k) {
      if (test_.labels[k] != leak.label) continue;
      ++leak.test_rows;
      leak.test_leaking += tally_.test_leaks[k];
    }
    for (std::int64_t member = 0; member < map_.members; ++member) {
      const std::int64_t points = Flipped(member, c);
      leak.rows_that_matter += points > 0;
      if (points <= leak.strongest_points) continue;
      leak.strongest_points = points;
      leak.strongest_row = ensemble_.RowOf(member);
    }
    map_.test_rows += leak.test_rows;
    map_.test_leaking += leak.test_leaking;
    map_.classes.push_back(std::move(leak));
  }

  // Grid point k leaks beyond doubt: is N more confident there than at the witness so far?
  void OfferWitness(std::size_t k, ClassLeak& leak) const {
    const double confidence =
        map_.network.values[static_cast<std::size_t>(leak.label) * grid_.size() + k];
    // The exact confidence is at least the computed one less its error bound; one step down for the
    // rounding of this subtraction. Without a positive rest N's own label is in doubt.
    const double lower = std::nextafter(confidence - network_.ConfidenceErrorBound(),
                                        -std::numeric_limits<double>::infinity());
    if (lower <= leak.beta_lower) return;
    leak.beta_lower = lower;
    leak.witness = LeakWitness{
        {grid_.x[2 * k], grid_.x[2 * k + 1]}, confidence, ensemble_.RowOf(tally_.certain[k])};
  }

  const Ensemble& ensemble_;
  const Dataset& dataset_;
  const LeakMapOptions& options_;
  const Evaluator network_;
  std::size_t classes_ = 0;
  Inputs grid_, test_;
  std::vector<std::int64_t> flipped_;  // [member][class of N]: each member's row has one writer
  Tally tally_;
  LeakMap map_;
};

}  // namespace

Status LeakMapOptions::Validate() const {
  if (grid < 2 || grid > 2000) {
    return InvalidInput(fmt::format("grid is {}, must be from 2 to 2000 points per axis", grid));
  }
  if (drawn_members < 0 || drawn_members > 100) {
    return InvalidInput(fmt::format("drawn_members is {}, must be from 0 to 100", drawn_members));
  }
  if (threads < 0) return InvalidInput(fmt::format("threads is {}, must be at least 0", threads));
  return Ok();
}

std::int64_t LeakMap::leaking() const {
  return std::ranges::count_if(flips, [](std::int32_t count) { return count > 0; });
}

Result<LeakMap> ComputeLeakMap(const Ensemble& ensemble, const Dataset& dataset,
                               const LeakMapOptions& options, const ProgressCallback& progress,
                               std::stop_token stop) {
  LUCID_TRY(options.Validate());
  if (dataset.features() != 2) {
    return InvalidInput(fmt::format("a leak map needs 2 features, '{}' has {}", dataset.directory,
                                    dataset.features()));
  }
  if (dataset.train_digest != ensemble.manifest().train_digest ||
      dataset.schema_digest != ensemble.manifest().schema_digest) {
    return Mismatch(
        fmt::format("'{}' is not the data set of the run: SHA-256 of its rows is {}, "
                    "the run was trained on {}",
                    dataset.directory, dataset.train_digest.Hex().substr(0, 16),
                    ensemble.manifest().train_digest.Hex().substr(0, 16)));
  }
  return Comparison(ensemble, dataset, options).Run(progress, stop);
}

}  // namespace lucid
