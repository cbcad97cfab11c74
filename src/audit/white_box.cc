#include "audit/white_box.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check/ascent.h"
#include "lucid/check/check.h"
#include "lucid/data/domain.h"

namespace lucid {
namespace {

constexpr std::int64_t kFalsifierStarts = 3000;
constexpr std::size_t kClimbsPerMember = 3;
constexpr std::int64_t kMostRows = 2000;  // of `rows`

class Search {
 public:
  Search(const Ensemble& ensemble, Domain domain, NetworkLabels network)
      : ensemble_(ensemble),
        domain_(std::move(domain)),
        network_(std::move(network)),
        slopes_(ensemble.network().architecture),
        member_slopes_(ensemble.network().architecture) {
    std::ranges::copy(ensemble.network().parameters, slopes_.parameters().begin());
  }

  Status Compare(std::int64_t member, std::span<const float> x) {
    LUCID_ASSIGN(const NetworkLabels without, NetworkLabels::Of(ensemble_.Member(member)));
    Compare(without, x);
    return Ok();
  }
  void Compare(const NetworkLabels& without, std::span<const float> x) {
    ++found_.compared;
    const std::int32_t in = network_(x), out = without(x);
    if (in != out) found_.changes.push_back({{x.begin(), x.end()}, in, out});
  }

  // Uphill from where the member is known to disagree.
  Status ClimbFrom(const KnownDisagreements& known, const Table& rows) {
    LUCID_ASSIGN(const NetworkLabels without, NetworkLabels::Of(ensemble_.Member(known.member)));
    ensemble_.CopyParameters(known.member, member_slopes_.parameters());
    const std::size_t count = std::min(known.points.size(), kClimbsPerMember);
    for (std::size_t i = 0; i < count; ++i) {
      const Disagreement& start = known.points[i * known.points.size() / count];
      Compare(without, start.x);
      if (const auto top = Ascend(slopes_, member_slopes_, start.label, domain_, start.x)) {
        Compare(without, top->x);
      }
    }
    for (std::int64_t i = 0; i < std::min(rows.rows(), kMostRows); ++i) {
      Compare(without, rows.row(i));
    }
    return Ok();
  }

  WhiteBoxInputs Take() { return std::move(found_); }

 private:
  const Ensemble& ensemble_;
  const Domain domain_;
  const NetworkLabels network_;
  SlopeNetwork slopes_, member_slopes_;
  WhiteBoxInputs found_;
};

}  // namespace

Result<WhiteBoxInputs> FindLabelChanges(const Ensemble& ensemble, DomainKind domain,
                                        std::span<const KnownDisagreements> known,
                                        std::span<const Witness> witnesses, const Table& rows,
                                        std::uint64_t seed, int threads, std::stop_token stop) {
  Domain asked = Domain::Of(domain, ensemble.manifest().schema);
  LUCID_ASSIGN(NetworkLabels network, NetworkLabels::Of(ensemble.network()));
  Search search(ensemble, std::move(asked), std::move(network));
  Certificate nothing = UnprovedCertificate(ensemble);
  nothing.domain = domain;
  LUCID_ASSIGN(const FalsifyReport falsified,
               Falsify(nothing, ensemble,
                       {.seed = seed, .starts = kFalsifierStarts, .threads = threads}, {}, stop));
  for (const auto& leak : falsified.largest) {
    if (leak) LUCID_TRY(search.Compare(leak->witness.member, leak->witness.x));
  }
  for (const Witness& witness : witnesses) {
    LUCID_TRY(search.Compare(witness.member, witness.x));
  }
  for (const KnownDisagreements& one : known) {
    if (stop.stop_requested()) return Interrupted("stopped on request");
    LUCID_TRY(search.ClimbFrom(one, rows));
  }
  return search.Take();
}

AuditRow WeighAnswers(const WhiteBoxInputs& inputs, AuditedAccess& access, AuditRow row) {
  double loss = 0, advantage = 0;
  for (const LabelChange& change : inputs.changes) {
    const std::optional<bool> noised = access.NoisesAt(change.x);
    if (!noised) continue;  // refused in both worlds
    if (!*noised) {
      loss = std::numeric_limits<double>::infinity();
      advantage = 1;
      break;
    }
    const Mechanism& mechanism = *access.mechanism();
    loss = std::max(loss, mechanism.EffectiveEpsilon());
    advantage =
        std::max(advantage, mechanism.ProbabilityOfLabel() - mechanism.ProbabilityOfEachOther());
  }
  row.trials = inputs.compared;
  row.epsilon_lower = loss;
  row.advantage = advantage;
  row.auc = 0.5 + advantage / 2;
  row.welch_t = row.e_value = std::numeric_limits<double>::quiet_NaN();
  row.tpr_at_fpr_01 = row.tpr_at_fpr_001 = advantage == 1 ? 1 : 0;
  row.holds = std::isnan(row.claimed) || loss <= row.claimed;
  return row;
}

}  // namespace lucid
