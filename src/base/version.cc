#include "lucid/base/version.h"

namespace lucid {

std::string Version() { return LUCID_VERSION; }
std::string BuildInfo() { return LUCID_BUILD_INFO; }

}  // namespace lucid
