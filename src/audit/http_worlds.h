// The theorem's two worlds behind HTTP.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluation/labels.h"
#include "lucid/data/schema.h"
#include "lucid/evaluation/evaluation.h"
#include "lucid/guard/mechanism.h"

namespace lucid {

struct HttpWorldsOptions {
  std::string run, certificate;  // as Guard::Open
  Method method = Method::kNone;
  MechanismKind mechanism = MechanismKind::kPaper;
  double epsilon = 0;
  std::string scratch;  // an existing folder: the server gets one of its own in it
  double latency_floor = 0;
  std::int64_t connections = 1;  // that may ask the deployed server at once
  std::string ledger = {};       // as HttpAuditOptions
};

// Whether the method can be asked over HTTP: kNone and the guards.
bool IsServed(Method method);

// `lucid serve` on a run, on a thread of this process, with a key and a ledger of its own.
class ServedRun {
 public:
  // Requires: a guard.
  static Result<ServedRun> Open(const HttpWorldsOptions& options);
  ~ServedRun();
  ServedRun(ServedRun&&) noexcept;
  ServedRun& operator=(ServedRun&&) noexcept = delete;

  const std::string& url() const;
  Result<std::int32_t> Ask(std::span<const float> x);  // for one thread

 private:
  struct Impl;
  explicit ServedRun(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "In" is `lucid serve` itself: its guard, keyed draws, ledger and latency floor. "Out" cannot be:
// no certificate covers another network, so labels of N_-i in the deployed guard's region, with
// keyed draws as a server's, go through the same HTTP (LabelServer). Of kNone both are
// LabelServer's. One thread asks.
class HttpWorlds {
 public:
  // Requires: IsServed(options.method). `network`: N, used by kNone only.
  static Result<HttpWorlds> Open(const HttpWorldsOptions& options, const Schema& schema,
                                 std::int64_t classes, const NetworkLabels& network);
  ~HttpWorlds();
  HttpWorlds(HttpWorlds&&) noexcept;
  HttpWorlds& operator=(HttpWorlds&&) noexcept = delete;

  Result<std::int32_t> AskDeployed(std::span<const float> x);
  // From here to the end options.connections - 1 others ask the deployed server, each for one of
  // `inputs` after another, drawn from `seed`. Call once at most. Errors: as HttpClient::Connect.
  Status AskMeanwhile(const std::vector<std::vector<float>>& inputs, std::uint64_t seed);
  // `network` must live until the next call.
  Result<std::int32_t> AskOther(const NetworkLabels& network, std::span<const float> x);

 private:
  struct Impl;
  explicit HttpWorlds(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
