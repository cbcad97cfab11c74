#include "evaluation/expected_accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "lucid/evaluation/evaluation.h"
#include "lucid/guard/mechanism.h"

namespace lucid {

std::vector<std::int64_t> EqualInputs(const Table& table) {
  std::unordered_map<std::string_view, std::int64_t> first;
  std::vector<std::int64_t> equal;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    const auto bytes = std::as_bytes(table.row(i));
    const std::string_view key(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    equal.push_back(first.emplace(key, i).first->second);
  }
  return equal;
}

RightAnswers CountRightAnswers(const Table& table, std::span<const AccessDecision> decisions,
                               const AnswerLaw& law, std::span<const std::int64_t> same_answer) {
  // Per answer that is drawn: how many rows of each class it answers.
  std::unordered_map<std::int64_t, std::unordered_map<std::int32_t, double>> rows_of;
  RightAnswers result;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    const AccessDecision& decision = decisions[i];
    if (decision.noised) {
      rows_of[same_answer[i]][table.y[i]] += 1;
    } else if (decision.label == table.y[i]) {
      result.expected += 1;
    }
  }
  for (const auto& [first, rows_of_class] : rows_of) {
    double mean = 0, square = 0, largest = 0;
    for (const auto& [label, rows] : rows_of_class) {
      const double p = label == decisions[first].label ? law.predicted : law.each_other;
      mean += p * rows;
      square += p * rows * rows;
      largest = std::max(largest, rows);
    }
    result.expected += mean;
    result.variance += std::max(square - mean * mean, 0.0);
    result.largest = std::max(result.largest, largest);
  }
  return result;
}

Result<SampledAccuracy> SampleAccuracy(
    const Table& table, const RightAnswers& expected, std::int64_t passes,
    const std::function<std::int32_t(std::int64_t pass, std::int64_t row)>& ask) {
  std::int64_t right = 0;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    for (std::int64_t i = 0; i < table.rows(); ++i) right += ask(pass, i) == table.y[i];
  }
  const auto count = static_cast<double>(passes), total = count * static_cast<double>(table.rows());
  const double deviation = std::abs(static_cast<double>(right) - count * expected.expected);
  const double variance = count * expected.variance;
  // Bernstein: P(|S - ES| >= t) <= 2 exp(-t^2 / 2 / (V + M t / 3)) = 2 exp(-L) for
  // t = L M / 3 + sqrt((L M / 3)^2 + 2 L V). With L = 12.5 and V large, t = 5 sqrt(V).
  const double log_odds = 12.5, linear = log_odds * expected.largest / 3;
  const double limit = linear + std::sqrt(linear * linear + 2 * log_odds * variance);
  if (deviation > limit + 1e-6) {
    return InternalError(fmt::format(
        "{} of {} sampled answers are right, {:.1f} are expected: more than {:.1f} apart, so the "
        "access does not do what its probabilities say",
        right, total, count * expected.expected, limit));
  }
  return SampledAccuracy{static_cast<double>(right) / total, std::sqrt(variance) / total};
}

Result<double> ScalarAccuracy(const Evaluator& network, const Certificate& certificate,
                              const Table& test, double epsilon) {
  if (test.rows() == 0) return InvalidInput("no test rows to measure an accuracy on");
  LUCID_ASSIGN(const Mechanism mechanism,
               Mechanism::Create(MechanismKind::kPaper, epsilon, std::ssize(certificate.classes)));
  std::vector<AccessDecision> decisions;
  std::vector<std::int64_t> each_its_own;
  for (std::int64_t i = 0; i < test.rows(); ++i) {
    const Decision decision = network.Decide(test.row(i));
    const bool sure = decision.confidence - certificate.network_error >
                      certificate.classes[decision.label].beta_upper;
    decisions.push_back({decision.label, !sure});
    each_its_own.push_back(i);
  }
  const AnswerLaw law{mechanism.ProbabilityOfLabel(), mechanism.ProbabilityOfEachOther()};
  return CountRightAnswers(test, decisions, law, each_its_own).expected /
         static_cast<double>(test.rows());
}

}  // namespace lucid
