// The seam between HTTP and the guard: rows in, labels out.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guard/answer_memo.h"
#include "lucid/base/result.h"
#include "lucid/guard/guard.h"
#include "lucid/guard/ledger.h"

namespace lucid {

// Who asks, as far as a budget is concerned.
struct Client {
  std::string account;                 // an API key's id, or kAnonymous
  std::optional<EpsilonUnits> budget;  // of the account
};
inline constexpr const char* kAnonymous = "anonymous";

struct Labels {
  std::vector<std::int32_t> labels;  // one per row
  std::int64_t noised = 0;           // for Metrics, and for nothing that a client can see
};

// Thread-safe.
class Labeller {
 public:
  // Called once, on the executor or before Label returns; dropped uncalled if something throws.
  using Done = std::function<void(Result<Labels>)>;

  Labeller() = default;
  Labeller(const Labeller&) = delete;
  Labeller& operator=(const Labeller&) = delete;
  virtual ~Labeller() = default;

  // `rows`: encoded, one after another, at least one. Errors: kInvalidInput names the row that must
  // not be asked; anything else means that no answer can be given now, and that none was.
  virtual void Label(const Client& client, std::vector<float> rows,
                     const boost::asio::any_io_executor& executor, Done done) const = 0;
};

// Labels of a guard, every one paid for before it is given. `ledger` is required if the guard's
// epsilon is above 0 and its bounds are a certificate's (Create refuses otherwise), `memo` null
// means stateless. Both may be shared.
class GuardLabeller : public Labeller, public std::enable_shared_from_this<GuardLabeller> {
 public:
  static Result<std::shared_ptr<const GuardLabeller>> Create(std::shared_ptr<const Guard> guard,
                                                             std::shared_ptr<Ledger> ledger,
                                                             std::shared_ptr<AnswerMemo> memo);
  void Label(const Client& client, std::vector<float> rows,
             const boost::asio::any_io_executor& executor, Done done) const override;
  const Guard& guard() const { return *guard_; }

 private:
  struct Job;  // rows on their way through memo, ledger and guard
  GuardLabeller(std::shared_ptr<const Guard> guard, std::shared_ptr<Ledger> ledger,
                std::shared_ptr<AnswerMemo> memo, EpsilonUnits cost);
  void Recall(std::shared_ptr<Job> job) const;
  void Charge(std::shared_ptr<Job> job) const;
  // Ledger and memo call back on the threads that commit for everybody: networks are asked, and
  // clients answered, elsewhere.
  void PostAnswer(std::shared_ptr<Job> job) const;
  void Answer(const Job& job) const;

  std::shared_ptr<const Guard> guard_;
  std::shared_ptr<Ledger> ledger_;  // null: epsilon is 0
  std::shared_ptr<AnswerMemo> memo_;
  EpsilonUnits cost_;
};

}  // namespace lucid
