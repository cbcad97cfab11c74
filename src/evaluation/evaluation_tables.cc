// An evaluation as text, CSV and LaTeX.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/csv.h"
#include "lucid/evaluation/evaluation.h"

namespace lucid {
namespace {

constexpr Method kMethods[] = {Method::kNone,  Method::kScalar,     Method::kSpatial,
                               Method::kExact, Method::kNaiveNoise, Method::kNaiveIdp,
                               Method::kDpSgd, Method::kAlibi};
constexpr std::string_view kNames[] = {"none",        "scalar",    "spatial", "exact",
                                       "naive-noise", "naive-idp", "dpsgd",   "alibi"};

std::string Microseconds(double us) {
  if (us < 1000) return fmt::format("{:.1f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1e3);
  return fmt::format("{:.2f} s", us / 1e6);
}

std::string Percent(double share) { return fmt::format("{:.2f}", 100 * share); }

std::string NumberOr(double value, std::string_view otherwise) {
  return std::isfinite(value) ? fmt::format("{}", value) : std::string(otherwise);
}

// The order of the tables.
constexpr std::string_view kPromises[] = {"none",       "labels",        "full",    "labels+full",
                                          "per answer", "whole network", "label-DP"};

std::string TotalPrice(const EvaluationRow& row) {
  if (!std::isfinite(row.total_epsilon)) return "-";
  return fmt::format("({:g}, {:.2g})", row.total_epsilon, row.total_delta);
}

bool Replaced(const EvaluationRow& row) {
  return std::isfinite(row.epsilon) && row.epsilon != row.asked_epsilon;
}

std::string Remark(const EvaluationRow& row) {
  std::string remark = row.guarantee;
  if (row.method == Method::kDpSgd) remark += fmt::format(", sigma {:.3g}", row.sigma);
  if (row.networks > 0) {
    remark += fmt::format(", {} network{}", row.networks, row.networks == 1 ? "" : "s");
    if (std::isfinite(row.accuracy_deviation)) {
      remark += fmt::format(" (+-{} %)", Percent(row.accuracy_deviation));
    }
    remark += fmt::format(" of {:.2g} s", row.training_seconds);
  }
  if (Replaced(row)) remark += fmt::format(", in the place of {}", row.asked_epsilon);
  return remark;
}

}  // namespace

std::string_view NameOf(Method method) { return kNames[static_cast<std::size_t>(method)]; }

Result<Method> MethodNamed(std::string_view name) {
  for (const Method method : kMethods) {
    if (NameOf(method) == name) return method;
  }
  return InvalidInput(fmt::format("unknown method '{}': use {}", name, fmt::join(kNames, ", ")));
}

std::span<const Method> AllMethods() { return kMethods; }

std::optional<GuardKind> GuardOf(Method method) {
  switch (method) {
    case Method::kScalar:
      return GuardKind::kScalar;
    case Method::kSpatial:
      return GuardKind::kSpatial;
    case Method::kExact:
      return GuardKind::kExact;
    default:
      return std::nullopt;
  }
}

bool IsTrained(Method method) { return method == Method::kDpSgd || method == Method::kAlibi; }

std::string EvaluationText(const Evaluation& e) {
  const auto line = [](const auto&... cells) {
    return fmt::format("{:<13} {:<11} {:>7} {:>14} {:>7} {:>5} {:>7} {:>8} {:>9} {:>9}  {}\n",
                       cells...);
  };
  std::string text = line("promise", "method", "eps/ans", "(E, delta) all", "acc %", "+-", "drop %",
                          "noised %", "p50", "p99", "guarantee");
  for (const std::string_view promise : kPromises) {
    for (const EvaluationRow& row : e.rows) {
      if (row.promise != promise) continue;
      text += line(row.promise, NameOf(row.method), NumberOr(row.answer_epsilon, "-"),
                   TotalPrice(row), Percent(row.accuracy), Percent(row.standard_error),
                   Percent(row.accuracy_drop), Percent(row.noised_fraction),
                   Microseconds(row.access_us_p50), Microseconds(row.access_us_p99), Remark(row));
    }
  }
  if (std::isfinite(e.majority_share)) {
    text += fmt::format("the most common class is right for {} % of the {} test rows\n",
                        Percent(e.majority_share), e.test_rows);
  }
  for (const std::string& advice : e.advice) text += advice + "\n";
  return text;
}

std::string EvaluationCsv(const Evaluation& e) {
  std::string csv =
      "method,epsilon,epsilon_asked,guarantee,accuracy,accuracy_drop,noised_fraction,"
      "sampled_accuracy,sampled_standard_error,access_us_p50,access_us_p99,networks,"
      "accuracy_deviation,training_seconds,sigma,delta,clip,promise,answer_epsilon,total_epsilon,"
      "total_delta,standard_error\n";
  for (const EvaluationRow& row : e.rows) {
    const std::string cells[] = {std::string(NameOf(row.method)),
                                 NumberOr(row.epsilon, ""),
                                 NumberOr(row.asked_epsilon, ""),
                                 row.guarantee,
                                 NumberOr(row.accuracy, ""),
                                 NumberOr(row.accuracy_drop, ""),
                                 NumberOr(row.noised_fraction, ""),
                                 NumberOr(row.sampled_accuracy, ""),
                                 NumberOr(row.sampled_standard_error, ""),
                                 NumberOr(row.access_us_p50, ""),
                                 NumberOr(row.access_us_p99, ""),
                                 row.networks > 0 ? fmt::format("{}", row.networks) : "",
                                 NumberOr(row.accuracy_deviation, ""),
                                 NumberOr(row.training_seconds, ""),
                                 NumberOr(row.sigma, ""),
                                 NumberOr(row.delta, ""),
                                 NumberOr(row.clip, ""),
                                 row.promise,
                                 NumberOr(row.answer_epsilon, ""),
                                 NumberOr(row.total_epsilon, ""),
                                 NumberOr(row.total_delta, ""),
                                 NumberOr(row.standard_error, "")};
    AppendCsvRecord(csv, std::vector<std::string_view>(std::begin(cells), std::end(cells)));
  }
  return csv;
}

// A line per method, an accuracy per epsilon: the form of the paper's tables.
std::string EvaluationLatex(const Evaluation& e) {
  std::vector<double> epsilons;
  std::vector<Method> methods;
  for (const EvaluationRow& row : e.rows) {
    if (!std::ranges::count(methods, row.method)) methods.push_back(row.method);
    if (std::isnan(row.epsilon) || std::ranges::count(epsilons, row.asked_epsilon)) continue;
    epsilons.push_back(row.asked_epsilon);
  }
  std::string latex = fmt::format("\\begin{{tabular}}{{l{}r}}\n\\toprule\nMethod",
                                  std::string(std::max<std::size_t>(epsilons.size(), 1), 'r'));
  for (const double epsilon : epsilons) latex += fmt::format(" & $\\varepsilon={}$", epsilon);
  if (epsilons.empty()) latex += " & Acc";
  latex += " & AT [$\\mu$s] \\\\\n\\midrule\n";
  bool replaced = false;
  for (const Method method : methods) {
    latex += NameOf(method);
    double time = 0;
    for (const EvaluationRow& row : e.rows) {
      if (row.method != method) continue;
      // What no epsilon bears on stands in every column.
      const std::size_t columns =
          method == Method::kNone ? std::max<std::size_t>(epsilons.size(), 1) : 1;
      for (std::size_t k = 0; k < columns; ++k) {
        latex += fmt::format(" & {:.1f}{}", 100 * row.accuracy, Replaced(row) ? "$^*$" : "");
      }
      replaced |= Replaced(row);
      time = std::max(time, row.access_us_p50);
    }
    latex += fmt::format(" & {:.1f} \\\\\n", time);
  }
  latex += "\\bottomrule\n\\end{tabular}\n";
  if (replaced) {
    const auto row = std::ranges::find_if(e.rows, Replaced);
    latex +=
        fmt::format("% * at epsilon {} in the place of {}\n", row->epsilon, row->asked_epsilon);
  }
  return latex;
}

}  // namespace lucid
