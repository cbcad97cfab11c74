// A connection to a PostgreSQL server: statements with binary parameters, several on one way there
// and back, and never an endless wait.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"

struct pg_conn;
struct pg_result;

namespace lucid {

// Where a server is, as libpq reads it, without a password.
class PostgresAddress {
 public:
  // Errors: it cannot be read, or has a password. No message repeats any of it.
  static Result<PostgresAddress> Parse(const std::string& url);
  const std::string& url() const { return url_; }
  const std::string& name() const { return name_; }  // for messages: 'database' at host:port

 private:
  std::string url_, name_;
};

// A value of a statement: $1, $2, ... Values never become part of its text.
struct PostgresValue {
  unsigned type = 0;  // an OID
  std::string bytes;  // in PostgreSQL's binary format

  static PostgresValue Of(std::int64_t number);
  static PostgresValue Of(std::span<const std::uint8_t> bytes);
  static PostgresValue Of(std::span<const std::int64_t> numbers);
  static PostgresValue Of(std::span<const std::string> blobs);  // bytea[]
  static PostgresValue Of(std::span<const std::array<std::uint8_t, 16>> blobs);
};

struct PostgresQuery {
  const char* sql = "";
  std::vector<PostgresValue> values = {};
};

// What a statement gave.
class PostgresRows {
 public:
  explicit PostgresRows(pg_result* result);
  ~PostgresRows();
  PostgresRows(PostgresRows&& other) noexcept;
  PostgresRows& operator=(PostgresRows&& other) noexcept;

  int count() const;
  std::int64_t affected() const;
  std::string_view command() const;  // "COMMIT"
  bool IsNull(int row, int column) const;
  std::int64_t Whole(int row, int column) const;
  bool Truth(int row, int column) const;
  std::span<const std::uint8_t> Bytes(int row, int column) const;
  std::string_view Text(int row, int column) const;

 private:
  pg_result* result_ = nullptr;
};

// Not thread-safe.
class Postgres {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPatience{10};
  // What connecting to one host may take. An address may name several.
  static constexpr std::chrono::seconds kConnectPatience{5}, kLeastConnectPatience{2};

  // Errors: nothing is there, or it does not answer in time. `patience` counts in whole seconds,
  // from kLeastConnectPatience to kConnectPatience.
  static Result<Postgres> Connect(const PostgresAddress& address,
                                  Clock::duration patience = kConnectPatience);
  ~Postgres();
  Postgres(Postgres&& other) noexcept;
  Postgres& operator=(Postgres&& other) noexcept;

  // Sends all at once and waits for all results, but not longer than `patience`. After the first
  // error the others are not done. Errors name what the server said, in one line.
  Result<std::vector<PostgresRows>> Run(std::span<const PostgresQuery> queries,
                                        Clock::duration patience = kPatience);
  Result<PostgresRows> RunOne(const PostgresQuery& query, Clock::duration patience = kPatience);
  // The connection is gone: connect anew.
  bool lost() const { return lost_; }

 private:
  Postgres(pg_conn* connection, std::string name)
      : connection_(connection), name_(std::move(name)) {}
  Status Send(std::span<const PostgresQuery> queries);
  Result<pg_result*> Next(std::int64_t deadline);
  Error Lose(std::string_view why);

  pg_conn* connection_ = nullptr;
  std::string name_;
  bool lost_ = false;
};

}  // namespace lucid
