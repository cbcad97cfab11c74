#include "lucid/data/npz.h"

#include <zip.h>

#include <cstdlib>
#include <cstring>

#include "data/test_support.h"

namespace lucid {
namespace {

Dataset Tiny() {
  Dataset dataset;
  dataset.train.features = dataset.test.features = 2;
  dataset.train.x = {0, 0.5f, 1, 0.25f, 0.125f, 1};
  dataset.train.y = {0, 2, 1};
  return dataset;
}

// One member of a zip file, by libzip and not by the writer's code.
std::string Member(const std::string& path, const char* name) {
  zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, nullptr);
  if (archive == nullptr) return "(cannot open)";
  zip_stat_t info;
  zip_stat(archive, name, 0, &info);
  std::string content(info.size, '\0');
  zip_file_t* file = zip_fopen(archive, name, 0);
  zip_fread(file, content.data(), content.size());
  zip_fclose(file);
  zip_close(archive);
  return content;
}

TEST(Npz, MembersAreNpyArraysOfTheStatedTypeAndShape) {
  const std::string path = ScratchFolder() + "/f.npz";
  ASSERT_TRUE(WriteNpz(Tiny(), path).ok());
  const std::string x = Member(path, "train_x.npy");
  ASSERT_EQ(x.size() % 4, 0u);
  EXPECT_EQ(x.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t data =
      10 + static_cast<unsigned char>(x[8]) + 256u * static_cast<unsigned char>(x[9]);
  EXPECT_EQ(data % 64, 0u) << "numpy asks for aligned data";
  EXPECT_EQ(x[data - 1], '\n');
  EXPECT_THAT(x.substr(10, data - 10),
              testing::StartsWith("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"));
  float values[6];
  ASSERT_EQ(x.size() - data, sizeof(values));
  std::memcpy(values, x.data() + data, sizeof(values));
  EXPECT_THAT(values, testing::ElementsAre(0, 0.5f, 1, 0.25f, 0.125f, 1));

  const std::string y = Member(path, "train_y.npy");
  EXPECT_THAT(y, testing::HasSubstr("'descr': '<i8', 'fortran_order': False, 'shape': (3,), }"));
  std::int64_t labels[3];
  std::memcpy(labels, y.data() + y.size() - sizeof(labels), sizeof(labels));
  EXPECT_THAT(labels, testing::ElementsAre(0, 2, 1));
  EXPECT_THAT(Member(path, "test_x.npy"), testing::HasSubstr("'shape': (0, 2), }"));
}

TEST(Npz, EqualDataGivesEqualBytesInEveryTimeZone) {
  const std::string folder = ScratchFolder();
  const char* before = std::getenv("TZ");
  const std::string saved = before != nullptr ? before : "";
  ::setenv("TZ", "Pacific/Kiritimati", 1);
  ASSERT_TRUE(WriteNpz(Tiny(), folder + "/a.npz").ok());
  ::setenv("TZ", "America/Los_Angeles", 1);
  ASSERT_TRUE(WriteNpz(Tiny(), folder + "/b.npz").ok());
  before != nullptr ? ::setenv("TZ", saved.c_str(), 1) : ::unsetenv("TZ");
  EXPECT_EQ(ReadBytes(folder + "/a.npz"), ReadBytes(folder + "/b.npz"));
}

TEST(Npz, ReplacesAFileAndLeavesNothingElse) {
  const std::string folder = ScratchFolder(), path = folder + "/f.npz";
  WriteTo(path, "old");
  ASSERT_TRUE(WriteNpz(Tiny(), path).ok());
  EXPECT_NE(ReadBytes(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(Npz, AFolderThatIsNotThereIsAnErrorWithThePath) {
  const std::string path = ScratchFolder() + "/none/f.npz";
  EXPECT_THAT(Message(WriteNpz(Tiny(), path)), testing::HasSubstr("cannot write '" + path + "'"));
}

}  // namespace
}  // namespace lucid
