#include "lucid/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lucid/baselines/naive_idp.h"
#include "lucid/certificate/guards_digest.h"
#include "lucid/guard/member_index.h"
#include "lucid/native/bound.h"
#include "report/markup_check.h"
#include "report/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using testing::Not;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ReportOptions Small() {
  ReportOptions options;
  options.leak.grid = 21;
  options.threads = 1;
  return options;
}

Report Gather(const std::string& folder) {
  Result<Report> report = GatherReport(folder + "/run", Small());
  EXPECT_TRUE(report.ok()) << report.error().message;
  return std::move(report).value();
}

void Write(const std::string& path, const std::string& text) {
  ASSERT_TRUE(WriteFileAtomically(path, text).ok());
}

// What `lucid bound` leaves.
Certificate Certify(const SmallRun& run, const std::string& folder) {
  NativeBoundOptions options;
  options.common.threads = 1;
  std::vector<BoundStep> steps;
  options.common.trace = [&](std::int32_t label, double seconds, double lower, double upper) {
    steps.push_back({label, seconds, lower, upper});
  };
  Certificate certificate = ComputeBounds(run.ensemble, options).value();
  for (const ClassBound& bound : certificate.classes) {
    steps.push_back({bound.label, bound.seconds, bound.beta_lower, bound.beta_upper});
  }
  Write(folder + "/bounds.csv", EncodeBoundSteps(steps));
  const auto members = BoundMembers(run.ensemble, certificate.member_error, 1).value();
  const auto index =
      MemberIndex::Build(run.ensemble, members.upper, certificate.member_error, 1).value();
  EXPECT_TRUE(index.Save(folder + "/index.safetensors").ok());
  certificate.index_digest = index.digest();
  const std::string spatial =
      ComputeSpatialBounds(run.ensemble, certificate, members, run.dataset.train.x,
                           {.leaves = 16, .time_limit = 5, .threads = 1})
          .value()
          .bytes;
  Write(folder + "/spatial.lucid", spatial);
  certificate.spatial_digest = Sha256Of(spatial);
  EXPECT_TRUE(SaveCertificate(certificate, folder + "/certificate.json").ok());
  return certificate;
}

Evaluation SomeEvaluation(const Manifest& manifest, const std::string& run) {
  Evaluation evaluation;
  evaluation.guards_digest = GuardsDigestOf(run, "").value();
  evaluation.run_key = manifest.run_key;
  evaluation.mechanism = "paper";
  evaluation.test_rows = 1234;
  evaluation.command = {"lucid", "evaluate", "<i>"};
  const auto add = [&](Method method, double epsilon, double accuracy) {
    EvaluationRow row;
    row.method = method;
    row.epsilon = row.asked_epsilon = epsilon;
    row.accuracy = accuracy;
    row.accuracy_drop = 0.9625 - accuracy;
    row.noised_fraction = method == Method::kExact ? 0.0321 : 0.1234;
    row.access_us_p50 = 4321.5;
    evaluation.rows.push_back(row);
  };
  add(Method::kNone, kNan, 0.9625);
  add(Method::kScalar, 0, 0.8125);
  add(Method::kScalar, 1, 0.8375);
  add(Method::kExact, 0, 0.9375);
  add(Method::kNaiveNoise, 0, 0.5);
  evaluation.left_out = {{Method::kDpSgd, "<b>no</b> training rows"}};
  return evaluation;
}

Audit SomeAudit(const Manifest& manifest, const std::string& run) {
  Audit audit;
  audit.guards_digest = GuardsDigestOf(run, "").value();
  audit.run_key = manifest.run_key;
  AuditRow row;
  row.attack = AuditAttack::kDistinguisher;
  row.access = "scalar";
  row.world = World::kLeaveOneOut;
  row.epsilon = 1;
  row.queries = 1;
  row.auc = 0.625;
  row.epsilon_lower = 0.375;
  row.claimed = 1;
  row.welch_t = kNan;
  audit.rows = {row};
  return audit;
}

// A run with everything that commands leave in its folder.
SmallRun WholeRun(const std::string& folder) {
  SmallRun run = SyntheticRun(folder);
  Certify(run, folder + "/run");
  Write(folder + "/run/evaluation.json",
        EvaluationJson(SomeEvaluation(run.ensemble.manifest(), folder + "/run")));
  Write(folder + "/run/audit.json", AuditJson(SomeAudit(run.ensemble.manifest(), folder + "/run")));
  return run;
}

const ReportTable& TableOf(const std::vector<ReportTable>& tables, std::string_view name) {
  return *std::ranges::find(tables, name, &ReportTable::name);
}

TEST(Report, SaysWhichCommandMakesWhatIsMissing) {
  const std::string folder = ScratchFolder();
  SyntheticRun(folder);
  const Report report = Gather(folder);
  EXPECT_TRUE(report.leak);
  for (const bool there : {bool(report.certificate), bool(report.evaluation), bool(report.audit),
                           bool(report.test_points), bool(report.rows_that_matter),
                           bool(report.regions), bool(report.bound_steps)}) {
    EXPECT_FALSE(there);
  }
  EXPECT_TRUE(ReportTables(report).empty());
  const std::string page = ReportPage(report);
  EXPECT_EQ(Problem(page), "");
  for (const char* command : {"lucid bound ", "lucid evaluate ", "lucid audit "}) {
    EXPECT_THAT(page, HasSubstr(std::string("<code>") + command + folder + "/run</code>"));
  }
}

TEST(Report, AWholePageIsWellFormedAndSelfContained) {
  const std::string folder = ScratchFolder();
  WholeRun(folder);
  const Report report = Gather(folder);
  const std::string page = ReportPage(report);
  EXPECT_EQ(Problem(page), "");
  for (const char* unwanted : {"src=", "href=", "@import", "<script", "nan", "NaN",
                               "lucid bound "
                               "run: "}) {
    EXPECT_THAT(page, Not(HasSubstr(unwanted)));
  }
  for (const char* wanted :
       {"What is certified", "What privacy costs", "Confidence of every test row",
        "The plane of inputs", "What each guard noises", "Bounds over time",
        "Rows that matter most", "Attacks", "Where it comes from", "prefers-color-scheme:dark",
        "default-src 'none'"}) {
    EXPECT_THAT(page, HasSubstr(wanted));
  }
  EXPECT_THAT(page, Not(HasSubstr("<p class=\"missing\"><code>")));
  EXPECT_THAT(page, Not(HasSubstr("Partial run")));
  EXPECT_THAT(page, HasSubstr(report.manifest.ensemble_digest.Hex()));
  EXPECT_EQ(page, ReportPage(report));
}

TEST(Report, ShowsTheNumbersOfTheFiles) {
  const std::string folder = ScratchFolder();
  const SmallRun run = WholeRun(folder);
  const Report report = Gather(folder);
  const auto tables = ReportTables(report);
  ASSERT_EQ(tables.size(), 6u);
  const Certificate certificate = LoadCertificate(folder + "/run/certificate.json").value();
  for (std::size_t c = 0; c < 2; ++c) {
    const auto& row = TableOf(tables, "certificate").rows[c];
    EXPECT_EQ(std::stod(row[1].exact), certificate.classes[c].beta_upper);
    EXPECT_EQ(std::stod(row[2].exact), certificate.classes[c].beta_lower);
  }
  const auto& scalar = TableOf(tables, "evaluation").rows[1];
  EXPECT_EQ(scalar[1].exact, "scalar");
  EXPECT_EQ(scalar[4].exact, "0.8125");
  EXPECT_EQ(scalar[4].shown, "81.25 %");
  EXPECT_EQ(scalar[8].shown, "4.32 ms");
  EXPECT_EQ(TableOf(tables, "audit").rows[0][7].exact, "0.375");
  EXPECT_EQ(TableOf(tables, "audit").rows[0][10].shown, "holds");
  const std::string page = ReportPage(report);
  for (const char* number : {"81.25 %", "0.375", "1 of 1", "2.50 points", "1,234"}) {
    EXPECT_THAT(page, HasSubstr(number));
  }
}

// The guards' own answers, and the members', against running everything.
TEST(Report, TestRowsAndRowsThatMatterEqualBruteForce) {
  const std::string folder = ScratchFolder();
  const SmallRun run = WholeRun(folder);
  const Report report = Gather(folder);
  const Table& test = run.dataset.test;
  const auto decisions = NaiveIdp::Create(run.ensemble, 1).value().DecideAll(test, 1).value();
  const auto& points = report.test_points->points;
  ASSERT_EQ(points.size(), decisions.size());
  EXPECT_EQ(report.test_points->guards, (NoisedByGuard{true, true, true}));
  std::int64_t noised = 0;
  for (std::size_t k = 0; k < points.size(); ++k) {
    EXPECT_EQ(points[k].label, decisions[k].label);
    EXPECT_EQ(points[k].noised[2], decisions[k].noised);
    EXPECT_LE(points[k].noised[2], points[k].noised[1]);
    EXPECT_LE(points[k].noised[1], points[k].noised[0]);
    noised += points[k].noised[2];
  }
  EXPECT_GT(noised, 0) << "the test shows nothing";

  const Evaluator network(run.ensemble.network());
  ASSERT_EQ(std::ssize(report.rows_that_matter->rows), run.ensemble.members());
  for (const RowMatters& row : report.rows_that_matter->rows) {
    const Evaluator member(run.ensemble.Member(row.row));  // every row has one, in order
    std::int64_t changed = 0;
    for (std::int64_t k = 0; k < test.rows(); ++k) {
      const Decision decision = network.Decide(test.row(k));
      if (member.Decide(test.row(k)).label == decision.label) continue;
      ++changed;
      EXPECT_LE(decision.confidence - report.certificate->network_error, row.upper);
    }
    EXPECT_EQ(row.test_rows, changed) << row.row;
  }
}

TEST(Report, HostileNamesStayText) {
  const std::string folder = ScratchFolder();
  const SmallRun run = HostileRun(folder);
  Certify(run, folder + "/run");
  Write(folder + "/run/evaluation.json",
        EvaluationJson(SomeEvaluation(run.ensemble.manifest(), folder + "/run")));
  const Report report = Gather(folder);
  const std::string page = ReportPage(report);
  EXPECT_EQ(Problem(page), "");
  for (const char* unwanted : {"<script", "a<i>b", "<b>no</b>", "evaluate <i>"}) {
    EXPECT_THAT(page, Not(HasSubstr(unwanted)));
  }
  EXPECT_THAT(page, HasSubstr("a&lt;i&gt;b"));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;no&lt;/b&gt;"));
  EXPECT_THAT(page, HasSubstr("the data set has no test rows"));
}

TEST(Report, WarnsOfAPartialRunAndOfABrokenClaim) {
  const std::string folder = ScratchFolder();
  const SmallRun run = SyntheticRun(folder, 5);
  Audit audit = SomeAudit(run.ensemble.manifest(), folder + "/run");
  audit.rows[0].holds = false;
  Write(folder + "/run/audit.json", AuditJson(audit));
  const std::string page = ReportPage(Gather(folder));
  EXPECT_THAT(page, HasSubstr("Partial run"));
  EXPECT_THAT(page, HasSubstr("A claim does not hold"));
  EXPECT_THAT(page, HasSubstr("0 of 1"));
  EXPECT_THAT(page, HasSubstr("<td class=\"l loud\">does not hold</td>"));
}

TEST(Report, RefusesFilesOfAnotherRunAndDamagedOnes) {
  const std::string folder = ScratchFolder();
  const SmallRun run = WholeRun(folder);
  Evaluation other = SomeEvaluation(run.ensemble.manifest(), folder + "/run");
  other.run_key = Sha256Of("another");
  Write(folder + "/run/evaluation.json", EvaluationJson(other));
  EXPECT_EQ(GatherReport(folder + "/run", Small()).error().kind, ErrorKind::kMismatch);
  Write(folder + "/run/evaluation.json", "{}");
  EXPECT_EQ(GatherReport(folder + "/run", Small()).error().kind, ErrorKind::kInvalidInput);
  std::filesystem::remove(folder + "/run/evaluation.json");
  Write(folder + "/run/spatial.lucid", "LUCID");
  EXPECT_FALSE(GatherReport(folder + "/run", Small()).ok());
}

// What was measured through guards of other bounds is not mixed with these.
TEST(Report, AnEvaluationAndAnAuditOfAnOlderCertificateAreNotShown) {
  const std::string folder = ScratchFolder();
  WholeRun(folder);
  EXPECT_TRUE(Gather(folder).evaluation);
  EXPECT_TRUE(Gather(folder).audit);
  const std::string path = folder + "/run/certificate.json";
  Certificate certificate = LoadCertificate(path).value();
  // Written anew, with the same bounds: the same service.
  certificate.seconds += 1;
  certificate.command = {"again"};
  ASSERT_TRUE(SaveCertificate(certificate, path).ok());
  EXPECT_TRUE(Gather(folder).evaluation);
  EXPECT_TRUE(Gather(folder).audit);
  certificate.classes[1].beta_upper *= 2;
  ASSERT_TRUE(SaveCertificate(certificate, path).ok());
  const Report report = Gather(folder);
  EXPECT_FALSE(report.evaluation);
  EXPECT_FALSE(report.audit);
  const std::string page = ReportPage(report);
  EXPECT_EQ(Problem(page), "");
  EXPECT_THAT(page, HasSubstr("evaluation.json&#39; was not measured with the bounds of this"));
  EXPECT_THAT(page, HasSubstr("<code>lucid evaluate " + folder + "/run</code>"));
  EXPECT_THAT(page, HasSubstr("<code>lucid audit " + folder + "/run</code>"));
  EXPECT_THAT(page, Not(HasSubstr("81.25 %")));
}

// Which guard is served, and what is nobody else's business.
TEST(Report, NamesTheGuardToServeAndMarksWhatMustNotBePublished) {
  const std::string folder = ScratchFolder();
  WholeRun(folder);
  const std::string page = ReportPage(Gather(folder));
  EXPECT_THAT(page, HasSubstr("answers through the scalar guard; the one to serve is exact: "
                              "<code>lucid serve " +
                              folder + "/run --guard exact --latency-floor 20ms</code>"));
  EXPECT_THAT(page, HasSubstr("(exact guard)"));
  EXPECT_THAT(page, HasSubstr("3.21 %"));
  const std::string mark = " <span class=\"secret\">do not publish</span></h2>";
  for (const char* secret : {"What is certified", "Bounds over time", "Rows that matter most",
                             "Confidence of every test row", "The plane of inputs", "Attacks"}) {
    EXPECT_THAT(page, HasSubstr("<h2>" + std::string(secret) + mark));
  }
  EXPECT_THAT(page, HasSubstr("<h2>What privacy costs</h2>"));
  EXPECT_THAT(page, HasSubstr("lucid report " + folder + "/run --card"));
}

TEST(Report, StepsOfAnotherSearchAreNotShown) {
  const std::string folder = ScratchFolder();
  WholeRun(folder);
  EXPECT_TRUE(Gather(folder).bound_steps);
  Write(folder + "/run/bounds.csv", "class,seconds,lower,upper\n0,1,0.5,123\n");
  const Report report = Gather(folder);
  EXPECT_FALSE(report.bound_steps);
  EXPECT_THAT(report.bound_steps.missing, HasSubstr("of another search"));
}

TEST(Report, StandsWithoutItsData) {
  const std::string folder = ScratchFolder();
  WholeRun(folder);
  std::filesystem::remove_all(folder + "/data");
  const Report report = Gather(folder);
  EXPECT_FALSE(report.dataset);
  EXPECT_FALSE(report.leak);
  EXPECT_TRUE(report.certificate);
  const std::string page = ReportPage(report);
  EXPECT_EQ(Problem(page), "");
  EXPECT_THAT(page, HasSubstr("no longer holds the data of this run"));
}

TEST(ReportTable, CsvAndLatexQuoteWhatTheyMust) {
  const ReportTable table{.name = "t",
                          .columns = {{"a,b", false}, {"\u03b2"}},
                          .rows = {{{"x & \"y\"_\\", "x,\"y\"", false}, {"\u221e", "inf", false}}}};
  EXPECT_EQ(TableCsv(table), "\"a,b\",\u03b2\n\"x,\"\"y\"\"\",inf\n");
  EXPECT_EQ(TableLatex(table),
            "\\begin{tabular}{lr}\n\\toprule\na,b & $\\beta$ \\\\\n\\midrule\n"
            "x \\& \"y\"\\_\\textbackslash{} & $\\infty$ \\\\\n\\bottomrule\n\\end{tabular}\n");
}

}  // namespace
}  // namespace lucid
