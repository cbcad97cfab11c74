#include "certify.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "lucid/data/dataset.h"
#include "lucid/guard/member_index.h"

namespace lucid::app {
namespace {

// Training rows, to say where bounds should be tight; none where they are not to be had.
std::vector<float> GuidesOf(const Session& session, const Manifest& manifest) {
  LoadOptions options;
  options.max_rows = manifest.rows;
  for (const bool clip : {false, true}) {
    options.clip = clip;
    Result<Dataset> dataset = LoadDataset(manifest.data_directory, options);
    if (dataset.ok() && dataset->train_digest == manifest.train_digest) {
      return std::move(dataset->train.x);
    }
  }
  session.Say(
      fmt::format("spatial bounds: guided by random inputs, the training data is not in '{}'",
                  manifest.data_directory));
  return {};
}

}  // namespace

void BoundRecorder::Listen(BoundOptions& options) {
  options.trace = [this](std::int32_t label, double seconds, double lower, double upper) {
    const std::scoped_lock lock(mutex_);
    steps_.push_back({label, seconds, lower, upper});
  };
}

Status BoundRecorder::Save(const std::string& run, const Certificate& certificate) {
  const std::scoped_lock lock(mutex_);
  for (const ClassBound& bound : certificate.classes) {
    if (std::isinf(bound.beta_upper)) continue;
    steps_.push_back({bound.label, bound.seconds, bound.beta_lower, bound.beta_upper});
  }
  return WriteFileAtomically((std::filesystem::path(run) / kBoundsFile).string(),
                             EncodeBoundSteps(steps_));
}

Status BuildGuardParts(const Session& session, const GuardParts& parts, const Ensemble& ensemble,
                       const std::string& run, Certificate& certificate) {
  if (!parts.index && !parts.spatial) return Ok();
  const std::filesystem::path folder(run);
  LUCID_ASSIGN(const auto upper, BoundMembers(ensemble, certificate.member_error, session.threads,
                                              session.Progress(), session.stop));
  if (parts.index) {
    LUCID_ASSIGN(const MemberIndex index,
                 MemberIndex::Build(ensemble, upper, certificate.member_error, session.threads));
    LUCID_TRY(index.Save((folder / kIndexFile).string()));
    certificate.index_digest = index.digest();
  }
  if (parts.spatial) {
    SpatialOptions options = parts.spatial_options;
    options.threads = session.threads;
    LUCID_ASSIGN(
        const std::string bytes,
        ComputeSpatialBounds(ensemble, certificate, upper, GuidesOf(session, ensemble.manifest()),
                             options, session.Progress(), session.stop));
    LUCID_TRY(WriteFileAtomically((folder / kSpatialFile).string(), bytes));
    certificate.spatial_digest = Sha256Of(bytes);
  }
  return Ok();
}

}  // namespace lucid::app
