// Public data sets LUCID can fetch: where their files are, what their bytes must be, and how they
// become a data directory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/data/schema.h"

namespace lucid {

// One upstream file, known to the byte. Of a file whose name ends in ".gz", `sha256` and `bytes`
// are those of the text inside: the same text may be packed in many ways.
struct CatalogueFile {
  enum class Role {
    kTrain,  // its rows are training rows
    kTest,   // its rows are test rows
    kSplit,  // every CatalogueEntry::test_every-th row is a test row, the others train
  };

  std::string name;
  std::string url;  // https
  Digest sha256;
  std::int64_t bytes = 0;
  Role role = Role::kTrain;
  std::int64_t skip_records = 0;  // records before the first row
};

struct CatalogueEntry {
  std::string name;  // what `lucid data fetch` calls it: letters, digits, '_'
  std::string title;
  std::string licence;
  std::string citation;
  std::vector<CatalogueFile> files;
  std::int64_t test_every = 0;
  // The columns of the files, in their order; those of the schema are picked by name. Empty: the
  // files have the columns of the schema, in its order.
  std::vector<std::string> columns;
  // A row with such a cell is left out; empty: no row is.
  std::string drop_rows_with;
  // Every spelling of a label in the files (blanks around cells are dropped) and its class index.
  std::map<std::string, std::int64_t> labels;
  Schema schema;
};

// The catalogue that is compiled into the library, checked.
Result<std::vector<CatalogueEntry>> LoadCatalogue();
Result<std::vector<CatalogueEntry>> ParseCatalogue(std::string_view toml,
                                                   const std::string& source);
Result<CatalogueEntry> FindInCatalogue(std::span<const CatalogueEntry> catalogue,
                                       std::string_view name);

struct FetchOptions {
  // Where the files come from. Empty: their URLs in the catalogue. A folder, or the base of other
  // URLs ("https://..."; "http://..." for this machine only).
  std::string from{};
  bool overwrite = false;  // replace a data set that is already in the folder
  ProgressCallback progress{};
  std::stop_token stop{};
};

// Gets the files of `entry`, checks size and SHA-256, converts them, loads the result once as a
// check, and only then gives it the name `directory`: an error, a stop or a kill leaves no half
// set.
Status FetchDataset(const CatalogueEntry& entry, const std::string& directory,
                    const FetchOptions& options);

}  // namespace lucid
