// A small SQLite file of the guard's own, and one thread that writes it in shared transactions.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lucid/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace lucid {

// What a file of ours is: another kind, a later version or a file of somebody else is refused.
struct DatabaseFormat {
  std::string_view kind;         // "ledger", for messages
  std::int32_t application = 0;  // SQLite's application_id
  std::int32_t version = 0;      // SQLite's user_version
  std::string_view schema;       // SQL that makes the tables
  std::string_view how = {};     // what makes such a file, for messages: ": lucid ... makes one"
  std::string_view upgrade =
      {};  // SQL that makes it of a file of version - 1; empty: that is refused
};

enum class FileMode {
  kAny,   // made if there is none
  kNew,   // refused if there is one
  kThere  // refused if there is none
};

// One prepared statement. Not thread-safe.
class Statement {
 public:
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;

  // Binds parameter `at` (from 1). The bytes must live until the next Reset.
  Statement& Bind(int at, std::int64_t value);
  Statement& Bind(int at, std::span<const std::uint8_t> bytes);
  Statement& Bind(int at, std::string_view text);
  // True: there is a row, whose columns (from 0) can be read until the next Step or Reset.
  Result<bool> Step();
  std::int64_t Whole(int column) const;
  std::span<const std::uint8_t> Bytes(int column) const;
  std::string_view Text(int column) const;
  void Reset();
  // For a statement that gives no row: Step, then Reset.
  Status Run();

 private:
  friend class Database;
  Statement(sqlite3_stmt* statement, const std::string* path)
      : statement_(statement), path_(path) {}
  sqlite3_stmt* statement_ = nullptr;
  const std::string* path_ = nullptr;
};

// Opened for this process alone (a second one is refused at once, not made to wait), write-ahead
// log, every commit synced: what was committed survives kill -9 and a power cut. Move-only.
class Database {
 public:
  // Makes a file with mode 0600. Errors name the path and what is wrong: in
  // use, read-only, no space, another kind of file, a later version, damaged.
  static Result<Database> Open(const std::string& path, const DatabaseFormat& format,
                               FileMode mode = FileMode::kAny);
  ~Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;

  Result<Statement> Prepare(std::string_view sql);
  Status Execute(const std::string& sql);
  void RollBack();               // of the transaction, if one is open
  std::int64_t Changes() const;  // rows that the last statement wrote
  const std::string& path() const { return *path_; }

 private:
  Database(sqlite3* handle, std::string path);
  sqlite3* handle_ = nullptr;
  std::unique_ptr<const std::string> path_;  // where statements find it after a move
};

// Group commit: all that waits when a transaction begins shares it, and its one sync. Thread-safe.
class CommitQueue {
 public:
  struct Job {
    // Reads and writes, inside a transaction, on the queue's thread.
    std::function<Status()> work;
    // After the commit, on the queue's thread, in the order of submission: short. An error means
    // that nothing of this job is in the file: a job whose work fails takes the others of its
    // transaction with it, so that none can rest on what was undone.
    std::function<void(const Status&)> done;
    std::size_t weight = 1;  // how much of a transaction it is: see kMostAtOnce
  };
  // Does what the jobs of one transaction ask, and commits. An error: nothing of it was done.
  using Commit = std::function<Status(std::span<const Job>)>;
  // A transaction that weighs more than this holds one job only.
  static constexpr std::size_t kMostAtOnce = 16384;

  explicit CommitQueue(Database& database);  // which must outlive it and is its own until then
  explicit CommitQueue(Commit commit);       // called on the queue's thread
  // Finishes what waits. Also on the queue's own thread, where the last one who holds the queue may
  // be a callback: then there is nothing that waits.
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  void Submit(Job job);
  // Waits until everything that was submitted is done and its callbacks have returned and are gone.
  // Not on the queue's thread.
  void Settle();
  // Transactions so far: for tests and benchmarks.
  std::int64_t transactions() const;

 private:
  // What the thread needs, and outlives the queue if that ends on it.
  struct Core {
    explicit Core(Commit c) : commit(std::move(c)) {}
    void Run();
    std::vector<Job> TakeSome();

    const Commit commit;
    std::mutex mutex;
    std::condition_variable wake, settled;
    std::vector<Job> waiting;
    std::int64_t transactions = 0;
    bool working = false, ending = false;
  };

  const std::shared_ptr<Core> core_;
  std::thread thread_;
};

}  // namespace lucid
