#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lucid/audit/audit.h"

namespace lucid {
namespace {

std::string NumberOr(double value, const char* format, const char* otherwise) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : otherwise;
}

std::string VerdictOf(const AuditRow& row) {
  if (row.not_covered()) {
    return row.lost() ? "NOT COVERED by labels: the worlds are told apart"
                      : "not covered by labels";
  }
  if (std::isnan(row.claimed)) return "no claim";
  return row.holds ? "holds" : "DOES NOT HOLD";
}

std::string CheckLines(const Audit& audit, const auto& shown) {
  std::string text;
  for (const AuditCheck& check : audit.checks) {
    text += fmt::format("{:<13} {}: {}; {}\n", check.check,
                        shown(check.holds ? "holds" : "DOES NOT HOLD", !check.holds), check.claim,
                        check.measured);
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::string AuditText(const Audit& audit, bool colour) {
  const auto shown = [colour](std::string_view words, bool red) {
    return colour && red ? fmt::format("\x1b[31m{}\x1b[0m", words) : std::string(words);
  };
  std::size_t widest = 6;
  for (const AuditRow& row : audit.rows) widest = std::max(widest, row.access.size());
  const auto line = [](const auto&... cells) {
    return fmt::format("{:<13} {:<{}} {:<13} {:>7} {:>7} {:>6} {:>5} {:>5} {:>6} {:>7} {:>7}  {}\n",
                       cells...);
  };
  std::string text = CheckLines(audit, shown);
  text += line("attack", "access", widest, "world", "epsilon", "queries", "trials", "AUC", "adv",
               "eps >=", "claimed", "Welch t", "");
  for (const AuditRow& row : audit.rows) {
    text += line(NameOf(row.attack), row.access, widest, row.world ? NameOf(*row.world) : "-",
                 NumberOr(row.epsilon, "{}", "-"), row.queries, row.trials,
                 NumberOr(row.auc, "{:.3f}", "-"), NumberOr(row.advantage, "{:.3f}", "-"),
                 NumberOr(row.epsilon_lower, "{:.3f}", std::isinf(row.epsilon_lower) ? "inf" : "-"),
                 NumberOr(row.claimed, "{}", "-"), NumberOr(row.welch_t, "{:.1f}", "-"),
                 shown(VerdictOf(row), !row.holds || row.not_covered()));
  }
  return text;
}

}  // namespace lucid
