// What every fuzzer asks of a reader: nothing false, and errors of one printable line.
#pragma once

#include <cstdlib>
#include <string>

inline void Require(bool condition) {
  if (!condition) std::abort();
}

inline void RequireOneLine(const std::string& message) {
  Require(!message.empty());
  for (const unsigned char c : message) Require(c >= 0x20 && c != 0x7f);
}
