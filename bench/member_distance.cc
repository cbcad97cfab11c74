// How far the members of a run lie from N: the largest difference of a logit over test rows and
// inputs of the domain, and the largest confidence of N where a member has another label. Both are
// what was found and no bounds: `lucid bound` gives those.
//
//   member_distance RUN [--inputs 2000] [--threads 0]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/parallel.h"
#include "lucid/data/domain.h"
#include "lucid/ensemble/ensemble.h"
#include "random/stream.h"

namespace lucid {
namespace {

std::vector<float> InputsOf(const Dataset& dataset, std::int64_t count) {
  const Domain domain = Domain::OfSchema(dataset.schema);
  Stream stream(1, "member distance");
  std::vector<float> inputs, x(static_cast<std::size_t>(dataset.features()));
  for (std::int64_t i = 0; i < count; ++i) {
    for (float& value : x) value = static_cast<float>(stream.Uniform());
    domain.Project(std::span(x));
    inputs.insert(inputs.end(), x.begin(), x.end());
  }
  const std::int64_t tests = std::min(count, dataset.test.rows());
  inputs.insert(inputs.end(), dataset.test.x.begin(),
                dataset.test.x.begin() + tests * dataset.features());
  return inputs;
}

Status Run(const std::string& run, std::int64_t count, int threads) {
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run));
  LUCID_ASSIGN(const Dataset dataset, LoadRunData(ensemble.manifest()));
  const std::vector<float> inputs = InputsOf(dataset, count);
  const auto features = static_cast<std::size_t>(dataset.features());
  const Evaluator n(ensemble.network());
  std::vector<std::vector<double>> logits;
  std::vector<Decision> decisions;
  for (std::size_t at = 0; at < inputs.size(); at += features) {
    const auto x = std::span(inputs).subspan(at, features);
    logits.emplace_back(static_cast<std::size_t>(dataset.classes()));
    n.Logits(x, logits.back());
    decisions.push_back(n.Decide(x));
  }
  std::vector<double> confidences;
  for (std::int64_t i = 0; i < dataset.test.rows(); ++i) {
    confidences.push_back(n.Decide(dataset.test.row(i)).confidence);
  }
  std::ranges::sort(confidences);
  std::mutex mutex;
  double distance = 0, leak = 0;
  const auto look = [&](std::int64_t member, int) -> Status {
    const Evaluator other(ensemble.Member(member));
    std::vector<double> own(static_cast<std::size_t>(dataset.classes()));
    double far = 0, most = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const auto x = std::span(inputs).subspan(i * features, features);
      other.Logits(x, own);
      for (std::size_t c = 0; c < own.size(); ++c) {
        far = std::max(far, std::abs(own[c] - logits[i][c]));
      }
      if (decisions[i].confidence > most && other.Decide(x).label != decisions[i].label) {
        most = decisions[i].confidence;
      }
    }
    const std::lock_guard lock(mutex);
    distance = std::max(distance, far);
    leak = std::max(leak, most);
    return Ok();
  };
  LUCID_TRY(ParallelFor(ensemble.members(), threads, {}, look));
  fmt::print(
      "{}: {} members, {} inputs: largest distance {:.4f}, largest leak {:.4f}, median "
      "confidence {:.3f}\n",
      run, ensemble.members(), logits.size(), distance, leak,
      confidences.empty() ? 0 : confidences[(confidences.size() - 1) / 2]);
  return Ok();
}

}  // namespace
}  // namespace lucid

int main(int argc, char** argv) {
  CLI::App app("How far the members of a run lie from N");
  std::string run;
  std::int64_t inputs = 2000;
  int threads = 0;
  app.add_option("run", run)->required();
  app.add_option("--inputs", inputs, "of the domain, and at most so many test rows");
  app.add_option("--threads", threads);
  CLI11_PARSE(app, argc, argv);
  const lucid::Status status = lucid::Run(run, inputs, threads);
  if (status.ok()) return 0;
  fmt::print(stderr, "member_distance: {}\n", status.error().message);
  return 1;
}
