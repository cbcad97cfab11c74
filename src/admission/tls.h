// The server's side of TLS.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "lucid/base/result.h"

namespace lucid {

struct ServerTls {
  std::shared_ptr<boost::asio::ssl::context> context;
  // The files as they were read, all of them together, for a library with a TLS of its own.
  std::string certificate, key, client_ca;
};

// TLS 1.2 and 1.3, forward secrecy and authenticated encryption only, no renegotiation.
// `certificate`: a chain in PEM, the server's own first; `key`: PEM, without a passphrase. Errors
// name the file; also if the two do not belong together. `client_ca`: certificates in PEM; a client
// has to show one that one of these signed. Empty: none is asked for.
Result<ServerTls> LoadTls(const std::string& certificate, const std::string& key,
                          const std::string& client_ca);

}  // namespace lucid
