// slow_link ONE TWO DEVICE MILLISECONDS MBIT: a slow network link between two network namespaces,
// for kernels without netem. It makes a TUN device of this name in each of them and carries packets
// from one to the other: each direction sends so many megabits a second, and a packet arrives so
// long after it was sent. It prints "ready" when both devices are there, and ends when it is
// killed.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::microseconds;

constexpr std::size_t kLargestPacket = 65536;
// Packets that wait to be sent, in bytes. If there are more, the kernel keeps or drops what comes.
constexpr std::size_t kMostWaiting = 1 << 18;

[[noreturn]] void Fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

// The device, made in that namespace. (This thread stays there.)
int OpenDevice(const std::string& space, const std::string& name) {
  const int in = ::open(("/run/netns/" + space).c_str(), O_RDONLY | O_CLOEXEC);
  if (in < 0 || ::setns(in, CLONE_NEWNET) != 0) Fail("cannot enter the namespace " + space);
  ::close(in);
  const int device = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) Fail("cannot open /dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  if (::ioctl(device, TUNSETIFF, &request) != 0) Fail("cannot make the device " + name);
  return device;
}

// One direction of the link.
class Direction {
 public:
  Direction(int from, int to, Microseconds delay, double bits_per_second)
      : from_(from), to_(to), delay_(delay), bits_per_second_(bits_per_second) {}

  bool Accepts() const { return waiting_ < kMostWaiting; }
  int from() const { return from_; }

  // Takes a packet that is there. It is sent when those before it are, bit by bit.
  void Take(Clock::time_point now) {
    char buffer[kLargestPacket];
    const ssize_t size = ::read(from_, buffer, sizeof buffer);
    if (size <= 0) return;
    const double seconds = 8 * static_cast<double>(size) / bits_per_second_;
    sent_ = std::max(sent_, now) +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    packets_.push_back({{buffer, buffer + size}, sent_ + delay_});
    waiting_ += static_cast<std::size_t>(size);
  }
  // Hands out what has arrived by now.
  void Deliver(Clock::time_point now) {
    while (!packets_.empty() && packets_.front().arrives <= now) {
      const std::vector<char>& bytes = packets_.front().bytes;
      // A device that is not up, or has no room, loses the packet, as a network may.
      [[maybe_unused]] const ssize_t written = ::write(to_, bytes.data(), bytes.size());
      waiting_ -= bytes.size();
      packets_.pop_front();
    }
  }
  // How long nothing arrives.
  Microseconds Idle(Clock::time_point now) const {
    if (packets_.empty()) return std::chrono::seconds(1);
    const auto left = packets_.front().arrives - now;
    return std::max(std::chrono::duration_cast<Microseconds>(left), Microseconds(0));
  }

 private:
  struct Packet {
    std::vector<char> bytes;
    Clock::time_point arrives;
  };
  const int from_, to_;
  const Microseconds delay_;
  const double bits_per_second_;
  Clock::time_point sent_{};  // when the last bit of all leaves
  std::deque<Packet> packets_;
  std::size_t waiting_ = 0;
};

void Carry(Direction& there, Direction& back) {
  while (true) {
    Clock::time_point now = Clock::now();
    const Microseconds idle = std::min(there.Idle(now), back.Idle(now));
    pollfd devices[2] = {};
    int count = 0;
    for (const Direction* direction : {&there, &back}) {
      if (direction->Accepts()) devices[count++] = {direction->from(), POLLIN, 0};
    }
    const timespec wait{idle.count() / 1'000'000, idle.count() % 1'000'000 * 1000};
    if (::ppoll(devices, static_cast<nfds_t>(count), &wait, nullptr) < 0 && errno != EINTR) {
      Fail("cannot wait for packets");
    }
    now = Clock::now();
    for (Direction* direction : {&there, &back}) {
      const bool readable = std::any_of(devices, devices + count, [&](const pollfd& one) {
        return one.fd == direction->from() && (one.revents & POLLIN) != 0;
      });
      if (readable) direction->Take(now);
      direction->Deliver(now);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fputs("usage: slow_link ONE TWO DEVICE MILLISECONDS MBIT\n", stderr);
    return 2;
  }
  try {
    const int one = OpenDevice(argv[1], argv[3]), two = OpenDevice(argv[2], argv[3]);
    const Microseconds delay(static_cast<std::int64_t>(1000 * std::atof(argv[4])));
    const double bits_per_second = 1e6 * std::atof(argv[5]);
    Direction there(one, two, delay, bits_per_second), back(two, one, delay, bits_per_second);
    std::puts("ready");
    std::fflush(stdout);
    Carry(there, back);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "slow_link: %s\n", e.what());
    return 1;
  }
}
