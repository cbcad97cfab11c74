#include "guard/postgres.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

namespace lucid {
namespace {

using Clock = Postgres::Clock;

// Types by their numbers in PostgreSQL's catalogue, which never change.
constexpr unsigned kInt8 = 20, kBytea = 17, kInt8Array = 1016, kByteaArray = 1001;

std::int64_t Milliseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

// Big endian, as on the network.
template <typename T>
void Put(std::string& out, T value) {
  for (int shift = 8 * (static_cast<int>(sizeof(T)) - 1); shift >= 0; shift -= 8) {
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> shift & 0xff);
  }
}

// One dimension, no NULL, counted from 1; `put` appends an element.
template <typename Range, typename PutElement>
std::string Array(unsigned element, const Range& range, PutElement put) {
  std::string out;
  Put<std::int32_t>(out, range.empty() ? 0 : 1);
  Put<std::int32_t>(out, 0);
  Put<std::int32_t>(out, static_cast<std::int32_t>(element));
  if (range.empty()) return out;
  Put<std::int32_t>(out, static_cast<std::int32_t>(range.size()));
  Put<std::int32_t>(out, 1);
  for (const auto& value : range) put(out, value);
  return out;
}

void PutBlob(std::string& out, const auto& blob) {
  Put<std::int32_t>(out, static_cast<std::int32_t>(blob.size()));
  out.append(reinterpret_cast<const char*>(blob.data()), blob.size());
}

// The first line of what libpq says, which holds no value of a statement.
std::string OneLine(const char* message) {
  std::string text(message == nullptr ? "" : message);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string ServerSaid(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  if (primary == nullptr) return OneLine(PQresultErrorMessage(result));
  return fmt::format("{} ({})", OneLine(primary), state == nullptr ? "no code" : state);
}

}  // namespace

Result<PostgresAddress> PostgresAddress::Parse(const std::string& url) {
  char* complaint = nullptr;  // repeats the string, password and all
  PQconninfoOption* const options = PQconninfoParse(url.c_str(), &complaint);
  PQfreemem(complaint);
  if (options == nullptr) {
    return InvalidInput(
        "the ledger's address cannot be read: it is postgresql://USER@HOST:PORT/DATABASE, or "
        "postgresql:///DATABASE?host=FOLDER for a socket in that folder");
  }
  std::string host, port = "5432", database;
  bool has_password = false;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    const std::string_view keyword = option->keyword;
    if (keyword == "host" || (keyword == "hostaddr" && host.empty())) host = option->val;
    if (keyword == "port") port = option->val;
    if (keyword == "dbname") database = option->val;
    has_password = has_password || keyword == "password" || keyword == "sslpassword";
  }
  PQconninfoFree(options);
  if (has_password) {
    return InvalidInput(
        "the ledger's address has a password, which everybody on this machine can read in the list "
        "of processes: put it into ~/.pgpass (mode 0600), or name such a file with "
        "?passfile=FILE, and change it");
  }
  PostgresAddress address;
  address.url_ = url;
  address.name_ = fmt::format("the PostgreSQL ledger '{}' at {}:{}", database,
                              host.empty() ? "this machine" : host, port);
  return address;
}

PostgresValue PostgresValue::Of(std::int64_t number) {
  PostgresValue value{kInt8, {}};
  Put(value.bytes, number);
  return value;
}
PostgresValue PostgresValue::Of(std::span<const std::uint8_t> bytes) {
  return {kBytea, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
}
PostgresValue PostgresValue::Of(std::span<const std::int64_t> numbers) {
  return {kInt8Array, Array(kInt8, numbers, [](std::string& out, std::int64_t number) {
            Put<std::int32_t>(out, sizeof(number));
            Put(out, number);
          })};
}
PostgresValue PostgresValue::Of(std::span<const std::string> blobs) {
  return {kByteaArray, Array(kBytea, blobs, [](auto& out, const auto& b) { PutBlob(out, b); })};
}
PostgresValue PostgresValue::Of(std::span<const std::array<std::uint8_t, 16>> blobs) {
  return {kByteaArray, Array(kBytea, blobs, [](auto& out, const auto& b) { PutBlob(out, b); })};
}

PostgresRows::PostgresRows(pg_result* result) : result_(result) {}
PostgresRows::~PostgresRows() { PQclear(result_); }
PostgresRows::PostgresRows(PostgresRows&& other) noexcept
    : result_(std::exchange(other.result_, nullptr)) {}
PostgresRows& PostgresRows::operator=(PostgresRows&& other) noexcept {
  std::swap(result_, other.result_);
  return *this;
}
int PostgresRows::count() const { return PQntuples(result_); }
std::int64_t PostgresRows::affected() const {
  return std::strtoll(PQcmdTuples(result_), nullptr, 10);
}
std::string_view PostgresRows::command() const { return PQcmdStatus(result_); }
bool PostgresRows::IsNull(int row, int column) const {
  return PQgetisnull(result_, row, column) != 0;
}
std::int64_t PostgresRows::Whole(int row, int column) const {
  std::uint64_t value = 0;
  for (const std::uint8_t byte : Bytes(row, column)) value = value << 8 | byte;
  return static_cast<std::int64_t>(value);
}
bool PostgresRows::Truth(int row, int column) const {
  const auto bytes = Bytes(row, column);
  return !bytes.empty() && bytes[0] != 0;
}
std::span<const std::uint8_t> PostgresRows::Bytes(int row, int column) const {
  return {reinterpret_cast<const std::uint8_t*>(PQgetvalue(result_, row, column)),
          static_cast<std::size_t>(PQgetlength(result_, row, column))};
}
std::string_view PostgresRows::Text(int row, int column) const {
  const auto bytes = Bytes(row, column);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Postgres::~Postgres() { PQfinish(connection_); }
Postgres::Postgres(Postgres&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)),
      name_(std::move(other.name_)),
      lost_(other.lost_) {}
Postgres& Postgres::operator=(Postgres&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(name_, other.name_);
  std::swap(lost_, other.lost_);
  return *this;
}

Result<Postgres> Postgres::Connect(const PostgresAddress& address, Clock::duration patience) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const std::string seconds =
      std::to_string(std::clamp(whole, kLeastConnectPatience, kConnectPatience).count());
  // What the address says counts more: a later value replaces an earlier one.
  const char* const names[] = {"connect_timeout",
                               "keepalives_idle",
                               "keepalives_count",
                               "tcp_user_timeout",
                               "dbname",
                               "fallback_application_name",
                               nullptr};
  const char* const values[] = {seconds.c_str(),       "5",     "3",    "10000",
                                address.url().c_str(), "lucid", nullptr};
  Postgres postgres(PQconnectdbParams(names, values, /*expand_dbname=*/1), address.name());
  if (postgres.connection_ == nullptr) return IoError("out of memory");
  PQsetNoticeProcessor(
      postgres.connection_, [](void*, const char*) {}, nullptr);
  if (PQstatus(postgres.connection_) != CONNECTION_OK) {
    return IoError(fmt::format("cannot reach {}: {}", address.name(),
                               OneLine(PQerrorMessage(postgres.connection_))));
  }
  if (PQsetnonblocking(postgres.connection_, 1) != 0) return postgres.Lose("it cannot be polled");
  return postgres;
}

Error Postgres::Lose(std::string_view why) {
  lost_ = true;
  PQfinish(std::exchange(connection_, nullptr));
  return IoError(fmt::format("the connection to {} is lost: {}", name_, why));
}

Status Postgres::Send(std::span<const PostgresQuery> queries) {
  if (PQenterPipelineMode(connection_) != 1) return Lose(OneLine(PQerrorMessage(connection_)));
  for (const PostgresQuery& query : queries) {
    std::vector<unsigned> types;
    std::vector<const char*> values;
    std::vector<int> lengths;
    for (const PostgresValue& value : query.values) {
      types.push_back(value.type);
      values.push_back(value.bytes.data());
      lengths.push_back(static_cast<int>(value.bytes.size()));
    }
    const std::vector<int> binary(query.values.size(), 1);
    if (PQsendQueryParams(connection_, query.sql, static_cast<int>(types.size()), types.data(),
                          values.data(), lengths.data(), binary.data(), /*resultFormat=*/1) != 1) {
      return Lose(OneLine(PQerrorMessage(connection_)));
    }
  }
  if (PQpipelineSync(connection_) != 1) return Lose(OneLine(PQerrorMessage(connection_)));
  return Ok();
}

// The next result, or null between those of two statements.
Result<pg_result*> Postgres::Next(std::int64_t deadline) {
  while (true) {
    const int unsent = PQflush(connection_);
    if (unsent < 0) return Lose(OneLine(PQerrorMessage(connection_)));
    if (PQisBusy(connection_) == 0) return PQgetResult(connection_);
    const std::int64_t left = deadline - Milliseconds(Clock::now());
    if (left <= 0) return Lose("there was no answer in time");
    pollfd waiting{PQsocket(connection_),
                   static_cast<short>(unsent == 0 ? POLLIN : POLLIN | POLLOUT), 0};
    ::poll(&waiting, 1, static_cast<int>(left));
    if ((waiting.revents & ~POLLOUT) != 0 && PQconsumeInput(connection_) != 1) {
      return Lose(OneLine(PQerrorMessage(connection_)));
    }
  }
}

Result<std::vector<PostgresRows>> Postgres::Run(std::span<const PostgresQuery> queries,
                                                Clock::duration patience) {
  if (lost_) return IoError(fmt::format("the connection to {} is lost", name_));
  LUCID_TRY(Send(queries));
  const std::int64_t deadline = Milliseconds(Clock::now() + patience);
  std::vector<PostgresRows> all;
  std::optional<Error> failure;
  for (bool synced = false; !synced;) {
    LUCID_ASSIGN(pg_result* const result, Next(deadline));
    if (result == nullptr) {
      if (PQstatus(connection_) != CONNECTION_OK) return Lose(OneLine(PQerrorMessage(connection_)));
      continue;
    }
    PostgresRows rows(result);
    switch (PQresultStatus(result)) {
      case PGRES_PIPELINE_SYNC:
        synced = true;
        break;
      case PGRES_TUPLES_OK:
      case PGRES_COMMAND_OK:
        all.push_back(std::move(rows));
        break;
      case PGRES_PIPELINE_ABORTED:
        break;
      default:
        if (!failure) failure = IoError(fmt::format("{}: {}", name_, ServerSaid(result)));
        if (PQstatus(connection_) != CONNECTION_OK) return Lose(ServerSaid(result));
    }
  }
  if (PQexitPipelineMode(connection_) != 1) return Lose(OneLine(PQerrorMessage(connection_)));
  if (failure) return *failure;
  if (all.size() != queries.size()) return Lose("a statement gave no result");
  return all;
}

Result<PostgresRows> Postgres::RunOne(const PostgresQuery& query, Clock::duration patience) {
  LUCID_ASSIGN(std::vector<PostgresRows> all, Run({&query, 1}, patience));
  return std::move(all.front());
}

}  // namespace lucid
