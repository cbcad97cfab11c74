#include "certificate/proof_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lucid {
namespace {

using Kind = ProofCase::Kind;
constexpr std::uint32_t kMaxIndex = std::numeric_limits<std::int32_t>::max();

template <class T>
void PutVector(std::string& out, const std::vector<T>& values) {
  PutBytes(out, static_cast<std::uint32_t>(values.size()));
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// No memory is set aside for numbers that the file does not have.
template <class T>
void ReadVector(ByteCursor& in, std::vector<T>& values) {
  const auto count = in.Take<std::uint32_t>();
  in.Require(count <= in.left() / sizeof(T));
  if (!in.ok()) return;
  values.resize(count);
  for (T& value : values) value = in.Take<T>();
}

bool AreFinite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}
bool IsLambda(double lambda) { return std::isfinite(lambda) && lambda >= 0; }

std::string ProblemOf(const ProofRound& round) {
  if (!IsLambda(round.lambda)) return fmt::format("lambda {}", round.lambda);
  for (const auto* values : {&round.pushes, &round.choose_by, &round.tilts}) {
    if (!AreFinite(*values)) return "a number of a round that is none";
  }
  return "";
}

std::string ProblemOf(const ProofCase& one) {
  if (one.kind < Kind::kNetworkPhase || one.kind > Kind::kWindows) {
    return fmt::format("kind {} of case", static_cast<int>(one.kind));
  }
  if (one.layer < 0 || one.unit < 0) return fmt::format("layer {}, unit {}", one.layer, one.unit);
  if (!IsLambda(one.lambda)) return fmt::format("lambda {}", one.lambda);
  if (!AreFinite(one.multipliers)) return "a multiplier that is no number";
  if (one.kind == Kind::kWindows && (one.rounds.empty() || !one.rounds.front().aims)) {
    return "rounds that do not begin";
  }
  for (const ProofRound& round : one.rounds) {
    if (std::string problem = ProblemOf(round); !problem.empty()) return problem;
  }
  return "";
}

void PutRound(std::string& out, const ProofRound& round) {
  PutVector(out, round.halved);
  PutBytes(out, static_cast<std::uint8_t>(round.aims));
  if (round.aims) {
    PutBytes(out, round.lambda);
    PutVector(out, round.pushes);
    PutVector(out, round.choose_by);
  }
  PutVector(out, round.tilts);
}

void ReadRound(ByteCursor& in, ProofRound& round) {
  ReadVector(in, round.halved);
  const auto aims = in.Take<std::uint8_t>();
  in.Require(aims <= 1);
  round.aims = aims == 1;
  if (round.aims) {
    round.lambda = in.Take<double>();
    ReadVector(in, round.pushes);
    ReadVector(in, round.choose_by);
  }
  ReadVector(in, round.tilts);
}

void ReadCase(ByteCursor& in, ProofCase& one) {
  one.kind = static_cast<Kind>(in.Take<std::uint8_t>());
  if (one.Cuts()) {
    const auto layer = in.Take<std::uint32_t>(), unit = in.Take<std::uint32_t>();
    in.Require(layer <= kMaxIndex && unit <= kMaxIndex);
    one.layer = static_cast<std::int32_t>(layer);
    one.unit = static_cast<std::int32_t>(unit);
  }
  if (one.kind == Kind::kLines || one.kind == Kind::kMultipliers) one.lambda = in.Take<double>();
  if (one.kind == Kind::kMultipliers) ReadVector(in, one.multipliers);
  if (one.kind != Kind::kWindows) return;
  for (auto count = in.Take<std::uint32_t>(); count > 0 && in.ok(); --count) {
    ReadRound(in, one.rounds.emplace_back());
  }
}

}  // namespace

void PutCases(std::string& out, std::span<const ProofCase> cases) {
  PutBytes(out, static_cast<std::uint32_t>(cases.size()));
  for (const ProofCase& one : cases) {
    PutBytes(out, static_cast<std::uint8_t>(one.kind));
    if (one.Cuts()) {
      PutBytes(out, static_cast<std::uint32_t>(one.layer));
      PutBytes(out, static_cast<std::uint32_t>(one.unit));
    }
    if (one.kind == Kind::kLines || one.kind == Kind::kMultipliers) PutBytes(out, one.lambda);
    if (one.kind == Kind::kMultipliers) PutVector(out, one.multipliers);
    if (one.kind != Kind::kWindows) continue;
    PutBytes(out, static_cast<std::uint32_t>(one.rounds.size()));
    for (const ProofRound& round : one.rounds) PutRound(out, round);
  }
}

namespace {

// The sides that are to come, so that no case is kept that belongs to none of them.
class Walk {
 public:
  // Empty, or what is wrong with the next case.
  std::string Take(const ProofCase& one) {
    if (depths_.empty()) return "a case too many";
    if (std::string problem = ProblemOf(one); !problem.empty()) return problem;
    const int depth = depths_.back();
    depths_.pop_back();
    if (!one.Cuts()) return "";
    if (depth == ProofCase::kDeepest) return "too many cuts in a row";
    depths_.insert(depths_.end(), 2, depth + 1);
    return "";
  }
  std::string End() const { return depths_.empty() ? "" : "a case too few"; }

 private:
  std::vector<int> depths_ = {0};  // the next one last
};

}  // namespace

std::string ReadCases(ByteCursor& in, std::vector<ProofCase>& cases) {
  Walk walk;
  for (auto count = in.Take<std::uint32_t>(); count > 0; --count) {
    ReadCase(in, cases.emplace_back());
    if (!in.ok()) return "cases that it does not have";
    if (std::string problem = walk.Take(cases.back()); !problem.empty()) return problem;
  }
  return walk.End();
}

std::string ProblemOfCases(std::span<const ProofCase> cases) {
  Walk walk;
  for (const ProofCase& one : cases) {
    if (std::string problem = walk.Take(one); !problem.empty()) return problem;
  }
  return walk.End();
}

}  // namespace lucid
