#include "serve/grpc_port.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <atomic>
#include <boost/asio/ip/address.hpp>
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

#include "admission/network_of.h"
#include "base/files.h"
#include "serve/grpc_messages.h"
#include "serve/inference.grpc.pb.h"
#include "serve/listener.h"

namespace lucid {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using ErrorCode = boost::system::error_code;
using CallbackService = inference::GRPCInferenceService::CallbackService;

constexpr int kCallsOfAConnection = 64;
constexpr std::size_t kMemory = std::size_t{256} << 20;  // for messages of all connections

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

// "ipv4:127.0.0.1:1234" or "ipv6:%5B::1%5D:1234", as gRPC spells it.
std::string ClientOf(const std::string& peer) {
  std::string text = peer.substr(peer.find(':') + 1);
  text = text.substr(0, text.rfind(':'));
  for (const std::string_view bracket : {"%5B", "%5D", "[", "]"}) {
    if (const auto at = text.find(bracket); at != std::string::npos) {
      text.erase(at, bracket.size());
    }
  }
  ErrorCode error;
  const asio::ip::address address = asio::ip::make_address(text, error);
  return error ? peer : NetworkOf(address);
}

// One question to the public site, from its admission to its answer, on a strand of its own.
class Question : public std::enable_shared_from_this<Question> {
 public:
  using Done = std::function<void(const Response&)>;

  Question(Worker& worker, HttpMethod method, std::string path, std::string peer, Done done)
      : worker_(worker),
        strand_(asio::make_strand(worker.io())),
        path_(std::move(path)),
        peer_(std::move(peer)),
        done_(std::move(done)),
        timeout_(strand_),
        delay_(strand_) {
    exchange_.head.method = method;
    exchange_.head.method_name = "gRPC";
  }

  // The key of the one who asks.
  void SetKey(const grpc::CallbackServerContext& context) {
    const auto find = [&](const char* name) -> std::string {
      const auto& metadata = context.client_metadata();
      const auto found = metadata.find(name);
      if (found == metadata.end() || metadata.count(name) > 1) return "";
      return {found->second.data(), found->second.size()};
    };
    authorization_ = find("authorization");
    api_key_ = find("x-api-key");
  }
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
    head.peer = peer_;
    head.authorization = authorization_;
    head.api_key = api_key_;
    if (head.method == HttpMethod::kPost) {
      head.has_body_length = true;
      head.content_type = "application/octet-stream";
      head.json_length = "0";  // which it is, is known when there is a body
    }
    if (const auto refusal = site().Admit(exchange_)) return Finish(*refusal);
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
  const std::string path_, peer_;
  std::string authorization_, api_key_, body_, json_length_;
  MakeBody make_body_;
  Done done_;
  bool counted_ = true;
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
  explicit InferenceService(Worker& worker) : worker_(worker) {}

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
    auto question = std::make_shared<Question>(
        worker_, method, std::move(path), ClientOf(context.peer()),
        [reactor, reading = std::move(reading)](const Response& response) {
          reactor->Finish(reading(response));
        });
    question->SetKey(context);
    return {std::move(question), reactor};
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext& context, std::string path,
                                Reading reading) const {
    const auto question = Make(context, HttpMethod::kGet, std::move(path), std::move(reading));
    question.first->Ask();
    return question.second;
  }

  Worker& worker_;
};

Result<std::shared_ptr<grpc::ServerCredentials>> CredentialsOf(const ServeOptions& options) {
  if (options.tls_certificate.empty()) return grpc::InsecureServerCredentials();
  LUCID_ASSIGN(std::string certificate, ReadTextFile(options.tls_certificate, 1 << 20));
  LUCID_ASSIGN(std::string key, ReadTextFile(options.tls_key, 1 << 20));
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  if (!options.tls_client_ca.empty()) {
    tls.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    LUCID_ASSIGN(tls.pem_root_certs, ReadTextFile(options.tls_client_ca, 1 << 20));
  }
  tls.pem_key_cert_pairs.push_back({std::move(key), std::move(certificate)});
  return grpc::SslServerCredentials(tls);
}

}  // namespace

struct GrpcPort::Impl {
  explicit Impl(Worker& w) : worker(w), service(w), refresh(w.io()) {}

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

  Worker& worker;
  InferenceService service;
  asio::steady_timer refresh;
  std::atomic<bool> draining{false};
  bool stopped = false;
  std::string address;
  std::unique_ptr<grpc::Server> server;
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
const std::string& GrpcPort::address() const { return impl_->address; }

Result<std::unique_ptr<GrpcPort>> GrpcPort::Open(Worker& worker) {
  const ServeOptions& options = worker.options();
  LUCID_TRY(ParseAddress(options.grpc));  // gRPC would take names as well
  LUCID_ASSIGN(const auto credentials, CredentialsOf(options));
  // Both would write to stderr, the latter whenever a client sends a text that is not UTF-8.
  gpr_set_log_function([](gpr_log_func_args*) {});
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler(nullptr);
#endif
  grpc::EnableDefaultHealthCheckService(true);
  std::unique_ptr<GrpcPort> port(new GrpcPort(std::make_unique<Impl>(worker)));
  Impl& impl = *port->impl_;
  grpc::ServerBuilder builder;
  const auto milliseconds = [](double seconds) { return static_cast<int>(1000 * seconds); };
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.limits.body_bytes));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a second server must not even start
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             static_cast<int>(options.limits.header_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfAConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             milliseconds(options.limits.idle_seconds));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             milliseconds(options.limits.head_seconds));
  builder.SetResourceQuota(grpc::ResourceQuota("lucid").Resize(kMemory));
  int chosen = 0;
  builder.AddListeningPort(options.grpc, credentials, &chosen);
  builder.RegisterService(&impl.service);
  impl.server = builder.BuildAndStart();
  if (impl.server == nullptr || chosen == 0) {
    return IoError(
        fmt::format("cannot listen on {} for gRPC: is the port taken, or are the TLS "
                    "files not those of a certificate and its key?",
                    options.grpc));
  }
  impl.address = fmt::format("{}:{}", options.grpc.substr(0, options.grpc.rfind(':')), chosen);
  impl.SetHealth(false);
  return port;
}

void GrpcPort::Start() {
  asio::post(impl_->worker.io(), [impl = impl_.get()] { impl->RefreshHealth(); });
}

void GrpcPort::Drain() {
  impl_->draining = true;
  impl_->SetHealth(false);
}

void GrpcPort::Stop(double seconds) {
  Drain();
  asio::post(impl_->worker.io(), [impl = impl_.get()] { impl->refresh.cancel(); });
  impl_->server->Shutdown(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(
                              std::chrono::duration<double>(seconds)));
  impl_->stopped = true;
}

}  // namespace lucid
