// The port of the Open Inference Protocol over gRPC, and of gRPC's own health service.
#pragma once

#include <memory>
#include <string>

#include "lucid/base/result.h"
#include "serve/worker.h"

namespace lucid {

// Asks the public site what HTTP would ask it, on the worker's threads: admission, limits, ledger,
// latency floor and answers are the same. Connections have places and are half-open as those of
// HTTP are: they are accepted and counted here, and then handed to gRPC.
class GrpcPort {
 public:
  // Listens at options.grpc, with the TLS of the service as it is when a connection begins; calls
  // are answered while the worker runs. `places`: of connections, also those of HTTP. Keeps a
  // reference to the worker, which has a service.
  static Result<std::unique_ptr<GrpcPort>> Open(Worker& worker, std::shared_ptr<Places> places);
  ~GrpcPort();
  GrpcPort(const GrpcPort&) = delete;
  GrpcPort& operator=(const GrpcPort&) = delete;

  const std::string& address() const;  // with the port that was chosen
  // Health follows readiness from here on. Before the worker runs.
  void Start();
  // Not ready from now on.
  void Drain();
  // Calls that have begun may take so long, others are refused; afterwards none is left. While the
  // worker runs, not on a thread of it.
  void Stop(double seconds);

 private:
  struct Impl;
  explicit GrpcPort(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
