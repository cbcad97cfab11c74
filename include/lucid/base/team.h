// The processes that work on one job together, and the messages between them.
#pragma once

#include <optional>
#include <string>

#include "lucid/base/result.h"

namespace lucid {

struct TeamMessage {
  int from = 0;  // a rank
  std::string bytes;
};

// Rank 0 leads: it has the run and everything that is written. The others help it. Thread-safe.
class Team {
 public:
  virtual ~Team() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;  // "rank 3 on node7": of this process, for messages

  // Messages from one process to another arrive in the order in which they were sent. Does not
  // wait until they do.
  virtual void Send(int to, std::string bytes) = 0;
  // The next message that is there, from whomever it is; none if there is none yet.
  virtual std::optional<TeamMessage> Receive() = 0;
  // Whether the leader has ended. A helper that waits for it ends then, too.
  virtual bool is_over() = 0;

  bool leads() const { return rank() == 0; }
};

// What tells the program of this process from any other: its version, and the digest of its file
// (equal versions may be different builds).
struct ProgramTag {
  std::string version, digest;
  static ProgramTag OfThisProcess();
};
// Errors: the leader runs another program than this process.
Status CheckLeadersProgram(const ProgramTag& leader);

// A pause between two looks at what has arrived: the longer nothing came, the longer.
class TeamPause {
 public:
  // `busy`: other threads of this process need the core that a look without a pause would take.
  void Wait(bool busy);
  void Reset() { looks_ = 0; }  // something came

 private:
  int looks_ = 0;
};

// A helper that cannot go on says why, and the leader ends with that reason.
std::string GivingUp(const Team& helper, const Error& reason);
// The reason, if this is what the message says.
std::optional<Error> GaveUp(const TeamMessage& message);

}  // namespace lucid
