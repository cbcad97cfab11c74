// What a recipe of private training does: accuracy of N over several secrets, and how far members
// lie from it. Recipes are chosen with this program on data sets that are not the paper's four
// (docs/training.md).
//
//   recipe_study --data DIR --arch 2x50 [--epsilon 1] [--batch B --epochs E --lr R --clip C] ...
//
// One line: the options, the mean test accuracy of N, its median confidence on test rows, and the
// largest confidence of N at an input where one of a few members has another label, as a share of
// that median. That share is a lower estimate: a search finds more.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "lucid/data/domain.h"
#include "lucid/data/units.h"
#include "lucid/nn/network.h"
#include "random/stream.h"
#include "train/group_trainer.h"

namespace lucid {
namespace {

struct Study {
  std::string data, arch = "2x50", method = "private";
  std::int64_t secrets = 3, inputs = 20000, batch = 0, epochs = 0, average = 0, rows = 0,
               copies = 1;
  double epsilon = 1, delta = 1e-5, rate = 0, clip = 0, momentum = -1;
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

// The largest confidence of N where a member disagrees.
double LeakOf(const Evaluator& n, const std::vector<Evaluator>& members,
              std::span<const float> inputs) {
  const auto features = static_cast<std::size_t>(n.architecture().inputs());
  double leak = 0;
  for (std::size_t at = 0; at < inputs.size(); at += features) {
    const auto x = inputs.subspan(at, features);
    const Decision own = n.Decide(x);
    if (own.confidence <= leak) continue;
    for (const Evaluator& member : members) {
      if (member.Decide(x).label != own.label) leak = std::max(leak, own.confidence);
    }
  }
  return leak;
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

Status Run(const Study& study) {
  LUCID_ASSIGN(Dataset dataset, LoadDataset(study.data));
  Repeat(dataset.train, study.copies);
  LUCID_ASSIGN(const Architecture net,
               Architecture::FromName(study.arch, dataset.features(), dataset.classes()));
  const std::vector<Unit> units = UnitsOf(dataset.train, TableKeys::Of(dataset.train));
  TrainOptions options = OptionsOf(study, dataset.train.rows());
  std::vector<float> inputs = DomainInputs(dataset.schema, study.inputs);
  inputs.insert(inputs.end(), dataset.test.x.begin(), dataset.test.x.end());
  double accuracy = 0, squares = 0, confidence = 0, share = 0;
  for (std::int64_t i = 0; i < study.secrets; ++i) {
    options.seed = static_cast<std::uint64_t>(i);
    LUCID_ASSIGN(const TrainOptions resolved,
                 ResolveOptions(options, net, {dataset.train.rows(), 1, false}));
    std::optional<Secret> secret;
    if (resolved.method == TrainOptions::Method::kPrivate) {
      secret = Secret::FromSeed(static_cast<std::uint64_t>(i));
    }
    const TrainPlan plan(net, dataset.train, resolved, std::move(secret));
    const GroupTrainer trainer(plan, AvailableInstructionSets().front());
    std::vector<std::int64_t> left_out = {kNoRow};
    while (std::ssize(left_out) < trainer.lanes()) {
      const std::size_t place = (left_out.size() + static_cast<std::size_t>(i) * 131) * 7919;
      left_out.push_back(units[place % units.size()].row);
    }
    const auto parameters = static_cast<std::size_t>(net.parameters());
    std::vector<float> out(left_out.size() * parameters);
    LUCID_TRY(trainer.Train(left_out, out));
    std::vector<Evaluator> networks;
    for (std::size_t k = 0; k < left_out.size(); ++k) {
      const auto first = out.begin() + static_cast<std::ptrdiff_t>(k * parameters);
      networks.emplace_back(Network{net, {first, first + static_cast<std::ptrdiff_t>(parameters)}});
    }
    const Evaluator n = std::move(networks.front());
    networks.erase(networks.begin());
    std::vector<double> confidences;
    for (std::int64_t r = 0; r < dataset.test.rows(); ++r) {
      confidences.push_back(n.Decide(dataset.test.row(r)).confidence);
    }
    std::ranges::sort(confidences);
    const double median = confidences[confidences.size() / 2];
    const double own = 100 * Accuracy(n, dataset.test);
    accuracy += own;
    squares += own * own;
    confidence += median;
    share += LeakOf(n, networks, inputs) / median;
  }
  const auto count = static_cast<double>(study.secrets);
  const double mean = accuracy / count;
  fmt::print(
      "{} x{} {} {} eps {} n0 {} batch {} epochs {} lr {} clip {} avg {} mom {}: accuracy {:.2f} "
      "+- {:.2f}, median confidence {:.2f}, leak {:.2f} %\n",
      study.data.substr(study.data.rfind('/') + 1), study.copies, study.arch, study.method,
      study.epsilon, options.expected_rows, options.batch, options.epochs, options.rate,
      options.clip, options.average_epochs, options.momentum, mean,
      std::sqrt(std::max(0.0, squares / count - mean * mean)), confidence / count,
      100 * share / count);
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
  app.add_option("--inputs", study.inputs);
  CLI11_PARSE(app, argc, argv);
  const lucid::Status status = lucid::Run(study);
  if (status.ok()) return 0;
  fmt::print(stderr, "recipe_study: {}\n", status.error().message);
  return 1;
}
