// How fast leave-one-out networks are trained, beside PyTorch and beside the core's peak. See
// README.md.
//
//   train_benchmark --data DIR [--peer torch_peer.py] [--repeats N] [--clock wall|cpu] [--json
//   FILE]
//
// Exit status: 0 done, 1 an answer was wrong or something failed, 2 bad arguments, 77 no data.

#include <fmt/format.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fma_peak.h"
#include "lucid/data/dataset.h"
#include "lucid/data/npz.h"
#include "lucid/nn/network.h"
#include "reference_loop.h"
#include "train/group_trainer.h"

namespace lucid {
namespace {

struct Case {
  std::string data, arch;
  std::int64_t batch;
  bool has_peer;
  TrainOptions::Method method = TrainOptions::Method::kPlain;
};
const Case kCases[] = {
    {"adult", "2x50", 1024, true},
    {"adult", "2x50", 1024, false, TrainOptions::Method::kClipped},
    {"adult", "2x50", 1024, false, TrainOptions::Method::kPrivate},
    {"crypto", "2x50", 100, true},
    {"crypto", "2x100", 100, false},
    {"crypto", "4x30", 100, false},
    {"adult", "conv", 1024, false},
    {"adult", "conv", 1024, false, TrainOptions::Method::kPrivate},
};

constexpr std::int64_t kEpochs = 50;
// What the reference and the portable path (a hundred times slower) are given.
constexpr std::int64_t kFewEpochs = 1;
// The reference works in double, the kernels in float: after one epoch (about 30 steps) their
// weights differ by rounding, and by what a neuron at exactly 0 does with it.
constexpr double kReferenceTolerance = 1e-5;
// Of our N from the median of PyTorch's networks: each side draws its own initial weights and
// order.
constexpr double kAccuracyMargin = 0.02;

struct Options {
  std::string data, peer, json;
  std::string clock = "wall";  // or "cpu": what the table shows; the other one is in the JSON lines
  int repeats = 5;
};

struct Times {
  double wall = INFINITY, cpu = INFINITY;
  void KeepSmaller(const Times& other) {
    wall = std::min(wall, other.wall);
    cpu = std::min(cpu, other.cpu);
  }
};

struct PeerRuns {
  Times best;
  std::vector<double> accuracies;  // one network per repeat
};

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TrainOptions OptionsOf(const Case& c, std::int64_t epochs, std::int64_t rows) {
  TrainOptions options;
  options.method = c.method;
  options.expected_rows = rows;
  options.noise_variance = std::uint64_t{1} << 32;  // of about epsilon 1; its size costs nothing
  options.batch = c.batch;
  options.epochs = epochs;
  options.batches = (rows + c.batch - 1) / c.batch;
  return options;
}

// Multiplications and additions of a loop that skips nothing: forward, gradient of the weights, and
// of the inputs of every layer but the first.
double DenseOperations(const Architecture& architecture, double rows, double epochs) {
  double per_row = 0;
  bool first = true;
  for (const Layer& layer : architecture.layers()) {
    const auto products = static_cast<double>(layer.weights() * layer.positions);
    per_row += 2 * products * (first ? 2 : 3);
    first = false;
  }
  return per_row * rows * epochs;
}

std::optional<Secret> SecretOf(const Case& c) {
  if (c.method != TrainOptions::Method::kPrivate) return std::nullopt;
  return Secret::FromSeed(1);
}

// Trains groups of one case with one instruction set, and sees to it that a member has the same
// bits whatever its lane.
class Contender {
 public:
  Contender(const TrainPlan& plan, InstructionSet set) : trainer_(plan, set), set_(set) {
    members_.push_back(kNoRow);
    for (int i = 1; i < trainer_.lanes(); ++i) members_.push_back(kFirstRow + i);
    weights_.resize(members_.size() * static_cast<std::size_t>(plan.architecture().parameters()));
  }

  InstructionSet set() const { return set_; }
  std::size_t size() const { return members_.size(); }  // one per lane
  const Times& best() const { return best_; }           // of one network
  std::span<const float> Member(std::size_t i) const {
    const std::size_t size = weights_.size() / members_.size();
    return std::span(weights_).subspan(i * size, size);
  }

  // One timed run; the members move one lane further each time.
  Status Run() {
    const std::size_t lanes = members_.size(), size = weights_.size() / lanes;
    std::vector<std::int64_t> left_out(members_);
    const auto shift = static_cast<std::ptrdiff_t>(runs_ % lanes);
    std::rotate(left_out.begin(), left_out.begin() + shift, left_out.end());
    std::vector<float> out(weights_.size());
    const double cpu = ThreadSeconds();
    const auto start = std::chrono::steady_clock::now();
    LUCID_TRY(trainer_.Train(left_out, out));
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    const auto networks = static_cast<double>(lanes);
    best_.KeepSmaller({wall.count() / networks, (ThreadSeconds() - cpu) / networks});
    std::rotate(out.begin(), out.end() - shift * static_cast<std::ptrdiff_t>(size), out.end());
    if (runs_++ == 0) weights_ = out;
    if (out != weights_) return InternalError("a network depends on its lane");
    return Ok();
  }

 private:
  static constexpr std::int64_t kFirstRow = 100;  // any row will do

  GroupTrainer trainer_;
  InstructionSet set_;
  std::vector<std::int64_t> members_;
  std::vector<float> weights_;  // of the members in their own order
  std::size_t runs_ = 0;
  Times best_;
};

// One row of cases of the table: everything measured about a case.
class Measurement {
 public:
  Measurement(const Case& c, const Dataset& dataset, const Architecture& architecture)
      : case_(c),
        dataset_(dataset),
        plan_(architecture, dataset.train, OptionsOf(c, kEpochs, dataset.train.rows()),
              SecretOf(c)),
        few_plan_(architecture, dataset.train, OptionsOf(c, kFewEpochs, dataset.train.rows()),
                  SecretOf(c)) {
    const auto sets = AvailableInstructionSets();
    for (const InstructionSet set : sets) {
      few_.emplace_back(few_plan_, set);
      if (set != InstructionSet::kPortable || sets.size() == 1) full_.emplace_back(plan_, set);
    }
  }

  std::string Name() const {
    constexpr const char* kMethods[] = {"", " clipped", " private"};
    return fmt::format("{} {}{}", case_.data, case_.arch, kMethods[static_cast<int>(case_.method)]);
  }
  const Case& subject() const { return case_; }

  // The checks that come before any time is believed; they take a few seconds.
  Status CheckAnswers() {
    for (Contender& contender : few_) LUCID_TRY(contender.Run());
    const Contender& first = few_.front();
    for (const Contender& other : few_) {
      for (std::size_t i = 0; i < std::min(first.size(), other.size()); ++i) {
        if (std::ranges::equal(first.Member(i), other.Member(i))) continue;
        return InternalError(fmt::format("{}: {} and {} give different weights", Name(),
                                         NameOf(first.set()), NameOf(other.set())));
      }
    }
    // The loop in double neither clips nor adds noise; the tests have one that does, bit for bit.
    if (case_.method != TrainOptions::Method::kPlain) return Ok();
    const std::vector<double> reference = TrainByReference(few_plan_, kNoRow);
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const double difference = reference[i] - static_cast<double>(first.Member(0)[i]);
      reference_error_ = std::max(reference_error_, std::abs(difference));
    }
    if (!(reference_error_ <= kReferenceTolerance)) {
      return InternalError(
          fmt::format("{}: weights differ from the reference loop's by {:.2g} > {}", Name(),
                      reference_error_, kReferenceTolerance));
    }
    return Ok();
  }

  Status RunOnce() {
    for (Contender& contender : full_) LUCID_TRY(contender.Run());
    if (!std::ranges::equal(full_.front().Member(0), full_.back().Member(0))) {
      return InternalError(Name() + ": two instruction sets give different weights");
    }
    const auto weights = full_.front().Member(0);
    const Network network{plan_.architecture(), {weights.begin(), weights.end()}};
    accuracy_ = Accuracy(Evaluator(network), dataset_.test);
    return Ok();
  }

  void AddPeer(const nlohmann::json& line) {
    PeerRuns& peer = peers_[line.at("loop").get<std::string>()];
    peer.best.KeepSmaller({line.at("seconds").get<double>(), line.at("cpu_seconds").get<double>()});
    peer.accuracies.push_back(line.at("test_accuracy").get<double>());
  }

  // Of all PyTorch networks of this case; NaN without any. Single ones may be several points off:
  // with a constant rate the last step is as large as the first.
  double MedianPeerAccuracy() const {
    std::vector<double> all;
    for (const auto& [loop, peer] : peers_) {
      all.insert(all.end(), peer.accuracies.begin(), peer.accuracies.end());
    }
    if (all.empty()) return NAN;
    std::ranges::sort(all);
    return (all[all.size() / 2] + all[(all.size() - 1) / 2]) / 2;
  }

  Status CheckAccuracy() const {
    const double peer = MedianPeerAccuracy();
    if (std::isnan(peer) || std::abs(peer - accuracy_) <= kAccuracyMargin) return Ok();
    return InternalError(fmt::format("{}: test accuracy {:.4f}, the median of PyTorch's is {:.4f}",
                                     Name(), accuracy_, peer));
  }

  // One line per instruction set, on the standard output and (everything measured) in `lines`.
  void Print(bool use_cpu, double peak, std::vector<nlohmann::json>& lines) const {
    for (const Contender& contender : full_) PrintOne(contender, kEpochs, use_cpu, peak, lines);
    for (const Contender& contender : few_) {
      const bool done = std::ranges::any_of(
          full_, [&](const Contender& full) { return full.set() == contender.set(); });
      if (!done) PrintOne(contender, kFewEpochs, use_cpu, peak, lines);
    }
  }

 private:
  void PrintOne(const Contender& contender, std::int64_t epochs, bool use_cpu, double peak,
                std::vector<nlohmann::json>& lines) const {
    const double scale = static_cast<double>(kEpochs) / static_cast<double>(epochs);
    const Times ours{contender.best().wall * scale, contender.best().cpu * scale};
    const auto shown = [&](const Times& times) { return use_cpu ? times.cpu : times.wall; };
    const auto rows = static_cast<double>(dataset_.train.rows());
    const double gflops = DenseOperations(plan_.architecture(), rows, kEpochs) / shown(ours) / 1e9;
    nlohmann::json line{{"case", Name()},
                        {"batch", case_.batch},
                        {"set", NameOf(contender.set())},
                        {"measured_epochs", epochs},
                        {"seconds", ours.wall},
                        {"cpu_seconds", ours.cpu},
                        {"gflops", gflops},
                        {"peak_share", gflops / peak},
                        {"accuracy", accuracy_},
                        {"reference_error", reference_error_}};
    std::string text =
        fmt::format("{:<13}{:>6} {:<9}{:>9.4f}{:>9.1f}{:>7.0f} %", Name(), case_.batch,
                    NameOf(contender.set()), shown(ours), gflops, 100 * gflops / peak);
    for (const char* loop : {"published", "plain"}) {
      const auto found = peers_.find(loop);
      if (found == peers_.end()) {
        text += fmt::format("{:>11}{:>9}", "-", "-");
        continue;
      }
      const PeerRuns& peer = found->second;
      line[loop] = {{"seconds", peer.best.wall},
                    {"cpu_seconds", peer.best.cpu},
                    {"ratio", peer.best.wall / ours.wall},
                    {"cpu_ratio", peer.best.cpu / ours.cpu},
                    {"accuracies", peer.accuracies}};
      text += fmt::format("{:>11.3f}{:>8.1f}x", shown(peer.best), shown(peer.best) / shown(ours));
    }
    const double peer_accuracy = MedianPeerAccuracy();
    fmt::print("{}{:>10.4f}{:>10}\n", text, accuracy_,
               std::isnan(peer_accuracy) ? "-" : fmt::format("{:.4f}", peer_accuracy));
    lines.push_back(std::move(line));
  }

  Case case_;
  const Dataset& dataset_;
  TrainPlan plan_, few_plan_;
  std::vector<Contender> full_, few_;
  std::map<std::string, PeerRuns> peers_;
  double accuracy_ = 0, reference_error_ = 0;
};

// PyTorch in a process of its own.
class Peer {
 public:
  explicit Peer(std::string script) : script_(std::move(script)) {}

  bool there() const { return !script_.empty(); }

  // Trains the case once with each loop; no line when torch is absent.
  Result<std::vector<nlohmann::json>> Run(const Case& c, const std::string& npz, int seed) {
    const std::string command = fmt::format(
        "/usr/bin/python3 '{}' --npz '{}' --data-name {} --arch {} --batch {} --epochs {} "
        "--seed {}",
        script_, npz, c.data, c.arch, c.batch, kEpochs, seed);
    std::FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return IoError("cannot run " + command);
    std::string text;
    std::array<char, 4096> buffer{};
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
      text.append(buffer.data(), n);
    }
    const int status = pclose(pipe);
    std::vector<nlohmann::json> lines;
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)) {
      script_.clear();
      return lines;
    }
    if (status != 0) return InternalError(fmt::format("the PyTorch peer failed: {}", command));
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      lines.push_back(nlohmann::json::parse(line, nullptr, false));
      if (lines.back().is_discarded()) return InternalError("the PyTorch peer wrote: " + line);
    }
    return lines;
  }

 private:
  std::string script_;
};

class TrainBenchmark {
 public:
  explicit TrainBenchmark(const Options& options) : options_(options), peer_(options.peer) {}

  Status Run() {
    LUCID_TRY(Load());
    for (Measurement& m : measurements_) {
      Say(fmt::format("checking {}", m.Name()));
      LUCID_TRY(m.CheckAnswers());
    }
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      for (Measurement& m : measurements_) {
        Say(fmt::format("repeat {}/{}: {}", repeat + 1, options_.repeats, m.Name()));
        MeasurePeak();
        LUCID_TRY(m.RunOnce());
        if (m.subject().has_peer && peer_.there()) LUCID_TRY(RunPeer(m, repeat));
      }
    }
    for (const Measurement& m : measurements_) LUCID_TRY(m.CheckAccuracy());
    return Print();
  }

 private:
  static void Say(const std::string& text) { fmt::print(stderr, "train_benchmark: {}\n", text); }

  Status Load() {
    for (const Case& c : kCases) {
      auto [at, is_new] = datasets_.try_emplace(c.data);
      if (is_new) {
        LUCID_ASSIGN(at->second, LoadDataset(options_.data + "/" + c.data));
      }
      const Dataset& dataset = at->second;
      LUCID_ASSIGN(const Architecture architecture,
                   Architecture::FromName(c.arch, dataset.features(), dataset.classes()));
      measurements_.emplace_back(c, dataset, architecture);
    }
    return Ok();
  }

  void MeasurePeak() {
    const FmaPeak peak = MeasureFmaPeak();
    if (peak.gflops > peak_.gflops) peak_ = peak;
  }

  Status RunPeer(Measurement& m, int seed) {
    const std::string npz =
        std::filesystem::temp_directory_path() / fmt::format("lucid-bench-{}.npz", getpid());
    LUCID_TRY(WriteNpz(datasets_.at(m.subject().data), npz));
    auto lines = peer_.Run(m.subject(), npz, seed);
    std::filesystem::remove(npz);
    if (!lines.ok()) return lines.error();
    for (const nlohmann::json& line : *lines) {
      m.AddPeer(line);
      torch_ = fmt::format("PyTorch {} on {}", line.at("torch").get<std::string>(),
                           line.at("blas").get<std::string>());
    }
    return Ok();
  }

  Status Print() const {
    fmt::print(
        "\nSeconds per network of {} epochs on one core: {} time, the smallest of {} interleaved "
        "repeats.\nFMA peak of this core, measured between them: {:.1f} GFLOP/s ({}). {}.\n\n",
        kEpochs, options_.clock == "cpu" ? "CPU" : "wall", options_.repeats, peak_.gflops,
        peak_.instruction_set, torch_.empty() ? "No PyTorch here: only our side" : torch_);
    fmt::print("{:<13}{:>6} {:<9}{:>9}{:>9}{:>9}{:>11}{:>9}{:>11}{:>9}{:>10}{:>10}\n", "case",
               "batch", "set", "seconds", "GFLOP/s", "of peak", "published", "ratio", "plain",
               "ratio", "accuracy", "PyTorch's");
    std::vector<nlohmann::json> lines;
    for (const Measurement& m : measurements_)
      m.Print(options_.clock == "cpu", peak_.gflops, lines);
    fmt::print(
        "\nGFLOP/s count the operations of a loop that skips no zeros. The portable path is scaled "
        "from {} epoch.\n",
        kFewEpochs);
    if (options_.json.empty()) return Ok();
    std::ofstream file(options_.json);
    for (nlohmann::json& line : lines) {
      line["peak_gflops"] = peak_.gflops;
      line["repeats"] = options_.repeats;
      file << line.dump() << '\n';
    }
    return file ? Ok() : IoError("cannot write " + options_.json);
  }

  Options options_;
  Peer peer_;
  std::map<std::string, Dataset> datasets_;
  std::deque<Measurement> measurements_;  // they stay where they are: trainers point to their plans
  FmaPeak peak_;
  std::string torch_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains leave-one-out networks beside PyTorch and prints one table.");
  app.add_option("--data", options.data, "folder with adult/ and crypto/")->required();
  app.add_option("--peer", options.peer, "torch_peer.py; without it only our side runs");
  app.add_option("--repeats", options.repeats)->check(CLI::Range(1, 1000));
  app.add_option("--clock", options.clock, "wall (default) or cpu: for a machine that is busy")
      ->check(CLI::IsMember({"wall", "cpu"}));
  app.add_option("--json", options.json, "also write one JSON line per row of the table");
  CLI11_PARSE(app, argc, argv);
  if (!std::filesystem::is_directory(options.data + "/adult") ||
      !std::filesystem::is_directory(options.data + "/crypto")) {
    fmt::print(stderr, "train_benchmark: skipped, no adult/ and crypto/ in {}\n", options.data);
    fmt::print("FMA peak of this core: {:.1f} GFLOP/s\n", MeasureFmaPeak().gflops);
    return 77;
  }
  const Status status = TrainBenchmark(options).Run();
  if (status.ok()) return 0;
  fmt::print(stderr, "train_benchmark: {}\n", status.error().message);
  return 1;
}

}  // namespace
}  // namespace lucid

int main(int argc, char** argv) { return lucid::Main(argc, argv); }
