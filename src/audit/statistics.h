// What guesses say about epsilon.
#pragma once

#include <cstdint>
#include <span>

namespace lucid {

// The largest AUC that guesses about an (epsilon, delta)-private mechanism can have: the area under
// min(1, delta + e^epsilon a, 1 - e^-epsilon (1 - delta - a)) over the false positives a.
double LargestAreaUnderPrivacy(double epsilon, double delta);

// The scores of an attack in the two worlds; higher: more likely "in". Requires: none is empty, no
// NaN.
double AreaUnderCurve(std::span<const double> in, std::span<const double> out);
double LargestAdvantage(std::span<const double> in, std::span<const double> out);
// The largest share of `in` above a threshold that at most `fpr` of `out` is above.
double TruePositivesAt(double fpr, std::span<const double> in, std::span<const double> out);

// One-sided Clopper-Pearson bounds of a probability, each wrong with probability at most `risk`.
double LowerProbability(std::int64_t successes, std::int64_t trials, double risk);
double UpperProbability(std::int64_t successes, std::int64_t trials, double risk);

// P(at least `successes` of so many independent trials), each with this probability.
double AtLeast(std::int64_t successes, std::int64_t trials, double probability);

// A lower bound of the epsilon of any mechanism that gives such scores, >= 0, too large with
// probability at most `risk`: max of ln(TPR_lo / FPR_hi), ln(TNR_lo / FNR_hi) and the same with the
// guess turned round, at the threshold that is best on the even trials, judged on the odd ones.
// `delta`: of a mechanism that is (epsilon, delta)-DP; the numerators are less by it. Scores must
// be independent trials.
double EpsilonLowerBound(std::span<const double> in, std::span<const double> out, double risk,
                         double delta = 0);

// What a bettor makes of 1 who bets, pair by pair and in this order, that the mean of [in > out]
// (ties count half) is above `most`, at the best moment: a mixture of constant bets, which is a
// test martingale if every pair's mean given the pairs before is at most `most` (Ville 1939; Ramdas
// et al. 2023). Requires: 1/2 <= most <= 1, as many of one as of the other.
double EvidenceAgainst(std::span<const double> in, std::span<const double> out, double most);

// (mean a - mean b) / sqrt(var a / n + var b / m). Requires: two values or more in each.
double WelchT(std::span<const double> a, std::span<const double> b);

}  // namespace lucid
