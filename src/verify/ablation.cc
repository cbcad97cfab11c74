#include "lucid/verify/ablation.h"

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
  if (!options.resume || !std::filesystem::exists(path)) return std::nullopt;
  Result<Certificate> found = LoadCertificate(path);
  if (!found.ok() || found->options != options.Canonical() ||
      found->ensemble_digest != ensemble.manifest().ensemble_digest) {
    return std::nullopt;
  }
  return std::move(found).value();
}

}  // namespace

double ExpectedAccuracy(const Evaluator& network, const Certificate& certificate, const Table& test,
                        double epsilon) {
  const auto classes = static_cast<double>(certificate.classes.size());
  const double weight = std::exp(epsilon / 2);
  const double keep = weight / (weight + classes - 1);
  double right = 0;
  for (std::int64_t i = 0; i < test.rows(); ++i) {
    const Decision decision = network.Decide(test.row(i));
    const bool same = decision.label == test.y[i];
    const bool sure = decision.confidence - certificate.network_error >
                      certificate.classes[decision.label].beta_upper;
    right += sure ? (same ? 1 : 0) : (same ? keep : (1 - keep) / (classes - 1));
  }
  return right / static_cast<double>(test.rows());
}

Result<std::vector<AblationRow>> RunAblation(const Ensemble& ensemble, const Table* test,
                                             const AblationOptions& options,
                                             const ProgressCallback& progress,
                                             std::stop_token stop) {
  if (!options.folder.empty()) LUCID_TRY(MakeDirectories(options.folder));
  const Evaluator network(ensemble.network());
  std::vector<AblationRow> rows;
  std::vector<Traces> traces;
  for (const Variant variant : options.variants) {
    if (stop.stop_requested()) break;
    MilpBoundOptions bound = options.bound;
    bound.variant = variant;
    bound.time_limit = std::numeric_limits<double>::max();  // class_limit is what counts
    Traces trace;
    bound.trace = [&](std::int32_t label, double seconds, double, double upper) {
      trace[label].emplace_back(seconds, upper);
    };
    const std::string path =
        options.folder.empty()
            ? ""
            : (std::filesystem::path(options.folder) / fmt::format("{}.json", NameOf(variant)))
                  .string();
    std::optional<Certificate> certificate = Earlier(path, ensemble, bound);
    if (!certificate) {
      bound.journal.clear();  // a variant is short enough to start over
      LUCID_ASSIGN(certificate, ComputeBoundsByMilp(ensemble, bound, progress, stop));
      if (stop.stop_requested()) break;  // cut short: not what the limits would have given
      for (const ClassBound& done : certificate->classes) {
        trace[done.label].emplace_back(done.seconds, done.beta_upper);
      }
      if (!path.empty()) LUCID_TRY(SaveCertificate(*certificate, path));
    }
    AblationRow row{variant, std::move(*certificate), {}, kNever, kNever};
    if (test != nullptr && test->rows() > 0) {
      row.accuracy_0 = ExpectedAccuracy(network, row.certificate, *test, 0);
      row.accuracy_1 = ExpectedAccuracy(network, row.certificate, *test, 1);
    }
    rows.push_back(std::move(row));
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
