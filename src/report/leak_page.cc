#include "lucid/report/leak_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "lucid/base/version.h"
#include "report/leak_svg.h"
#include "report/markup.h"

namespace lucid {
namespace {

constexpr std::string_view kLightVariables =
    "--page:#f4f6f8;--card:#ffffff;--line:#d9dee5;--text:#1c2430;--quiet:#5b6675;--loud:#b3145e;"
    "--note:#fff8e6;--note-line:#e2b34a";
constexpr std::string_view kDarkVariables =
    "--page:#0d1117;--card:#161b22;--line:#2d3643;--text:#e8ecf1;--quiet:#9aa7b6;--loud:#ff79b4;"
    "--note:#2a2412;--note-line:#8a6a1c";

constexpr std::string_view kRules = R"(
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.6 system-ui,-apple-system,
"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:1024px;margin:0 auto;padding:40px 24px 64px}
h1{font-size:32px;line-height:1.2;margin:0 0 12px;letter-spacing:-0.01em}
h2{font-size:20px;line-height:1.3;margin:44px 0 12px}
p{margin:0 0 12px;max-width:76ch}
.lede{font-size:18px}
.quiet,figcaption{color:var(--quiet);font-size:15px;max-width:100ch}
figure{margin:28px 0 0}
figure svg{display:block;width:100%;height:auto}
figcaption,.scroll+.quiet{margin-top:12px}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:10px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:15px}
th,td{padding:9px 14px;text-align:right;border-top:1px solid var(--line);vertical-align:top}
thead th{border-top:0;color:var(--quiet);font-weight:600;vertical-align:bottom;line-height:1.35}
th:first-child,td:first-child{text-align:left}
tbody th{font-weight:600}
td{white-space:nowrap}
td.leak{color:var(--loud);font-weight:650}
table.facts td{text-align:left;white-space:normal;overflow-wrap:anywhere}
table.facts th{width:260px;font-weight:500;color:var(--quiet);text-align:left}
table.facts tr:first-child>*{border-top:0}
code{font:13.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.note{background:var(--note);border-left:4px solid var(--note-line);border-radius:6px;
padding:14px 18px;margin:14px 0}
.note :last-child{margin-bottom:0}
ul{margin:0;padding-left:20px;max-width:80ch}
li{margin:4px 0}
footer{margin-top:48px;color:var(--quiet);font-size:14px}
@media print{
body{background:#fff;font-size:11pt}
main{max-width:none;padding:0}
h1{font-size:22pt}h2{font-size:14pt;margin-top:22pt}.lede{font-size:12pt}
figure,tr,.note{break-inside:avoid}h2{break-after:avoid}
table,code{font-size:9.5pt}th,td{padding:5pt 7pt}
}
)";

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

class Page {
 public:
  Page(const LeakMap& map, const Dataset& dataset, const Manifest& manifest)
      : map_(map), dataset_(dataset), manifest_(manifest) {}

  std::string Write() {
    Head();
    Opening();
    Figure();
    Classes();
    Rows();
    NotYet();
    Provenance();
    Add("<footer>Written by LUCID {}. This page needs nothing but itself.</footer>\n",
        EscapedMarkup(Version()));
    out_ += "</main>\n</body>\n</html>\n";
    return std::move(out_);
  }

 private:
  template <typename... T>
  void Add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(values)...);
  }

  void Head() {
    // Dark rules are for screens only: paper is light.
    Add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
        "<title>LUCID: where labels leak training rows</title>\n<style>\n"
        ":root{{{}}}\n{}@media screen and (prefers-color-scheme:dark){{\n:root{{{}}}\n{}}}{}"
        "</style>\n</head>\n<body>\n<main>\n",
        kLightVariables, LeakSvgStyle(Shade::kLight), kDarkVariables, LeakSvgStyle(Shade::kDark),
        kRules);
  }

  void Opening() {
    Add("<h1>A label can give away a training row</h1>\n"
        "<p class=\"lede\">Nobody sees the weights of this classifier, only the labels it answers. "
        "That does not protect the {} rows it was trained on: near the decision boundary the label "
        "depends on single rows. Someone who knows the other rows and asks for such an input "
        "learns "
        "whether that one row was used. In this run <strong>{}</strong> of all inputs leak a row "
        "in "
        "this way",
        Grouped(map_.rows), Percent(map_.leaking(), map_.points()));
    if (map_.test_rows > 0) {
      Add(", and {} of {} test rows", Grouped(map_.test_leaking), Grouped(map_.test_rows));
    }
    Add(".</p>\n");
    if (manifest_.partial) {
      Add("<div class=\"note\"><p><strong>Partial run.</strong> Only {} of the {} leave-one-out "
          "networks were trained. The true numbers can only be larger.</p></div>\n",
          Grouped(map_.members), Grouped(map_.rows));
    }
  }

  void Figure() {
    Add("<figure>\n{}<figcaption>Background: the label of N, the network trained on all rows; dots "
        "are training rows{}. At every input in the loud band at least one of the {} leave-one-out "
        "networks answers another label than N. On the right the part of the square with most of "
        "them, "
        "enlarged. Seen on a grid of {} &#215; {} inputs; lines are interpolated between its "
        "points.</figcaption>\n</figure>\n",
        LeakSvgElement(map_, dataset_, ""), map_.rows > kMostDots ? " (a sample)" : "",
        Grouped(map_.members), map_.grid, map_.grid);
  }

  void Classes() {
    Add("<h2>By the label N gives</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>label</th>"
        "<th>grid points</th><th>leak</th><th>test rows that leak</th>"
        "<th>&#946; is at least</th><th>rows that matter</th>"
        "<th>strongest row</th><th>changes alone</th></tr></thead>\n<tbody>\n");
    for (const ClassLeak& leak : map_.classes) {
      Add("<tr><th>{}</th><td>{}</td><td class=\"leak\">{}</td><td>{}</td><td>{}</td><td>{}</td>"
          "<td>{}</td><td>{}</td></tr>\n",
          EscapedMarkup(Shortened(leak.name, 60)), Grouped(leak.points),
          Percent(leak.leaking, leak.points),
          leak.test_rows > 0
              ? fmt::format("{} of {}", Grouped(leak.test_leaking), Grouped(leak.test_rows))
              : "-",
          leak.witness ? fmt::format("{:.4g}", leak.beta_lower) : "-",
          Grouped(leak.rows_that_matter),
          leak.strongest_row >= 0 ? fmt::format("{}", leak.strongest_row) : "-",
          leak.strongest_row >= 0 ? Percent(leak.strongest_points, leak.points) : "-");
    }
    Add("</tbody></table></div>\n"
        "<p class=\"quiet\">&#946; is the largest confidence of N (its "
        "output for the label minus the next largest output) at any input that leaks; the guard of "
        "the paper adds noise up to there. A grid finds a <em>lower bound</em> only: between its "
        "points N may be more confident and leak all the same. Rounding errors are accounted for. "
        "A row matters if leaving it out alone changes the label of a grid point.</p>\n");
  }

  void Rows() {
    if (map_.drawn.empty()) return;
    Add("<h2>The rows that move the boundary most</h2>\n<div class=\"scroll\"><table>\n<thead><tr>"
        "<th>row left out</th><th>its label</th>");
    for (const std::string& name : dataset_.schema.feature_names()) {
      Add("<th>{}</th>", EscapedMarkup(Shortened(name, 40)));
    }
    Add("<th>grid points that change</th><th>share</th></tr></thead>\n<tbody>\n");
    for (std::size_t k = 0; k < map_.drawn.size(); ++k) {
      const RowInfluence& influence = map_.influences[k];
      const auto x = dataset_.train.row(influence.row);
      const std::int32_t label = dataset_.train.y[static_cast<std::size_t>(influence.row)];
      Add("<tr><th>{}</th><td>{}</td><td>{:.4f}</td><td>{:.4f}</td><td>{}</td><td>{}</td></tr>\n",
          influence.row,
          EscapedMarkup(Shortened(map_.classes[static_cast<std::size_t>(label)].name, 60)), x[0],
          x[1], Grouped(influence.points), Percent(influence.points, map_.points()));
    }
    Add("</tbody></table></div>\n<p class=\"quiet\">Rows are counted from "
        "0, the first one after the heading of the training file.</p>\n");
  }

  void NotYet() {
    Add("<h2>What this page does not show yet</h2>\n<div class=\"note\"><p>There is <strong>no "
        "certificate and no guard</strong> here. The page shows the problem, not the protection: "
        "labels of this run are not private.</p></div>\n<ul>\n"
        "<li>No upper bound: inputs between the grid points were not looked at, so nothing on this "
        "page says that an input is safe.</li>\n"
        "<li>No noise is added anywhere, and the cost of privacy in accuracy is not "
        "measured.</li>\n"
        "<li>No attack was run: that the label differs is shown, not how easily someone finds such "
        "an input.</li>\n</ul>\n");
  }

  void Fact(std::string_view name, std::string_view value, bool code = false) {
    const std::string text = EscapedMarkup(value);
    Add("<tr><th>{}</th><td>{}</td></tr>\n", name, code ? "<code>" + text + "</code>" : text);
  }

  void Provenance() {
    Add("<h2>Where it comes from</h2>\n<div class=\"scroll\"><table class=\"facts\">\n<tbody>\n");
    Fact("data",
         fmt::format("{}: {} training rows, {} test rows, {} classes", manifest_.data_directory,
                     Grouped(map_.rows), Grouped(map_.test_rows), map_.classes.size()));
    Fact("networks", fmt::format("{} of {} parameters each, {}", Grouped(map_.members + 1),
                                 Grouped(manifest_.architecture.parameters()),
                                 manifest_.architecture.Canonical()));
    Fact("training", TrainingForPeople(manifest_.training));
    std::string accuracy =
        fmt::format("{:.2f} % of the training rows", 100 * manifest_.train_accuracy);
    if (std::isfinite(manifest_.test_accuracy)) {
      accuracy += fmt::format(", {:.2f} % of the test rows", 100 * manifest_.test_accuracy);
    }
    Fact("accuracy of N", accuracy);
    Fact("command", fmt::format("{}", fmt::join(manifest_.command, " ")), true);
    Fact("trained by", fmt::format("LUCID {}, {}, {}", manifest_.version, manifest_.build,
                                   manifest_.instruction_set));
    Fact("page by", fmt::format("LUCID {}, {}", Version(), BuildInfo()));
    Fact("SHA-256: run key", manifest_.run_key.Hex(), true);
    Fact("SHA-256: schema", manifest_.schema_digest.Hex(), true);
    Fact("SHA-256: training rows", manifest_.train_digest.Hex(), true);
    Fact("SHA-256: test rows", manifest_.test_digest.Hex(), true);
    Fact("SHA-256: network.safetensors", manifest_.network_digest.Hex(), true);
    Fact("SHA-256: ensemble.safetensors", manifest_.ensemble_digest.Hex(), true);
    Add("</tbody></table></div>\n");
  }

  const LeakMap& map_;
  const Dataset& dataset_;
  const Manifest& manifest_;
  std::string out_;
};

}  // namespace

std::string LeakPage(const LeakMap& map, const Dataset& dataset, const Manifest& manifest) {
  return Page(map, dataset, manifest).Write();
}

}  // namespace lucid
