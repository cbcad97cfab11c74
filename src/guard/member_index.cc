#include "lucid/guard/member_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "base/parallel.h"
#include "certificate/member_table.h"
#include "guard/packed_networks.h"
#include "lucid/ensemble/ensemble.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

// N is the last of the packed networks: a member keeps its number.
Result<PackedNetworks> Pack(const Ensemble& ensemble, int threads) {
  PackedNetworks networks(ensemble.network().architecture, ensemble.members() + 1);
  LUCID_TRY(ParallelFor(ensemble.members() + 1, threads, {}, [&](std::int64_t i, int) -> Status {
    const bool is_member = i < ensemble.members();
    const Network network = is_member ? ensemble.Member(i) : ensemble.network();
    const Status set = networks.Set(i, network.parameters);
    if (set.ok()) return set;
    return InvalidInput(
        fmt::format("{}: {}", is_member ? fmt::format("member {}", i) : "N", set.error().message));
  }));
  return networks;
}

Status CheckUpper(std::span<const std::vector<double>> upper, const Ensemble& ensemble) {
  const std::int64_t classes = ensemble.network().architecture.classes();
  if (std::ssize(upper) != classes) {
    return InvalidInput(
        fmt::format("index: bounds of {} classes, the run has {}", upper.size(), classes));
  }
  for (std::size_t c = 0; c < upper.size(); ++c) {
    if (std::ssize(upper[c]) != ensemble.members()) {
      return InvalidInput(fmt::format("index: class {}: bounds of {} members, the run has {}", c,
                                      upper[c].size(), ensemble.members()));
    }
    const auto nan = std::ranges::find_if(upper[c], [](double u) { return std::isnan(u); });
    if (nan != upper[c].end()) {
      return InvalidInput(fmt::format("index: class {}, member {}: the bound is not a number", c,
                                      nan - upper[c].begin()));
    }
  }
  return Ok();
}

// Ensures: member_error is at or above every member's e_i. (Not so for NaN.)
Status CheckMemberError(const Ensemble& ensemble, double member_error, int threads) {
  return ParallelFor(ensemble.members(), threads, {}, [&](std::int64_t i, int) -> Status {
    const double error = Evaluator(ensemble.Member(i)).ConfidenceErrorBound();
    if (member_error >= error) return Ok();
    return InvalidInput(
        fmt::format("index: the bounds were proved for a forward error of {}, member {} has {}",
                    member_error, i, error));
  });
}

bool InDomain(std::span<const float> x) {
  return std::ranges::all_of(x, [](float value) { return value >= 0 && value <= 1; });
}

}  // namespace

struct MemberIndex::Impl {
  MemberTable table;
  PackedNetworks networks;
  double network_error = 0;
  Digest digest;

  static Result<MemberIndex> Create(const Ensemble& ensemble, MemberTable table, int threads) {
    LUCID_ASSIGN(PackedNetworks networks, Pack(ensemble, threads));
    const double network_error = Evaluator(ensemble.network()).ConfidenceErrorBound();
    const Digest digest = Sha256Of(EncodeMemberTable(table));
    return MemberIndex(std::make_unique<const Impl>(
        Impl{std::move(table), std::move(networks), network_error, digest}));
  }
};

MemberIndex::MemberIndex(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
MemberIndex::~MemberIndex() = default;
MemberIndex::MemberIndex(MemberIndex&&) noexcept = default;
MemberIndex& MemberIndex::operator=(MemberIndex&&) noexcept = default;

Result<MemberIndex> MemberIndex::Build(const Ensemble& ensemble,
                                       std::span<const std::vector<double>> upper,
                                       double member_error, int threads) {
  LUCID_TRY(CheckUpper(upper, ensemble));
  LUCID_TRY(CheckMemberError(ensemble, member_error, threads));
  MemberTable table = TableFor(ensemble);
  for (const std::vector<double>& of_class : upper) table.classes.push_back(Rank(of_class));
  return Impl::Create(ensemble, std::move(table), threads);
}

Status MemberIndex::Save(const std::string& path) const {
  return WriteFileAtomically(path, EncodeMemberTable(impl_->table));
}

Result<MemberIndex> MemberIndex::Load(const Ensemble& ensemble, const std::string& path,
                                      int threads) {
  LUCID_ASSIGN(const std::string bytes, ReadTextFile(path));
  LUCID_ASSIGN(MemberTable table, ParseMemberTable(bytes, path));
  LUCID_TRY(CheckTable(table, ensemble, path));
  return Impl::Create(ensemble, std::move(table), threads);
}

MemberAnswer MemberIndex::Ask(std::span<const float> x) const {
  thread_local PassMemory memory;
  const PackedNetworks& networks = impl_->networks;
  networks.SetInput(x, memory);
  MemberAnswer answer;
  answer.decision = DecisionOf(networks.Logits(members(), memory));
  // A lower bound of f(x). It may be NaN after an overflow, and NaN is above no bound.
  const double at_least =
      InDomain(x) ? NextDown(answer.decision.confidence - impl_->network_error) : -kInfinity;
  const RankedMembers& ranked = impl_->table.classes[answer.decision.label];
  for (std::size_t k = 0; k < ranked.order.size(); ++k) {
    if (at_least > static_cast<double>(ranked.upper[k])) break;  // and so for all that follow
    ++answer.run;
    if (LabelOf(networks.Logits(ranked.order[k], memory)) == answer.decision.label) continue;
    answer.member = ranked.order[k];
    break;
  }
  return answer;
}

std::int64_t MemberIndex::members() const { return std::ssize(impl_->table.classes.front().order); }

const Digest& MemberIndex::digest() const { return impl_->digest; }

double MemberIndex::LargestUpper(std::int32_t label) const {
  return impl_->table.classes[label].upper.front();
}

}  // namespace lucid
