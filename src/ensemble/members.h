// The members of an ensemble as the engines see them: numbered, of one architecture.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/ensemble/ensemble.h"
#include "lucid/nn/network.h"

namespace lucid {

// A set of members, ascending.
using Subset = std::vector<std::int32_t>;

// Thread-safe.
class Members {
 public:
  virtual ~Members() = default;
  virtual const Architecture& architecture() const = 0;
  virtual std::int64_t count() const = 0;
  // Requires: 0 <= member < count(), out.size() == architecture().parameters().
  virtual void CopyParameters(std::int64_t member, std::span<float> out) const = 0;

  Network Member(std::int64_t member) const;
};

// The members of a run, read from its mapped store. Keeps a reference.
class EnsembleMembers final : public Members {
 public:
  explicit EnsembleMembers(const Ensemble& ensemble) : ensemble_(ensemble) {}
  const Architecture& architecture() const override { return ensemble_.network().architecture; }
  std::int64_t count() const override { return ensemble_.members(); }
  void CopyParameters(std::int64_t member, std::span<float> out) const override {
    ensemble_.CopyParameters(member, out);
  }

 private:
  const Ensemble& ensemble_;
};

// Networks in memory. Requires: one architecture, at least one network.
class MemoryMembers final : public Members {
 public:
  explicit MemoryMembers(std::vector<Network> networks) : networks_(std::move(networks)) {}
  const Architecture& architecture() const override { return networks_.front().architecture; }
  std::int64_t count() const override { return static_cast<std::int64_t>(networks_.size()); }
  void CopyParameters(std::int64_t member, std::span<float> out) const override;

 private:
  std::vector<Network> networks_;
};

}  // namespace lucid
