// The seam between HTTP and the guard: rows in, labels out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admission/fair_queue.h"
#include "guard/answer_memo.h"
#include "lucid/base/result.h"
#include "lucid/guard/guard.h"
#include "lucid/guard/ledger.h"

namespace lucid {

// Who asks.
struct Client {
  std::string account;                 // an API key's id, or kAnonymous: who pays
  std::optional<EpsilonUnits> budget;  // of the account
  std::string sender;  // who takes turns with others: the account, or without keys the address
};
inline constexpr const char* kAnonymous = "anonymous";

struct Labels {
  std::vector<std::int32_t> labels;  // one per row
  std::int64_t noised = 0;           // for Metrics, and for nothing that a client can see
};

// Thread-safe.
class Labeller {
 public:
  // Called once, on any thread or before Label returns; dropped uncalled if something throws.
  using Done = std::function<void(Result<Labels>)>;

  Labeller() = default;
  Labeller(const Labeller&) = delete;
  Labeller& operator=(const Labeller&) = delete;
  virtual ~Labeller() = default;

  // `rows`: encoded, one after another, at least one. Errors: kInvalidInput names the row that must
  // not be asked; anything else means that no answer can be given now, and that none was.
  virtual void Label(const Client& client, std::vector<float> rows, Done done) const = 0;
  // Tells, on any thread, whether an answer could be given now.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): others keep it.
  virtual void Probe(std::function<void(bool)> done) const { done(true); }
};

// Labels of a guard, every one paid for before it is given. `ledger` is required if the guard's
// epsilon is above 0 and its bounds are a certificate's (Create refuses otherwise), `memo` null
// means stateless. Both may be shared.
//
// Rows that are equal are asked once. The guard works on the threads of `queue`, for a slice of
// time at once, so that clients take turns also within large requests.
class GuardLabeller : public Labeller, public std::enable_shared_from_this<GuardLabeller> {
 public:
  static Result<std::shared_ptr<const GuardLabeller>> Create(std::shared_ptr<const Guard> guard,
                                                             std::shared_ptr<Ledger> ledger,
                                                             std::shared_ptr<AnswerMemo> memo,
                                                             FairQueue& queue);
  void Label(const Client& client, std::vector<float> rows, Done done) const override;
  // Writes to the ledger, once a second at most; in between it tells what came of the last time.
  void Probe(std::function<void(bool)> done) const override;
  const Guard& guard() const { return *guard_; }

 private:
  struct Job;  // rows on their way through memo, ledger and guard
  GuardLabeller(std::shared_ptr<const Guard> guard, std::shared_ptr<Ledger> ledger,
                std::shared_ptr<AnswerMemo> memo, EpsilonUnits cost, FairQueue& queue);
  void Recall(std::shared_ptr<Job> job) const;
  void Charge(std::shared_ptr<Job> job) const;
  // Ledger and memo call back on the threads that commit for everybody: networks are asked, and
  // clients answered, elsewhere.
  void PostAnswer(std::shared_ptr<Job> job) const;
  void Answer(std::shared_ptr<Job> job) const;

  std::shared_ptr<const Guard> guard_;
  std::shared_ptr<Ledger> ledger_;  // null: epsilon is 0
  std::shared_ptr<AnswerMemo> memo_;
  EpsilonUnits cost_;
  FairQueue& queue_;
  mutable std::atomic<std::int64_t> last_probe_{0};  // second of the steady clock
  mutable std::atomic<bool> can_pay_{true};
};

}  // namespace lucid
