// Each operation of the books keeps the account in balance, and an operation that loses, repeats or
// mixes up pairs does not: so no search can end with a verdict after it.
#include "native/region_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "certificate/proof_reader.h"
#include "certificate/test_support.h"
#include "native/engine.h"
#include "pair/test_support.h"

namespace lucid::region_search {
namespace {

constexpr std::int32_t kLabel = 1;
constexpr int kMembers = 4;
constexpr std::int64_t kClasses = 3;

// The books of a small search, with a proof or without.
struct Books {
  Books(std::uint64_t seed, bool proof)
      : stream(seed, "region book"),
        network(RandomNetwork(Hidden({{.units = 4}}, 2, kClasses), stream)),
        members(RandomMembers(network, kMembers, 0.1, stream)) {
    error = LargestError(members, 1).value();
    options.memory = 1 << 14;
    if (proof) {
      writer = std::make_unique<ProofWriter>(
          ProofWriter::Create(folder / "proof", {{}, {}, error, kClasses}).value());
      options.proof = writer.get();
    }
    work = std::make_unique<RegionWork>(network, members, kLabel, error, options);
    workers = MakeWorkers(network, kLabel, 2);
    book = std::make_unique<RegionBook>(options, kLabel, *work, workers);
    EXPECT_TRUE(book->Begin("", network.architecture, Task(), 10).ok());
  }

  SearchTask Task() const { return {kLabel, kMembers, error, network.digest(), work->root()}; }
  Status Balance() const { return book->state.account.Check(book->state.Waiting()); }

  // One of the things that a search does with the region of largest bound.
  void Step() {
    if (book->state.open.empty()) return;
    RegionNode node = book->Pop();
    switch (stream.Below(6)) {
      case 0:
        book->GiveUp(node);
        return;
      case 1:
        return CutInTwo(node, [&](const RegionPair& pair, RegionNode& half) {
          RegionBook::AddAlive(pair, half);
        });
      case 2: {
        // Some pairs are closed in one half.
        return CutInTwo(node, [&](const RegionPair& pair, RegionNode& half) {
          if (stream.Below(2) == 0) return RegionBook::AddAlive(pair, half);
          Outcome outcome{pair};
          outcome.rounding = stream.Below(2) == 0;
          book->Close(outcome);
        });
      }
      case 3: {
        // Part of the pairs goes into a region of its own.
        RegionNode rest = book->SameRegion(node);
        while (node.alive.size() > 2) {
          RegionBook::AddAlive(TakeLast(node), rest);
        }
        book->Push(std::move(rest));
        break;
      }
      case 4:
        book->FindReasons(node);
        break;
      default: {
        const RegionPair last = TakeLast(node);
        if (stream.Below(2) == 0) {
          book->GiveUp(last);
        } else {
          book->CloseEmptyOrGiveUp(last, node);
        }
      }
    }
    book->Push(std::move(node));
  }
  static RegionPair TakeLast(RegionNode& node) {
    const RegionPair last = node.alive.back();
    node.alive.pop_back();
    node.CountBound();
    return last;
  }
  void CutInTwo(const RegionNode& node,
                const std::function<void(const RegionPair&, RegionNode&)>& place) {
    const auto input = static_cast<std::int32_t>(stream.Below(2));
    const Interval side = node.region.box[input];
    const double middle = 0.5 * (side.lower + side.upper);
    ProofSplit how;
    how.unit = input;
    how.at = middle;
    const std::uint64_t first = next_place;
    next_place += 2;
    book->log.Split(how, node.place, first);
    for (const int half : {0, 1}) {
      RegionNode child = book->SameRegion(node);
      child.place = first + static_cast<unsigned>(half);
      (half == 0 ? child.region.box[input].upper : child.region.box[input].lower) = middle;
      for (const RegionPair& pair : node.alive) place(RegionBook::PartOf(pair, half), child);
      book->Push(std::move(child));
    }
  }

  TemporaryFolder folder;
  Stream stream;
  Network network;
  MemoryMembers members;
  double error = 0;
  RegionSearchOptions options;
  std::unique_ptr<ProofWriter> writer;
  std::unique_ptr<RegionWork> work;
  std::vector<std::unique_ptr<Worker>> workers;
  std::unique_ptr<RegionBook> book;
  std::uint64_t next_place = 1;
};

TEST(RegionBook, BalancesAfterEveryOperation) {
  std::int64_t given_up = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Books books(seed, seed % 2 == 0);
    for (int step = 0; step < 60; ++step) {
      books.Step();
      if (step % 20 == 7) books.book->FreeMemory();
      if (step % 20 == 9) books.book->FindReasonsOfAll();
      if (step % 20 == 11) books.book->ProveWaiting();
      ASSERT_TRUE(books.Balance().ok()) << "seed " << seed << ", step " << step;
      ASSERT_TRUE(books.book->log.status().ok());
      ASSERT_TRUE(std::is_heap(books.book->state.open.begin(), books.book->state.open.end()));
    }
    given_up += books.book->state.dropped;
    // Saved and gone on with, it is the same account.
    const std::string saved = EncodeRegionState(books.book->state, books.Task());
    const Account account = books.book->state.account;
    ASSERT_TRUE(books.book->Begin(saved, books.network.architecture, books.Task(), 10).ok());
    EXPECT_EQ(books.book->state.account, account);
    EXPECT_TRUE(books.Balance().ok());
  }
  EXPECT_GT(given_up, 100);
}

// What a mistake in the search or in the books themselves would do.
TEST(RegionBook, EveryWayToLoseOrMixUpPairsIsNoticed) {
  struct Mutation {
    const char* name;
    std::function<void(Books&)> apply;
  };
  const Mutation mutations[] = {
      {"Pop a region and forget it", [](Books& b) { b.book->Pop(); }},
      {"Push a region twice",
       [](Books& b) {
         RegionNode node = b.book->Pop();
         b.book->Push(node);
         b.book->Push(std::move(node));
       }},
      {"Push a region without one of its pairs",
       [](Books& b) {
         RegionNode node = b.book->Pop();
         node.alive.pop_back();
         b.book->Push(std::move(node));
       }},
      {"GiveUp a region without one of its pairs",
       [](Books& b) {
         RegionNode node = b.book->Pop();
         node.alive.pop_back();
         b.book->GiveUp(node);
       }},
      {"GiveUp a region that still waits",
       [](Books& b) {
         RegionNode node = b.book->state.open.front();
         b.book->GiveUp(node);
       }},
      {"GiveUp a pair that still waits",
       [](Books& b) { b.book->GiveUp(b.book->state.open.front().alive.front()); }},
      {"Close another member",
       [](Books& b) {
         RegionNode node = b.book->Pop();
         Outcome outcome{node.alive.back()};
         node.alive.pop_back();
         outcome.pair.member = (outcome.pair.member + 1) % kMembers;
         b.book->Close(outcome);
         b.book->Push(std::move(node));
       }},
      {"Close another class",
       [](Books& b) {
         RegionNode node = b.book->Pop();
         RegionPair pair = node.alive.back();
         node.alive.pop_back();
         pair.other = pair.other == 0 ? 2 : 0;
         b.book->ClosePair(pair);
         b.book->Push(std::move(node));
       }},
      {"Close the class itself",
       [](Books& b) {
         RegionNode node = b.book->Pop();
         RegionPair pair = node.alive.back();
         node.alive.pop_back();
         pair.other = kLabel;
         b.book->ClosePair(pair);
         b.book->Push(std::move(node));
       }},
      {"Close a pair twice",
       [](Books& b) {
         RegionNode node = b.book->Pop();
         b.book->ClosePair(node.alive.back());
         b.book->ClosePair(node.alive.back());
         node.alive.pop_back();
         b.book->Push(std::move(node));
       }},
      {"CloseEmpty for a pair that still waits",
       [](Books& b) {
         const RegionNode& node = b.book->state.open.front();
         b.book->CloseEmptyOrGiveUp(node.alive.front(), node);
       }},
      {"look at one half only",
       [](Books& b) {
         RegionNode node = b.book->Pop();
         RegionNode half = b.book->SameRegion(node);
         for (const RegionPair& pair : node.alive) {
           RegionBook::AddAlive(RegionBook::PartOf(pair, 0), half);
         }
         b.book->Push(std::move(half));
       }},
      {"look at one half twice",
       [](Books& b) {
         RegionNode node = b.book->Pop();
         for (int n = 0; n < 2; ++n) {
           RegionNode half = b.book->SameRegion(node);
           for (const RegionPair& pair : node.alive) {
             RegionBook::AddAlive(RegionBook::PartOf(pair, 1), half);
           }
           b.book->Push(std::move(half));
         }
       }},
      {"SameRegion with the pairs of the first",
       [](Books& b) {
         RegionNode node = b.book->Pop();
         RegionNode same = b.book->SameRegion(node);
         for (const RegionPair& pair : node.alive) RegionBook::AddAlive(pair, same);
         b.book->Push(std::move(same));
         b.book->Push(std::move(node));
       }},
      {"Begin with the regions of another class",
       [](Books& b) {
         SearchTask other = b.Task();
         other.label = 0;
         const Account account = b.book->state.account;
         const std::string saved = EncodeRegionState(RegionState(other, kClasses, 10), other);
         // The state of another class is refused; if it were not, the account would not balance.
         if (b.book->Begin(saved, b.network.architecture, b.Task(), 10).ok()) {
           ADD_FAILURE() << "the regions of another class were taken";
         }
         b.book->state = RegionState(other, kClasses, 10);
         b.book->state.account = account;
       }},
      {"Withdraw a pair and keep nothing of it",
       [](Books& b) { b.book->state.Withdraw(b.book->state.open.front().alive.front()); }},
  };
  for (const Mutation& mutation : mutations) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Books books(seed, seed % 2 == 0);
      for (std::uint64_t step = seed % 10; step > 0; --step) books.Step();
      if (books.book->state.open.empty()) continue;
      mutation.apply(books);
      const Status status = books.Balance();
      ASSERT_FALSE(status.ok()) << mutation.name << ", seed " << seed;
      EXPECT_EQ(status.error().kind, ErrorKind::kInternal);
      EXPECT_FALSE(books.book->state.account.Settle(books.book->state.Waiting(), 10).ok());
    }
  }
}

}  // namespace
}  // namespace lucid::region_search
