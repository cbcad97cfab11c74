#include "audit/label_server.h"

#include <thread>
#include <utility>
#include <vector>

#include "serve/listener.h"
#include "serve/public_site.h"
#include "serve/worker.h"

namespace lucid {
namespace {

constexpr std::int64_t kConnections = 8;
constexpr double kDrainSeconds = 1;

class FunctionLabeller : public Labeller {
 public:
  FunctionLabeller(std::int64_t features, LabelServer::Label label)
      : features_(static_cast<std::size_t>(features)), label_(std::move(label)) {}

  void Label(const Client&, std::vector<float> rows, Done done) const override {
    Labels labels;
    for (std::size_t i = 0; i * features_ < rows.size(); ++i) {
      const std::int32_t label = label_(std::span(rows).subspan(i * features_, features_));
      if (label < 0) return done(InvalidInput("row " + std::to_string(i) + ": refused"));
      labels.labels.push_back(label);
    }
    done(std::move(labels));
  }

 private:
  std::size_t features_;
  LabelServer::Label label_;
};

}  // namespace

struct LabelServer::Impl {
  ServeOptions options;
  ServerLog log{[](std::string_view) {}, /*json=*/false, /*access=*/false};
  SiteState state{log};
  CurrentService service;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Listener> listener;
  std::thread thread;
};

LabelServer::LabelServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LabelServer::LabelServer(LabelServer&&) noexcept = default;

Result<LabelServer> LabelServer::Start(const Schema& schema, Label label) {
  auto impl = std::make_unique<Impl>();
  auto service = std::make_shared<Service>();
  service->sites[0] = std::make_shared<PublicSite>(
      PublicSiteOptions{}, schema,
      std::make_shared<FunctionLabeller>(schema.features(), std::move(label)), nullptr,
      impl->state);
  impl->service.Set(std::move(service));
  Metrics& metrics = impl->state.metrics;
  impl->worker = std::make_unique<Worker>(impl->options, impl->service, metrics, impl->log);
  LUCID_ASSIGN(impl->listener, Listener::Open("127.0.0.1:0", Port::kPublic, *impl->worker,
                                              Places::Create(kConnections, kConnections,
                                                             metrics.connections_open)));
  impl->listener->Start();
  impl->thread = std::thread([&worker = *impl->worker] { worker.Run(); });
  return LabelServer(std::move(impl));
}

LabelServer::~LabelServer() {
  if (impl_ == nullptr) return;
  impl_->listener->Stop();
  impl_->worker->Drain(kDrainSeconds);
  impl_->thread.join();
}

std::string LabelServer::url() const { return "http://" + impl_->listener->address(); }

}  // namespace lucid
