#include "admission/handed_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <iterator>
#include <utility>
#include <vector>

namespace lucid {

std::optional<HandedSocket::File> HandedSocket::FileOf(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return std::nullopt;
  return File{info.st_dev, info.st_ino};
}

HandedSocket::HandedSocket(int fd, std::string client, std::optional<Place> place,
                           Clock::time_point until)
    : fd_(fd),
      file_(FileOf(fd)),
      client_(std::move(client)),
      place_(std::move(place)),
      until_(until) {}

void HandedSocket::Asked(Clock::time_point until) {
  if (!has_place()) return;
  until_ = until;
  const std::lock_guard lock(mutex_);
  half_open_.reset();
}

void HandedSocket::EndStream(Clock::time_point until) {
  Asked(until);
  --streams_;
}

// The other library may close the file at any time, and another may get its number: what is ended
// is a copy that was looked at. (The copy does not live on: while there is one, the other library's
// epoll knows of the socket although it has closed it.)
void HandedSocket::ShutDown() const {
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  if (FileOf(copy) == file_) ::shutdown(copy, SHUT_RDWR);
  ::close(copy);
}

void HandedSockets::Add(int fd, const std::string& name, const std::string& client,
                        std::optional<Place> place, HalfOpen& waiting, Clock::time_point until) {
  const std::shared_ptr<HandedSocket> socket(new HandedSocket(fd, client, std::move(place), until));
  {
    const std::lock_guard lock(mutex_);
    by_name_.emplace(name, socket);
  }
  // Nobody else's lock is held here: this may drop another one.
  HalfOpen::Entry entry = waiting.Enter(client, [weak = std::weak_ptr<const HandedSocket>(socket)] {
    if (const auto dropped = weak.lock()) dropped->ShutDown();
  });
  const std::lock_guard lock(socket->mutex_);
  socket->half_open_.emplace(std::move(entry));
}

// Of several with one name (the other side reached several addresses of this machine from one port)
// the one that came last.
std::shared_ptr<HandedSocket> HandedSockets::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto after = by_name_.upper_bound(name);
  if (after == by_name_.begin()) return nullptr;
  const auto last = std::prev(after);
  return last->first == name ? last->second : nullptr;
}

void HandedSockets::Sweep(Clock::time_point now) {
  std::vector<std::shared_ptr<HandedSocket>> closed;  // they end when no lock is held
  const std::lock_guard lock(mutex_);
  for (auto at = by_name_.begin(); at != by_name_.end();) {
    const HandedSocket& socket = *at->second;
    if (!socket.IsOpen()) {
      closed.push_back(std::move(at->second));
      at = by_name_.erase(at);
      continue;
    }
    const bool streams = socket.has_place() && socket.streams_ > 0;
    if (now >= socket.until_.load() && !streams) socket.ShutDown();
    ++at;
  }
}

}  // namespace lucid
