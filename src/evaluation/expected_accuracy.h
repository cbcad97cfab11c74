// How often a randomised access gives the true label: in closed form, and sampled.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/baselines/naive_idp.h"
#include "lucid/data/dataset.h"

namespace lucid {

// The law of a noised answer: the predicted class, or each other one.
struct AnswerLaw {
  double predicted = 1, each_other = 0;
};

// For every row, the number of the first row with the same input. An access with a memo gives all
// of them one answer, which makes a sample's error larger.
std::vector<std::int64_t> EqualInputs(const Table& table);

// What is known of the number of right answers when every row is asked once.
struct RightAnswers {
  double expected = 0, variance = 0;
  double largest = 0;  // the most by which a single answer can change it
};
// same_answer: for every row the first one that shares its answer (EqualInputs; or each row its own
// number). Requires: one decision and one entry of same_answer per row.
RightAnswers CountRightAnswers(const Table& table, std::span<const AccessDecision> decisions,
                               const AnswerLaw& law, std::span<const std::int64_t> same_answer);

struct SampledAccuracy {
  double accuracy = 0, standard_error = 0;
};
// Asks every row `passes` times; ask(pass, row) must draw anew in every pass. Errors: kInternal if
// the sample is further from the expectation than Bernstein's inequality lets it be with a
// probability of 2 e^-12.5 = 7.5e-6 (5 standard errors where samples are many): the access does not
// do what its probabilities say. kInterrupted is passed on.
Result<SampledAccuracy> SampleAccuracy(
    const Table& table, const RightAnswers& expected, std::int64_t passes,
    const std::function<std::int32_t(std::int64_t pass, std::int64_t row)>& ask);

}  // namespace lucid
