#include "audit/auditor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "audit/http_client.h"
#include "audit/recertified.h"
#include "base/files.h"
#include "base/parallel.h"
#include "evaluation/guard_files.h"
#include "evaluation/trained_baselines.h"
#include "lucid/baselines/private_training.h"
#include "lucid/promise/promise.h"

namespace lucid {
namespace {

constexpr double kNotApplicable = std::numeric_limits<double>::quiet_NaN();
constexpr AuditAttack kRowAttacks[] = {AuditAttack::kGap, AuditAttack::kNoise,
                                       AuditAttack::kBoundary};
constexpr AuditAttack kGames[] = {AuditAttack::kGap, AuditAttack::kNoise, AuditAttack::kBoundary,
                                  AuditAttack::kDistinguisher, AuditAttack::kAveraging};
// How often a target is asked with new keys where one guess costs one query.
constexpr std::int64_t kKeys = 8;
// About so many inputs are decided by all networks for one row of Naive-iDP.
constexpr std::int64_t kNaiveQueries = 1000;
constexpr std::int64_t kTimes = 4000;       // of each kind of input
constexpr std::int64_t kTimedInputs = 200;  // of each kind, at most
constexpr double kFloorSeconds = 4;         // that a row with a latency floor may take

}  // namespace

Auditor::Auditor(const std::string& run, const Ensemble& ensemble, const Table& train,
                 const Table& test, const AuditOptions& options, const ProgressCallback& progress,
                 std::stop_token stop, NetworkLabels network)
    : run_(run),
      ensemble_(ensemble),
      train_(train),
      test_(test),
      options_(options),
      progress_(progress),
      stop_(std::move(stop)),
      network_(std::move(network)) {}

Result<Auditor> Auditor::Create(const std::string& run, const Ensemble& ensemble,
                                const Table& train, const Table& test, const AuditOptions& options,
                                const ProgressCallback& progress, std::stop_token stop) {
  if (test.rows() > 0 && test.features != train.features) {
    return InvalidInput(
        fmt::format("test rows of {} features, the run has {}", test.features, train.features));
  }
  LUCID_ASSIGN(NetworkLabels network, NetworkLabels::Of(ensemble.network()));
  Auditor auditor(run, ensemble, train, test, options, progress, std::move(stop),
                  std::move(network));
  const std::int64_t count = std::min(options.targets, ensemble.members());
  for (std::int64_t i = 0; i < count; ++i) {
    if (auditor.stop_.stop_requested()) return Interrupted("stopped on request");
    const std::int64_t member = i * ensemble.members() / count;  // evenly spaced
    LUCID_ASSIGN(NetworkLabels without, NetworkLabels::Of(ensemble.Member(member)));
    Stream stream(options.seed, "disagreements", static_cast<std::uint64_t>(member));
    auto disagreements =
        FindDisagreements(auditor.network_, without, train, options.duplicates, stream);
    auditor.targets_.push_back(
        {member, ensemble.RowOf(member), std::move(without), std::move(disagreements)});
    if (progress) progress({"looking for disagreements", "rows", i + 1, count});
  }
  return auditor;
}

Status Auditor::AttackAll() {
  for (const Method method : AllMethods()) {
    const bool named = std::ranges::count(options_.accesses, method) > 0;
    if (!named && (!options_.accesses.empty() || method == Method::kNaiveIdp)) continue;
    LUCID_ASSIGN(const auto why_not, WhyNot(method));
    if (why_not && named) return InvalidInput(*why_not);
    if (why_not) {
      left_out.push_back(*why_not);
      continue;
    }
    if (progress_) progress_({"attacking", "rows", std::ssize(rows), 0, 0, NameOf(method)});
    LUCID_TRY(AttackMethod(method));
  }
  return Ok();
}

Status Auditor::AttackMethod(Method method) {
  if (IsTrained(method)) return AttackTrained(method);
  if (method == Method::kNaiveIdp) {
    LUCID_ASSIGN(NaiveIdp naive, NaiveIdp::Create(ensemble_, options_.threads));
    naive_ = std::make_shared<NaiveRegion>(std::move(naive));
  }
  for (const double epsilon : options_.epsilons) {
    LUCID_TRY(AttackInProcess(method, epsilon));
    if (options_.http && IsServed(method)) LUCID_TRY(AttackOverHttp(method, epsilon));
    if (method == Method::kNone) break;  // epsilon does not bear on it
  }
  naive_.reset();
  return Ok();
}

Status Auditor::AttackInProcess(Method method, double epsilon) {
  LUCID_ASSIGN(AuditedAccess access,
               AuditedAccess::Open(run_, options_.certificate, method, options_.mechanism, epsilon,
                                   ensemble_.network().architecture.classes(), naive_));
  const std::string name(NameOf(method));
  const auto at_network = [&access](const NetworkLabels& network) {
    return [&](std::span<const float> x) { return access.Ask(network, x); };
  };
  for (const AuditAttack attack : kGames) {
    if (!Asked(attack) || !options_.Plays(World::kLeaveOneOut)) continue;
    const auto oracle = [&](std::int64_t target, Side side) -> Oracle {
      return at_network(side == Side::kIn ? network_ : targets_[target].without);
    };
    LUCID_TRY(PlayAndKeep(LeaveOneOut(attack, method, oracle),
                          NewRow(attack, name, method, World::kLeaveOneOut, epsilon)));
  }
  if (method == Method::kExact && options_.Plays(World::kRecertified)) {
    LUCID_TRY(AttackRecertified(access, epsilon));
  }
  // Spatial bounds are made anew by minutes of search, and tell no more than the other two guards.
  const bool deploys = method == Method::kScalar || method == Method::kExact;
  if (deploys && options_.Plays(World::kDeployed)) {
    LUCID_TRY(AttackDeployed(method, epsilon));
  }
  for (const AuditAttack attack : kRowAttacks) {
    if (!Asked(attack)) continue;
    LUCID_TRY(PlayTrainTest(NewRow(attack, name, method, World::kTrainTest, epsilon), 1,
                            [&](std::int64_t) -> Oracle { return at_network(network_); }));
  }
  if (Asked(AuditAttack::kWhiteBox)) LUCID_TRY(WeighInProcess(access, method, epsilon));
  if (!access.guard() || !Asked(AuditAttack::kTiming))
    return Ok();  // without a region: nothing to tell
  const Guard& guard = *access.guard();
  return TimeAndKeep(
      InputsFor(guard), [&](std::span<const float> x) { return guard.Label(x); }, kTimes,
      NewRow(AuditAttack::kTiming, name, method, std::nullopt, epsilon));
}

Status Auditor::WeighInProcess(AuditedAccess& access, Method method, double epsilon) {
  if (!white_box_) {
    std::vector<KnownDisagreements> known;
    for (const Target& target : targets_) known.push_back({target.member, target.disagreements});
    std::vector<Witness> witnesses;
    const std::string path =
        options_.certificate.empty() ? PathIn(run_, kCertificateFile) : options_.certificate;
    DomainKind domain = DomainKind::kBox;
    if (const Result<Certificate> certificate = LoadCertificate(path); certificate.ok()) {
      domain = certificate->domain;
      for (const ClassBound& bound : certificate->classes) {
        if (bound.witness) witnesses.push_back(*bound.witness);
      }
    }
    LUCID_ASSIGN(white_box_, FindLabelChanges(ensemble_, domain, known, witnesses, test_,
                                              options_.seed, options_.threads, stop_));
  }
  rows.push_back(WeighAnswers(*white_box_, access,
                              NewRow(AuditAttack::kWhiteBox, std::string(NameOf(method)), method,
                                     World::kLeaveOneOut, epsilon)));
  return Ok();
}

Status Auditor::AttackOverHttp(Method method, double epsilon) {
  const std::string name = fmt::format("{} over http", NameOf(method));
  const HttpWorldsOptions options{.run = run_,
                                  .certificate = options_.certificate,
                                  .method = method,
                                  .mechanism = options_.mechanism,
                                  .epsilon = epsilon,
                                  .scratch = options_.scratch,
                                  .latency_floor = 0};
  LUCID_ASSIGN(HttpWorlds worlds, OpenWorlds(options));
  const Oracle deployed = [&](std::span<const float> x) { return worlds.AskDeployed(x); };
  for (const AuditAttack attack : kGames) {
    if (!Asked(attack) || !options_.Plays(World::kLeaveOneOut)) continue;
    const auto oracle = [&](std::int64_t target, Side side) -> Oracle {
      if (side == Side::kIn) return deployed;
      return [&worlds, &other = targets_[target].without](std::span<const float> x) {
        return worlds.AskOther(other, x);
      };
    };
    Game game = LeaveOneOut(attack, method, oracle);
    game.rounds = std::min(game.rounds, std::ssize(targets_));  // one deployment, one key
    LUCID_TRY(PlayAndKeep(game, NewRow(attack, name, method, World::kLeaveOneOut, epsilon)));
  }
  for (const AuditAttack attack : kRowAttacks) {
    if (!Asked(attack)) continue;
    LUCID_TRY(PlayTrainTest(NewRow(attack, name, method, World::kTrainTest, epsilon), 1,
                            [&](std::int64_t) { return deployed; }));
  }
  return GuardOf(method) && Asked(AuditAttack::kTiming) ? TimeOverHttp(worlds, options) : Ok();
}

Result<HttpWorlds> Auditor::OpenWorlds(const HttpWorldsOptions& options) const {
  return HttpWorlds::Open(options, ensemble_.manifest().schema,
                          ensemble_.network().architecture.classes(), network_);
}

Status Auditor::TimeOverHttp(HttpWorlds& worlds, HttpWorldsOptions options) {
  LUCID_ASSIGN(const Guard guard,
               Guard::Open(run_, options_.certificate, {.guard = *GuardOf(options.method)},
                           GuardKey::Random()));
  const TimedInputs inputs = InputsFor(guard);
  const auto time = [&](HttpWorlds& at, std::int64_t times, const std::string& with) {
    return TimeAndKeep(
        inputs, [&](std::span<const float> x) { return at.AskDeployed(x); }, times,
        NewRow(AuditAttack::kTiming, fmt::format("{} over http{}", NameOf(options.method), with),
               options.method, std::nullopt, options.epsilon));
  };
  LUCID_TRY(time(worlds, kTimes, ""));
  const double floor = options_.http->latency_floor;
  if (floor == 0) return Ok();
  options.latency_floor = floor;
  LUCID_ASSIGN(HttpWorlds floored, OpenWorlds(options));
  const auto times = std::min(static_cast<double>(kTimes), std::ceil(kFloorSeconds / floor / 2));
  return time(floored, static_cast<std::int64_t>(times),
              fmt::format(", floor {:g} ms", floor * 1e3));
}

Status Auditor::AttackUrl() {
  const std::string& url = options_.url->url;
  LUCID_ASSIGN(HttpClient client, HttpClient::Connect(url, options_.url->api_key));
  const Oracle ask = [&](std::span<const float> x) { return client.Ask(x); };
  LUCID_ASSIGN(const std::int32_t first, ask(train_.row(0)));
  if (first == kRefused) {
    return Mismatch(
        fmt::format("{}: refuses a training row of the run: it serves another one", url));
  }
  // Whoever runs it is not here to be held to an epsilon.
  const auto new_row = [&](AuditAttack attack, std::optional<World> world) {
    return NewRow(attack, url, Method::kNone, world, kNotApplicable);
  };
  for (const AuditAttack attack : kRowAttacks) {
    if (!Asked(attack)) continue;
    LUCID_TRY(
        PlayTrainTest(new_row(attack, World::kTrainTest), 1, [&](std::int64_t) { return ask; }));
  }
  if (!Asked(AuditAttack::kTiming)) return Ok();
  LUCID_ASSIGN(const auto missing,
               MissingGuardFile(run_, options_.certificate, GuardKind::kScalar));
  if (missing) {
    left_out.push_back(*missing);
    return Ok();
  }
  LUCID_ASSIGN(const Guard guard, Guard::Open(run_, options_.certificate, {}, GuardKey::Random()));
  return TimeAndKeep(InputsFor(guard), ask, kTimes / 4,
                     new_row(AuditAttack::kTiming, std::nullopt));
}

Status Auditor::AttackTrained(Method method) {
  EvaluationOptions evaluation;
  evaluation.epsilons = options_.epsilons;
  evaluation.threads = options_.threads;
  LUCID_ASSIGN(const auto baselines,
               TrainBaselines(run_, ensemble_.manifest(), train_, method == Method::kDpSgd,
                              evaluation, progress_, stop_));
  for (std::size_t k = 0; k < baselines.size(); ++k) {
    const double epsilon = EpsilonOfBaseline(evaluation, options_.epsilons[k]);
    std::vector<NetworkLabels> networks;
    for (const TrainedBaseline& baseline : baselines[k]) {
      LUCID_ASSIGN(NetworkLabels labels, NetworkLabels::Of(baseline.network));
      networks.push_back(std::move(labels));
    }
    for (const AuditAttack attack : kRowAttacks) {
      if (!Asked(attack)) continue;
      AuditRow row =
          NewRow(attack, std::string(NameOf(method)), method, World::kTrainTest, epsilon);
      LUCID_TRY(PlayTrainTest(row, std::ssize(networks), [&](std::int64_t network) -> Oracle {
        return [&labels = networks[network]](std::span<const float> x) { return labels(x); };
      }));
    }
    if (options_.Plays(World::kRetrained)) LUCID_TRY(AttackRetrained(method, epsilon));
  }
  return Ok();
}

Result<std::vector<Auditor::Pair>> Auditor::Retrain(Method method, double epsilon) const {
  LUCID_ASSIGN(const TrainOptions train,
               TrainOptions::FromCanonical(ensemble_.manifest().training));
  const Architecture& architecture = ensemble_.network().architecture;
  const auto one = [&](const Table& table) -> Result<NetworkLabels> {
    if (method == Method::kAlibi) {
      LUCID_ASSIGN(const Network network,
                   TrainAlibi(architecture, table, {train, epsilon, {}}, stop_));
      return NetworkLabels::Of(network);
    }
    DpSgdOptions options{.train = train, .epsilon = epsilon};
    LUCID_ASSIGN(const DpSgdNetwork trained, TrainDpSgd(architecture, table, options, stop_));
    return NetworkLabels::Of(trained.network);
  };
  const std::int64_t count = std::min(options_.retrained, std::ssize(targets_));
  std::vector<std::optional<Pair>> trained(static_cast<std::size_t>(count));
  std::mutex mutex;
  std::int64_t done = 0;
  LUCID_TRY(ParallelFor(count, options_.threads, stop_, [&](std::int64_t i, int) -> Status {
    const std::int64_t target = i * std::ssize(targets_) / count;
    LUCID_ASSIGN(NetworkLabels with, one(train_));
    LUCID_ASSIGN(NetworkLabels without, one(WithoutUnitOf(train_, targets_[target].row)));
    trained[i].emplace(Pair{std::move(with), std::move(without)});
    const std::lock_guard lock(mutex);
    if (progress_) progress_({"training pairs", "pairs", ++done, count, 0, NameOf(method)});
    return Ok();
  }));
  std::vector<Pair> pairs;
  pairs.reserve(trained.size());
  for (auto& pair : trained) pairs.push_back(*std::move(pair));
  return pairs;
}

Status Auditor::AttackRetrained(Method method, double epsilon) {
  LUCID_ASSIGN(const std::vector<Pair> pairs, Retrain(method, epsilon));
  const auto target_of = [&](std::int64_t round) -> const Target& {
    return targets_[round * std::ssize(targets_) / std::ssize(pairs)];
  };
  Game game{.rounds = std::ssize(pairs), .subject = {}, .oracle = {}};
  game.subject = [&](std::int64_t round, Side) { return SubjectOf(target_of(round)); };
  game.oracle = [&](std::int64_t round, Side side) -> Oracle {
    const NetworkLabels& labels = side == Side::kIn ? pairs[round].with : pairs[round].without;
    return [&labels](std::span<const float> x) { return labels(x); };
  };
  for (const AuditAttack attack : kGames) {
    if (!Asked(attack)) continue;
    LUCID_TRY(PlayAndKeep(
        game, NewRow(attack, std::string(NameOf(method)), method, World::kRetrained, epsilon)));
  }
  return Ok();
}

Status Auditor::AttackRecertified(AuditedAccess& access, double epsilon) {
  if (!Asked(AuditAttack::kDistinguisher)) return Ok();
  std::vector<PointWithout> points;
  std::vector<std::size_t> point_of(targets_.size());  // its first disagreement's
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (targets_[t].disagreements.empty()) continue;  // never asked
    point_of[t] = points.size();
    points.push_back({targets_[t].member, targets_[t].disagreements.front().x});
  }
  LUCID_ASSIGN(const std::vector<bool> noised,
               NoisedWithoutRow(ensemble_, points, progress_, stop_));
  const auto oracle = [&](std::int64_t target, Side side) -> Oracle {
    return [&, target, side](std::span<const float> x) {
      if (side == Side::kIn) return access.Ask(network_, x);
      return access.AskInRegion(targets_[target].without, x, noised[point_of[target]]);
    };
  };
  return PlayAndKeep(
      LeaveOneOut(AuditAttack::kDistinguisher, Method::kExact, oracle),
      NewRow(AuditAttack::kDistinguisher, "exact", Method::kExact, World::kRecertified, epsilon));
}

double Auditor::ClaimOf(Method method, std::optional<World> world, double epsilon,
                        std::int64_t queries) const {
  const double composed = epsilon * static_cast<double>(queries);
  if (method == Method::kDpSgd) return epsilon;  // of the network, and so of whatever is asked
  if (method == Method::kNaiveNoise) return composed;
  // The noised set is a constant of the promise `labels`. Where it changes with the data, or the
  // rows that are compared are none of its, nothing is promised.
  if (world != World::kLeaveOneOut) return kNotApplicable;
  if (method == Method::kNaiveIdp) return composed;
  if (!GuardOf(method)) return kNotApplicable;
  const Result<Promise> promise = PromiseOfRun(
      run_, options_.certificate, {.scalar = method == Method::kScalar, .epsilon = epsilon});
  return promise.ok() && promise->labels() ? composed : kNotApplicable;
}

AuditRow Auditor::NewRow(AuditAttack attack, std::string access, Method method,
                         std::optional<World> world, double epsilon) const {
  AuditRow row;
  row.attack = attack;
  row.access = std::move(access);
  row.world = world;
  row.queries = QueriesOf(attack, options_.duplicates);
  row.epsilon = method == Method::kNone ? kNotApplicable : epsilon;
  row.delta = method == Method::kDpSgd ? EvaluationOptions().delta : 0;
  row.claimed = ClaimOf(method, world, epsilon, row.queries);
  return row;
}

bool Auditor::Asked(AuditAttack attack) const {
  return options_.attacks.empty() || std::ranges::count(options_.attacks, attack) > 0;
}

Result<std::optional<std::string>> Auditor::WhyNot(Method method) const {
  if (const auto guard = GuardOf(method)) {
    return MissingGuardFile(run_, options_.certificate, *guard);
  }
  if (!IsTrained(method)) return std::optional<std::string>();
  if (!TrainOptions::FromCanonical(ensemble_.manifest().training).ok()) {
    return std::optional(fmt::format(
        "{} cannot train like this run, whose networks come from elsewhere", NameOf(method)));
  }
  if (test_.rows() == 0 && options_.retrained == 0) {
    return std::optional(
        fmt::format("{} is attacked with test rows, and there are none", NameOf(method)));
  }
  return std::optional<std::string>();
}

Status Auditor::PlayAndKeep(const Game& game, AuditRow row) {
  const AuditAttack attack = row.attack;
  const std::string access = row.access;
  LUCID_ASSIGN(auto played, Play(game, std::move(row), options_.seed, stop_));
  if (played) {
    rows.push_back(*std::move(played));
  } else {
    left_out.push_back(fmt::format(
        "{} on {}: {}", NameOf(attack), access,
        attack == AuditAttack::kRegion ? "fewer than two pairs of services that answer differently"
        : NeedsDisagreements(attack)
            ? "fewer than two rows have an input on which N and their member disagree"
            : "fewer than two rows to attack"));
  }
  return Ok();
}

Status Auditor::TimeAndKeep(const TimedInputs& inputs, const Oracle& ask, std::int64_t times,
                            AuditRow row) {
  if (inputs.noised.empty()) {
    left_out.push_back(fmt::format(
        "timing on {}: among its inputs are none that are noised, or only such", row.access));
    return Ok();
  }
  LUCID_ASSIGN(AuditRow timed,
               TimeAccess(inputs, ask, times, std::move(row), options_.seed, stop_));
  rows.push_back(std::move(timed));
  return Ok();
}

Status Auditor::PlayTrainTest(const AuditRow& row, std::int64_t networks,
                              const std::function<Oracle(std::int64_t network)>& ask) {
  if (!options_.Plays(World::kTrainTest)) return Ok();
  const std::int64_t pairs = std::min(std::ssize(targets_), test_.rows());
  Game game{.rounds = pairs * networks, .subject = {}, .oracle = {}};
  if (naive_ != nullptr) game.rounds = std::min(game.rounds, kNaiveQueries / row.queries);
  game.subject = [&](std::int64_t round, Side side) -> Subject {
    const std::int64_t pair = round % pairs;
    const bool in = side == Side::kIn;
    const Table& table = in ? train_ : test_;
    const std::int64_t at = in ? targets_[pair].row : pair * test_.rows() / pairs;
    return {table.row(at), table.y[at]};
  };
  game.oracle = [&](std::int64_t round, Side) { return ask(round / pairs); };
  if (pairs > 0) return PlayAndKeep(game, row);
  left_out.push_back(fmt::format("{} on {} in the world {}: there are no test rows",
                                 NameOf(row.attack), row.access, NameOf(World::kTrainTest)));
  return Ok();
}

Game Auditor::LeaveOneOut(AuditAttack attack, Method method,
                          std::function<Oracle(std::int64_t target, Side side)> oracle) const {
  const std::int64_t queries = QueriesOf(attack, options_.duplicates);
  std::int64_t targets = std::ssize(targets_);
  if (method == Method::kNaiveIdp) targets = std::min(targets, kNaiveQueries / queries + 1);
  Game game{.rounds = targets * (queries == 1 ? kKeys : 1), .subject = {}, .oracle = {}};
  game.subject = [this, targets](std::int64_t round, Side) {
    return SubjectOf(targets_[round % targets]);
  };
  game.oracle = [targets, oracle = std::move(oracle)](std::int64_t round, Side side) {
    return oracle(round % targets, side);
  };
  return game;
}

Subject Auditor::SubjectOf(const Target& target) const {
  return {train_.row(target.row), train_.y[target.row], target.disagreements};
}

TimedInputs Auditor::InputsFor(const Guard& guard) const {
  TimedInputs inputs;
  const auto add_if = [&](bool noised, std::span<const float> input,
                          std::vector<std::vector<float>>& into) {
    std::vector<float> x(input.begin(), input.end());
    if (std::ssize(into) == kTimedInputs || !guard.Canonicalize(x).ok()) return;
    if (guard.Ask(x).noised == noised) into.push_back(std::move(x));
  };
  for (const Target& target : targets_) {
    add_if(false, train_.row(target.row), inputs.others);
    // Every guard noises where a member disagrees.
    if (target.disagreements.empty()) continue;
    add_if(true, target.disagreements.front().x, inputs.noised);
  }
  const std::size_t count = std::min(inputs.noised.size(), inputs.others.size());
  inputs.noised.resize(count);
  inputs.others.resize(count);
  return inputs;
}

}  // namespace lucid
