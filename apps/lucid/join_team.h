// The processes that `mpirun lucid ...` started.
#pragma once

#include <memory>

#include "lucid/base/result.h"
#include "lucid/base/team.h"

namespace lucid::app {

// The team of this process; null where it was started alone. The leader's end (its destructor)
// tells the others, and theirs waits for it. `processes_here` gets how many of the team run on this
// machine. Errors: several processes were started, and this program has no MPI.
Result<std::unique_ptr<Team>> JoinTeam(int& processes_here);

}  // namespace lucid::app
