// The plain file that InferSchema made a data directory of: written beside schema.csv, so that
// everything can be run anew without a unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/data/infer_schema.h"

namespace lucid {

struct DataSource {
  std::string file;  // its absolute path
  Digest digest;     // of its bytes, as they were
  // As InferSchema was called, but for the file `declared`: what it said is below.
  InferOptions options;
  std::string declared;  // the text of the declared schema.csv; empty: none
};

// In a data directory, for its owner: it names a file and says nothing of what is in it.
inline constexpr const char* kSourceFile = "source.csv";

std::string EncodeSource(const DataSource& source);
// What the directory says of itself; nothing where it has no such file. Errors: a damaged one.
Result<std::optional<DataSource>> LoadSource(const std::string& folder);

// The text of a plain CSV file without everything of the unit of one record (0: the first behind
// the header; blank lines do not count): of all records with its unit where a column `unit` is
// named, else of this record alone. Errors: CSV; no such record or column.
Result<std::string> WithoutUnitOfRecord(const std::string& csv, const std::string& unit,
                                        std::int64_t record);

}  // namespace lucid
