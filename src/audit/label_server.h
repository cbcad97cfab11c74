// Labels of any origin behind the HTTP of `lucid serve`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lucid/base/result.h"
#include "lucid/data/schema.h"

namespace lucid {

// For worlds that no certificate is about, and that Server therefore cannot open: the network
// without a row in the region of the deployed guard, or no guard at all. Connections, parsing,
// limits and responses are the server's own. Listens on a free port of loopback, on one thread.
class LabelServer {
 public:
  // The label of one row; kRefused: it must not be asked. Called by one thread.
  using Label = std::function<std::int32_t(std::span<const float> row)>;

  static Result<LabelServer> Start(const Schema& schema, Label label);
  ~LabelServer();  // ends it
  LabelServer(LabelServer&&) noexcept;
  LabelServer& operator=(LabelServer&&) noexcept = delete;

  std::string url() const;

 private:
  struct Impl;
  explicit LabelServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
