// What the threads of a region search do for it, task by task. A task is a function of its question
// and of what RegionWork knows, so that it may be done by any thread of any process (task_team.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "attack/attack.h"
#include "base/bytes.h"
#include "native/region_cutter.h"
#include "native/region_parts.h"
#include "native/region_search.h"
#include "native/region_work.h"

namespace lucid::region_search {

// What tasks need beside a worker. Keeps references.
struct TaskTools {
  const Network& network;
  const Members& members;
  std::int32_t label;
  const RegionSearchOptions& options;
  const RegionWork& work;
  const RegionCutter& cutter;
  // Asked often by tasks that take long: whether to end before there is an answer.
  std::function<bool(const Worker&)> expired;
  int threads = 1;  // of this process, for a task that has it for itself
};

// The last ones are no part of a search of regions: the bounds of some members over the whole
// domain (BoundMembers), where to cut a box and the bounds of its half (SearchSpatialBounds), and
// claims that the checker's code is asked about (ConfirmClaims).
enum class TaskKind : std::uint8_t {
  kPairs = 1,
  kExpand,
  kAttack,
  kCloser,
  kMembers,
  kFirstAttack,
  kSpatialCut,
  kSpatialHalf,
  kConfirm,
};
std::string_view NameOf(TaskKind kind);

// Each task has: Do, in this process; Ask, which writes its question; and Take, which reads the
// answer (false: it is none). They point to what belongs to the search.

// Bounds some pairs over the domain, or in a region.
struct PairsTask {
  static constexpr TaskKind kKind = TaskKind::kPairs;
  enum class How : std::uint8_t { kIntervals, kLinesOverDomain, kLinesInRegion };

  How how = How::kIntervals;
  std::vector<Outcome*> outcomes;
  // Of kLinesInRegion: the region, the bound of the one around it, where multipliers start.
  const Region* region = nullptr;
  double bound = 0;
  const Multipliers* multipliers = nullptr;

  void Do(const TaskTools& tools, Worker& worker);
  void Ask(std::string& out) const;
  bool Take(ByteCursor& in);
};

// Looks for where to cut a region.
struct ExpandTask {
  static constexpr TaskKind kKind = TaskKind::kExpand;
  const RegionNode* node = nullptr;
  Expansion* expansion = nullptr;

  void Do(const TaskTools& tools, Worker& worker);
  void Ask(std::string& out) const;
  bool Take(ByteCursor& in);
};

// Attacks one member alone.
struct AttackTask {
  static constexpr TaskKind kKind = TaskKind::kAttack;
  std::int32_t member = 0;
  std::uint64_t seed = 0;
  std::int64_t pool = 0, climbs = 0;
  AttackResult* found = nullptr;

  void Do(const TaskTools& tools, Worker& worker);
  void Ask(std::string& out) const;
  bool Take(ByteCursor& in);
};

// Looks at a box of one pair closely.
struct CloserTask {
  static constexpr TaskKind kKind = TaskKind::kCloser;
  CloserBox* box = nullptr;

  void Do(const TaskTools& tools, Worker& worker);
  void Ask(std::string& out) const;
  bool Take(ByteCursor& in);
};

// One of the attacks on all members before the search.
struct FirstAttackTask {
  static constexpr TaskKind kKind = TaskKind::kFirstAttack;
  std::uint64_t seed = 0;
  std::int64_t pool = 0, climbs = 0;
  bool alone = false;         // an attack on the member of its witness alone follows
  AttackResult found, later;  // of the two

  Status Do(const Network& network, const Members& members, std::int32_t label,
            const Domain* domain, int threads, const std::stop_token& stop);
  void Ask(std::string& out) const;
  bool Take(ByteCursor& in);
};

// What all tasks of one call have in common.
struct TaskTopic {
  TaskKind kind = TaskKind::kPairs;
  std::int32_t label = 0;
  double member_error = 0;
  bool with_claims = false, flat = false, improve_witnesses = true;
  DomainKind domain = DomainKind::kBox;
  double target = 0;
  bool close_by_rounding = false;

  std::string Bytes() const;
  // False: these bytes are none.
  static bool Read(std::string_view bytes, TaskTopic& topic);
  // Whether the same tools serve both.
  bool SameSearch(const TaskTopic& other) const;
};

// Reads the question of a task, does it, and writes the answer. False: it is no question of this
// kind, or its answer cannot be written.
bool AnswerTask(TaskKind kind, ByteCursor& in, const TaskTools& tools, Worker& worker,
                std::string& out);

}  // namespace lucid::region_search
