// Files that are part of the program.
#pragma once

#include <string>
#include <string_view>

namespace lucid {

// The operator console: one page without outside references, that polls status.json beside it. For
// the admin port. Content-Type: text/html; charset=utf-8.
std::string_view ConsolePage();
// The Content-Security-Policy header to send with it: its own script and style by their hashes,
// requests to where it came from, nothing else.
const std::string& ConsolePolicy();

// docs/openapi.json, for GET /openapi.json of the public port.
std::string_view OpenApiDocument();

}  // namespace lucid
