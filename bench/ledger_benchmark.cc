// Charges per second: the ledger with 1, 8 and 64 requests under way, beside a bare loop of write
// and fdatasync in the same folder (what one durable step costs here). The balance is checked after
// every case.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <semaphore>
#include <vector>

#include "lucid/guard/ledger.h"

namespace lucid {
namespace {

using Clock = std::chrono::steady_clock;

AnswerName Name(std::uint64_t number) {
  // Spread like the fingerprints of a keyed hash, so that the tree is filled as in earnest.
  AnswerName name{};
  const std::uint64_t words[2] = {number * 0x9e3779b97f4a7c15u, number};
  std::memcpy(name.data(), words, sizeof words);
  return name;
}

double SyncsPerSecond(const std::string& folder, double seconds) {
  const std::string path = folder + "/bare";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  const std::vector<char> page(4096, 'x');
  const auto start = Clock::now();
  std::int64_t count = 0;
  double elapsed = 0;
  while ((elapsed = std::chrono::duration<double>(Clock::now() - start).count()) < seconds) {
    // In place, as SQLite writes its log after the first round.
    if (::pwrite(fd, page.data(), page.size(), 0) != 4096 || ::fdatasync(fd) != 0) return 0;
    ++count;
  }
  ::close(fd);
  return static_cast<double>(count) / elapsed;
}

struct Figures {
  double charges_per_second = 0;
  double p50 = 0, p99 = 0;  // seconds
};

// `under_way` requests of `rows` new answers each at any moment.
Result<Figures> Measure(const std::string& path, int under_way, int rows, double seconds) {
  const LedgerOptions options{.location = path,
                              .population = Sha256Of(fmt::format("{} {}", under_way, rows)),
                              .overall_budget = {},
                              .mark = {}};
  LUCID_TRY(Ledger::Create(options));
  LUCID_ASSIGN(Ledger ledger, Ledger::Open(options));
  const EpsilonUnits cost(1);
  std::counting_semaphore free(under_way);
  std::vector<double> latencies;  // of the ledger's thread alone
  bool failed = false;
  std::uint64_t next = 0;
  const auto start = Clock::now();
  const auto end =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (Clock::now() < end) {
    free.acquire();
    Ledger::Request request{.account = "a", .budget = {}, .cost = cost, .answers = {}};
    for (int i = 0; i < rows; ++i) request.answers.push_back(Name(next++));
    ledger.Charge(std::move(request), [&, begun = Clock::now()](const Ledger::Outcome& outcome) {
      failed = failed || !outcome.ok();
      latencies.push_back(std::chrono::duration<double>(Clock::now() - begun).count());
      free.release();
    });
  }
  for (int i = 0; i < under_way; ++i) free.acquire();
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  if (failed || ledger.BalanceOf("a").answers != static_cast<std::int64_t>(next)) {
    return InternalError("the balance is not what was charged");
  }
  std::ranges::sort(latencies);
  return Figures{static_cast<double>(next) / elapsed, latencies[latencies.size() / 2],
                 latencies[latencies.size() * 99 / 100]};
}

// The cases, each with a ledger of its own: in SQLite, or in the PostgreSQL server at `postgres`.
int Run(const std::string& folder, const std::string& postgres, double seconds, double syncs) {
  fmt::print("{}\n", postgres.empty() ? "SQLite" : "PostgreSQL");
  fmt::print("{:>9}  {:>4}  {:>10}  {:>8}  {:>8}  {:>10}\n", "under way", "rows", "charges/s",
             "p50 ms", "p99 ms", "per sync");
  for (const auto& [under_way, rows] : {std::pair{1, 1}, {8, 1}, {64, 1}, {1, 256}, {64, 256}}) {
    const std::string path = postgres.empty()
                                 ? fmt::format("{}/ledger-{}-{}.db", folder, under_way, rows)
                                 : postgres;
    const auto figures = Measure(path, under_way, rows, seconds);
    if (!figures.ok()) {
      fmt::print(stderr, "ledger_benchmark: {}\n", figures.error().message);
      return 1;
    }
    fmt::print("{:>9}  {:>4}  {:>10.0f}  {:>8.2f}  {:>8.2f}  {:>9.1f}x\n", under_way, rows,
               figures->charges_per_second, 1e3 * figures->p50, 1e3 * figures->p99,
               figures->charges_per_second / syncs);
  }
  return 0;
}

}  // namespace
}  // namespace lucid

int main(int argc, char** argv) {
  CLI::App app("Charges per second of the privacy ledger");
  std::string parent = std::filesystem::temp_directory_path().string();
  std::string postgres;
  double seconds = 3;
  app.add_option("--postgres", postgres, "Measure a ledger there, too: postgresql://...");
  app.add_option("--folder", parent, "On the disk to measure")->capture_default_str();
  app.add_option("--seconds", seconds, "For each case")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::string folder = parent + "/lucid-ledger-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    fmt::print(stderr, "ledger_benchmark: cannot make a folder in '{}'\n", parent);
    return 1;
  }
  const double syncs = lucid::SyncsPerSecond(folder, seconds);
  fmt::print("bare write + fdatasync: {:.0f} per second\n", syncs);
  int code = lucid::Run(folder, "", seconds, syncs);
  if (code == 0 && !postgres.empty()) code = lucid::Run(folder, postgres, seconds, syncs);
  std::filesystem::remove_all(folder);
  return code;
}
