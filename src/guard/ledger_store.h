// Where a ledger is kept. What a charge means is in ledger.cc; a store only reads and writes, in
// transactions that exclude each other, also those of other servers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lucid/guard/ledger.h"

namespace lucid {

struct LedgerHead {
  LedgerName id{};
  std::optional<LedgerName> merged_into;
};

// Not thread-safe.
class LedgerStore {
 public:
  struct Account {
    std::int64_t id = 0, spent = 0, answers = 0;
  };
  // An answer, and the account (by its place among the names) that it may be charged to.
  struct Question {
    std::size_t account = 0;
    AnswerName answer{};
  };
  struct Found {
    LedgerHead head;
    std::int64_t commits = 0;       // of this server, with the transaction that has begun
    std::vector<Account> accounts;  // one per name
    std::vector<bool> charged;      // one per question
  };
  // A row that is written. A decoy is taken out again in the same transaction: it is written so
  // that an answer that is not charged costs as much time as one that is.
  struct Line {
    std::int64_t account = 0;  // its id
    AnswerName answer{};
    std::int64_t cost = 0;
    bool decoy = false;
  };
  // What an account pays in all; the store refuses it if that is more than `limit` allows.
  struct Change {
    std::int64_t account = 0;
    std::int64_t cost = 0, answers = 0;
    std::int64_t limit = 0;
  };
  struct Charge {
    AnswerName answer{};
    std::int64_t cost = 0;
  };

  LedgerStore() = default;
  LedgerStore(const LedgerStore&) = delete;
  LedgerStore& operator=(const LedgerStore&) = delete;
  virtual ~LedgerStore() = default;

  // Begins a transaction, counts it for the server and reads what a charge needs. Accounts that are
  // not there yet are made. After an error no transaction is open.
  virtual Result<Found> Begin(const LedgerName& server, std::span<const std::string> names,
                              std::span<const Question> questions) = 0;
  // Writes and commits, durably when it returns. `absorbed`: a ledger whose charges these are.
  // After an error nothing of it is there, unless in_doubt().
  virtual Status Finish(std::span<const Line> lines, std::span<const Change> changes,
                        const LedgerName* absorbed) = 0;
  virtual void RollBack() = 0;
  // The connection was lost while the last Finish committed: nobody knows whether it did.
  virtual bool in_doubt() const = 0;
  // Whether other servers may charge it at the same time.
  virtual bool shared() const = 0;
  virtual std::string place() const = 0;  // for messages; never with a password

  // Each a transaction of its own.
  virtual Result<LedgerHead> Head() = 0;
  virtual Result<std::vector<LedgerName>> GuardKeys() = 0;
  virtual Status AddGuardKey(const LedgerName& key) = 0;
  virtual Result<std::vector<std::pair<LedgerName, std::int64_t>>> Servers() = 0;
  virtual Status AddServer(const LedgerName& server) = 0;
  virtual Result<bool> HasAbsorbed(const LedgerName& ledger) = 0;
  virtual Status MergeInto(const LedgerName& ledger) = 0;  // closes this one
  virtual Result<std::vector<std::pair<std::string, Account>>> Accounts() = 0;
  virtual Result<std::vector<Charge>> Charges(std::int64_t account) = 0;
};

inline constexpr std::string_view kOverallAccount;  // the name of the one that all accounts share

bool IsPostgres(std::string_view location);
// Makes a ledger with one guard key. Errors: there is one.
Status CreateSqliteLedger(const LedgerOptions& options, const LedgerName& id);
Status CreatePostgresLedger(const LedgerOptions& options, const LedgerName& id);
// Errors: there is none, or it is of another population.
Result<std::unique_ptr<LedgerStore>> OpenSqliteLedger(const std::string& path,
                                                      const Digest& population);
Result<std::unique_ptr<LedgerStore>> OpenPostgresLedger(const std::string& url,
                                                        const Digest& population);

// 32 lower-case hex digits.
std::string HexOf(const LedgerName& name);
// Bytes are of the right length: a database checks it.
LedgerName LedgerNameOf(std::span<const std::uint8_t> bytes);

}  // namespace lucid
