#include "serve/service.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "admission/tls.h"
#include "base/files.h"
#include "lucid/base/version.h"
#include "lucid/certificate/receipt.h"
#include "lucid/ensemble/ensemble.h"
#include "serve/admin_site.h"

namespace lucid {

// At epsilon 0 answers cost nothing, nor do they under `full`, unless `labels` is wanted beside it.
bool ServiceLoader::NeedsLedger(const Manifest& manifest) const {
  if (options_.guard.epsilon == 0) return false;
  const bool wants_labels =
      options_.promise == WantedPromise::kLabels || options_.promise == WantedPromise::kBoth;
  const bool declared = options_.guard.guard == GuardKind::kScalar && HasDeclaredAccess(manifest);
  return !declared || wants_labels;
}

// A run with declared bounds opens whatever its certificate says, or clients would learn from it.
Result<Promise> ServiceLoader::CheckPromise(const Manifest& manifest) {
  const std::string path =
      options_.certificate.empty() ? PathIn(options_.run, kCertificateFile) : options_.certificate;
  const bool scalar = options_.guard.guard == GuardKind::kScalar;
  const bool declared = scalar && HasDeclaredAccess(manifest);
  const bool with_ledger = NeedsLedger(manifest);
  if (!declared && with_ledger && options_.ledger.empty()) {
    return InvalidInput(
        fmt::format("epsilon {}: above 0 every answer is charged to a ledger: give one (the "
                    "option ledger, a file or postgresql://...), which lucid ledger init makes",
                    options_.guard.epsilon));
  }
  const Result<Certificate> certificate = LoadCertificate(path);
  if (!certificate.ok() && !declared) {
    return certificate.error().kind == ErrorKind::kIo && !std::filesystem::exists(path)
               ? InvalidInput(fmt::format("no '{}': lucid bound {} makes it", path, options_.run))
               : certificate.error();
  }
  bool trusted = true;
  if (certificate.ok()) {
    const Result<Standing> known = StandingOf(path);  // never a reason not to open
    const Standing standing = known.ok() ? *known : Standing::kUnproved;
    state_.log.Event("info", fmt::format("standing: {}", NameOf(standing)));
    trusted = standing == Standing::kChecked || options_.unchecked;
    if (!declared && !trusted) {
      return Mismatch(
          fmt::format("'{}': its bounds are {}: run lucid-check {} --run {} first, or serve with "
                      "the option unchecked",
                      path, NameOf(standing), path, options_.run));
    }
  }
  const AccessTerms access{.scalar = scalar,
                           .domain = options_.guard.domain,
                           .epsilon = options_.guard.epsilon,
                           .counted = with_ledger && !options_.ledger.empty(),
                           .trusted = trusted,
                           .only_if_certified = options_.promise == WantedPromise::kLabels ||
                                                options_.promise == WantedPromise::kBoth};
  Promise promise = PromiseOf(manifest, certificate.ok() ? &*certificate : nullptr, access);
  LUCID_TRY(promise.Require(options_.promise));
  return promise;
}

Status ServiceLoader::OpenKey(bool with_ledger) {
  if (key_) return Ok();
  if (std::filesystem::exists(options_.key_file)) {
    LUCID_ASSIGN(key_, GuardKey::Load(options_.key_file));
    return Ok();
  }
  // What a ledger has charged is named by its key: with a new one all of it would be charged again.
  if (with_ledger) {
    return InvalidInput(fmt::format(
        "there is no guard key '{}': a new ledger's is made with it (lucid ledger init); beside a "
        "ledger that is there belongs the key of the servers that charged it",
        options_.key_file));
  }
  // No key is made for a run that cannot be served: a guard needs one to be tried.
  LUCID_TRY(Guard::Open(options_.run, options_.certificate, options_.guard, GuardKey::Random()));
  LUCID_ASSIGN(key_, GuardKey::LoadOrCreate(options_.key_file));
  return Ok();
}

Status ServiceLoader::OpenLedger() {
  LedgerOptions options{.location = options_.ledger,
                        .population = population_,
                        .guard_key = key_->Name(),
                        .overall_budget = {},
                        .mark = options_.ledger_mark.value_or(options_.key_file + ".ledger")};
  if (options_.budget) {
    LUCID_ASSIGN(options.overall_budget, EpsilonUnits::RoundedDown(*options_.budget));
  }
  LUCID_ASSIGN(Ledger ledger, Ledger::Open(options));
  ledger_ = std::make_shared<Ledger>(std::move(ledger));
  return Ok();
}

// A ledger is about one population, so what it is for is known only with the run.
Status ServiceLoader::OpenFiles(const Digest& population, bool with_ledger) {
  if (opened_) {
    if (population != population_) {
      return Mismatch(
          fmt::format("{}: the run is of another population than the one that is served: stop the "
                      "server and start it anew",
                      options_.run));
    }
    if (with_ledger == (ledger_ != nullptr)) return Ok();
    return Mismatch(
        fmt::format("{}: its answers {} be charged to a ledger, unlike those of the "
                    "run that is served: stop the server and start it anew",
                    options_.run, with_ledger ? "have to" : "need not"));
  }
  population_ = population;
  if (with_ledger) LUCID_TRY(OpenLedger());
  if (!with_ledger && !options_.ledger.empty()) {
    state_.log.Event("info", "answers cost nothing here: the ledger is not opened");
  }
  if (options_.memo == MemoKind::kDictionary) {
    LUCID_ASSIGN(AnswerMemo memo, AnswerMemo::Open({options_.memo_file, options_.memo_limit}));
    memo_ = std::make_shared<AnswerMemo>(std::move(memo));
  }
  opened_ = true;
  return Ok();
}

Result<std::shared_ptr<const Service>> ServiceLoader::Load() {
  auto service = std::make_shared<Service>();
  std::shared_ptr<const ApiKeys> keys;
  if (!options_.api_keys.empty()) {
    LUCID_ASSIGN(ApiKeys loaded, ApiKeys::Load(options_.api_keys));
    keys = std::make_shared<const ApiKeys>(std::move(loaded));
  }
  if (!options_.tls_certificate.empty()) {
    LUCID_ASSIGN(ServerTls tls,
                 LoadTls(options_.tls_certificate, options_.tls_key, options_.tls_client_ca));
    service->tls = std::make_shared<const ServerTls>(std::move(tls));
  }
  std::optional<AdminToken> token;
  if (!options_.admin_token.empty()) {
    LUCID_ASSIGN(token, AdminToken::Load(options_.admin_token));
  }
  LUCID_TRY(CheckOwnerOnly(options_.run));
  LUCID_ASSIGN(const RunNetwork run, OpenRunNetwork(options_.run));
  LUCID_ASSIGN(Promise promise, CheckPromise(run.manifest));
  const bool with_ledger = NeedsLedger(run.manifest) && !options_.ledger.empty();
  LUCID_TRY(OpenKey(with_ledger));
  LUCID_ASSIGN(Guard opened,
               Guard::Open(options_.run, options_.certificate, options_.guard, *key_));
  const auto guard = std::make_shared<const Guard>(std::move(opened));
  LUCID_TRY(OpenFiles(PopulationOf(run.manifest), with_ledger));
  LUCID_ASSIGN(const auto labeller, GuardLabeller::Create(guard, ledger_, memo_, state_.queue));
  const LabelRequestLimits limits{options_.limits.rows,
                                  static_cast<int>(options_.limits.json_depth)};
  service->sites = {
      std::make_shared<PublicSite>(
          PublicSiteOptions{options_.name, limits, options_.rate, options_.limits.body_bytes},
          guard->schema(), labeller, keys, state_),
      MakeAdminSite(guard, promise, token,
                    keys == nullptr ? 0 : static_cast<std::int64_t>(keys->entries().size())),
  };
  state_.log.Event("info", "promise: " + promise.Title());
  for (const std::string& warning : guard->Warnings()) state_.log.Event("warning", warning);
  return std::shared_ptr<const Service>(std::move(service));
}

std::shared_ptr<const Site> ServiceLoader::MakeAdminSite(std::shared_ptr<const Guard> guard,
                                                         Promise promise,
                                                         std::optional<AdminToken> token,
                                                         std::int64_t api_keys) {
  auto status_source = [this, guard = std::move(guard), promise = std::move(promise),
                        api_keys](const auto& done) {
    using std::chrono::floor, std::chrono::seconds, std::chrono::system_clock;
    ServerStatus status;
    status.model = options_.name;
    status.version = Version();
    status.draining = state_.draining;
    status.ready = !status.draining;
    {
      const std::lock_guard lock(note_mutex_);
      status.note = note_;
    }
    status.now = floor<seconds>(system_clock::now());
    status.memo = memo_ == nullptr ? "stateless" : "dictionary";
    status.guard = guard.get();
    status.promise = &promise;
    status.metrics = &state_.metrics;
    status.metrics_now = Metrics::Clock::now();
    if (ledger_ != nullptr) status.budget = ledger_->totals();
    status.api_keys = api_keys;
    done(status);
  };
  return std::make_shared<AdminSite>(options_.admin_hosts, token, std::move(status_source));
}

void ServiceLoader::Settle() {
  if (memo_ != nullptr) memo_->Settle();  // its callbacks ask the ledger
  if (ledger_ != nullptr) ledger_->Settle();
}

void ServiceLoader::SetNote(std::string note) {
  const std::lock_guard lock(note_mutex_);
  note_ = std::move(note);
}

}  // namespace lucid
