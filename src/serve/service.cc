#include "serve/service.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "lucid/base/version.h"
#include "lucid/certificate/receipt.h"
#include "lucid/ensemble/ensemble.h"
#include "serve/admin_site.h"
#include "serve/tls.h"

namespace lucid {

// A run with declared bounds opens whatever its certificate says, or clients would learn from it.
Result<Promise> ServiceLoader::CheckPromise(const Manifest& manifest) {
  const std::string path =
      options_.certificate.empty() ? PathIn(options_.run, kCertificateFile) : options_.certificate;
  const bool scalar = options_.guard.guard == GuardKind::kScalar;
  const bool declared = scalar && HasDeclaredAccess(manifest);
  if (!declared && options_.guard.epsilon > 0 && options_.ledger.empty()) {
    return InvalidInput(fmt::format(
        "epsilon {}: above 0 every answer is charged to a ledger: give one (--ledger FILE)",
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
                      "--unchecked",
                      path, NameOf(standing), path, options_.run));
    }
  }
  const AccessTerms access{.scalar = scalar,
                           .domain = options_.guard.domain.value_or(DomainKind::kBox),
                           .epsilon = options_.guard.epsilon,
                           .counted = !options_.ledger.empty(),
                           .trusted = trusted,
                           .only_if_certified = options_.promise == WantedPromise::kLabels ||
                                                options_.promise == WantedPromise::kBoth};
  Promise promise = PromiseOf(manifest, certificate.ok() ? &*certificate : nullptr, access);
  LUCID_TRY(promise.Require(options_.promise));
  return promise;
}

Status ServiceLoader::OpenKey() {
  if (key_) return Ok();
  // No key is made for a run that cannot be served: a guard needs one to be tried.
  if (!std::filesystem::exists(options_.key_file)) {
    LUCID_TRY(Guard::Open(options_.run, options_.certificate, options_.guard, GuardKey::Random()));
  }
  LUCID_ASSIGN(key_, GuardKey::LoadOrCreate(options_.key_file));
  return Ok();
}

// A ledger is about one population, so what it is for is known only with the run.
Status ServiceLoader::OpenFiles(const Digest& population) {
  if (opened_) {
    if (population == population_) return Ok();
    return Mismatch(
        fmt::format("{}: the run is of another population than the one that is served: stop the "
                    "server and start it anew",
                    options_.run));
  }
  population_ = population;
  if (options_.guard.epsilon > 0 && !options_.ledger.empty()) {
    LedgerOptions options{options_.ledger, population_, std::nullopt};
    if (options_.budget) {
      LUCID_ASSIGN(options.overall_budget, EpsilonUnits::RoundedDown(*options_.budget));
    }
    LUCID_ASSIGN(Ledger ledger, Ledger::Open(options));
    ledger_ = std::make_shared<Ledger>(std::move(ledger));
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
    LUCID_ASSIGN(service->tls, LoadTls(options_.tls_certificate, options_.tls_key));
  }
  LUCID_TRY(CheckOwnerOnly(options_.run));
  LUCID_ASSIGN(const RunNetwork run, OpenRunNetwork(options_.run));
  LUCID_ASSIGN(Promise promise, CheckPromise(run.manifest));
  LUCID_TRY(OpenKey());
  LUCID_ASSIGN(Guard opened,
               Guard::Open(options_.run, options_.certificate, options_.guard, *key_));
  const auto guard = std::make_shared<const Guard>(std::move(opened));
  LUCID_TRY(OpenFiles(PopulationOf(run.manifest)));
  LUCID_ASSIGN(const auto labeller, GuardLabeller::Create(guard, ledger_, memo_, state_.queue));
  const LabelRequestLimits limits{options_.limits.rows,
                                  static_cast<int>(options_.limits.json_depth)};
  service->sites = {
      std::make_shared<PublicSite>(
          PublicSiteOptions{options_.name, limits, options_.rate, options_.limits.body_bytes},
          guard->schema(), labeller, keys, state_),
      MakeAdminSite(guard, promise,
                    keys == nullptr ? 0 : static_cast<std::int64_t>(keys->entries().size())),
  };
  state_.log.Event("info", "promise: " + promise.Title());
  for (const std::string& warning : guard->Warnings()) state_.log.Event("warning", warning);
  return std::shared_ptr<const Service>(std::move(service));
}

std::shared_ptr<const Site> ServiceLoader::MakeAdminSite(std::shared_ptr<const Guard> guard,
                                                         Promise promise, std::int64_t api_keys) {
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
  return std::make_shared<AdminSite>(options_.admin_hosts, std::move(status_source));
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
