// The charts of a report. Each is one or more <svg> elements.
#pragma once

#include <string>

#include "lucid/report/report.h"

namespace lucid {

// Rules that colour the charts, from variables that ReportColours sets.
std::string ChartRules();
std::string ChartColours(bool dark);

// Accuracy against epsilon: all methods, and those near the accuracy of N enlarged.
std::string AccuracyCharts(const Evaluation& evaluation);
std::string AccuracyLegend(const Evaluation& evaluation);

// The paper's Figure 6: the confidence of every test row against beta, by the label of N.
std::string ConfidenceChart(const Report& report);

// The bounds of every class over time.
std::string BoundCharts(const Report& report);

}  // namespace lucid
