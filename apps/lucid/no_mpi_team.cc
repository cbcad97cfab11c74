#include <charconv>
#include <cstdlib>
#include <string_view>

#include "join_team.h"

namespace lucid::app {

Result<std::unique_ptr<Team>> JoinTeam(int& processes_here) {
  processes_here = 1;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* const text = std::getenv(name);
    int size = 1;
    if (text != nullptr) std::from_chars(text, text + std::string_view(text).size(), size);
    if (size > 1) {
      return InvalidInput(
          "several processes were started, and this program was built without MPI: install "
          "libopenmpi-dev, configure with -DLUCID_MPI=ON and build it again, or use --shard");
    }
  }
  return std::unique_ptr<Team>();
}

}  // namespace lucid::app
