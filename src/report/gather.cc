// What a report is made of.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "base/files.h"
#include "base/parallel.h"
#include "evaluation/guard_files.h"
#include "lucid/certificate/guards_digest.h"
#include "lucid/certificate/spatial.h"
#include "lucid/native/bound.h"
#include "lucid/promise/promise.h"
#include "lucid/report/report.h"

namespace lucid {
namespace {

constexpr std::int64_t kBesideGrid = 80;  // points per axis of the smaller picture

class Gathering {
 public:
  Gathering(const std::string& run, const ReportOptions& options, const ProgressCallback& progress,
            std::stop_token stop, const Ensemble& ensemble)
      : options_(options), progress_(progress), stop_(std::move(stop)), ensemble_(ensemble) {
    report_.run = run;
    report_.manifest = ensemble.manifest();
  }

  // What a page needs of a run that it shows beside another one.
  Result<Report> RunBeside() {
    FindDataset();
    LUCID_TRY(FindCertificate());
    LUCID_TRY(FindEvaluation());
    LUCID_TRY(FindAudit());
    LUCID_TRY(DrawPlane());
    return std::move(report_);
  }

  Result<Report> Run() {
    FindDataset();
    LUCID_TRY(FindCertificate());
    LUCID_TRY(FindEvaluation());
    LUCID_TRY(FindAudit());
    LUCID_TRY(FindBoundSteps());
    LUCID_TRY(AskGuards());
    LUCID_TRY(DrawPlane());
    LUCID_TRY(CompareMembers());
    return std::move(report_);
  }

 private:
  // The content of a file of the run; nothing if there is none.
  Result<std::optional<std::string>> ReadIfThere(const std::string& path) const {
    std::error_code code;
    const bool there = std::filesystem::exists(path, code);
    if (code) return IoError(fmt::format("cannot look for '{}': {}", path, code.message()));
    if (!there) return std::optional<std::string>();
    LUCID_ASSIGN(std::string text, ReadTextFile(path));
    return std::optional(std::move(text));
  }

  Status CheckRunKey(const Digest& key, const std::string& path, std::string_view command) const {
    if (key == report_.manifest.run_key) return Ok();
    return Mismatch(
        fmt::format("'{}' is of another run: run lucid {} {} again", path, command, report_.run));
  }

  // Data that moved away is no error: the run does not need it.
  void FindDataset() {
    const Manifest& manifest = report_.manifest;
    Result<Dataset> dataset = LoadRunData(manifest);
    if (dataset.ok() && dataset->train_digest == manifest.train_digest &&
        dataset->test_digest == manifest.test_digest) {
      report_.dataset.value = std::move(*dataset);
    } else {
      report_.dataset.missing =
          fmt::format("'{}' no longer holds the data of this run", manifest.data_directory);
    }
  }

  Status FindCertificate() {
    const std::string path =
        options_.certificate.empty() ? PathIn(report_.run, kCertificateFile) : options_.certificate;
    LUCID_ASSIGN(const auto text, ReadIfThere(path));
    if (!text) {
      report_.certificate.missing = fmt::format("no certificate yet: lucid bound {}", report_.run);
      return Ok();
    }
    LUCID_ASSIGN(Certificate certificate, ParseCertificate(*text, path));
    LUCID_TRY(CheckRunKey(certificate.run_key, path, "bound"));
    LUCID_ASSIGN(const auto verified,
                 VerifiedCertificate::Verify(std::move(certificate), ensemble_.network()));
    report_.certificate.value = verified.certificate();
    guards_digest_ = GuardsDigest(verified.certificate());
    return Ok();
  }

  Status FindEvaluation() {
    const std::string path = PathIn(report_.run, kEvaluationFile);
    LUCID_ASSIGN(const auto text, ReadIfThere(path));
    if (!text) {
      report_.evaluation.missing = fmt::format("not measured yet: lucid evaluate {}", report_.run);
      return Ok();
    }
    LUCID_ASSIGN(Evaluation evaluation, ParseEvaluation(*text, path));
    LUCID_TRY(CheckRunKey(evaluation.run_key, path, "evaluate"));
    const bool guarded = std::ranges::any_of(
        evaluation.rows, [](const EvaluationRow& row) { return GuardOf(row.method).has_value(); });
    if (guarded && evaluation.guards_digest != guards_digest_) {
      report_.evaluation.missing = fmt::format(
          "'{}' was not measured with the bounds of this certificate: lucid evaluate {}", path,
          report_.run);
      return Ok();
    }
    report_.evaluation.value = std::move(evaluation);
    return Ok();
  }

  Status FindAudit() {
    const std::string path = PathIn(report_.run, kAuditFile);
    LUCID_ASSIGN(const auto text, ReadIfThere(path));
    if (!text) {
      report_.audit.missing = fmt::format("not attacked yet: lucid audit {}", report_.run);
      return Ok();
    }
    LUCID_ASSIGN(Audit audit, ParseAudit(*text, path));
    LUCID_TRY(CheckRunKey(audit.run_key, path, "audit"));
    if (audit.guards_digest != guards_digest_) {
      report_.audit.missing = fmt::format(
          "'{}' did not attack the bounds of this certificate: lucid audit {}", path, report_.run);
      return Ok();
    }
    report_.audit.value = std::move(audit);
    return Ok();
  }

  // The steps belong to the certificate if they end where it stands.
  bool LeadsToCertificate(const std::vector<BoundStep>& steps) const {
    for (const ClassBound& bound : report_.certificate->classes) {
      const auto last =
          std::ranges::find(steps.rbegin(), steps.rend(), bound.label, &BoundStep::label);
      if (last != steps.rend() && last->upper != bound.beta_upper) return false;
    }
    return std::ranges::all_of(steps, [&](const BoundStep& step) {
      return step.label < std::ssize(report_.certificate->classes);
    });
  }

  Status FindBoundSteps() {
    if (!report_.certificate) {
      report_.bound_steps.missing = report_.certificate.missing;
      return Ok();
    }
    const std::string path = PathIn(report_.run, kBoundsFile);
    LUCID_ASSIGN(const auto text, ReadIfThere(path));
    if (!text) {
      report_.bound_steps.missing =
          fmt::format("this search was not recorded: lucid bound {} records it", report_.run);
      return Ok();
    }
    LUCID_ASSIGN(std::vector<BoundStep> steps, ParseBoundSteps(*text, path));
    if (steps.empty() || !LeadsToCertificate(steps)) {
      report_.bound_steps.missing =
          fmt::format("'{}' is of another search than the certificate: lucid bound {} makes both",
                      path, report_.run);
      return Ok();
    }
    report_.bound_steps.value = std::move(steps);
    return Ok();
  }

  // Every guard says itself what it noises. What it draws does not show, so any key will do.
  Status AskGuards() {
    if (!report_.certificate || !report_.dataset) {
      report_.test_points.missing =
          report_.certificate ? report_.dataset.missing : report_.certificate.missing;
      return Ok();
    }
    if (report_.dataset->test.rows() == 0) {
      report_.test_points.missing = "the data set has no test rows";
      return Ok();
    }
    TestPoints points;
    const Evaluator network(ensemble_.network());
    canonical_test_ = report_.dataset->test;
    for (std::size_t g = 0; g < std::size(kGuardKinds); ++g) {
      LUCID_ASSIGN(const auto missing,
                   MissingGuardFile(report_.run, options_.certificate, kGuardKinds[g]));
      if (missing) {
        points.missing.push_back(*missing);
        continue;
      }
      LUCID_ASSIGN(const Guard guard, Guard::Open(report_.run, options_.certificate,
                                                  {.guard = kGuardKinds[g]}, GuardKey::Random()));
      if (points.points.empty()) LUCID_TRY(PreparePoints(guard, network, points));
      std::vector<GuardedAnswer> answers(points.points.size());
      guard.AskBatch(canonical_test_.x, answers);
      for (std::size_t k = 0; k < answers.size(); ++k) {
        points.points[k].noised[g] = answers[k].noised;
      }
      points.guards[g] = true;
    }
    report_.test_points.value = std::move(points);
    return Ok();
  }

  Status PreparePoints(const Guard& guard, const Evaluator& network, TestPoints& points) {
    const auto width = static_cast<std::size_t>(canonical_test_.features);
    for (std::int64_t i = 0; i < canonical_test_.rows(); ++i) {
      const auto x =
          std::span(canonical_test_.x).subspan(static_cast<std::size_t>(i) * width, width);
      if (const Status status = guard.Canonicalize(x); !status.ok()) {
        return InvalidInput(fmt::format("test row {}: {}", i, status.error().message));
      }
      const Decision decision = network.Decide(x);
      points.points.push_back({.label = decision.label,
                               .truth = canonical_test_.y[static_cast<std::size_t>(i)],
                               .confidence = decision.confidence});
    }
    return Ok();
  }

  // Test rows at which some member may give another label: those that the finest guard noises.
  std::vector<std::int64_t> Doubtful() const {
    const TestPoints& points = *report_.test_points;
    std::vector<std::int64_t> rows;
    for (std::size_t k = 0; k < points.points.size(); ++k) {
      bool noised = true;
      for (std::size_t g = 0; g < points.guards.size(); ++g) {
        noised &= !points.guards[g] || points.points[k].noised[g];
      }
      if (noised) rows.push_back(static_cast<std::int64_t>(k));
    }
    return rows;
  }

  Status CompareMembers() {
    if (!report_.test_points) {
      report_.rows_that_matter.missing = report_.test_points.missing;
      return Ok();
    }
    LUCID_ASSIGN(const MemberBounds bounds,
                 BoundMembers(ensemble_, report_.certificate->member_error, options_.threads,
                              progress_, stop_));
    const std::vector<std::int64_t> doubtful = Doubtful();
    RowsThatMatter result;
    result.test_rows = canonical_test_.rows();
    result.rows.resize(static_cast<std::size_t>(ensemble_.members()));
    LUCID_TRY(ParallelFor(
        ensemble_.members(), options_.threads, stop_, [&](std::int64_t member, int) -> Status {
          RowMatters& matters = result.rows[static_cast<std::size_t>(member)];
          matters.row = ensemble_.RowOf(member);
          matters.label = report_.dataset->train.y[static_cast<std::size_t>(matters.row)];
          for (const ClassBound& bound : report_.certificate->classes) {
            const auto& of_class = bounds.upper[static_cast<std::size_t>(bound.label)];
            matters.upper =
                std::max(matters.upper,
                         std::min(of_class[static_cast<std::size_t>(member)], bound.beta_upper));
          }
          if (doubtful.empty()) return Ok();
          const Evaluator evaluator(ensemble_.Member(member));
          for (const std::int64_t k : doubtful) {
            matters.test_rows += evaluator.Decide(canonical_test_.row(k)).label !=
                                 report_.test_points->points[static_cast<std::size_t>(k)].label;
          }
          return Ok();
        }));
    if (report_.leak) {
      for (const RowInfluence& influence : report_.leak->influences) {
        result.rows[static_cast<std::size_t>(influence.member)].grid_points = influence.points;
      }
    }
    std::ranges::sort(result.rows, [](const RowMatters& a, const RowMatters& b) {
      return std::tuple(b.test_rows, b.grid_points, b.upper, a.row) <
             std::tuple(a.test_rows, a.grid_points, a.upper, b.row);
    });
    report_.rows_that_matter.value = std::move(result);
    return Ok();
  }

  Status DrawPlane() {
    if (report_.manifest.schema.features() != 2) {
      report_.leak.missing = fmt::format("the picture needs 2 features, this run has {}",
                                         report_.manifest.schema.features());
    } else if (!report_.dataset) {
      report_.leak.missing = report_.dataset.missing;
    } else {
      LeakMapOptions leak = options_.leak;
      leak.threads = options_.threads;
      LUCID_ASSIGN(report_.leak.value,
                   ComputeLeakMap(ensemble_, *report_.dataset, leak, progress_, stop_));
      if (HasDeclaredAccess(report_.manifest)) {
        report_.declared =
            ComputeDeclaredRegion(*report_.leak, report_.manifest.declared->bound(),
                                  Evaluator(ensemble_.network()).ConfidenceErrorBound());
      }
    }
    if (!report_.leak || !report_.certificate) {
      report_.regions.missing = report_.leak ? report_.certificate.missing : report_.leak.missing;
      return Ok();
    }
    std::optional<SpatialBounds> spatial;
    LUCID_ASSIGN(const auto missing,
                 MissingGuardFile(report_.run, options_.certificate, GuardKind::kSpatial));
    if (!missing) {
      LUCID_ASSIGN(spatial, SpatialBounds::Load(PathIn(report_.run, kSpatialFile)));
      if (spatial->digest() != report_.certificate->spatial_digest) {
        return Mismatch(fmt::format("'{}' is of another certificate: run lucid bound {} again",
                                    PathIn(report_.run, kSpatialFile), report_.run));
      }
    }
    report_.regions.value =
        ComputeGuardRegions(*report_.leak, *report_.certificate, spatial ? &*spatial : nullptr);
    return Ok();
  }

  const ReportOptions& options_;
  const ProgressCallback& progress_;
  const std::stop_token stop_;
  const Ensemble& ensemble_;
  Table canonical_test_;
  std::optional<Digest> guards_digest_;  // of the certificate
  Report report_;
};

}  // namespace

Result<Report> GatherReport(const std::string& run, const ReportOptions& options,
                            const ProgressCallback& progress, std::stop_token stop) {
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run, progress));
  LUCID_ASSIGN(Report report, Gathering(run, options, progress, stop, ensemble).Run());
  if (options.beside.empty()) return report;
  LUCID_ASSIGN(const Ensemble other, Ensemble::Open(options.beside, progress));
  if (other.manifest().train_digest != ensemble.manifest().train_digest) {
    return Mismatch(fmt::format("'{}' was trained on other rows than '{}'", options.beside, run));
  }
  ReportOptions beside = options;
  beside.certificate.clear();
  beside.leak.grid = std::min(options.leak.grid, kBesideGrid);
  LUCID_ASSIGN(Report of_other,
               Gathering(options.beside, beside, progress, stop, other).RunBeside());
  report.beside = std::make_shared<const Report>(std::move(of_other));
  return report;
}

}  // namespace lucid
