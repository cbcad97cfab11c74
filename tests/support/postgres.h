// A PostgreSQL server of the test's own: in a folder that goes with it, behind a Unix socket there.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "support/run_lucid.h"

namespace lucid::test {

class PostgresServer {
 public:
  // `settings`: as "fsync=off". The test fails if it cannot be started.
  explicit PostgresServer(const std::vector<std::string>& settings = {});
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // Why there is none on this machine; empty: there is.
  static std::string Missing();

  // Of a database, where this user may do everything.
  std::string Url(const std::string& database = "postgres") const;
  void Start();
  // SIGINT: in order. SIGQUIT: as if it had crashed, nothing is written any more.
  void Stop(int signal = SIGINT);
  std::string Sql(const std::string& sql, const std::string& database = "postgres") const;
  Outcome TrySql(const std::string& sql, const std::string& database = "postgres") const;
  std::string Dump(const std::string& database = "postgres") const;  // all of it, by pg_dump
  void Restore(const std::string& dump, const std::string& database = "postgres") const;

 private:
  Outcome Run(const std::string& program, const std::vector<std::string>& arguments) const;

  Scratch folder_;
  std::vector<std::string> settings_;
  std::unique_ptr<Process> server_;
};

}  // namespace lucid::test
