// lucid serve: the guarded, label-only HTTP server.
#include <fmt/format.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>

#include "base/files.h"
#include "command.h"
#include "lucid/serve/server.h"

namespace lucid::app {
namespace {

struct ServeArguments {
  ServeOptions options;
  std::string guard = "scalar", mechanism = "paper", memo = "stateless", log_format = "text";
  std::string ready_file, promise;
};

// Counts the SIGHUPs that nobody has seen yet. A handler may touch nothing but such a semaphore.
sem_t hang_ups;

// Calls `hung_up` on a thread of its own for every SIGHUP. At most one watcher at a time.
class HangUpWatcher {
 public:
  explicit HangUpWatcher(std::function<void()> hung_up) : hung_up_(std::move(hung_up)) {
    sem_init(&hang_ups, 0, 0);
    struct sigaction action {};
    action.sa_handler = [](int) { sem_post(&hang_ups); };
    action.sa_flags = SA_RESTART;
    sigaction(SIGHUP, &action, &before_);
    thread_ = std::jthread([this](const std::stop_token& done) { Watch(done); });
  }
  ~HangUpWatcher() {
    sigaction(SIGHUP, &before_, nullptr);
    thread_.request_stop();
    sem_post(&hang_ups);  // it wakes the thread, which sees the request
  }
  HangUpWatcher(const HangUpWatcher&) = delete;
  HangUpWatcher& operator=(const HangUpWatcher&) = delete;

 private:
  void Watch(const std::stop_token& done) {
    while (true) {
      while (sem_wait(&hang_ups) != 0) {  // a signal in between
      }
      if (done.stop_requested()) return;
      hung_up_();
    }
  }

  std::function<void()> hung_up_;
  struct sigaction before_ {};
  std::jthread thread_;
};

// A program that started this one waits for this line: it says where the server listens, with the
// ports that were chosen.
nlohmann::ordered_json Announcement(const Server& server, const ServeOptions& options) {
  nlohmann::ordered_json json = {{"listen", server.address()}, {"model", options.name}};
  json["tls"] = !options.tls_certificate.empty();
  if (!server.grpc_address().empty()) json["grpc"] = server.grpc_address();
  if (!server.admin_address().empty()) json["admin"] = server.admin_address();
  return json;
}

Status Announce(const Session& session, const ServeArguments& arguments, const Server& server) {
  const ServeOptions& options = arguments.options;
  const nlohmann::ordered_json json = Announcement(server, options);
  const std::string scheme = options.tls_certificate.empty() ? "http" : "https";
  if (session.json) {
    LUCID_TRY(Print(json.dump() + "\n"));
  } else {
    LUCID_TRY(Print(fmt::format("serving {} at {}://{}/v2/models/{}/infer\n", options.name, scheme,
                                server.address(), options.name)));
    if (!server.grpc_address().empty()) {
      LUCID_TRY(Print(fmt::format("gRPC at {}\n", server.grpc_address())));
    }
    if (!server.admin_address().empty()) {
      const std::string& admin = server.admin_address();
      LUCID_TRY(Print(admin.starts_with("unix:") ? fmt::format("console at {}\n", admin)
                                                 : fmt::format("console at http://{}/\n", admin)));
    }
  }
  if (!arguments.ready_file.empty()) {
    LUCID_TRY(WriteFileAtomically(arguments.ready_file, json.dump() + "\n", kForEverybody));
  }
  if (options.guard.epsilon > 0 && !options.budget) {
    session.Say("note: no --budget: what answers cost is counted, but not limited");
  }
  return Ok();
}

// A dump of this process would hold N, the guard's key and what clients asked.
void ForbidCoreDumps() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
#ifndef __SANITIZE_ADDRESS__  // its leak checker traces the process
  prctl(PR_SET_DUMPABLE, 0);  // a handler of dumps, to which that limit is none, gets none either
#endif
}

Result<ExitCode> RunServe(const Session& session, const ServeArguments& arguments) {
  ForbidCoreDumps();
  ServeOptions options = arguments.options;
  LUCID_ASSIGN(options.guard.guard, GuardNamed(arguments.guard));
  LUCID_ASSIGN(options.guard.mechanism, MechanismNamed(arguments.mechanism));
  LUCID_ASSIGN(options.promise, WantedPromiseNamed(arguments.promise));
  options.memo = arguments.memo == "dictionary" ? MemoKind::kDictionary : MemoKind::kStateless;
  options.json_log = arguments.log_format == "json";
  options.access_log = options.access_log && !session.quiet && session.LogsAtLeast("info");
  options.threads = session.threads;
  options.key_file = GivenOrInRun(options.key_file, options.run, kGuardKeyFile);
  LUCID_ASSIGN(Server server, Server::Open(options, [](std::string_view lines) {
                 std::fwrite(lines.data(), 1, lines.size(), stderr);
               }));
  {
    // The log says how it went; a bad file is no reason to stop.
    const HangUpWatcher watcher([&server] { static_cast<void>(server.Reload()); });
    LUCID_TRY(Announce(session, arguments, server));
    server.Run(session.stop);
  }
  return kDone;
}

void AddGuardOptions(CLI::App& command, ServeArguments& arguments) {
  ServeOptions& options = arguments.options;
  command.add_option("--epsilon", options.guard.epsilon, "Privacy loss per query")
      ->capture_default_str();
  command.add_option("--guard", arguments.guard, "scalar, spatial or exact")
      ->check(CLI::IsMember({"scalar", "spatial", "exact"}))
      ->capture_default_str();
  command.add_option("--mechanism", arguments.mechanism, "paper or krr")
      ->check(CLI::IsMember({"paper", "krr"}))
      ->capture_default_str();
  command.add_option(
      "--key-file", options.key_file,
      "The guard's secret; created on first use without a ledger (default: RUN/guard.key, as of "
      "lucid predict)");
  command.add_option("--certificate", options.certificate, "Default: RUN/certificate.json");
  AddPromiseOptions(command, arguments.promise, options.guard.domain);
  command.add_flag("--unchecked", options.unchecked,
                   "Serve although lucid-check has not accepted the bounds");
  command
      .add_option("--grid-bits", options.guard.grid_bits,
                  "Round inputs to multiples of 2^-BITS first (0: not)")
      ->capture_default_str();
  command.add_option("--ledger", options.ledger,
                     "What was spent: a SQLite file or postgresql://USER@HOST/DATABASE, as lucid "
                     "ledger init made it; required with epsilon above 0 (but not by the promise "
                     "full)");
  command.add_option("--ledger-mark", options.ledger_mark,
                     "What this server remembers of its ledger, to notice a restored one; '': "
                     "nothing (default: the key file's name and .ledger)");
  command.add_option("--budget", options.budget,
                     "Epsilon that may be spent in total (keys have theirs in the keys file)");
  command
      .add_option("--memo", arguments.memo, "stateless (keyed hash) or dictionary (the paper's)")
      ->check(CLI::IsMember({"stateless", "dictionary"}))
      ->capture_default_str();
  command.add_option("--memo-file", options.memo_file, "SQLite file of the dictionary");
  command.add_option("--memo-limit", options.memo_limit, "Entries that the dictionary remembers")
      ->capture_default_str();
  AddDuration(command, "--latency-floor", options.latency_floor,
              "Send labels at multiples of this after the request, e.g. 2ms");
}

void AddNetworkOptions(CLI::App& command, ServeArguments& arguments) {
  ServeOptions& options = arguments.options;
  command.add_option("--listen", options.listen, "ADDRESS:PORT (port 0: any that is free)")
      ->capture_default_str();
  command.add_option("--grpc", options.grpc,
                     "ADDRESS:PORT of the same protocol over gRPC (default: none)");
  command
      .add_option("--admin", options.admin,
                  "ADDRESS:PORT of console and metrics, or unix:/PATH; '': none")
      ->capture_default_str();
  command.add_option("--admin-token", options.admin_token,
                     "File with a token that the admin port asks for (default: none)");
  command.add_option(
      "--admin-host", options.admin_hosts,
      "Name by which browsers may reach the console, beside localhost and addresses");
  command.add_option("--name", options.name, "Name of the model in paths")->capture_default_str();
  command.add_option("--api-keys", options.api_keys, "Keys file (default: anonymous)");
  command.add_option("--tls-cert,--tls-certificate", options.tls_certificate, "Certificate chain, PEM");
  command.add_option("--tls-key", options.tls_key, "Its private key, PEM");
  command.add_option("--tls-client-ca", options.tls_client_ca,
                     "PEM: clients need a certificate that one of these signed");
  command.add_flag("--insecure-listen", options.insecure_listen,
                   "Let other machines connect without keys or TLS");
  command.add_option("--rate", options.rate, "Requests per second of a client (default: no limit)");
  command.add_option("--log-format", arguments.log_format, "text or json (one object per line)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command.add_flag("!--no-access-log", options.access_log, "Log events only, no requests");
  command.add_option("--ready-file", arguments.ready_file,
                     "Written when the server listens: JSON with its addresses");
}

void AddLimitOptions(CLI::App& command, ServeLimits& limits) {
  const auto add = [&command](const std::string& name, std::int64_t& value,
                              const std::string& description) {
    command.add_option(name, value, description)->capture_default_str()->group("limits");
  };
  add("--max-connections", limits.connections, "Connections open at once");
  add("--max-connections-per-address", limits.connections_per_address,
      "The same of one address, or IPv6 /64 network (0: a quarter of --max-connections)");
  add("--max-requests", limits.requests, "Requests for labels that are not answered yet");
  add("--max-requests-per-client", limits.requests_per_client,
      "The same of one API key, or without keys of one address (0: half of --max-requests)");
  add("--max-half-open", limits.half_open,
      "Connections that wait for a first byte or the rest of a request; the oldest are dropped");
  add("--max-half-open-per-client", limits.half_open_per_client,
      "The same of one client (0: a quarter of --max-half-open)");
  add("--max-header", limits.header_bytes, "Bytes of a request's line and fields");
  add("--max-body", limits.body_bytes, "Bytes of a request's body");
  add("--max-rows", limits.rows, "Rows of a request");
  add("--max-depth", limits.json_depth, "JSON lists and objects inside each other");
  const auto add_time = [&command](const std::string& name, double& seconds,
                                   const std::string& description) {
    AddDuration(command, name, seconds, description)->group("limits");
  };
  add_time("--head-time", limits.head_seconds,
           "From the first byte of a request to the end of its fields (default: 5s)");
  add_time("--request-time", limits.request_seconds,
           "From the first byte of a request to its last; as much for the answer (default: 10s)");
  add_time("--idle-time", limits.idle_seconds, "Between requests (default: 60s)");
  add_time("--drain-grace", limits.grace_seconds,
           "After SIGTERM: not ready, but still accepting (default: 1s)");
  add_time("--drain-time", limits.drain_seconds,
           "Then, for requests that have begun (default: 10s)");
}

}  // namespace

void AddServeCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command =
      AddCommand(root, session, "serve", "Guarded label-only access over HTTP",
                 "lucid data synth2d --rows 40 --out points && lucid train --data points --arch "
                 "2x10 --out run && lucid bound run --time-limit 1m && lucid serve run --key-file "
                 "guard.key --unchecked",
                 [&session, arguments] { return RunServe(session, *arguments); });
  command->add_option("run", arguments->options.run, "Folder of the run")->required();
  AddGuardOptions(*command, *arguments);
  AddNetworkOptions(*command, *arguments);
  AddLimitOptions(*command, arguments->options.limits);
}

}  // namespace lucid::app
