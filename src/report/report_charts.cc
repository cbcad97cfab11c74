#include "report/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/chart.h"
#include "report/markup.h"

namespace lucid {
namespace {

constexpr double kHalf = 480;  // the width of one of two charts side by side
constexpr double kWhole = 960;
constexpr double kBand = 132;               // the height of a class in the chart of confidences
constexpr std::int64_t kMostPoints = 4000;  // of a class that are drawn without being noised

std::string StyleOf(Method method) { return fmt::format("m-{}", NameOf(method)); }

double InPercent(double share) { return 100 * share; }

// The epsilons that were asked for, ascending: the columns of the chart.
std::vector<double> AskedEpsilons(const Evaluation& evaluation) {
  std::vector<double> asked;
  for (const EvaluationRow& row : evaluation.rows) {
    if (std::isnan(row.asked_epsilon) || std::ranges::count(asked, row.asked_epsilon)) continue;
    asked.push_back(row.asked_epsilon);
  }
  std::ranges::sort(asked);
  return asked;
}

// Epsilons are few and far apart: each has a place of its own, equally spaced.
Axis EpsilonAxis(const std::vector<double>& epsilons) {
  Axis axis;
  axis.label = "epsilon per query (of training for dpsgd and alibi)";
  axis.low = -0.35;
  axis.high = static_cast<double>(epsilons.size()) - 0.65;
  for (std::size_t k = 0; k < epsilons.size(); ++k) {
    axis.ticks.push_back({static_cast<double>(k), ShortNumber(epsilons[k])});
  }
  return axis;
}

std::string Hint(const EvaluationRow& row) {
  return fmt::format("{}, epsilon {}: accuracy {:.2f} %, {:.2f} % noised", NameOf(row.method),
                     std::isnan(row.epsilon) ? "none" : ShortNumber(row.epsilon),
                     InPercent(row.accuracy), InPercent(row.noised_fraction));
}

// Methods stand a little apart: guards and baselines often agree to the last digit.
double PlaceOf(const std::vector<double>& epsilons, const EvaluationRow& row) {
  const auto column = std::ranges::find(epsilons, row.asked_epsilon) - epsilons.begin();
  return static_cast<double>(column) + 0.035 * (static_cast<double>(row.method) - 4);
}

std::string AccuracyChart(const Evaluation& evaluation, std::string_view title, double lowest) {
  const std::vector<double> epsilons = AskedEpsilons(evaluation);
  std::vector<double> accuracies;
  for (const EvaluationRow& row : evaluation.rows) {
    if (InPercent(row.accuracy) >= lowest) accuracies.push_back(InPercent(row.accuracy));
  }
  Chart chart(title, kHalf, 330, EpsilonAxis(epsilons), AxisAround("test accuracy, %", accuracies));
  std::map<Method, std::vector<ChartPoint>> lines;
  for (const EvaluationRow& row : evaluation.rows) {
    if (InPercent(row.accuracy) < lowest) continue;
    if (row.method == Method::kNone) {
      chart.Horizontal(StyleOf(row.method) + " dashed", InPercent(row.accuracy));
      continue;
    }
    lines[row.method].push_back({PlaceOf(epsilons, row), InPercent(row.accuracy)});
  }
  for (auto& [method, points] : lines) {
    std::ranges::sort(points, {}, &ChartPoint::x);
    chart.Line(StyleOf(method), points);
  }
  for (const EvaluationRow& row : evaluation.rows) {
    if (row.method == Method::kNone || InPercent(row.accuracy) < lowest) continue;
    chart.Dot(StyleOf(row.method), {PlaceOf(epsilons, row), InPercent(row.accuracy)}, Hint(row));
  }
  return chart.Element();
}

std::string_view ClassName(const Report& report, std::int32_t label) {
  return report.manifest.schema.label().categories[static_cast<std::size_t>(label)];
}

// How a test row is drawn: by the finest guard that noises it.
constexpr std::string_view kPointStyles[] = {"p-free", "p-scalar", "p-spatial", "p-exact"};
std::size_t PointStyle(const TestPoint& point) {
  for (std::size_t g = std::size(kGuardKinds); g-- > 0;) {
    if (point.noised[g]) return g + 1;
  }
  return 0;
}

// A swarm: points of about the same confidence stand above one another, the middle first.
class Swarm {
 public:
  Swarm(double middle, double height) : middle_(middle), height_(height) {}

  void Add(double x, std::size_t style) {
    columns_[static_cast<int>(std::floor(x / kColumn))].push_back(style);
  }
  std::string Markup() const {
    std::string paths[std::size(kPointStyles)];
    for (const auto& [column, styles] : columns_) {
      auto ordered = styles;
      std::ranges::sort(ordered, std::ranges::greater{});  // noised ones in the middle
      const double gap = std::min(kColumn, height_ / static_cast<double>(ordered.size()));
      for (std::size_t k = 0; k < ordered.size(); ++k) {
        const double away = gap * static_cast<double>((k + 1) / 2) * (k % 2 == 1 ? -1 : 1);
        paths[ordered[k]] +=
            fmt::format("M{:.1f} {:.1f}h0", (column + 0.5) * kColumn, middle_ + away);
      }
    }
    std::string out;
    for (std::size_t s = 0; s < std::size(paths); ++s) {
      if (paths[s].empty()) continue;
      out += fmt::format("<path class=\"points {}\" d=\"{}\"/>\n", kPointStyles[s], paths[s]);
    }
    return out;
  }

 private:
  static constexpr double kColumn = 4;
  const double middle_, height_;
  std::map<int, std::vector<std::size_t>> columns_;
};

void DrawClass(const Report& report, const ClassBound& bound, double middle, Chart& chart) {
  const auto& points = report.test_points->points;
  const auto free = std::ranges::count_if(
      points, [&](const TestPoint& p) { return p.label == bound.label && PointStyle(p) == 0; });
  const std::int64_t step = (free + kMostPoints - 1) / kMostPoints;
  Swarm swarm(middle, kBand - 44);
  std::int64_t seen = 0;
  for (const TestPoint& point : points) {
    if (point.label != bound.label) continue;
    const std::size_t style = PointStyle(point);
    if (style == 0 && seen++ % step != 0) continue;
    swarm.Add(chart.X(point.confidence), style);
  }
  chart.Raw(swarm.Markup());
  const double top = middle - kBand / 2;
  chart.Text("name", chart.right(), top + 16, "end",
             fmt::format("N says {}", Shortened(ClassName(report, bound.label), 40)));
  if (!std::isfinite(bound.beta_upper)) {
    chart.Text("beta-text", chart.left() + 4, top + 16, "start", "no bound yet: all are noised");
    return;
  }
  const double x = chart.X(bound.beta_upper);
  chart.Raw(fmt::format("<path class=\"line beta\" d=\"M{:.1f} {:.1f}v{:.1f}\"/>\n", x, top + 6,
                        kBand - 10));
  chart.Text("beta-text", x + 6, top + 16, "start",
             fmt::format("\u03b2 = {:.4g}", bound.beta_upper));
}

}  // namespace

std::string ChartColours(bool dark) {
  return dark ? "--c-none:#9aa7b6;--c-scalar:#e0a63c;--c-spatial:#a58bff;--c-exact:#ff6aab;"
                "--c-naive-noise:#7f8a97;--c-naive-idp:#49c5b6;--c-dpsgd:#6fa8e0;--c-alibi:#c08457;"
                "--p-free:#4d5f78"
              : "--c-none:#5b6675;--c-scalar:#c07a00;--c-spatial:#6a45c9;--c-exact:#c9156a;"
                "--c-naive-noise:#8a94a1;--c-naive-idp:#0c8577;--c-dpsgd:#2f6fb5;--c-alibi:#8a5226;"
                "--p-free:#b4c0cf";
}

std::string ChartRules() {
  std::string rules =
      ".chart text{font-family:inherit;font-size:13px;fill:var(--text)}\n"
      ".chart .tick{font-size:12.5px;fill:var(--quiet)}\n"
      ".chart .name{font-weight:600}\n"
      ".chart .grid{stroke:var(--line);stroke-width:1}\n"
      ".chart .axis{stroke:var(--quiet);stroke-width:1;fill:none}\n"
      ".chart .line{fill:none;stroke-width:2;stroke-linejoin:round}\n"
      ".chart .dashed{stroke-dasharray:6 4}\n"
      ".chart .dot{stroke:var(--card);stroke-width:1.5}\n"
      ".chart .points{fill:none;stroke-width:3.4;stroke-linecap:round}\n"
      ".chart .beta{stroke:var(--text);stroke-width:1.6}\n"
      ".chart .beta-text{font-weight:600;paint-order:stroke;stroke:var(--card);stroke-width:4px}\n"
      ".chart .upper{stroke:var(--c-exact)}.chart .lower{stroke:var(--c-dpsgd)}\n"
      ".chart .band{fill:var(--c-spatial);fill-opacity:.12}\n"
      ".p-free{stroke:var(--p-free)}.p-scalar{stroke:var(--c-scalar)}"
      ".p-spatial{stroke:var(--c-spatial)}.p-exact{stroke:var(--c-exact)}\n";
  for (const Method method : AllMethods()) {
    rules += fmt::format(".line.m-{0}{{stroke:var(--c-{0})}}.dot.m-{0}{{fill:var(--c-{0})}}\n",
                         NameOf(method));
  }
  return rules;
}

std::string AccuracyCharts(const Evaluation& evaluation) {
  std::string charts = AccuracyChart(evaluation, "Accuracy against epsilon, all methods", 0);
  // What is within the reach of the guards, enlarged: their differences are small beside those to
  // the baselines.
  double lowest = 100;
  for (const EvaluationRow& row : evaluation.rows) {
    if (GuardOf(row.method)) lowest = std::min(lowest, InPercent(row.accuracy));
  }
  if (lowest < 100) {
    charts += AccuracyChart(evaluation, "Accuracy against epsilon, near the accuracy of N", lowest);
  }
  return charts;
}

std::string AccuracyLegend(const Evaluation& evaluation) {
  std::string legend;
  for (const Method method : AllMethods()) {
    if (std::ranges::find(evaluation.rows, method, &EvaluationRow::method) ==
        evaluation.rows.end()) {
      continue;
    }
    legend += fmt::format("<span class=\"key\"><i style=\"background:var(--c-{0})\"></i>{0}</span>",
                          NameOf(method));
  }
  return legend;
}

std::string ConfidenceChart(const Report& report) {
  std::vector<double> confidences;
  for (const TestPoint& point : report.test_points->points) {
    confidences.push_back(point.confidence);
  }
  const auto& classes = report.certificate->classes;
  for (const ClassBound& bound : classes) {
    if (std::isfinite(bound.beta_upper)) confidences.push_back(1.02 * bound.beta_upper);
  }
  const double height = kBand * static_cast<double>(classes.size()) + 64;
  Chart chart("Confidence of N at every test row, and the bound of its class", kWhole, height,
              AxisAround("confidence of N (square-root scale)", confidences, Scale::kSquareRoot),
              Axis{});
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const double middle = chart.top() + kBand * (static_cast<double>(c) + 0.5);
    if (c > 0) {
      chart.Raw(fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", chart.left(),
                            middle - kBand / 2, chart.right()));
    }
    DrawClass(report, classes[c], middle, chart);
  }
  return chart.Element();
}

std::string BoundCharts(const Report& report) {
  std::string charts;
  for (const ClassBound& bound : report.certificate->classes) {
    std::vector<ChartPoint> upper, lower;
    std::vector<double> times, values = {0};
    for (const BoundStep& step : *report.bound_steps) {
      if (step.label != bound.label) continue;
      times.push_back(step.seconds);
      lower.push_back({step.seconds, step.lower});
      values.push_back(step.lower);
      if (!std::isfinite(step.upper)) continue;
      upper.push_back({step.seconds, step.upper});
      values.push_back(step.upper);
    }
    if (upper.empty()) continue;
    // The certificate's own time is the end of the last level stretch.
    times.push_back(bound.seconds);
    upper.push_back({bound.seconds, upper.back().y});
    lower.push_back({bound.seconds, lower.back().y});
    const std::string name =
        fmt::format("N says {}", Shortened(ClassName(report, bound.label), 40));
    Chart chart("Bounds over time: " + name, kHalf, 280,
                AxisAround("seconds (logarithmic)", times, Scale::kLogarithmic),
                AxisAround("bounds of \u03b2", values));
    chart.Steps("lower", lower);
    chart.Steps("upper", upper);
    chart.Dot("m-exact", upper.back(),
              fmt::format("proved: at most {:.6g} after {:.3g} s", upper.back().y, bound.seconds));
    chart.Dot("m-dpsgd", lower.back(), fmt::format("seen: at least {:.6g}", lower.back().y));
    chart.Text("name", chart.right(), chart.top() + 12, "end", name);
    charts += chart.Element();
  }
  return charts;
}

}  // namespace lucid
