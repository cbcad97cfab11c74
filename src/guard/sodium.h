// libsodium, made ready.
#pragma once

#include "lucid/base/result.h"

namespace lucid {

// This has to be called before any other use of libsodium: afterwards its calls are thread-safe and
// as fast as this machine allows. It is thread-safe and may be called often.
Status PrepareSodium();

}  // namespace lucid
