// "Does any member give this input another label than N?": the index of a run beside running every
// member. Both answer every input, and must agree, before any time is taken.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "base/clock.h"
#include "base/parallel.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certificate/spatial.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/member_index.h"
#include "lucid/native/bound.h"
#include "native/engine.h"
#include "random/stream.h"
#include "support/brute_force.h"

namespace lucid {
namespace {

struct Options {
  std::string run, data;
  std::int64_t inputs = 1000;
  std::int64_t agree = 0;
};

struct InputSet {
  std::string name;
  std::vector<std::vector<float>> inputs;
};

// ---- inputs ------------------------------------------------------------------------------------

std::vector<float> Between(std::span<const float> a, std::span<const float> b, double share) {
  std::vector<float> x;
  for (std::size_t j = 0; j < a.size(); ++j) {
    x.push_back(std::clamp(static_cast<float>(a[j] + share * (b[j] - a[j])), 0.0F, 1.0F));
  }
  return x;
}

// On the segment from a row to one that N labels otherwise: where N's confidence in the first label
// falls to `confidence`.
std::vector<float> AtConfidence(const Evaluator& network, std::span<const float> from,
                                std::span<const float> to, double confidence) {
  const std::int32_t label = network.Decide(from).label;
  double low = 0, high = 1;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    const Decision decision = network.Decide(Between(from, to, middle));
    (decision.label == label && decision.confidence > confidence ? low : high) = middle;
  }
  return Between(from, to, low);
}

InputSet NearTheBoundary(const Evaluator& network, const Table& table, std::int64_t count,
                         double confidence, Stream& stream) {
  InputSet set{fmt::format("f uniform to {:.3g}", confidence), {}};
  for (std::int64_t tries = 0; tries < 100 * count && std::ssize(set.inputs) < count; ++tries) {
    const auto rows = static_cast<std::uint64_t>(table.rows());
    const auto a = table.row(static_cast<std::int64_t>(stream.Below(rows)));
    const auto b = table.row(static_cast<std::int64_t>(stream.Below(rows)));
    if (network.Decide(a).label == network.Decide(b).label) continue;
    set.inputs.push_back(AtConfidence(network, a, b, stream.Uniform(0, confidence)));
  }
  return set;
}

InputSet TestRows(const Table& table) {
  InputSet set{"test rows", {}};
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    set.inputs.emplace_back(table.row(i).begin(), table.row(i).end());
  }
  return set;
}

InputSet RandomInputs(std::int64_t inputs, std::int64_t count, Stream& stream) {
  InputSet set{"uniform in [0,1]^d", {}};
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<float> x;
    for (std::int64_t j = 0; j < inputs; ++j) x.push_back(static_cast<float>(stream.Uniform()));
    set.inputs.push_back(std::move(x));
  }
  return set;
}

// ---- bounds ------------------------------------------------------------------------------------

Result<MemberIndex> IndexFor(const Ensemble& ensemble, const Options& options) {
  const std::string path = (std::filesystem::path(options.run) / kIndexFile).string();
  if (std::filesystem::exists(path)) {
    fmt::print("bounds: {}\n", path);
    return MemberIndex::Load(ensemble, path);
  }
  const Clock::time_point start = Clock::now();
  LUCID_ASSIGN(const double error, LargestError(EnsembleMembers(ensemble), 0));
  LUCID_ASSIGN(const MemberBounds bounds, BoundMembers(ensemble, error));
  LUCID_ASSIGN(MemberIndex index, MemberIndex::Build(ensemble, bounds.upper, error));
  fmt::print("index built in {:.2f} s\n", SecondsSince(start));
  return index;
}

// ---- measuring ---------------------------------------------------------------------------------

// Microseconds per input of the fastest of some passes over them.
template <typename Body>
double Fastest(const InputSet& set, double seconds, const Body& body) {
  double fastest = std::numeric_limits<double>::infinity();
  const Clock::time_point begin = Clock::now();
  do {
    const Clock::time_point start = Clock::now();
    for (const std::vector<float>& x : set.inputs) body(x);
    fastest = std::min(fastest, SecondsSince(start));
  } while (SecondsSince(begin) < seconds);
  return 1e6 * fastest / static_cast<double>(set.inputs.size());
}

// `unbounded`: an index that skips nothing, the fastest way to run every member that we have.
Status Measure(const InputSet& set, const MemberIndex& index, const MemberIndex& unbounded,
               const BruteForce& brute_force) {
  std::int64_t disagree = 0, run = 0, skipped_all = 0;
  for (const std::vector<float>& x : set.inputs) {
    const MemberAnswer answer = index.Ask(x);
    const bool expected = brute_force.AnyMemberDisagrees(x);
    if (answer.Disagrees() != expected || unbounded.AnyMemberDisagrees(x) != expected) {
      return InternalError(fmt::format("{}: the index and brute force differ", set.name));
    }
    disagree += answer.Disagrees();
    run += answer.run;
    skipped_all += answer.run == 0;
  }
  std::int64_t found = 0;  // used, so that no query is optimised away
  const double ours =
      Fastest(set, 0.5, [&](std::span<const float> x) { found += index.AnyMemberDisagrees(x); });
  const double theirs = Fastest(
      set, 0, [&](std::span<const float> x) { found += brute_force.AnyMemberDisagrees(x); });
  const double packed =
      Fastest(set, 0, [&](std::span<const float> x) { found += unbounded.AnyMemberDisagrees(x); });
  if (found % std::max<std::int64_t>(disagree, 1) != 0) return InternalError("answers changed");
  const auto inputs = static_cast<double>(set.inputs.size());
  fmt::print(
      "{:<20} {:>6} {:>7.2f} % {:>7.2f} % {:>7.1f} {:>9.3f} {:>10.0f} {:>9.1f} {:>7.0f}x {:>9.1f} "
      "{:>7.0f}x\n",
      set.name, set.inputs.size(), 100 * static_cast<double>(disagree) / inputs,
      100 * static_cast<double>(skipped_all) / inputs, static_cast<double>(run) / inputs, ours,
      1e6 / ours, packed, packed / ours, theirs, theirs / ours);
  return Ok();
}

// The certificate's bounds and those of the boxes, where the run has them.
struct ProvedBounds {
  std::optional<Certificate> certificate;
  std::optional<SpatialBounds> spatial;

  static Result<ProvedBounds> Load(const std::string& run) {
    ProvedBounds bounds;
    const std::filesystem::path folder(run);
    if (const auto path = folder / kCertificateFile; std::filesystem::exists(path)) {
      LUCID_ASSIGN(bounds.certificate, LoadCertificate(path.string()));
    }
    if (const auto path = folder / kSpatialFile; std::filesystem::exists(path)) {
      LUCID_ASSIGN(bounds.spatial, SpatialBounds::Load(path.string()));
    }
    return bounds;
  }
  // Where a member disagrees, no bound may be below what N's confidence is at least.
  bool Hold(std::int32_t label, double confidence, std::span<const float> x) const {
    return (!certificate || confidence <= certificate->classes[label].beta_upper) &&
           (!spatial || confidence <= spatial->Bound(label, x));
  }
};

// No time is taken. One member after the other sees all inputs: it stays in the cache, so that a
// hundred thousand inputs are minutes.
Status Agree(const std::vector<InputSet>& sets, const MemberIndex& index,
             const BruteForce& brute_force, const ProvedBounds& bounds) {
  const Evaluator& network = brute_force.network();
  for (const InputSet& set : sets) {
    std::vector<Decision> decisions;
    for (const auto& x : set.inputs) decisions.push_back(network.Decide(x));
    std::vector<std::atomic<std::int32_t>> others(set.inputs.size());
    LUCID_TRY(ParallelFor(std::ssize(brute_force.members()), 0, {}, [&](std::int64_t m, int) {
      for (std::size_t i = 0; i < set.inputs.size(); ++i) {
        others[i] += brute_force.members()[m].Decide(set.inputs[i]).label != decisions[i].label;
      }
      return Ok();
    }));
    std::int64_t different = 0, inputs = 0, pairs = 0, above = 0;
    for (std::size_t i = 0; i < set.inputs.size(); ++i) {
      different += index.AnyMemberDisagrees(set.inputs[i]) != (others[i] != 0);
      inputs += others[i] != 0;
      pairs += others[i];
      above +=
          others[i] != 0 &&
          !bounds.Hold(decisions[i].label, decisions[i].confidence - network.ConfidenceErrorBound(),
                       set.inputs[i]);
    }
    fmt::print(
        "{}: {} inputs and {} members: on {} inputs some disagree ({} pairs); index and brute "
        "force differ on {}, {} are above a bound\n",
        set.name, set.inputs.size(), brute_force.members().size(), inputs, pairs, different, above);
    if (different > 0) return InternalError("the index is wrong");
    if (above > 0) return InternalError("a bound is too low");
  }
  return Ok();
}

Status Run(const Options& options) {
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(options.run));
  const Manifest& manifest = ensemble.manifest();
  LUCID_ASSIGN(const Dataset dataset,
               LoadDataset(options.data.empty() ? manifest.data_directory : options.data));
  if (dataset.schema_digest != manifest.schema_digest || dataset.test.rows() == 0) {
    return Mismatch(
        fmt::format("'{}' is not the data of this run, or has no test rows", dataset.directory));
  }
  const BruteForce brute_force(ensemble);
  Stream stream(1, "index benchmark");
  std::vector<InputSet> sets = {TestRows(dataset.test)};
  sets.push_back(RandomInputs(dataset.features(), options.inputs, stream));
  for (const double confidence : {0.05, 0.5, 5.0}) {
    sets.push_back(
        NearTheBoundary(brute_force.network(), dataset.test, options.inputs, confidence, stream));
  }
  const Clock::time_point start = Clock::now();
  LUCID_ASSIGN(const MemberIndex index, IndexFor(ensemble, options));
  fmt::print("{} members of {} parameters, {}; index ready in {:.2f} s\n", ensemble.members(),
             manifest.architecture.parameters(), manifest.architecture.Canonical(),
             SecondsSince(start));
  for (std::int32_t c = 0; c < manifest.architecture.classes(); ++c) {
    fmt::print("class {}: largest bound {:.4g}\n", c, index.LargestUpper(c));
  }
  if (options.agree > 0) {
    sets[1] = RandomInputs(dataset.features(), options.agree, stream);
    LUCID_ASSIGN(const ProvedBounds bounds, ProvedBounds::Load(options.run));
    return Agree(sets, index, brute_force, bounds);
  }
  const std::vector<std::vector<double>> unknown(
      static_cast<std::size_t>(manifest.architecture.classes()),
      std::vector<double>(static_cast<std::size_t>(ensemble.members()),
                          std::numeric_limits<double>::infinity()));
  LUCID_ASSIGN(const double error, LargestError(EnsembleMembers(ensemble), 0));
  LUCID_ASSIGN(const MemberIndex unbounded, MemberIndex::Build(ensemble, unknown, error));
  std::int64_t labels = 0;
  const double alone = Fastest(sets[0], 0.5, [&](std::span<const float> x) {
    labels += brute_force.network().Decide(x).label;
  });
  fmt::print("N alone: {:.3f} us (Evaluator; labels {})\n\n", alone, labels >= 0 ? "taken" : "?");
  fmt::print("{:<20} {:>6} {:>9} {:>9} {:>7} {:>9} {:>10} {:>9} {:>8} {:>9} {:>8}\n", "inputs",
             "count", "disagree", "none run", "run", "index us", "queries/s", "packed us", "ratio",
             "plain us", "ratio");
  for (const InputSet& set : sets) {
    LUCID_TRY(Measure(set, index, unbounded, brute_force));
  }
  return Ok();
}

}  // namespace
}  // namespace lucid

int main(int argc, char** argv) {
  CLI::App app("The exact membership index of a run beside running every member");
  lucid::Options options;
  app.add_option("run", options.run, "Folder of the run")->required();
  app.add_option("--data", options.data, "Folder of its data (default: as in its manifest)");
  app.add_option("--inputs", options.inputs, "Of each kind, beside the test rows")
      ->check(CLI::PositiveNumber);
  app.add_option(
      "--agree", options.agree,
      "Takes no time, but compares all answers, and bounds, on all test rows and so many "
      "random inputs");
  CLI11_PARSE(app, argc, argv);
  const lucid::Status status = lucid::Run(options);
  if (status.ok()) return 0;
  fmt::print(stderr, "index_benchmark: {}\n", status.error().message);
  return 1;
}
