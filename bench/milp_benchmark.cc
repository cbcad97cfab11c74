// The MILP of a run's root set (variant HM): LUCID's safe search over boxes beside HiGHS's own
// branch and cut on the same model, one thread each, the same time.
#include <Highs.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "attack/attack.h"
#include "base/clock.h"
#include "lucid/ensemble/ensemble.h"
#include "paper/box_search.h"

namespace lucid {
namespace {

struct Answer {
  double bound = 0, incumbent = 0, seconds = 0;
  std::int64_t nodes = 0;
};

Result<Answer> Ours(const NetworkFacts& facts, const HyperNetwork& hyper, const Subset& subset,
                    std::int32_t label, const EncodingOptions& encoding, double gap, double seconds,
                    const Members& members) {
  const Clock::time_point start = Clock::now();
  WitnessKeeper witnesses(facts.network, members, label, 0, std::nullopt);
  Repair repair(facts.network, hyper, subset, label, witnesses);
  BoxSearchOptions options;
  options.encoding = encoding;
  options.milp.gap = gap;
  options.milp.incumbent = repair.Anywhere(0);
  options.milp.deadline = start + std::chrono::milliseconds(std::llround(1000 * seconds));
  LUCID_ASSIGN(const MilpResult result, MaximiseOverBoxes(facts, hyper, label, options, repair));
  return Answer{result.bound.value(), result.incumbent, SecondsSince(start), result.nodes};
}

Answer Theirs(const MilpModel& model, double gap, double seconds) {
  Highs highs;
  highs.setOptionValue("output_flag", false);
  highs.setOptionValue("threads", 1);
  highs.setOptionValue("time_limit", seconds);
  highs.setOptionValue("mip_rel_gap", gap);
  const auto file = std::filesystem::temp_directory_path() / "lucid_milp_benchmark.mps";
  std::ofstream(file) << ToMps(model);
  highs.readModel(file.string());
  std::filesystem::remove(file);
  const Clock::time_point start = Clock::now();
  highs.run();
  const HighsInfo& info = highs.getInfo();
  const bool found = info.primal_solution_status == kSolutionStatusFeasible;
  // The file is a minimisation of the negative objective.
  return {-info.mip_dual_bound,
          found ? -info.objective_function_value : -std::numeric_limits<double>::infinity(),
          SecondsSince(start), info.mip_node_count};
}

Status Run(const std::string& run, std::int32_t label, double gap, double seconds) {
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run));
  const EnsembleMembers members(ensemble);
  LUCID_ASSIGN(const AttackResult attack, Attack(ensemble.network(), members, label, {}, {}));
  Subset all(static_cast<std::size_t>(members.count()));
  std::iota(all.begin(), all.end(), 0);
  const HyperNetwork hyper = HyperNetwork::Of(members, all);
  const Box box = UnitBox(ensemble.network().architecture.inputs());
  const NetworkFacts facts = FactsOf(ensemble.network(), box);
  EncodingOptions encoding;
  encoding.relax_if_similar = false;
  encoding.floor = attack.beta_lower;
  const Encoding model = Encode(facts, hyper, LinearBounds(hyper, box), label, encoding);
  LUCID_ASSIGN(const Answer ours, Ours(facts, hyper, all, label, encoding, gap, seconds, members));
  const Answer theirs = Theirs(model.model, gap, seconds);
  // Both bound the same maximum: no bound may be below what the attack or either of them found.
  const double best = std::max({attack.beta_lower, ours.incumbent, theirs.incumbent});
  if (ours.bound < best - 1e-5 || theirs.bound < best - 1e-5) {
    return InternalError(fmt::format("bounds {} and {} contradict a feasible value {}", ours.bound,
                                     theirs.bound, best));
  }
  fmt::print("class {}: {} rows, {} columns, {} binaries; attack {:.4f}\n", label,
             model.model.rows(), model.model.columns(), model.model.binaries().size(),
             attack.beta_lower);
  for (const auto& [name, answer] : {std::pair("LUCID", ours), std::pair("HiGHS", theirs)}) {
    fmt::print(
        "  {:<6} feasible {:>8.4f}  bound {:>8.4f}  excess over the best feasible {:>6.1f} %"
        "  {:>7} nodes  {:>6.1f} s\n",
        name, answer.incumbent, answer.bound, 100 * (answer.bound / best - 1), answer.nodes,
        answer.seconds);
  }
  return Ok();
}

}  // namespace
}  // namespace lucid

int main(int argc, char** argv) {
  CLI::App app("The MILP of a run's root set: LUCID's safe search beside HiGHS's branch and cut");
  std::string run;
  double gap = 0.1, seconds = 60;
  std::vector<std::int32_t> labels = {0, 1};
  app.add_option("run", run, "Folder of the run")->required();
  app.add_option("--class", labels, "Classes")->delimiter(',');
  app.add_option("--gap", gap, "Relative gap at which both may stop");
  app.add_option("--seconds", seconds, "For each");
  CLI11_PARSE(app, argc, argv);
  for (const std::int32_t label : labels) {
    const lucid::Status status = lucid::Run(run, label, gap, seconds);
    if (!status.ok()) {
      fmt::print(stderr, "milp_benchmark: {}\n", status.error().message);
      return 1;
    }
  }
  return 0;
}
