#include <lucid/base/digest.h>
#include <lucid/base/version.h>

#include <cstdio>

int main() {
  std::printf("lucid %s %s\n", lucid::Version().c_str(), lucid::Sha256Of("abc").Hex().c_str());
}
