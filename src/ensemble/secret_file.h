// RUN/secret: the 32 bytes that a private training's coins and noise come from.
#pragma once

#include <cstdint>
#include <string>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "random/secret_stream.h"

namespace lucid {

// What a secret serves: one data set with one architecture and one set of options. With two data
// sets the noise would cancel.
Digest SecretBinding(const Digest& schema, const Digest& train, const std::string& architecture,
                     const std::string& training);

// The secret in `path`, or a new one from the system's entropy, written there for its owner only
// (0600) with the binding. Errors: a file that others can read, that is damaged, or that serves
// another binding; no entropy; kIo.
Result<Secret> OpenSecret(const std::string& path, const Digest& binding);

// The seed in `path`, or a new one from the system's entropy, written there (0600). Errors: a file
// that is damaged; no entropy; kIo.
Result<std::uint64_t> OpenSeed(const std::string& path);

// SHA-256 of the secret, under a name of its own.
Digest DigestOf(const Secret& secret);

}  // namespace lucid
