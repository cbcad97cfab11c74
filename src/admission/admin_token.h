// The secret that an operator's endpoints may ask for.
#pragma once

#include <string>
#include <string_view>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"

namespace lucid {

// 16 to 256 printable characters on one line of a file that only its owner (or root and a group)
// may read. Immutable.
class AdminToken {
 public:
  // Errors: not such a file. No message holds the token.
  static Result<AdminToken> Load(const std::string& path);

  // `authorization`: "Bearer TOKEN", or "Basic ..." with the token as the password, as a browser
  // sends it. How long this takes says nothing about where the two differ.
  bool Allows(std::string_view authorization) const;

 private:
  explicit AdminToken(const Digest& digest) : digest_(digest) {}
  Digest digest_;  // of the token, which nothing keeps
};

}  // namespace lucid
