#include "admission/handed_sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

namespace lucid {
namespace {

using Clock = HandedSockets::Clock;
using std::chrono::seconds;

// Two ends: the one that is handed over, and the client's.
std::pair<int, int> Connect() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {ends[0], ends[1]};
}
// Whether the other end was shut down.
bool AtEnd(int end) {
  char byte = 0;
  return ::recv(end, &byte, 1, MSG_DONTWAIT) == 0;
}

class HandedSocketsTest : public testing::Test {
 protected:
  void Add(int fd, const std::string& name, bool with_place = true) {
    std::optional<Place> place;
    if (with_place) place = places_->Take("client");
    EXPECT_EQ(place.has_value(), with_place);
    sockets_.Add(fd, name, "client", std::move(place), *waiting_, start_ + seconds(10));
  }

  const Clock::time_point start_ = Clock::now();
  std::atomic<std::int64_t> taken_{0}, half_open_{0};
  std::shared_ptr<Places> places_ = Places::Create(8, 8, taken_);
  std::shared_ptr<HalfOpen> waiting_ = HalfOpen::Create({.total = 2, .per_client = 2}, half_open_);
  HandedSockets sockets_;
};

TEST_F(HandedSocketsTest, APlaceComesBackWhenTheOtherLibraryHasClosed) {
  const auto [socket, client] = Connect();
  Add(socket, "a");
  EXPECT_EQ(sockets_.Find("a")->client(), "client");
  EXPECT_EQ(sockets_.Find("b"), nullptr);
  sockets_.Sweep(start_);
  EXPECT_EQ(taken_, 1);
  EXPECT_EQ(half_open_, 1);
  ::close(socket);
  sockets_.Sweep(start_);
  EXPECT_EQ(taken_, 0);
  EXPECT_EQ(half_open_, 0);
  EXPECT_EQ(sockets_.Find("a"), nullptr);
  ::close(client);
}

TEST_F(HandedSocketsTest, AnotherFileOfTheSameNumberIsLeftAlone) {
  const auto [socket, client] = Connect();
  Add(socket, "a");
  const auto handed = sockets_.Find("a");
  const auto [other, other_client] = Connect();
  ASSERT_EQ(::dup2(other, socket), socket) << "closes the one, and is the other from here on";
  sockets_.Sweep(start_ + seconds(20));
  EXPECT_FALSE(AtEnd(other_client));
  EXPECT_EQ(sockets_.Find("a"), nullptr);
  for (const int fd : {socket, client, other, other_client}) ::close(fd);
}

TEST_F(HandedSocketsTest, TheOldestThatHasNotAskedIsEndedForAYoungerOne) {
  std::array<std::pair<int, int>, 4> all;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = Connect();
    Add(all[i].first, std::to_string(i));
    if (i == 0) sockets_.Find("0")->Asked(start_ + seconds(10));
  }
  EXPECT_FALSE(AtEnd(all[0].second)) << "it has asked";
  EXPECT_TRUE(AtEnd(all[1].second));
  EXPECT_FALSE(AtEnd(all[2].second));
  EXPECT_FALSE(AtEnd(all[3].second));
  EXPECT_EQ(taken_, 4) << "until it is closed it has its place";
  for (const auto& [socket, client] : all) ::close(socket), ::close(client);
}

TEST_F(HandedSocketsTest, TimeEndsWhatHasNotAskedAgainAndNoStream) {
  std::array<std::pair<int, int>, 3> all;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = Connect();
    Add(all[i].first, std::to_string(i));
    if (i > 0) sockets_.Find(std::to_string(i))->Asked(start_ + seconds(10 + 10 * (i % 2)));
  }
  sockets_.Find("2")->BeginStream();
  sockets_.Sweep(start_ + seconds(9));
  for (const auto& [socket, client] : all) EXPECT_FALSE(AtEnd(client));
  sockets_.Sweep(start_ + seconds(11));
  EXPECT_TRUE(AtEnd(all[0].second));
  EXPECT_FALSE(AtEnd(all[1].second)) << "it has asked again";
  EXPECT_FALSE(AtEnd(all[2].second)) << "it has a stream";
  sockets_.Find("2")->EndStream(start_ + seconds(12));
  sockets_.Sweep(start_ + seconds(13));
  EXPECT_TRUE(AtEnd(all[2].second));
  for (const auto& [socket, client] : all) ::close(socket), ::close(client);
}

TEST_F(HandedSocketsTest, WithoutAPlaceNothingKeepsIt) {
  const auto [socket, client] = Connect();
  Add(socket, "a", /*with_place=*/false);
  const auto handed = sockets_.Find("a");
  EXPECT_FALSE(handed->has_place());
  handed->BeginStream();
  handed->Asked(start_ + seconds(100));
  EXPECT_EQ(half_open_, 1) << "it waits among the others all the time";
  sockets_.Sweep(start_ + seconds(11));
  EXPECT_TRUE(AtEnd(client));
  ::close(socket);
  ::close(client);
}

}  // namespace
}  // namespace lucid
