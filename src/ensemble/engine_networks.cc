#include "ensemble/engine_networks.h"

#include <algorithm>
#include <vector>

namespace lucid {
namespace {

class MembersWithHiddenLayer final : public Members {
 public:
  explicit MembersWithHiddenLayer(const Ensemble& ensemble)
      : members_(ensemble), architecture_(WithHiddenLayer(members_.architecture())) {}
  const Architecture& architecture() const override { return architecture_; }
  std::int64_t count() const override { return members_.count(); }
  void CopyParameters(std::int64_t member, std::span<float> out) const override {
    CopyWithHiddenLayer(members_.architecture(), members_.Member(member).parameters, out);
  }

 private:
  const EnsembleMembers members_;
  const Architecture architecture_;
};

bool HasHiddenLayer(const Architecture& architecture) { return architecture.layers().size() > 1; }

}  // namespace

Architecture WithHiddenLayer(const Architecture& architecture) {
  if (HasHiddenLayer(architecture)) return architecture;
  const HiddenLayer identity{.units = architecture.inputs()};
  return Architecture::Build(std::span(&identity, 1), architecture.inputs(), architecture.classes())
      .value();
}

void CopyWithHiddenLayer(const Architecture& architecture, std::span<const float> parameters,
                         std::span<float> out) {
  std::ranges::fill(out, 0.0F);
  const Architecture target = WithHiddenLayer(architecture);
  const auto from = architecture.layers(), to = target.layers();
  for (std::int64_t j = 0; j < architecture.inputs(); ++j) {
    out[to[0].weight_at + j * to[0].taps + j] = 1;
  }
  const std::int64_t weights = from[0].outputs * from[0].taps;
  std::copy_n(parameters.begin() + from[0].weight_at, weights, out.begin() + to[1].weight_at);
  std::copy_n(parameters.begin() + from[0].bias_at, from[0].outputs, out.begin() + to[1].bias_at);
}

EngineNetworks::EngineNetworks(const Ensemble& ensemble) : network_(ensemble.network()) {
  if (HasHiddenLayer(network_.architecture)) {
    members_ = std::make_unique<EnsembleMembers>(ensemble);
    return;
  }
  const Network& plain = ensemble.network();
  network_.architecture = WithHiddenLayer(plain.architecture);
  network_.parameters.resize(static_cast<std::size_t>(network_.architecture.parameters()));
  CopyWithHiddenLayer(plain.architecture, plain.parameters, network_.parameters);
  members_ = std::make_unique<MembersWithHiddenLayer>(ensemble);
}

}  // namespace lucid
