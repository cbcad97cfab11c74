#include "report/leak_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>

#include "lucid/report/leak_picture.h"
#include "report/contour.h"
#include "report/markup.h"

namespace lucid {
namespace {

constexpr double kWidth = 960, kHeight = 768;
constexpr double kPanelLeft = 642;
constexpr std::size_t kLegendClasses = 3;  // more do not fit above the enlarged part
constexpr double kTolerance = 0.02;        // of contours, in grid steps: well below a pixel

struct ClassColours {
  std::string_view region, dot;
};

struct Palette {
  std::string_view ground, frame, text, quiet, boundary, leak, member, strongest;
  double leak_opacity;
  std::array<ClassColours, kClassColours> classes;
};

// Classes are blue, amber, green, ...: apart for every kind of colour vision, and quiet; the leak
// is the only loud colour.
constexpr Palette kLight = {.ground = "#ffffff",
                            .frame = "#c6ccd4",
                            .text = "#1c2430",
                            .quiet = "#5b6675",
                            .boundary = "#111820",
                            .leak = "#d81b74",
                            .member = "#6a1b9a",
                            .strongest = "#6a1b9a",
                            .leak_opacity = 0.55,
                            .classes = {{{"#e3edf8", "#3b78b8"},
                                         {"#fbf0d9", "#b9791c"},
                                         {"#e2f2e6", "#3c8a55"},
                                         {"#ece7f6", "#7760b5"},
                                         {"#e0f1f2", "#2f8a90"},
                                         {"#f0ece6", "#7d6a55"}}}};
constexpr Palette kDark = {.ground = "#161b22",
                           .frame = "#3a4452",
                           .text = "#e8ecf1",
                           .quiet = "#9aa7b6",
                           .boundary = "#f4f7fa",
                           .leak = "#ff4f9d",
                           .member = "#d3a4ff",
                           .strongest = "#e3c4ff",
                           .leak_opacity = 0.6,
                           .classes = {{{"#1b2b40", "#6fa8e0"},
                                        {"#37301c", "#dba545"},
                                        {"#1c3325", "#6cbd86"},
                                        {"#2b2640", "#a694e0"},
                                        {"#1a3336", "#62bfc5"},
                                        {"#322d27", "#b8a48c"}}}};

// A square of the page that shows a square of the inputs, the first input to the right and the
// second one upward.
struct View {
  double left, top, size;  // on the page
  double x = 0, y = 0;     // the lower left corner of the inputs shown
  double span = 1;         // how much of each input is shown
  std::string_view clip_id;

  double PageX(double input) const { return left + size * (input - x) / span; }
  double PageY(double input) const { return top + size * (1 - (input - y) / span); }
  double bottom() const { return top + size; }
  bool Shows(std::span<const float> input) const {
    return input[0] >= x && input[0] <= x + span && input[1] >= y && input[1] <= y + span;
  }
};

constexpr View kWhole = {.left = 58, .top = 68, .size = 540, .clip_id = "lm-clip"};

// The part of the square with most leaking grid points.
View Enlarged(const LeakMap& map) {
  View view = {.left = kPanelLeft, .top = 328, .size = 280, .clip_id = "lm-clip-enlarged"};
  const std::int64_t n = map.grid, side = std::max<std::int64_t>(2, n / 5);
  // sums[j][i]: leaking points in the rows below j and the columns left of i.
  std::vector<std::int64_t> sums(static_cast<std::size_t>((n + 1) * (n + 1)));
  const auto at = [&](std::int64_t i, std::int64_t j) -> std::int64_t& {
    return sums[static_cast<std::size_t>(j * (n + 1) + i)];
  };
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      at(i + 1, j + 1) = at(i, j + 1) + at(i + 1, j) - at(i, j) +
                         (map.flips[static_cast<std::size_t>(j * n + i)] > 0);
    }
  }
  std::int64_t most = -1;
  for (std::int64_t j = 0; j + side <= n; ++j) {
    for (std::int64_t i = 0; i + side <= n; ++i) {
      const std::int64_t count =
          at(i + side, j + side) - at(i, j + side) - at(i + side, j) + at(i, j);
      if (count <= most) continue;
      most = count;
      view.x = map.Coordinate(i);
      view.y = map.Coordinate(j);
    }
  }
  view.span = map.Coordinate(side - 1);
  return view;
}

class Picture {
 public:
  Picture(const LeakMap& map, const Dataset& dataset)
      : map_(map), dataset_(dataset), enlarged_(Enlarged(map)) {}

  // One guard: what it noises, and within it what leaks.
  std::string DrawGuard(std::string_view name, std::string_view caption,
                        std::span<const double> noised, std::int64_t points) {
    const View view = {.left = 1, .top = 1, .size = 318, .clip_id = name};
    Add("<figure><svg class=\"lm\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 320 320\" "
        "role=\"img\" aria-label=\"What {} noises\">\n",
        caption);
    Add("<clipPath id=\"guard-{0}\"><rect x=\"{1}\" y=\"{1}\" width=\"{2}\" "
        "height=\"{2}\"/></clipPath>\n<g clip-path=\"url(#guard-{0})\">\n",
        name, view.left, view.size);
    Regions(view);
    Add("<path class=\"lm-noised\" fill-rule=\"evenodd\" d=\"{}\"/>\n",
        PathData(view, noised, ContourEnds::kClosed));
    Leak(view);
    Add("<path class=\"lm-boundary\" d=\"{}\"/>\n</g>\n", BoundaryData(view, map_.network));
    Square("lm-frame", view.left, view.top, view.size);
    Add("</svg>\n<figcaption><strong>{}</strong> noises {} of all inputs</figcaption></figure>\n",
        caption, Percent(points, map_.points()));
    return std::move(out_);
  }

  std::string Draw(const std::string& style) {
    Add("<svg class=\"lm\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" "
        "aria-labelledby=\"lm-title lm-desc\">\n",
        kWidth, kHeight);
    Describe();
    if (!style.empty()) Add("<style>\n{}</style>\n", style);
    Add("<rect class=\"lm-ground\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n",
        kWidth - 1, kHeight - 1);
    Heading();
    Plot(kWhole);
    Square("lm-lens", kWhole.PageX(enlarged_.x), kWhole.PageY(enlarged_.y + enlarged_.span),
           kWhole.size * enlarged_.span);
    Axes();
    Legend();
    Text("lm-quiet", enlarged_.left, enlarged_.top - 10, "enlarged");
    Plot(enlarged_);
    Numbers();
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <typename... T>
  void Add(fmt::format_string<T...> format, T&&... values) {
    out_ += fmt::format(format, std::forward<T>(values)...);
  }
  void Text(std::string_view style, double x, double y, std::string_view text) {
    Add("<text class=\"{}\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", style, x, y,
        EscapedMarkup(text));
  }

  void Square(std::string_view style, double x, double y, double size) {
    Add("<rect class=\"{0}\" x=\"{1:.1f}\" y=\"{2:.1f}\" width=\"{3:.1f}\" height=\"{3:.1f}\"/>\n",
        style, x, y, size);
  }

  void Plot(const View& view) {
    Add("<clipPath id=\"{0}\"><rect x=\"{1}\" y=\"{2}\" width=\"{3}\" "
        "height=\"{3}\"/></clipPath>\n",
        view.clip_id, view.left, view.top, view.size);
    Add("<g clip-path=\"url(#{})\">\n", view.clip_id);
    Regions(view);
    Leak(view);
    Dots(view);
    Boundaries(view);
    Add("</g>\n");
    RemovedRows(view);
    Square("lm-frame", view.left, view.top, view.size);
  }

  std::size_t points() const { return static_cast<std::size_t>(map_.points()); }
  std::span<const double> ClassField(const ConfidenceField& field, std::size_t c) const {
    return std::span(field.values).subspan(c * points(), points());
  }

  std::string PathData(const View& view, std::span<const double> values, ContourEnds ends) const {
    std::string path;
    const double step = 1 / static_cast<double>(map_.grid - 1);
    for (const Contour& contour : ZeroContours(values, map_.grid, ends)) {
      char command = 'M';
      for (const ContourPoint& p : Simplified(contour, kTolerance).points) {
        path +=
            fmt::format("{}{:.1f} {:.1f}", command, view.PageX(p.x * step), view.PageY(p.y * step));
        command = 'L';
      }
      if (contour.closed) path += 'Z';
    }
    return path;
  }

  // Where the label changes. Every boundary is one of a class other than the first.
  std::string BoundaryData(const View& view, const ConfidenceField& field) const {
    std::string path;
    for (std::size_t c = 1; c < map_.classes.size(); ++c) {
      path += PathData(view, ClassField(field, c), ContourEnds::kOpen);
    }
    return path;
  }

  void Describe() {
    Add("<title id=\"lm-title\">Where a single training row decides the label</title>\n");
    Add("<desc id=\"lm-desc\">The unit square coloured by the label of network N, its decision "
        "boundary, and in a loud colour the {} of inputs where a network trained without one of "
        "the "
        "rows gives another label.</desc>\n",
        Percent(map_.leaking(), map_.points()));
  }

  void Heading() {
    Text("lm-heading", kWhole.left, 34, "Where a single training row decides the label");
    Text("lm-quiet", kWhole.left, 54,
         fmt::format("One network on all {} rows, compared with {} networks that each lack one row",
                     Grouped(map_.rows), Grouped(map_.members)));
  }

  void Regions(const View& view) {
    Square("lm-region-0", view.left, view.top, view.size);
    for (std::size_t c = 1; c < map_.classes.size(); ++c) {
      Add("<path class=\"lm-region-{}\" fill-rule=\"evenodd\" d=\"{}\"/>\n", c % kClassColours,
          PathData(view, ClassField(map_.network, c), ContourEnds::kClosed));
    }
  }

  // A dot is a line of no length with round ends: a few bytes each.
  void Dots(const View& view) {
    const Table& train = dataset_.train;
    const std::int64_t step = (train.rows() + kMostDots - 1) / kMostDots;
    for (std::size_t c = 0; c < map_.classes.size(); ++c) {
      std::string path;
      for (std::int64_t i = 0; i < train.rows(); i += step) {
        const auto x = train.row(i);
        if (train.y[static_cast<std::size_t>(i)] != static_cast<std::int32_t>(c)) continue;
        if (!view.Shows(x)) continue;
        path += fmt::format("M{:.1f} {:.1f}h0", view.PageX(x[0]), view.PageY(x[1]));
      }
      if (path.empty()) continue;
      Add("<path class=\"lm-dots lm-dot-{}\" d=\"{}\"/>\n", c % kClassColours, path);
    }
  }

  // The margin jumps where N's label changes, but is negative on both sides there: the edge of the
  // leaking inputs, where it passes zero, is smooth.
  void Leak(const View& view) {
    std::vector<double> values(points());
    std::ranges::transform(map_.margin, values.begin(), std::negate{});
    Add("<path class=\"lm-leak\" fill-rule=\"evenodd\" d=\"{}\"/>\n",
        PathData(view, values, ContourEnds::kClosed));
  }

  void Boundaries(const View& view) {
    // Where everything is shown at once the many lines would hide the band they make up.
    const std::size_t lines =
        std::min<std::size_t>(map_.drawn.size(), view.span < 1 ? map_.drawn.size() : 1);
    for (std::size_t k = lines; k-- > 0;) {
      Add("<path class=\"{}\" d=\"{}\"/>\n", k == 0 ? "lm-strongest" : "lm-member",
          BoundaryData(view, map_.drawn[k]));
    }
    Add("<path class=\"lm-boundary\" d=\"{}\"/>\n", BoundaryData(view, map_.network));
  }

  void RemovedRows(const View& view) {
    for (std::size_t k = map_.drawn.size(); k-- > 0;) {
      const auto x = dataset_.train.row(map_.influences[k].row);
      if (!view.Shows(x)) continue;
      const double px = view.PageX(x[0]), py = view.PageY(x[1]);
      Add("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/>\n",
          k == 0 ? "lm-ring lm-ring-strongest" : "lm-ring", px, py, k == 0 ? 7 : 5);
      if (k != 0) continue;
      RowLabel(view, px, py, fmt::format("row {}", map_.influences[k].row));
    }
  }

  // Puts the text beside the ring at (px, py), below or above it: where it hides least of the band.
  void RowLabel(const View& view, double px, double py, const std::string& text) {
    constexpr double kHigh = 16;
    const double wide = 8.5 * static_cast<double>(text.size());
    const std::array<ContourPoint, 4> centres = {
        {{px + 13 + wide / 2, py}, {px - 13 - wide / 2, py}, {px, py + 20}, {px, py - 20}}};
    const auto hidden = [&](const ContourPoint& centre) {
      if (centre.x - wide / 2 < view.left || centre.x + wide / 2 > view.left + view.size ||
          centre.y - kHigh / 2 < view.top || centre.y + kHigh / 2 > view.bottom()) {
        return map_.points();
      }
      std::int64_t count = 0;
      for (std::int64_t j = 0; j < map_.grid; ++j) {
        if (std::abs(view.PageY(map_.Coordinate(j)) - centre.y) > kHigh / 2) continue;
        for (std::int64_t i = 0; i < map_.grid; ++i) {
          count += map_.flips[static_cast<std::size_t>(j * map_.grid + i)] > 0 &&
                   std::abs(view.PageX(map_.Coordinate(i)) - centre.x) <= wide / 2;
        }
      }
      return count;
    };
    const ContourPoint best = *std::ranges::min_element(centres, {}, hidden);
    Add("<text class=\"lm-row\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        best.x, best.y + 5, text);
  }

  void Axes() {
    const View& view = kWhole;
    for (const double t : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      Add("<path class=\"lm-frame\" d=\"M{0:.1f} {1:.1f}v5M{2:.1f} {3:.1f}h-5\"/>\n", view.PageX(t),
          view.bottom(), view.left, view.PageY(t));
      Add("<text class=\"lm-tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
          view.PageX(t), view.bottom() + 19, t);
      Add("<text class=\"lm-tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
          view.left - 9, view.PageY(t) + 4, t);
    }
    const std::vector<std::string> names = dataset_.schema.feature_names();
    Add("<text class=\"lm-quiet\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        view.PageX(0.5), view.bottom() + 36, EscapedMarkup(Shortened(names[0], 40)));
    Add("<text class=\"lm-quiet\" text-anchor=\"middle\" transform=\"translate(18 {:.1f}) "
        "rotate(-90)\">{}</text>\n",
        view.PageY(0.5), EscapedMarkup(Shortened(names[1], 40)));
  }

  // A sample of how something is drawn, and what it is.
  void LegendItem(double& y, std::string_view sample, std::string_view text) {
    Add("<g transform=\"translate({} {:.0f})\">{}</g>\n", kPanelLeft, y, sample);
    Text("lm-text", kPanelLeft + 42, y + 5, text);
    y += 27;
  }

  void Legend() {
    double y = kWhole.top + 12;
    const std::size_t shown = std::min<std::size_t>(map_.classes.size(), kLegendClasses);
    for (std::size_t c = 0; c < shown; ++c) {
      LegendItem(y,
                 fmt::format("<rect class=\"lm-region-{0} lm-swatch\" y=\"-9\" width=\"30\" "
                             "height=\"18\"/><path class=\"lm-dots lm-dot-{0}\" d=\"M15 0h0\"/>",
                             c),
                 fmt::format("N says {}", Shortened(map_.classes[c].name, 24)));
    }
    if (map_.classes.size() > shown) {
      LegendItem(y, "", fmt::format("and {} more classes", map_.classes.size() - shown));
    }
    LegendItem(y, "<path class=\"lm-boundary\" d=\"M0 0h30\"/>", "decision boundary of N");
    LegendItem(y, "<rect class=\"lm-leak\" y=\"-9\" width=\"30\" height=\"18\"/>",
               "inputs that leak a row");
    if (!map_.drawn.empty()) {
      LegendItem(y, "<path class=\"lm-strongest\" d=\"M0 0h30\"/>",
                 fmt::format("boundary without row {}", map_.influences[0].row));
    }
    if (map_.drawn.size() > 1) {
      LegendItem(y, "<path class=\"lm-member\" d=\"M0 0h30\"/>",
                 fmt::format("the {} that differ next most", map_.drawn.size() - 1));
    }
    if (!map_.drawn.empty()) {
      LegendItem(y, "<circle class=\"lm-ring\" cx=\"15\" r=\"5\"/>", "the rows these lack");
    }
  }

  void Numbers() {
    double x = kWhole.left;
    const auto number = [&](const std::string& value, std::string_view first,
                            std::string_view second) {
      Text("lm-number", x, 698, value);
      Text("lm-quiet", x, 721, first);
      Text("lm-quiet", x, 739, second);
      x += 292;
    };
    number(Percent(map_.leaking(), map_.points()), "of all inputs leak: their label",
           "depends on one training row");
    if (!map_.influences.empty()) {
      number(Percent(map_.influences[0].points, map_.points()), "of all inputs get another label",
             fmt::format("when only row {} is left out", map_.influences[0].row));
    }
    number(fmt::format("{} of {}", Grouped(static_cast<std::int64_t>(map_.influences.size())),
                       Grouped(map_.members)),
           "rows, each left out alone,", "change the label somewhere");
  }

  const LeakMap& map_;
  const Dataset& dataset_;
  const View enlarged_;
  std::string out_;
};

}  // namespace

std::string LeakSvgStyle(Shade shade) {
  const Palette& p = shade == Shade::kLight ? kLight : kDark;
  std::string style = fmt::format(
      ".lm text{{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;"
      "font-size:14px;fill:{text}}}\n"
      ".lm .lm-heading{{font-size:20px;font-weight:650}}\n"
      ".lm .lm-number{{font-size:30px;font-weight:650;font-variant-numeric:tabular-nums}}\n"
      ".lm .lm-quiet,.lm .lm-tick{{fill:{quiet}}}\n"
      ".lm .lm-tick{{font-size:12px}}\n"
      ".lm .lm-row{{font-weight:650;fill:{strongest};paint-order:stroke;stroke:{ground};"
      "stroke-width:4px;stroke-linejoin:round}}\n"
      ".lm-ground{{fill:{ground};stroke:{frame}}}\n"
      ".lm-frame,.lm-swatch{{stroke:{frame}}}\n"
      ".lm-frame,.lm-lens{{fill:none}}\n"
      ".lm-lens{{stroke:{quiet}}}\n"
      ".lm-dots{{fill:none;stroke-width:4.4;stroke-linecap:round}}\n"
      ".lm-leak{{fill:{leak};fill-opacity:{leak_opacity}}}\n"
      ".lm-noised{{fill:{member};fill-opacity:0.3;stroke:{member};stroke-width:1.2}}\n"
      ".lm-boundary,.lm-member,.lm-strongest{{fill:none;stroke-linejoin:round}}\n"
      ".lm-boundary{{stroke:{boundary};stroke-width:1.8}}\n"
      ".lm-member{{stroke:{member};stroke-width:0.9;stroke-opacity:0.75}}\n"
      ".lm-strongest{{stroke:{strongest};stroke-width:1.8;stroke-dasharray:6 4}}\n"
      ".lm-ring{{fill:none;stroke:{member};stroke-width:1.6}}\n"
      ".lm-ring-strongest{{stroke:{strongest};stroke-width:2.6}}\n",
      fmt::arg("text", p.text), fmt::arg("quiet", p.quiet), fmt::arg("ground", p.ground),
      fmt::arg("frame", p.frame), fmt::arg("leak", p.leak), fmt::arg("boundary", p.boundary),
      fmt::arg("member", p.member), fmt::arg("strongest", p.strongest),
      fmt::arg("leak_opacity", p.leak_opacity));
  for (int c = 0; c < kClassColours; ++c) {
    style += fmt::format(".lm-region-{0}{{fill:{1}}}\n.lm-dot-{0}{{stroke:{2}}}\n", c,
                         p.classes[static_cast<std::size_t>(c)].region,
                         p.classes[static_cast<std::size_t>(c)].dot);
  }
  return style;
}

std::string LeakSvgElement(const LeakMap& map, const Dataset& dataset, const std::string& style) {
  return Picture(map, dataset).Draw(style);
}

GuardRegion LeakingRegion(const LeakMap& map) {
  GuardRegion region;
  region.values.resize(map.margin.size());
  std::ranges::transform(map.margin, region.values.begin(), std::negate{});
  return region;
}

std::string NoisedPanel(const LeakMap& map, const Dataset& dataset, const std::string& id,
                        std::string_view caption, const GuardRegion* noised) {
  const std::vector<double> nowhere(map.margin.size(), -1.0);
  return Picture(map, dataset)
      .DrawGuard(id, caption, noised != nullptr ? noised->values : nowhere,
                 noised != nullptr ? noised->noised() : 0);
}

std::string GuardPanels(const LeakMap& map, const Dataset& dataset, const GuardRegions& regions) {
  std::string panels = NoisedPanel(map, dataset, "scalar", "scalar", &regions.scalar);
  if (regions.spatial) {
    panels += NoisedPanel(map, dataset, "spatial", "spatial", &*regions.spatial);
  }
  const GuardRegion leaking = LeakingRegion(map);
  return panels + Picture(map, dataset).DrawGuard("exact", "exact", leaking.values, map.leaking());
}

std::string LeakSvg(const LeakMap& map, const Dataset& dataset) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" +
         LeakSvgElement(map, dataset, LeakSvgStyle(Shade::kLight));
}

}  // namespace lucid
