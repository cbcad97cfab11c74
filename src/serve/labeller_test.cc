// Which thread does what: networks are asked, and clients answered, where the request belongs.
#include "serve/labeller.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "certificate/test_support.h"

namespace lucid {
namespace {

class LabellerTest : public testing::Test {
 protected:
  std::shared_ptr<const GuardLabeller> Make(double epsilon, bool with_memo) {
    const std::string own = std::to_string(made_++);
    const Network network = RandomNetwork("2 > dense 3 > 2", 1);
    const Schema schema = Schema::Parse(
                              "column,kind,offset,divisor,categories\nx,numeric,0,1,\n"
                              "y,numeric,0,1,\nlabel,label,,,no|yes\n",
                              "schema")
                              .value();
    Certificate certificate = CertificateFor(network);
    certificate.schema_digest = Sha256Of(schema.Canonical());
    const auto verified = VerifiedCertificate::Verify(certificate, network).value();
    auto guard = std::make_shared<const Guard>(
        Guard::Create(network, verified, schema, {.epsilon = epsilon}, GuardKey::Random()).value());
    std::shared_ptr<Ledger> ledger;
    if (epsilon > 0) {
      ledger = std::make_shared<Ledger>(
          Ledger::Open({folder_ / ("ledger" + own + ".db"), certificate.train_digest, std::nullopt})
              .value());
      ledgers_.push_back(ledger);
    }
    std::shared_ptr<AnswerMemo> memo;
    if (with_memo) {
      memo = std::make_shared<AnswerMemo>(
          AnswerMemo::Open({folder_ / ("memo" + own + ".db"), 10}).value());
      memos_.push_back(memo);
    }
    return GuardLabeller::Create(guard, ledger, memo).value();
  }

  void TearDown() override {  // nobody may call back when the executor is gone
    for (const auto& memo : memos_) memo->Settle();
    for (const auto& ledger : ledgers_) ledger->Settle();
  }

  const TemporaryFolder folder_;
  int made_ = 0;
  std::vector<std::shared_ptr<Ledger>> ledgers_;
  std::vector<std::shared_ptr<AnswerMemo>> memos_;
  boost::asio::io_context io_{1};
  const boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
};

TEST_F(LabellerTest, AnswersOfLedgerAndMemoComeOnTheExecutor) {
  for (const auto& [epsilon, with_memo] : {std::pair{1.0, false}, {0.0, true}, {1.0, true}}) {
    const auto labeller = Make(epsilon, with_memo);
    std::optional<std::size_t> labels;
    std::thread::id thread;
    labeller->Label({kAnonymous, std::nullopt}, {0.25F, 0.5F, 0.5F, 0.25F}, io_.get_executor(),
                    [&](const Result<Labels>& answer) {
                      labels = answer.ok() ? answer->labels.size() : 0;
                      thread = std::this_thread::get_id();
                    });
    while (!labels) io_.run_one();
    EXPECT_EQ(labels, 2) << epsilon << with_memo;
    EXPECT_EQ(thread, std::this_thread::get_id()) << epsilon << with_memo;
  }
}

TEST_F(LabellerTest, AnExceptionInTheAnswerReachesTheExecutorAndLeavesTheLedgerAtWork) {
  const auto labeller = Make(1, false);
  const auto dropped = std::make_shared<int>(0);
  labeller->Label({kAnonymous, std::nullopt}, {0.25F, 0.5F}, io_.get_executor(),
                  [dropped](const Result<Labels>&) { throw std::bad_alloc(); });
  EXPECT_THROW(io_.run_one(), std::bad_alloc);
  EXPECT_EQ(dropped.use_count(), 1) << "nobody waits for this answer any more";
  std::optional<bool> good;
  labeller->Label({kAnonymous, std::nullopt}, {0.25F, 0.5F}, io_.get_executor(),
                  [&](const Result<Labels>& answer) { good = answer.ok(); });
  while (!good) io_.run_one();
  EXPECT_EQ(good, true);
}

}  // namespace
}  // namespace lucid
