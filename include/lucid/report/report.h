// Everything that is known of a run, on one page: what was certified, what privacy costs, and
// whether it holds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "lucid/audit/audit.h"
#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certify/bound_steps.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/evaluation/evaluation.h"
#include "lucid/guard/guard.h"
#include "lucid/report/leak_map.h"
#include "lucid/report/leak_picture.h"

namespace lucid {

struct ReportOptions {
  std::string certificate;  // empty: RUN/certificate.json
  std::string beside;       // another run on the same data, to compare promises with; empty: none
  LeakMapOptions leak;      // of the picture of a run with two features; its threads do not count
  int threads = 0;          // 0: all cores
};

// Something the page may show: there, or one line that says why not and which command makes it.
template <typename T>
struct Part {
  std::optional<T> value;
  std::string missing;

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  const T* operator->() const { return &*value; }
};

// Guards, in the order of GuardKind.
inline constexpr GuardKind kGuardKinds[] = {GuardKind::kScalar, GuardKind::kSpatial,
                                            GuardKind::kExact};
using NoisedByGuard = std::array<bool, std::size(kGuardKinds)>;

// A test row, and which guards noise it (false, too, for a guard that is not there).
struct TestPoint {
  std::int32_t label = 0;  // N's
  std::int32_t truth = 0;  // the row's
  double confidence = 0;   // of N, as computed
  NoisedByGuard noised{};
};

struct TestPoints {
  std::vector<TestPoint> points;     // one per test row, in order
  NoisedByGuard guards{};            // which guards were asked
  std::vector<std::string> missing;  // why the others were not, one line each
};

// What leaving one row out alone changes.
struct RowMatters {
  std::int64_t row = 0;
  std::int32_t label = -1;       // its class
  std::int64_t test_rows = 0;    // that get another label
  std::int64_t grid_points = 0;  // of the leak map that do; 0 without one
  // Proved: where N is more confident than this, no label changes. At most the largest beta.
  double upper = 0;
};

struct RowsThatMatter {
  std::vector<RowMatters> rows;  // all members: most test rows first, then most grid points,
                                 // then the largest `upper`, then by row
  std::int64_t test_rows = 0;    // that were compared
};

struct Report {
  std::string run;
  Manifest manifest;
  Part<Dataset> dataset;
  Part<Certificate> certificate;
  Part<Evaluation> evaluation;
  Part<Audit> audit;
  Part<TestPoints> test_points;
  Part<RowsThatMatter> rows_that_matter;
  Part<LeakMap> leak;
  Part<GuardRegions> regions;
  Part<std::vector<BoundStep>> bound_steps;
  // The bounds that a private run's service has, on the grid of `leak`: what it noises.
  std::optional<GuardRegion> declared;
  // The run of ReportOptions::beside: its data, certificate, evaluation, audit and pictures only.
  std::shared_ptr<const Report> beside;
};

// Reads what the commands before left in the run folder, and computes what is cheap: guards' view
// of the test rows, the rows that matter most, the picture of two features. What is not there is
// missing from the report, and that is said; what is there but damaged, or of another run, is an
// error. kInterrupted.
Result<Report> GatherReport(const std::string& run, const ReportOptions& options,
                            const ProgressCallback& progress = {}, std::stop_token stop = {});

// One self-contained page: no script, nothing from elsewhere; light and dark; prints in light
// colours. Well-formed XML as well as HTML. The same report gives the same bytes.
std::string ReportPage(const Report& report);

// A table of the page, for other programs and for papers.
struct ReportTable {
  struct Column {
    std::string title;
    bool number = true;  // aligned right
  };
  struct Cell {
    std::string shown;  // rounded, for people
    std::string exact;  // for programs
    bool loud = false;
  };
  std::string name;  // of its file: "audit"
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

// The tables whose parts the report has.
std::vector<ReportTable> ReportTables(const Report& report);
std::string TableCsv(const ReportTable& table);    // RFC 4180, exact numbers
std::string TableLatex(const ReportTable& table);  // booktabs, rounded numbers

inline constexpr const char* kReportFile = "report.html";

}  // namespace lucid
