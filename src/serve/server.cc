#include "lucid/serve/server.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "serve/grpc_port.h"
#include "serve/listener.h"
#include "serve/log.h"
#include "serve/public_site.h"
#include "serve/service.h"
#include "serve/worker.h"

namespace lucid {
namespace {

constexpr std::int64_t kAdminConnections = 64;
// Files beside connections: listeners, event loops, the ledger, what a reload reads.
constexpr std::int64_t kOtherFiles = 64;

// A server that other machines can reach must know who asks, over a line nobody else can read.
Status CheckExposure(const ServeOptions& options) {
  if (options.insecure_listen) return Ok();
  const bool safe = !options.api_keys.empty() && !options.tls_certificate.empty();
  for (const auto& [name, address] :
       {std::pair{"listen", options.listen}, std::pair{"grpc", options.grpc}}) {
    if (address.empty() && name == std::string_view("grpc")) continue;
    LUCID_ASSIGN(const auto endpoint, ParseAddress(address));
    if (endpoint.address().is_loopback() || safe) continue;
    return InvalidInput(fmt::format(
        "{}: {} can be reached by other machines: give the option api_keys and the option "
        "tls_certificate, or the option insecure_listen if something in front does that",
        name, address));
  }
  if (options.admin.empty() || SocketPath(options.admin)) return Ok();
  LUCID_ASSIGN(const auto admin, ParseAddress(options.admin));
  if (admin.address().is_loopback()) return Ok();
  return InvalidInput(fmt::format(
      "admin: {} can be reached by other machines, and says everything in plain text: use a "
      "loopback address or unix:/PATH, or the option insecure_listen",
      options.admin));
}

// A connection that cannot be accepted for want of a file descriptor waits in the dark: a limit
// that was asked for is one that can be reached.
Status AllowOpenFiles(std::int64_t connections) {
  rlimit allowed{};
  if (::getrlimit(RLIMIT_NOFILE, &allowed) != 0) return IoError("cannot read RLIMIT_NOFILE");
  const auto needed =
      static_cast<rlim_t>(connections + kAdminConnections + Worker::kProbes.total + kOtherFiles);
  if (allowed.rlim_cur >= needed) return Ok();
  if (allowed.rlim_max >= needed) {
    allowed.rlim_cur = needed;
    if (::setrlimit(RLIMIT_NOFILE, &allowed) == 0) return Ok();
  }
  return InvalidInput(
      fmt::format("max-connections: {} connections need {} open files, and this process may have "
                  "{}: raise its limit (ulimit -Hn), or lower this one",
                  connections, needed, allowed.rlim_max));
}

// Waits until `stop` is requested.
void AwaitStop(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait(lock, stop, [] { return false; });
}

}  // namespace

struct Server::Impl {
  Impl(const ServeOptions& serve_options, LogSink sink)
      : options(serve_options),
        log(std::move(sink), options.json_log, options.access_log),
        state(log, Threads()) {}
  int Threads() const {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    return options.threads > 0 ? options.threads : cores;
  }

  Status Open();
  Status Listen();

  const ServeOptions options;
  ServerLog log;
  SiteState state;
  std::atomic<std::int64_t> admin_connections{0};
  std::unique_ptr<ServiceLoader> loader;
  std::mutex reload_mutex;  // guards loader
  CurrentService service;
  std::unique_ptr<Worker> worker;
  std::shared_ptr<Places> connection_places;         // of clients, on any port
  std::vector<std::unique_ptr<Listener>> listeners;  // public, admin
  std::unique_ptr<GrpcPort> grpc;                    // null: there is none; ends before the worker
  std::string address, admin_address, grpc_address;
};

Status Server::Impl::Open() {
  LUCID_TRY(options.Validate());
  LUCID_TRY(CheckExposure(options));
  LUCID_TRY(AllowOpenFiles(options.limits.connections));
  LUCID_TRY(Listen());
  // Last: this makes files.
  loader = std::make_unique<ServiceLoader>(options, state);
  LUCID_ASSIGN(auto loaded, loader->Load());
  service.Set(std::move(loaded));
  if (!options.grpc.empty()) {
    LUCID_ASSIGN(grpc, GrpcPort::Open(*worker, connection_places));
    grpc_address = grpc->address();
  }
  if (::geteuid() == 0) {
    log.Event("warning",
              "this runs as root, and needs no right of root: give it a user of its own");
  }
  return Ok();
}

Status Server::Impl::Listen() {
  worker = std::make_unique<Worker>(options, service, state.metrics, log);
  connection_places =
      Places::Create(options.limits.connections, options.limits.ConnectionsPerAddress(),
                     state.metrics.connections_open);
  LUCID_ASSIGN(auto listener,
               Listener::Open(options.listen, Port::kPublic, *worker, connection_places));
  address = listener->address();
  listeners.push_back(std::move(listener));
  if (options.admin.empty()) return Ok();
  LUCID_ASSIGN(auto admin, Listener::Open(options.admin, Port::kAdmin, *worker,
                                          Places::Create(kAdminConnections, kAdminConnections,
                                                         admin_connections)));
  admin_address = admin->address();
  listeners.push_back(std::move(admin));
  return Ok();
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;

Result<Server> Server::Open(const ServeOptions& options, LogSink log) {
  auto impl = std::make_unique<Impl>(options, std::move(log));
  LUCID_TRY(impl->Open());
  return Server(std::move(impl));
}

const std::string& Server::address() const { return impl_->address; }
const std::string& Server::admin_address() const { return impl_->admin_address; }
const std::string& Server::grpc_address() const { return impl_->grpc_address; }

void Server::Run(const std::stop_token& stop) {
  Impl& server = *impl_;
  for (const auto& listener : server.listeners) listener->Start();
  if (server.grpc) server.grpc->Start();
  const int count = server.Threads();
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&worker = *server.worker] { worker.Run(); });
  }
  AwaitStop(stop);
  server.state.draining = true;
  server.log.Event("info", "stopping: not ready from now on");
  if (server.grpc) server.grpc->Drain();
  server.worker->CloseConnectionsAfterAnswers();
  std::this_thread::sleep_for(std::chrono::duration<double>(server.options.limits.grace_seconds));
  for (const auto& listener : server.listeners) listener->Stop();
  if (server.grpc) server.grpc->Stop(server.options.limits.drain_seconds);
  server.worker->Drain(server.options.limits.drain_seconds);
  threads.clear();              // joins
  server.state.queue.Settle();  // what was read asks memo and ledger, which answer by the queue
  server.loader->Settle();
  server.state.queue.Settle();
  server.log.Event("info", "stopped");
}

Status Server::Reload() {
  Impl& server = *impl_;
  const std::lock_guard lock(server.reload_mutex);
  auto service = server.loader->Load();
  if (!service.ok()) {
    ++server.state.metrics.reload_failures;
    server.loader->SetNote("reload failed: " + service.error().message);
    server.log.Event("error",
                     "reload failed, the old files stay in service: " + service.error().message);
    return service.error();
  }
  server.service.Set(*std::move(service));
  ++server.state.metrics.reloads;
  server.loader->SetNote("");
  server.log.Event("info", "reloaded certificate, keys and TLS files");
  return Ok();
}

}  // namespace lucid
