#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "lucid/base/version.h"
#include "lucid/promise/promise.h"
#include "lucid/report/report.h"
#include "report/leak_svg.h"
#include "report/markup.h"
#include "report/page_style.h"
#include "report/promise_section.h"
#include "report/report_charts.h"

namespace lucid {
namespace {

constexpr std::size_t kShownRows = 12;  // of the rows that matter; the CSV has all

// "0x1.999999999999ap-4" as "0.1": the manifest's exact spelling, for people.
std::string TrainingForPeople(const std::string& canonical) {
  std::string text;
  for (std::size_t at = 0; at < canonical.size();) {
    const std::size_t end = std::min(canonical.find(' ', at), canonical.size());
    std::string word = canonical.substr(at, end - at);
    const std::size_t value = word.find("=0x");
    if (value != std::string::npos) {
      word = fmt::format("{}={}", word.substr(0, value),
                         std::strtod(word.c_str() + value + 1, nullptr));
    }
    text += (text.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return text;
}

std::string ShareText(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string Key(std::string_view colour, std::string_view text) {
  return fmt::format("<span class=\"key\"><i style=\"background:var(--{})\"></i>{}</span>", colour,
                     text);
}

class Page {
 public:
  explicit Page(const Report& report) : report_(report), tables_(ReportTables(report)) {}

  std::string Write() {
    Head();
    Opening();
    if (report_.beside) Add("{}", PromisesSection(report_));
    Certified();
    Cost();
    Confidence();
    Plane();
    OverTime();
    Members();
    Attacks();
    Provenance();
    Add("<footer>Written by LUCID {}. This page needs nothing but itself.</footer>\n",
        EscapedMarkup(Version()));
    out_ += "</main>\n</body>\n</html>\n";
    return std::move(out_);
  }

 private:
  template <typename... T>
  void Add(fmt::format_string<T...> format, T&&... values) {
    out_ += fmt::format(format, std::forward<T>(values)...);
  }

  void Heading(std::string_view title) { Add("<h2>{}</h2>\n", title); }
  // Of a section that says something about single rows, or from which it can be computed.
  void SecretHeading(std::string_view title) {
    Add("<h2>{} <span class=\"secret\">do not publish</span></h2>\n", title);
  }

  // One line in the place of a section: why there is nothing, and which command makes it.
  void Missing(std::string_view why) {
    const std::size_t command = why.rfind("lucid ");
    if (command == std::string_view::npos) {
      Add("<p class=\"missing\">{}.</p>\n", EscapedMarkup(why));
      return;
    }
    Add("<p class=\"missing\">{}<code>{}</code></p>\n", EscapedMarkup(why.substr(0, command)),
        EscapedMarkup(why.substr(command)));
  }

  void Table(std::string_view name, std::size_t most = std::string::npos) {
    const ReportTable& table = *std::ranges::find(tables_, name, &ReportTable::name);
    Add("<div class=\"scroll\"><table>\n<thead><tr>");
    for (const auto& column : table.columns) {
      Add("<th{}>{}</th>", column.number ? "" : " class=\"l\"", EscapedMarkup(column.title));
    }
    Add("</tr></thead>\n<tbody>\n");
    for (std::size_t r = 0; r < std::min(most, table.rows.size()); ++r) {
      Add("<tr>");
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const ReportTable::Cell& cell = table.rows[r][c];
        const std::string style =
            fmt::format("{}{}", table.columns[c].number ? "" : "l", cell.loud ? " loud" : "");
        const char* tag = c == 0 ? "th" : "td";
        Add("<{}{}>{}</{}>", tag, style.empty() ? "" : " class=\"" + style + "\"",
            EscapedMarkup(Shortened(cell.shown, 60)), tag);
      }
      Add("</tr>\n");
    }
    Add("</tbody></table></div>\n");
  }

  void Head() {
    // The policy keeps the page from loading or running anything, whatever names the data holds.
    Add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'unsafe-inline'\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
        "<title>LUCID report: {}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n",
        EscapedMarkup(RunName()), PageStyle());
  }

  std::string RunName() const {
    const std::filesystem::path path = std::filesystem::path(report_.run).lexically_normal();
    const std::filesystem::path folder = path.has_filename() ? path : path.parent_path();
    return Shortened((folder.parent_path().filename() / folder.filename()).string(), 60);
  }

  void Opening() {
    const Manifest& manifest = report_.manifest;
    Add("<h1>LUCID report: {}</h1>\n<p class=\"lede\">A classifier of {} parameters, trained on {} "
        "rows, that answers labels and nothing else. A label can still give a training row away: "
        "where leaving out that one row changes it. This page says where that can happen, what "
        "it costs to prevent it, and whether attacks get through.</p>\n",
        EscapedMarkup(RunName()), Grouped(manifest.architecture.parameters()),
        Grouped(manifest.rows));
    if (manifest.partial) {
      Add("<div class=\"note\"><p><strong>Partial run.</strong> Only {} of the {} rows have a "
          "leave-one-out network. Nothing is said about the others: do not serve it.</p></div>\n",
          Grouped(manifest.members), Grouped(manifest.units));
    }
    Promises();
    Figures();
    Served();
  }

  // The guard that clients meet, and the one that is advised.
  void Served() {
    const bool declared = HasDeclaredAccess(report_.manifest);
    if (!declared && !report_.certificate) return;
    const GuardKind advised = AdvisedGuard();
    const std::string run = EscapedMarkup(report_.run);
    Add("<p class=\"quiet\"><code>lucid serve {}</code> answers through the scalar guard{}", run,
        declared ? " and the declared bounds" : "");
    if (advised == GuardKind::kScalar) {
      Add(", which is the one to serve.</p>\n");
    } else {
      Add("; the one to serve is {0}: <code>lucid serve {1} --guard {0}{2}</code></p>\n",
          NameOf(advised), run, advised == GuardKind::kExact ? " --latency-floor 20ms" : "");
    }
  }

  // As evaluated; without an evaluation the finest one that the certificate names.
  GuardKind AdvisedGuard() const {
    if (const EvaluationRow* row = AdvisedRow()) return *GuardOf(row->method);
    const bool index = report_.certificate && report_.certificate->index_digest;
    return index && !HasDeclaredAccess(report_.manifest) ? GuardKind::kExact : GuardKind::kScalar;
  }

  // The guard that noises fewest test rows at the strongest epsilon, of equals the simplest. Only
  // the scalar one serves declared bounds.
  const EvaluationRow* AdvisedRow() const {
    const EvaluationRow* best = nullptr;
    if (!report_.evaluation) return best;
    for (const EvaluationRow& row : report_.evaluation->rows) {
      if (!GuardOf(row.method)) continue;
      if (HasDeclaredAccess(report_.manifest) && row.method != Method::kScalar) continue;
      if (best == nullptr || row.epsilon < best->epsilon ||
          (row.epsilon == best->epsilon && row.noised_fraction < best->noised_fraction)) {
        best = &row;
      }
    }
    return best;
  }

  // What the run keeps, in the words of lucid/promise/promise.h.
  void Promises() {
    const Promise promise =
        PromiseOf(report_.manifest, report_.certificate ? &*report_.certificate : nullptr);
    Add("<div class=\"note\"><p><strong>Promise: {}.</strong> This page is the operator's: what it "
        "shows is made from the training data and covered by no promise.</p>\n<ul>\n",
        EscapedMarkup(promise.Title()));
    for (const std::string& line : promise.Lines()) Add("<li>{}</li>\n", EscapedMarkup(line));
    Add("</ul>\n<p>Sections with the mark <span class=\"secret\">do not publish</span> hold "
        "bounds, "
        "single rows or what gives them away. What may be published is the privacy card: "
        "<code>lucid report {} --card</code></p></div>\n",
        EscapedMarkup(report_.run));
  }

  void Figure(std::string_view style, std::string_view number, std::string_view meaning) {
    Add("<div><b class=\"{}\">{}</b><span>{}</span></div>\n", style, EscapedMarkup(number),
        EscapedMarkup(meaning));
  }

  void Figures() {
    Add("<div class=\"figures\">\n");
    const Manifest& manifest = report_.manifest;
    const bool tested = std::isfinite(manifest.test_accuracy);
    Figure("", ShareText(tested ? manifest.test_accuracy : manifest.train_accuracy),
           tested ? "of the test rows get their label from N"
                  : "of the training rows get their label from N");
    if (const EvaluationRow* best = AdvisedRow()) {
      // Where N is wrong, noise is right now and then: the accuracy may even grow.
      const bool costs = best->accuracy_drop >= 0;
      Figure("", fmt::format("{:.2f} points", 100 * std::abs(best->accuracy_drop)),
             fmt::format("of accuracy {} at \u03b5 = {} ({} guard)",
                         costs ? "is what privacy costs" : "is gained, not lost,", best->epsilon,
                         NameOf(best->method)));
      Figure("", ShareText(best->noised_fraction),
             fmt::format("of the test rows get a noised answer ({} guard)", NameOf(best->method)));
    }
    if (report_.audit) AuditFigure(*report_.audit);
    Add("</div>\n");
  }

  void AuditFigure(const Audit& audit) {
    const auto claims = std::ranges::count_if(
        audit.rows, [](const AuditRow& row) { return !std::isnan(row.claimed); });
    const auto broken =
        std::ranges::count_if(audit.rows, [](const AuditRow& row) { return !row.holds; });
    const auto lost = std::ranges::count_if(audit.rows, &AuditRow::lost);
    if (lost > 0) {
      Figure("loud", fmt::format("{} lost", lost),
             "games against real services without a unit, which the promise labels does not cover");
    }
    Figure(broken == 0 ? "good" : "loud", fmt::format("{} of {}", claims - broken, claims),
           "claims of privacy hold against the attacks");
  }

  void Certified() {
    SecretHeading("What is certified");
    if (!report_.certificate) return Missing(report_.certificate.missing);
    const Certificate& certificate = *report_.certificate;
    Add("<p>&#946; is the largest confidence of N (its output for the label minus the next largest "
        "one) at which any of the {} leave-one-out networks gives any input {} another label. "
        "Above &#946; no label depends on a single row: that is proved. Below, a guard adds "
        "noise.</p>\n",
        Grouped(certificate.members),
        certificate.domain == DomainKind::kBox ? "of [0,1]<sup>d</sup>"
                                               : "that a record can encode to");
    Table("certificate");
    Add("<p class=\"quiet\">The upper end is proved, the lower end was seen at an input. Status "
        "<em>exact</em>: both meet; <em>gap</em>: the search ended by itself; <em>deadline</em>: "
        "stopped early, valid but looser than asked. Rounding errors of both networks are "
        "accounted for. Engine: {}; domain: {}; {} of {} rows have a member.</p>\n",
        NameOf(certificate.engine), NameOf(certificate.domain), Grouped(certificate.members),
        Grouped(certificate.rows));
    const std::string run = EscapedMarkup(report_.run);
    Add("<p class=\"quiet\">A second program with code of its own checks it: "
        "<code>lucid-check {0}/certificate.json --run {0}</code>, and proves it again from "
        "<code>lucid bound {0} --proof {0}/proof</code> with <code>lucid-check "
        "{0}/certificate.json --run {0} --proof {0}/proof --level proof</code></p>\n",
        run);
  }

  void Cost() {
    Heading("What privacy costs");
    if (!report_.evaluation) return Missing(report_.evaluation.missing);
    const Evaluation& evaluation = *report_.evaluation;
    Add("<p>Expected accuracy on {} test rows when every answer goes through the guard or "
        "baseline, "
        "with the mechanism <em>{}</em>. At &#949; = 0 a noised answer is uniform and any number "
        "of queries "
        "is free.</p>\n<div class=\"card\"><div class=\"pair\">\n{}</div>\n"
        "<p class=\"legend\">{}</p></div>\n",
        Grouped(evaluation.test_rows), EscapedMarkup(evaluation.mechanism),
        AccuracyCharts(evaluation), AccuracyLegend(evaluation));
    Add("<p class=\"quiet\">Left: all methods. Right: from the worst guard up. <em>none</em> is N "
        "without protection; <em>scalar</em>, <em>spatial</em> and <em>exact</em> are LUCID's "
        "guards; dpsgd and alibi train another network, and at &#949; = 0, which they cannot do, "
        "stand with the smallest they were given.</p>\n");
    Table("evaluation");
    for (const auto& [method, why] : evaluation.left_out) {
      Add("<p class=\"missing\">{} was left out: {}</p>\n", NameOf(method), EscapedMarkup(why));
    }
  }

  void Confidence() {
    SecretHeading("Confidence of every test row");
    if (!report_.test_points) return Missing(report_.test_points.missing);
    Add("<div class=\"card\"><div class=\"wide\">\n{}</div>\n<p "
        "class=\"legend\">{}{}{}{}</p></div>\n",
        ConfidenceChart(report_), Key("p-free", "answered as it is"),
        Key("c-scalar", "noised by the scalar guard only"),
        Key("c-spatial", "by the spatial guard, too"), Key("c-exact", "by every guard: it leaks"));
    Add("<p class=\"quiet\">A dot is a test row, at the confidence of N. The scalar guard noises "
        "all to the left of &#946;; the spatial guard has a bound for each part of the domain; "
        "the exact guard noises only where some leave-one-out network really gives another label. "
        "Of rows that no guard noises at most 4,000 a class are drawn.</p>\n");
    Table("noised");
    for (const std::string& why : report_.test_points->missing) Missing(why);
  }

  void Plane() {
    if (report_.manifest.schema.features() != 2) return;
    SecretHeading("The plane of inputs");
    if (!report_.leak) return Missing(report_.leak.missing);
    const LeakMap& map = *report_.leak;
    Add("<figure>\n<div class=\"wide\">{}</div><figcaption>Background: the label of N; dots are "
        "training rows{}. At every input in the loud band at least one of the {} leave-one-out "
        "networks answers another label than N. Seen on a grid of {} &#215; {} inputs; lines are "
        "interpolated between its points.</figcaption>\n</figure>\n",
        LeakSvgElement(map, *report_.dataset, ""), map.rows > kMostDots ? " (a sample)" : "",
        Grouped(map.members), map.grid, map.grid);
    Add("<h3>What each guard noises</h3>\n");
    if (!report_.regions) return Missing(report_.regions.missing);
    Add("<div class=\"card\"><div class=\"trio\">\n{}</div></div>\n"
        "<p class=\"quiet\">The same square. Violet: noised; its edge is where the confidence of N "
        "equals the bound. The loud band is what leaks, and is what the exact guard noises. Every "
        "guard covers the band everywhere: for the first two that is proved for all inputs, not "
        "only those of the grid.</p>\n",
        GuardPanels(map, *report_.dataset, *report_.regions));
  }

  void OverTime() {
    SecretHeading("Bounds over time");
    if (!report_.bound_steps) return Missing(report_.bound_steps.missing);
    Add("<div class=\"card\"><div class=\"pair\">\n{}</div>\n<p class=\"legend\">{}{}</p></div>\n"
        "<p class=\"quiet\">The search can be stopped at any moment: what it has proved until then "
        "holds, and guards may use it.</p>\n",
        BoundCharts(report_), Key("c-exact", "proved: &#946; is at most"),
        Key("c-dpsgd", "seen: &#946; is at least"));
  }

  void Members() {
    SecretHeading("Rows that matter most");
    if (!report_.rows_that_matter) return Missing(report_.rows_that_matter.missing);
    const RowsThatMatter& matters = *report_.rows_that_matter;
    const auto some = std::ranges::count_if(
        matters.rows, [](const RowMatters& row) { return row.test_rows > 0; });
    Add("<p>{} of {} rows, each left out alone, change the label of a test row.</p>\n",
        Grouped(some), Grouped(std::ssize(matters.rows)));
    Table("rows", kShownRows);
    Add("<p class=\"quiet\">Rows are counted from 0, the first one after the heading of the "
        "training file. The bound of the confidence is proved: where N is surer, leaving this row "
        "out changes no label. The first {} of {} are shown; "
        "<code>lucid report --csv DIR</code> writes all.</p>\n",
        std::min(kShownRows, matters.rows.size()), Grouped(std::ssize(matters.rows)));
  }

  void Attacks() {
    SecretHeading("Attacks");
    if (!report_.audit) return Missing(report_.audit.missing);
    Add("<p>For a training row a coin decides whether the access answers from N or from the "
        "network trained without the row; the attacker guesses which. From the guesses follows "
        "what &#949; is <em>at least</em>, wrong with a probability of at most {}. A claim that "
        "such a number exceeds is broken. &#949; is per query; of privately trained networks it is "
        "for all queries, and they are attacked with training rows against test rows.</p>\n",
        kAuditRisk);
    if (!report_.audit->Holds()) {
      Add("<div class=\"note\"><p><strong>A claim does not hold.</strong> See the rows in the loud "
          "colour.</p></div>\n");
    }
    if (!report_.beside) Add("{}", DeployedPicture({&report_}));
    Add("{}", ChecksTable(*report_.audit));
    Table("audit_summary");
    Add("<details><summary>All {} attacks</summary>\n", report_.audit->rows.size());
    Table("audit");
    Add("</details>\n");
    Add("<p class=\"quiet\">AUC 0.5 and advantage 0: no better than a coin. <em>timing</em> asks "
        "another question: is a noised input told from others by the time it takes (Welch's "
        "t)? Worlds: <em>leave-one-out</em> is the theorem's; <em>train-test</em> compares rows of "
        "the training set with others; <em>re-certified</em> estimates what is not promised: that "
        "a service certified without the row would have another noised region.</p>\n");
    for (const std::string& why : report_.audit->left_out) {
      Add("<p class=\"missing\">left out: {}</p>\n", EscapedMarkup(why));
    }
    for (const std::string& note : report_.audit->notes) {
      Add("<p class=\"quiet\">{}</p>\n", EscapedMarkup(note));
    }
  }

  void Fact(std::string_view name, std::string_view value, bool code = false) {
    const std::string text = EscapedMarkup(value);
    Add("<tr><th>{}</th><td>{}</td></tr>\n", name, code ? "<code>" + text + "</code>" : text);
  }
  void Command(std::string_view name, const std::vector<std::string>& words) {
    Fact(name, fmt::format("{}", fmt::join(words, " ")), true);
  }
  void Sha256(std::string_view name, const Digest& digest) {
    Add("<tr><th>SHA-256: {}</th><td><code>{}</code></td></tr>\n", name, digest.Hex());
  }

  void Provenance() {
    const Manifest& manifest = report_.manifest;
    Heading("Where it comes from");
    Add("<div class=\"scroll\"><table class=\"facts\">\n<tbody>\n");
    Fact("data", fmt::format("{}: {} training rows, {} classes", manifest.data_directory,
                             Grouped(manifest.rows), manifest.schema.classes()));
    Fact("networks", fmt::format("{} of {} parameters each, {}", Grouped(manifest.members + 1),
                                 Grouped(manifest.architecture.parameters()),
                                 manifest.architecture.Canonical()));
    Fact("training", TrainingForPeople(manifest.training));
    std::string accuracy = ShareText(manifest.train_accuracy) + " of the training rows";
    if (std::isfinite(manifest.test_accuracy)) {
      accuracy += ", " + ShareText(manifest.test_accuracy) + " of the test rows";
    }
    Fact("accuracy of N", accuracy);
    Command("trained with", manifest.command);
    if (report_.certificate) Command("bounded with", report_.certificate->command);
    if (report_.evaluation) Command("evaluated with", report_.evaluation->command);
    if (report_.audit) Command("attacked with", report_.audit->command);
    Fact("trained by",
         fmt::format("LUCID {}, {}, {}", manifest.version, manifest.build, NameOf(manifest.maker)));
    Fact("page by", fmt::format("LUCID {}, {}", Version(), BuildInfo()));
    Sha256("run key", manifest.run_key);
    Sha256("schema", manifest.schema_digest);
    Sha256("training rows", manifest.train_digest);
    Sha256("test rows", manifest.test_digest);
    Sha256("network.safetensors", manifest.network_digest);
    Sha256("ensemble.safetensors", manifest.ensemble_digest);
    if (report_.certificate && report_.certificate->spatial_digest) {
      Sha256(kSpatialFile, *report_.certificate->spatial_digest);
    }
    if (report_.certificate && report_.certificate->index_digest) {
      Sha256(kIndexFile, *report_.certificate->index_digest);
    }
    Add("</tbody></table></div>\n");
  }

  const Report& report_;
  const std::vector<ReportTable> tables_;
  std::string out_;
};

}  // namespace

std::string ReportPage(const Report& report) { return Page(report).Write(); }

}  // namespace lucid
