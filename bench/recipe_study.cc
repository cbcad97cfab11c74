// What a recipe of private training does: accuracy of N over several secrets, and how far members
// lie from it. Recipes are chosen with this program on data sets that are not the paper's four
// (docs/training.md).
//
//   recipe_study --data DIR --arch 2x50 [--epsilon 1] [--batch B --epochs E --lr R --clip C] ...
//
// One line: the options, the mean test accuracy of N, its median confidence on test rows and over
// inputs of the domain, and the largest confidence of N that an attack finds where a member has
// another label, as a share of both. The members are those of rows that stand alone and that N gets
// wrong, and some others. The share is a lower estimate: all members leak more, and a search finds
// more.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "attack/attack.h"
#include "base/parallel.h"
#include "ensemble/members.h"
#include "lucid/data/domain.h"
#include "lucid/data/units.h"
#include "lucid/nn/network.h"
#include "random/stream.h"
#include "train/group_trainer.h"

namespace lucid {
namespace {

struct Study {
  std::string data, arch = "2x50", method = "private";
  int threads = 0, standardise = -1;
  std::int64_t secrets = 3, members = 128, batch = 0, epochs = 0, average = 0, rows = 0, copies = 1;
  double decay = 0, epsilon = 1, delta = 1e-5, rate = 0, clip = 0, momentum = -1;
};

TrainOptions OptionsOf(const Study& study, std::int64_t rows) {
  TrainOptions options = TrainOptions::Preset(study.method).value();
  options.epsilon = study.epsilon;
  options.delta = study.delta;
  options.expected_rows = study.rows > 0 ? study.rows : RoundedToOneDigit(rows);
  if (options.method != TrainOptions::Method::kPlain) {
    options = RecipeFor(options, options.expected_rows);
  }
  if (study.batch > 0) options.batch = study.batch;
  if (study.epochs > 0) options.epochs = study.epochs;
  if (study.rate > 0) options.rate = study.rate;
  if (study.clip > 0) options.clip = study.clip;
  if (study.momentum >= 0) options.momentum = study.momentum;
  options.average_epochs = study.average;
  if (study.standardise >= 0) options.standardise = study.standardise > 0;
  if (study.decay > 0) options.weight_decay = study.decay;
  return options;
}

std::vector<float> DomainInputs(const Schema& schema, std::int64_t count) {
  const Domain domain = Domain::OfSchema(schema);
  Stream stream(1, "recipe study");
  std::vector<float> inputs, x(static_cast<std::size_t>(schema.features()));
  for (std::int64_t i = 0; i < count; ++i) {
    for (float& value : x) value = static_cast<float>(stream.Uniform());
    domain.Project(std::span(x));
    inputs.insert(inputs.end(), x.begin(), x.end());
  }
  return inputs;
}

// How far a row stands alone: x' (X'X + I)^-1 x with a 1 behind the inputs.
std::vector<double> Leverages(const Table& table) {
  const auto d = static_cast<std::size_t>(table.features) + 1;
  std::vector<double> gram(d * d), x(d), leverages;
  const auto read = [&](std::int64_t i) {
    std::ranges::copy(table.row(i), x.begin());
    x.back() = 1;
  };
  for (std::size_t k = 0; k < d; ++k) gram[k * d + k] = 1;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    read(i);
    for (std::size_t j = 0; j < d; ++j) {
      for (std::size_t k = 0; k <= j; ++k) gram[j * d + k] += x[j] * x[k];
    }
  }
  // Cholesky's factor, in place.
  for (std::size_t j = 0; j < d; ++j) {
    for (std::size_t k = 0; k <= j; ++k) {
      double sum = gram[j * d + k];
      for (std::size_t m = 0; m < k; ++m) sum -= gram[j * d + m] * gram[k * d + m];
      gram[j * d + k] = j == k ? std::sqrt(sum) : sum / gram[k * d + k];
    }
  }
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    read(i);
    double square = 0;
    for (std::size_t j = 0; j < d; ++j) {
      for (std::size_t k = 0; k < j; ++k) x[j] -= gram[j * d + k] * x[k];
      x[j] /= gram[j * d + j];
      square += x[j] * x[j];
    }
    leverages.push_back(square);
  }
  return leverages;
}

double MedianConfidence(const Evaluator& n, std::span<const float> inputs) {
  const auto features = static_cast<std::size_t>(n.architecture().inputs());
  std::vector<double> confidences;
  for (std::size_t at = 0; at < inputs.size(); at += features) {
    confidences.push_back(n.Decide(inputs.subspan(at, features)).confidence);
  }
  const auto middle = confidences.begin() + (std::ssize(confidences) - 1) / 2;
  std::ranges::nth_element(confidences, middle);
  return *middle;
}

// Every row so many times: how a recipe for large data does on data that are small. Each copy is a
// unit of its own.
void Repeat(Table& table, std::int64_t copies) {
  const std::vector<float> x = table.x;
  const std::vector<std::int32_t> y = table.y;
  for (std::int64_t i = 1; i < copies; ++i) {
    table.x.insert(table.x.end(), x.begin(), x.end());
    table.y.insert(table.y.end(), y.begin(), y.end());
  }
}

// One secret: N, and members of the rows that probably matter most.
class Trial {
 public:
  Trial(const Study& study, const Dataset& dataset, const TrainPlan& plan)
      : study_(study),
        dataset_(dataset),
        plan_(plan),
        trainer_(plan, AvailableInstructionSets().front()) {}

  struct Figures {
    double accuracy = 0;
    double median = 0, median_of_domain = 0;  // confidence of N
    double leak = 0;
  };

  Result<Figures> Run(std::uint64_t seed) {
    LUCID_ASSIGN(const std::vector<Network> n, Train(std::vector{kNoRow}));
    const Evaluator evaluator(n.front());
    Figures figures{
        .accuracy = 100 * Accuracy(evaluator, dataset_.test),
        .median = MedianConfidence(evaluator, dataset_.test.x),
        .median_of_domain = MedianConfidence(evaluator, DomainInputs(dataset_.schema, kReference))};
    if (study_.members == 0) return figures;
    LUCID_ASSIGN(const MemoryMembers members, TrainMembers(RowsThatMatter(n.front(), seed)));
    for (std::int32_t label = 0; label < static_cast<std::int32_t>(dataset_.classes()); ++label) {
      LUCID_ASSIGN(const AttackResult found,
                   Attack(n.front(), members, label, dataset_.test.x,
                          {.seed = seed, .threads = study_.threads, .local_searches = kClimbs}));
      figures.leak = std::max(figures.leak, found.beta_lower);
    }
    return figures;
  }

 private:
  static constexpr std::int64_t kReference = 4000, kClimbs = 400;

  Result<std::vector<Network>> Train(std::span<const std::int64_t> left_out) const {
    const Architecture& net = plan_.architecture();
    const auto parameters = net.parameters();
    std::vector<float> out(left_out.size() * static_cast<std::size_t>(parameters));
    LUCID_TRY(trainer_.Train(left_out, out));
    std::vector<Network> networks;
    for (auto first = out.begin(); first != out.end(); first += parameters) {
      networks.push_back({net, {first, first + parameters}});
    }
    return networks;
  }

  Result<MemoryMembers> TrainMembers(const std::vector<std::int64_t>& rows) const {
    const auto lanes = static_cast<std::size_t>(trainer_.lanes());
    std::vector<std::vector<Network>> groups((rows.size() + lanes - 1) / lanes);
    const auto train = [&](std::int64_t g, int) -> Status {
      const std::size_t first = static_cast<std::size_t>(g) * lanes;
      const auto part = std::span(rows).subspan(first, std::min(lanes, rows.size() - first));
      LUCID_ASSIGN(groups[static_cast<std::size_t>(g)], Train(part));
      return Ok();
    };
    LUCID_TRY(ParallelFor(std::ssize(groups), study_.threads, {}, train));
    std::vector<Network> networks;
    for (auto& group : groups) std::ranges::move(group, std::back_inserter(networks));
    return MemoryMembers(std::move(networks));
  }

  // Those that stand alone where N errs, and a quarter as many others.
  std::vector<std::int64_t> RowsThatMatter(const Network& network, std::uint64_t seed) const {
    const Table& table = dataset_.train;
    const std::vector<Unit> units = UnitsOf(table, TableKeys::Of(table));
    const Evaluator n(network);
    const std::vector<double> leverages = Leverages(table);
    std::vector<std::pair<double, std::int64_t>> scores;
    for (const Unit& unit : units) {
      const auto row = static_cast<std::size_t>(unit.row);
      const Decision own = n.Decide(table.row(unit.row));
      const double error =
          1 / (1 + std::exp(own.label == table.y[row] ? own.confidence : -own.confidence));
      scores.emplace_back(-leverages[row] * error, unit.row);
    }
    std::ranges::sort(scores);
    scores.resize(std::min(scores.size(), static_cast<std::size_t>(study_.members)));
    std::vector<std::int64_t> rows;
    rows.reserve(2 * scores.size());
    for (const auto& [score, row] : scores) rows.push_back(row);
    for (std::uint64_t k = 0; k < scores.size() / 4; ++k) {
      rows.push_back(units[(k * 7919 + seed * 131) % units.size()].row);
    }
    return rows;
  }

  const Study& study_;
  const Dataset& dataset_;
  const TrainPlan& plan_;
  const GroupTrainer trainer_;
};

Status Run(const Study& study) {
  LUCID_ASSIGN(Dataset dataset, LoadDataset(study.data));
  Repeat(dataset.train, study.copies);
  LUCID_ASSIGN(const Architecture net,
               Architecture::FromName(study.arch, dataset.features(), dataset.classes()));
  TrainOptions options = OptionsOf(study, dataset.train.rows());
  std::vector<double> accuracies;
  double median = 0, of_domain = 0, share = 0, worst = 0, share_of_test = 0;
  for (std::int64_t i = 0; i < study.secrets; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    options.seed = seed;
    LUCID_ASSIGN(const TrainOptions resolved,
                 ResolveOptions(options, net, {dataset.train.rows(), 1, false}));
    std::optional<Secret> secret;
    if (resolved.method == TrainOptions::Method::kPrivate) secret = Secret::FromSeed(seed);
    const TrainPlan plan(net, dataset.train, resolved, std::move(secret));
    LUCID_ASSIGN(const Trial::Figures own, Trial(study, dataset, plan).Run(seed));
    accuracies.push_back(own.accuracy);
    median += own.median;
    of_domain += own.median_of_domain;
    share += own.leak / own.median_of_domain;
    share_of_test += own.leak / own.median;
    worst = std::max(worst, own.leak / own.median_of_domain);
  }
  const auto count = static_cast<double>(study.secrets);
  const double mean = std::accumulate(accuracies.begin(), accuracies.end(), 0.0) / count;
  double squares = 0;
  for (const double accuracy : accuracies) squares += (accuracy - mean) * (accuracy - mean);
  fmt::print(
      "{} x{} {} {} eps {} n0 {} batch {} epochs {} lr {} clip {} avg {} mom {} standardise {}: "
      "accuracy {:.2f} +- {:.2f}, median confidence {:.2f}, over the domain {:.2f}, leak {:.2f} % "
      "of that (worst {:.2f} %), {:.2f} % of the median\n",
      study.data.substr(study.data.rfind('/') + 1), study.copies, study.arch, study.method,
      study.epsilon, options.expected_rows, options.batch, options.epochs, options.rate,
      options.clip, options.average_epochs, options.momentum, options.standardise ? 1 : 0, mean,
      std::sqrt(squares / count), median / count, of_domain / count, 100 * share / count,
      100 * worst, 100 * share_of_test / count);
  return Ok();
}

}  // namespace
}  // namespace lucid

int main(int argc, char** argv) {
  CLI::App app("Accuracy and closeness of a recipe");
  lucid::Study study;
  app.add_option("--data", study.data)->required();
  app.add_option("--arch", study.arch);
  app.add_option("--method", study.method, "paper, stable, clipped, private");
  app.add_option("--epsilon", study.epsilon);
  app.add_option("--delta", study.delta);
  app.add_option("--expected-rows", study.rows);
  app.add_option("--copies", study.copies, "of every training row");
  app.add_option("--batch", study.batch);
  app.add_option("--epochs", study.epochs);
  app.add_option("--lr", study.rate);
  app.add_option("--clip", study.clip);
  app.add_option("--momentum", study.momentum);
  app.add_option("--average-epochs", study.average);
  app.add_option("--secrets", study.secrets);
  app.add_option("--members", study.members, "the hardest so many, and a quarter as many others");
  app.add_option("--threads", study.threads);
  app.add_option("--standardise", study.standardise, "0 or 1 instead of the recipe's choice");
  app.add_option("--weight-decay", study.decay);
  CLI11_PARSE(app, argc, argv);
  const lucid::Status status = lucid::Run(study);
  if (status.ok()) return 0;
  fmt::print(stderr, "recipe_study: {}\n", status.error().message);
  return 1;
}
