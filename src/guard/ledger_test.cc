#include "lucid/guard/ledger.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <random>
#include <thread>

#include "certificate/test_support.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
constexpr Budget kLeft = Budget::kLeft, kSpent = Budget::kSpent;

AnswerName Name(std::uint64_t number) {
  AnswerName name{};
  std::memcpy(name.data(), &number, sizeof number);
  return name;
}

EpsilonUnits Units(double epsilon) { return EpsilonUnits::RoundedUp(epsilon).value(); }

class LedgerTest : public testing::Test {
 protected:
  Ledger Open(std::optional<double> overall = {}) const {
    auto ledger = TryOpen(overall);
    EXPECT_TRUE(ledger.ok()) << ledger.error().message;
    return std::move(ledger).value();
  }
  LedgerOptions Options() const {
    return {.location = path_, .population = Sha256Of("rows"), .overall_budget = {}, .mark = mark_};
  }
  // Makes the ledger if the test has none yet.
  Result<Ledger> TryOpen(std::optional<double> overall = {}) const {
    LedgerOptions options = Options();
    if (!std::filesystem::exists(path_)) EXPECT_TRUE(Ledger::Create(options).ok());
    if (overall.has_value()) options.overall_budget = Units(*overall);
    return Ledger::Open(options);
  }
  static std::vector<Budget> Pay(Ledger& ledger, const std::string& account,
                                 std::optional<double> budget, double cost,
                                 const std::vector<std::uint64_t>& numbers) {
    Ledger::Request request{.account = account, .budget = {}, .cost = Units(cost), .answers = {}};
    if (budget.has_value()) request.budget = Units(*budget);
    for (const std::uint64_t number : numbers) request.answers.push_back(Name(number));
    auto outcome = ledger.Charge(std::move(request));
    EXPECT_TRUE(outcome.ok()) << outcome.error().message;
    return std::move(outcome).value();
  }
  static double Spent(const Ledger& ledger, const std::string& account) {
    return ledger.BalanceOf(account).spent.epsilon();
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "ledger.db", mark_ = folder_ / "mark";
};

TEST(EpsilonUnits, CostsAreRoundedUpAndBudgetsDown) {
  for (const double epsilon : {0.0, 0.1, 0.2, 1.0, 1e-15, 3.7e5, 1048576.0}) {
    const auto up = EpsilonUnits::RoundedUp(epsilon), down = EpsilonUnits::RoundedDown(epsilon);
    ASSERT_TRUE(up.ok() && down.ok());
    EXPECT_GE(up->epsilon(), epsilon);
    EXPECT_LE(down->epsilon(), epsilon);
    EXPECT_LE(up->count() - down->count(), 1);
  }
  EXPECT_EQ(EpsilonUnits::RoundedUp(1e-300)->count(), 1) << "never free";
  EXPECT_EQ(EpsilonUnits::RoundedUp(1)->count(), std::int64_t{1} << 40);
  for (const double bad : {-1.0, std::nan(""), 1048577.0, kInfinity, -kInfinity}) {
    EXPECT_FALSE(EpsilonUnits::RoundedUp(bad).ok()) << bad;
    EXPECT_FALSE(EpsilonUnits::RoundedDown(bad).ok()) << bad;
  }
}

TEST_F(LedgerTest, PaysOncePerAnswerUntilTheBudgetIsSpent) {
  Ledger ledger = Open();
  EXPECT_THAT(Pay(ledger, "a", 1.0, 0.25, {1, 2, 1}), ElementsAre(kLeft, kLeft, kLeft));
  EXPECT_EQ(Spent(ledger, "a"), 0.5);
  EXPECT_THAT(Pay(ledger, "a", 1.0, 0.25, {3, 4, 5, 2}), ElementsAre(kLeft, kLeft, kSpent, kLeft));
  EXPECT_EQ(Spent(ledger, "a"), 1.0);
  EXPECT_EQ(ledger.BalanceOf("a").answers, 4);
  // What was paid stays paid, what was not stays so; a higher budget is used at once.
  EXPECT_THAT(Pay(ledger, "a", 1.0, 0.25, {1, 5}), ElementsAre(kLeft, kSpent));
  EXPECT_THAT(Pay(ledger, "a", 1.25, 0.25, {5, 6}), ElementsAre(kLeft, kSpent));
}

TEST_F(LedgerTest, ManySmallChargesAddUpExactly) {
  // 0.1 is no binary fraction: in doubles, ten of them are not 1.
  Ledger ledger = Open();
  std::vector<std::uint64_t> numbers(100);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  const auto budgets = Pay(ledger, "a", 1.0, 0.1, numbers);
  // Costs are rounded up: the tenth does not fit.
  EXPECT_EQ(std::ranges::count(budgets, kLeft), 9);
  EXPECT_EQ(ledger.BalanceOf("a").spent.count(), 9 * Units(0.1).count());
}

TEST_F(LedgerTest, AccountsPayEachForItselfAndTheWholeOnce) {
  Ledger ledger = Open(1.0);
  EXPECT_THAT(Pay(ledger, "a", {}, 0.5, {1}), ElementsAre(kLeft));
  EXPECT_THAT(Pay(ledger, "b", {}, 0.5, {1, 2}), ElementsAre(kLeft, kLeft));
  EXPECT_EQ(ledger.totals().overall.spent.epsilon(), 1.0);
  EXPECT_EQ(ledger.totals().overall.answers, 2);
  // Nothing is left for a new answer, but one that is out already costs the whole nothing.
  EXPECT_THAT(Pay(ledger, "c", {}, 0.5, {3, 2}), ElementsAre(kSpent, kLeft));
  EXPECT_THAT(Pay(ledger, "c", 0.5, 0.5, {1}), ElementsAre(kSpent)) << "its own is used up";
  EXPECT_EQ(ledger.totals().accounts.size(), 3);
}

// What is written decides how long a charge takes: whoever asks must not tell a budget that is
// spent, or an answer that somebody else has paid for, from a new one.
TEST_F(LedgerTest, EveryOutcomeWritesAsMuchAndLeavesNoDecoy) {
  std::optional<Ledger> opened(Open(100.0));
  Ledger& ledger = *opened;
  Pay(ledger, "a", {}, 0.5, {1, 2, 3, 4});  // makes the accounts
  Pay(ledger, "b", {}, 0.5, {5, 6, 7, 8});
  const std::string log = path_ + "-wal";
  const auto written = [&](const std::string& account, std::optional<double> budget,
                           const std::vector<std::uint64_t>& numbers, Budget outcome) {
    const auto before = std::filesystem::file_size(log);
    EXPECT_THAT(Pay(ledger, account, budget, 0.5, numbers), Each(outcome));
    return std::filesystem::file_size(log) - before;
  };
  const auto fresh = written("a", {}, {10, 11}, kLeft);
  EXPECT_GT(fresh, 0);
  EXPECT_EQ(written("a", {}, {10, 11}, kLeft), fresh) << "paid for by itself";
  EXPECT_EQ(written("b", {}, {10, 11}, kLeft), fresh) << "paid for by another";
  EXPECT_EQ(written("b", 0.0, {20, 21}, kSpent), fresh) << "its budget is spent";
  EXPECT_EQ(written("b", 0.0, {1, 2}, kSpent), fresh) << "spent, and paid for by another";
  EXPECT_EQ(written("b", {}, {2, 12}, kLeft), fresh) << "one of each kind";
  EXPECT_EQ(ledger.totals().overall.answers, 8 + 2 + 1);
  EXPECT_EQ(ledger.BalanceOf("a").answers, 4 + 2);
  EXPECT_EQ(ledger.BalanceOf("b").answers, 4 + 2 + 2);
  Pay(ledger, "a", {}, 0.5, {10, 1, 2, 11});
  EXPECT_EQ(ledger.BalanceOf("a").answers, 4 + 2) << "all of it is still known";
  opened.reset();
  sqlite3* file = nullptr;
  sqlite3_stmt* count = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &file), SQLITE_OK);
  ASSERT_EQ(sqlite3_prepare_v2(file, "SELECT count(*) FROM charges", -1, &count, nullptr),
            SQLITE_OK);
  ASSERT_EQ(sqlite3_step(count), SQLITE_ROW);
  EXPECT_EQ(sqlite3_column_int64(count, 0), 6 + 8 + 11) << "of a, of b and of all";
  sqlite3_finalize(count);
  sqlite3_close(file);
}

TEST_F(LedgerTest, AProbeWritesAndChargesNothing) {
  Ledger ledger = Open(1.0);
  Pay(ledger, "a", {}, 1.0, {1});  // all of it is spent
  const auto before = std::filesystem::file_size(path_ + "-wal");
  std::promise<bool> written;
  ledger.Probe([&](const Status& status) { written.set_value(status.ok()); });
  EXPECT_TRUE(written.get_future().get());
  EXPECT_GT(std::filesystem::file_size(path_ + "-wal"), before);
  EXPECT_EQ(ledger.totals().overall.answers, 1);
  EXPECT_EQ(ledger.totals().accounts.size(), 1);
}

TEST_F(LedgerTest, AnotherEpsilonIsChargedAtItsOwnCost) {
  Ledger ledger = Open();
  EXPECT_THAT(Pay(ledger, "a", 1.0, 0.25, {1}), ElementsAre(kLeft));
  EXPECT_THAT(Pay(ledger, "a", 1.0, 1.0, {2}), ElementsAre(kSpent));
  EXPECT_THAT(Pay(ledger, "a", 1.0, 0.75, {2}), ElementsAre(kLeft));
}

TEST_F(LedgerTest, EverythingIsThereAfterReopening) {
  {
    Ledger ledger = Open();
    Pay(ledger, "a", 1.0, 0.5, {1});
    Pay(ledger, "b", 1.0, 0.5, {2});
  }
  Ledger ledger = Open();
  EXPECT_EQ(Spent(ledger, "a"), 0.5);
  EXPECT_EQ(ledger.totals().overall.spent.epsilon(), 1.0);
  EXPECT_THAT(Pay(ledger, "a", 1.0, 0.5, {1, 2, 3}), ElementsAre(kLeft, kLeft, kSpent));
}

TEST_F(LedgerTest, BelongsToOnePopulation) {
  { const Ledger ledger = Open(); }
  LedgerOptions of_others = Options();
  of_others.population = Sha256Of("other rows");
  const auto other = Ledger::Open(of_others);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::kMismatch);
  EXPECT_THAT(other.error().message, HasSubstr("another population"));
  EXPECT_TRUE(TryOpen().ok());
}

TEST_F(LedgerTest, ASecondServerIsRefused) {
  const Ledger ledger = Open();
  const auto second = TryOpen();
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("in use"));
}

TEST_F(LedgerTest, AnAccountNeedsAName) {
  Ledger ledger = Open();
  EXPECT_FALSE(ledger.Charge({.account = "", .budget = {}, .cost = Units(1), .answers = {}}).ok());
  EXPECT_FALSE(
      ledger
          .Charge({.account = std::string(256, 'a'), .budget = {}, .cost = Units(1), .answers = {}})
          .ok());
  // The overall account cannot be reached by a name, nor can a name break out of its place.
  EXPECT_THAT(Pay(ledger, "'); DROP TABLE charges; --", 1.0, 0.5, {1}), ElementsAre(kLeft));
  EXPECT_THAT(Pay(ledger, "a", 1.0, 0.5, {1}), ElementsAre(kLeft));
}

TEST_F(LedgerTest, SumsThatWouldOverflowAreSpent) {
  Ledger ledger = Open();
  const double largest = EpsilonUnits::kLargest;  // 2^60 units: eight do not fit in 63 bits
  EXPECT_THAT(Pay(ledger, "a", {}, largest, {1, 2, 3, 4, 5, 6, 7, 8}),
              ElementsAre(kLeft, kLeft, kLeft, kLeft, kLeft, kLeft, kLeft, kSpent));
}

// Threads that charge overlapping answers: each account pays once for each, the whole once for all.
TEST_F(LedgerTest, ThreadsNeverPayTwice) {
  constexpr int kThreads = 8, kAnswers = 200;
  Ledger ledger = Open();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kAnswers; ++i) {
          EXPECT_THAT(Pay(ledger, t % 2 == 0 ? "even" : "odd", {}, 0.5, {std::uint64_t(i)}),
                      ElementsAre(kLeft));
        }
      });
    }
  }
  EXPECT_EQ(ledger.BalanceOf("even").answers, kAnswers);
  EXPECT_EQ(ledger.BalanceOf("odd").answers, kAnswers);
  EXPECT_EQ(ledger.totals().overall.answers, kAnswers);
  EXPECT_EQ(ledger.totals().overall.spent.epsilon(), 0.5 * kAnswers);
}

TEST_F(LedgerTest, ABudgetIsNeverOverdrawnByThreads) {
  constexpr int kThreads = 8, kAnswers = 100;
  Ledger ledger = Open(10.0);
  std::atomic<int> paid = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kAnswers; ++i) {
          const auto budgets =
              Pay(ledger, "a", 5.0, 0.25, {std::uint64_t(t) * 1000 + std::uint64_t(i)});
          paid += budgets[0] == kLeft ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(paid, 20);
  EXPECT_EQ(Spent(ledger, "a"), 5.0);
}

TEST_F(LedgerTest, IsNeverMadeByChance) {
  const auto opened = Ledger::Open(Options());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::kInvalidInput);
  EXPECT_THAT(opened.error().message, HasSubstr("lucid ledger init"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  { const Ledger ledger = Open(); }
  LedgerOptions again = Options();
  again.mark = "";
  const Status created = Ledger::Create(again);
  ASSERT_FALSE(created.ok());
  EXPECT_THAT(created.error().message, HasSubstr("already"));
  // It is lost: the mark knows that there was one.
  std::filesystem::remove(path_);
  const Status anew = Ledger::Create(Options());
  ASSERT_FALSE(anew.ok());
  EXPECT_THAT(anew.error().message, HasSubstr("begin anew"));
}

// The copy of last week gives the budget of last week again.
TEST_F(LedgerTest, ARestoredCopyIsNoticed) {
  {
    Ledger ledger = Open();
    Pay(ledger, "a", 2.0, 1.0, {1});
  }
  const std::string copy = folder_ / "copy.db";
  std::filesystem::copy_file(path_, copy);
  {
    Ledger ledger = Open();
    Pay(ledger, "a", 2.0, 1.0, {2});
  }
  std::filesystem::copy_file(copy, path_, std::filesystem::copy_options::overwrite_existing);
  const auto restored = TryOpen();
  ASSERT_FALSE(restored.ok());
  EXPECT_EQ(restored.error().kind, ErrorKind::kMismatch);
  EXPECT_THAT(restored.error().message, HasSubstr("was rolled back"));
  EXPECT_THAT(restored.error().message, HasSubstr(mark_)) << "what to do about it";
  std::filesystem::remove(mark_);
  EXPECT_TRUE(TryOpen().ok()) << "an operator has decided";
}

TEST_F(LedgerTest, AMarkThatIsNoneIsRefused) {
  { const Ledger ledger = Open(); }
  for (const std::string text : {"x", "lucid-ledger-mark-1\n"}) {
    std::ofstream(mark_) << text;
    const auto opened = TryOpen();
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, HasSubstr("is not the mark of a ledger"));
  }
  std::string text;
  std::filesystem::remove(mark_);
  { const Ledger ledger = Open(); }
  std::getline(std::ifstream(mark_), text, '\0');
  text[text.size() - 2] = 'x';
  std::ofstream(mark_) << text;
  EXPECT_FALSE(TryOpen().ok());
}

TEST_F(LedgerTest, AnotherGuardKeyIsLetInOnlyByName) {
  { const Ledger ledger = Open(); }
  LedgerOptions other = Options();
  other.guard_key = Name(5);
  const auto refused = Ledger::Open(other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kMismatch);
  ASSERT_TRUE(Ledger::AllowKey(other).ok());
  EXPECT_TRUE(Ledger::Open(other).ok());
  EXPECT_EQ(Ledger::Look(path_, other.population)->guard_keys.size(), 2);
}

// A file of version 1, as 0.9 wrote it: it goes on with what was spent, although it does not know
// what each answer cost.
TEST_F(LedgerTest, AnOldFileGoesOn) {
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &file), SQLITE_OK);
  std::string population;
  for (const std::uint8_t byte : Sha256Of("rows").bytes) population += fmt::format("{:02x}", byte);
  const std::string sql = fmt::format(
      R"(CREATE TABLE training_set (digest BLOB NOT NULL) STRICT;
         CREATE TABLE accounts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
           spent INTEGER NOT NULL CHECK (spent >= 0),
           answers INTEGER NOT NULL CHECK (answers >= 0)) STRICT;
         CREATE TABLE charges (account INTEGER NOT NULL REFERENCES accounts,
           answer BLOB NOT NULL CHECK (length(answer) = 16),
           PRIMARY KEY (account, answer)) STRICT, WITHOUT ROWID;
         INSERT INTO training_set VALUES (x'{0}');
         INSERT INTO accounts VALUES (1, '', 1649267441664, 2), (2, 'a', 1649267441664, 2);
         INSERT INTO charges VALUES (1, x'{1}'), (1, x'{2}'), (2, x'{1}'), (2, x'{2}');
         PRAGMA application_id = 1282761548; PRAGMA user_version = 1;)",
      population, "01" + std::string(30, '0'), "02" + std::string(30, '0'));
  ASSERT_EQ(sqlite3_exec(file, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(file);
  {
    Ledger ledger = Open();
    EXPECT_EQ(Spent(ledger, "a"), 1.5);
    EXPECT_THAT(Pay(ledger, "a", 2.0, 0.5, {1, 2, 3, 4}), ElementsAre(kLeft, kLeft, kLeft, kSpent));
  }
  LedgerOptions target{.location = folder_ / "new.db",
                       .population = Sha256Of("rows"),
                       .overall_budget = {},
                       .mark = {}};
  ASSERT_TRUE(Ledger::Create(target).ok());
  ASSERT_TRUE(Ledger::Merge(path_, target.location, target.population).ok());
  const auto view = Ledger::Look(target.location, target.population);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->spent.epsilon(), 2.0) << "also what no single charge accounts for";
  EXPECT_EQ(view->answers, 3);
}

TEST_F(LedgerTest, MergingCountsWhatIsInBothOnceAndMayBeRepeated) {
  LedgerOptions other{.location = folder_ / "other.db",
                      .population = Sha256Of("rows"),
                      .overall_budget = {},
                      .mark = {}};
  ASSERT_TRUE(Ledger::Create(other).ok());
  {
    Ledger one = Open(), two = Ledger::Open(other).value();
    Pay(one, "a", {}, 0.5, {1, 2});
    Pay(two, "a", {}, 0.5, {2, 3});
    Pay(two, "b", {}, 0.5, {1});
  }
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(Ledger::Merge(other.location, path_, other.population).ok());
    const auto view = Ledger::Look(path_, other.population);
    EXPECT_EQ(view->spent.epsilon(), 1.5) << "1, 2 and 3";
    ASSERT_EQ(view->accounts.size(), 2);
    EXPECT_EQ(view->accounts[0].spent.epsilon(), 1.5);
    EXPECT_EQ(view->accounts[1].spent.epsilon(), 0.5);
  }
  const auto closed = Ledger::Open(other);
  ASSERT_FALSE(closed.ok());
  EXPECT_THAT(closed.error().message, HasSubstr("is closed"));
  EXPECT_FALSE(Ledger::Merge(path_, other.location, other.population).ok()) << "round and round";
  EXPECT_FALSE(Ledger::Merge(path_, path_, other.population).ok());
  Ledger ledger = Open();
  EXPECT_THAT(Pay(ledger, "a", 1.5, 0.5, {1, 2, 3, 4}), ElementsAre(kLeft, kLeft, kLeft, kSpent));
}

// A child charges answers 0, 1, 2, ... from three threads and writes each number to a pipe when it
// is acknowledged. Killed at a random moment, many times over one file.
class ChargingChild {
 public:
  ChargingChild(const std::string& path, std::uint64_t first) {
    EXPECT_EQ(::pipe(pipe_), 0);
    child_ = ::fork();
    if (child_ == 0) Charge(path, first);
    ::close(pipe_[1]);
  }
  ~ChargingChild() {
    ::close(pipe_[0]);
    int status = 0;
    ::waitpid(child_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "ended by itself with " << WEXITSTATUS(status);
  }
  ChargingChild(const ChargingChild&) = delete;
  ChargingChild& operator=(const ChargingChild&) = delete;

  // Kills it `delay` after the first acknowledgement; all that were acknowledged.
  std::vector<std::uint64_t> KillAfter(std::chrono::microseconds delay) {
    std::vector<std::uint64_t> acknowledged;
    bool killed = false;
    std::uint64_t number = 0;
    while (::read(pipe_[0], &number, sizeof number) == sizeof number) {
      acknowledged.push_back(number);
      if (killed) continue;
      std::this_thread::sleep_for(delay);
      ::kill(child_, SIGKILL);
      killed = true;
    }
    return acknowledged;
  }

 private:
  [[noreturn]] void Charge(const std::string& path, std::uint64_t first) const {
    auto ledger = Ledger::Open({.location = path,
                                .population = Sha256Of("rows"),
                                .overall_budget = {},
                                .mark = path + ".mark"});
    if (!ledger.ok()) ::_exit(3);
    std::atomic<std::uint64_t> next = first;
    const auto charge = [&] {
      while (true) {
        const std::uint64_t number = next++;
        const auto paid = ledger->Charge({.account = "a",
                                          .budget = {},
                                          .cost = Units(0.5),
                                          .answers = {Name(number), Name(number)}});
        if (!paid.ok() || paid.value()[0] != kLeft) ::_exit(4);
        if (::write(pipe_[1], &number, sizeof number) != sizeof number) ::_exit(5);
      }
    };
    const std::jthread second(charge), third(charge);
    charge();
    ::_exit(0);
  }
  int pipe_[2] = {};
  pid_t child_ = -1;
};

TEST_F(LedgerTest, KillLosesNoAcknowledgedChargeAndChargesNothingTwice) {
  const char* wanted = std::getenv("LUCID_TEST_SEED");
  const std::uint64_t seed =
      wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : std::random_device()();
  std::printf("LUCID_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  { const Ledger made = Open(); }
  std::vector<std::uint64_t> acknowledged;
  constexpr int kRounds = 40;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    ChargingChild child(path_, round << 32);
    const auto delay = std::chrono::microseconds(random() % 20'000);
    for (const std::uint64_t number : child.KillAfter(delay)) acknowledged.push_back(number);
  }
  ASSERT_GE(acknowledged.size(), kRounds);
  Ledger ledger = Open();
  const Ledger::Balance before = ledger.BalanceOf("a");
  // At most what was on its way in each round is there without having been acknowledged.
  EXPECT_GE(before.answers, std::ssize(acknowledged));
  EXPECT_LE(before.answers, std::ssize(acknowledged) + 3 * kRounds);
  EXPECT_EQ(before.spent.epsilon(), 0.5 * static_cast<double>(before.answers));
  // All are there: paying for them again, with a budget that is used up, costs nothing.
  EXPECT_THAT(Pay(ledger, "a", before.spent.epsilon(), 0.5, acknowledged), Each(kLeft));
  EXPECT_EQ(ledger.BalanceOf("a").spent, before.spent);
}

}  // namespace
}  // namespace lucid
