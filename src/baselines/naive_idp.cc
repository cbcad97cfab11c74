#include "lucid/baselines/naive_idp.h"

#include <algorithm>
#include <mutex>

#include "base/parallel.h"
#include "guard/packed_networks.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

struct NaiveIdp::Impl {
  std::int64_t members;
  PackedNetworks networks;  // N is the last one

  std::int32_t Label(std::int64_t network, PassMemory& memory) const {
    return LabelOf(networks.Logits(network, memory));
  }
};

NaiveIdp::NaiveIdp(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
NaiveIdp::~NaiveIdp() = default;
NaiveIdp::NaiveIdp(NaiveIdp&&) noexcept = default;
NaiveIdp& NaiveIdp::operator=(NaiveIdp&&) noexcept = default;

Result<NaiveIdp> NaiveIdp::Create(const Ensemble& ensemble, int threads) {
  const std::int64_t members = ensemble.members();
  PackedNetworks networks(ensemble.network().architecture, members + 1);
  LUCID_TRY(ParallelFor(members + 1, threads, {}, [&](std::int64_t i, int) -> Status {
    if (i == members) return networks.Set(i, ensemble.network().parameters);
    return networks.Set(i, ensemble.Member(i).parameters);
  }));
  return NaiveIdp(std::make_unique<const Impl>(Impl{members, std::move(networks)}));
}

AccessDecision NaiveIdp::Decide(std::span<const float> x) const {
  thread_local PassMemory memory;
  impl_->networks.SetInput(x, memory);
  AccessDecision decision{impl_->Label(impl_->members, memory), false};
  for (std::int64_t i = 0; i < impl_->members; ++i) {
    decision.noised |= impl_->Label(i, memory) != decision.label;
  }
  return decision;
}

Result<std::vector<AccessDecision>> NaiveIdp::DecideAll(const Table& table, int threads,
                                                        const ProgressCallback& progress,
                                                        std::stop_token stop) const {
  // So many rows share each read of a member's weights.
  constexpr std::int64_t kTile = 64;
  std::vector<AccessDecision> decisions(static_cast<std::size_t>(table.rows()));
  std::vector<std::vector<PassMemory>> memory_of(
      static_cast<std::size_t>(EffectiveThreads(threads)));
  std::mutex mutex;
  std::int64_t done = 0;
  const auto decide_tile = [&](std::int64_t tile, int worker) -> Status {
    std::vector<PassMemory>& memory = memory_of[worker];
    memory.resize(kTile);
    const std::int64_t first = tile * kTile, size = std::min(kTile, table.rows() - first);
    std::vector<std::int64_t> open;  // rows of the tile that every member so far agreed on
    for (std::int64_t r = 0; r < size; ++r) {
      impl_->networks.SetInput(table.row(first + r), memory[r]);
      decisions[first + r].label = impl_->Label(impl_->members, memory[r]);
      open.push_back(r);
    }
    for (std::int64_t i = 0; i < impl_->members && !open.empty(); ++i) {
      if (stop.stop_requested()) return Interrupted("stopped on request");
      std::erase_if(open, [&](std::int64_t r) {
        AccessDecision& decision = decisions[first + r];
        return decision.noised = impl_->Label(i, memory[r]) != decision.label;
      });
    }
    std::lock_guard lock(mutex);
    done += size;
    if (progress) progress({"running all members", "rows", done, table.rows()});
    return Ok();
  };
  LUCID_TRY(ParallelFor((table.rows() + kTile - 1) / kTile, threads, stop, decide_tile));
  return decisions;
}

}  // namespace lucid
