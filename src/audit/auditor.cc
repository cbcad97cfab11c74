#include "audit/auditor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "audit/http_client.h"
#include "audit/recertified.h"
#include "base/files.h"
#include "evaluation/guard_files.h"
#include "evaluation/study_team.h"
#include "evaluation/trained_baselines.h"
#include "lucid/promise/promise.h"

namespace lucid {
namespace {

constexpr double kNotApplicable = std::numeric_limits<double>::quiet_NaN();
constexpr AuditAttack kRowAttacks[] = {AuditAttack::kGap, AuditAttack::kNoise,
                                       AuditAttack::kBoundary};
constexpr AuditAttack kGames[] = {AuditAttack::kGap, AuditAttack::kNoise, AuditAttack::kBoundary,
                                  AuditAttack::kDistinguisher, AuditAttack::kAveraging};
constexpr std::int64_t kTimes = 4000;  // of each kind of input
constexpr double kFloorSeconds = 4;    // that a row with a latency floor may take

}  // namespace

Auditor::Auditor(std::unique_ptr<AuditScene> scene)
    : scene_(std::move(scene)),
      record_(std::make_unique<AuditRecord>(*scene_)),
      deployed_(std::make_unique<DeployedGame>(*scene_, *record_)) {}

Result<Auditor> Auditor::Create(const std::string& run, const Ensemble& ensemble,
                                const Table& train, const Table& test, const AuditOptions& options,
                                TaskTeam* team, const ProgressCallback& progress,
                                std::stop_token stop) {
  if (test.rows() > 0 && test.features != train.features) {
    return InvalidInput(
        fmt::format("test rows of {} features, the run has {}", test.features, train.features));
  }
  LUCID_ASSIGN(NetworkLabels network, NetworkLabels::Of(ensemble.network()));
  auto scene =
      std::make_unique<AuditScene>(AuditScene{run,
                                              ensemble,
                                              train,
                                              test,
                                              options,
                                              progress,
                                              std::move(stop),
                                              team,
                                              std::move(network),
                                              {},
                                              Domain::OfSchema(ensemble.manifest().schema)});
  const std::int64_t count = std::min(options.targets, ensemble.members());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t member = i * ensemble.members() / count;  // evenly spaced
    LUCID_ASSIGN(NetworkLabels without, NetworkLabels::Of(ensemble.Member(member)));
    scene->targets.push_back({member, ensemble.RowOf(member), std::move(without), {}});
  }
  LUCID_TRY(FindAllDisagreements(*scene));
  return Auditor(std::move(scene));
}

Status Auditor::AttackAll() {
  for (const Method method : AllMethods()) {
    const bool named = std::ranges::count(scene_->options.accesses, method) > 0;
    if (!named && (!scene_->options.accesses.empty() || method == Method::kNaiveIdp)) continue;
    LUCID_ASSIGN(const auto why_not, WhyNot(method));
    if (why_not && named) return InvalidInput(*why_not);
    if (why_not) {
      record_->left_out.push_back(*why_not);
      continue;
    }
    if (scene_->progress)
      scene_->progress({"attacking", "rows", std::ssize(record_->rows), 0, 0, NameOf(method)});
    LUCID_TRY(AttackMethod(method));
  }
  return Ok();
}

Status Auditor::AttackMethod(Method method) {
  if (IsTrained(method)) return AttackTrained(method);
  if (method == Method::kNaiveIdp) {
    LUCID_ASSIGN(NaiveIdp naive, NaiveIdp::Create(scene_->ensemble, scene_->options.threads));
    naive_ = std::make_shared<NaiveRegion>(std::move(naive));
  }
  for (const double epsilon : scene_->options.epsilons) {
    LUCID_TRY(AttackInProcess(method, epsilon));
    if (scene_->options.http && IsServed(method)) LUCID_TRY(AttackOverHttp(method, epsilon));
    if (method == Method::kNone) break;  // epsilon does not bear on it
  }
  naive_.reset();
  return Ok();
}

Status Auditor::AttackInProcess(Method method, double epsilon) {
  LUCID_ASSIGN(AuditedAccess access,
               AuditedAccess::Open(scene_->run, scene_->options.certificate, method,
                                   scene_->options.mechanism, epsilon,
                                   scene_->ensemble.network().architecture.classes(), naive_));
  const std::string name(NameOf(method));
  const auto at_network = [&access](const NetworkLabels& network) {
    return [&](std::span<const float> x) { return access.Ask(network, x); };
  };
  for (const AuditAttack attack : kGames) {
    if (!scene_->Asked(attack) || !scene_->options.Plays(World::kLeaveOneOut)) continue;
    const auto oracle = [&](std::int64_t target, Side side) -> Oracle {
      return at_network(side == Side::kIn ? scene_->network : scene_->targets[target].without);
    };
    LUCID_TRY(
        record_->PlayAndKeep(scene_->LeaveOneOut(attack, method, oracle),
                             record_->NewRow(attack, name, method, World::kLeaveOneOut, epsilon)));
  }
  if (method == Method::kExact && scene_->options.Plays(World::kRecertified)) {
    LUCID_TRY(AttackRecertified(access, epsilon));
  }
  if (Deploys(method)) LUCID_TRY(deployed_->Attack(method, epsilon));
  for (const AuditAttack attack : kRowAttacks) {
    if (!scene_->Asked(attack)) continue;
    LUCID_TRY(PlayTrainTest(record_->NewRow(attack, name, method, World::kTrainTest, epsilon), 1,
                            [&](std::int64_t) -> Oracle { return at_network(scene_->network); }));
  }
  if (scene_->Asked(AuditAttack::kWhiteBox)) LUCID_TRY(WeighInProcess(access, method, epsilon));
  if (!access.guard() || !scene_->Asked(AuditAttack::kTiming))
    return Ok();  // without a region: nothing to tell
  const Guard& guard = *access.guard();
  return record_->TimeAndKeep(
      scene_->InputsFor(guard), [&](std::span<const float> x) { return guard.Label(x); }, kTimes,
      record_->NewRow(AuditAttack::kTiming, name, method, std::nullopt, epsilon));
}

bool Auditor::Deploys(Method method) const {
  if (!scene_->options.Plays(World::kDeployed)) return false;
  // Spatial bounds are made anew by a search for every world: only who names them pays for that.
  return method == Method::kScalar || method == Method::kExact ||
         (method == Method::kSpatial && std::ranges::count(scene_->options.accesses, method) > 0);
}

Status Auditor::WeighInProcess(AuditedAccess& access, Method method, double epsilon) {
  if (!white_box_) {
    std::vector<KnownDisagreements> known;
    for (const AuditTarget& target : scene_->targets)
      known.push_back({target.member, target.disagreements});
    std::vector<Witness> witnesses;
    const std::string path = scene_->options.certificate.empty()
                                 ? PathIn(scene_->run, kCertificateFile)
                                 : scene_->options.certificate;
    const Manifest& manifest = scene_->ensemble.manifest();
    DomainKind domain = DefaultDomain(manifest.schema);  // of declared bounds
    if (const Result<Certificate> certificate = LoadCertificate(path); certificate.ok()) {
      if (!HasDeclaredAccess(manifest)) domain = certificate->domain;
      for (const ClassBound& bound : certificate->classes) {
        if (bound.witness) witnesses.push_back(*bound.witness);
      }
    }
    LUCID_ASSIGN(white_box_, FindLabelChanges(scene_->ensemble, domain, known, witnesses,
                                              scene_->test, scene_->options.seed, scene_->team,
                                              scene_->options.threads, scene_->stop));
  }
  record_->rows.push_back(
      WeighAnswers(*white_box_, access,
                   record_->NewRow(AuditAttack::kWhiteBox, std::string(NameOf(method)), method,
                                   World::kLeaveOneOut, epsilon)));
  return Ok();
}

Status Auditor::AttackOverHttp(Method method, double epsilon) {
  const std::string name = fmt::format("{} over http", NameOf(method));
  const HttpWorldsOptions options{.run = scene_->run,
                                  .certificate = scene_->options.certificate,
                                  .method = method,
                                  .mechanism = scene_->options.mechanism,
                                  .epsilon = epsilon,
                                  .scratch = scene_->options.scratch,
                                  .latency_floor = 0,
                                  .connections = scene_->options.http->connections,
                                  .ledger = scene_->options.http->ledger};
  LUCID_ASSIGN(HttpWorlds worlds, OpenWorlds(options));
  const Oracle deployed = [&](std::span<const float> x) { return worlds.AskDeployed(x); };
  for (const AuditAttack attack : kGames) {
    if (!scene_->Asked(attack) || !scene_->options.Plays(World::kLeaveOneOut)) continue;
    const auto oracle = [&](std::int64_t target, Side side) -> Oracle {
      if (side == Side::kIn) return deployed;
      return [&worlds, &other = scene_->targets[target].without](std::span<const float> x) {
        return worlds.AskOther(other, x);
      };
    };
    Game game = scene_->LeaveOneOut(attack, method, oracle);
    game.rounds = std::min(game.rounds, std::ssize(scene_->targets));  // one deployment, one key
    LUCID_TRY(record_->PlayAndKeep(
        game, record_->NewRow(attack, name, method, World::kLeaveOneOut, epsilon)));
  }
  for (const AuditAttack attack : kRowAttacks) {
    if (!scene_->Asked(attack)) continue;
    LUCID_TRY(PlayTrainTest(record_->NewRow(attack, name, method, World::kTrainTest, epsilon), 1,
                            [&](std::int64_t) { return deployed; }));
  }
  if (Deploys(method)) LUCID_TRY(deployed_->AttackOverHttp(method, epsilon));
  return GuardOf(method) && scene_->Asked(AuditAttack::kTiming) ? TimeOverHttp(worlds, options)
                                                                : Ok();
}

Result<HttpWorlds> Auditor::OpenWorlds(const HttpWorldsOptions& options) const {
  return HttpWorlds::Open(options, scene_->ensemble.manifest().schema,
                          scene_->ensemble.network().architecture.classes(), scene_->network);
}

Status Auditor::TimeOverHttp(HttpWorlds& worlds, HttpWorldsOptions options) {
  LUCID_ASSIGN(const Guard guard,
               Guard::Open(scene_->run, scene_->options.certificate,
                           {.guard = *GuardOf(options.method)}, GuardKey::Random()));
  const TimedInputs inputs = scene_->InputsFor(guard);
  std::vector<std::vector<float>> all = inputs.noised;
  all.insert(all.end(), inputs.others.begin(), inputs.others.end());
  const auto time = [&](HttpWorlds& at, std::int64_t times, const std::string& with) -> Status {
    if (!all.empty()) LUCID_TRY(at.AskMeanwhile(all, scene_->options.seed));
    return record_->TimeAndKeep(
        inputs, [&](std::span<const float> x) { return at.AskDeployed(x); }, times,
        record_->NewRow(AuditAttack::kTiming,
                        fmt::format("{} over http{}", NameOf(options.method), with), options.method,
                        std::nullopt, options.epsilon));
  };
  LUCID_TRY(time(worlds, kTimes, ""));
  const double floor = scene_->options.http->latency_floor;
  if (floor == 0) return Ok();
  options.latency_floor = floor;
  LUCID_ASSIGN(HttpWorlds floored, OpenWorlds(options));
  const auto times = std::min(static_cast<double>(kTimes), std::ceil(kFloorSeconds / floor / 2));
  return time(floored, static_cast<std::int64_t>(times),
              fmt::format(", floor {:g} ms", floor * 1e3));
}

Status Auditor::AttackUrl() {
  const std::string& url = scene_->options.url->url;
  LUCID_ASSIGN(HttpClient client, HttpClient::Connect(url, scene_->options.url->api_key));
  const Oracle ask = [&](std::span<const float> x) { return client.Ask(x); };
  LUCID_ASSIGN(const std::int32_t first, ask(scene_->train.row(0)));
  if (first == kRefused) {
    return Mismatch(
        fmt::format("{}: refuses a training row of the run: it serves another one", url));
  }
  // Whoever runs that server has told us no epsilon that could be tested.
  const auto new_row = [&](AuditAttack attack, std::optional<World> world) {
    return record_->NewRow(attack, url, Method::kNone, world, kNotApplicable);
  };
  for (const AuditAttack attack : kRowAttacks) {
    if (!scene_->Asked(attack)) continue;
    LUCID_TRY(
        PlayTrainTest(new_row(attack, World::kTrainTest), 1, [&](std::int64_t) { return ask; }));
  }
  if (!scene_->Asked(AuditAttack::kTiming)) return Ok();
  LUCID_ASSIGN(const auto missing,
               MissingGuardFile(scene_->run, scene_->options.certificate, GuardKind::kScalar));
  if (missing) {
    record_->left_out.push_back(*missing);
    return Ok();
  }
  LUCID_ASSIGN(const Guard guard,
               Guard::Open(scene_->run, scene_->options.certificate, {}, GuardKey::Random()));
  return record_->TimeAndKeep(scene_->InputsFor(guard), ask, kTimes / 4,
                              new_row(AuditAttack::kTiming, std::nullopt));
}

Status Auditor::AttackTrained(Method method) {
  EvaluationOptions evaluation;
  evaluation.epsilons = scene_->options.epsilons;
  evaluation.threads = scene_->options.threads;
  LUCID_ASSIGN(const auto baselines,
               TrainBaselines(scene_->run, scene_->ensemble.manifest(), scene_->train,
                              method == Method::kDpSgd, evaluation, scene_->team, scene_->progress,
                              scene_->stop));
  for (std::size_t k = 0; k < baselines.size(); ++k) {
    const double epsilon = EpsilonOfBaseline(evaluation, scene_->options.epsilons[k]);
    std::vector<NetworkLabels> networks;
    for (const TrainedBaseline& baseline : baselines[k]) {
      LUCID_ASSIGN(NetworkLabels labels, NetworkLabels::Of(baseline.network));
      networks.push_back(std::move(labels));
    }
    for (const AuditAttack attack : kRowAttacks) {
      if (!scene_->Asked(attack)) continue;
      AuditRow row =
          record_->NewRow(attack, std::string(NameOf(method)), method, World::kTrainTest, epsilon);
      LUCID_TRY(PlayTrainTest(row, std::ssize(networks), [&](std::int64_t network) -> Oracle {
        return [&labels = networks[network]](std::span<const float> x) { return labels(x); };
      }));
    }
    if (scene_->options.Plays(World::kRetrained)) LUCID_TRY(AttackRetrained(method, epsilon));
  }
  return Ok();
}

Result<std::vector<Auditor::Pair>> Auditor::Retrain(Method method, double epsilon) const {
  LUCID_ASSIGN(const TrainOptions train,
               TrainOptions::FromCanonical(scene_->ensemble.manifest().training));
  const std::int64_t count = std::min(scene_->options.retrained, std::ssize(scene_->targets));
  std::vector<PrivateTraining> trainings;  // with a row, and without it
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t target = i * std::ssize(scene_->targets) / count;
    for (const std::int64_t without : {std::int64_t{-1}, scene_->targets[target].row}) {
      trainings.push_back(
          {method == Method::kDpSgd, {.train = train, .epsilon = epsilon}, without});
    }
  }
  std::vector<std::optional<NetworkLabels>> trained(trainings.size());
  std::int64_t done = 0;
  const auto keep = [&](std::int64_t i, const TrainedBaseline& baseline) -> Status {
    LUCID_ASSIGN(trained[static_cast<std::size_t>(i)], NetworkLabels::Of(baseline.network));
    if (scene_->progress) {
      scene_->progress(
          {"training pairs", "networks", ++done, 2 * count, 0, std::string(NameOf(method))});
    }
    return Ok();
  };
  LUCID_TRY(TrainPrivately(scene_->ensemble.network().architecture, scene_->train, trainings,
                           scene_->team, scene_->options.threads, scene_->stop, keep));
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < trained.size(); i += 2) {
    pairs.push_back({*std::move(trained[i]), *std::move(trained[i + 1])});
  }
  return pairs;
}

Status Auditor::AttackRetrained(Method method, double epsilon) {
  LUCID_ASSIGN(const std::vector<Pair> pairs, Retrain(method, epsilon));
  const auto target_of = [&](std::int64_t round) -> const AuditTarget& {
    return scene_->targets[round * std::ssize(scene_->targets) / std::ssize(pairs)];
  };
  Game game{.rounds = std::ssize(pairs), .subject = {}, .oracle = {}};
  game.subject = [&](std::int64_t round, Side) { return scene_->SubjectOf(target_of(round)); };
  game.oracle = [&](std::int64_t round, Side side) -> Oracle {
    const NetworkLabels& labels = side == Side::kIn ? pairs[round].with : pairs[round].without;
    return [&labels](std::span<const float> x) { return labels(x); };
  };
  for (const AuditAttack attack : kGames) {
    if (!scene_->Asked(attack)) continue;
    LUCID_TRY(record_->PlayAndKeep(game, record_->NewRow(attack, std::string(NameOf(method)),
                                                         method, World::kRetrained, epsilon)));
  }
  return Ok();
}

Status Auditor::AttackRecertified(AuditedAccess& access, double epsilon) {
  if (!scene_->Asked(AuditAttack::kDistinguisher)) return Ok();
  std::vector<PointWithout> points;
  std::vector<std::size_t> point_of(scene_->targets.size());  // its first disagreement's
  for (std::size_t t = 0; t < scene_->targets.size(); ++t) {
    if (scene_->targets[t].disagreements.empty()) continue;  // never asked
    point_of[t] = points.size();
    points.push_back({scene_->targets[t].member, scene_->targets[t].disagreements.front().x});
  }
  LUCID_ASSIGN(const std::vector<bool> noised,
               NoisedWithoutRow(scene_->ensemble, points, scene_->team, scene_->options.threads,
                                scene_->progress, scene_->stop));
  const auto oracle = [&](std::int64_t target, Side side) -> Oracle {
    return [&, target, side](std::span<const float> x) {
      if (side == Side::kIn) return access.Ask(scene_->network, x);
      return access.AskInRegion(scene_->targets[target].without, x, noised[point_of[target]]);
    };
  };
  return record_->PlayAndKeep(
      scene_->LeaveOneOut(AuditAttack::kDistinguisher, Method::kExact, oracle),
      record_->NewRow(AuditAttack::kDistinguisher, "exact", Method::kExact, World::kRecertified,
                      epsilon));
}

Status Auditor::PlayTrainTest(const AuditRow& row, std::int64_t networks,
                              const std::function<Oracle(std::int64_t network)>& ask) {
  if (!scene_->options.Plays(World::kTrainTest)) return Ok();
  Game game = scene_->TrainTest(networks, ask);
  if (naive_ != nullptr) game.rounds = std::min(game.rounds, kNaiveQueries / row.queries);
  if (scene_->test.rows() > 0 && !scene_->targets.empty()) return record_->PlayAndKeep(game, row);
  record_->left_out.push_back(fmt::format("{} on {} in the world {}: there are no test rows",
                                          NameOf(row.attack), row.access,
                                          NameOf(World::kTrainTest)));
  return Ok();
}

Result<std::optional<std::string>> Auditor::WhyNot(Method method) const {
  if (const auto guard = GuardOf(method)) {
    return MissingGuardFile(scene_->run, scene_->options.certificate, *guard);
  }
  if (!IsTrained(method)) return std::optional<std::string>();
  if (!TrainOptions::FromCanonical(scene_->ensemble.manifest().training).ok()) {
    return std::optional(fmt::format(
        "{} cannot train like this run, whose networks come from elsewhere", NameOf(method)));
  }
  if (scene_->test.rows() == 0 && scene_->options.retrained == 0) {
    return std::optional(
        fmt::format("{} is attacked with test rows, and there are none", NameOf(method)));
  }
  return std::optional<std::string>();
}

}  // namespace lucid
