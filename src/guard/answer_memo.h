// The paper's dictionary M (Algorithm 2): the same input gets the same answer as long as it is
// remembered; at the limit the oldest entry is forgotten. The stateless memo (Guard's keyed hash)
// is the default; this one gives fresh randomness, at the price of a file and of forgetting.
//
// It differs from Algorithm 2 in two ways, both on the safe side. It remembers draws, not answers,
// and for every input, not only for noised ones: so every input takes the same path, and neither
// what is remembered nor what is forgotten depends on the data. And an entry has a ticket: a
// forgotten input that comes back gets a new draw, hence a new ticket, and the ledger charges it
// again, where the paper assumes that the attacker has forgotten it as well.
//
// How a server uses it, per request:
//   fingerprints = guard.Fingerprint(x) for each row
//   entries      = memo.Recall(fingerprints)
//   budgets      = ledger.Charge({..., .answers = the entries' tickets})   (epsilon > 0)
//   answer       = guard.Ask(x, budget, entry.For(budget))
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/guard/guard.h"
#include "lucid/guard/mechanism.h"

namespace lucid {

struct MemoEntry {
  std::array<std::uint8_t, 16> ticket{};  // names this draw in a ledger (AnswerName)
  Draw left, spent;

  // One draw must not serve both: an input answered at epsilon 0 first and at epsilon later would
  // show which of the two answers is the lie.
  const Draw& For(Budget budget) const { return budget == Budget::kLeft ? left : spent; }
};

struct AnswerMemoOptions {
  std::string path;
  std::int64_t limit = 1'000'000;  // entries; 1..2^32. A smaller one than before forgets the oldest

  Status Validate() const;
};

class AnswerMemo {
 public:
  using Fingerprint = std::array<std::uint8_t, 16>;  // Guard::Fingerprint
  using Outcome = Result<std::vector<MemoEntry>>;    // one per input, in order

  // Creates the file, or goes on with it. Errors: as Database::Open; the system has no entropy.
  static Result<AnswerMemo> Open(const AnswerMemoOptions& options);
  ~AnswerMemo();  // finishes what waits
  AnswerMemo(AnswerMemo&&) noexcept;
  AnswerMemo& operator=(AnswerMemo&&) noexcept;

  // Thread-safe, returns at once; `done` is called on the memo's own thread (make it short) after
  // new entries are on disk. After an error nothing may be answered; a later request tries again.
  // `done` must not end the memo's life. Errors: kInvalidInput: more inputs at once than the limit;
  // anything else is the file's.
  void Recall(std::vector<Fingerprint> inputs, std::function<void(Outcome)> done);
  // The same, waiting.
  Outcome Recall(std::vector<Fingerprint> inputs);
  // Waits until every `done` has returned, and what it held is gone. Not within a `done`.
  void Settle();

  std::int64_t size() const;  // as of the last commit
  std::int64_t limit() const;

 private:
  struct Impl;
  explicit AnswerMemo(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
