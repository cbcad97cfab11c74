#include "pair/window_bounder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "numeric/rounding.h"
#include "pair/window_chain.h"

namespace lucid {
namespace {

constexpr int kLineSteps = 5;  // how many steps lines get before cells are tried
// Each round of cuts gains about half of what the round before gained, so all rounds to come gain
// kToCome times the last one at most. With so many cells the search ends if that is not enough.
constexpr std::size_t kManyCells = 1 << 15;
constexpr double kToCome = 2;
// A phase is worth a cut if it loses this share of what the bound is too large by.
constexpr double kWorthCutting = 0.02;
constexpr std::size_t kMostPhases = 12;
constexpr std::size_t kMostWork = 24 << 20;  // lines that all cases together may ask for
// The steps of lambda and pushes.
constexpr double kFirstStep = 0.064, kNextStep = 0.016, kLastStep = 0.0003, kStepShrink = 0.25;
// With at most so many cells lambda and pushes are moved on after each cut, by smaller steps.
constexpr std::size_t kFewCells = 1 << 16;
constexpr double kPolishStep = 0.001, kLeastPolishStep = 1e-5;
constexpr int kPolishTrials = 2;
// A step counts if it gains this share of what the bound is too large by.
constexpr double kLeastGain = 0.001;

// If lines are as good as equal, the first one is taken: rounding must not decide, or a checker
// would take another one.
bool Better(double value, double than) {
  constexpr double kTie = 1e-9;
  return std::isinf(than) || value < than - kTie * (std::abs(value) + std::abs(than));
}

// The convolutions over a single window; nothing reads its outputs.
Architecture WindowArchitecture(const Architecture& whole) {
  const WindowShape windows = WindowShape::Of(whole);
  std::vector<HiddenLayer> hidden;
  for (std::size_t m = 0; m < windows.layers; ++m) {
    const Layer& layer = whole.layers()[m];
    hidden.push_back({layer.kind, layer.filters, layer.width, layer.stride});
  }
  return Architecture::Build(hidden, windows.width, 2).value();
}

std::vector<float> WindowParameters(const Architecture& window, std::span<const float> parameters) {
  const auto shared = static_cast<std::ptrdiff_t>(window.layers().back().weight_at);
  std::vector<float> own(parameters.begin(), parameters.begin() + shared);
  own.resize(static_cast<std::size_t>(window.parameters()));
  return own;
}

}  // namespace

bool WindowBounder::Fits(const Architecture& architecture) {
  const WindowShape windows = WindowShape::Of(architecture);
  return windows.layers > 0 && windows.width <= kWidest;
}

// The bound of one case: it chooses lambda and pushes, cuts cells, and writes down what it did.
struct WindowBounder::Search {
  using Window = WindowChain::Window;
  using Cell = WindowChain::Cell;
  using Expired = std::function<bool()>;

  explicit Search(const Network& network)
      : shape(WindowShape::Of(network.architecture)),
        architecture(WindowArchitecture(network.architecture)),
        bounder({architecture, WindowParameters(architecture, network.parameters)}),
        chain(shape) {}

  // What is known of the pair, and the bounder that found it.
  struct Pair {
    RegionBounder& bounder;
    const PairFacts& facts;
  };

  // `at` is where the search starts, and becomes the best it found. The first `proved` of `rounds`
  // are what the result comes from.
  double Bound(const Pair& pair, const PairQuestion& question, double enough, bool coarse,
               Multipliers& at, const Expired& expired) {
    double best = Descend(pair, question, enough, coarse, at, expired);
    proved = rounds.size();
    if (coarse || best <= enough || expired()) return best;
    const std::size_t width = chain.width();
    double last = best;
    Turn turn;
    for (std::size_t cut = 0; !expired() && work < kMostWork && chain.Divisible(); ++cut) {
      if (!chain.Drop(enough)) return Proved(enough);
      // One input of every window is halved.
      ProofRound round;
      for (std::size_t input = cut % width; input < chain.inputs(); input += width) {
        if (!chain.Halve(input, round.halved)) return best;
      }
      round.tilts = chain.Tilts();
      if (!chain.Drop(enough)) {
        rounds.push_back(std::move(round));
        return Proved(enough);
      }
      if (!Fill(expired)) break;
      double here = chain.Tilt(enough, expired);
      round.tilts = chain.Tilts();
      if (chain.Cells() <= kFewCells) {
        here = Polish(pair, question, enough, here, turn, at, round, expired);
      }
      rounds.push_back(std::move(round));
      here = std::max(here, enough);  // the cells that were dropped may reach `enough`
      if (here < best) best = Proved(here);
      if (best <= enough) break;
      if ((cut + 1) % width != 0) continue;
      if (chain.Cells() > kManyCells && here - kToCome * (last - here) > enough) break;
      last = here;
    }
    return best;
  }

  double Proved(double bound) {
    proved = rounds.size();
    return bound;
  }

  // Which multiplier Polish moves next, in which direction and by how much.
  struct Turn {
    std::size_t which = 0;
    int sign = 1, fails = 0;
    double step = kPolishStep;
  };
  static void Move(Multipliers& at, std::size_t which, double much) {
    if (which == 0) {
      at.lambda = std::max(at.lambda + much, 0.0);
    } else {
      at.pushes[which - 1] += static_cast<float>(much);
    }
  }

  // Moves lambda and pushes by some small steps while the cells stay as they are.
  double Polish(const Pair& pair, const PairQuestion& question, double enough, double here,
                Turn& turn, Multipliers& at, ProofRound& round, const Expired& expired) {
    const int count = 2 * static_cast<int>(1 + at.pushes.size());
    for (int trial = 0; trial < kPolishTrials && here > enough && turn.step > kLeastPolishStep;
         ++trial) {
      Multipliers next = at;
      Move(next, turn.which, turn.sign * turn.step);
      const WindowChain::State before = chain.state();
      Aim(pair, question, next);
      const double there = Fill(expired) ? chain.Tilt(enough, expired) : kInfinity;
      if (there < here) {
        here = there;
        at = next;
        turn.fails = 0;
        round = {round.halved, true, at.lambda, at.pushes, std::move(round.tilts), chain.Tilts()};
        continue;
      }
      chain.state() = before;
      if (turn.sign < 0) turn.which = (turn.which + 1) % (1 + at.pushes.size());
      turn.sign = -turn.sign;
      if (++turn.fails >= count) {
        turn.step *= kStepShrink;
        turn.fails = 0;
      }
    }
    return here;
  }

  // Sets what these multipliers leave to the windows. Lines that were made for other multipliers
  // mean nothing then, so cells lose theirs.
  void Aim(const Pair& pair, const PairQuestion& question, const Multipliers& at) {
    aimed = at;
    const RegionBounder::Rest of =
        pair.bounder.RestOf(pair.facts, shape.layers - 1, question, at.lambda, at.pushes);
    WindowChain::State& state = chain.state();
    state.rest = Up(of.constant + WindowChain::kRoom * of.charge);
    for (std::size_t p = 0; p < state.windows.size(); ++p) {
      Window& window = state.windows[p];
      window.z.clear();
      window.delta.clear();
      for (std::size_t k = p; k < of.z.size(); k += state.windows.size()) {  // one of each filter
        window.z.push_back(of.z[k]);
        window.delta.push_back(of.delta[k]);
      }
      for (Cell& cell : window.cells) cell.constant = kInfinity;
    }
  }

  // Finds the best lambda and pushes for coarse cells, and leaves the cells with these: it goes
  // downhill in one multiplier after the other, with smaller and smaller steps.
  double Descend(const Pair& pair, const PairQuestion& question, double enough, bool coarse,
                 Multipliers& at, const Expired& expired) {
    ProofRound round;
    const auto bound = [&](const Multipliers& with) {
      chain.Start(pair.facts.box());
      Aim(pair, question, with);
      round = {{}, true, with.lambda, with.pushes, chain.Tilts(), {}};
      for (std::size_t input = 0; input < chain.inputs(); ++input) {
        for (int n = 1; n < (coarse ? 2 : 4); n *= 2) chain.Halve(input, round.halved);
      }
      const bool lines = chain.state().rest < kInfinity && Fill(expired);
      const double found = lines ? chain.Tilt(enough, expired) : kInfinity;
      round.tilts = chain.Tilts();
      return found;
    };
    double best = bound(at);
    rounds.assign(1, round);
    bool there = true;  // at the best
    std::vector<float> signs(1 + at.pushes.size(), 1);
    double step = coarse ? kFirstStep : kNextStep;
    while (step > kLastStep && best > enough && best < kInfinity && work < kMostWork) {
      bool moved = false;
      for (std::size_t n = 0; n < signs.size() && best > enough; ++n) {
        // A push that coarse cells have no use for hardly helps finer ones.
        if (!coarse && n > 0 && at.pushes[n - 1] == 0) continue;
        for (int side = 0; side < 2; ++side) {
          if (expired()) return best;
          Multipliers next = at;
          Move(next, n, signs[n] * step);
          const double here = bound(next);
          there = here < best - kLeastGain * (best - enough);
          if (there) {
            best = here;
            at = next;
            rounds.assign(1, round);
            moved = true;
            break;
          }
          signs[n] = -signs[n];
        }
      }
      if (!moved) step *= kStepShrink;
    }
    if (!there) bound(at);
    return best;
  }

  // Gives every cell the best of two new lines and the one it has. Cells of several windows that
  // are the same box are entered once. False: the time is up.
  bool Fill(const Expired& expired) {
    std::vector<std::pair<Window*, Cell*>> jobs;
    for (Window& window : chain.state().windows) {
      for (Cell& cell : window.cells) jobs.emplace_back(&window, &cell);
    }
    const std::size_t width = chain.width();
    const auto compare = [&](const auto& one, const auto& two) {
      for (std::size_t j = 0; j < width; ++j) {
        const Interval a = chain.Side(*one.first, *one.second, j);
        const Interval b = chain.Side(*two.first, *two.second, j);
        if (a.lower != b.lower) return a.lower < b.lower ? -1 : 1;
        if (a.upper != b.upper) return a.upper < b.upper ? -1 : 1;
      }
      return 0;
    };
    std::ranges::sort(jobs, [&](const auto& a, const auto& b) { return compare(a, b) < 0; });
    work += jobs.size();
    Region region;
    region.box.resize(width);
    RegionBounder::EnteredPair facts;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      auto& [window, cell] = jobs[i];
      if (i % 256 == 0 && expired()) return false;
      if (i == 0 || compare(jobs[i - 1], jobs[i]) != 0) {
        for (std::size_t j = 0; j < width; ++j) region.box[j] = chain.Side(*window, *cell, j);
        facts = {};
        facts = bounder.EnterPair(region, own);
      }
      cell->value = chain.Value(*window, *cell);
      if (!facts) continue;  // a box holds inputs: not reached
      for (const OpenSlopes lines : {OpenSlopes::kDefault, OpenSlopes::kFlat}) {
        const RegionBounder::Line line = bounder.LineOver(*facts, window->z, window->delta, lines);
        Cell other = *cell;
        other.constant = Up(line.constant + WindowChain::kRoom * line.charge);
        std::ranges::copy(line.slopes, other.slopes.begin());
        other.value = chain.Value(*window, other);
        if (Better(other.value, cell->value)) *cell = other;
      }
    }
    return true;
  }

  const WindowShape shape;
  const Architecture architecture;
  RegionBounder bounder;  // of the convolutions over a single window
  WindowChain chain;
  std::size_t work = 0;            // cells that lines were asked for
  std::vector<float> own;          // the member's parameters of a window
  std::vector<ProofRound> rounds;  // what was done so far
  std::size_t proved = 0;          // how many of the rounds the bound needs
  Multipliers aimed;               // what left the windows what they have now
};

WindowBounder::WindowBounder(const Network& network) : search_(std::make_unique<Search>(network)) {}
WindowBounder::~WindowBounder() = default;

// Cases are told apart by the phases of the layers above the windows: where all of these are known,
// what is left to the windows is exact but for where N's and the member's phase of a neuron differ,
// and that is what pushes are for.
struct WindowBounder::Cases {
  Search& search;
  RegionBounder& bounder;
  std::span<const float> parameters;
  const PairQuestion& question;
  const Band* band;
  const std::function<bool()>& expired;

  using Kind = ProofCase::Kind;
  using Why = std::vector<ProofCase>;

  double Bound(Region& region, double enough, Multipliers at, Why& why) const {
    why.assign(1, {});
    const RegionBounder::EnteredPair facts = bounder.EnterPair(region, parameters, band);
    if (!facts) return -kInfinity;
    const Search::Pair pair{bounder, *facts};
    double bound = ByLines(*facts, enough, why.front());
    if (bound <= enough) return bound;
    at.pushes.resize(region.phases.size());
    const auto windows = [&](bool coarse) {
      const double found = search.Bound(pair, question, enough, coarse, at, expired);
      if (!(found < bound)) return;
      bound = found;
      ProofCase& by = why.front() = {Kind::kWindows};
      by.rounds.assign(search.rounds.begin(),
                       search.rounds.begin() + static_cast<std::ptrdiff_t>(search.proved));
    };
    const auto spent = [&] { return search.work >= kMostWork || expired(); };
    windows(true);
    if (bound <= enough || bound == kInfinity || spent()) return bound;
    // What loses at least this much of what the bound is too large by.
    const auto open_phase = [&](double share) -> std::optional<PhaseSplit> {
      if (search.chain.point().empty() || region.phases.size() >= kMostPhases) return std::nullopt;
      return bounder.OpenPhase(*facts, question, search.aimed, search.shape.layers,
                               search.chain.point(), share * (bound - enough));
    };
    std::optional<PhaseSplit> open = open_phase(kWorthCutting);
    if (!open) {
      windows(false);
      if (bound <= enough || spent()) return bound;
      open = open_phase(-1);  // any
      if (!open) return bound;
    }
    return Cut(region, *open, enough, at, bound, why);
  }

  // Bounds both sides of a cut, unless that turns out no better than `bound`.
  double Cut(Region& region, PhaseSplit open, double enough, const Multipliers& at, double bound,
             Why& why) const {
    Why both = {{open.member ? Kind::kMemberPhase : Kind::kNetworkPhase, open.layer, open.unit}};
    double worst = -kInfinity;
    for (const bool active : {false, true}) {
      open.active = active;
      region.phases.push_back(open);
      Why side;
      // The other side need not be better than the worse one.
      worst = std::max(worst, Bound(region, std::max(enough, worst), at, side));
      std::ranges::move(side, std::back_inserter(both));
      region.phases.pop_back();
      if (worst >= bound) return bound;
    }
    why = std::move(both);
    return worst;
  }

  // The bound by lines, in the form that a proof has it.
  double ByLines(const PairFacts& facts, double enough, ProofCase& why) const {
    Multipliers multipliers;
    std::vector<float> dual;
    ChargedBound bound = bounder.Bound(facts, question, multipliers, kLineSteps, enough, &dual);
    why.lambda = multipliers.lambda;
    why.kind = Kind::kLines;
    if (!multipliers.slopes.empty() ||
        std::ranges::any_of(multipliers.pushes, [](float push) { return push != 0; })) {
      why.kind = Kind::kMultipliers;
      why.multipliers = std::move(dual);
      bound = bounder.BoundOfDual(facts, question, why.lambda, why.multipliers);
    }
    return std::isfinite(bound.value) ? bound.ForChecker() : kInfinity;
  }
};

double WindowBounder::Bound(RegionBounder& bounder, const Region& region, const Band* band,
                            std::span<const float> parameters, const PairQuestion& question,
                            double enough, std::vector<ProofCase>& why,
                            const std::function<bool()>& expired) {
  Region cases = region;
  search_->own = WindowParameters(search_->architecture, parameters);
  search_->work = 0;
  const std::function<bool()> is_over = [&] { return expired && expired(); };
  return Cases{*search_, bounder, parameters, question, band, is_over}.Bound(cases, enough, {},
                                                                             why);
}

}  // namespace lucid
