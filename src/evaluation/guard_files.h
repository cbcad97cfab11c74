// Which guards a run has the files for.
#pragma once

#include <optional>
#include <string>

#include "lucid/base/result.h"
#include "lucid/guard/guard.h"

namespace lucid {

// Why a guard cannot be opened for want of a file, naming the command that makes it, or nothing.
// What is there but wrong is for Guard::Open to refuse. `certificate`: empty for
// RUN/certificate.json. Errors: a certificate that cannot be read; kIo.
Result<std::optional<std::string>> MissingGuardFile(const std::string& run,
                                                    const std::string& certificate,
                                                    GuardKind guard);

}  // namespace lucid
