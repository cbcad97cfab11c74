// The base of tests that run the real program in a folder of their own.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "support/run_lucid.h"

namespace lucid::test {

class CommandTest : public testing::Test {
 protected:
  // Runs `lucid` with these arguments, which blanks separate, in the test's folder.
  Outcome Run(const std::string& arguments) {
    return RunLucid(Words(arguments), {.folder = folder_.path()});
  }

  const Scratch folder_;
};

}  // namespace lucid::test
