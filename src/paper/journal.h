// What a subset search has found out, on disk line by line, so that a killed process loses only the
// MILPs in flight.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/files.h"
#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "paper/subset_search.h"

namespace lucid {

// A text file: a first line that names what is searched (`key`), then a line per subset that is
// done with, each ending in a digest of itself. The search is deterministic, so a subset's bound is
// all that has to be remembered. Thread-safe.
class SubsetJournal {
 public:
  // Starts a new file (an old one is kept beside it as NAME.old), or with `resume` goes on with
  // what is there: lines from the first damaged one on are dropped. Locked until destruction.
  // Errors: with `resume`, a file of another key; another process has the lock.
  static Result<SubsetJournal> Open(const std::string& path, const Digest& key, bool resume);

  // A bound that gave up after less than `limit` seconds is not returned: it deserves another try.
  std::optional<SubsetBound> Find(const Digest& subset, double limit) const;
  Status Append(const Digest& subset, const SubsetBound& bound, double limit);
  std::int64_t known() const { return static_cast<std::int64_t>(records_.size()); }

  // Nothing is left to resume.
  Status Remove();

 private:
  struct Record {
    SubsetBound bound;
    double limit = 0;
  };
  explicit SubsetJournal(File file) : file_(std::move(file)), mutex_(new std::mutex) {}
  Status Write(const std::string& line);
  Result<std::uint64_t> Read(const std::string& text);

  File file_;
  std::uint64_t end_ = 0;
  std::map<Digest, Record> records_;
  std::unique_ptr<std::mutex> mutex_;
};

Digest SubsetDigest(std::int32_t label, const Subset& subset);

}  // namespace lucid
