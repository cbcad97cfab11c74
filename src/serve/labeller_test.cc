// Which thread does what, and what is asked and paid for.
#include "serve/labeller.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
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
      const LedgerOptions options{.location = folder_ / ("ledger" + own + ".db"),
                                  .population = certificate.train_digest,
                                  .overall_budget = {},
                                  .mark = {}};
      EXPECT_TRUE(Ledger::Create(options).ok());
      ledger = std::make_shared<Ledger>(Ledger::Open(options).value());
      ledgers_.push_back(ledger);
    }
    std::shared_ptr<AnswerMemo> memo;
    if (with_memo) {
      memo = std::make_shared<AnswerMemo>(
          AnswerMemo::Open({folder_ / ("memo" + own + ".db"), 10}).value());
      memos_.push_back(memo);
    }
    return GuardLabeller::Create(guard, ledger, memo, queue_).value();
  }

  void TearDown() override { SettleAll(); }
  void SettleAll() {  // nobody may call back when the queue is gone
    queue_.Settle();
    for (const auto& memo : memos_) memo->Settle();
    for (const auto& ledger : ledgers_) ledger->Settle();
    queue_.Settle();
  }

  const Client kClient{kAnonymous, std::nullopt, "127.0.0.1"};
  const TemporaryFolder folder_;
  int made_ = 0;
  std::string errors_;
  FairQueue queue_{1, [this](std::string_view what) { errors_ += what; }};
  std::vector<std::shared_ptr<Ledger>> ledgers_;
  std::vector<std::shared_ptr<AnswerMemo>> memos_;
};

TEST_F(LabellerTest, AnswersOfLedgerAndMemoComeOnTheThreadOfTheQueue) {
  std::thread::id of_queue;
  queue_.Submit("a", [&] { of_queue = std::this_thread::get_id(); });
  queue_.Settle();
  for (const auto& [epsilon, with_memo] : {std::pair{1.0, false}, {0.0, true}, {1.0, true}}) {
    const auto labeller = Make(epsilon, with_memo);
    std::promise<std::pair<std::size_t, std::thread::id>> told;
    labeller->Label(kClient, {0.25F, 0.5F, 0.5F, 0.25F}, [&](const Result<Labels>& answer) {
      told.set_value({answer.ok() ? answer->labels.size() : 0, std::this_thread::get_id()});
    });
    const auto [labels, thread] = told.get_future().get();
    EXPECT_EQ(labels, 2) << epsilon << with_memo;
    EXPECT_EQ(thread, of_queue) << epsilon << with_memo;
  }
}

TEST_F(LabellerTest, AnExceptionInTheAnswerReachesTheQueueAndLeavesTheLedgerAtWork) {
  const auto labeller = Make(1, false);
  const auto dropped = std::make_shared<int>(0);
  labeller->Label(kClient, {0.25F, 0.5F},
                  [dropped](const Result<Labels>&) { throw std::runtime_error("no memory"); });
  SettleAll();
  EXPECT_EQ(errors_, "no memory");
  EXPECT_EQ(dropped.use_count(), 1) << "nobody waits for this answer any more";
  std::promise<bool> good;
  labeller->Label(kClient, {0.25F, 0.5F},
                  [&](const Result<Labels>& answer) { good.set_value(answer.ok()); });
  EXPECT_TRUE(good.get_future().get());
}

// Many equal rows are the cheapest way to make a server work: they are one row.
TEST_F(LabellerTest, EqualRowsAreAskedAndPaidForOnceAndAnsweredAlike) {
  const auto labeller = Make(1, false);
  std::vector<float> rows;
  for (int i = 0; i < 300; ++i) {  // 3 rows by turns, in canonical form: -0 is 0
    const float x[] = {0.25F, i % 2 == 0 ? 0.0F : -0.0F, 0.75F};
    rows.insert(rows.end(), {x[i % 3], 0.5F});
  }
  std::promise<Labels> told;
  labeller->Label(kClient, rows,
                  [&](const Result<Labels>& answer) { told.set_value(answer.value()); });
  const Labels labels = told.get_future().get();
  ASSERT_EQ(labels.labels.size(), 300);
  for (std::size_t i = 3; i < 300; ++i) EXPECT_EQ(labels.labels[i], labels.labels[i - 3]) << i;
  EXPECT_EQ(ledgers_.back()->totals().overall.answers, 3);
  std::vector<std::int32_t> single;
  for (const float x : {0.25F, 0.0F, 0.75F}) {
    std::promise<Labels> one;
    labeller->Label(kClient, {x, 0.5F},
                    [&](const Result<Labels>& answer) { one.set_value(answer.value()); });
    single.push_back(one.get_future().get().labels.at(0));
  }
  EXPECT_EQ(single, std::vector(labels.labels.begin(), labels.labels.begin() + 3));
}

}  // namespace
}  // namespace lucid
