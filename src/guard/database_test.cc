#include "guard/database.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <future>

#include "certificate/test_support.h"
#include "support/files.h"

namespace lucid {
namespace {

using testing::HasSubstr;

constexpr DatabaseFormat kNotes{.kind = "notebook",
                                .application = 77,
                                .version = 3,
                                .schema = "CREATE TABLE notes (text TEXT NOT NULL) STRICT;"};

class DatabaseTest : public testing::Test {
 protected:
  void ExpectRefused(const DatabaseFormat& format, const std::string& word) const {
    const auto opened = Database::Open(path_, format);
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, HasSubstr(word));
    EXPECT_THAT(opened.error().message, HasSubstr(path_));
    EXPECT_THAT(opened.error().message, testing::Not(HasSubstr("\n")));
  }
  void Sql(const std::string& sql) const {  // as somebody else's program
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(other);
  }
  std::string Bytes() const { return ReadBytes(path_); }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "notes.db";
};

std::int64_t CountNotes(Database& database) {
  auto statement = database.Prepare("SELECT count(*) FROM notes");
  EXPECT_TRUE(statement.ok() && statement->Step().ok());
  return statement->Whole(0);
}

TEST_F(DatabaseTest, ANewFileIsItsOwnersOnly) {
  ASSERT_TRUE(Database::Open(path_, kNotes).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
}

TEST_F(DatabaseTest, KeepsWhatWasWritten) {
  {
    auto database = Database::Open(path_, kNotes).value();
    ASSERT_TRUE(database.Execute("INSERT INTO notes VALUES ('a'), ('b')").ok());
  }
  auto database = Database::Open(path_, kNotes).value();
  EXPECT_EQ(CountNotes(database), 2);
}

TEST_F(DatabaseTest, EveryCommitIsSynced) {
  auto database = Database::Open(path_, kNotes).value();
  auto synchronous = database.Prepare("PRAGMA synchronous").value();
  ASSERT_TRUE(synchronous.Step().value());
  EXPECT_EQ(synchronous.Whole(0), 2) << "FULL";
  auto journal = database.Prepare("PRAGMA journal_mode").value();
  ASSERT_TRUE(journal.Step().value());
  EXPECT_EQ(journal.Text(0), "wal");
}

TEST_F(DatabaseTest, OneProcessAtATime) {
  const auto first = Database::Open(path_, kNotes);
  ASSERT_TRUE(first.ok());
  ExpectRefused(kNotes, "in use by another process");
}

TEST_F(DatabaseTest, AnOtherKindOfDatabaseIsRefusedAndLeftAsItIs) {
  Sql("CREATE TABLE customers (name); INSERT INTO customers VALUES ('c')");
  const std::string before = Bytes();
  ExpectRefused(kNotes, "not a LUCID notebook");
  EXPECT_EQ(Bytes(), before);
}

TEST_F(DatabaseTest, ALaterVersionIsRefused) {
  ASSERT_TRUE(Database::Open(path_, kNotes).ok());
  DatabaseFormat older = kNotes;
  older.version = 2;
  ExpectRefused(older, "of version 3; this program knows 2");
}

TEST_F(DatabaseTest, AFileThatIsNoDatabaseIsRefusedAndLeftAsItIs) {
  std::ofstream(path_) << std::string(4096, 'x');
  ExpectRefused(kNotes, "not a database");
  EXPECT_EQ(Bytes(), std::string(4096, 'x'));
}

TEST_F(DatabaseTest, ADamagedFileIsRefused) {
  {
    auto database = Database::Open(path_, kNotes).value();
    const std::string note = "INSERT INTO notes VALUES ('" + std::string(100, 'n') + "')";
    ASSERT_TRUE(database.Execute("BEGIN").ok());
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(database.Execute(note).ok());
    ASSERT_TRUE(database.Execute("COMMIT").ok());
  }
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);  // the second page
    file << std::string(4096, '\xee');
  }
  ExpectRefused(kNotes, "damaged");
}

TEST_F(DatabaseTest, AFolderIsRefused) {
  const auto opened = Database::Open(folder_ / "none/notes.db", kNotes);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::kIo);
  EXPECT_THAT(opened.error().message, HasSubstr("No such file or directory"));
  EXPECT_FALSE(Database::Open(folder_ / ".", kNotes).ok());
}

TEST_F(DatabaseTest, AFileThatMayNotBeWrittenIsRefused) {
  ASSERT_TRUE(Database::Open(path_, kNotes).ok());
  ASSERT_EQ(::chmod(path_.c_str(), 0400), 0);
  const pid_t child = ::fork();
  if (child == 0) {  // root may write anything: be nobody
    if (::geteuid() == 0 && (::chown((folder_ / ".").c_str(), 65534, 65534) != 0 ||
                             ::chown(path_.c_str(), 65534, 65534) != 0 || ::setuid(65534) != 0)) {
      ::_exit(3);
    }
    const auto opened = Database::Open(path_, kNotes);
    const bool refused =
        !opened.ok() && opened.error().message.find("cannot write") != std::string::npos;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Waits for a job's outcome.
Status Committed(CommitQueue& queue, std::function<Status()> work) {
  std::promise<Status> promise;
  queue.Submit({std::move(work), [&](const Status& status) { promise.set_value(status); }});
  return promise.get_future().get();
}

TEST_F(DatabaseTest, JobsThatWaitTogetherShareATransaction) {
  auto database = Database::Open(path_, kNotes).value();
  CommitQueue queue(database);
  std::promise<void> gate;
  std::vector<int> order;
  queue.Submit({[&] {
                  gate.get_future().wait();
                  return Ok();
                },
                [](const Status&) {}});
  // Until it began, the first may share as well: wait for it.
  while (queue.transactions() == 0) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) {
    queue.Submit({[&] { return database.Execute("INSERT INTO notes VALUES ('x')"); },
                  [&order, i](const Status& status) {
                    EXPECT_TRUE(status.ok());
                    order.push_back(i);
                  }});
  }
  gate.set_value();
  ASSERT_TRUE(Committed(queue, [] { return Ok(); }).ok());
  EXPECT_LE(queue.transactions(), 3);
  ASSERT_EQ(order.size(), 100);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST_F(DatabaseTest, AFailedJobLeavesNothingAndTheNextGoesOn) {
  auto database = Database::Open(path_, kNotes).value();
  {
    CommitQueue queue(database);
    const Status failed = Committed(queue, [&]() -> Status {
      LUCID_TRY(database.Execute("INSERT INTO notes VALUES ('lost')"));
      return IoError("no");
    });
    EXPECT_FALSE(failed.ok());
    EXPECT_TRUE(
        Committed(queue, [&] { return database.Execute("INSERT INTO notes VALUES ('x')"); }).ok());
  }
  EXPECT_EQ(CountNotes(database), 1);
}

TEST_F(DatabaseTest, WhatWaitsIsFinishedAtTheEnd) {
  auto database = Database::Open(path_, kNotes).value();
  int finished = 0;
  {
    CommitQueue queue(database);
    for (int i = 0; i < 50; ++i) {
      queue.Submit({[&] { return database.Execute("INSERT INTO notes VALUES ('x')"); },
                    [&](const Status& status) { finished += status.ok() ? 1 : 0; }});
    }
  }
  EXPECT_EQ(finished, 50);
  EXPECT_EQ(CountNotes(database), 50);
}

TEST_F(DatabaseTest, SettledMeansThatNoCallbackIsLeft) {
  auto database = Database::Open(path_, kNotes).value();
  CommitQueue queue(database);
  queue.Settle();  // nothing was submitted
  const auto held = std::make_shared<int>(0);
  for (int i = 0; i < 50; ++i) {
    queue.Submit({[] { return Ok(); }, [held](const Status&) { ++*held; }});
    if (i % 10 == 0) queue.Settle();
  }
  queue.Settle();
  EXPECT_EQ(*held, 50);
  EXPECT_EQ(held.use_count(), 1);
}

// A file-size limit stands for a full disk: it needs no rights. In a child, for the limit stays.
TEST_F(DatabaseTest, AFullDiskIsAnErrorAndFreedSpaceIsUsedAgain) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    auto database = Database::Open(path_, kNotes).value();
    CommitQueue queue(database);
    const auto insert = [&] {
      return Committed(queue, [&] {
        return database.Execute("INSERT INTO notes VALUES ('" + std::string(3000, 'n') + "')");
      });
    };
    struct rlimit limit {};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t all = limit.rlim_cur;
    limit.rlim_cur = 200'000;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::int64_t written = 0;
    Status status = insert();
    for (; status.ok() && written < 1000; status = insert()) ++written;
    if (status.ok() || status.error().kind != ErrorKind::kIo) ::_exit(1);
    if (insert().ok()) ::_exit(2);
    limit.rlim_cur = all;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    if (!insert().ok()) ::_exit(3);
    ::_exit(CountNotes(database) == written + 1 ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The last one who holds the queue is a callback of its own.
TEST(CommitQueue, MayEndOnItsOwnThread) {
  const TemporaryFolder folder;
  for (int round = 0; round < 50; ++round) {
    auto database = Database::Open(folder / "own.db", kNotes).value();
    auto queue = std::make_shared<CommitQueue>(database);
    std::promise<void> ended;
    std::promise<void> released;
    queue->Submit(
        {[] { return Ok(); },
         [held = queue, &ended, released = released.get_future().share()](const Status&) mutable {
           released.wait();
           held.reset();
           ended.set_value();
         }});
    queue.reset();
    released.set_value();
    ended.get_future().wait();
  }
}

}  // namespace
}  // namespace lucid
