#include "pair/multiplier_search.h"

#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"
#include "pair/adam.h"
#include "pair/mixture.h"

namespace lucid {
namespace {

constexpr double kTiny = 1e-300;  // keeps a ratio of widths finite

// Settings of the descent (Adam; the best point is kept). None of them can make a bound wrong.
constexpr int kLambdaSteps = 6;   // with the default lines
constexpr int kMixtureSteps = 8;  // the same for more than two classes
// Of what a bound is too much, a step that promises no larger share is not taken.
constexpr double kMixtureEnds = 0.02;
constexpr double kWeightScale = 1;  // a weight's step
constexpr double kLeastLambda = 0.02;
constexpr double kFirstRate = 0.1;  // from the default lines
constexpr double kNextRate = 0.03;  // from a parent's slopes
constexpr double kRateDecay = 0.95;
constexpr double kAsGood = 0.01;      // lines that lose no more than this share of what is too much
constexpr int kFails = 3;             // steps in a row that gain nothing: go back, and smaller
constexpr double kLambdaScale = 0.5;  // lambda's step, as a share of bound / steepest slope
constexpr double kPushScale = 0.3;    // a push's step, as a share of bound / width of the sum

class Search {
 public:
  Search(const PairFacts& pair, const PairQuestion& question, double enough,
         Multipliers& multipliers, DualWork& work)
      : pair_(pair),
        question_(multipliers.Applied(question)),
        enough_(enough),
        multipliers_(multipliers),
        work_(work) {}

  ChargedBound Run(int steps) {
    multipliers_.pushes.resize(phases().size());
    work_.point.SetPushes(region(), multipliers_.pushes);
    const double start = multipliers_.lambda;
    ChargedBound given{kInfinity, 0};
    const PairQuestion asked = question_;
    if (!multipliers_.slopes.empty()) {
      work_.point.SetSlopes(multipliers_.slopes);
      given = Evaluate(start, OpenSlopes::kOfPoint);
      if (given.value <= enough_) return given;
    }
    ChargedBound bound = Evaluate(start, OpenSlopes::kDefault);
    // A smaller box needs other lines than its parent, but a region that only fixes another phase
    // hardly does. Where the default lines are as good as the parent's, lines hardly matter any
    // more. Then lambda is looked for alone, because a descent in all multipliers would not find
    // it.
    const bool as_good = bound.value - given.value <= kAsGood * (given.value - enough_);
    if (as_good || phases().empty()) {
      bound = question_.mix ? SearchMixture(bound) : SearchLambda(bound);
    }
    const bool fresh = multipliers_.slopes.empty() || bound.value < given.value;
    if (fresh) {
      multipliers_.slopes.clear();
    } else {
      multipliers_.lambda = start;
      question_ = asked;
      bound = Evaluate(start, OpenSlopes::kOfPoint);
    }
    Keep();
    if (steps == 0 || bound.value <= enough_) return bound;
    if (fresh) TakeDefaultSlopes();
    return Descend(bound.value, steps, fresh ? kFirstRate : kNextRate);
  }

 private:
  const Region& region() const { return pair_.region->region; }
  const std::vector<PhaseSplit>& phases() const { return region().phases; }

  ChargedBound Evaluate(double lambda, OpenSlopes slopes) {
    return EvaluateDual(pair_, question_, lambda, work_.point, slopes, work_.terms);
  }
  void FindGradient() { lucid::FindGradient(pair_, question_, work_.terms, work_.gradient); }

  // What N is measured against becomes a part of the multipliers.
  void Keep() {
    if (!question_.mix) return;
    multipliers_.below = question_.below;
    multipliers_.weights = question_.weights;
  }

  // The point's slopes become those that the last evaluation chose.
  void TakeDefaultSlopes() {
    for (std::size_t m = 0; m < work_.terms.layers.size(); ++m) {
      const DualTerms::Layer& from = work_.terms.layers[m];
      DualPoint::Layer& to = work_.point.layers[m];
      for (std::int64_t k = 0; k < to.s.size(); ++k) {
        to.s[k] = from.s[k], to.p[k] = from.p[k], to.q[k] = from.q[k];
      }
    }
  }

  // With the default lines the bound is nearly convex in lambda: a bracket on the derivative's
  // sign.
  ChargedBound SearchLambda(ChargedBound best) {
    double at = multipliers_.lambda, low = 0, high = kInfinity;
    for (int step = 0; step < kLambdaSteps && best.value > enough_; ++step) {
      FindGradient();
      (work_.gradient.by_lambda > 0 ? high : low) = at;
      // A lambda near 0 is replaced by 0, which is the best one where the member gives the other
      // class everywhere in the region.
      const double next = high == kInfinity               ? 2 * at + 0.1
                          : low == 0 && at < kLeastLambda ? 0
                                                          : 0.5 * (low + high);
      if (std::abs(next - at) < 1e-3 * (1 + at)) break;
      at = next;
      const ChargedBound here = Evaluate(at, OpenSlopes::kDefault);
      if (here.value < best.value) best = here, multipliers_.lambda = at;
    }
    return at == multipliers_.lambda ? best : Evaluate(multipliers_.lambda, OpenSlopes::kDefault);
  }

  // The same for lambda and the mixture of classes together: each step goes to where the planes of
  // all steps before leave the smallest bound.
  ChargedBound SearchMixture(ChargedBound best) {
    MixtureModel model(question_.label);
    double at = multipliers_.lambda;
    PairQuestion kept = question_;
    bool here = true;
    for (int step = 0; step < kMixtureSteps && best.value > enough_; ++step) {
      FindGradient();
      model.Add(work_.gradient.by_class, work_.gradient.by_lambda);
      const MixtureModel::Advice next = model.Best(2 * multipliers_.lambda + 0.5);
      const double too_much = best.value - std::max(enough_, 0.0);
      if (best.value - next.value <= kMixtureEnds * too_much) break;
      at = next.lambda < kLeastLambda ? 0 : next.lambda;
      MixClasses(next.weights, question_);
      const ChargedBound found = Evaluate(at, OpenSlopes::kDefault);
      here = found.value < best.value;
      if (here) best = found, multipliers_.lambda = at, kept = question_;
    }
    question_ = kept;
    return here ? best : Evaluate(multipliers_.lambda, OpenSlopes::kDefault);
  }

  ChargedBound Descend(double first, int steps, double rate) {
    multipliers_.slopes = work_.point.Slopes();
    const double scale = std::abs(first);
    double best = first, lambda = multipliers_.lambda;
    std::vector<float> pushes = multipliers_.pushes;
    int fails = 0;
    const std::int64_t classes = question_.mix ? pair_.network->architecture.classes() : 0;
    std::vector<double> weights;
    if (question_.mix) weights = MixtureOf(question_, classes);
    Adam adam(1 + multipliers_.slopes.size() + pushes.size() + static_cast<std::size_t>(classes),
              rate, kRateDecay);
    for (int step = 0; step < steps && best > enough_; ++step) {
      FindGradient();
      adam.NextStep();
      lambda = NextLambda(lambda, scale, adam);
      MoveSlopes(adam);
      MovePushes(scale, adam, pushes);
      MoveWeights(adam, weights);
      work_.point.SetPushes(region(), pushes);
      const double value = Evaluate(lambda, OpenSlopes::kOfPoint).value;
      if (value < best) {
        best = value;
        multipliers_.lambda = lambda;
        multipliers_.slopes = work_.point.Slopes();
        multipliers_.pushes = pushes;
        Keep();
        fails = 0;
      } else if (++fails >= kFails) {
        // Too far: back to the best point, with smaller steps.
        adam.Shrink();
        fails = 0;
        lambda = multipliers_.lambda;
        pushes = multipliers_.pushes;
        EvaluateBest();
        if (question_.mix) weights = MixtureOf(question_, classes);
      }
    }
    // Slopes are kept as floats: what these give is what counts.
    return EvaluateBest();
  }
  ChargedBound EvaluateBest() {
    work_.MoveTo(region(), multipliers_);
    question_ = multipliers_.Applied(question_);
    return Evaluate(multipliers_.lambda, OpenSlopes::kOfPoint);
  }

  double NextLambda(double lambda, double scale, Adam& adam) {
    const double slope = work_.gradient.by_lambda;
    float& steepest = multipliers_.steepest;
    steepest = std::max(steepest, static_cast<float>(std::abs(slope)));
    lambda -= adam.Step(slope) *
              std::min(std::max(lambda, 0.05), kLambdaScale * scale / (steepest + kTiny));
    return std::max(lambda, 0.0);
  }

  void MoveSlopes(Adam& adam) {
    const auto move = [&](double& slope, double size, double gradient, double low) {
      slope = std::clamp(slope - size * adam.Step(gradient), low, 1.0);
    };
    for (std::size_t m = 0; m < work_.terms.layers.size(); ++m) {
      const DualTerms::Layer& terms = work_.terms.layers[m];
      const DualGradient::Layer& gradient = work_.gradient.layers[m];
      const PairRanges& r = pair_.ranges(m);
      DualPoint::Layer& point = work_.point.layers[m];
      for (const std::int32_t k : pair_.layers[m].open) {
        const double by_a = gradient.by_a[k], by_d = gradient.by_d[k];
        const double thin = std::min(1.0, (r.b[k] - r.a[k]) / (r.u[k] - r.l[k] + kTiny));
        move(point.s[k], 1, terms.cz[k] * by_a, 0);
        move(point.p[k], thin, terms.cd[k] * by_a, -1);
        move(point.q[k], 1, terms.cd[k] * by_d, 0);
      }
    }
  }

  void MovePushes(double scale, Adam& adam, std::vector<float>& pushes) {
    for (std::size_t n = 0; n < pushes.size(); ++n) {
      const PhaseSplit& phase = phases()[n];
      const DualGradient::Layer& layer = work_.gradient.layers[phase.layer];
      const double gradient =
          layer.by_a[phase.unit] + (phase.member ? layer.by_d[phase.unit] : 0.0);
      const double width = pair_.region->layers[phase.layer].width[phase.unit];
      pushes[n] -= static_cast<float>(adam.Step(gradient) * kPushScale * scale / (width + kTiny));
    }
  }

  // Along the part of the gradient that keeps the sum of all weights.
  void MoveWeights(Adam& adam, std::vector<double>& weights) {
    if (weights.empty()) return;
    const std::vector<double>& by_class = work_.gradient.by_class;
    double mean = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) mean += weights[j] * by_class[j];
    double sum = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const bool own = static_cast<std::int32_t>(j) == question_.label;
      const double step = adam.Step(own ? 0 : by_class[j] - mean);
      weights[j] = own ? 0 : std::max(weights[j] - kWeightScale * step, 0.0);
      sum += weights[j];
    }
    for (double& weight : weights) weight /= sum;
    MixClasses(weights, question_);
  }

  const PairFacts& pair_;
  PairQuestion question_;
  const double enough_;
  Multipliers& multipliers_;
  DualWork& work_;
};

}  // namespace

ChargedBound SearchMultipliers(const PairFacts& pair, const PairQuestion& question,
                               Multipliers& multipliers, int steps, double enough, DualWork& work) {
  return Search(pair, question, enough, multipliers, work).Run(steps);
}

}  // namespace lucid
