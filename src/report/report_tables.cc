#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/csv.h"
#include "lucid/report/report.h"
#include "report/markup.h"

namespace lucid {
namespace {

using Cell = ReportTable::Cell;

Cell Text(std::string_view text) { return {std::string(text), std::string(text)}; }
Cell Count(std::int64_t value) { return {Grouped(value), fmt::format("{}", value)}; }

// `digits` after the point for people; the whole double for programs. NaN: does not apply.
Cell Number(double value, int digits) {
  if (std::isnan(value)) return {"-", ""};
  if (std::isinf(value)) return {"\u221e", "inf"};
  return {fmt::format("{:.{}f}", value, digits), fmt::format("{}", value)};
}
Cell Figures(double value, int significant) {
  if (!std::isfinite(value)) return Number(value, 0);
  return {fmt::format("{:.{}g}", value, significant), fmt::format("{}", value)};
}
// A share of 1, in percent for people.
Cell Share(double value) {
  if (std::isnan(value)) return {"-", ""};
  return {fmt::format("{:.2f} %", 100 * value), fmt::format("{}", value)};
}
Cell Duration(double us) {
  const std::string exact = fmt::format("{}", us);
  if (us < 1000) return {fmt::format("{:.1f} \u00b5s", us), exact};
  if (us < 1e6) return {fmt::format("{:.2f} ms", us / 1e3), exact};
  return {fmt::format("{:.2f} s", us / 1e6), exact};
}
Cell Loud(Cell cell) {
  cell.loud = true;
  return cell;
}

const std::string& ClassName(const Report& report, std::int32_t label) {
  return report.manifest.schema.label().categories[static_cast<std::size_t>(label)];
}

ReportTable CertificateTable(const Report& report) {
  ReportTable table{.name = "certificate",
                    .columns = {{"class", false},
                                {"\u03b2 at most"},
                                {"\u03b2 at least"},
                                {"gap"},
                                {"status", false},
                                {"seconds"},
                                {"seen without row"}},
                    .rows = {}};
  for (const ClassBound& bound : report.certificate->classes) {
    table.rows.push_back({Text(ClassName(report, bound.label)), Loud(Figures(bound.beta_upper, 6)),
                          Figures(bound.beta_lower, 6), Share(bound.Gap()),
                          Text(NameOf(bound.status)), Figures(bound.seconds, 3),
                          bound.witness ? Cell{fmt::format("{}", bound.witness->row),
                                               fmt::format("{}", bound.witness->row)}
                                        : Cell{"-", ""}});
  }
  return table;
}

ReportTable EvaluationTable(const Report& report) {
  ReportTable table{.name = "evaluation",
                    .columns = {{"promise", false},
                                {"method", false},
                                {"\u03b5 per answer"},
                                {"(E, \u03b4) for all"},
                                {"accuracy"},
                                {"\u00b1"},
                                {"drop"},
                                {"noised"},
                                {"access p50"},
                                {"access p99"},
                                {"guarantee", false}},
                    .rows = {}};
  for (const EvaluationRow& row : report.evaluation->rows) {
    const std::string total =
        std::isfinite(row.total_epsilon)
            ? fmt::format("({:g}, {:.2g})", row.total_epsilon, row.total_delta)
            : std::string("-");
    table.rows.push_back({Text(row.promise), Text(NameOf(row.method)),
                          Figures(row.answer_epsilon, 4), Text(total), Share(row.accuracy),
                          Share(row.standard_error), Share(row.accuracy_drop),
                          Share(row.noised_fraction), Duration(row.access_us_p50),
                          Duration(row.access_us_p99), Text(row.guarantee)});
  }
  return table;
}

ReportTable NoisedTable(const Report& report) {
  ReportTable table{
      .name = "noised", .columns = {{"label of N", false}, {"test rows"}}, .rows = {}};
  const TestPoints& points = *report.test_points;
  for (std::size_t g = 0; g < points.guards.size(); ++g) {
    if (points.guards[g]) {
      table.columns.push_back({fmt::format("noised by {}", NameOf(kGuardKinds[g]))});
      table.columns.push_back({"share"});
    }
  }
  const auto add = [&](std::string_view name, const auto& belongs) {
    const auto rows = std::ranges::count_if(points.points, belongs);
    table.rows.push_back({Text(name), Count(rows)});
    for (std::size_t g = 0; g < points.guards.size(); ++g) {
      if (!points.guards[g]) continue;
      const auto noised = std::ranges::count_if(
          points.points, [&](const TestPoint& point) { return belongs(point) && point.noised[g]; });
      table.rows.back().push_back(Count(noised));
      table.rows.back().push_back(
          {Percent(noised, rows),
           rows == 0 ? ""
                     : fmt::format("{}", static_cast<double>(noised) / static_cast<double>(rows))});
    }
  };
  for (const ClassBound& bound : report.certificate->classes) {
    add(ClassName(report, bound.label),
        [&](const TestPoint& point) { return point.label == bound.label; });
  }
  add("all", [](const TestPoint&) { return true; });
  return table;
}

ReportTable RowsTable(const Report& report) {
  ReportTable table{.name = "rows",
                    .columns = {{"row left out", false},
                                {"its class", false},
                                {"test rows that change"},
                                {"share"},
                                {"leaks at most up to confidence"}},
                    .rows = {}};
  const RowsThatMatter& matters = *report.rows_that_matter;
  if (report.leak) table.columns.push_back({"share of the plane"});
  for (const RowMatters& row : matters.rows) {
    const auto share = static_cast<double>(row.test_rows) / static_cast<double>(matters.test_rows);
    table.rows.push_back({Text(fmt::format("{}", row.row)),
                          Text(ClassName(report, row.label)),
                          Count(row.test_rows),
                          {Percent(row.test_rows, matters.test_rows), fmt::format("{}", share)},
                          Figures(row.upper, 4)});
    if (!report.leak) continue;
    const std::int64_t points = report.leak->points();
    table.rows.back().push_back(
        {Percent(row.grid_points, points),
         fmt::format("{}", static_cast<double>(row.grid_points) / static_cast<double>(points))});
  }
  return table;
}

// The theorem's game, and time. Accesses that it cannot be played with (trained baselines, a server
// elsewhere) have only others.
std::vector<AuditRow> RowsThatClaimsAreAbout(const Audit& audit) {
  const auto has_theorem = [&](const std::string& access) {
    return std::ranges::any_of(audit.rows, [&](const AuditRow& row) {
      return row.access == access && row.world == World::kLeaveOneOut;
    });
  };
  std::vector<AuditRow> rows;
  std::ranges::copy_if(audit.rows, std::back_inserter(rows), [&](const AuditRow& row) {
    return !row.world || *row.world == World::kLeaveOneOut || !has_theorem(row.access);
  });
  return rows;
}

// Every access at every epsilon: what the best attack got.
ReportTable AuditSummary(const Report& report) {
  ReportTable table{.name = "audit_summary",
                    .columns = {{"access", false},
                                {"\u03b5"},
                                {"attacks"},
                                {"largest advantage"},
                                {"by", false},
                                {"\u03b5 is at least"},
                                {"claims that hold"}},
                    .rows = {}};
  const std::vector<AuditRow> rows = RowsThatClaimsAreAbout(*report.audit);
  // Rows of one access at one epsilon stand together; NaN is not equal to itself.
  const auto same = [](const AuditRow& a, const AuditRow& b) {
    return a.access == b.access &&
           (a.epsilon == b.epsilon || (std::isnan(a.epsilon) && std::isnan(b.epsilon)));
  };
  for (auto first = rows.begin(); first != rows.end();) {
    const auto end =
        std::find_if_not(first, rows.end(), [&](const AuditRow& row) { return same(*first, row); });
    const auto best = std::max_element(
        first, end, [](const AuditRow& a, const AuditRow& b) { return a.advantage < b.advantage; });
    double lower = 0;
    std::int64_t claims = 0, held = 0;
    for (auto row = first; row != end; ++row) {
      if (row->epsilon_lower > lower) lower = row->epsilon_lower;
      if (std::isnan(row->claimed)) continue;
      ++claims;
      held += row->holds;
    }
    const std::string kept =
        claims == 0 ? "nothing claimed" : fmt::format("{} of {}", held, claims);
    table.rows.push_back({Text(first->access), Figures(first->epsilon, 4), Count(end - first),
                          Number(best->advantage, 3), Text(NameOf(best->attack)), Number(lower, 3),
                          Cell{kept, kept, held < claims}});
    first = end;
  }
  return table;
}

ReportTable AuditTable(const Report& report) {
  ReportTable table{.name = "audit",
                    .columns = {{"attack", false},
                                {"access", false},
                                {"world", false},
                                {"\u03b5"},
                                {"queries"},
                                {"AUC"},
                                {"adv."},
                                {"\u03b5 \u2265"},
                                {"claim"},
                                {"Welch t"},
                                {"verdict", false}},
                    .rows = {}};
  for (const AuditRow& row : report.audit->rows) {
    const bool claims = !std::isnan(row.claimed);
    Cell verdict = Text(row.not_covered() ? "not covered"
                        : !claims         ? "-"
                        : row.holds       ? "holds"
                                          : "does not hold");
    verdict.loud = (claims && !row.holds) || row.lost();
    table.rows.push_back({Text(NameOf(row.attack)), Text(row.access),
                          Text(row.world ? NameOf(*row.world) : "-"), Figures(row.epsilon, 4),
                          Count(row.queries), Number(row.auc, 3), Number(row.advantage, 3),
                          Number(row.epsilon_lower, 3), Figures(row.claimed, 4),
                          Number(row.welch_t, 1), std::move(verdict)});
  }
  return table;
}

std::string LatexText(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kSpelled[] = {
      {"\\", "\\textbackslash{}"}, {"~", "\\textasciitilde{}"}, {"^", "\\textasciicircum{}"},
      {"\u03b2", "$\\beta$"},      {"\u2265", "$\\geq$"},       {"\u03b5", "$\\varepsilon$"},
      {"\u221e", "$\\infty$"},     {"\u00b5", "$\\mu$"}};
  std::string out;
  while (!text.empty()) {
    const auto found = std::ranges::find_if(
        kSpelled, [&](const auto& pair) { return text.starts_with(pair.first); });
    if (found != std::end(kSpelled)) {
      out += found->second;
      text.remove_prefix(found->first.size());
      continue;
    }
    if (std::string_view("&%$#_{}").find(text.front()) != std::string_view::npos) out += '\\';
    // A line break would end the row of the table.
    out += text.front() == '\n' || text.front() == '\r' ? ' ' : text.front();
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace

std::vector<ReportTable> ReportTables(const Report& report) {
  std::vector<ReportTable> tables;
  if (report.certificate) tables.push_back(CertificateTable(report));
  if (report.evaluation) tables.push_back(EvaluationTable(report));
  if (report.test_points) tables.push_back(NoisedTable(report));
  if (report.rows_that_matter) tables.push_back(RowsTable(report));
  if (report.audit) tables.push_back(AuditSummary(report));
  if (report.audit) tables.push_back(AuditTable(report));
  return tables;
}

std::string TableCsv(const ReportTable& table) {
  std::vector<std::string_view> cells;
  for (const auto& column : table.columns) cells.push_back(column.title);
  std::string csv;
  AppendCsvRecord(csv, cells);
  for (const auto& row : table.rows) {
    cells.clear();
    for (const Cell& cell : row) cells.push_back(cell.exact);
    AppendCsvRecord(csv, cells);
  }
  return csv;
}

std::string TableLatex(const ReportTable& table) {
  std::string align;
  std::vector<std::string> cells;
  for (const auto& column : table.columns) {
    align += column.number ? 'r' : 'l';
    cells.push_back(LatexText(column.title));
  }
  std::string latex = fmt::format("\\begin{{tabular}}{{{}}}\n\\toprule\n{} \\\\\n\\midrule\n",
                                  align, fmt::join(cells, " & "));
  for (const auto& row : table.rows) {
    cells.clear();
    for (const Cell& cell : row) cells.push_back(LatexText(cell.shown));
    latex += fmt::format("{} \\\\\n", fmt::join(cells, " & "));
  }
  return latex + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace lucid
