// Which promise at which price on this data.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lucid/evaluation/evaluation.h"
#include "lucid/train/options.h"

namespace lucid {
namespace {

// Points of accuracy that are called "next to nothing".
constexpr double kLittle = 0.01;
constexpr double kLargeEpsilon = 1;  // advice stops at it

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

class Adviser {
 public:
  explicit Adviser(const Evaluation& evaluation) : e_(evaluation) {
    for (const EvaluationRow& row : e_.rows) {
      if (row.method == Method::kNone) plain_ = &row;
      const bool free_labels = row.answer_epsilon == 0 && GuardOf(row.method).has_value();
      if (free_labels && Better(row, labels_)) labels_ = &row;
      if (row.promise == "labels+full" && free_labels && Better(row, both_)) both_ = &row;
      // What private training would give where this run is none: DP-SGD is the same training.
      const bool kept = row.promise == "full" || row.promise == "labels+full";
      const bool told = row.promise == "whole network" && row.total_epsilon <= kLargeEpsilon;
      if ((kept || told) && Better(row, full_)) full_ = &row;
    }
  }

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    if (labels_ != nullptr) {
      lines.push_back(
          fmt::format("advice, labels: {} without a limit of answers: lucid serve {} "
                      "--guard {}{} --promise labels",
                      Cost(*labels_), e_.run, NameOf(labels_->method),
                      labels_->method == Method::kExact ? " --latency-floor 20ms" : ""));
    }
    if (full_ != nullptr) lines.push_back(OfFull());
    lines.push_back("advice: " + Choice());
    lines.push_back(
        "note: these figures are made from the data, so a promise full whose price or recipe is "
        "chosen by them is `full, chosen after looking`; choose on other data, or before");
    return lines;
  }

 private:
  static bool Better(const EvaluationRow& row, const EvaluationRow* than) {
    return than == nullptr || row.accuracy > than->accuracy;
  }

  std::string Cost(const EvaluationRow& row) const {
    std::string words =
        fmt::format("{} +- {:.1f}", Percent(row.accuracy), 100 * row.standard_error);
    if (plain_ != nullptr) {
      words += fmt::format(" ({:+.1f} points beside N)", -100 * row.accuracy_drop);
    }
    if (IsNoBetterThanGuessing(row)) words += ", no better than the most common class";
    return words;
  }

  bool IsNoBetterThanGuessing(const EvaluationRow& row) const {
    return row.accuracy <= e_.majority_share + 2 * row.standard_error;
  }

  std::string OfFull() const {
    const std::string price =
        fmt::format("at ({:g}, {:.2g}) once", full_->total_epsilon, full_->total_delta);
    if (GuardOf(full_->method)) {
      return fmt::format("advice, {}: {} {}: lucid serve {} --promise {}", full_->promise,
                         Cost(*full_), price, e_.run, full_->promise == "full" ? "full" : "both");
    }
    return fmt::format(
        "advice, full: {} {}, as far as dpsgd tells: lucid train --data {} --preset private "
        "--train-epsilon {:g} --expected-rows {} --out RUN, then lucid bound RUN for both promises",
        Cost(*full_), price, e_.data, full_->total_epsilon, RoundedToOneDigit(e_.rows_of_training));
  }

  std::string Choice() const {
    if (full_ == nullptr && labels_ == nullptr) {
      return "nothing that was measured keeps a promise: lucid bound, or lucid train --preset "
             "private";
    }
    const bool full_is_cheap = full_ != nullptr && !IsNoBetterThanGuessing(*full_) &&
                               full_->accuracy_drop < kLittle + full_->standard_error;
    if (both_ != nullptr && full_is_cheap) return "take both promises: they cost next to nothing";
    if (full_is_cheap) {
      return "take full: it covers everything that clients see, and costs next to nothing here";
    }
    if (labels_ == nullptr) return "full has its price here; labels was not measured";
    if (full_ == nullptr)
      return "labels; full was not measured (lucid evaluate --methods dpsgd measures it)";
    const double more = full_->accuracy_drop - labels_->accuracy_drop;
    return fmt::format(
        "full costs {:.1f} points more than labels with the {} guard: take labels if nobody who "
        "could make the service without a unit asks it, full if that must be covered",
        100 * more, NameOf(labels_->method));
  }

  const Evaluation& e_;
  const EvaluationRow *plain_ = nullptr, *labels_ = nullptr, *full_ = nullptr, *both_ = nullptr;
};

}  // namespace

std::vector<std::string> AdviceOf(const Evaluation& evaluation) {
  return Adviser(evaluation).Lines();
}

}  // namespace lucid
