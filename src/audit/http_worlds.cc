#include "audit/http_worlds.h"

#include <fmt/format.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "audit/access.h"
#include "audit/http_client.h"
#include "audit/label_server.h"
#include "base/files.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/ledger.h"
#include "lucid/promise/promise.h"
#include "lucid/serve/server.h"
#include "random/stream.h"

namespace lucid {
namespace {

// Requires: the method is a guard.
ServeOptions ServeOptionsOf(const HttpWorldsOptions& options, const std::string& folder) {
  ServeOptions serve;
  serve.run = options.run;
  serve.certificate = options.certificate;
  serve.unchecked = true;  // an audit attacks what there is
  serve.guard = {.guard = *GuardOf(options.method),
                 .mechanism = options.mechanism,
                 .epsilon = options.epsilon};
  serve.key_file = PathIn(folder, kGuardKeyFile);
  if (options.epsilon > 0) {
    serve.ledger = options.ledger.empty() ? PathIn(folder, "ledger.db") : options.ledger;
  }
  serve.listen = "127.0.0.1:0";
  serve.admin = "";
  serve.latency_floor = options.latency_floor;
  serve.open_timing = true;
  serve.threads = 1;
  serve.access_log = false;
  serve.limits.connections = serve.limits.connections_per_address = 8 + options.connections;
  serve.limits.grace_seconds = 0;
  return serve;
}

// Every deployment has a key and a ledger of its own.
Result<std::string> NewFolder(const std::string& scratch) {
  std::error_code error;
  for (int i = 1; !error; ++i) {
    const std::filesystem::path folder =
        std::filesystem::path(scratch) / fmt::format("server-{}", i);
    if (std::filesystem::create_directory(folder, error)) return folder.string();
  }
  return IoError(fmt::format("cannot make a folder in '{}': {}", scratch, error.message()));
}

// The key and the ledger that the server charges.
Status MakeLedger(const ServeOptions& serve) {
  if (serve.ledger.empty()) return Ok();
  LUCID_ASSIGN(const GuardKey key, GuardKey::LoadOrCreate(serve.key_file));
  LUCID_ASSIGN(const RunNetwork run, OpenRunNetwork(serve.run));
  return Ledger::Create({.location = serve.ledger,
                         .population = PopulationOf(run.manifest),
                         .guard_key = key.Name(),
                         .overall_budget = {},
                         .mark = {}});
}

}  // namespace

bool IsServed(Method method) { return method == Method::kNone || GuardOf(method); }

struct ServedRun::Impl {
  explicit Impl(Server opened)
      : server(std::move(opened)),
        thread([this](const std::stop_token& stop) { server.Run(stop); }),
        url("http://" + server.address()) {}

  Server server;
  std::jthread thread;  // stops and joins before the server goes
  std::string url;
  std::optional<HttpClient> client;  // ends before the server
};

ServedRun::ServedRun(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ServedRun::~ServedRun() = default;
ServedRun::ServedRun(ServedRun&&) noexcept = default;

Result<ServedRun> ServedRun::Open(const HttpWorldsOptions& options) {
  LUCID_ASSIGN(const std::string folder, NewFolder(options.scratch));
  const ServeOptions serve = ServeOptionsOf(options, folder);
  LUCID_TRY(MakeLedger(serve));
  LUCID_ASSIGN(Server server, Server::Open(serve, [](std::string_view) {}));
  auto impl = std::make_unique<Impl>(std::move(server));
  LUCID_ASSIGN(HttpClient client, HttpClient::Connect(impl->url));
  impl->client.emplace(std::move(client));
  return ServedRun(std::move(impl));
}

const std::string& ServedRun::url() const { return impl_->url; }
Result<std::int32_t> ServedRun::Ask(std::span<const float> x) { return impl_->client->Ask(x); }

struct HttpWorlds::Impl {
  Impl(AuditedAccess opened, const NetworkLabels& of_n)
      : access(std::move(opened)), network(of_n), asked(&network) {}

  // LabelServer's thread answers what this one asks.
  std::mutex mutex;
  AuditedAccess access;
  NetworkLabels network;  // N; a copy, because one thread may use it
  const NetworkLabels* asked;

  std::optional<ServedRun> deployed;  // none: N without a guard
  std::optional<LabelServer> other;
  std::int64_t connections = 1;
  std::optional<HttpClient> to_other;  // ends before the server
  std::vector<std::jthread> others;    // stop and join first
};

HttpWorlds::HttpWorlds(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpWorlds::~HttpWorlds() = default;
HttpWorlds::HttpWorlds(HttpWorlds&&) noexcept = default;

Result<HttpWorlds> HttpWorlds::Open(const HttpWorldsOptions& options, const Schema& schema,
                                    std::int64_t classes, const NetworkLabels& network) {
  LUCID_ASSIGN(AuditedAccess access,
               AuditedAccess::Open(options.run, options.certificate, options.method,
                                   options.mechanism, options.epsilon, classes));
  access.DrawAsAServer();
  auto impl = std::make_unique<Impl>(std::move(access), network);
  impl->connections = options.connections;
  LUCID_ASSIGN(LabelServer other,
               LabelServer::Start(schema, [&world = *impl](std::span<const float> x) {
                 const std::lock_guard lock(world.mutex);
                 return world.access.Ask(*world.asked, x);
               }));
  impl->other.emplace(std::move(other));
  LUCID_ASSIGN(HttpClient to_other, HttpClient::Connect(impl->other->url()));
  impl->to_other.emplace(std::move(to_other));
  if (options.method != Method::kNone) {
    LUCID_ASSIGN(ServedRun deployed, ServedRun::Open(options));
    impl->deployed.emplace(std::move(deployed));
  }
  return HttpWorlds(std::move(impl));
}

Status HttpWorlds::AskMeanwhile(const std::vector<std::vector<float>>& inputs, std::uint64_t seed) {
  if (!impl_->deployed) return Ok();  // LabelServer's thread has one client
  for (std::int64_t i = 1; i < impl_->connections; ++i) {
    LUCID_ASSIGN(HttpClient client, HttpClient::Connect(impl_->deployed->url()));
    impl_->others.emplace_back(
        [client = std::move(client), inputs, seed, i](const std::stop_token& stop) mutable {
          Stream order(seed, "order of other connections", i);
          while (!stop.stop_requested()) {
            if (!client.Ask(inputs[order.Below(inputs.size())]).ok()) return;  // the server ends
          }
        });
  }
  return Ok();
}

Result<std::int32_t> HttpWorlds::AskDeployed(std::span<const float> x) {
  return impl_->deployed ? impl_->deployed->Ask(x) : AskOther(impl_->network, x);
}

Result<std::int32_t> HttpWorlds::AskOther(const NetworkLabels& network, std::span<const float> x) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->asked = &network;
  }
  return impl_->to_other->Ask(x);
}

}  // namespace lucid
