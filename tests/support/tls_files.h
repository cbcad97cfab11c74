// Certificates for tests of TLS.
#pragma once

#include <string>

namespace lucid::test {

// Writes a self-signed certificate for `name` and its key (mode 0600) to two files.
void MakeTlsFiles(const std::string& name, const std::string& certificate, const std::string& key);

}  // namespace lucid::test
