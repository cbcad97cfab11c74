// Killed at any moment, resumed, and the same bytes: kill -9 at random times, Ctrl-C, SIGTERM, two
// processes on one run, and the memory a large run takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "ensemble/run_spec.h"
#include "lucid/data/synthetic.h"
#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// Printed, and taken from LUCID_TEST_SEED to see a failure again.
std::mt19937_64 SeededGenerator() {
  const char* wanted = std::getenv("LUCID_TEST_SEED");
  const std::uint64_t seed =
      wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : std::random_device()();
  std::printf("LUCID_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return std::mt19937_64(seed);
}

double Uniform(std::mt19937_64& generator, double high) {
  return std::uniform_real_distribution<double>(0, high)(generator);
}

class Kill : public CommandTest {
 protected:
  static constexpr int kRows = 300, kThreads = 2;

  Kill() {
    EXPECT_EQ(Run("data synth2d --rows 300 --out p").code, 0);
    const Outcome whole = Run(train_ + "whole");
    EXPECT_EQ(whole.code, 0) << whole;
    seconds_ = whole.seconds;
    const std::string set = whole.Json().value("instruction_set", "");
    lanes_ = set == "avx512" ? 16 : set == "avx2" ? 8 : 4;
    std::printf("an uninterrupted run takes %.2f s\n", seconds_);
  }

  std::string In(const std::string& run, const std::string& file) {
    return folder_ / (run + "/" + file);
  }
  void ExpectSameAsWhole(const std::string& run) {
    EXPECT_TRUE(ReadBytes(In(run, kEnsembleFile)) == ReadBytes(In("whole", kEnsembleFile))) << run;
    EXPECT_EQ(ReadJson(In(run, kManifestFile))["hashes"],
              ReadJson(In("whole", kManifestFile))["hashes"]);
    const auto opened = Ensemble::Open(folder_ / run);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
  }
  // Networks of an unfinished run that are there, and those that are half written.
  struct Found {
    std::int64_t whole = 0, torn = 0;
  };
  Found Count(const std::string& run) {
    Found found;
    const auto manifest = ParseManifest(ReadBytes(In("whole", kManifestFile)), "whole");
    const StoreSpec spec{manifest->architecture, manifest->run_key,
                         BlankedNetworkRows(manifest->rows, manifest->members),
                         manifest->order_digest};
    const std::string path = In(run, kEnsembleFile);
    if (!fs::exists(path) && !fs::exists(path + ".partial")) return found;
    const auto store = Store::Open(fs::exists(path) ? path : path + ".partial", spec, false);
    EXPECT_TRUE(store.ok()) << store.error().message;
    if (!store.ok()) return found;
    std::vector<float> parameters(static_cast<std::size_t>(spec.architecture.parameters()));
    const std::string bytes = ReadBytes(fs::exists(path) ? path : path + ".partial");
    const StoreLayout layout(spec);
    for (std::int64_t i = 0; i < store->networks(); ++i) {
      const bool whole = store->Read(i, parameters).value();
      const float* first = reinterpret_cast<const float*>(bytes.data() + layout.ParameterAt(0, i));
      found.whole += whole;
      found.torn += !whole && *first != 0;
    }
    return found;
  }

  const std::string train_ =
      "train --data p --arch 2x50 --epochs 60 --batch 100 --threads 2 --json --out ";
  double seconds_ = 0;
  int lanes_ = 16;
};

TEST_F(Kill, AtAnyMomentAndResumedEndsWithTheSameBytes) {
  std::mt19937_64 generator = SeededGenerator();
  int kills = 0;
  for (int run = 0; run < 4; ++run) {
    const std::string name = "run" + std::to_string(run);
    const std::string command = train_ + name + " --resume";
    // The first run is killed before it has done anything, again and again.
    const double longest = run == 0 ? 0.01 : 0.35 * seconds_;
    for (int kill = 0; kill < (run == 0 ? 6 : 4); ++kill) {
      Process process(Words(command), {.folder = folder_.path()});
      SleepSeconds(Uniform(generator, longest));
      const Found before = Count(name);  // while it works
      process.Signal(SIGKILL);
      const Outcome outcome = process.Wait();
      kills += outcome.signal == SIGKILL;
      const Found after = Count(name);
      EXPECT_GE(after.whole, before.whole) << "what is on disk stays";
      EXPECT_LE(after.torn, kThreads) << "every thread writes one network at a time";
      EXPECT_TRUE(fs::exists(In(name, kEnsembleFile)) || !fs::exists(In(name, kManifestFile)))
          << "a manifest only beside a finished store";
    }
    const Found found = Count(name);
    const Outcome last = Run(command);
    ASSERT_EQ(last.code, 0) << last;
    EXPECT_EQ(last.Json()["trained_now"], kRows + 1 - found.whole) << "nothing is trained twice";
    ExpectSameAsWhole(name);
  }
  EXPECT_GE(kills, 12);
}

// The last steps (own file for N, the store's name, the manifest) take milliseconds: a run that has
// all its networks is killed there at delays that sweep over them.
TEST_F(Kill, WhileFinishingLosesNothing) {
  constexpr int kSteps = 40;
  fs::copy(folder_ / "whole", folder_ / "run");
  double needed = 0;
  int kills = 0;
  for (int step = -1; step < kSteps; ++step) {
    fs::remove(In("run", kManifestFile));
    if (step % 2 == 0 && fs::exists(In("run", kEnsembleFile))) {
      fs::rename(In("run", kEnsembleFile), In("run", std::string(kEnsembleFile) + ".partial"));
    }
    Process process(Words(train_ + "run --resume"), {.folder = folder_.path()});
    if (step < 0) {  // how long it takes
      needed = process.Wait().seconds;
      continue;
    }
    SleepSeconds(1.1 * needed * step / kSteps);
    process.Signal(SIGKILL);
    kills += process.Wait().signal == SIGKILL;
    EXPECT_EQ(Count("run").whole, kRows + 1);
    if (fs::exists(In("run", kManifestFile))) ExpectSameAsWhole("run");
  }
  std::printf("finishing takes %.3f s, %d of %d killed before its end\n", needed, kills, kSteps);
  EXPECT_GE(kills, 3);
  const Outcome last = Run(train_ + "run --resume");
  ASSERT_EQ(last.code, 0) << last;
  EXPECT_EQ(last.Json()["trained_now"], 0);
  ExpectSameAsWhole("run");
}

// A network that was reported as done is on disk; one in flight may be. So a kill loses at most
// threads * lanes networks. (In this process, because the program does not report that often.)
TEST_F(Kill, LosesAtMostTheNetworksInFlight) {
  std::mt19937_64 generator = SeededGenerator();
  const auto dataset = LoadDataset(folder_ / "p");
  ASSERT_TRUE(dataset.ok());
  const auto net = Architecture::FromName("2x50", 2, 2).value();
  EnsembleOptions options;
  options.train.epochs = 60;
  options.train.batch = 100;
  options.threads = kThreads;
  options.resume = true;
  std::int64_t before = 0;  // a child may be killed before it says what it found
  for (int kill = 0; kill < 4; ++kill) {
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto report = [&](const Progress& p) {
        if (p.what == "training" && ::write(fds[1], &p.done, sizeof(p.done)) < 0) ::_exit(1);
      };
      (void)TrainEnsemble(*dataset, net, options, folder_ / "run", report).ok();
      ::_exit(0);
    }
    ::close(fds[1]);
    SleepSeconds(Uniform(generator, 0.2 * seconds_));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::int64_t done = before, next = 0;
    while (::read(fds[0], &next, sizeof(next)) == sizeof(next)) done = next;
    ::close(fds[0]);
    const Found found = Count("run");
    EXPECT_GE(found.whole, done);
    EXPECT_LE(found.whole, done + kThreads * lanes_);
    before = found.whole;
  }
  ASSERT_EQ(Run(train_ + "run --resume").code, 0);
  ExpectSameAsWhole("run");
}

TEST_F(Kill, TermAndInterruptStopWithAResumableState) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string name = "signal" + std::to_string(signal);
    Process process(Words(train_ + name), {.folder = folder_.path()});
    ASSERT_TRUE(WaitFor([&] { return Count(name).whole > 0 || process.Ended(); }, 60));
    process.Signal(signal);
    const double asked = Now();
    const Outcome outcome = process.Wait();
    EXPECT_LT(Now() - asked, 5) << "stops between batches";
    EXPECT_EQ(outcome.code, 3) << outcome;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("--resume"));
    EXPECT_FALSE(fs::exists(In(name, kManifestFile)));

    const Outcome without = Run(train_ + name);
    EXPECT_EQ(without.code, 2) << "never started over without being told";
    EXPECT_THAT(without.err, HasSubstr("--resume"));
    const Outcome resumed = Run(train_ + name + " --resume");
    EXPECT_EQ(resumed.code, 0) << resumed;
    EXPECT_LE(resumed.Json()["trained_now"], kRows);
    ExpectSameAsWhole(name);
  }
}

TEST_F(Kill, ASecondProcessIsRefusedAndTheFirstUnharmed) {
  Process first(Words(train_ + "run"), {.folder = folder_.path()});
  ASSERT_TRUE(WaitFor([&] { return fs::exists(In("run", "ensemble.safetensors.partial")); }, 60));
  first.Signal(SIGSTOP);  // it must not end before the others have begun
  const Outcome resume = Run(train_ + "run --resume");
  EXPECT_EQ(resume.code, 2) << resume;
  EXPECT_THAT(resume.err, HasSubstr("in use by another process"));
  const Outcome plain = Run(train_ + "run");
  EXPECT_EQ(plain.code, 2) << plain;
  first.Signal(SIGCONT);
  EXPECT_EQ(first.Wait().code, 0);
  ExpectSameAsWhole("run");
}

// Started at the same moment, both find an empty folder. One of them does the work.
TEST_F(Kill, OfTwoProcessesStartedAtOnceOneIsRefused) {
  for (int round = 0; round < 8; ++round) {
    const std::string name = "race" + std::to_string(round);
    const std::string command =
        "train --data p --arch 2x50 --epochs 1 --batch 100 --threads 1 --json --out " + name;
    Process a(Words(command), {.folder = folder_.path()});
    Process b(Words(command), {.folder = folder_.path()});
    const Outcome first = a.Wait(), second = b.Wait();
    EXPECT_TRUE((first.code == 0 && second.code == 2) || (first.code == 2 && second.code == 0))
        << first << "\n"
        << second;
    const auto opened = Ensemble::Open(folder_ / name);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    if (round == 0) continue;
    EXPECT_TRUE(ReadBytes(In(name, kEnsembleFile)) == ReadBytes(In("race0", kEnsembleFile)));
  }
}

TEST(Memory, StaysBelow300MegabytesForALargerStore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need memory of their own";
#endif
  const Scratch folder;
  const RunOptions here = {.folder = folder.path()};
  ASSERT_EQ(RunLucid(Words("data synth2d --rows 1000 --out p"), here).code, 0);
  const Outcome outcome =
      RunLucid(Words("train --data p --arch 2x300 --epochs 1 --json --out run"), here);
  ASSERT_EQ(outcome.code, 0) << outcome;
  const auto size = static_cast<double>(fs::file_size(folder / "run/ensemble.safetensors"));
  std::printf("%.0f MB on disk, %.0f MB resident, %.1f s\n", size / 1e6, outcome.peak_megabytes,
              outcome.seconds);
  EXPECT_GT(size, 350e6);
  EXPECT_LT(outcome.peak_megabytes, 300);
}

}  // namespace
}  // namespace lucid::test
