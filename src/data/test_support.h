// What the tests of this module share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "lucid/base/result.h"
#include "support/files.h"
#include "support/scratch_folder.h"
#include "test_paths.h"

namespace lucid {

// Returns the path.
inline std::string WriteTo(const std::string& path, std::string_view content) {
  WriteBytes(path, std::string(content));
  return path;
}

inline std::string Gzip(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// The message of a failed Result; a test that expects a failure and gets none says so.
template <typename T>
std::string Message(const Result<T>& result) {
  return result.ok() ? "(no error)" : result.error().message;
}

// A message is one line without control characters, whatever the file held.
MATCHER(IsOneLine, "is one printable line") {
  for (const unsigned char c : arg) {
    if (c < 0x20 || c == 0x7f) return false;
  }
  return !arg.empty();
}

// LUCID_SHARED_DATA/name, or empty if the folder with the real data sets is not on this machine.
inline std::string SharedDataset(const std::string& name) {
  const std::string path = std::string(LUCID_SHARED_DATA) + "/" + name;
  return std::filesystem::exists(path + "/schema.csv") ? path : std::string();
}

}  // namespace lucid

#define LUCID_NEED_SHARED(variable, name)                        \
  const std::string variable = ::lucid::SharedDataset(name);     \
  if (variable.empty())                                          \
  GTEST_SKIP() << "the real data set '" << (name) << "' is not " \
               << "in " << LUCID_SHARED_DATA
