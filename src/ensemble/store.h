// The ensemble on disk: one safetensors file, written network by network in any order.
//
//   rows     I64 [n]          the first row of the unit each network was trained without, -1 for N
//   0.weight F32 [n, out, in] ... one tensor per parameter
//   digests  U8  [n, 32]      SHA-256 of (run key, row, parameters); zero until the network is
//   there
//
// A network is there if and only if its digest is right. So no journal is needed: a process killed
// at any moment leaves each network either whole or recognisably absent.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/nn/architecture.h"
#include "nn/parameter_tensors.h"
#include "nn/safetensors.h"

namespace lucid {

// What a store is for: enough to lay it out and to tell it from another run's.
struct StoreSpec {
  Architecture architecture;
  Digest run_key;
  std::vector<std::int64_t> rows;  // the first row of the unit that each network leaves out; -1: N
  // The digest of the training rows in their order (OrderDigest), which gives the numbers in `rows`
  // their meaning. nullopt: the store is of format 1, whose run key holds the order.
  std::optional<Digest> order;
};

// Where everything lies in the file of a spec.
class StoreLayout {
 public:
  explicit StoreLayout(const StoreSpec& spec);

  const SafetensorsHeader& header() const { return header_; }
  std::span<const ParameterTensor> parameters() const { return parameters_; }
  std::uint64_t RowsAt() const { return Of(0).begin; }
  std::uint64_t ParameterAt(std::size_t tensor, std::int64_t network) const;
  std::uint64_t DigestAt(std::int64_t network) const;

 private:
  const Tensor& Of(std::size_t i) const { return header_.tensors()[i]; }
  std::vector<ParameterTensor> parameters_;
  SafetensorsHeader header_;
};

Digest NetworkDigest(const Digest& run_key, std::int64_t row, std::span<const float> parameters);

class Store {
 public:
  // Creates the file with its final size reserved. Errors: exists, no space, no permission.
  static Result<Store> Create(const std::string& path, const StoreSpec& spec);
  // Opens an existing one to go on with, or to read. Errors: another run's, damaged, in use.
  static Result<Store> Open(const std::string& path, const StoreSpec& spec, bool writable);

  const StoreSpec& spec() const { return spec_; }
  std::int64_t networks() const { return static_cast<std::int64_t>(spec_.rows.size()); }

  // Thread-safe for different networks. Parameters first, then the digest that makes them count.
  Status Write(std::int64_t network, std::span<const float> parameters);
  // Ensures: true and the parameters in `out` if the network is there and whole.
  Result<bool> Read(std::int64_t network, std::span<float> out) const;
  Status Sync() { return file_.Sync(); }

 private:
  Store(File file, StoreSpec spec)
      : file_(std::move(file)), spec_(std::move(spec)), layout_(spec_) {}
  File file_;
  StoreSpec spec_;
  StoreLayout layout_;
};

}  // namespace lucid
