// A trained classifier: an architecture and its float32 parameters.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/data/dataset.h"
#include "lucid/nn/architecture.h"

namespace lucid {

struct Network {
  Architecture architecture;
  std::vector<float> parameters;  // layer by layer: weights [filter][tap], then biases

  // The digest of the canonical architecture and the bytes of the parameters.
  Digest digest() const;
};

// Reads and writes one network as safetensors (tensors "0.weight", "0.bias", "1.weight", ...; the
// canonical architecture is in the metadata). Readers check shapes, sizes and that every number is
// finite.
Status SaveNetwork(const Network& network, const std::string& path);
Result<Network> LoadNetwork(const std::string& path);

// The label a network gives, and by how much.
struct Decision {
  std::int32_t label = 0;  // the smallest class with the largest output
  double confidence = 0;   // its output minus the largest other output, >= 0
};

// The forward pass: double arithmetic over the float32 parameters, one fixed order of summation,
// so that single, batched and replicated evaluation agree to the last bit on every machine.
// Immutable after construction, thread-safe.
class Evaluator {
 public:
  explicit Evaluator(const Network& network);
  ~Evaluator();
  Evaluator(Evaluator&&) noexcept;
  Evaluator& operator=(Evaluator&&) noexcept;

  const Architecture& architecture() const;

  // Requires: x.size() == inputs, logits.size() == classes.
  void Logits(std::span<const float> x, std::span<double> logits) const;
  Decision Decide(std::span<const float> x) const;

  // An upper bound, rounded upward, of |computed - exact| for each logit and for the confidence,
  // valid for every input whose values lie in [-kEncodingSlack, 1 + kEncodingSlack]. A priori:
  // depends on the parameters only.
  double LogitErrorBound() const;
  double ConfidenceErrorBound() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

// Share of rows whose label the network gives. Requires: a non-empty table of matching width.
double Accuracy(const Evaluator& evaluator, const Table& table);

}  // namespace lucid
