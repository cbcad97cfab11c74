#include "lucid/paper/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/files.h"

namespace lucid {
namespace {

constexpr double kNever = std::numeric_limits<double>::quiet_NaN();

// The proved bound of each class over time.
using Traces = std::map<std::int32_t, std::vector<std::pair<double, double>>>;

double SecondsUntil(const Traces& traces, std::int32_t label, double bound) {
  const auto found = traces.find(label);
  if (found == traces.end()) return kNever;
  for (const auto& [seconds, upper] : found->second) {
    if (upper <= bound) return seconds;
  }
  return kNever;
}

// A certificate of an earlier process that says what this variant would compute.
std::optional<Certificate> Earlier(const std::string& path, const Ensemble& ensemble,
                                   const MilpBoundOptions& options) {
  if (!options.common.resume || !std::filesystem::exists(path)) return std::nullopt;
  Result<Certificate> found = LoadCertificate(path);
  if (!found.ok() || found->options != options.Canonical() ||
      found->ensemble_digest != ensemble.manifest().ensemble_digest) {
    return std::nullopt;
  }
  return std::move(found).value();
}

}  // namespace

Result<std::vector<AblationRow>> RunAblation(const Ensemble& ensemble,
                                             const AblationOptions& options,
                                             const ProgressCallback& progress,
                                             std::stop_token stop) {
  if (!options.folder.empty()) LUCID_TRY(MakeDirectories(options.folder));
  std::vector<AblationRow> rows;
  std::vector<Traces> traces;
  for (const Variant variant : options.variants) {
    if (stop.stop_requested()) break;
    MilpBoundOptions bound = options.bound;
    bound.variant = variant;
    bound.common.time_limit = std::numeric_limits<double>::max();  // class_limit is what counts
    Traces trace;
    bound.common.trace = [&](std::int32_t label, double seconds, double, double upper) {
      trace[label].emplace_back(seconds, upper);
    };
    const std::string path =
        options.folder.empty()
            ? ""
            : (std::filesystem::path(options.folder) / fmt::format("{}.json", NameOf(variant)))
                  .string();
    std::optional<Certificate> certificate = Earlier(path, ensemble, bound);
    if (!certificate) {
      bound.common.journal.clear();  // a variant is short enough to start over
      LUCID_ASSIGN(certificate, ComputeBoundsByMilp(ensemble, bound, progress, stop));
      if (stop.stop_requested()) break;  // cut short: not what the limits would have given
      for (const ClassBound& done : certificate->classes) {
        trace[done.label].emplace_back(done.seconds, done.beta_upper);
      }
      if (!path.empty()) LUCID_TRY(SaveCertificate(*certificate, path));
    }
    rows.push_back({variant, std::move(*certificate), {}});
    traces.push_back(std::move(trace));
  }
  const auto h = std::ranges::find(rows, Variant::kH, &AblationRow::variant);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const ClassBound& bound : rows[r].certificate.classes) {
      rows[r].seconds_to_h.push_back(
          h == rows.end() ? kNever
                          : SecondsUntil(traces[r], bound.label,
                                         h->certificate.classes[bound.label].beta_upper));
    }
  }
  return rows;
}

}  // namespace lucid
