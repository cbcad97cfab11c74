#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/parallel.h"
#include "certificate/proof_bounder.h"
#include "certificate/proof_reader.h"
#include "certificate/proof_tree.h"
#include "certificate/witness.h"
#include "lucid/certificate/check.h"

namespace lucid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What was found about one class so far.
struct Finding {
  bool asked = false;  // the class claims something, and the file has a well-formed tree for it
  double largest = -kInfinity;
  // The first thing that is wrong, in the file's order: the same one for any number of threads.
  std::uint64_t wrong_at = std::numeric_limits<std::uint64_t>::max();
  std::string wrong;
};

// Checks every missing child and every closing, on a few threads. A piece of work is a missing
// child or a block of the file; each is independent of the others.
class Recomputation {
 public:
  Recomputation(const Certificate& certificate, const Ensemble& ensemble, const ProofFile& file,
                const Domain& domain, const std::vector<ProofTree>& trees,
                std::vector<Finding>& findings, ProgressCallback progress)
      : certificate_(certificate),
        ensemble_(ensemble),
        file_(file),
        domain_(domain),
        trees_(trees),
        findings_(findings),
        progress_(std::move(progress)) {}

  Status Run(int threads, const std::stop_token& stop) {
    for (std::size_t c = 0; c < trees_.size(); ++c) {
      if (!findings_[c].asked) continue;
      for (const ProofTree::Missing& missing : trees_[c].missing()) {
        missing_.push_back({static_cast<std::int32_t>(c), missing});
      }
    }
    for (int w = 0; w < EffectiveThreads(threads); ++w) workers_.emplace_back(ensemble_.network());
    const std::size_t pieces = missing_.size() + file_.blocks();
    return ParallelFor(static_cast<std::int64_t>(pieces), threads, stop,
                       [&](std::int64_t index, int worker) {
                         const auto piece = static_cast<std::size_t>(index);
                         return piece < missing_.size() ? CheckMissing(piece, workers_[worker])
                                                        : CheckBlock(piece, workers_[worker]);
                       });
  }

 private:
  struct Worker {
    explicit Worker(const Network& network)
        : bounder(network), parameters(network.parameters.size()) {}
    ProofBounder bounder;
    std::vector<float> parameters;
    // What the bounder holds: nothing, a region, a member in it.
    bool region_empty = false, member_empty = false;
    std::int32_t member = -1;
  };
  struct MissingChild {
    std::int32_t label = 0;
    ProofTree::Missing child;
  };

  // Pieces are numbered in the file's order, closings inside a block too (no block has 2^32).
  static std::uint64_t PlaceOf(std::size_t piece, std::size_t inside) {
    return (static_cast<std::uint64_t>(piece) << 32) + inside;
  }

  void Report(std::int32_t label, std::uint64_t place, std::string wrong) {
    const std::lock_guard lock(mutex_);
    Finding& finding = findings_[label];
    if (place >= finding.wrong_at) return;
    finding.wrong_at = place;
    finding.wrong = std::move(wrong);
  }
  // What comes after something wrong need not be looked at.
  bool Settled(std::int32_t label, std::uint64_t place) {
    const std::lock_guard lock(mutex_);
    return findings_[label].wrong_at < place;
  }

  Status CheckMissing(std::size_t piece, Worker& worker) {
    const auto& [label, child] = missing_[piece];
    const ProofTree& tree = trees_[label];
    const std::uint64_t place = PlaceOf(piece, 0);
    if (Settled(label, place)) return Ok();
    if (worker.bounder.EnterRegion(tree.ChildRegion(child.node, child.side, domain_))) {
      Report(label, place,
             fmt::format("node {} has no {} child, but there may be inputs", tree.IdOf(child.node),
                         child.side == 0 ? "first" : "second"));
    }
    return Ok();
  }

  Status CheckBlock(std::size_t piece, Worker& worker) {
    LUCID_ASSIGN(const std::vector<ProofPart> parts, file_.ReadBlock(piece - missing_.size()));
    std::size_t inside = 0, count = 0;
    std::vector<double> largest(findings_.size(), -kInfinity);
    for (const ProofPart& part : parts) {
      count += part.node.closings.size();
      if (part.node.closings.empty() || !findings_[part.label].asked ||
          Settled(part.label, PlaceOf(piece, inside))) {
        inside += part.node.closings.size();
        continue;
      }
      const ProofTree& tree = trees_[part.label];
      const ProofRegion region = tree.RegionOf(tree.Find(part.node.id), domain_);
      Enter(region, Ties::kRule, worker);
      for (const ProofClosing& closing : part.node.closings) {
        const std::uint64_t place = PlaceOf(piece, inside++);
        const double bound = Settle(region, part.label, closing, worker);
        largest[part.label] = std::max(largest[part.label], bound);
        if (bound <= certificate_.classes[part.label].beta_upper) continue;
        Report(part.label, place, Describe(part, closing, bound));
      }
    }
    const std::lock_guard lock(mutex_);
    for (std::size_t c = 0; c < findings_.size(); ++c) {
      findings_[c].largest = std::max(findings_[c].largest, largest[c]);
    }
    done_ += static_cast<std::int64_t>(count);
    if (progress_) {
      progress_({"checking the proof", "closings", done_,
                 static_cast<std::int64_t>(file_.closings()), 0});
    }
    return Ok();
  }

  static void Enter(const ProofRegion& region, Ties ties, Worker& worker) {
    worker.region_empty = !worker.bounder.EnterRegion(region, ties);
    worker.member = -1;
  }

  // The closing's bound; -inf where no input is left.
  double Recompute(std::int32_t label, const ProofClosing& closing, Worker& worker) const {
    if (worker.region_empty) return -kInfinity;
    if (worker.member != closing.member) {
      ensemble_.CopyParameters(closing.member, worker.parameters);
      worker.member_empty = !worker.bounder.EnterMember(worker.parameters);
      worker.member = closing.member;
    }
    if (worker.member_empty) return -kInfinity;
    if (closing.empty) return kInfinity;
    return worker.bounder.Bound(label, closing.other, closing.below, certificate_.member_error, closing.lambda,
                                closing.dual);
  }

  // A bound that is too large may come from a choice between two lines that are as good as equal,
  // and that the engine made the other way: both ways are right.
  double Settle(const ProofRegion& region, std::int32_t label, const ProofClosing& closing,
                Worker& worker) const {
    const double enough = certificate_.classes[label].beta_upper;
    double bound = Recompute(label, closing, worker);
    for (const Ties ties : {Ties::kAsComputed, Ties::kLast}) {
      if (bound <= enough) return bound;
      Enter(region, ties, worker);
      bound = std::min(bound, Recompute(label, closing, worker));
      Enter(region, Ties::kRule, worker);
    }
    return bound;
  }

  std::string Describe(const ProofPart& part, const ProofClosing& closing, double bound) const {
    const std::string where = fmt::format("node {}, member {} against class {}", part.node.id,
                                          closing.member, closing.other);
    if (closing.empty) return where + ": said to leave no input, but there may be some";
    return fmt::format("{}: the bound is {}, above beta_upper {}", where, bound,
                       certificate_.classes[part.label].beta_upper);
  }

  const Certificate& certificate_;
  const Ensemble& ensemble_;
  const ProofFile& file_;
  const Domain& domain_;
  const std::vector<ProofTree>& trees_;
  std::vector<Finding>& findings_;
  const ProgressCallback progress_;
  std::vector<MissingChild> missing_;
  std::vector<Worker> workers_;
  std::mutex mutex_;  // of findings_ while threads run, and of progress
  std::int64_t done_ = 0;
};

// Why the file is no proof of this certificate; empty if it is one.
std::string ProblemOf(const ProofHeader& header, const Certificate& certificate) {
  const auto shown = [](const Digest& digest) { return digest.Hex().substr(0, 16); };
  const auto other = [&](std::string_view what, const auto& theirs, const auto& ours) {
    return fmt::format("it is of another {}: {}, the certificate's is {}", what, theirs, ours);
  };
  if (header.network_digest != certificate.network_digest) {
    return other("network", shown(header.network_digest), shown(certificate.network_digest));
  }
  if (header.ensemble_digest != certificate.ensemble_digest) {
    return other("ensemble", shown(header.ensemble_digest), shown(certificate.ensemble_digest));
  }
  if (header.classes != static_cast<std::int32_t>(certificate.classes.size())) {
    return other("number of classes", header.classes, certificate.classes.size());
  }
  if (header.member_error != certificate.member_error) {
    return other("members' error", header.member_error, certificate.member_error);
  }
  return "";
}

Check Answer(const ClassBound& bound, const ProofTree& tree, const Finding& finding) {
  using enum Check::Outcome;
  const std::string name = fmt::format("proof of class {}", bound.label);
  if (std::isinf(bound.beta_upper)) return {name, kPassed, "beta_upper is inf: nothing is claimed"};
  if (tree.nodes() == 0) return {name, kNotDone, "the file has no proof of this class"};
  if (!finding.wrong.empty()) return {name, kFailed, finding.wrong};
  return {name, kPassed,
          fmt::format("{} nodes, {} closings, largest bound {}, beta_upper {}", tree.nodes(),
                      tree.closings(), finding.largest, bound.beta_upper)};
}

}  // namespace

Result<CheckReport> CheckProof(const Certificate& certificate, const Ensemble& ensemble,
                               const std::string& proof, const CheckOptions& options,
                               const ProgressCallback& progress, std::stop_token stop) {
  using enum Check::Outcome;
  LUCID_TRY(CheckSizes(certificate, ensemble));
  CheckReport report;
  for (const ClassBound& bound : certificate.classes) {
    report.checks.push_back(CheckWitness(bound, ensemble));
  }
  // A file that is no proof, or not of this certificate, is an answer; one that cannot be read is
  // an error.
  const auto refuse = [&](std::string why) {
    report.checks.push_back({"proof file", kFailed, std::move(why)});
    for (const ClassBound& bound : certificate.classes) {
      report.checks.push_back(
          {fmt::format("proof of class {}", bound.label), kNotDone, "the file is no proof of it"});
    }
    return report;
  };
  const Result<ProofFile> file = ProofFile::Open(proof);
  if (!file.ok()) {
    if (file.error().kind == ErrorKind::kIo) return file.error();
    return refuse(file.error().message);
  }
  const std::string problem = ProblemOf(file->header(), certificate);
  if (!problem.empty()) return refuse(fmt::format("{}: {}", proof, problem));
  LUCID_ASSIGN(Domain domain, Domain::Named(certificate.domain, ensemble.manifest().schema));
  const ProofShape shape(ensemble.network().architecture, ensemble.members(), std::move(domain));
  Result<std::vector<ProofTree>> trees = ReadProofTrees(*file, shape, stop);
  if (!trees.ok()) {
    if (trees.error().kind == ErrorKind::kInterrupted) return trees.error();
    return refuse(trees.error().message);
  }
  report.checks.push_back({"proof file", kPassed, ""});

  std::vector<Finding> findings(trees->size());
  for (const ClassBound& bound : certificate.classes) {
    ProofTree& tree = (*trees)[bound.label];
    Finding& finding = findings[bound.label];
    if (std::isinf(bound.beta_upper) || tree.nodes() == 0) continue;
    finding.wrong = tree.FindProblem(shape, bound.label);
    finding.asked = finding.wrong.empty();
  }
  Recomputation work(certificate, ensemble, *file, shape.domain, *trees, findings, progress);
  LUCID_TRY(work.Run(options.threads, stop));
  for (const ClassBound& bound : certificate.classes) {
    report.checks.push_back(Answer(bound, (*trees)[bound.label], findings[bound.label]));
  }
  return report;
}

}  // namespace lucid
