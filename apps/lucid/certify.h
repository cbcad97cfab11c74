// What `lucid bound` and `lucid demo` leave in a run folder beside the certificate.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "command.h"
#include "lucid/certificate/certificate.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/report/bound_steps.h"
#include "lucid/verify/bound.h"

namespace lucid::app {

// Records how bounds change. `options` may call it from any thread while this lives.
class BoundRecorder {
 public:
  void Listen(BoundOptions& options);
  // RUN/bounds.csv. The last step of every class is what the certificate says.
  Status Save(const std::string& run, const Certificate& certificate);

 private:
  std::mutex mutex_;
  std::vector<BoundStep> steps_;
};

struct GuardParts {
  bool index = true, spatial = true;
  SpatialOptions spatial_options;  // its threads do not count
};

// What the guards beyond the scalar one need: files beside the run, their digests in the
// certificate (which is not saved here).
Status BuildGuardParts(const Session& session, const GuardParts& parts, const Ensemble& ensemble,
                       const std::string& run, Certificate& certificate);

}  // namespace lucid::app
