#include "lucid/base/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "lucid/base/digest.h"
#include "lucid/base/version.h"

namespace lucid {
namespace {

// A core that has nothing else to do looks so often without a pause, some 100 us, then every 50 us,
// and after some 20 ms every half of a millisecond.
constexpr int kLooksAtOnce = 200, kLooksSoon = 400;
constexpr auto kSoon = std::chrono::microseconds(50), kBusy = std::chrono::microseconds(100);
constexpr auto kLater = std::chrono::microseconds(500);

constexpr char kGaveUp = 'G';  // first byte of the message; no other message begins with it

}  // namespace

ProgramTag ProgramTag::OfThisProcess() {
  static const ProgramTag own = [] {  // the file is read once: a process stays what it is
    const Result<Digest> digest = Sha256OfFile("/proc/self/exe");
    return ProgramTag{std::string(Version()),
                      digest.ok() ? digest->Hex() : std::string(BuildInfo())};
  }();
  return own;
}

Status CheckLeadersProgram(const ProgramTag& leader) {
  const ProgramTag own = ProgramTag::OfThisProcess();
  if (leader.version == own.version && leader.digest == own.digest) return Ok();
  return Mismatch(fmt::format("the program here is lucid {} and not the leader's build of {}",
                              own.version,
                              leader.version.empty() ? "an unknown version" : leader.version));
}

void TeamPause::Wait(bool busy) {
  looks_ = std::min(looks_ + 1, kLooksAtOnce + kLooksSoon);
  if (looks_ == kLooksAtOnce + kLooksSoon) {
    std::this_thread::sleep_for(kLater);
  } else if (busy) {
    std::this_thread::sleep_for(kBusy);
  } else if (looks_ > kLooksAtOnce) {
    std::this_thread::sleep_for(kSoon);
  } else {
    std::this_thread::yield();
  }
}

std::string GivingUp(const Team& helper, const Error& reason) {
  std::string bytes(1, kGaveUp);
  bytes += static_cast<char>('0' + static_cast<int>(reason.kind));
  return bytes + helper.name() + ": " + reason.message;
}

std::optional<Error> GaveUp(const TeamMessage& message) {
  if (message.bytes.size() < 2 || message.bytes[0] != kGaveUp) return std::nullopt;
  const int kind = message.bytes[1] - '0';
  const bool known = kind >= 0 && kind <= static_cast<int>(ErrorKind::kInternal);
  return Error{known ? static_cast<ErrorKind>(kind) : ErrorKind::kInternal,
               message.bytes.substr(2)};
}

}  // namespace lucid
