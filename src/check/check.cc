#include "lucid/check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>

#include "base/number_text.h"
#include "base/parallel.h"
#include "lucid/data/domain.h"

namespace lucid {
namespace {

// Collects answers; `detail` only matters where the answer is no.
class Checker {
 public:
  bool Ask(std::string name, bool passed, std::string detail = "") {
    report_.checks.push_back({std::move(name),
                              passed ? Check::Outcome::kPassed : Check::Outcome::kFailed,
                              passed ? "" : std::move(detail)});
    return passed;
  }
  void SameDigest(std::string name, const Digest& stated, const Digest& actual) {
    Ask(std::move(name), stated == actual,
        fmt::format("the certificate is for {}, the run has {}", stated.Hex().substr(0, 16),
                    actual.Hex().substr(0, 16)));
  }
  template <typename T>
  bool Same(const std::string& name, const T& stated, const T& actual) {
    return Ask(name, stated == actual,
               fmt::format("the certificate says {}, the run {}", stated, actual));
  }
  void NotDone(std::string name, std::string why) {
    report_.checks.push_back({std::move(name), Check::Outcome::kNotDone, std::move(why)});
  }
  CheckReport Finish() { return std::move(report_); }

 private:
  CheckReport report_;
};

// Why a class's numbers and witness are not of this run; empty if they are.
std::string ProblemOf(const ClassBound& bound, std::int64_t label, const Ensemble& ensemble,
                      const Domain& domain) {
  if (bound.label != label) return fmt::format("it is called class {}", bound.label);
  if (!(bound.beta_upper >= 0) || !(bound.beta_lower >= 0) ||
      !(bound.beta_lower <= bound.beta_upper)) {
    return fmt::format("{} to {} is no bound", bound.beta_lower, bound.beta_upper);
  }
  if (!bound.witness.has_value()) return "";
  const Witness& witness = *bound.witness;
  if (witness.member < 0 || witness.member >= ensemble.members()) {
    return fmt::format("its witness names member {} of {}", witness.member, ensemble.members());
  }
  if (const std::int64_t row = ensemble.RowOf(witness.member); witness.row != row) {
    return fmt::format("its witness names row {}, member {} was trained without row {}",
                       witness.row, witness.member, row);
  }
  const std::int64_t inputs = ensemble.network().architecture.inputs();
  if (static_cast<std::int64_t>(witness.x.size()) != inputs) {
    return fmt::format("its witness has {} values, an input has {}", witness.x.size(), inputs);
  }
  const Status inside = domain.Contains(witness.x);
  return inside.ok() ? "" : "its witness: " + inside.error().message;
}

Result<double> LargestMemberError(const Ensemble& ensemble, int threads,
                                  const ProgressCallback& progress, const std::stop_token& stop) {
  std::mutex mutex;
  std::int64_t done = 0;
  double largest = 0;
  LUCID_TRY(ParallelFor(ensemble.members(), threads, stop, [&](std::int64_t member, int) {
    const double error = Evaluator(ensemble.Member(member)).ConfidenceErrorBound();
    const std::lock_guard lock(mutex);
    // std::max would drop an error that is no number.
    largest =
        std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(largest, error);
    if (progress) progress({"bounding rounding errors", "members", ++done, ensemble.members(), 0});
    return Ok();
  }));
  return largest;
}

}  // namespace

std::string_view NameOf(Check::Outcome outcome) {
  switch (outcome) {
    case Check::Outcome::kPassed:
      return "passed";
    case Check::Outcome::kFailed:
      return "failed";
    case Check::Outcome::kNotDone:
      break;
  }
  return "not done";
}

bool CheckReport::accepted() const { return !checks.empty() && FirstProblem() == nullptr; }

const Check* CheckReport::FirstProblem() const {
  for (const Check::Outcome outcome : {Check::Outcome::kFailed, Check::Outcome::kNotDone}) {
    const auto at = std::ranges::find(checks, outcome, &Check::outcome);
    if (at != checks.end()) return &*at;
  }
  return nullptr;
}

Result<CheckReport> CheckBinding(const Certificate& certificate, const Ensemble& ensemble,
                                 const CheckOptions& options, const ProgressCallback& progress,
                                 std::stop_token stop) {
  const Certificate& c = certificate;
  const Manifest& manifest = ensemble.manifest();
  const Network& network = ensemble.network();
  Checker check;
  check.Ask("files of the run", true);  // there is no Ensemble without Ensemble::Open
  check.SameDigest("run key", c.run_key, manifest.run_key);
  check.SameDigest("schema", c.schema_digest, manifest.schema_digest);
  check.SameDigest("training data", c.train_digest, manifest.train_digest);
  check.SameDigest("architecture", c.architecture_digest,
                   Sha256Of(network.architecture.Canonical()));
  check.SameDigest("network", c.network_digest, network.digest());
  check.SameDigest("ensemble", c.ensemble_digest, manifest.ensemble_digest);
  check.Same("rows", c.rows, manifest.rows);
  check.Same("members", c.members, ensemble.members());
  check.Same("partial", c.partial, manifest.partial);
  const double error = Evaluator(network).ConfidenceErrorBound();
  check.Ask("forward error of N", c.network_error == error && std::isfinite(error),
            fmt::format("the certificate says {}, this network's is {}", HexText(c.network_error),
                        HexText(error)));
  LUCID_ASSIGN(const double largest, LargestMemberError(ensemble, options.threads, progress, stop));
  check.Ask("forward error of the members", c.member_error >= largest && std::isfinite(largest),
            fmt::format("the certificate says {}, the largest is {}", HexText(c.member_error),
                        HexText(largest)));
  const Domain domain = Domain::Of(c.domain, manifest.schema);
  const std::int64_t classes = network.architecture.classes();
  const bool complete =
      check.Same("number of classes", static_cast<std::int64_t>(c.classes.size()), classes);
  for (std::int64_t k = 0; k < classes; ++k) {
    const std::string name = fmt::format("class {}", k);
    if (!complete) {
      check.NotDone(name, "the classes are not those of the run");
      continue;
    }
    const std::string problem = ProblemOf(c.classes[k], k, ensemble, domain);
    check.Ask(name, problem.empty(), problem);
  }
  return check.Finish();
}

std::vector<Check> CheckFiles(const Certificate& certificate, const std::string& run) {
  std::vector<Check> checks;
  const auto check = [&](const char* name, const std::optional<Digest>& stated, const char* file) {
    if (!stated) return;
    const Result<Digest> found = Sha256OfFile((std::filesystem::path(run) / file).string());
    Check& answer = checks.emplace_back(Check{name, Check::Outcome::kPassed, ""});
    if (found.ok() && *found == *stated) return;
    answer.outcome = Check::Outcome::kFailed;
    answer.detail = found.ok() ? fmt::format("{} is not the file that the certificate names", file)
                               : found.error().message;
  };
  check("spatial bounds", certificate.spatial_digest, kSpatialFile);
  check("index of members", certificate.index_digest, kIndexFile);
  check("proof of the spatial bounds", certificate.spatial_proof_digest, kSpatialProofFile);
  check("proof of the index", certificate.index_proof_digest, kIndexProofFile);
  return checks;
}

Result<CheckReport> CheckBinding(const Certificate& certificate, const std::string& run,
                                 const CheckOptions& options, const ProgressCallback& progress,
                                 std::stop_token stop) {
  const Result<Ensemble> ensemble = Ensemble::Open(run, progress);
  if (ensemble.ok()) {
    LUCID_ASSIGN(CheckReport report,
                 CheckBinding(certificate, *ensemble, options, progress, std::move(stop)));
    for (Check& file : CheckFiles(certificate, run)) report.checks.push_back(std::move(file));
    return report;
  }
  if (ensemble.error().kind != ErrorKind::kMismatch) return ensemble.error();
  Checker check;
  check.Ask("files of the run", false, ensemble.error().message);
  return check.Finish();
}

}  // namespace lucid
