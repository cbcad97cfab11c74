// libsodium, made ready.
#pragma once

#include "lucid/base/result.h"

namespace lucid {

// Before any other use of libsodium: afterwards its calls are thread-safe and as fast as this
// machine allows. Thread-safe; as often as one likes.
Status PrepareSodium();

}  // namespace lucid
