#include "guard/answer_memo.h"

#include <fmt/format.h>
#include <sodium.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <future>
#include <optional>
#include <utility>

#include "guard/database.h"
#include "guard/sodium.h"

namespace lucid {
namespace {

constexpr DatabaseFormat kFormat{
    .kind = "answer memo",
    .application = 0x4c75634d,  // "LucM"
    .version = 1,
    // Numbers rise by one with every entry and only the lowest are deleted: the oldest entry is the
    // one of the lowest number, and they have no holes.
    .schema = R"(
      CREATE TABLE entries (
        number INTEGER PRIMARY KEY,
        input BLOB NOT NULL UNIQUE CHECK (length(input) = 16),
        randomness BLOB NOT NULL CHECK (length(randomness) = 64)) STRICT;
    )"};

constexpr std::int64_t kLargestLimit = std::int64_t{1} << 32;

// What a file keeps of an entry: ticket, then both draws, each number little endian.
using Randomness = std::array<std::uint8_t, 64>;

std::uint64_t Word(std::span<const std::uint8_t> bytes, std::size_t at) {
  std::uint64_t word = 0;
  for (std::size_t i = 8; i-- > 0;) word = word << 8 | bytes[at + i];
  return word;
}

Draw DrawAt(std::span<const std::uint8_t> bytes, std::size_t at) {
  return {
      .lie = Word(bytes, at), .pick_high = Word(bytes, at + 8), .pick_low = Word(bytes, at + 16)};
}

MemoEntry EntryOf(std::span<const std::uint8_t> bytes) {
  MemoEntry entry;
  std::memcpy(entry.ticket.data(), bytes.data(), entry.ticket.size());
  entry.left = DrawAt(bytes, 16);
  entry.spent = DrawAt(bytes, 40);
  return entry;
}

}  // namespace

Status AnswerMemoOptions::Validate() const {
  if (limit >= 1 && limit <= kLargestLimit) return Ok();
  return InvalidInput(fmt::format("memo limit {}: must be between 1 and {}", limit, kLargestLimit));
}

struct AnswerMemo::Impl {
  struct Recalling {
    std::vector<Fingerprint> inputs;
    std::function<void(Outcome)> done;
    std::vector<MemoEntry> entries;
    std::int64_t size = 0;  // afterwards
  };

  Database database;
  Statement find, add, forget, newest_number, oldest_number;
  std::int64_t limit = 0;
  std::atomic<std::int64_t> size = 0;
  std::optional<CommitQueue> queue;  // last: it uses all of the above

  static Result<std::unique_ptr<Impl>> Open(const AnswerMemoOptions& options);
  Result<MemoEntry> RecallOne(const Fingerprint& input);
  Status RecallAll(Recalling& recalling);
  Result<std::int64_t> Forget();  // the oldest beyond the limit; how many are left
};

Result<std::unique_ptr<AnswerMemo::Impl>> AnswerMemo::Impl::Open(const AnswerMemoOptions& options) {
  LUCID_TRY(options.Validate());
  LUCID_TRY(PrepareSodium());
  LUCID_ASSIGN(Database database, Database::Open(options.path, kFormat));
  // What is forgotten is overwritten.
  LUCID_TRY(database.Execute("PRAGMA secure_delete = ON"));
  LUCID_ASSIGN(Statement find, database.Prepare("SELECT randomness FROM entries WHERE input = ?"));
  LUCID_ASSIGN(Statement add,
               database.Prepare("INSERT INTO entries (input, randomness) VALUES (?, ?)"));
  LUCID_ASSIGN(Statement forget, database.Prepare("DELETE FROM entries WHERE number <= ?"));
  LUCID_ASSIGN(Statement newest, database.Prepare("SELECT max(number) FROM entries"));
  LUCID_ASSIGN(Statement oldest, database.Prepare("SELECT min(number) FROM entries"));
  auto impl = std::unique_ptr<Impl>(new Impl{.database = std::move(database),
                                             .find = std::move(find),
                                             .add = std::move(add),
                                             .forget = std::move(forget),
                                             .newest_number = std::move(newest),
                                             .oldest_number = std::move(oldest),
                                             .limit = options.limit,
                                             .size = 0,
                                             .queue = {}});
  LUCID_ASSIGN(impl->size, impl->Forget());
  impl->queue.emplace(impl->database);
  return impl;
}

Result<MemoEntry> AnswerMemo::Impl::RecallOne(const Fingerprint& input) {
  Randomness randomness;
  randombytes_buf(randomness.data(), randomness.size());
  const Result<bool> known = find.Bind(1, input).Step();
  if (known.ok() && *known) std::ranges::copy(find.Bytes(0), randomness.begin());
  find.Reset();
  LUCID_TRY(known);
  if (!*known) LUCID_TRY(add.Bind(1, input).Bind(2, randomness).Run());
  const MemoEntry entry = EntryOf(randomness);
  sodium_memzero(randomness.data(), randomness.size());
  return entry;
}

Status AnswerMemo::Impl::RecallAll(Recalling& recalling) {
  recalling.entries.clear();
  for (const Fingerprint& input : recalling.inputs) {
    LUCID_ASSIGN(const MemoEntry entry, RecallOne(input));
    recalling.entries.push_back(entry);
  }
  LUCID_ASSIGN(recalling.size, Forget());
  return Ok();
}

Result<std::int64_t> AnswerMemo::Impl::Forget() {
  const auto number = [](Statement& statement) -> Result<std::int64_t> {
    const Result<bool> row = statement.Step();
    const std::int64_t value = row.ok() && *row ? statement.Whole(0) : 0;
    statement.Reset();
    LUCID_TRY(row);
    return value;
  };
  LUCID_ASSIGN(const std::int64_t newest, number(newest_number));
  LUCID_TRY(forget.Bind(1, newest - limit).Run());
  LUCID_ASSIGN(const std::int64_t oldest, number(oldest_number));
  return newest == 0 ? 0 : newest - oldest + 1;
}

AnswerMemo::AnswerMemo(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AnswerMemo::~AnswerMemo() = default;
AnswerMemo::AnswerMemo(AnswerMemo&&) noexcept = default;
AnswerMemo& AnswerMemo::operator=(AnswerMemo&&) noexcept = default;

Result<AnswerMemo> AnswerMemo::Open(const AnswerMemoOptions& options) {
  LUCID_ASSIGN(auto impl, Impl::Open(options));
  return AnswerMemo(std::move(impl));
}

void AnswerMemo::Recall(std::vector<Fingerprint> inputs, std::function<void(Outcome)> done) {
  if (std::ssize(inputs) > impl_->limit) {
    return done(InvalidInput(fmt::format("{} inputs at once; the memo is limited to {} entries",
                                         inputs.size(), impl_->limit)));
  }
  auto recalling = std::make_shared<Impl::Recalling>();
  recalling->inputs = std::move(inputs);
  recalling->done = std::move(done);
  Impl* const impl = impl_.get();
  impl->queue->Submit({[impl, recalling] { return impl->RecallAll(*recalling); },
                       [impl, recalling](const Status& committed) {
                         if (!committed.ok()) return recalling->done(committed.error());
                         impl->size = recalling->size;
                         recalling->done(std::move(recalling->entries));
                       }});
}

void AnswerMemo::Settle() { impl_->queue->Settle(); }

AnswerMemo::Outcome AnswerMemo::Recall(std::vector<Fingerprint> inputs) {
  std::promise<Outcome> promise;
  Recall(std::move(inputs), [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); });
  return promise.get_future().get();
}

std::int64_t AnswerMemo::size() const { return impl_->size; }
std::int64_t AnswerMemo::limit() const { return impl_->limit; }

}  // namespace lucid
