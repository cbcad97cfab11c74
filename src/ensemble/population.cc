#include "ensemble/population.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "base/files.h"
#include "base/number_text.h"

namespace lucid {
namespace {

constexpr std::string_view kHeader = "lucid-population-1";

std::string Line(std::string_view word, const PrivacyTotal& amount) {
  return fmt::format("{} {} {}", word, ShortestText(amount.epsilon), ShortestText(amount.delta));
}

bool IsBudget(const PrivacyTotal& total) {
  return total.epsilon > 0 && std::isfinite(total.epsilon) && total.delta > 0 && total.delta < 1;
}

// What a file says, and whether `run_key` is in it.
struct Contents {
  PopulationAccount account;
  bool charged = false;
};

Result<Contents> Parse(const std::string& text, const std::string& path, const Digest& run_key) {
  const auto damaged = [&] {
    return InvalidInput(fmt::format("'{}' is not a population of this program, or damaged", path));
  };
  std::istringstream stream(text);
  std::string header, word, key;
  Contents contents;
  PopulationAccount& account = contents.account;
  account.name = PopulationName(path);
  std::getline(stream, header);
  if (header != kHeader || !(stream >> word >> account.total.epsilon >> account.total.delta) ||
      word != "total" || !IsBudget(account.total) || text.back() != '\n') {
    return damaged();
  }
  while (stream >> word) {
    PrivacyTotal cost;
    if (word != "spent" || !(stream >> cost.epsilon >> cost.delta >> key) || !IsBudget(cost)) {
      return damaged();
    }
    account.spent.epsilon += cost.epsilon;
    account.spent.delta += cost.delta;
    contents.charged = contents.charged || key == run_key.Hex();
  }
  return contents;
}

Status Create(const std::string& path, const std::optional<PrivacyTotal>& total) {
  if (!total) {
    return InvalidInput(fmt::format(
        "there is no '{}': the option population_total makes it, with all that trainings "
        "on this population may cost (epsilon and delta)",
        path));
  }
  LUCID_ASSIGN(File file, File::CreateNew(path, 0600));
  const std::string text = fmt::format("{}\n{}\n", kHeader, Line("total", *total));
  LUCID_TRY(file.WriteAt(0, std::as_bytes(std::span(text))));
  LUCID_TRY(file.Sync());
  return SyncFolderOf(path);
}

}  // namespace

std::string PopulationName(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

Result<PopulationAccount> ChargePopulation(const std::string& path,
                                           const std::optional<PrivacyTotal>& total,
                                           const PrivacyTotal& cost, const Digest& run_key) {
  if (total && !IsBudget(*total)) {
    return InvalidInput(
        fmt::format("a population's total is an epsilon above 0 and a delta between 0 and 1, not "
                    "{} and {}",
                    total->epsilon, total->delta));
  }
  if (!std::filesystem::exists(path)) LUCID_TRY(Create(path, total));
  LUCID_ASSIGN(File file, File::OpenToUpdate(path));
  LUCID_TRY(file.Lock());
  LUCID_ASSIGN(const std::string text, ReadTextFile(path, 16 << 20));
  LUCID_ASSIGN(Contents contents, Parse(text, path, run_key));
  PopulationAccount& account = contents.account;
  if (total && (total->epsilon != account.total.epsilon || total->delta != account.total.delta)) {
    return Mismatch(
        fmt::format("'{}' declares a total of epsilon {} and delta {}: it is declared "
                    "once",
                    path, account.total.epsilon, account.total.delta));
  }
  if (contents.charged) return account;
  // Decimal costs that add up to the total may do so up to a rounding.
  constexpr double kRounding = 1 + 1e-12;
  account.spent.epsilon += cost.epsilon;
  account.spent.delta += cost.delta;
  if (account.spent.epsilon > account.total.epsilon * kRounding ||
      account.spent.delta > account.total.delta * kRounding) {
    return InvalidInput(fmt::format(
        "population '{}': this training would make it epsilon {:.6g} and delta {:.3g} of {} and "
        "{}: every training on the same people spends again",
        account.name, account.spent.epsilon, account.spent.delta, account.total.epsilon,
        account.total.delta));
  }
  const std::string line = fmt::format("{} {}\n", Line("spent", cost), run_key.Hex());
  LUCID_TRY(file.WriteAt(text.size(), std::as_bytes(std::span(line))));
  LUCID_TRY(file.Sync());
  return account;
}

}  // namespace lucid
