// The spatial bounds of a run: a search for every class.
#include <fmt/format.h>

#include <algorithm>

#include "base/parallel.h"
#include "base/work_clock.h"
#include "ensemble/engine_networks.h"
#include "lucid/data/domain.h"
#include "lucid/native/bound.h"
#include "lucid/nn/network.h"
#include "native/bound_team.h"
#include "native/engine.h"
#include "native/guard_proof.h"
#include "native/spatial_search.h"
#include "random/stream.h"

namespace lucid {
namespace {

constexpr std::size_t kMostRows = 20000, kRandomGuides = 2000;
// Some thousand of these are noised by a scalar guard. Boxes that spare them spare as many of the
// inputs between them; with a tenth of the guides, boxes fit the guides only.
constexpr std::size_t kGuidesOfDomain = 250000;

std::vector<float> RandomInputs(const Domain& domain, std::size_t count) {
  Stream stream(0, "spatial guides");
  const auto inputs = static_cast<std::size_t>(domain.features());
  std::vector<float> rows(count * inputs);
  for (std::size_t at = 0; at < rows.size(); at += inputs) {
    for (std::size_t j = 0; j < inputs; ++j) rows[at + j] = static_cast<float>(stream.Uniform());
    for (const Domain::Group& group : domain.groups()) {
      const auto& point = group.points[stream.Below(group.points.size())];
      std::ranges::copy(point, rows.begin() + static_cast<std::ptrdiff_t>(at) + group.first);
    }
  }
  return rows;
}

// Guides in the one spelling that a guard gives inputs. If there are many, some are taken at even
// distances.
std::vector<float> Guides(std::span<const float> given, const Domain& domain) {
  const bool fill = GuidesFillDomain(domain);
  std::vector<float> guides;
  if (fill || given.empty()) guides = RandomInputs(domain, fill ? kGuidesOfDomain : kRandomGuides);
  const auto inputs = static_cast<std::size_t>(domain.features());
  const std::size_t rows = given.size() / inputs, kept = std::min(rows, kMostRows);
  for (std::size_t k = 0; k < kept; ++k) {
    for (const float value : given.subspan(k * rows / kept * inputs, inputs)) {
      guides.push_back(std::clamp(value, 0.0F, 1.0F) + 0.0F);
    }
  }
  return guides;
}

// Whether the bounds spare enough of the inputs that a scalar guard noises.
bool Help(const Network& network, const Certificate& certificate, const SpatialBounds& bounds,
          std::span<const float> rows, double least_spared) {
  const Evaluator evaluator(network);
  const auto inputs = static_cast<std::size_t>(network.architecture.inputs());
  std::int64_t noised = 0, spared = 0;
  for (std::size_t at = 0; at + inputs <= rows.size(); at += inputs) {
    const auto x = rows.subspan(at, inputs);
    const Decision decision = evaluator.Decide(x);
    const double confidence = decision.confidence - evaluator.ConfidenceErrorBound();
    if (confidence > certificate.classes[decision.label].beta_upper) continue;
    ++noised;
    spared += confidence > bounds.Bound(decision.label, x);
  }
  return static_cast<double>(spared) >= least_spared * static_cast<double>(noised);
}

}  // namespace

Status SpatialOptions::Validate() const {
  if (leaves < 1 || leaves > (1 << 24)) {
    return InvalidInput(fmt::format("leaves {}: must be from 1 to 2^24", leaves));
  }
  if (!(time_limit >= 0)) {
    return InvalidInput(fmt::format("time limit {}: must be at least 0", time_limit));
  }
  if (!(least_spared >= 0 && least_spared <= 1)) {
    return InvalidInput(fmt::format("least share spared {}: must be from 0 to 1", least_spared));
  }
  return Ok();
}

Result<SpatialFile> ComputeSpatialBounds(const Ensemble& ensemble, const Certificate& certificate,
                                         const MemberBounds& members, std::span<const float> guides,
                                         const SpatialOptions& options,
                                         const ProgressCallback& progress, std::stop_token stop) {
  LUCID_TRY(options.Validate());
  const Domain domain = Domain::Of(certificate.domain, ensemble.manifest().schema);
  const EngineNetworks networks(ensemble);
  const std::vector<float> rows = Guides(guides, domain);
  LUCID_ASSIGN(const auto helpers, GatherForBounds(options.team, ensemble, stop));
  const WorkClock clock(EffectiveThreads(options.threads));
  const auto left = [&] { return std::max(options.time_limit - clock.Seconds(), 0.0); };
  SpatialFile file;
  std::vector<SpatialBounds::Tree> trees;
  const auto classes = static_cast<std::int32_t>(certificate.classes.size());
  for (std::int32_t label = 0; label < classes; ++label) {
    SpatialSearchOptions search;
    search.leaves = options.leaves;
    search.seconds = left() / (classes - label);
    search.threads = options.threads;
    search.stop = stop;
    search.team = helpers.get();
    search.report = [&](std::int64_t all, std::int64_t waiting) {
      if (!progress) return;
      progress({fmt::format("spatial bounds of class {}", label), "inputs", all - waiting, all, 0,
                fmt::format("at most {:.0f} s of work left", left())});
    };
    const double beta_upper = certificate.classes[label].beta_upper;
    LUCID_ASSIGN(BoxProof proof,
                 SearchSpatialBounds(
                     networks.network(), networks.members(), domain,
                     {label, beta_upper, certificate.member_error, members.proofs[label].claims,
                      ensemble.network().architecture.layers().size() == 1},
                     rows, search));
    file.proofs.push_back(std::move(proof));
  }
  // The limit and a stop end the search and not this: what was found is worth its proof. Helpers
  // that are stopped answer no more.
  const auto confirm = [&](std::int32_t label, TaskTeam* team) {
    return ConfirmClaims(ensemble, domain, label, certificate.member_error, options.threads, {},
                         file.proofs[static_cast<std::size_t>(label)], team);
  };
  for (std::int32_t label = 0; label < classes; ++label) {
    Status confirmed = confirm(label, helpers.get());
    if (!confirmed.ok() && confirmed.error().kind == ErrorKind::kInterrupted) {
      confirmed = confirm(label, nullptr);
    }
    LUCID_TRY(confirmed);
    const BoxProof& proof = file.proofs[static_cast<std::size_t>(label)];
    trees.push_back(
        TreeOf(proof, ensemble.members(), classes, label, certificate.classes[label].beta_upper));
  }
  file.bytes = SpatialBounds::Encode(domain.features(), trees);
  LUCID_ASSIGN(const SpatialBounds bounds, SpatialBounds::Parse(file.bytes, "spatial bounds"));
  if (!Help(ensemble.network(), certificate, bounds, rows, options.least_spared))
    return SpatialFile();
  return file;
}

}  // namespace lucid
