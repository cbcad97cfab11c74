#include "check/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/parallel.h"
#include "check/claim_checker.h"

namespace lucid {
namespace {

// Checks every claim, on a few threads. A piece of work is a block of a file; each is independent
// of the others.
class Recomputation {
 public:
  Recomputation(const Certificate& certificate, const Ensemble& ensemble, const Proof& proof,
                const Domain& domain, const std::vector<ProofTree>& trees,
                std::vector<Finding>& findings, ProgressCallback progress)
      : certificate_(certificate),
        ensemble_(ensemble),
        proof_(proof),
        domain_(domain),
        trees_(trees),
        findings_(findings),
        progress_(std::move(progress)) {}

  Status Run(int threads, const std::stop_token& stop) {
    for (int w = 0; w < EffectiveThreads(threads); ++w) {
      workers_.emplace_back(ensemble_.network(), domain_);
    }
    return ParallelFor(static_cast<std::int64_t>(proof_.blocks.size()), threads, stop,
                       [&](std::int64_t index, int worker) {
                         return CheckBlock(static_cast<std::size_t>(index), workers_[worker]);
                       });
  }

 private:
  struct Worker {
    Worker(const Network& network, const Domain& domain)
        : checker(network, &domain), parameters(network.parameters.size()) {}
    ClaimChecker checker;
    std::optional<std::pair<std::int32_t, std::uint64_t>> place;  // class and node in `checker`
    std::vector<float> parameters;
    std::int32_t member = -1;  // whose they are; -1: nobody's
  };

  // Pieces are numbered in the file's order, records inside a block too (no block has 2^32).
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

  Status CheckBlock(std::size_t piece, Worker& worker) {
    const auto [file, block] = proof_.blocks[piece];
    LUCID_ASSIGN(const std::vector<ProofRecord> records, proof_.files[file].ReadBlock(block));
    std::int64_t count = 0;
    std::vector<double> largest(findings_.size(), -kInfinity);
    for (std::size_t inside = 0; inside < records.size(); ++inside) {
      const std::int32_t label = records[inside].label;
      const auto* closing = std::get_if<ProofClosing>(&records[inside].what);
      if (closing == nullptr) continue;
      ++count;
      const std::uint64_t place = PlaceOf(piece, inside);
      if (!findings_[label].asked || Settled(label, place)) continue;
      const double bound = Recompute(label, *closing, worker);
      largest[label] = std::max(largest[label], bound);
      if (bound <= ValueOf(*closing)) continue;
      Report(label, place, Describe(*closing, bound));
    }
    const std::lock_guard lock(mutex_);
    for (std::size_t c = 0; c < findings_.size(); ++c) {
      findings_[c].largest = std::max(findings_[c].largest, largest[c]);
    }
    done_ += count;
    if (progress_) {
      progress_(
          {"checking the proof", "closings", done_, static_cast<std::int64_t>(proof_.closings), 0});
    }
    return Ok();
  }

  double Recompute(std::int32_t label, const ProofClosing& closing, Worker& worker) const {
    const std::pair place(label, closing.node);
    if (worker.place != place) {
      worker.place = place;
      worker.checker.Enter(trees_[label].RegionOf(closing.node, domain_));
    }
    if (closing.member != ProofClosing::kEveryPair && worker.member != closing.member) {
      ensemble_.CopyParameters(closing.member, worker.parameters);
      worker.member = closing.member;
    }
    return worker.checker.Bound(label, closing, certificate_.member_error, worker.parameters);
  }

  static std::string Describe(const ProofClosing& closing, double bound) {
    if (closing.member == ProofClosing::kEveryPair) {
      return fmt::format("node {}: said to hold no input, but there may be some", closing.node);
    }
    const std::string where = fmt::format("node {}, member {} against class {}", closing.node,
                                          closing.member, closing.other);
    if (closing.kind == ProofClosing::Kind::kNoInput) {
      return where + ": said to leave no input, but there may be some";
    }
    constexpr const char* kNames[] = {"",        "intervals", "lines", "multipliers",
                                      "moments", "windows"};
    const std::string band =
        closing.band ? fmt::format(" for f from {} to {}", closing.band->least, closing.band->most)
                     : "";
    return fmt::format("{}: the bound by {}{} is {}, it says {}", where,
                       kNames[static_cast<std::size_t>(closing.kind)], band, bound, closing.value);
  }

  const Certificate& certificate_;
  const Ensemble& ensemble_;
  const Proof& proof_;
  const Domain& domain_;
  const std::vector<ProofTree>& trees_;
  std::vector<Finding>& findings_;
  const ProgressCallback progress_;
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

}  // namespace

Result<Proof> OpenProof(const Certificate& certificate, std::span<const std::string> paths) {
  Proof proof;
  for (const std::string& path : paths) {
    LUCID_ASSIGN(ProofFile file, ProofFile::Open(path));
    const std::string problem = ProblemOf(file.header(), certificate);
    if (!problem.empty()) return Mismatch(fmt::format("{}: {}", path, problem));
    for (std::size_t b = 0; b < file.blocks(); ++b)
      proof.blocks.emplace_back(proof.files.size(), b);
    proof.closings += file.closings();
    proof.files.push_back(std::move(file));
  }
  return proof;
}

Status RecomputeClaims(const Certificate& certificate, const Ensemble& ensemble, const Proof& proof,
                       const Domain& domain, const std::vector<ProofTree>& trees,
                       std::vector<Finding>& findings, int threads,
                       const ProgressCallback& progress, const std::stop_token& stop) {
  return Recomputation(certificate, ensemble, proof, domain, trees, findings, progress)
      .Run(threads, stop);
}

}  // namespace lucid
