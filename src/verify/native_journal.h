// What a search of the native engine has found out so far, on disk, for a resume.
#pragma once

#include <cstdint>
#include <string>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"

namespace lucid {

struct NativeJournal {
  Certificate certificate;  // classes that are done, and the one in hand with its bounds so far
  std::int32_t label = 0;   // the class in hand
  std::string regions;      // its open regions (EncodeRegionState); empty: not begun

  // One file, replaced as a whole: a line that names format and `key` (what is searched, and how),
  // the lengths, the certificate's text, the regions, and a SHA-256 of everything before it.
  Status Save(const std::string& path, const Digest& key) const;
  // Errors: of another key, damaged, not there.
  static Result<NativeJournal> Load(const std::string& path, const Digest& key);
};

}  // namespace lucid
