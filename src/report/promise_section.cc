#include "report/promise_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lucid/promise/promise.h"
#include "report/leak_svg.h"
#include "report/markup.h"

namespace lucid {
namespace {

Promise PromiseOfReport(const Report& report, bool scalar = true) {
  return PromiseOf(report.manifest, report.certificate ? &*report.certificate : nullptr,
                   {.scalar = scalar});
}

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// The most accurate row that this promise gives at epsilon 0, or nothing.
const EvaluationRow* BestOf(const Report& report, std::string_view promise) {
  const EvaluationRow* best = nullptr;
  if (!report.evaluation) return best;
  for (const EvaluationRow& row : report.evaluation->rows) {
    const bool fits = promise == "none"
                          ? row.method == Method::kNone
                          : GuardOf(row.method) && row.promise == promise && row.asked_epsilon == 0;
    if (fits && (best == nullptr || row.accuracy > best->accuracy)) best = &row;
  }
  return best;
}

std::string PriceRow(std::string_view promise, const EvaluationRow* row,
                     std::string_view not_covered) {
  if (row == nullptr) return "";
  const std::string total =
      std::isfinite(row->total_epsilon)
          ? fmt::format("({:g}, {:.2g}) once", row->total_epsilon, row->total_delta)
          : std::string("-");
  const std::string answer =
      std::isfinite(row->answer_epsilon) ? fmt::format("{:g}", row->answer_epsilon) : "-";
  return fmt::format(
      "<tr><th class=\"l\">{}</th><td class=\"l\">{}</td><td>{}</td><td>{}</td><td>{} &#177; "
      "{}</td><td>{}</td><td class=\"l\">{}</td></tr>\n",
      promise, NameOf(row->method), answer, total, Percent(row->accuracy),
      Percent(row->standard_error), Percent(row->noised_fraction), EscapedMarkup(not_covered));
}

std::string PriceList(const Report& plain, const Report& other) {
  const std::string name(PromiseOfReport(other).name());
  return "<div class=\"scroll\"><table>\n<thead><tr><th class=\"l\">promise</th><th "
         "class=\"l\">guard</th><th>&#949; per answer</th><th>(E, "
         "&#948;)</th><th>accuracy</th><th>noised</th><th class=\"l\">not "
         "covered</th></tr></thead>\n<tbody>\n" +
         PriceRow("none", BestOf(plain, "none"), "everything") +
         PriceRow("labels", BestOf(plain, "labels"), PromiseOfReport(plain, false).NotCovered()) +
         PriceRow(name, BestOf(other, name), PromiseOfReport(other).NotCovered()) +
         "</tbody></table></div>\n";
}

std::string Panels(const Report& plain, const Report& other) {
  if (!plain.leak || !other.leak || !other.declared) return "";
  const GuardRegion leaking = LeakingRegion(*plain.leak);
  return fmt::format(
      "<div class=\"card\"><div class=\"trio\">\n{}{}{}</div></div>\n<p class=\"quiet\">The "
      "square of all inputs; the colours are N's labels. The loud band is where leaving out one "
      "training row changes the label. Left: nobody is protected. Middle: the exact guard answers "
      "with a coin exactly there (violet), so labels tell nothing as long as this set is held "
      "fixed. Right: another network, trained with noise, so that the violet set itself tells "
      "next to nothing of a row; its width was declared before anything was "
      "trained.</p>\n",
      NoisedPanel(*plain.leak, *plain.dataset, "promise-none", "No guard", nullptr),
      NoisedPanel(*plain.leak, *plain.dataset, "promise-labels", "Promise labels, exact guard,",
                  &leaking),
      NoisedPanel(*other.leak, *other.dataset, "promise-full",
                  fmt::format("Promise {}, private training,", PromiseOfReport(other).name()),
                  &*other.declared));
}

// The strongest attack on each guard in this world.
std::vector<const AuditRow*> StrongestDeployed(const Audit& audit) {
  std::vector<const AuditRow*> strongest;
  for (const AuditRow& row : audit.rows) {
    if (row.world != World::kDeployed || row.epsilon != 0) continue;
    const auto same = std::ranges::find_if(
        strongest, [&](const AuditRow* other) { return other->access == row.access; });
    if (same == strongest.end()) {
      strongest.push_back(&row);
    } else if (row.auc > (*same)->auc) {
      *same = &row;
    }
  }
  return strongest;
}

std::string Bar(const AuditRow& row) {
  const bool claimed = !std::isnan(row.claimed);
  const std::string words =
      claimed ? fmt::format("<strong>full</strong>, E = {:g}, {} guard", row.claimed, row.access)
              : fmt::format("<strong>labels</strong>, {} guard", row.access);
  const double right = std::clamp(row.auc, 0.0, 1.0);
  std::string marks = "<u style=\"left:50%\"></u>";
  // The largest share of right guesses that (E, 0) allows.
  if (claimed) {
    marks += fmt::format("<u style=\"left:{:.1f}%\"></u>", 100 / (1 + std::exp(-row.claimed)));
  }
  return fmt::format(
      "<span>{}<br/>{} games, attack {}</span><div class=\"bar\"><i{} "
      "style=\"width:{:.1f}%\"></i>{}<b>{}, {}</b></div>\n",
      words, row.trials, NameOf(row.attack), row.lost() || !row.holds ? " class=\"loud\"" : "",
      100 * right, marks, Percent(right),
      !claimed ? (row.lost() ? "told apart: not covered" : "not covered")
               : (row.holds ? "holds" : "DOES NOT HOLD"));
}

}  // namespace

std::string DeployedPicture(const std::vector<const Report*>& reports) {
  std::string bars;
  for (const Report* report : reports) {
    if (!report->audit) continue;
    for (const AuditRow* row : StrongestDeployed(*report->audit)) bars += Bar(*row);
  }
  if (bars.empty()) return "";
  return fmt::format(
      "<h3>The game of two services</h3>\n<p>Two services are really made: one from the data, one "
      "from the data without one row. The attacker, who knows all other rows and how services are "
      "made, asks one of them and says which one it is. A bar is how often he is right, as the "
      "AUC of his scores; the dashed line at 50 % is a coin. The second dashed line is the most "
      "that the promise allows.</p>\n<div class=\"card\"><div class=\"game\">\n{}</div></div>\n"
      "<p class=\"quiet\">Loud: he tells the services apart. The promise <em>labels</em> holds the "
      "noised set fixed and says nothing about this game; the promise <em>full</em> is about "
      "it.</p>\n",
      bars);
}

std::string ChecksTable(const Audit& audit) {
  if (audit.checks.empty()) return "";
  std::string rows;
  for (const AuditCheck& check : audit.checks) {
    rows += fmt::format(
        "<tr><th class=\"l\">{}</th><td class=\"l{}\">{}</td><td class=\"l\" "
        "style=\"white-space:normal\">{}: {}</td></tr>\n",
        EscapedMarkup(check.check), check.holds ? "" : " loud",
        check.holds ? "holds" : "does not hold", EscapedMarkup(check.claim),
        EscapedMarkup(check.measured));
  }
  return "<h3>What private training rests on, computed again</h3>\n<div "
         "class=\"scroll\"><table>\n<thead><tr><th class=\"l\">check</th><th "
         "class=\"l\">verdict</th><th class=\"l\">claim and figure</th></tr></thead>\n<tbody>\n" +
         rows + "</tbody></table></div>\n";
}

std::string PromisesSection(const Report& report) {
  const Report& other = *report.beside;
  std::string lines;
  for (const std::string& line : PromiseOfReport(other).Lines()) {
    lines += fmt::format("<li>{}</li>\n", EscapedMarkup(line));
  }
  return fmt::format(
             "<h2>Two promises, side by side</h2>\n<p>A guard can hide labels, or a training can "
             "hide people. The run of this page keeps the promise <em>{}</em>; the run "
             "<code>{}</code> on the same data was trained privately and keeps <em>{}</em>:</p>\n"
             "<ul>\n{}</ul>\n",
             EscapedMarkup(PromiseOfReport(report).Title()), EscapedMarkup(other.run),
             EscapedMarkup(PromiseOfReport(other).Title()), lines) +
         Panels(report, other) + "<h3>What each costs</h3>\n" + PriceList(report, other) +
         DeployedPicture({&report, &other}) + (other.audit ? ChecksTable(*other.audit) : "");
}

}  // namespace lucid
