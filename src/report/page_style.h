// The style sheet of a report.
#pragma once

#include <string>

namespace lucid {

// Light and dark by what the reader prefers; paper is always light.
std::string PageStyle();

}  // namespace lucid
