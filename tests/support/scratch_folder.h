// A folder for what a unit test writes.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace lucid {

// A fresh folder named after the running test.
inline std::string ScratchFolder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder =
      testing::TempDir() + "lucid_" + test->test_suite_name() + "_" + test->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace lucid
