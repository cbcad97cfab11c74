// Connections that this process accepts and hands to another library, which reads, writes and
// closes them and tells nobody. What is known of them here is enough to count and to end them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "admission/half_open.h"
#include "admission/places.h"

namespace lucid {

// Thread-safe.
class HandedSocket {
 public:
  using Clock = std::chrono::steady_clock;
  HandedSocket(const HandedSocket&) = delete;
  HandedSocket& operator=(const HandedSocket&) = delete;

  const std::string& client() const { return client_; }
  bool has_place() const { return place_.has_value(); }  // or it is one too many

  // Somebody has asked for something whole. If it has a place, the others no longer drop it for
  // keeping the server waiting, and it may stay until `until`; one without a place is as before.
  void Asked(Clock::time_point until);
  // A stream is open, as which it may stay for any time.
  void BeginStream() { ++streams_; }
  void EndStream(Clock::time_point until);

 private:
  friend class HandedSockets;
  // What the number of a file stands for at a time: another file may get the number later.
  struct File {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const File&) const = default;
  };
  static std::optional<File> FileOf(int fd);

  HandedSocket(int fd, std::string client, std::optional<Place> place, Clock::time_point until);
  bool IsOpen() const { return FileOf(fd_) == file_; }
  void ShutDown() const;  // the other library sees its end, and closes it

  const int fd_;
  const std::optional<File> file_;
  const std::string client_;
  const std::optional<Place> place_;
  std::atomic<Clock::time_point> until_;
  std::atomic<int> streams_{0};
  std::mutex mutex_;                          // guards half_open_
  std::optional<HalfOpen::Entry> half_open_;  // none: it does not keep the server waiting
};

// Thread-safe.
class HandedSockets {
 public:
  using Clock = HandedSocket::Clock;

  // Call this before the socket `fd` is handed over. `name`: what the other library calls the other
  // side. `client`: whose it is. Until it has asked for something it is one of `waiting`, which
  // drops it if there are too many, and may stay until `until`. Without a place it is one of them
  // for good, and may not stay longer.
  void Add(int fd, const std::string& name, const std::string& client, std::optional<Place> place,
           HalfOpen& waiting, Clock::time_point until);
  // Null: it is not known, or not any more.
  std::shared_ptr<HandedSocket> Find(const std::string& name) const;
  // Forgets those that were closed, which gives their places back, and ends those whose time is
  // over.
  void Sweep(Clock::time_point now);

 private:
  mutable std::mutex mutex_;  // guards by_name_
  std::multimap<std::string, std::shared_ptr<HandedSocket>, std::less<>> by_name_;
};

}  // namespace lucid
