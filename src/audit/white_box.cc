#include "audit/white_box.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/byte_fields.h"
#include "check/ascent.h"
#include "lucid/check/check.h"
#include "lucid/data/domain.h"
#include "lucid/data/units.h"

namespace lucid {
namespace {

constexpr std::int64_t kFalsifierStarts = 3000;
constexpr std::size_t kClimbsPerMember = 3;
constexpr std::int64_t kMostRows = 2000;  // of `rows`

// A member, and where to climb from.
struct Climbs {
  std::int64_t member = 0;
  std::vector<Disagreement> starts;

  static Climbs Of(const KnownDisagreements& known) {
    Climbs climbs{known.member, {}};
    const std::size_t count = std::min(known.points.size(), kClimbsPerMember);
    for (std::size_t i = 0; i < count; ++i) {
      climbs.starts.push_back(known.points[i * known.points.size() / count]);
    }
    return climbs;
  }
};

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
  Status ClimbFrom(const Climbs& climbs, const Table& rows) {
    LUCID_ASSIGN(const NetworkLabels without, NetworkLabels::Of(ensemble_.Member(climbs.member)));
    ensemble_.CopyParameters(climbs.member, member_slopes_.parameters());
    for (const Disagreement& start : climbs.starts) {
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

void Fields(auto& io, Is<Climbs> auto& climbs) {
  io(climbs.member);
  List(io, climbs.starts);
}

Result<WhiteBoxInputs> ChangesNear(const Ensemble& ensemble, const Domain& domain,
                                   const Climbs& climbs, const Table& rows) {
  LUCID_ASSIGN(NetworkLabels network, NetworkLabels::Of(ensemble.network()));
  Search search(ensemble, domain, std::move(network));
  LUCID_TRY(search.ClimbFrom(climbs, rows));
  return search.Take();
}

constexpr std::string_view kTopic = "audit: white box ";

}  // namespace

void Fields(auto& io, Is<LabelChange> auto& change) {
  io.Numbers(change.x);
  io(change.in, change.out);
}
void Fields(auto& io, Is<WhiteBoxInputs> auto& found) {
  io(found.compared);
  List(io, found.changes);
}

std::string WhiteBoxTopic::Bytes() const {
  return fmt::format("{}{} {}", kTopic, domain == DomainKind::kBox ? 'b' : 's', rows.Hex());
}

std::optional<WhiteBoxTopic> WhiteBoxTopic::Read(std::string_view bytes) {
  if (!bytes.starts_with(kTopic)) return std::nullopt;
  bytes.remove_prefix(kTopic.size());
  if (bytes.size() < 3 || (bytes[0] != 'b' && bytes[0] != 's')) return std::nullopt;
  const Result<Digest> rows = Digest::FromHex(std::string(bytes.substr(2)));
  if (!rows.ok()) return std::nullopt;
  return WhiteBoxTopic{bytes[0] == 'b' ? DomainKind::kBox : DomainKind::kSchema, *rows};
}

Status AnswerLabelChanges(const Ensemble& ensemble, DomainKind domain, const Table& rows,
                          ByteCursor& in, std::string& out) {
  BytesIn io(in);
  Climbs climbs;
  io(climbs);
  const auto inputs = ensemble.network().architecture.inputs();
  io.Require(climbs.member >= 0 && climbs.member < ensemble.members() &&
             std::ranges::all_of(climbs.starts, [&](const Disagreement& start) {
               return std::ssize(start.x) == inputs;
             }));
  if (!io.ok()) return InternalError("a task of the leader is damaged");
  LUCID_ASSIGN(const WhiteBoxInputs found,
               ChangesNear(ensemble, Domain::Of(domain, ensemble.manifest().schema), climbs, rows));
  BytesOut answer(out);
  answer(found);
  return Ok();
}

Result<WhiteBoxInputs> FindLabelChanges(const Ensemble& ensemble, DomainKind domain,
                                        std::span<const KnownDisagreements> known,
                                        std::span<const Witness> witnesses, const Table& rows,
                                        std::uint64_t seed, TaskTeam* team, int threads,
                                        std::stop_token stop) {
  const Domain asked = Domain::Of(domain, ensemble.manifest().schema);
  LUCID_ASSIGN(NetworkLabels network, NetworkLabels::Of(ensemble.network()));
  Search search(ensemble, asked, std::move(network));
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
  std::vector<WhiteBoxInputs> parts(known.size());
  const auto climbs = [&](std::int64_t i) {
    return Climbs::Of(known[static_cast<std::size_t>(i)]);
  };
  TeamTasks tasks;
  tasks.topic = WhiteBoxTopic{domain, TableDigest(rows)}.Bytes();
  tasks.count = std::ssize(known);
  tasks.ask = [&](std::int64_t i, std::string& out) {
    BytesOut io(out);
    const Climbs asked_about = climbs(i);
    io(asked_about);
  };
  tasks.take = [&](std::int64_t i, ByteCursor& in) {
    BytesIn io(in);
    WhiteBoxInputs& found = parts[static_cast<std::size_t>(i)];
    io(found);
    io.Require(found.compared >= std::ssize(found.changes) &&
               std::ranges::all_of(found.changes, [&](const LabelChange& change) {
                 return std::ssize(change.x) == ensemble.network().architecture.inputs();
               }));
    return io.ok();
  };
  const auto here = [&](std::int64_t i, int) -> Status {
    LUCID_ASSIGN(parts[static_cast<std::size_t>(i)], ChangesNear(ensemble, asked, climbs(i), rows));
    return Ok();
  };
  LUCID_TRY(DoTasks(team, std::move(tasks), here, threads, stop));
  WhiteBoxInputs all = search.Take();
  for (WhiteBoxInputs& part : parts) {
    all.compared += part.compared;
    std::ranges::move(part.changes, std::back_inserter(all.changes));
  }
  return all;
}

AuditRow WeighAnswers(const WhiteBoxInputs& inputs, AuditedAccess& access, AuditRow row) {
  double loss = 0, advantage = 0;
  std::int64_t refused = 0;
  for (const LabelChange& change : inputs.changes) {
    const std::optional<bool> noised = access.NoisesAt(change.x);
    if (!noised) {  // refused in both worlds
      ++refused;
      continue;
    }
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
  row.trials = inputs.compared - refused;
  row.epsilon_lower = loss;
  row.advantage = advantage;
  row.auc = 0.5 + advantage / 2;
  row.welch_t = row.e_value = std::numeric_limits<double>::quiet_NaN();
  row.tpr_at_fpr_01 = row.tpr_at_fpr_001 = advantage == 1 ? 1 : 0;
  row.holds = std::isnan(row.claimed) || loss <= row.claimed;
  return row;
}

}  // namespace lucid
