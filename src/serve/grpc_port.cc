#include "serve/grpc_port.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif

#include "admission/handed_sockets.h"
#include "admission/network_of.h"
#include "serve/grpc_messages.h"
#include "serve/inference.grpc.pb.h"
#include "serve/listener.h"

namespace lucid {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using ErrorCode = boost::system::error_code;
using CallbackService = inference::GRPCInferenceService::CallbackService;
using Tcp = asio::ip::tcp;

constexpr int kCallsOfAConnection = 64;
constexpr std::size_t kMemory = std::size_t{256} << 20;  // for messages of all connections
// How long a connection beyond the limit has to ask for health, as over HTTP.
constexpr std::chrono::seconds kProbeTime{1};
// How late it may be noticed that gRPC has closed a connection; and how often that is looked at
// where a place is wanted.
constexpr std::chrono::milliseconds kSweepInterval{100}, kLeastSweepInterval{10};

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

grpc::StatusCode CodeOf(int status) {
  switch (status) {
    case 401:
      return grpc::StatusCode::UNAUTHENTICATED;
    case 403:
      return grpc::StatusCode::PERMISSION_DENIED;
    case 404:
      return grpc::StatusCode::NOT_FOUND;
    case 413:
    case 429:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 500:
      return grpc::StatusCode::INTERNAL;
    case 503:
      return grpc::StatusCode::UNAVAILABLE;
    default:
      return grpc::StatusCode::INVALID_ARGUMENT;
  }
}

// The other side, which gRPC spells as "ipv4:127.0.0.1:1234" or "ipv6:%5B::1%5D:1234". None: it is
// spelled otherwise.
std::optional<Tcp::endpoint> EndpointOf(const std::string& peer) {
  std::string text = peer.substr(peer.find(':') + 1);
  for (const auto& [code, character] : {std::pair{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}}) {
    if (const auto at = text.find(code); at != std::string::npos) text.replace(at, 3, character);
  }
  Result<Tcp::endpoint> endpoint = ParseAddress(text);
  if (!endpoint.ok()) return std::nullopt;
  return *endpoint;
}

// The same text for what the socket says of the other side, and for what gRPC says.
std::string NameOf(const Tcp::endpoint& endpoint) {
  asio::ip::address address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  } else if (address.is_v6()) {
    asio::ip::address_v6 without_scope = address.to_v6();
    without_scope.scope_id(0);
    address = without_scope;
  }
  return fmt::format("{} {}", address.to_string(), endpoint.port());
}

// The connections of the port: they are accepted and counted here, and then handed to gRPC.
class Connections {
 public:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  Connections(Worker& worker, std::shared_ptr<Places> places)
      : worker_(worker), places_(std::move(places)) {}

  void HandTo(std::unique_ptr<Acceptor> acceptor) { acceptor_ = std::move(acceptor); }

  // Called by one thread at a time, as the listener does.
  void Accept(StrandSocket socket, const std::string& client) {
    ErrorCode gone;
    const StreamProtocol::endpoint peer = socket.remote_endpoint(gone);
    if (!gone) socket.native_non_blocking(true, gone);
    const int fd = gone ? -1 : socket.release(gone);
    if (gone) return;
    std::optional<Place> place = places_->Take(client);
    const auto now = Clock::now();
    if (!place && now >= next_sweep_) {
      next_sweep_ = now + kLeastSweepInterval;
      Sweep();
      place = places_->Take(client);
    }
    if (!place) ++worker_.metrics().connections_refused;
    ++worker_.metrics().connections_total;
    HalfOpen& waiting = place ? worker_.half_open() : worker_.probes();
    const auto until = now + (place ? Seconds(limits().idle_seconds) : kProbeTime);
    sockets_.Add(fd, NameOf(TcpEndpoint(peer)), client, std::move(place), waiting, until);
    Acceptor::NewConnectionParameters handed;
    handed.fd = fd;
    acceptor_->HandleNewConnection(&handed);
  }

  std::shared_ptr<HandedSocket> Find(const std::string& peer) const {
    const auto endpoint = EndpointOf(peer);
    return endpoint ? sockets_.Find(NameOf(*endpoint)) : nullptr;
  }
  // How long a connection may stay after a call came: for its answer, and as long as others that
  // are idle. gRPC closes those that are idle itself, but not those with calls that never end.
  Clock::time_point AfterCall() const {
    return Clock::now() + Seconds(2 * limits().request_seconds + limits().idle_seconds);
  }
  void Sweep() { sockets_.Sweep(Clock::now()); }

 private:
  const ServeLimits& limits() const { return worker_.options().limits; }

  Worker& worker_;
  const std::shared_ptr<Places> places_;
  HandedSockets sockets_;
  std::unique_ptr<Acceptor> acceptor_;
  Clock::time_point next_sweep_;
};

// Sees all calls that come whole, also those of gRPC's own services.
class CallWatch final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallWatch(const Connections& connections) : connections_(connections) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override {
    auto socket = connections_.Find(call->server_context()->peer());
    if (socket == nullptr) return nullptr;
    socket->Asked(connections_.AfterCall());
    const bool single = call->type() == grpc::experimental::ServerRpcInfo::Type::UNARY;
    return single ? nullptr : new OpenStream(connections_, std::move(socket));
  }

 private:
  // Health may be watched for any time.
  class OpenStream final : public grpc::experimental::Interceptor {
   public:
    OpenStream(const Connections& connections, std::shared_ptr<HandedSocket> socket)
        : connections_(connections), socket_(std::move(socket)) {
      socket_->BeginStream();
    }
    ~OpenStream() override { socket_->EndStream(connections_.AfterCall()); }
    void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
      methods->Proceed();
    }

   private:
    const Connections& connections_;
    const std::shared_ptr<HandedSocket> socket_;
  };

  const Connections& connections_;
};

// TLS with the files of the service as it is when a handshake begins.
class CurrentTls final : public grpc::ServerCredentials {
 public:
  // Requires: the service has TLS, now and later. Keeps a reference, and must outlive the server.
  explicit CurrentTls(const Worker& worker)
      : worker_(worker),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                worker.service()->tls->client_ca.empty()
                    ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
                &Fetch, this))) {}
  CurrentTls(const CurrentTls&) = delete;
  CurrentTls& operator=(const CurrentTls&) = delete;
  ~CurrentTls() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC calls this at every handshake, one at a time.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* data, grpc_ssl_server_certificate_config** config) {
    auto& self = *static_cast<CurrentTls*>(data);
    const std::shared_ptr<const ServerTls> tls = self.worker_.service()->tls;
    if (tls == self.last_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{tls->key.c_str(), tls->certificate.c_str()};
    // gRPC 1.51 insists on certificates of those who sign clients' also where it asks for none.
    const std::string& roots = tls->client_ca.empty() ? tls->certificate : tls->client_ca;
    *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
    if (*config == nullptr) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    self.last_ = tls;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const Worker& worker_;
  std::shared_ptr<const ServerTls> last_;  // what gRPC has; null: nothing yet
  grpc_server_credentials* const credentials_;
};

// One question to the public site, from its admission to its answer, on a strand of its own.
class Question : public std::enable_shared_from_this<Question> {
 public:
  using Done = std::function<void(const Response&)>;

  // `client`: NetworkOf the other side.
  Question(Worker& worker, HttpMethod method, std::string path, std::string client, Done done)
      : worker_(worker),
        strand_(asio::make_strand(worker.io())),
        path_(std::move(path)),
        client_(std::move(client)),
        done_(std::move(done)),
        timeout_(strand_),
        delay_(strand_) {
    exchange_.head.method = method;
    exchange_.head.method_name = "gRPC";
  }

  // The key of the one who asks, and the trace that the answer belongs to.
  void ReadMetadata(grpc::CallbackServerContext& context) {
    const auto find = [&](const char* name) -> std::string {
      const auto& metadata = context.client_metadata();
      const auto found = metadata.find(name);
      if (found == metadata.end() || metadata.count(name) > 1) return "";
      return {found->second.data(), found->second.size()};
    };
    authorization_ = find("authorization");
    api_key_ = find("x-api-key");
    const std::string trace = find("traceparent");
    if (!IsTraceParent(trace)) return;
    trace_parent_ = trace;
    context.AddInitialMetadata("traceparent", trace);
  }
  // The connection is one too many: it may ask for health.
  void HasNoPlace() { has_place_ = false; }
  // `make`: called when it is known that the client may ask.
  using MakeBody = std::function<Result<InferenceBody>()>;
  void SetBody(MakeBody make) { make_body_ = std::move(make); }
  void DoNotCount() { counted_ = false; }  // in metrics and log

  void Ask() {
    asio::post(strand_, [self = shared_from_this()] { self->Begin(); });
  }

 private:
  // What a site holds while it is at work: one that drops it without a reply (something threw)
  // still ends the question.
  class Pending {
   public:
    explicit Pending(std::shared_ptr<Question> question) : question_(std::move(question)) {}
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() {
      if (question_ != nullptr) Deliver(ErrorResponse(500, "internal error"));
    }
    void Deliver(Response response) {
      const auto strand = question_->strand_;
      asio::post(strand,
                 [question = std::move(question_), response = std::move(response)]() mutable {
                   question->OnReply(std::move(response));
                 });
    }

   private:
    std::shared_ptr<Question> question_;
  };

  const Site& site() const { return *service_->sites[static_cast<std::size_t>(Port::kPublic)]; }

  void Begin() {
    begun_ = Clock::now();
    service_ = worker_.service();
    RequestHead& head = exchange_.head;
    head.path = path_;
    head.peer = client_;
    head.authorization = authorization_;
    head.api_key = api_key_;
    head.trace_parent = trace_parent_;
    if (head.method == HttpMethod::kPost) {
      head.has_body_length = true;
      head.content_type = "application/octet-stream";
      head.json_length = "0";  // which it is, is known when there is a body
    }
    if (const auto refusal = site().Admit(exchange_)) return Finish(*refusal);
    if (!has_place_ && exchange_.endpoint != Endpoint::kHealth) {
      return Finish(NotNow("too many connections"));
    }
    if (IsForLabels(exchange_.endpoint)) {
      place_ = worker_.request_places().Take(exchange_.client.sender);
      if (!place_) return Finish(NotNow("too many requests at once"));
    }
    answering_ = true;
    if (make_body_) {
      Result<InferenceBody> body = make_body_();
      if (!body.ok()) return OnReply(ErrorResponse(400, body.error().message));
      body_ = std::move(body->bytes);
      json_length_ = std::to_string(body->json_length);
      head.json_length = json_length_;
    }
    timeout_.expires_at(begun_ + Seconds(worker_.options().limits.request_seconds));
    timeout_.async_wait([self = shared_from_this()](const ErrorCode& error) {
      if (!error) self->OnTimeout();
    });
    site().Answer(exchange_, body_,
                  [pending = std::make_shared<Pending>(shared_from_this())](Response response) {
                    pending->Deliver(std::move(response));
                  });
  }

  void OnTimeout() {
    if (!std::exchange(answering_, false)) return;
    // What was charged is paid for: the same rows, asked again, cost nothing.
    Send(NotNow("the answer took too long"));
  }

  // Labels leave at a multiple of the floor after the request, as over HTTP.
  void OnReply(Response response) {
    if (!std::exchange(answering_, false)) return;  // too late
    timeout_.cancel();
    const auto floor = Seconds(worker_.options().latency_floor);
    if (floor.count() == 0 || !IsForLabels(exchange_.endpoint)) return Send(response);
    delay_.expires_at(begun_ + ((Clock::now() - begun_) / floor + 1) * floor);
    delay_.async_wait([self = shared_from_this(),
                       response = std::move(response)](const ErrorCode&) { self->Send(response); });
  }

  void Send(const Response& response) {
    site().OnSend(exchange_, response);
    Finish(response);
  }

  void Finish(const Response& response) {
    place_.reset();
    if (counted_) Record(response);
    std::exchange(done_, nullptr)(response);
  }

  void Record(const Response& response) {
    const auto now = Clock::now();
    worker_.metrics().Count(
        {exchange_.endpoint, response.status, now - begun_, response.rows, response.noised}, now);
    worker_.log().Access({exchange_.head.method_name, exchange_.endpoint, response.status,
                          response.body.size(), now - begun_, exchange_.client.account,
                          exchange_.head.trace_parent});
  }

  Worker& worker_;
  Strand strand_;
  const std::string path_, client_;
  std::string authorization_, api_key_, trace_parent_, body_, json_length_;
  MakeBody make_body_;
  Done done_;
  bool counted_ = true, has_place_ = true;
  std::shared_ptr<const Service> service_;
  Exchange exchange_;
  std::optional<Place> place_;
  bool answering_ = false;
  Clock::time_point begun_;
  asio::steady_timer timeout_, delay_;
};

// The calls of the protocol.
class InferenceService final : public CallbackService {
 public:
  InferenceService(Worker& worker, const Connections& connections)
      : worker_(worker), connections_(connections) {}

  grpc::ServerUnaryReactor* ServerLive(grpc::CallbackServerContext* context,
                                       const inference::ServerLiveRequest*,
                                       inference::ServerLiveResponse* live) override {
    return Get(*context, "/v2/health/live", [live](const Response& response) {
      live->set_live(response.status == 200);
      return grpc::Status::OK;
    });
  }
  grpc::ServerUnaryReactor* ServerReady(grpc::CallbackServerContext* context,
                                        const inference::ServerReadyRequest*,
                                        inference::ServerReadyResponse* ready) override {
    return Get(*context, "/v2/health/ready", [ready](const Response& response) {
      ready->set_ready(response.status == 200);
      return grpc::Status::OK;
    });
  }
  grpc::ServerUnaryReactor* ModelReady(grpc::CallbackServerContext* context,
                                       const inference::ModelReadyRequest* request,
                                       inference::ModelReadyResponse* ready) override {
    return Get(*context, ModelPath(request->name(), request->version(), "/ready"),
               [ready](const Response& response) {
                 ready->set_ready(response.status == 200);
                 const bool told = response.status == 200 || response.status == 503;
                 return told ? grpc::Status::OK : Refusal(response);
               });
  }
  grpc::ServerUnaryReactor* ServerMetadata(grpc::CallbackServerContext* context,
                                           const inference::ServerMetadataRequest*,
                                           inference::ServerMetadataResponse* metadata) override {
    return Get(*context, "/v2", Filling(metadata));
  }
  grpc::ServerUnaryReactor* ModelMetadata(grpc::CallbackServerContext* context,
                                          const inference::ModelMetadataRequest* request,
                                          inference::ModelMetadataResponse* metadata) override {
    return Get(*context, ModelPath(request->name(), request->version(), ""), Filling(metadata));
  }
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const inference::ModelInferRequest* request,
                                       inference::ModelInferResponse* answer) override {
    const bool raw = request->raw_input_contents_size() > 0;
    const auto question = Make(*context, HttpMethod::kPost,
                               ModelPath(request->model_name(), request->model_version(), "/infer"),
                               [raw, answer](const Response& response) {
                                 if (response.status != 200) return Refusal(response);
                                 return ToGrpc(Fill(response, raw, *answer));
                               });
    question.first->SetBody([request] { return BodyOf(*request); });
    question.first->Ask();
    return question.second;
  }

 private:
  using Reading = std::function<grpc::Status(const Response&)>;

  static grpc::Status Refusal(const Response& response) {
    return {CodeOf(response.status), ErrorIn(response)};
  }
  static grpc::Status ToGrpc(const Status& status) {
    return status.ok() ? grpc::Status::OK
                       : grpc::Status(grpc::StatusCode::INTERNAL, status.error().message);
  }
  template <typename Message>
  static Reading Filling(Message* message) {
    return [message](const Response& response) {
      return response.status == 200 ? ToGrpc(Fill(response, *message)) : Refusal(response);
    };
  }

  std::pair<std::shared_ptr<Question>, grpc::ServerUnaryReactor*> Make(
      grpc::CallbackServerContext& context, HttpMethod method, std::string path,
      Reading reading) const {
    grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
    const auto connection = connections_.Find(context.peer());
    auto question = std::make_shared<Question>(
        worker_, method, std::move(path),
        connection != nullptr ? connection->client() : context.peer(),
        [reactor, reading = std::move(reading)](const Response& response) {
          reactor->Finish(reading(response));
        });
    question->ReadMetadata(context);
    if (connection != nullptr && !connection->has_place()) question->HasNoPlace();
    return {std::move(question), reactor};
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext& context, std::string path,
                                Reading reading) const {
    const auto question = Make(context, HttpMethod::kGet, std::move(path), std::move(reading));
    question.first->Ask();
    return question.second;
  }

  Worker& worker_;
  const Connections& connections_;
};

}  // namespace

struct GrpcPort::Impl {
  Impl(Worker& w, std::shared_ptr<Places> places)
      : worker(w),
        connections(w, std::move(places)),
        service(w, connections),
        strand(asio::make_strand(w.io())),
        refresh(strand),
        sweep(strand) {}

  std::shared_ptr<grpc::ServerCredentials> Credentials() {
    if (worker.service()->tls == nullptr) return grpc::InsecureServerCredentials();
    return std::make_shared<CurrentTls>(worker);
  }
  Status Build();

  void SetHealth(bool ready) {
    if (auto* const health = server->GetHealthCheckService()) health->SetServingStatus(ready);
  }
  // Asks for readiness once a second, as a load balancer would over HTTP.
  void RefreshHealth() {
    if (draining) return SetHealth(false);
    const auto question = std::make_shared<Question>(
        worker, HttpMethod::kGet, "/v2/health/ready", "health",
        [this](const Response& response) { SetHealth(response.status == 200 && !draining); });
    question->DoNotCount();
    question->Ask();
    refresh.expires_after(std::chrono::seconds(1));
    refresh.async_wait([this](const ErrorCode& error) {
      if (!error) RefreshHealth();
    });
  }
  void SweepAgain() {
    if (stopping) return;
    connections.Sweep();
    sweep.expires_after(kSweepInterval);
    sweep.async_wait([this](const ErrorCode& error) {
      if (!error) SweepAgain();
    });
  }

  Worker& worker;
  Connections connections;
  InferenceService service;
  Strand strand;
  asio::steady_timer refresh, sweep;  // on the strand
  std::atomic<bool> draining{false}, stopping{false};
  bool stopped = false;
  std::unique_ptr<Listener> listener;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  std::unique_ptr<grpc::Server> server;  // ends before all that it asks
};

GrpcPort::GrpcPort(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
// Without a Stop the worker never ran, and somebody may have called already: gRPC waits until all
// calls have ended.
GrpcPort::~GrpcPort() {
  if (impl_->server == nullptr || impl_->stopped) return;
  std::atomic<bool> done{false};
  const std::jthread others([&] {
    while (!done) impl_->worker.io().run_for(std::chrono::milliseconds(10));
  });
  impl_->server->Shutdown(std::chrono::system_clock::now());
  done = true;
}
const std::string& GrpcPort::address() const { return impl_->listener->address(); }

Status GrpcPort::Impl::Build() {
  const ServeOptions& options = worker.options();
  grpc::ServerBuilder builder;
  const auto milliseconds = [](double seconds) { return static_cast<int>(1000 * seconds); };
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.limits.body_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             static_cast<int>(options.limits.header_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfAConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             milliseconds(options.limits.idle_seconds));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             milliseconds(options.limits.head_seconds));
  // gRPC holds the limit of a message against its bytes as they come, and only afterwards looks how
  // large it is without compression: a megabyte could become a gigabyte.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.SetResourceQuota(grpc::ResourceQuota("lucid").Resize(kMemory));
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> watch;
  watch.push_back(std::make_unique<CallWatch>(connections));
  builder.experimental().SetInterceptorCreators(std::move(watch));
  credentials = Credentials();
  connections.HandTo(builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials));
  builder.RegisterService(&service);
  server = builder.BuildAndStart();
  if (server == nullptr) return InternalError("gRPC does not start");
  SetHealth(false);
  return Ok();
}

Result<std::unique_ptr<GrpcPort>> GrpcPort::Open(Worker& worker, std::shared_ptr<Places> places) {
  // Both would write to stderr, the latter whenever a client sends a text that is not UTF-8.
  gpr_set_log_function([](gpr_log_func_args*) {});
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler(nullptr);
#endif
  grpc::EnableDefaultHealthCheckService(true);
  std::unique_ptr<GrpcPort> port(new GrpcPort(std::make_unique<Impl>(worker, std::move(places))));
  Impl& impl = *port->impl_;
  const auto accept = [&connections = impl.connections](StrandSocket socket,
                                                        const std::string& client) {
    connections.Accept(std::move(socket), client);
  };
  LUCID_ASSIGN(impl.listener, Listener::Open(worker.options().grpc, worker, accept));
  LUCID_TRY(impl.Build());
  return port;
}

void GrpcPort::Start() {
  impl_->listener->Start();
  asio::post(impl_->strand, [impl = impl_.get()] {
    impl->RefreshHealth();
    impl->SweepAgain();
  });
}

void GrpcPort::Drain() {
  impl_->draining = true;
  impl_->SetHealth(false);
}

void GrpcPort::Stop(double seconds) {
  Drain();
  impl_->listener->Stop();
  impl_->server->Shutdown(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(
                              std::chrono::duration<double>(seconds)));
  impl_->stopping = true;
  asio::post(impl_->strand, [impl = impl_.get()] {
    impl->refresh.cancel();
    impl->sweep.cancel();
    impl->connections.Sweep();  // gives back the places of those that gRPC has closed
  });
  impl_->stopped = true;
}

}  // namespace lucid
