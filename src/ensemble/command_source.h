// Networks trained by a command of the user's (EnsembleOptions::trainer).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "ensemble/builder.h"
#include "ensemble/trainer_process.h"

namespace lucid {

// Starts the command for every network, or (EnsembleOptions::trainer_stays) as workers that stay
// alive and are asked for one network after another. A training that fails is tried once more, in a
// new process, and ends no others: a worker is asked again only after what it wrote was read and is
// good. Each has a file to write and a log in RUN/trainer while it runs, which nobody but the owner
// may read. Both are removed; if the network is not good, the log stays and the error names it. A
// stop ends the command's whole process group.
class CommandSource final : public NetworkSource {
 public:
  explicit CommandSource(const Job& job) : job_(job) {}
  ~CommandSource() override;
  CommandSource(const CommandSource&) = delete;
  CommandSource& operator=(const CommandSource&) = delete;

  std::string verb() const override { return "training"; }
  NetworkMaker maker() const override { return NetworkMaker::kCommand; }
  bool goes_on_after_failure() const override { return true; }
  Status Make(std::span<const std::int64_t> left_out, std::span<float> out,
              std::stop_token stop) const override;

  // Tries whether the command is a training algorithm at all: N is trained twice, three units are
  // left out both by being named and by a file that really lacks their rows, its lines in another
  // order; one process of a worker then trains those members, N, and the members backwards. Errors:
  // a command that is unseeded, that ignores what it is to leave out, that depends on the order of
  // the rows, that leaves out something else, or that keeps something from one training to the
  // next; of Make.
  Status Check() const;
  // Three networks, wherever a worker made them in its life, come out the same in a new process.
  Status CheckMade(const Store& store) const override;

 private:
  // One training. `name`: of its log and file.
  struct Call {
    std::string data;
    std::vector<std::int64_t> left_out;
    std::string name, what;
    std::int64_t rows = 0;
  };
  Call CallFor(std::int64_t row) const;
  std::string Folder() const;
  Result<std::vector<float>> Run(const Call& call, const std::stop_token& stop) const;
  Status MakeFolder() const;
  void RemoveFilesOf(const Call& call, bool but_log) const;
  Result<std::vector<float>> RunOnce(const Call& call, const std::string& log,
                                     const std::stop_token& stop,
                                     std::unique_ptr<TrainerWorker>& worker) const;
  // Ok: whoever was asked says that it wrote `file`. What it printed is in `log`, or the worker's.
  Status RunCommand(const Call& call, const std::string& file, const std::string& log,
                    const std::stop_token& stop) const;
  Status AskWorker(const Call& call, const std::string& file, const std::stop_token& stop,
                   std::unique_ptr<TrainerWorker>& worker) const;
  Result<std::unique_ptr<TrainerWorker>> TakeWorker() const;
  void RetireWorkers() const;

  Result<std::vector<float>> Train(std::int64_t row) const;
  Result<std::vector<float>> TrainReally(const std::vector<std::int64_t>& left_out,
                                         int number) const;
  // What a process that had nothing else to do made.
  struct Alone {
    std::int64_t row;
    std::vector<float> parameters;
  };
  Status CheckThatNothingIsKept(std::vector<Alone> asked) const;

  const Job& job_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<TrainerWorker>> idle_;  // under mutex_
  mutable std::int64_t started_ = 0;                          // under mutex_
};

}  // namespace lucid
