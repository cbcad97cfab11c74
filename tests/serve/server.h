// `lucid serve` as a process, and a client that can do what good clients never would.
#pragma once

#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/run_lucid.h"

namespace lucid::test {

struct Reply {
  int status = 0;  // 0: the connection ended before a whole response had come
  std::string head, body;

  nlohmann::json Json() const;
  std::string Field(const std::string& name) const;  // empty: not there
};
std::ostream& operator<<(std::ostream& out, const Reply& reply);

// The first word in `text` that a client must never see, of those about confidence, bounds, noise
// and budgets; with what stands around it. Empty: none.
std::string SecretIn(std::string text);

// A TCP connection to loopback, or one to a Unix socket. Reads give up after 20 s.
class Socket {
 public:
  // source: the address that it comes from, of 127.0.0.0/8; empty: 127.0.0.1, or ::1.
  explicit Socket(int port, int family = AF_INET, const std::string& source = "");
  explicit Socket(const std::string& path);
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&&) = delete;

  bool Send(const std::string& bytes) const;
  void ShutdownWrite() const;
  void Reset();  // closes with RST
  // The next response; `head_only`: to a HEAD request. Interim responses (100) count as responses.
  // Fails the test if there is a secret in it.
  Reply Read(bool head_only = false);
  Reply ReadSecrets(bool head_only = false);  // the same, of an admin port
  // Reads and forgets what comes until the other side closes. False: it did not in time.
  bool EndsWithin(double seconds);
  bool AtEnd();  // waits for the other side to close; false if bytes come first

 private:
  bool Fill();
  int fd_ = -1;
  std::string buffer_;
};

// A run of the built-in 2-D data, with its certificate.
void MakeRun(const std::string& folder);

std::string Post(const std::string& path, const std::string& body, const std::string& fields = "");
std::string Get(const std::string& path, const std::string& fields = "");
std::string PredictBody(const std::vector<std::pair<double, double>>& rows);

// `arguments`, and before them those of `defaults` (name, value, ...) that they do not name.
std::vector<std::string> WithDefaults(const std::vector<std::string>& defaults,
                                      const std::vector<std::string>& arguments);

// Makes the ledger that the arguments name, if it is a file that is not there; and names its mark.
std::vector<std::string> WithLedger(const Scratch& scratch,
                                    const std::vector<std::string>& arguments);

class ServerProcess {
 public:
  // Waits until it listens. `arguments`: beside the run and the guard's key; also the ports, unless
  // any free ones of 127.0.0.1 will do.
  ServerProcess(const Scratch& scratch, const std::vector<std::string>& arguments = {},
                const RunOptions& options = {});

  int port() const { return port_; }
  int admin_port() const { return admin_port_; }
  int grpc_port() const { return grpc_port_; }  // 0: there is none
  Process& process() { return process_; }
  Reply Ask(const std::string& request) const;       // on a connection of its own
  Reply AskAdmin(const std::string& request) const;  // the same
  // Labels of /predict; fails the test if there are none.
  std::vector<int> Labels(const std::vector<std::pair<double, double>>& rows) const;
  Outcome Stop();  // SIGTERM, and waits

 private:
  std::string ready_file_;
  Process process_;
  int port_ = 0, admin_port_ = 0, grpc_port_ = 0;
};

}  // namespace lucid::test
