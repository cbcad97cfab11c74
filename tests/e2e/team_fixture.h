// The real program under mpirun, for tests.
#pragma once

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/command_test.h"

namespace lucid::test {

class TeamFixture : public CommandTest {
 protected:
  std::vector<std::string> Team(int processes, const std::string& arguments) const {
    return Words("--allow-run-as-root --oversubscribe --bind-to none -n " +
                 std::to_string(processes) + " " LUCID_PROGRAM " " + arguments);
  }
  RunOptions Options() const {
    return {.folder = folder_.path(), .program = LUCID_MPIRUN, .timeout = 300};
  }
  Outcome RunTeam(int processes, const std::string& arguments) {
    return RunLucid(Team(processes, arguments), Options());
  }
  // Two processes, each with a command of its own, as if on two machines. (mpirun itself can do so
  // with a colon, and Open MPI 5.0.7 crashes there.)
  Outcome RunTwo(const std::string& here, const std::string& there) {
    WriteBytes(folder_ / "each",
               "#!/bin/sh\nif [ \"$OMPI_COMM_WORLD_RANK\" = 0 ]; then\n  exec " + here +
                   "\nfi\nexec " + there + "\n");
    return RunLucid(Words("--allow-run-as-root --oversubscribe --bind-to none -n 2 /bin/sh each"),
                    Options());
  }
  // The program with a byte behind it: another build.
  std::string OtherBuild() {
    WriteBytes(folder_ / "other-build", ReadBytes(LUCID_PROGRAM) + "x");
    std::filesystem::permissions(folder_ / "other-build", std::filesystem::perms::owner_all);
    return folder_ / "other-build";
  }
};

// The process of a rank, found by what mpirun tells it.
inline pid_t ProcessOfRank(const std::string& folder, int rank) {
  const std::string wanted = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code code;
    if (std::filesystem::read_symlink(entry.path() / "cwd", code) != folder || code) continue;
    std::ifstream environment(entry.path() / "environ");
    for (std::string word; std::getline(environment, word, '\0');) {
      if (word == wanted) return std::stoi(name);
    }
  }
  return -1;
}

}  // namespace lucid::test
