// What a server answers with, read from files: at the start, and again at every reload.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "guard/answer_memo.h"
#include "guard/ledger.h"
#include "lucid/guard/guard.h"
#include "lucid/serve/server.h"
#include "serve/public_site.h"
#include "serve/worker.h"

namespace lucid {

// Loads services. What must not change while the server runs is opened once and kept: the guard's
// key, the ledger, the dictionary.
class ServiceLoader {
 public:
  // Reads nothing but the guard's key; keeps references.
  static Result<std::unique_ptr<ServiceLoader>> Create(const ServeOptions& options,
                                                       SiteState& state);

  // Everything anew, or an error that names the file. Not thread-safe.
  Result<std::shared_ptr<const Service>> Load();

  // What the console shows beside "ready": why the last reload failed. Thread-safe.
  void SetNote(std::string note);

 private:
  ServiceLoader(const ServeOptions& options, GuardKey key, SiteState& state);
  Status OpenFiles(const Certificate& certificate);
  std::shared_ptr<const Site> MakeAdminSite(std::shared_ptr<const Guard> guard,
                                            std::int64_t api_keys);

  const ServeOptions& options_;
  GuardKey key_;
  SiteState& state_;
  std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<AnswerMemo> memo_;
  Digest train_digest_;  // what the ledger is about
  bool opened_ = false;
  std::mutex note_mutex_;
  std::string note_;
};

}  // namespace lucid
