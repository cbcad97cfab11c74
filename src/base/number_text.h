// Numbers as texts that are hashed: into run keys, digests and seals.
//
// A text that is hashed must be the same on every machine, so it comes from here and from no
// library: the `{:a}` of fmt 9 writes 0 as "0x0p+0", that of fmt 10 as "0x0p-1022". The texts are
// those of fmt 9, with which the first runs were made; number_text_test.cc pins them.
#pragma once

#include <string>

namespace lucid {

// The exact value as a hexadecimal float: "0x1.8p-1", "-0x0p+0", "0x0.0000000000001p-1022", "inf",
// "nan". The text is what C's printf("%a") gives in glibc.
std::string HexText(double value);

// The shortest decimal text that reads back as this value: "0.1", "100", "1e-05", "1e+16", "inf".
// Exponents from -4 to 15 are written without `e`.
std::string ShortestText(double value);

}  // namespace lucid
