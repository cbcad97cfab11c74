// Disks that are full or may not be written to: a clear error, nothing that looks finished and is
// not, and the run goes on when there is space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "lucid/ensemble/ensemble.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

// A small file system of its own, seen by this process and its children only.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& folder) : folder_(folder) {
    fs::create_directories(folder_);
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=64k") != 0) {
      problem_ = std::strerror(errno);
    }
  }
  ~SmallDisk() {
    if (problem_.empty()) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  const std::string& problem() const { return problem_; }
  void Resize(const std::string& size) {
    EXPECT_EQ(::mount("tmpfs", folder_.c_str(), "tmpfs", MS_REMOUNT, ("size=" + size).c_str()), 0);
  }
  void MakeReadOnly() {
    EXPECT_EQ(::mount("tmpfs", folder_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=64k"), 0);
  }

 private:
  std::string folder_, problem_;
};

class Space : public testing::Test {
 protected:
  Space() {
    EXPECT_EQ(Run("data synth2d --rows 100 --out p").code, 0);
    EXPECT_EQ(Run(train_ + "whole").code, 0);
  }
  Outcome Run(const std::string& arguments, RunOptions options = {}) {
    options.folder = folder_.path();
    return RunLucid(Words(arguments), options);
  }
  void ExpectSameAsWhole(const std::string& run) {
    EXPECT_TRUE(ReadBytes(folder_ / (run + "/ensemble.safetensors")) ==
                ReadBytes(folder_ / "whole/ensemble.safetensors"));
    EXPECT_TRUE(Ensemble::Open(folder_ / run).ok());
  }
  void ExpectNothingThatLooksFinished(const std::string& run) {
    for (const char* file : {kManifestFile, kEnsembleFile}) {
      EXPECT_FALSE(fs::exists(folder_ / (run + "/" + file))) << file;
    }
    EXPECT_FALSE(Ensemble::Open(folder_ / run).ok());
  }
  Scratch folder_;
  const std::string train_ = "train --data p --arch 2x50 --epochs 20 --batch 20 --json --out ";
};

TEST_F(Space, AFullDiskIsKnownAtTheStart) {
  SmallDisk disk(folder_ / "disk");
  if (!disk.problem().empty()) GTEST_SKIP() << "cannot mount a tmpfs here: " << disk.problem();
  const Outcome full = Run(train_ + "disk/run");
  EXPECT_EQ(full.code, 2) << full;
  EXPECT_THAT(full.err, HasSubstr("No space left on device"));
  EXPECT_THAT(full.err, HasSubstr("disk/run/ensemble.safetensors"));
  ExpectNothingThatLooksFinished("disk/run");
  EXPECT_TRUE(fs::is_empty(folder_ / "disk/run"));
  disk.Resize("16m");
  const Outcome resumed = Run(train_ + "disk/run --resume");
  EXPECT_EQ(resumed.code, 0) << resumed;
  ExpectSameAsWhole("disk/run");
}

TEST_F(Space, ADiskThatFillsUpMeanwhileKeepsWhatWasTrained) {
  SmallDisk disk(folder_ / "disk");
  if (!disk.problem().empty()) GTEST_SKIP() << "cannot mount a tmpfs here: " << disk.problem();
  disk.Resize("16m");
  Process process(Words(train_ + "disk/run"), {.folder = folder_.path()});
  const std::string partial = folder_ / "disk/run/ensemble.safetensors.partial";
  ASSERT_TRUE(WaitFor([&] { return fs::exists(partial); }, 60));
  process.Signal(SIGSTOP);
  {
    std::ofstream filler(folder_ / "disk/filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  process.Signal(SIGCONT);
  const Outcome full = process.Wait();
  EXPECT_EQ(full.code, 2) << full;
  EXPECT_THAT(full.err, HasSubstr("No space left on device"));
  EXPECT_THAT(full.err, HasSubstr("--resume"));
  EXPECT_FALSE(Ensemble::Open(folder_ / "disk/run").ok());
  fs::remove(folder_ / "disk/filler");
  const Outcome resumed = Run(train_ + "disk/run --resume");
  EXPECT_EQ(resumed.code, 0) << resumed;
  EXPECT_EQ(resumed.Json()["trained_now"], 0) << "its place was reserved, so it was kept";
  ExpectSameAsWhole("disk/run");
}

TEST_F(Space, AFileSizeLimitIsAClearErrorNotADeath) {
  for (const std::uint64_t limit : {1u << 10, 1u << 16, 1u << 20}) {
    const Outcome limited = Run(train_ + "run", {.file_size_limit = limit});
    EXPECT_EQ(limited.code, 2) << limited;
    EXPECT_THAT(limited.err, HasSubstr("File too large"));
    EXPECT_THAT(limited.err, HasSubstr("ulimit"));
    ExpectNothingThatLooksFinished("run");
  }
  const Outcome resumed = Run(train_ + "run --resume");
  EXPECT_EQ(resumed.code, 0) << resumed;
  ExpectSameAsWhole("run");
}

TEST_F(Space, AReadOnlyFolderIsAClearError) {
  const std::string place = folder_ / "place";
  SmallDisk disk(place);
  if (disk.problem().empty()) {
    disk.MakeReadOnly();
  } else {
    ASSERT_EQ(::chmod(place.c_str(), 0555), 0);
    if (::access(place.c_str(), W_OK) == 0) GTEST_SKIP() << "this user may write everywhere";
  }
  for (const char* command :
       {"train --data p --epochs 1 --out place/run", "demo --out place/demo",
        "data synth2d --rows 9 --out place/p", "data encode p --out place/p.npz"}) {
    const Outcome outcome = Run(command);
    EXPECT_EQ(outcome.code, 2) << command << "\n" << outcome;
    EXPECT_THAT(outcome.err,
                AnyOf(HasSubstr("Read-only file system"), HasSubstr("Permission denied")))
        << command;
    EXPECT_THAT(outcome.err, HasSubstr("place"));
  }
}

TEST_F(Space, APathThatCannotBeAFolderIsAClearError) {
  WriteBytes(folder_ / "file", "x");
  for (const char* out : {"file", "file/run", "/proc/lucid"}) {
    const Outcome outcome = Run(train_ + out);
    EXPECT_EQ(outcome.code, 2) << outcome;
    EXPECT_THAT(outcome.err, HasSubstr(out));
  }
  EXPECT_EQ(ReadBytes(folder_ / "file"), "x");
}

}  // namespace
}  // namespace lucid::test
