#include "audit/deployed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "audit/http_worlds.h"
#include "audit/reduced_world.h"
#include "base/files.h"
#include "base/parallel.h"
#include "baselines/privacy_noise.h"
#include "ensemble/reference.h"
#include "evaluation/study_team.h"
#include "lucid/baselines/private_training.h"
#include "lucid/data/units.h"
#include "lucid/promise/promise.h"

namespace lucid {
namespace {

constexpr AuditAttack kAttacks[] = {AuditAttack::kGap, AuditAttack::kNoise, AuditAttack::kBoundary,
                                    AuditAttack::kRegion};
constexpr std::int64_t kKeysOfWorld = 16;  // games that a certified world is played for
constexpr std::int64_t kServersOfWorld =
    4;  // the same over HTTP, where each has a server of its own
constexpr std::int64_t kCandidates = 2000;  // inputs at which two services are compared
constexpr int kSegments = 100;              // on which the way out is looked for
constexpr double kSame = 1e-9;              // probabilities that differ by rounding only
constexpr double kCertain = 50;             // stands for the logarithm of an impossible ratio

void AddOnce(std::vector<std::string>& lines, const std::string& line) {
  if (!std::ranges::count(lines, line)) lines.push_back(line);
}

// The probability of each label; nothing if x is refused.
std::vector<double> AnswersAt(const Guard& guard, std::span<const float> input) {
  std::vector<float> x(input.begin(), input.end());
  if (!guard.Canonicalize(x).ok()) return {};
  std::vector<double> answers(static_cast<std::size_t>(guard.classes()));
  const Mechanism& mechanism = guard.mechanism();
  const GuardedAnswer asked = guard.Ask(x);
  // A draw that never lies shows what the network says behind the noise.
  const Draw honest{~std::uint64_t{0}, 0, 0};
  const std::int32_t label = asked.noised && mechanism.epsilon() > 0
                                 ? guard.Ask(x, Budget::kLeft, honest).label
                                 : asked.label;
  std::ranges::fill(answers, asked.noised ? mechanism.ProbabilityOfEachOther() : 0.0);
  answers[static_cast<std::size_t>(label)] = asked.noised ? mechanism.ProbabilityOfLabel() : 1;
  return answers;
}

// Looks for inputs at which the answers of two services have different distributions: among rows
// and points between two of them, and where, on the way from one row to another, one service leaves
// what it answered at first before the other does.
class TellingSearch {
 public:
  TellingSearch(const Guard& with, const Guard& without, const AuditScene& scene, Stream& stream)
      : with_(with),
        without_(without),
        rows_(scene.train),
        domain_(scene.domain),
        stream_(stream) {}

  // The inputs that were found; the ones that tell most come first.
  std::vector<TellingInput> Run() {
    for (std::int64_t i = 0; i < kCandidates; ++i) {
      const auto a = AnyRow();
      Try(Along(a, AnyRowLike(a), i % 4 == 0 ? 0 : stream_.Uniform()));
    }
    for (int i = 0; i < kSegments; ++i) {
      const auto a = AnyRow();
      const std::vector<float> b = AnyRowLike(a);
      const double mine = Leaves(with_, a, b), other = Leaves(without_, a, b);
      for (const double share : {0.1, 0.5, 0.9}) Try(Along(a, b, mine + share * (other - mine)));
    }
    std::ranges::stable_sort(found_, std::greater(), &Found::distance);
    std::vector<TellingInput> telling;
    for (Found& one : found_) {
      if (std::ssize(telling) == kTellingInputs) break;
      telling.push_back(std::move(one.input));
    }
    return telling;
  }

 private:
  struct Found {
    double distance;
    TellingInput input;
  };

  std::span<const float> AnyRow() {
    return rows_.row(
        static_cast<std::int64_t>(stream_.Below(static_cast<std::uint64_t>(rows_.rows()))));
  }
  // With a's groups, so that the inputs between the two are answered.
  std::vector<float> AnyRowLike(std::span<const float> a) {
    const auto row = AnyRow();
    std::vector<float> b(row.begin(), row.end());
    domain_.CopyGroups(a, b);
    return b;
  }
  static std::vector<float> Along(std::span<const float> a, std::span<const float> b, double t) {
    std::vector<float> x(a.size());
    for (std::size_t k = 0; k < x.size(); ++k) {
      x[k] = std::clamp(a[k] + static_cast<float>(t) * (b[k] - a[k]), 0.F, 1.F);
    }
    return x;
  }
  // The share of the way from a to b at which the answers are no longer those at a; 1 if they are
  // the same at b.
  static double Leaves(const Guard& guard, std::span<const float> a, std::span<const float> b) {
    const std::vector<double> first = AnswersAt(guard, a);
    if (AnswersAt(guard, b) == first) return 1;
    double low = 0, high = 1;
    for (int i = 0; i < 24; ++i) {
      const double middle = (low + high) / 2;
      (AnswersAt(guard, Along(a, b, middle)) == first ? low : high) = middle;
    }
    return high;
  }

  void Try(std::vector<float> x) {
    const std::vector<double> in = AnswersAt(with_, x), out = AnswersAt(without_, x);
    if (in.empty() || out.empty()) return;
    Found one{0, {std::move(x), {}}};
    for (std::size_t c = 0; c < in.size(); ++c) {
      one.distance += std::abs(in[c] - out[c]);
      const double ratio = std::log(in[c]) - std::log(out[c]);
      one.input.log_ratios.push_back(in[c] == out[c] ? 0.0
                                                     : std::clamp(ratio, -kCertain, kCertain));
    }
    if (one.distance > kSame) found_.push_back(std::move(one));
  }

  const Guard &with_, &without_;
  const Table& rows_;
  const Domain& domain_;
  Stream& stream_;
  std::vector<Found> found_;
};

}  // namespace

// Everything that `lucid train` and `lucid serve` do with a private run: N with a fresh secret, its
// bounds, a guard with a fresh key. Members and certificate play no part. The attacker, who knows
// everything but the secret, makes a pair of his own to see what to ask.
Result<std::vector<DeployedGame::Services>> DeployedGame::DeployPrivate(double epsilon) {
  LUCID_TRY(FindPlain());
  const Manifest& manifest = scene_.ensemble.manifest();
  LUCID_ASSIGN(const TrainOptions train, TrainOptions::FromCanonical(manifest.training));
  const auto service = [&](const Network& network) -> Result<Guard> {
    RunNetwork run{manifest, network};
    run.manifest.declared =
        DeclareBounds(run.network, manifest.schema, manifest.declared->r, scene_.options.reference);
    return Guard::CreateDeclared(run, {.mechanism = scene_.options.mechanism, .epsilon = epsilon},
                                 GuardKey::Random());
  };
  const std::int64_t count =
      scene_.options.deployed;  // a unit may be played for again, with new secrets
  LUCID_TRY(CheckRowsWithout(count));
  // With the unit and without it; and the attacker's own pair, to see what to ask.
  const std::int64_t networks = scene_.Asked(AuditAttack::kRegion) ? 4 : 2;
  std::vector<PrivateTraining> trainings;
  for (std::int64_t n = 0; n < count * networks; ++n) {
    const std::int64_t target = n / networks * std::ssize(scene_.targets) / count;
    trainings.push_back(
        {true,
         {.train = train, .epsilon = train.epsilon, .delta = train.delta, .clip = train.clip},
         n % 2 == 0 ? -1 : scene_.targets[target].row});
  }
  std::vector<Network> trained(trainings.size());
  std::int64_t done = 0;
  LUCID_TRY(TrainPrivately(scene_.ensemble.network().architecture, scene_.train, trainings,
                           scene_.team, scene_.options.threads, scene_.stop,
                           [&](std::int64_t n, TrainedBaseline baseline) -> Status {
                             trained[static_cast<std::size_t>(n)] = std::move(baseline.network);
                             if (scene_.progress) {
                               scene_.progress({"training services", "networks", ++done,
                                                std::ssize(trained), 0, "deployed"});
                             }
                             return Ok();
                           }));
  std::vector<std::optional<Services>> made(static_cast<std::size_t>(count));
  LUCID_TRY(
      ParallelFor(count, scene_.options.threads, scene_.stop, [&](std::int64_t i, int) -> Status {
        const std::int64_t target = i * std::ssize(scene_.targets) / count;
        const std::span<const Network> of_pair =
            std::span(trained).subspan(static_cast<std::size_t>(i * networks));
        LUCID_ASSIGN(Guard with, service(of_pair[0]));
        LUCID_ASSIGN(Guard without, service(of_pair[1]));
        std::vector<TellingInput> telling;
        if (scene_.Asked(AuditAttack::kRegion)) {
          LUCID_ASSIGN(const Guard own_with, service(of_pair[2]));
          LUCID_ASSIGN(const Guard own_without, service(of_pair[3]));
          Stream stream(scene_.options.seed, "telling inputs", static_cast<std::uint64_t>(target));
          telling = TellingSearch(own_with, own_without, scene_, stream).Run();
        }
        made[i].emplace(Services{target, std::move(with), std::move(without), std::move(telling)});
        return Ok();
      }));
  if (refused_ > 0) {
    AddOnce(record_.notes,
            "deployed: without some units the rule of the schema refuses the plain file; there the "
            "schema is held fixed");
  }
  std::vector<Services> pairs;
  pairs.reserve(made.size());
  for (auto& pair : made) pairs.push_back(*std::move(pair));
  return pairs;
}

Status DeployedGame::FindPlain() {
  if (plain_) return Ok();
  LUCID_ASSIGN(plain_,
               FindPlainFile(scene_.ensemble.manifest(), PathIn(scene_.options.scratch, "plain")));
  if (!plain_->source) {
    AddOnce(record_.notes,
            fmt::format("deployed: schema and split are held fixed: {}", plain_->why_not));
  }
  return Ok();
}

Result<Table> DeployedGame::RowsWithout(std::int64_t target, std::int64_t pair) {
  const std::int64_t row = scene_.targets[static_cast<std::size_t>(target)].row;
  if (!plain_->source) return WithoutUnitOf(scene_.train, row);
  const std::string folder = PathIn(scene_.options.scratch, fmt::format("pair-{}", pair));
  const Status made =
      MakeReducedData(scene_.ensemble.manifest(), *plain_, scene_.train, row, folder);
  if (!made.ok() && made.error().kind == ErrorKind::kMismatch) {
    ++refused_;
    return WithoutUnitOf(scene_.train, row);
  }
  LUCID_TRY(made);
  LUCID_ASSIGN(Dataset dataset, LoadDataset(folder, {.total = true}));
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return std::move(dataset.train);
}

// Every training below is of the run's rows without those of a unit. With the plain file these are
// what its schema and split give without the unit, because each unit's place in the split is its
// own.
Status DeployedGame::CheckRowsWithout(std::int64_t count) {
  if (!plain_->source) return Ok();
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t target = i * std::ssize(scene_.targets) / count;
    if (!seen.insert(target).second) continue;
    LUCID_ASSIGN(const Table rest, RowsWithout(target, i));
    const std::int64_t row = scene_.targets[static_cast<std::size_t>(target)].row;
    if (TableDigest(rest) != TableDigest(WithoutUnitOf(scene_.train, row))) {
      return Mismatch(fmt::format(
          "'{}' without the unit of row {} gives other rows than the run's without that unit",
          plain_->source->file, row));
    }
  }
  return Ok();
}

Status DeployedGame::MakeReducedWorlds() {
  if (!reduced_.empty()) return Ok();
  LUCID_TRY(FindPlain());
  const std::string path = scene_.options.certificate.empty() ? PathIn(scene_.run, kCertificateFile)
                                                              : scene_.options.certificate;
  LUCID_ASSIGN(const Certificate certificate, LoadCertificate(path));
  const std::int64_t count = std::min(scene_.options.deployed, std::ssize(scene_.targets));
  const bool spatial = std::ranges::count(scene_.options.accesses, Method::kSpatial) > 0;
  std::vector<std::int64_t> targets, rows;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t target = i * std::ssize(scene_.targets) / count;
    const std::int64_t row = scene_.targets[target].row;
    LUCID_ASSIGN(const bool there, HasReducedData(row));
    if (!there) continue;
    targets.push_back(target);
    rows.push_back(row);
  }
  LUCID_ASSIGN(
      std::vector<std::string> runs,
      lucid::MakeReducedWorlds({scene_.ensemble.manifest(), *plain_, scene_.train,
                                scene_.options.scratch, scene_.options.threads, scene_.stop},
                               certificate, spatial, rows, scene_.team, scene_.progress));
  for (std::size_t i = 0; i < runs.size(); ++i)
    reduced_.push_back({targets[i], std::move(runs[i])});
  return Ok();
}

// Whether there is a data folder without the unit of the row; notes it where there is none.
Result<bool> DeployedGame::HasReducedData(std::int64_t row) {
  const std::string folder = PathIn(scene_.options.scratch, "tried");
  const Status made =
      MakeReducedData(scene_.ensemble.manifest(), *plain_, scene_.train, row, folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (made.ok()) return true;
  if (made.error().kind != ErrorKind::kMismatch || !plain_->source) return made.error();
  AddOnce(record_.left_out,
          fmt::format("deployed without the unit of row {}: there is no such service: {}", row,
                      made.error().message));
  return false;
}

// The run as it is, and what the reduced file gives. Training is no secret here: the attacker has
// both services on his own machine.
Result<std::vector<DeployedGame::Services>> DeployedGame::DeployReduced(GuardKind guard,
                                                                        double epsilon) {
  LUCID_TRY(MakeReducedWorlds());
  const GuardOptions options{
      .guard = guard, .mechanism = scene_.options.mechanism, .epsilon = epsilon};
  std::vector<Services> pairs;
  for (const auto& [target, run] : reduced_) {
    LUCID_ASSIGN(Guard with,
                 Guard::Open(scene_.run, scene_.options.certificate, options, GuardKey::Random()));
    LUCID_ASSIGN(Guard without, Guard::Open(run, options, GuardKey::Random()));
    Stream stream(scene_.options.seed, "telling inputs", static_cast<std::uint64_t>(target));
    std::vector<TellingInput> telling = TellingSearch(with, without, scene_, stream).Run();
    pairs.push_back({target, std::move(with), std::move(without), std::move(telling)});
  }
  return pairs;
}

std::string DeployedGame::WhyNot(Method method) const {
  const Manifest& manifest = scene_.ensemble.manifest();
  if (HasDeclaredAccess(manifest)) {
    if (method != Method::kScalar) return "a private run's service is the scalar guard";
    if (manifest.declared->reference != "domain" && !scene_.options.reference) {
      return "the reference rows of the declared bounds are not here (the option reference)";
    }
    return "";
  }
  return WhyNotReduced(manifest);
}

Status DeployedGame::Attack(Method method, double epsilon) {
  const std::string name(NameOf(method));
  if (const std::string why = WhyNot(method); !why.empty()) {
    AddOnce(record_.left_out, fmt::format("deployed on {}: {}", name, why));
    return Ok();
  }
  const Manifest& manifest = scene_.ensemble.manifest();
  const bool full = HasDeclaredAccess(manifest);
  LUCID_ASSIGN(const auto pairs,
               full ? DeployPrivate(epsilon) : DeployReduced(*GuardOf(method), epsilon));
  // A pair of private services is played for once, with its own keys. Of a certified world only the
  // draws are new: every answer draws for itself, as with a new key.
  const std::int64_t worlds = std::ssize(pairs);
  if (worlds == 0) return Ok();
  LUCID_ASSIGN(PrivacyNoise noise, PrivacyNoise::Create({}));
  Game game{.rounds = worlds * (full ? 1 : kKeysOfWorld), .subject = {}, .oracle = {}};
  game.subject = [&](std::int64_t round, Side) {
    Subject subject = scene_.SubjectOf(scene_.targets[pairs[round % worlds].target]);
    subject.telling = pairs[round % worlds].telling;
    return subject;
  };
  game.oracle = [&](std::int64_t round, Side side) -> Oracle {
    const Services& pair = pairs[round % worlds];
    return [&noise, &pair, side, full](std::span<const float> input) -> Result<std::int32_t> {
      const Guard& guard = side == Side::kIn ? pair.with : pair.without;
      std::vector<float> x(input.begin(), input.end());
      if (!guard.Canonicalize(x).ok()) return kRefused;
      if (full) return guard.Label(x);
      return guard.Ask(x, Budget::kLeft, Draw{noise.Next(), noise.Next(), noise.Next()}).label;
    };
  };
  return PlayAll(game, method, name, epsilon);
}

Status DeployedGame::PlayAll(const Game& game, Method method, const std::string& name,
                             double epsilon) {
  const Manifest& manifest = scene_.ensemble.manifest();
  for (const AuditAttack attack : kAttacks) {
    if (!scene_.Asked(attack)) continue;
    AuditRow row = record_.NewRow(attack, name, method, World::kDeployed, epsilon);
    if (HasDeclaredAccess(manifest)) {
      row.claimed = manifest.private_run->statement.epsilon;
      row.delta = manifest.private_run->statement.delta;
    }
    LUCID_TRY(record_.PlayAndKeep(game, row));
  }
  return Ok();
}

// One member is trained as well: a run has at least that. Nothing that is served looks at it.
Result<std::string> DeployedGame::TrainService(const Table& rows, const std::string& folder) const {
  const Manifest& manifest = scene_.ensemble.manifest();
  Dataset dataset;
  dataset.directory = manifest.data_directory;
  dataset.schema = manifest.schema;
  dataset.schema_digest = manifest.schema_digest;
  dataset.rows_per_unit = manifest.rows_per_unit;
  dataset.train = rows;
  dataset.train_digest = TableDigest(rows);
  dataset.train_order = OrderDigest(TableKeys::Of(rows));
  EnsembleOptions options;
  LUCID_ASSIGN(options.train, TrainOptions::FromCanonical(manifest.training));
  options.declare = manifest.declared->r;
  options.reference = scene_.options.reference;
  options.members = 1;
  options.threads = 1;
  LUCID_TRY(TrainEnsemble(dataset, manifest.architecture, options, folder, {}, scene_.stop));
  return folder;
}

Result<std::vector<DeployedGame::ServedPair>> DeployedGame::PairsToServe(Method method,
                                                                         double epsilon) {
  const bool full = HasDeclaredAccess(scene_.ensemble.manifest());
  LUCID_ASSIGN(auto services,
               full ? DeployPrivate(epsilon) : DeployReduced(*GuardOf(method), epsilon));
  std::vector<ServedPair> pairs;
  for (std::size_t i = 0; i < services.size(); ++i) {
    ServedPair pair{services[i].target, scene_.run, "", std::move(services[i].telling)};
    if (full) {  // the pair in this process was the attacker's
      const auto folder = [&](const char* side) {
        return PathIn(scene_.options.scratch, fmt::format("served-{}-{}-{}", epsilon, i, side));
      };
      LUCID_ASSIGN(pair.with, TrainService(scene_.train, folder("with")));
      LUCID_ASSIGN(const Table rest, RowsWithout(pair.target, static_cast<std::int64_t>(i)));
      LUCID_ASSIGN(pair.without, TrainService(rest, folder("without")));
    } else {
      pair.without = reduced_[i].run;
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Status DeployedGame::AttackOverHttp(Method method, double epsilon) {
  if (!WhyNot(method).empty()) return Ok();  // noted by Attack
  const bool full = HasDeclaredAccess(scene_.ensemble.manifest());
  LUCID_ASSIGN(const std::vector<ServedPair> pairs, PairsToServe(method, epsilon));
  if (pairs.empty()) return Ok();
  const std::int64_t worlds = std::ssize(pairs);
  Game game{.rounds = worlds * (full ? 1 : kServersOfWorld), .subject = {}, .oracle = {}};
  game.subject = [&](std::int64_t round, Side) {
    Subject subject = scene_.SubjectOf(scene_.targets[pairs[round % worlds].target]);
    subject.telling = pairs[round % worlds].telling;
    return subject;
  };
  // A server of its own, with its own key, for every guess.
  std::optional<ServedRun> server;
  game.oracle = [&](std::int64_t round, Side side) -> Oracle {
    const ServedPair& pair = pairs[round % worlds];
    const bool in = side == Side::kIn;
    server.reset();
    Result<ServedRun> opened =
        ServedRun::Open({.run = in ? pair.with : pair.without,
                         .certificate = in && !full ? scene_.options.certificate : "",
                         .method = method,
                         .mechanism = scene_.options.mechanism,
                         .epsilon = epsilon,
                         .scratch = scene_.options.scratch});
    if (!opened.ok()) {
      return [error = opened.error()](std::span<const float>) -> Result<std::int32_t> {
        return error;
      };
    }
    server.emplace(*std::move(opened));
    return [&server](std::span<const float> x) { return server->Ask(x); };
  };
  return PlayAll(game, method, fmt::format("{} over http", NameOf(method)), epsilon);
}

}  // namespace lucid
