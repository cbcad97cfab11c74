// What a build says of a part that was left out of it (cmake/LucidParts.cmake).
#pragma once

#include <string>

#include "lucid/base/result.h"

namespace lucid {

// `what`: "ONNX files", the thing that does not work; `option`: LUCID_ONNX, the part's CMake
// option; `needs`: the libraries to install before it is switched on.
inline Error LeftOut(const std::string& what, const std::string& option, const std::string& needs) {
  return InvalidInput("this LUCID was built without " + what + ": install " + needs +
                      " and configure with -D" + option + "=ON");
}

}  // namespace lucid
