// Networks trained by a command of the user's (EnsembleOptions::trainer).
#pragma once

#include "ensemble/builder.h"

namespace lucid {

// Each command has a file to write and a log in RUN/trainer while it runs; both are removed once
// the network is good, and the log is named in the error otherwise. A stop ends the command's whole
// process group.
class CommandSource final : public NetworkSource {
 public:
  explicit CommandSource(const Job& job) : job_(job) {}
  ~CommandSource() override;
  CommandSource(const CommandSource&) = delete;
  CommandSource& operator=(const CommandSource&) = delete;

  std::string verb() const override { return "training"; }
  std::string name() const override { return "command"; }
  Status Make(std::span<const std::int64_t> left_out, std::span<float> out,
              std::stop_token stop) const override;

 private:
  std::string Folder() const;
  const Job& job_;
};

}  // namespace lucid
