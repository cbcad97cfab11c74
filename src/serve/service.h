// What a server answers with, read from files: at the start, and again at every reload.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "admission/admin_token.h"
#include "guard/answer_memo.h"
#include "lucid/guard/guard.h"
#include "lucid/guard/ledger.h"
#include "lucid/promise/promise.h"
#include "lucid/serve/server.h"
#include "serve/public_site.h"
#include "serve/worker.h"

namespace lucid {

// Loads services. What must not change while the server runs is opened once and kept: the guard's
// key, the ledger, the dictionary.
class ServiceLoader {
 public:
  // Keeps references.
  ServiceLoader(const ServeOptions& options, SiteState& state) : options_(options), state_(state) {}

  // Everything anew, or an error that names the file. The first time, files that are not there yet
  // are made when all others were read. Logs what the certificate does not promise. Not
  // thread-safe.
  Result<std::shared_ptr<const Service>> Load();

  // Waits until ledger and dictionary have called back everybody: they do so on threads of their
  // own, which use the event loops of those who asked. Call when nobody asks any more.
  void Settle();

  // What the console shows beside "ready": why the last reload failed. Thread-safe.
  void SetNote(std::string note);

 private:
  // What the run promises through this server. Errors: bounds that nobody checked, a ledger that is
  // missing, a promise that is not kept.
  Result<Promise> CheckPromise(const Manifest& manifest);
  // Whether answers of this run have to be charged to keep what is promised.
  bool NeedsLedger(const Manifest& manifest) const;
  Status OpenKey(bool with_ledger);
  Status OpenLedger();
  Status OpenFiles(const Digest& population, bool with_ledger);
  std::shared_ptr<const Site> MakeAdminSite(std::shared_ptr<const Guard> guard, Promise promise,
                                            std::optional<AdminToken> token, std::int64_t api_keys);

  const ServeOptions& options_;
  std::optional<GuardKey> key_;  // as of the first Load
  SiteState& state_;
  std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<AnswerMemo> memo_;
  Digest population_;  // whose budget the ledger counts
  bool opened_ = false;
  std::mutex note_mutex_;
  std::string note_;
};

}  // namespace lucid
