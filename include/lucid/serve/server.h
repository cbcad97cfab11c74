// The guarded, label-only HTTP server (docs/serve.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/guard/guard.h"
#include "lucid/promise/promise.h"

namespace lucid {

// What a client can make the server hold or wait for.
struct ServeLimits {
  std::int64_t connections = 1024;  // open at once; a further one is told 503 and closed
  // The same of one address (IPv6: of one /64 network); 0: a quarter of `connections`.
  std::int64_t connections_per_address = 0;
  // Requests for labels that have come whole and are not answered; a further one gets 503.
  // The last quarter of the places is for clients that have no other.
  std::int64_t requests = 512;
  // The same of one client (an API key; without keys an address); 0: half of `requests`.
  std::int64_t requests_per_client = 0;
  // Connections that wait for their first byte, or for the rest of a request. With one more the
  // oldest of the client that has most is dropped. 0 of one client: a quarter of `half_open`.
  std::int64_t half_open = 256;
  std::int64_t half_open_per_client = 0;
  std::int64_t header_bytes = 16 << 10;  // request line and fields
  std::int64_t body_bytes = 1 << 20;
  std::int64_t rows = 1024;     // of one request
  std::int64_t json_depth = 8;  // lists and objects inside each other
  double head_seconds = 5;      // from the first byte of a request to the end of its fields
  // How long a request may take from its first byte to its last. The answer may take as long again,
  // after which it is 503, and so may sending it.
  double request_seconds = 10;
  double idle_seconds = 60;  // between requests of a connection
  // How long, after a request to stop, the server says that it is not ready but goes on accepting,
  // so that load balancers notice; and then how long requests that have begun may take.
  double grace_seconds = 1;
  double drain_seconds = 10;

  std::int64_t ConnectionsPerAddress() const;  // in effect
  std::int64_t RequestsPerClient() const;
  std::int64_t HalfOpenPerClient() const;
  Status Validate() const;
};

enum class MemoKind {
  kStateless,   // a draw is a keyed hash of the input
  kDictionary,  // the paper's M: draws are remembered in a file
};

struct ServeOptions {
  std::string run;          // folder
  std::string certificate;  // empty: RUN/certificate.json
  bool unchecked = false;   // serve although lucid-check has not accepted the bounds
  // If this is not kWhatever, the server refuses to open where the promise is not kept. If `labels`
  // is asked of a private run, opening itself becomes a function of the data, and the promise says
  // so.
  WantedPromise promise = WantedPromise::kWhatever;
  std::string name = "lucid";
  GuardOptions guard;
  std::string key_file;  // of the guard; created on first use, unless a ledger is charged

  std::string listen = "127.0.0.1:8080";  // ADDRESS:PORT, [ADDRESS]:PORT; port 0: any that is free
  std::string grpc;                       // ADDRESS:PORT of the protocol over gRPC; empty: none
  // Or "unix:/PATH", a socket that only this user may connect to; empty: none.
  std::string admin = "127.0.0.1:8081";
  std::string admin_token;  // a file whose one line the admin port asks for; empty: nothing is
  std::vector<std::string> admin_hosts;  // names of the admin port beside localhost and addresses
  bool insecure_listen = false;          // other machines may connect without API keys and TLS
  std::string api_keys;                  // empty: everybody is the client "anonymous"
  std::string tls_certificate, tls_key;  // PEM; both or none
  std::string tls_client_ca;  // PEM: clients need a certificate of these; empty: they need none

  // A SQLite file or postgresql://..., made by Ledger::Create. Required if guard.epsilon > 0,
  // unless the run keeps the promise `full`, which needs none. It is not opened where nothing needs
  // it.
  std::string ledger;
  // Where this server remembers which ledger it charged, and how far: by it a restored copy is
  // noticed (LedgerOptions::mark). None: key_file with ".ledger" behind it.
  std::optional<std::string> ledger_mark;
  std::optional<double> budget;  // epsilon in total; none: counted, not limited
  MemoKind memo = MemoKind::kStateless;
  std::string memo_file;                // of the dictionary
  std::int64_t memo_limit = 1'000'000;  // entries
  std::optional<double> rate;           // requests per second of a client whose key says nothing
  // Seconds: labels are sent at multiples of it after the request. The exact guard needs one.
  double latency_floor = 0;
  bool open_timing = false;  // the exact guard without one: for audits, which measure what it hides
  int threads = 0;           // 0: all cores
  bool json_log = false;
  bool access_log = true;
  ServeLimits limits;

  // Names the field, its value and the rule.
  Status Validate() const;
};

// Where the log goes: one or more whole lines at a time, each with its newline. Called by one
// thread at a time, never by those that answer requests.
using LogSink = std::function<void(std::string_view lines)>;

class Server {
 public:
  // Everything is loaded and checked, and both sockets listen, but nothing is answered yet. Raises
  // this process's limit of open files to what limits.connections needs. The guard's key and the
  // dictionary are created last, when nothing else can go wrong; a ledger never.
  static Result<Server> Open(const ServeOptions& options, LogSink log);
  ~Server();
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;

  // "127.0.0.1:8080", with the port that was chosen. admin_address: empty if there is none.
  const std::string& address() const;
  const std::string& admin_address() const;
  const std::string& grpc_address() const;  // the same

  // Serves until `stop`, then drains. Every request whose first byte was read by then is answered,
  // unless it takes longer than limits.drain_seconds. Call once.
  void Run(const std::stop_token& stop);

  // Reads certificate, network, API keys and TLS files again. Requests that begin after it returns
  // are answered with the new ones, those that had begun with the old. After an error all of the
  // old ones stay in service. Thread-safe, also during Run.
  Status Reload();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
