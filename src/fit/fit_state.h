// How far a fit got, in RUN/fit.json: what was asked for, and the stages that need not be repeated.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/fit/fit.h"

namespace lucid {

std::string_view NameOf(WantedPromise promise);  // "labels", "full", "both"

class FitState {
 public:
  FitState() = default;

  // Makes the folder and its file, or reads the file that is there. Errors: a folder that holds a
  // run that no fit made; a fit of other options or of another CSV, naming the first difference.
  static Result<FitState> Open(const FitOptions& options, const std::string& run);

  bool IsDone(const std::string& stage) const { return done_.contains(stage); }
  Status Finish(const std::string& stage);
  // Lets go of a folder in which nothing was trained yet. Does nothing where something was.
  void Abandon() const;

 private:
  // What determines the result, by name.
  using Arguments = std::vector<std::pair<std::string, std::string>>;

  Status Save() const;

  std::string run_, path_;
  Arguments arguments_;
  std::set<std::string> done_;
};

}  // namespace lucid
