#include "support/postgres.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace lucid::test {
namespace {

namespace fs = std::filesystem;

// Debian keeps the server's programs beside each other by version, and not in the PATH.
std::string ProgramsFolder() {
  std::string best;
  std::error_code none;
  for (const auto& version : fs::directory_iterator("/usr/lib/postgresql", none)) {
    const std::string folder = version.path().string() + "/bin";
    if (fs::exists(folder + "/initdb") && folder > best) best = folder;
  }
  if (best.empty() && fs::exists("/usr/bin/initdb")) best = "/usr/bin";
  return best;
}

// What goes before a program's name, which is thereby its own (PostgreSQL looks for itself by it).
// It does not run as root: then it is started as the user that its package made.
std::vector<std::string> AsItsUser() {
  if (::geteuid() != 0) return {"/usr/bin/env"};
  return {"/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"};
}

}  // namespace

std::string PostgresServer::Missing() {
  if (ProgramsFolder().empty()) return "no PostgreSQL here (Debian: apt-get install postgresql)";
  if (::geteuid() == 0 && ::getpwnam("postgres") == nullptr) return "there is no user postgres";
  return "";
}

PostgresServer::PostgresServer(const std::vector<std::string>& settings) : settings_(settings) {
  ::chmod(folder_.path().c_str(), 0755);
  fs::create_directory(folder_ / "data");
  if (const passwd* owner = ::getpwnam("postgres"); ::geteuid() == 0 && owner != nullptr) {
    for (const std::string& path : {folder_.path(), folder_ / "data"}) {
      EXPECT_EQ(::chown(path.c_str(), owner->pw_uid, owner->pw_gid), 0) << path;
    }
  }
  WriteBytes(folder_ / "log", "");
  const Outcome made = Run("initdb", {"-D", folder_ / "data", "-U", "lucid", "-A", "trust", "-E",
                                      "UTF8", "--locale=C", "--no-sync"});
  EXPECT_EQ(made.code, 0) << made;
  Start();
}

PostgresServer::~PostgresServer() {
  if (server_) Stop(SIGQUIT);
}

std::string PostgresServer::Url(const std::string& database) const {
  return "postgresql://lucid@/" + database + "?host=" + folder_.path();
}

Outcome PostgresServer::Run(const std::string& program,
                            const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = AsItsUser();
  command.push_back(ProgramsFolder() + "/" + program);
  command.insert(command.end(), arguments.begin(), arguments.end());
  const std::string first = command.front();
  command.erase(command.begin());
  return RunLucid(command, {.folder = folder_.path(), .program = first});
}

void PostgresServer::Start() {
  std::vector<std::string> command = AsItsUser();
  command.push_back(ProgramsFolder() + "/postgres");
  for (const std::string& word : {std::string("-D"), folder_ / "data"}) command.push_back(word);
  for (const std::string& setting :
       {std::string("listen_addresses="), "unix_socket_directories=" + folder_.path(),
        std::string("shared_buffers=32MB"), std::string("max_connections=40")}) {
    command.insert(command.end(), {"-c", setting});
  }
  for (const std::string& setting : settings_) command.insert(command.end(), {"-c", setting});
  const std::string first = command.front();
  command.erase(command.begin());
  server_ = std::make_unique<Process>(command, RunOptions{.folder = folder_.path(),
                                                          .program = first,
                                                          .stdout_to = "/dev/null",
                                                          .stderr_to = folder_ / "log",
                                                          .timeout = 600});
  const bool ready = WaitFor([&] { return TrySql("SELECT 1").code == 0 || server_->Ended(); }, 60);
  EXPECT_TRUE(ready && !server_->Ended()) << ReadBytes(folder_ / "log");
}

void PostgresServer::Stop(int signal) {
  server_->Signal(signal);
  server_->Wait();
  server_.reset();
}

Outcome PostgresServer::TrySql(const std::string& sql, const std::string& database) const {
  return Run("psql",
             {"-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", Url(database), "-c", sql});
}

std::string PostgresServer::Sql(const std::string& sql, const std::string& database) const {
  const Outcome outcome = TrySql(sql, database);
  EXPECT_EQ(outcome.code, 0) << sql << outcome;
  return outcome.out.substr(0, outcome.out.find_last_not_of('\n') + 1);
}

std::string PostgresServer::Dump(const std::string& database) const {
  const Outcome outcome = Run("pg_dump", {"--inserts", "-d", Url(database)});
  EXPECT_EQ(outcome.code, 0) << outcome;
  return outcome.out;
}

void PostgresServer::Restore(const std::string& dump, const std::string& database) const {
  WriteBytes(folder_ / "dump.sql", dump);
  const Outcome outcome = Run("psql", {"-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", Url(database),
                                       "-f", folder_ / "dump.sql"});
  EXPECT_EQ(outcome.code, 0) << outcome;
}

}  // namespace lucid::test
