// Whole runs of the native engine, through the entry point that the program uses, against exact
// answers: time limits of microseconds, stops, kills and resumes, little memory, one and more
// threads and processes, every kind of bound forced early, both domains, weights from 1e-30 to
// 1e30.
//
// LUCID_WHOLE_RUNS and LUCID_WHOLE_SEED (decimal) say how many runs to make (default 2500) and the
// seed of the first ensemble (default 1). A failure names the seed of its ensemble, which makes the
// same networks again; what a clock decides may then be different. `./dev soak` runs many more.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>

#include "certificate/test_support.h"
#include "check/exact.h"
#include "lucid/certificate/spatial.h"
#include "lucid/check/check.h"
#include "lucid/guard/member_index.h"
#include "lucid/native/bound.h"
#include "pair/test_support.h"
#include "support/files.h"
#include "support/line_oracle.h"
#include "support/local_team.h"

namespace lucid {
namespace {

namespace fs = std::filesystem;

std::int64_t FromEnvironment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

// What was seen over all runs, so that nobody fools himself with a test that has become easy.
struct Tally {
  std::int64_t ensembles = 0, runs = 0, classes = 0, leaking = 0, exact = 0, gap = 0, deadline = 0;
  std::int64_t resumed = 0, killed = 0, dropped = 0, rounding = 0, refused = 0, proofs = 0;
  std::int64_t guard_files = 0;
  std::int64_t teams = 0;
  std::int64_t decisions = 0, declared_proved = 0, declared_refuted = 0;
};

// An ensemble, and for every class a number at or below its true bound.
struct Case {
  Network network;
  std::vector<Network> members;
  std::string schema;  // of the data
  std::function<std::vector<mpq_class>(double member_error)> truth;
};

// ---- networks ---------------------------------------------------------------------------------

// A kind of parameters: ordinary ones, short ones that tie often, or very large and small ones.
struct Scale {
  explicit Scale(Stream& stream) : kind(stream.Below(4)) {
    if (kind != 0) return;
    for (double& factor : factors) factor = std::pow(10.0, stream.Uniform(-30, 30));
  }
  float Draw(std::size_t layer, Stream& stream) const {
    if (kind == 1) return static_cast<float>(static_cast<int>(stream.Below(5)) - 2) / 2;
    return static_cast<float>(stream.Uniform(-1, 1) * factors[layer % 4]);
  }
  std::uint64_t kind;
  double factors[4] = {1, 1, 1, 1};
};

Network Draw(const Architecture& architecture, const Scale& scale, Stream& stream) {
  Network network{architecture, {}};
  network.parameters.resize(static_cast<std::size_t>(architecture.parameters()));
  const auto layers = architecture.layers();
  for (std::size_t m = 0; m < layers.size(); ++m) {
    const std::int64_t end = layers[m].bias_at + layers[m].filters;
    for (std::int64_t i = layers[m].weight_at; i < end; ++i) {
      network.parameters[i] = scale.Draw(m, stream);
    }
  }
  return network;
}

// Moves the output biases so that all classes are about equal at x.
void TieAt(std::span<const float> x, Network& network) {
  const std::vector<mpq_class> outputs = ExactLogits(network, x);
  for (std::size_t c = 0; c < outputs.size(); ++c) {
    float& bias = network.parameters[network.architecture.layers().back().bias_at + c];
    const double moved = bias - outputs[c].get_d();
    if (std::abs(moved) < 1e37) bias = static_cast<float>(moved);
  }
}

// N never gives the last class, so that its search ends at once and leaves its time to the others.
void GiveUpLastClass(const Scale& scale, Network& network, Stream& stream) {
  if (network.architecture.classes() < 3 || stream.Below(2) == 0) return;
  const Layer& output = network.architecture.layers().back();
  const double size = scale.kind == 0 ? scale.factors[0] : 1;
  network.parameters[output.bias_at + output.filters - 1] -= static_cast<float>(100 * size);
}

// A few, or so many that a short time does not do to look at each of them.
std::uint64_t DrawMembers(Stream& stream) {
  return stream.Below(16) == 0 ? 30 + stream.Below(60) : 2 + stream.Below(3);
}

Network Near(const Network& network, const Scale& scale, Stream& stream) {
  if (stream.Below(12) == 0) return network;
  Network near = network;
  constexpr double kDistances[] = {1e-6, 1e-3, 0.03, 0.3};
  const double distance = kDistances[stream.Below(4)];
  const bool one_only = stream.Below(4) == 0;
  const std::uint64_t chosen = stream.Below(near.parameters.size());
  for (std::size_t i = 0; i < near.parameters.size(); ++i) {
    if (one_only && i != chosen) continue;
    const double size = scale.kind == 0 ? std::abs(near.parameters[i]) : 1;
    near.parameters[i] += static_cast<float>(distance * size * stream.Uniform(-1, 1));
  }
  return near;
}

std::vector<HiddenLayer> DenseLayersOf(int most_layers, std::uint64_t most_units, Stream& stream) {
  std::vector<HiddenLayer> hidden;
  for (std::uint64_t n = stream.Below(static_cast<std::uint64_t>(most_layers) + 1); n > 0; --n) {
    hidden.push_back({.units = static_cast<std::int64_t>(1 + stream.Below(most_units))});
  }
  return hidden;
}

std::string NumericSchema(std::int64_t features, std::int64_t classes) {
  std::string text = "column,kind,offset,divisor,categories\n";
  for (std::int64_t k = 0; k < features; ++k) text += "f" + std::to_string(k) + ",numeric,0,1,\n";
  text += "label,label,,,";
  for (std::int64_t k = 0; k < classes; ++k) text += (k > 0 ? "|c" : "c") + std::to_string(k);
  return text + "\n";
}

// One input, or the mean of sixteen (then phases are cut, and moments bound members): the exact
// bound is known.
Case LineCase(Stream& stream) {
  const Scale scale(stream);
  const auto classes = static_cast<std::int64_t>(2 + stream.Below(3));
  const Architecture shape = Architecture::Build(DenseLayersOf(3, 4, stream), 1, classes).value();
  Case made{Draw(shape, scale, stream), {}, NumericSchema(1, classes), {}};
  const float x[] = {static_cast<float>(stream.Uniform())};
  TieAt(x, made.network);
  GiveUpLastClass(scale, made.network, stream);
  for (std::uint64_t n = DrawMembers(stream); n > 0; --n) {
    made.members.push_back(Near(made.network, scale, stream));
  }
  const auto pieces = PiecesOf(made.network);
  std::vector<std::vector<LinePiece>> others;
  for (const Network& member : made.members) others.push_back(PiecesOf(member));
  made.truth = [=](double member_error) {
    std::vector<mpq_class> truth(static_cast<std::size_t>(classes));
    for (const auto& other : others) {
      for (std::int32_t c = 0; c < classes; ++c) {
        const auto beta = ExactBeta(pieces, other, c, mpq_class(member_error));
        if (beta && *beta > truth[c]) truth[c] = *beta;
      }
    }
    return truth;
  };
  if (shape.layers().size() > 1 && stream.Below(3) == 0) {
    made.network = Repeated(made.network, 16);
    for (Network& member : made.members) member = Repeated(member, 16);
    made.schema = NumericSchema(16, classes);
  }
  return made;
}

// More inputs, convolutions too: leaks are planted, and the bound has to be above each of them.
struct PlantedShape {
  std::int64_t inputs = 0;
  std::vector<HiddenLayer> hidden;
  bool one_hot = false;  // the first four inputs are a category, the fifth is binary
};

PlantedShape DrawShape(Stream& stream) {
  using enum HiddenLayer::Kind;
  switch (stream.Below(5)) {
    case 0:
      return {static_cast<std::int64_t>(8 + stream.Below(5)), {{kConv, 2, 3, 2}, {kDense, 3}}};
    case 1:
      return {static_cast<std::int64_t>(11 + stream.Below(4)), {{kConv, 3, 5, 3}, {kDense, 4}}};
    case 2:
      return {static_cast<std::int64_t>(11 + stream.Below(4)), DenseLayersOf(2, 6, stream)};
    case 3:
      return {static_cast<std::int64_t>(6 + stream.Below(8)), DenseLayersOf(2, 5, stream), true};
    default:
      return {static_cast<std::int64_t>(2 + stream.Below(5)), DenseLayersOf(3, 6, stream)};
  }
}

std::string OneHotSchema(std::int64_t inputs, std::int64_t classes) {
  std::string text = NumericSchema(inputs - 5, classes);
  const std::size_t line = text.find('\n') + 1;
  text.insert(line, "kind,categorical,,,a|b|c|d\nflag,binary,,,no|yes\n");
  return text;
}

std::vector<float> DrawInput(const PlantedShape& shape, Stream& stream) {
  std::vector<float> x;
  for (std::int64_t j = 0; j < shape.inputs; ++j) {
    const std::uint64_t end = stream.Below(4);
    x.push_back(end == 0 ? 0 : end == 1 ? 1 : static_cast<float>(stream.Uniform()));
  }
  if (shape.one_hot) {
    for (std::int64_t j = 0; j < 4; ++j) x[j] = 0;
    x[stream.Below(4)] = 1;
    x[4] = stream.Below(2) == 0 ? 0 : 1;
  }
  return x;
}

// Makes a member that does not give x N's class. False: rounding did not let it.
bool Plant(std::span<const float> x, std::int32_t label, Network& member, Stream& stream) {
  const std::vector<mpq_class> outputs = ExactLogits(member, x);
  const auto classes = static_cast<std::uint64_t>(outputs.size());
  const auto other = static_cast<std::size_t>(
      (static_cast<std::uint64_t>(label) + 1 + stream.Below(classes - 1)) % classes);
  const double missing = mpq_class(outputs[label] - outputs[other]).get_d();
  float& bias = member.parameters[member.architecture.layers().back().bias_at + other];
  for (const double factor : {1.0, 1.0001, 1.1}) {
    bias += static_cast<float>(std::max(missing, 0.0) * factor);
    if (!std::isfinite(bias)) return false;
    if (ExactMargin(ExactLogits(member, x), label) <= 0) return true;
  }
  return false;
}

Case PlantedCase(Stream& stream) {
  const Scale scale(stream);
  const PlantedShape shape = DrawShape(stream);
  const auto classes = static_cast<std::int64_t>(2 + stream.Below(3));
  const Architecture architecture =
      Architecture::Build(shape.hidden, shape.inputs, classes).value();
  Case made{
      Draw(architecture, scale, stream),
      {},
      shape.one_hot ? OneHotSchema(shape.inputs, classes) : NumericSchema(shape.inputs, classes),
      {}};
  TieAt(DrawInput(shape, stream), made.network);
  GiveUpLastClass(scale, made.network, stream);
  std::vector<mpq_class> truth(static_cast<std::size_t>(classes));
  for (std::uint64_t n = DrawMembers(stream); n > 0; --n) {
    Network member = Near(made.network, scale, stream);
    for (int tries = 0; tries < 4; ++tries) {
      const std::vector<float> x = DrawInput(shape, stream);
      const std::vector<mpq_class> outputs = ExactLogits(made.network, x);
      const std::int32_t label = ExactLabel(outputs);
      Network planted = member;
      if (!Plant(x, label, planted, stream)) continue;
      const mpq_class confidence = ExactMargin(outputs, label);
      if (confidence > truth[label]) truth[label] = confidence;
      member = std::move(planted);
      break;
    }
    made.members.push_back(std::move(member));
  }
  made.truth = [truth](double) { return truth; };
  return made;
}

// ---- runs -------------------------------------------------------------------------------------

// Ends a class after some looks at the clock. Each time a class is begun anew it may get many, few
// or none, so that a search ends in its screen, in any of its rounds, or by itself.
class RandomEnds {
 public:
  explicit RandomEnds(std::uint64_t seed) : stream_(seed, "random ends") {}
  bool operator()(std::int32_t label) {
    const std::scoped_lock lock(mutex_);
    if (label != label_) {
      label_ = label;
      constexpr std::uint64_t kMost[] = {1, 3, 10, 100, 1000000};
      left_ = stream_.Below(kMost[stream_.Below(5)]);
    }
    if (left_ == 0) return true;
    --left_;
    return false;
  }

 private:
  std::mutex mutex_;
  Stream stream_;
  std::int32_t label_ = -1;
  std::uint64_t left_ = 0;
};

class WholeRuns {
 public:
  explicit WholeRuns(Tally& tally) : tally_(tally) {}

  // Several runs of one ensemble. Stops at the first failure.
  void Run(std::uint64_t seed, std::int64_t runs) {
    Stream stream(seed, "whole runs");
    const Case made = stream.Below(2) == 0 ? LineCase(stream) : PlantedCase(stream);
    ++tally_.ensembles;
    const TemporaryFolder folder;
    Import(made, folder);
    const Ensemble ensemble = Ensemble::Open(folder / "run").value();
    for (std::int64_t n = 0; n < runs && !testing::Test::HasFailure(); ++n) {
      SCOPED_TRACE(testing::Message() << "run " << n << " of seed " << seed << ", "
                                      << made.network.architecture.Canonical());
      OneRun(made, ensemble, folder, stream);
    }
  }

 private:
  static void Import(const Case& made, const TemporaryFolder& folder) {
    fs::create_directories(folder / "members");
    ASSERT_TRUE(SaveNetwork(made.network, folder / "n.safetensors").ok());
    for (std::size_t i = 0; i < made.members.size(); ++i) {
      const std::string path = folder / ("members/" + std::to_string(i) + ".safetensors");
      ASSERT_TRUE(SaveNetwork(made.members[i], path).ok());
    }
    Dataset dataset =
        AnyDataset(static_cast<std::int64_t>(made.members.size()),
                   made.network.architecture.inputs(), made.network.architecture.classes());
    dataset.schema = Schema::Parse(made.schema, "schema").value();
    dataset.schema_digest = Sha256Of(dataset.schema.Canonical());
    const auto done = ImportEnsemble(dataset, folder / "n.safetensors", folder / "members",
                                     {.may_equal = true}, folder / "run");
    ASSERT_TRUE(done.ok()) << done.error().message;
  }

  static NativeBoundOptions DrawOptions(const TemporaryFolder& folder, Stream& stream) {
    NativeBoundOptions options;
    constexpr double kGaps[] = {0, 1e-3, 0.01, 0.5, 1};
    options.common.gap = kGaps[stream.Below(5)];
    options.common.threads = static_cast<int>(1 + stream.Below(2));
    options.memory = 1 << 20;
    options.common.seed = stream.Below(100);
    options.domain = stream.Below(2) == 0 ? DomainKind::kBox : DomainKind::kSchema;
    options.common.time_limit = std::pow(10.0, stream.Uniform(-6, -1.7));
    if (stream.Below(4) == 0) options.common.class_limit = options.common.time_limit / 4;
    if (stream.Below(2) == 0) options.closer_after = 1 + stream.Below(20);
    // Mostly a weak attack, because it takes most of the time of such small runs.
    if (stream.Below(16) != 0) options.attack_climbs = stream.Below(20);
    options.save_every = 0;
    if (stream.Below(2) == 0) {
      options.common.time_limit = 0.02;
      const auto ends = std::make_shared<RandomEnds>(stream.Below(1000000));
      options.out_of_time = [ends](std::int32_t label) { return (*ends)(label); };
    }
    options.common.journal = folder / "journal";
    if (stream.Below(2) == 0) options.proof = folder / "proof";
    return options;
  }

  // Perhaps a bound to decide about: near the largest truth, or anywhere.
  static std::optional<double> DrawDecision(const Case& made, Stream& stream) {
    if (stream.Below(3) != 0) return std::nullopt;
    if (stream.Below(4) == 0) return std::pow(10.0, stream.Uniform(-9, 1));
    const double truth = std::ranges::max(made.truth(0)).get_d();
    constexpr double kFactors[] = {0, 0.5, 0.999, 1, 1 + 1e-9, 1.001, 1.5, 4};
    const double bound = truth * kFactors[stream.Below(8)];
    return std::isfinite(bound) ? bound : 1;
  }

  // By this process, or by several (here threads) that share the work.
  Result<Certificate> Compute(const Ensemble& ensemble, NativeBoundOptions options, Stream& stream,
                              const std::stop_token& stop = {}) {
    if (stream.Below(3) != 0) return ComputeBounds(ensemble, options, {}, stop);
    ++tally_.teams;
    const int processes = static_cast<int>(2 + stream.Below(3));
    LocalTeamOf team(processes,
                     [&ensemble](Team& helper) { return HelpBounds(ensemble, helper, 1); });
    options.common.team = &team.leader();
    return ComputeBounds(ensemble, options, {}, stop);
  }

  static std::string PartOf(const std::string& proof, int part) {
    return proof + ".part" + std::to_string(part);
  }

  // One run; then, perhaps, what a kill in its middle would have left is resumed.
  void OneRun(const Case& made, const Ensemble& ensemble, const TemporaryFolder& folder,
              Stream& stream) {
    NativeBoundOptions options = DrawOptions(folder, stream);
    options.decide = DrawDecision(made, stream);
    fs::remove(options.common.journal);
    const std::string killed = folder / "killed";
    fs::remove(killed);
    std::stop_source source;
    std::jthread killer;
    if (stream.Below(2) == 0) {
      const std::chrono::duration<double> after(options.common.time_limit * stream.Uniform());
      killer = std::jthread([&, after](const std::stop_token& over) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        // Whoever is killed after the end has only finished.
        std::condition_variable_any().wait_for(lock, over, after, [] { return false; });
        if (over.stop_requested()) return;
        // Files are opened once and read to their ends: fs::copy_file asks for the size first, and
        // would cut off a journal that is replaced in between.
        const auto copy = [](const std::string& from, const std::string& to) {
          std::ifstream file(from, std::ios::binary);  // there may be none yet
          const std::string content{std::istreambuf_iterator<char>(file), {}};
          if (!content.empty()) WriteBytes(to, content);
        };
        copy(options.common.journal, killed);
        std::error_code none_yet;
        for (int part = 0; fs::exists(PartOf(options.proof, part), none_yet); ++part) {
          copy(PartOf(options.proof, part), PartOf(killed + ".proof", part));
        }
        source.request_stop();
      });
    }
    const Result<Certificate> found = Compute(ensemble, options, stream, source.get_token());
    killer.request_stop();
    if (killer.joinable()) killer.join();
    Check(made, ensemble, found, options);
    if (found.ok() && found->proof && stream.Below(8) == 0 && !testing::Test::HasFailure()) {
      CheckGuardFiles(made, ensemble, *found, folder, stream);
    }
    options.common.resume = true;
    for (const std::string& journal : {killed, options.common.journal}) {
      if (!fs::exists(journal) || testing::Test::HasFailure()) continue;
      NativeBoundOptions again = options;
      again.common.journal = journal;
      if (journal == killed && !options.proof.empty()) again.proof = killed + ".proof";
      again.common.threads = static_cast<int>(1 + stream.Below(2));
      again.common.time_limit = std::pow(10.0, stream.Uniform(-6, -1.7));
      ++(journal == killed ? tally_.killed : tally_.resumed);
      SCOPED_TRACE(journal == killed ? "killed and resumed" : "resumed");
      Check(made, ensemble, Compute(ensemble, again, stream), again);
    }
  }

  void Check(const Case& made, const Ensemble& ensemble, const Result<Certificate>& found,
             const NativeBoundOptions& options) {
    ++tally_.runs;
    if (!found.ok()) {
      // Networks whose outputs may overflow are refused, and a journal whose proof was taken away
      // while it was copied; nothing else is.
      const std::string& why = found.error().message;
      EXPECT_TRUE(why.find("may overflow") != std::string::npos ||
                  why.find("a part of the proof") != std::string::npos)
          << why;
      ++tally_.refused;
      return;
    }
    EXPECT_TRUE(found->proof || options.proof.empty());
    if (found->proof) {
      const auto report = CheckProof(*found, ensemble, options.proof);
      ASSERT_TRUE(report.ok()) << report.error().message;
      ASSERT_TRUE(report->accepted())
          << report->FirstProblem()->name << ": " << report->FirstProblem()->detail;
      ++tally_.proofs;
    }
    const std::vector<mpq_class> truth = made.truth(found->member_error);
    for (const ClassBound& bound : found->classes) {
      SCOPED_TRACE(testing::Message() << "class " << bound.label << ", " << NameOf(bound.status));
      CheckClass(ensemble, bound, truth[bound.label], options);
    }
    if (options.decide) CheckDecision(*found, truth, *options.decide);
  }

  // The index and the spatial bounds are proved, and no box or member of a class together bound it
  // below the truth.
  void CheckGuardFiles(const Case& made, const Ensemble& ensemble, Certificate certificate,
                       const TemporaryFolder& folder, Stream& stream) {
    // By this process, or by several.
    const bool alone = stream.Below(3) != 0;
    LocalTeamOf team(alone ? 1 : static_cast<int>(2 + stream.Below(3)),
                     [&ensemble](Team& helper) { return HelpBounds(ensemble, helper, 1); });
    Team* const helpers = alone ? nullptr : &team.leader();
    tally_.teams += alone ? 0 : 1;
    const MemberBounds members =
        BoundMembers(ensemble, certificate.member_error, 1, {}, {}, helpers).value();
    SpatialOptions options;
    options.team = helpers;
    options.leaves = static_cast<std::int64_t>(1 + stream.Below(40));
    options.time_limit = 0.005;
    options.threads = 1;
    options.least_spared = 0;
    const SpatialFile spatial =
        ComputeSpatialBounds(ensemble, certificate, members, {}, options).value();
    const MemberIndex index =
        MemberIndex::Build(ensemble, members.upper, certificate.member_error, 1).value();
    ASSERT_TRUE(index.Save(folder / kIndexFile).ok());
    WriteBytes(folder / kSpatialFile, spatial.bytes);
    certificate.index_digest = index.digest();
    certificate.spatial_digest = Sha256Of(spatial.bytes);
    certificate.index_proof_digest =
        WriteGuardProof(folder / kIndexProofFile, certificate, members.proofs).value();
    certificate.spatial_proof_digest =
        WriteGuardProof(folder / kSpatialProofFile, certificate, spatial.proofs).value();
    const auto report = CheckGuardProofs(certificate, ensemble, folder / "", {.threads = 1});
    ASSERT_TRUE(report.ok()) << report.error().message;
    ASSERT_TRUE(report->accepted())
        << report->FirstProblem()->name << ": " << report->FirstProblem()->detail;
    ++tally_.guard_files;
    const std::vector<mpq_class> truth = made.truth(certificate.member_error);
    const SpatialBounds bounds = SpatialBounds::Parse(spatial.bytes, "spatial").value();
    for (std::int32_t c = 0; c < bounds.classes(); ++c) {
      double largest = 0;
      for (const SpatialBounds::Node& node : bounds.tree(c)) {
        if (node.feature < 0) largest = std::max(largest, node.value);
      }
      for (const double upper : {largest, index.LargestUpper(c)}) {
        ASSERT_TRUE(std::isinf(upper) || mpq_class(upper) >= truth[c])
            << "UNSOUND: " << upper << " < " << truth[c].get_d();
      }
    }
  }

  // Proved: no class leaks above the bound. Refuted: there is a witness, which CheckClass has
  // looked at, above it.
  void CheckDecision(Certificate certificate, const std::vector<mpq_class>& truth, double bound) {
    ++tally_.decisions;
    certificate.declared =
        DeclaredDecision{1, std::vector<double>(certificate.classes.size(), bound), false};
    const DeclaredOutcome outcome = certificate.Outcome();
    if (outcome == DeclaredOutcome::kProved) {
      ++tally_.declared_proved;
      ASSERT_LE(std::ranges::max(truth), mpq_class(bound)) << "UNSOUND: proved";
    }
    if (outcome == DeclaredOutcome::kRefuted) {
      ++tally_.declared_refuted;
      EXPECT_TRUE(std::ranges::any_of(certificate.classes, [&](const ClassBound& c) {
        return c.witness && c.beta_lower > bound;
      }));
    }
  }

  void CheckClass(const Ensemble& ensemble, const ClassBound& bound, const mpq_class& truth,
                  const NativeBoundOptions& options) {
    ++tally_.classes;
    tally_.leaking += truth > 0;
    // The claim of the whole project.
    ASSERT_TRUE(std::isinf(bound.beta_upper) || mpq_class(bound.beta_upper) >= truth)
        << "UNSOUND: " << bound.beta_upper << " < " << truth.get_d();
    ASSERT_LE(bound.beta_lower, bound.beta_upper);
    CheckWitness(ensemble, bound);
    bool limited = false;
    for (const auto& [name, count] : bound.counters) {
      if (name == "dropped") tally_.dropped += count;
      if (name == "limited_by_rounding") limited = count != 0;
    }
    tally_.rounding += limited;
    const double slack = bound.beta_upper - bound.beta_lower;
    if (bound.status == BoundStatus::kExact) {
      EXPECT_LE(slack, 1e-6 * std::max(1.0, bound.beta_upper));
      ++tally_.exact;
    } else if (bound.status == BoundStatus::kGap) {
      const bool tiny = options.decide && *options.decide < 0x1p-900;
      const bool decided =  // that was all that was asked
          options.decide &&
          (bound.beta_upper <= *options.decide || bound.beta_lower > *options.decide);
      if (!limited && !options.decide) {
        EXPECT_LE(slack, options.common.gap * bound.beta_upper * (1 + 1e-6) + 2e-6);
      }
      EXPECT_TRUE(!options.decide || decided || limited || tiny);
      ++tally_.gap;
    } else {
      ++tally_.deadline;
    }
  }

  static void CheckWitness(const Ensemble& ensemble, const ClassBound& bound) {
    if (!bound.witness) {
      EXPECT_EQ(bound.beta_lower, 0);
      return;
    }
    const auto margin = [&](const Network& network) {
      return ExactMargin(ExactLogits(network, bound.witness->x), bound.label);
    };
    EXPECT_GE(margin(ensemble.network()), mpq_class(bound.beta_lower));
    EXPECT_LE(margin(ensemble.Member(bound.witness->member)), 0);
  }

  Tally& tally_;
};

TEST(LineOracle, FindsTheBetasWorkedByHand) {
  const auto shifted = [](float shift) {
    return HandMade("1 > dense 1 > 2", {1, -shift, 1, 0, -0.5F, 0});
  };
  const auto beta = [](const Network& network, const Network& member, double allowance = 0) {
    return ExactBeta(PiecesOf(network), PiecesOf(member), 0, mpq_class(allowance));
  };
  EXPECT_EQ(beta(shifted(0), shifted(0.25F)), mpq_class(1, 4));
  EXPECT_EQ(beta(shifted(0), shifted(0)), 0);
  EXPECT_EQ(beta(shifted(0), shifted(0), 0.125), mpq_class(1, 8));
  const auto deep = [](float bias, float w) {
    return HandMade("1 > dense 1 > dense 1 > 2", {1, bias, w, 0, -1, 0, 2.375F, 0});
  };
  EXPECT_EQ(beta(deep(0, 1), deep(0.25F, 2)), mpq_class(23, 16));
  // Without hidden layers: f = 2x - 1, and the member has the boundary at 3/4.
  const auto line = [](float at_zero) { return HandMade("1 > 2", {1, -1, at_zero, 0}); };
  EXPECT_EQ(beta(line(-1), line(-1.5F)), mpq_class(1, 2));
}

TEST(WholeRuns, NeverCertifyLessThanTheTruth) {
  const std::int64_t runs = FromEnvironment("LUCID_WHOLE_RUNS", 2500);
  auto seed = static_cast<std::uint64_t>(FromEnvironment("LUCID_WHOLE_SEED", 1));
  const std::uint64_t first = seed;
  constexpr std::int64_t kRunsOfOne = 12;
  Tally tally;
  WholeRuns whole(tally);
  auto reported = std::chrono::steady_clock::now();
  for (; tally.runs < runs && !HasFailure(); ++seed) {
    whole.Run(seed, kRunsOfOne);
    if (std::chrono::steady_clock::now() - reported > std::chrono::seconds(30)) {
      reported = std::chrono::steady_clock::now();
      std::fprintf(stderr, "%lld of %lld runs\n", static_cast<long long>(tally.runs),
                   static_cast<long long>(runs));
    }
  }
  std::printf(
      "seeds %llu to %llu: %lld ensembles, %lld runs (%lld resumed, %lld killed and resumed, %lld "
      "refused), %lld bounds: %lld exact, %lld gap, %lld deadline; %lld leak, %lld limited by "
      "rounding, %lld regions given up\n",
      static_cast<unsigned long long>(first), static_cast<unsigned long long>(seed - 1),
      static_cast<long long>(tally.ensembles), static_cast<long long>(tally.runs),
      static_cast<long long>(tally.resumed), static_cast<long long>(tally.killed),
      static_cast<long long>(tally.refused), static_cast<long long>(tally.classes),
      static_cast<long long>(tally.exact), static_cast<long long>(tally.gap),
      static_cast<long long>(tally.deadline), static_cast<long long>(tally.leaking),
      static_cast<long long>(tally.rounding), static_cast<long long>(tally.dropped));
  std::printf(
      "%lld decisions: %lld proved, %lld refuted; %lld times files of guards; %lld times several "
      "processes\n",
      static_cast<long long>(tally.decisions), static_cast<long long>(tally.declared_proved),
      static_cast<long long>(tally.declared_refuted), static_cast<long long>(tally.guard_files),
      static_cast<long long>(tally.teams));
  if (runs < 1000 || HasFailure()) return;
  EXPECT_GT(4 * tally.decisions, tally.runs);
  EXPECT_GT(20 * tally.declared_proved, tally.decisions);
  EXPECT_GT(20 * tally.declared_refuted, tally.decisions);
  EXPECT_GT(3 * tally.leaking, tally.classes) << "the test has become easy";
  EXPECT_GT(20 * tally.exact, tally.classes);
  EXPECT_GT(20 * tally.deadline, tally.classes);
  EXPECT_GT(10 * tally.resumed, tally.runs);
  EXPECT_GT(4 * tally.proofs, tally.runs);
  EXPECT_GT(100 * tally.guard_files, tally.runs);
  EXPECT_GT(5 * tally.teams, tally.runs);
  EXPECT_GT(tally.killed, 0);
  EXPECT_LT(10 * tally.refused, tally.runs);
}

}  // namespace
}  // namespace lucid
