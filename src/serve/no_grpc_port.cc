// Stands in for grpc_port.cc where the part GRPC is left out.
#include "base/left_out.h"
#include "serve/grpc_port.h"

namespace lucid {

struct GrpcPort::Impl {
  std::string address;
};

GrpcPort::GrpcPort(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcPort::~GrpcPort() = default;

Result<std::unique_ptr<GrpcPort>> GrpcPort::Open(Worker&, std::shared_ptr<Places>) {
  return LeftOut("gRPC", "LUCID_GRPC", "gRPC and protobuf (libgrpc++-dev, protobuf-compiler-grpc)");
}
const std::string& GrpcPort::address() const { return impl_->address; }
void GrpcPort::Start() {}
void GrpcPort::Drain() {}
void GrpcPort::Stop(double) {}

}  // namespace lucid
