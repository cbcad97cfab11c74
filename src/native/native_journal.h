// What a search of the native engine has found out so far, on disk, for a resume.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"

namespace lucid {

struct NativeJournal {
  Certificate certificate;  // classes that are done, and the others with their bounds so far
  // What is left of each class's search (RegionSearchSummary::left); empty: done or not begun. A
  // class has its own, so that no class can go on with the regions of another.
  std::vector<std::string> regions;
  // The seals of the parts of the proof that these regions and bounds rest on (proof_parts.h).
  std::vector<Digest> proof_parts;

  // One file, replaced as a whole: a line that names format and `key` (what is searched, and how),
  // the lengths and the proof's seals, the certificate's text, each class's regions, and a SHA-256
  // of everything before it.
  Status Save(const std::string& path, const Digest& key) const;
  // Errors: a file of another format, of another key, or damaged.
  static Result<NativeJournal> Load(const std::string& path, const Digest& key);
};

}  // namespace lucid
