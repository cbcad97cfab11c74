#include "attack/attack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "attack/attack_ascent.h"
#include "attack/attack_pool.h"
#include "attack/attack_score.h"
#include "attack/network_gradient.h"
#include "attack/witness.h"
#include "base/parallel.h"
#include "numeric/rounding.h"
#include "random/stream.h"

namespace lucid {
namespace {

using Point = std::vector<double>;

// Local searches that run between two looks at the elites. Fixed, so that what a search starts from
// does not depend on the number of threads.
constexpr std::int64_t kRound = 32;
constexpr std::size_t kMembersPerPoint = 4;  // kept when points are scored
constexpr std::size_t kElites = 32;
constexpr int kRescorings = 4;          // times that all members are scored on the elites
constexpr double kApart = 0.02;         // points nearer than this count as one
constexpr std::size_t kPerPlace = 3;    // elites at one place, of different members
constexpr std::size_t kPerMember = 16;  // elites of one member
constexpr std::int64_t kFresh = 4;      // searches of a round that start from the pool
// Far from the pool, near from an elite, and at the end to the last digit.
constexpr TrustBox kFromPool{0.2, 1e-3}, kFromElite{0.1, 1e-3}, kPolish{0.01, 1e-7};
constexpr int kCertifyRestoration = 20;
constexpr int kLineSearch = 12;
constexpr std::size_t kCertified = 16;  // elites that are certified at most

// A pair to search from, and what the search found.
struct Candidate {
  Point x;
  std::int64_t member = 0;
  TrustBox box = kFromPool;
  double f = 0;
};

// The mean difference of a coordinate.
double Distance(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) sum += std::abs(a[j] - b[j]);
  return sum / static_cast<double>(a.size());
}

// The best candidates, largest f first, kept apart: by place, and by member, so that one broad hill
// does not crowd out the rest.
class Elites {
 public:
  void Offer(const Candidate& candidate) {
    if (candidate.f <= 0) return;
    std::size_t at = 0, near = 0, siblings = 0;
    for (; at < items_.size() && items_[at].f >= candidate.f; ++at) {
      const bool close = Distance(items_[at].x, candidate.x) <= kApart;
      const bool same = items_[at].member == candidate.member;
      if (close && same) return;
      near += close;
      siblings += same;
    }
    if (near >= kPerPlace || siblings >= kPerMember) return;
    items_.insert(items_.begin() + static_cast<std::ptrdiff_t>(at), candidate);
    // Candidates below the new one go if it leaves no room for them.
    std::erase_if(items_, [&](const Candidate& other) {
      if (other.f >= candidate.f) return false;
      const bool close = Distance(other.x, candidate.x) <= kApart;
      const bool same = other.member == candidate.member;
      return (close && same) || (close && ++near >= kPerPlace) ||
             (same && ++siblings >= kPerMember);
    });
    if (items_.size() > kElites) items_.resize(kElites);
  }
  const std::vector<Candidate>& items() const { return items_; }

 private:
  std::vector<Candidate> items_;
};

class PairSearch {
 public:
  PairSearch(const Network& network, const Members& members, std::int32_t label,
             const AttackOptions& options, std::stop_token stop)
      : network_(network), members_(members), label_(label), options_(options), stop_(stop) {
    const Worker fresh(network, label, options.domain);
    workers_.assign(static_cast<std::size_t>(EffectiveThreads(options.threads)), fresh);
  }

  // Requires: a non-empty pool.
  Result<std::vector<Candidate>> Run(std::span<const float> pool) {
    LUCID_ASSIGN(const std::vector<Candidate> starts, PoolStarts(pool));
    auto fresh = starts.begin();
    const auto take_fresh = [&](std::int64_t count, std::vector<Candidate>& tasks) {
      for (; count > 0 && fresh != starts.end(); --count) tasks.push_back(*fresh++);
    };
    std::vector<Candidate> tasks;
    take_fresh((options_.local_searches + 3) / 4, tasks);
    auto done = static_cast<std::int64_t>(tasks.size());
    LUCID_TRY(ClimbAll(std::move(tasks)));
    for (int rescored = 0; done < options_.local_searches;) {
      tasks.clear();
      if (elites_.items().empty()) {
        take_fresh(kRound, tasks);
        if (tasks.empty()) break;
      } else if (done >= rescored * options_.local_searches / kRescorings) {
        ++rescored;
        LUCID_ASSIGN(tasks, OtherMembers());
      } else {
        take_fresh(kFresh, tasks);
        while (static_cast<std::int64_t>(tasks.size()) < kRound) tasks.push_back(Mutant());
      }
      done += static_cast<std::int64_t>(tasks.size());
      LUCID_TRY(ClimbAll(std::move(tasks)));
    }
    std::vector<Candidate> last = elites_.items();
    last.resize(std::min(last.size(), kCertified));
    for (Candidate& elite : last) elite.box = kPolish;
    LUCID_TRY(ClimbAll(std::move(last)));
    return elites_.items();
  }

 private:
  struct Worker {
    Worker(const Network& n, std::int32_t label, const Domain* domain)
        : network(n.architecture, n.parameters, label),
          ascent(n.architecture.inputs(), domain),
          parameters(n.parameters.size()) {}
    NetworkGradient network, member;
    PairAscent ascent;
    std::vector<float> parameters;
  };

  // The pairs of pool points and members with the smallest g (at the boundary of N, the largest
  // h = f - g), apart from each other.
  Result<std::vector<Candidate>> PoolStarts(std::span<const float> pool) {
    const std::int64_t inputs = network_.architecture.inputs();
    const PointBatch batch(pool, inputs);
    LUCID_ASSIGN(const auto scores,
                 ScoreMembers(members_, label_, batch, kMembersPerPoint, options_.threads, stop_));
    std::vector<std::pair<MemberScore, std::size_t>> order;
    for (std::size_t p = 0; p < scores.size(); ++p) {
      for (const MemberScore& score : scores[p]) order.emplace_back(score, p);
    }
    std::ranges::sort(order);
    const auto wanted = static_cast<std::size_t>((options_.local_searches + 1) / 2);
    std::vector<Candidate> starts;
    std::map<std::int64_t, std::vector<std::size_t>> of_member;
    for (const auto& [score, p] : order) {
      if (starts.size() == wanted) break;
      std::vector<std::size_t>& siblings = of_member[score.member];
      if (siblings.size() * 4 > wanted) continue;
      const auto x = pool.subspan(p * inputs, inputs);
      Candidate start{Point(x.begin(), x.end()), score.member};
      const bool near = std::ranges::any_of(siblings, [&](std::size_t other) {
        return Distance(starts[other].x, start.x) <= kApart;
      });
      if (near) continue;
      siblings.push_back(starts.size());
      starts.push_back(std::move(start));
    }
    return starts;
  }

  // Pairs the elites' points with the members of smallest g that they are not paired with yet.
  Result<std::vector<Candidate>> OtherMembers() {
    std::vector<float> points;
    for (const Candidate& elite : elites_.items()) {
      for (const double v : elite.x) points.push_back(static_cast<float>(v));
    }
    const PointBatch batch(points, network_.architecture.inputs());
    LUCID_ASSIGN(const auto scores,
                 ScoreMembers(members_, label_, batch, kMembersPerPoint, options_.threads, stop_));
    std::vector<Candidate> tasks;
    for (std::size_t p = 0; p < scores.size(); ++p) {
      const Candidate& elite = elites_.items()[p];
      for (const MemberScore& score : scores[p]) {
        if (score.member != elite.member) tasks.push_back({elite.x, score.member, kFromElite});
      }
    }
    return tasks;
  }

  Candidate Mutant() {
    Stream stream(options_.seed, "attack mutant", mutants_++);
    const std::vector<Candidate>& elites = elites_.items();
    const auto pick = [&] {  // better ones more often
      const double u = stream.Uniform();
      return static_cast<std::size_t>(u * u * static_cast<double>(elites.size()));
    };
    Candidate mutant = elites[pick()];
    Point& x = mutant.x;
    const std::uint64_t kind = stream.Below(4), count = 1 + stream.Below(3);
    if (kind == 0) {
      for (std::uint64_t i = 0; i < count; ++i) {
        double& v = x[stream.Below(x.size())];
        v = v < 0.5 ? 1 : 0;
      }
    } else if (kind == 1) {
      for (std::uint64_t i = 0; i < count; ++i) x[stream.Below(x.size())] = stream.Uniform();
    } else if (kind == 2) {
      const double size = stream.Below(2) == 0 ? 0.02 : 0.1;
      for (double& v : x) v = std::clamp(v + size * stream.Normal(), 0.0, 1.0);
    } else {
      const Point& other = elites[pick()].x;
      for (std::size_t j = 0; j < x.size(); ++j) {
        if (stream.Below(2) == 0) x[j] = other[j];
      }
    }
    if (options_.domain != nullptr) MoveInto(*options_.domain, stream, x);
    if (stream.Below(4) == 0) mutant.member = elites[pick()].member;
    mutant.box = stream.Below(2) == 0 ? kFromElite : kFromPool;
    return mutant;
  }

  // Now and then another category; what was moved off the domain goes to the nearest one.
  static void MoveInto(const Domain& domain, Stream& stream, Point& x) {
    domain.Project(std::span(x));
    if (domain.groups().empty() || stream.Below(2) == 0) return;
    const Domain::Group& group = domain.groups()[stream.Below(domain.groups().size())];
    std::ranges::copy(group.points[stream.Below(group.points.size())], x.begin() + group.first);
  }

  Status ClimbAll(std::vector<Candidate> tasks) {
    const auto count = static_cast<std::int64_t>(tasks.size());
    LUCID_TRY(ParallelFor(count, options_.threads, stop_, [&](std::int64_t i, int w) {
      Worker& worker = workers_[w];
      Candidate& task = tasks[i];
      members_.CopyParameters(task.member, worker.parameters);
      worker.member.Assign(network_.architecture, worker.parameters, label_);
      task.f = worker.ascent.Climb(worker.network, worker.member, task.box, task.x).value_or(0);
      return Ok();
    }));
    for (const Candidate& task : tasks) elites_.Offer(task);
    return Ok();
  }

  const Network& network_;
  const Members& members_;
  std::int32_t label_;
  const AttackOptions& options_;
  std::stop_token stop_;
  std::vector<Worker> workers_;
  Elites elites_;
  std::uint64_t mutants_ = 0;
};

// Turns elites into witnesses: float32 inputs whose signs of f and g are beyond rounding errors.
class Certifier {
 public:
  Certifier(const Network& network, const Members& members, std::int32_t label,
            const Domain* domain)
      : members_(members), label_(label), domain_(domain), evaluator_(network) {}

  AttackResult Run(std::span<const Candidate> elites) {
    AttackResult best;
    for (const Candidate& elite : elites.first(std::min(elites.size(), kCertified))) {
      if (elite.f <= best.beta_lower) break;  // descending, and rounding gains next to nothing
      Certify(elite, best);
    }
    return best;
  }

 private:
  // The member of an elite with what certifying needs.
  struct Pair {
    explicit Pair(const Network& member, std::int32_t label)
        : evaluator(member), gradient(member.architecture, member.parameters, label) {}
    Evaluator evaluator;
    NetworkGradient gradient;
  };

  void Certify(const Candidate& elite, AttackResult& best) {
    const Network member = members_.Member(elite.member);
    Pair pair(member, label_);
    PairAscent ascent(member.architecture.inputs(), domain_);
    // Deeper and deeper inside until float32 inputs and the error bound fit.
    const double first = 2 * pair.evaluator.ConfidenceErrorBound();
    for (double depth = first; depth < elite.f; depth = 4 * depth + 1e-9) {
      Point inside = elite.x;
      if (!ascent.Restore(pair.gradient, -depth, kCertifyRestoration, inside)) continue;
      if (!Offer(pair, elite.member, inside, best)) continue;
      // Back towards the elite as far as it certifies.
      Point outside = elite.x, middle(inside.size());
      for (int i = 0; i < kLineSearch; ++i) {
        for (std::size_t j = 0; j < middle.size(); ++j) middle[j] = (inside[j] + outside[j]) / 2;
        std::swap(Offer(pair, elite.member, middle, best) ? inside : outside, middle);
      }
      return;
    }
  }

  // Whether g is certainly <= 0 at x rounded to float32; if so, f there may be the best.
  bool Offer(Pair& pair, std::int64_t member, const Point& x, AttackResult& best) const {
    std::vector<float> rounded = RoundInside(pair.gradient, x);
    const double g = SignedConfidence(pair.evaluator, rounded, label_);
    if (!(g <= -pair.evaluator.ConfidenceErrorBound())) return false;
    const double f = SignedConfidence(evaluator_, rounded, label_);
    const double lower = NextDown(f - evaluator_.ConfidenceErrorBound());
    if (lower > best.beta_lower) best = {lower, Witness{std::move(rounded), member, 0}};
    return true;
  }

  // Each coordinate to the neighbouring float32 on the side where g is smaller.
  static std::vector<float> RoundInside(NetworkGradient& gradient, const Point& x) {
    Point slope(x.size());
    gradient.Evaluate(x);
    gradient.Gradient(slope);
    std::vector<float> rounded(x.size());
    for (std::size_t j = 0; j < x.size(); ++j) {
      float v = static_cast<float>(x[j]);
      if (slope[j] > 0 && v > x[j]) v = std::nextafter(v, 0.0f);
      if (slope[j] < 0 && v < x[j]) v = std::nextafter(v, 1.0f);
      rounded[j] = std::clamp(v, 0.0f, 1.0f);
    }
    return rounded;
  }

  const Members& members_;
  std::int32_t label_;
  const Domain* domain_;
  Evaluator evaluator_;
};

Status Validate(const Network& network, const Members& members, std::int32_t label,
                std::span<const float> data, const AttackOptions& options) {
  const Architecture& architecture = network.architecture;
  if (label < 0 || label >= architecture.classes()) {
    return InvalidInput(fmt::format("attack: label is {}, the network has {} classes", label,
                                    architecture.classes()));
  }
  if (data.size() % static_cast<std::size_t>(architecture.inputs()) != 0) {
    return InvalidInput(fmt::format("attack: {} data values are not rows of {} inputs", data.size(),
                                    architecture.inputs()));
  }
  if (options.pool < 1 || options.local_searches < 1 || options.threads < 0) {
    return InvalidInput(
        fmt::format("attack: pool {} and local_searches {} must be at least 1, "
                    "threads {} at least 0",
                    options.pool, options.local_searches, options.threads));
  }
  if (members.count() > 0 && !(members.architecture() == architecture)) {
    return Mismatch(fmt::format("attack: the members are '{}', the network is '{}'",
                                members.architecture().Canonical(), architecture.Canonical()));
  }
  return Ok();
}

}  // namespace

AttackResult CertifyPair(const Network& network, const Members& members, std::int32_t label,
                         std::int64_t member, const std::vector<double>& x, double f,
                         const Domain* domain) {
  const Candidate candidate{x, member, kPolish, f};
  return Certifier(network, members, label, domain).Run({&candidate, 1});
}

Result<AttackResult> Attack(const Network& network, const Members& members, std::int32_t label,
                            std::span<const float> data, const AttackOptions& options,
                            std::stop_token stop) {
  LUCID_TRY(Validate(network, members, label, data, options));
  if (members.count() == 0) return AttackResult{};
  std::vector<float> pool = DrawBoundary(network, label, data, options.pool, options.seed);
  if (pool.empty()) return AttackResult{};
  const auto inputs = static_cast<std::size_t>(network.architecture.inputs());
  for (std::size_t at = 0; options.domain != nullptr && at < pool.size(); at += inputs) {
    options.domain->Project(std::span(pool).subspan(at, inputs));
  }
  LUCID_ASSIGN(const std::vector<Candidate> elites,
               PairSearch(network, members, label, options, stop).Run(pool));
  return Certifier(network, members, label, options.domain).Run(elites);
}

AttackResult AttackMember(const Network& network, const Members& members, std::int32_t label,
                          std::int64_t member, const AttackOptions& options, std::stop_token stop) {
  const MemoryMembers alone({members.Member(member)});
  const Result<AttackResult> found = Attack(network, alone, label, {}, options, stop);
  AttackResult result = found.ok() ? *found : AttackResult{};
  if (result.witness) result.witness->member = member;
  return result;
}

}  // namespace lucid
