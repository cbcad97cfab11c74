#include "guard/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

namespace lucid {
namespace {

// Always kIo: to whoever asked for a charge or a draw, none of these is a fault of the request.
Error Explain(sqlite3* handle, const std::string& path) {
  const int code = sqlite3_extended_errcode(handle);
  const std::string_view message = sqlite3_errmsg(handle);
  const int system = sqlite3_system_errno(handle);
  const std::string detail = system != 0 ? std::strerror(system) : std::string(message);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return IoError(
          fmt::format("'{}' is in use by another process; wait for it or stop it", path));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return IoError(fmt::format(
          "cannot write '{}' and the files SQLite keeps beside it: {}; choose a folder you may "
          "write to, or change its permissions",
          path, detail));
    case SQLITE_FULL:
      return IoError(fmt::format("cannot write '{}': no space left; free some", path));
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return IoError(fmt::format("'{}' is damaged, or not a database: {}", path, message));
    default:
      return IoError(
          fmt::format("cannot use '{}': {} ({}, SQLite code {})", path, message, detail, code));
  }
}

// SQLite gives a new file the mode 0644; what is in ours concerns its owner only. The files beside
// it get the mode of the first.
Status PrepareFile(const std::string& path, const DatabaseFormat& format, FileMode mode) {
  if (mode == FileMode::kThere) {
    if (::access(path.c_str(), F_OK) == 0 || errno != ENOENT) return Ok();
    return InvalidInput(fmt::format("there is no {} '{}'{}", format.kind, path, format.how));
  }
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) {
    ::close(fd);
    return Ok();
  }
  if (errno == EEXIST) return Ok();
  return IoError(fmt::format("cannot create '{}': {}", path, std::strerror(errno)));
}

Result<std::int64_t> OneNumber(Database& database, std::string_view sql) {
  LUCID_ASSIGN(Statement statement, database.Prepare(sql));
  LUCID_ASSIGN(const bool row, statement.Step());
  return row ? statement.Whole(0) : 0;
}

Result<std::string> OneText(Database& database, std::string_view sql) {
  LUCID_ASSIGN(Statement statement, database.Prepare(sql));
  LUCID_ASSIGN(const bool row, statement.Step());
  return row ? std::string(statement.Text(0)) : std::string();
}

// Looks at the file before anything is written, so that a file of somebody else stays as it is.
// True: the file is new.
Result<bool> CheckIdentity(Database& database, const DatabaseFormat& format) {
  LUCID_ASSIGN(const std::int64_t application, OneNumber(database, "PRAGMA application_id"));
  LUCID_ASSIGN(const std::int64_t version, OneNumber(database, "PRAGMA user_version"));
  LUCID_ASSIGN(const std::int64_t tables,
               OneNumber(database, "SELECT count(*) FROM sqlite_master"));
  if (application == 0 && version == 0 && tables == 0) return true;
  if (application != format.application) {
    return InvalidInput(
        fmt::format("'{}' is a database, but not a LUCID {}", database.path(), format.kind));
  }
  const bool can_upgrade = version == format.version - 1 && !format.upgrade.empty();
  if (version != format.version && !can_upgrade) {
    return InvalidInput(fmt::format("'{}' is a LUCID {} of version {}; this program knows {}",
                                    database.path(), format.kind, version, format.version));
  }
  return false;
}

Status CheckMode(const Database& database, const DatabaseFormat& format, FileMode mode,
                 bool is_new) {
  if (mode == FileMode::kNew && !is_new) {
    return InvalidInput(fmt::format("there is a {} '{}' already", format.kind, database.path()));
  }
  if (mode == FileMode::kThere && is_new) {
    return InvalidInput(fmt::format("'{}' is empty: it is no {}", database.path(), format.kind));
  }
  return Ok();
}

Status CheckSound(Database& database) {
  LUCID_ASSIGN(std::string problem, OneText(database, "PRAGMA quick_check(1)"));
  if (problem == "ok") return Ok();
  std::ranges::replace(problem, '\n', ' ');
  return InvalidInput(fmt::format("'{}' is damaged: {}", database.path(), problem));
}

}  // namespace

Statement::~Statement() { sqlite3_finalize(statement_); }
Statement::Statement(Statement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)), path_(other.path_) {}
Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(statement_, other.statement_);
  std::swap(path_, other.path_);
  return *this;
}

Statement& Statement::Bind(int at, std::int64_t value) {
  sqlite3_bind_int64(statement_, at, value);
  return *this;
}
Statement& Statement::Bind(int at, std::span<const std::uint8_t> bytes) {
  const void* data = bytes.empty() ? "" : static_cast<const void*>(bytes.data());  // null is NULL
  sqlite3_bind_blob64(statement_, at, data, bytes.size(), SQLITE_STATIC);
  return *this;
}
Statement& Statement::Bind(int at, std::string_view text) {
  const char* data = text.empty() ? "" : text.data();  // null is NULL
  sqlite3_bind_text64(statement_, at, data, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

Result<bool> Statement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return Explain(sqlite3_db_handle(statement_), *path_);
}
std::int64_t Statement::Whole(int column) const { return sqlite3_column_int64(statement_, column); }
std::span<const std::uint8_t> Statement::Bytes(int column) const {
  const auto* data = static_cast<const std::uint8_t*>(sqlite3_column_blob(statement_, column));
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}
std::string_view Statement::Text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}
void Statement::Reset() { sqlite3_reset(statement_); }
Status Statement::Run() {
  const Result<bool> row = Step();
  Reset();
  return row.ok() ? Ok() : Status(row.error());
}

Database::Database(sqlite3* handle, std::string path)
    : handle_(handle), path_(std::make_unique<const std::string>(std::move(path))) {}
Database::~Database() { sqlite3_close_v2(handle_); }
Database::Database(Database&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}
Database& Database::operator=(Database&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  return *this;
}

Result<Database> Database::Open(const std::string& path, const DatabaseFormat& format,
                                FileMode mode) {
  LUCID_TRY(PrepareFile(path, format, mode));
  // An absolute path: SQLite gives names like ":memory:" a meaning.
  std::error_code code;
  const std::string absolute = std::filesystem::absolute(path, code).string();
  if (code) return IoError(fmt::format("cannot open '{}': {}", path, code.message()));
  sqlite3* handle = nullptr;
  const int opened = sqlite3_open_v2(absolute.c_str(), &handle,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(handle, path);
  if (opened != SQLITE_OK) return Explain(handle, path);
  sqlite3_extended_result_codes(handle, 1);
  if (sqlite3_db_readonly(handle, "main") != 0) {
    return IoError(fmt::format("cannot write '{}': it is read-only", path));
  }
  LUCID_TRY(database.Execute("PRAGMA locking_mode = EXCLUSIVE"));
  LUCID_ASSIGN(const bool is_new, CheckIdentity(database, format));
  LUCID_TRY(CheckMode(database, format, mode, is_new));
  LUCID_ASSIGN(const std::string log, OneText(database, "PRAGMA journal_mode = WAL"));
  if (log != "wal") {
    return IoError(fmt::format("cannot keep a write-ahead log beside '{}': mode '{}'", path, log));
  }
  LUCID_TRY(database.Execute("PRAGMA synchronous = FULL"));
  // Taken now, not with the first charge: a second server must not even start.
  LUCID_TRY(database.Execute("BEGIN EXCLUSIVE"));
  LUCID_ASSIGN(const std::int64_t version, OneNumber(database, "PRAGMA user_version"));
  if (is_new || version != format.version) {
    LUCID_TRY(database.Execute(std::string(is_new ? format.schema : format.upgrade)));
    LUCID_TRY(database.Execute(fmt::format("PRAGMA application_id = {}", format.application)));
    LUCID_TRY(database.Execute(fmt::format("PRAGMA user_version = {}", format.version)));
  }
  LUCID_TRY(database.Execute("COMMIT"));
  LUCID_TRY(CheckSound(database));
  return database;
}

Result<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return Explain(handle_, *path_);
  return Statement(statement, path_.get());
}

Status Database::Execute(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return Ok();
  return Explain(handle_, *path_);
}

void Database::RollBack() {
  // Some errors have rolled back already; a second time would only be another error.
  if (sqlite3_get_autocommit(handle_) != 0) return;
  sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
}

std::int64_t Database::Changes() const { return sqlite3_changes(handle_); }

CommitQueue::CommitQueue(Database& database)
    : CommitQueue([&database](std::span<const Job> jobs) {
        Status status = database.Execute("BEGIN IMMEDIATE");
        for (const Job& job : jobs) {
          if (status.ok()) status = job.work();
        }
        if (status.ok()) status = database.Execute("COMMIT");
        if (!status.ok()) database.RollBack();
        return status;
      }) {}

CommitQueue::CommitQueue(Commit commit)
    : core_(std::make_shared<Core>(std::move(commit))), thread_([core = core_] { core->Run(); }) {}

CommitQueue::~CommitQueue() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->ending = true;
  }
  core_->wake.notify_one();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void CommitQueue::Submit(Job job) {
  const std::shared_ptr<Core> core = core_;  // the job may end before this does, and us with it
  {
    const std::lock_guard lock(core->mutex);
    core->waiting.push_back(std::move(job));
  }
  core->wake.notify_one();
}

void CommitQueue::Settle() {
  std::unique_lock lock(core_->mutex);
  core_->settled.wait(lock, [this] { return core_->waiting.empty() && !core_->working; });
}

std::int64_t CommitQueue::transactions() const {
  const std::lock_guard lock(core_->mutex);
  return core_->transactions;
}

// Those that came first, up to the weight of one transaction.
std::vector<CommitQueue::Job> CommitQueue::Core::TakeSome() {
  std::size_t count = 0, weight = 0;
  while (count < waiting.size() && (count == 0 || weight + waiting[count].weight <= kMostAtOnce)) {
    weight += waiting[count++].weight;
  }
  if (count == waiting.size()) return std::exchange(waiting, {});
  const auto end = waiting.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<Job> jobs(std::move_iterator(waiting.begin()), std::move_iterator(end));
  waiting.erase(waiting.begin(), end);
  return jobs;
}

void CommitQueue::Core::Run() {
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [this] { return ending || !waiting.empty(); });
    if (waiting.empty()) return;
    std::vector<Job> jobs = TakeSome();
    ++transactions;
    working = true;
    lock.unlock();
    const Status committed = commit(jobs);
    for (const Job& job : jobs) job.done(committed);
    jobs.clear();  // what the callbacks hold is let go before the next wait
    lock.lock();
    working = false;
    settled.notify_all();
  }
}

}  // namespace lucid
