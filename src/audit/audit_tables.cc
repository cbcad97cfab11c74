#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lucid/audit/audit.h"

namespace lucid {
namespace {

std::string NumberOr(double value, const char* format, const char* otherwise) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : otherwise;
}

}  // namespace

std::string AuditText(const Audit& audit) {
  std::size_t widest = 6;
  for (const AuditRow& row : audit.rows) widest = std::max(widest, row.access.size());
  const auto line = [](const auto&... cells) {
    return fmt::format("{:<13} {:<{}} {:<13} {:>7} {:>7} {:>6} {:>5} {:>5} {:>6} {:>7} {:>7}  {}\n",
                       cells...);
  };
  std::string text = line("attack", "access", widest, "world", "epsilon", "queries", "trials",
                          "AUC", "adv", "eps >=", "claimed", "Welch t", "");
  for (const AuditRow& row : audit.rows) {
    const bool claims = !std::isnan(row.claimed);
    text += line(NameOf(row.attack), row.access, widest, row.world ? NameOf(*row.world) : "-",
                 NumberOr(row.epsilon, "{}", "-"), row.queries, row.trials,
                 NumberOr(row.auc, "{:.3f}", "-"), NumberOr(row.advantage, "{:.3f}", "-"),
                 NumberOr(row.epsilon_lower, "{:.3f}", std::isinf(row.epsilon_lower) ? "inf" : "-"),
                 NumberOr(row.claimed, "{}", "-"), NumberOr(row.welch_t, "{:.1f}", "-"),
                 claims ? (row.holds ? "holds" : "DOES NOT HOLD") : "no claim");
  }
  return text;
}

}  // namespace lucid
