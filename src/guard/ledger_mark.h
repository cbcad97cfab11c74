// What a server remembers of its ledger outside of the ledger: which one it is, its own name there,
// and how many of its commits it saw. A ledger that knows fewer was restored from a copy, or is a
// standby that lags behind, and has forgotten charges.
//
// The file (mode 0600): a line 'lucid-ledger-mark-1', then 'ledger', 'server' (32 hex digits each)
// and 'commits' (20 digits), a line each.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/files.h"
#include "lucid/guard/ledger.h"

namespace lucid {

class LedgerMark {
 public:
  struct Entry {
    LedgerName ledger{}, server{};
    std::int64_t commits = 0;
  };

  // Without a file: it remembers nothing.
  LedgerMark() = default;
  // Opens the file for this process alone, and makes it if need be. Errors: another server uses it;
  // it is not what this program writes.
  static Result<LedgerMark> Open(const std::string& path);
  // Errors: as Open. None: there is no file, or it says nothing yet.
  static Result<std::optional<Entry>> Peek(const std::string& path);

  const std::optional<Entry>& entry() const { return entry_; }  // what it said when it was opened
  const std::string& path() const { return path_; }

  // Durable when it returns.
  Status Write(const Entry& entry);
  // Writes at most once a second. The mark may lag behind, and never runs ahead: a failure to write
  // it is made good the next time.
  void WriteNowAndThen(const Entry& entry);

 private:
  std::string path_;
  std::optional<File> file_;
  std::optional<Entry> entry_;
  std::chrono::steady_clock::time_point written_;
};

}  // namespace lucid
