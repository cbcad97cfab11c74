// Networks trained by a command of the user's (EnsembleOptions::trainer).
#pragma once

#include "ensemble/builder.h"

namespace lucid {

// A training that fails is tried once more, and ends no others. Each command has a file to write and a log in RUN/trainer while it runs; both are removed once
// the network is good, and the log is named in the error otherwise. A stop ends the command's whole
// process group.
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
  // left out both by LUCID_LEAVE_OUT and by a file that really lacks their rows, its lines in
  // another order. Errors: a command that is unseeded, that ignores LUCID_LEAVE_OUT, that depends
  // on the order of the rows, or that leaves out something else; of Make.
  Status Check() const;

 private:
  // One run of the command. `name`: of its log and file.
  struct Call {
    std::string data, left_out, name, what;
    std::int64_t rows = 0;
  };
  Result<std::vector<float>> Run(const Call& call, const std::stop_token& stop) const;
  Call CallFor(std::int64_t row) const;
  std::string Folder() const;
  std::string RowsOfUnit(std::int64_t row) const;
  const Job& job_;
};

}  // namespace lucid
