// HTTP/1.1 on one socket.
#pragma once

#include <optional>
#include <string>

#include "serve/worker.h"

namespace lucid {

// Reads requests one after another, also those sent ahead (pipelining), and answers them in order
// with the site of `port`, with the service as it is when the request begins. Every wait has a
// deadline. With TLS if the service has a context for this port. The worker knows the connection
// when this returns. `client`: NetworkOf the other side. No place: one connection too many, which
// may ask for health, once. Thread-safe.
void StartHttpConnection(Worker& worker, StrandSocket socket, Port port, std::string client,
                         std::optional<Place> place);

// The answer to a connection beyond the limit, whole.
std::string TooManyConnections();

}  // namespace lucid
