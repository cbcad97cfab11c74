#include "lucid/guard/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "guard/draw_source.h"
#include "guard/packed_networks.h"
#include "guard/sodium.h"
#include "lucid/certificate/spatial.h"
#include "lucid/data/domain.h"
#include "lucid/data/encoder.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/member_index.h"
#include "lucid/promise/promise.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

// What an answer is drawn by.
struct Terms {
  Mechanism mechanism;
  DrawSource draws;
};

Result<Terms> TermsFor(MechanismKind kind, double epsilon, const Network& network,
                       const NoisedSet& noised, const GuardKey& key) {
  LUCID_ASSIGN(Mechanism mechanism,
               Mechanism::Create(kind, epsilon, network.architecture.classes()));
  DrawSource draws(key, network.digest(), noised, mechanism);
  return Terms{mechanism, std::move(draws)};
}

Status CheckCertificate(const Network& network, const Certificate& certificate,
                        const Schema& schema, std::optional<DomainKind> domain) {
  if (certificate.network_digest != network.digest()) {
    return Mismatch("the certificate is not of this network");
  }
  if (certificate.schema_digest != Sha256Of(schema.Canonical())) {
    return Mismatch("the certificate is not of this schema");
  }
  if (domain && *domain != certificate.domain) {
    return Mismatch(fmt::format("the certificate is for the domain {}, not for {}",
                                NameOf(certificate.domain), NameOf(*domain)));
  }
  return Ok();
}

Status CheckNetwork(const Network& network, const Schema& schema) {
  if (schema.features() != network.architecture.inputs() ||
      schema.classes() != network.architecture.classes()) {
    return Mismatch(fmt::format("the schema has {} features and {} classes, the network {} and {}",
                                schema.features(), schema.classes(), network.architecture.inputs(),
                                network.architecture.classes()));
  }
  return Ok();
}

// `part` is the one that the certificate names.
template <typename Part>
Status CheckPart(const Part* part, const std::optional<Digest>& named, std::string_view what,
                 std::string_view guard) {
  if (!named) {
    return InvalidInput(
        fmt::format("the {} guard needs {}, and the certificate names none: lucid bound RUN "
                    "--index --spatial makes both",
                    guard, what));
  }
  if (part == nullptr) {
    return InvalidInput(fmt::format("the {} guard needs {}, and was given none", guard, what));
  }
  if (part->digest() != *named) {
    return Mismatch(fmt::format("the digest of {} is {}, and the certificate names {}", what,
                                part->digest().Hex().substr(0, 16), named->Hex().substr(0, 16)));
  }
  return Ok();
}

// The parts that the guard uses, checked.
Result<Guard::Parts> PartsFor(GuardKind guard, const Certificate& certificate,
                              const Guard::Parts& given) {
  Guard::Parts parts;
  if (guard == GuardKind::kExact) {
    LUCID_TRY(CheckPart(given.index.get(), certificate.index_digest, "the index of members",
                        NameOf(guard)));
    parts.index = given.index;
  }
  const bool wants_spatial =
      guard == GuardKind::kSpatial || (guard == GuardKind::kExact && given.spatial != nullptr);
  if (wants_spatial) {
    LUCID_TRY(CheckPart(given.spatial.get(), certificate.spatial_digest, "the spatial bounds",
                        NameOf(guard)));
    parts.spatial = given.spatial;
  }
  return parts;
}

// Features that the grid rounds: those of groups have few values as it is, and must keep them.
std::vector<std::size_t> FreeFeatures(const Domain& domain) {
  std::vector<std::size_t> free;
  for (std::int64_t j = 0; j < domain.features(); ++j) {
    if (domain.IsFree(j)) free.push_back(static_cast<std::size_t>(j));
  }
  return free;
}

bool InBox(std::span<const float> x) {
  unsigned outside = 0;
  for (const float value : x) outside |= static_cast<unsigned>(!(value >= 0 && value <= 1));
  return outside == 0;
}

}  // namespace

std::string_view NameOf(GuardKind kind) {
  switch (kind) {
    case GuardKind::kScalar:
      return "scalar";
    case GuardKind::kSpatial:
      return "spatial";
    default:
      return "exact";
  }
}

Result<GuardKind> GuardNamed(std::string_view name) {
  for (const GuardKind kind : {GuardKind::kScalar, GuardKind::kSpatial, GuardKind::kExact}) {
    if (NameOf(kind) == name) return kind;
  }
  return InvalidInput(fmt::format("guard '{}' is not one of: scalar, spatial, exact", name));
}

Status GuardOptions::Validate() const {
  if (!std::isfinite(epsilon) || epsilon < 0) {
    return InvalidInput(fmt::format("epsilon is {}, must be a finite number >= 0", epsilon));
  }
  if (grid_bits < 0 || grid_bits > 23) {
    return InvalidInput(fmt::format("grid_bits is {}, must be 0 (no grid) to 23", grid_bits));
  }
  return Ok();
}

struct Guard::Impl {
  std::optional<Certificate> certificate;  // none: the bounds are declared
  double network_error;                    // of N's computed confidence
  Schema schema;
  Domain domain;
  GuardOptions options;
  Terms left, spent;
  Parts parts;  // only those that the guard uses
  PackedNetworks network;
  std::vector<double> bounds;
  std::vector<std::size_t> free_features;
  Encoder encoder;

  const Terms& For(Budget budget) const { return budget == Budget::kLeft ? left : spent; }

  // Whether x may be asked.
  bool Covers(std::span<const float> x) const {
    return std::ssize(x) == domain.features() && InBox(x) &&
           (domain.groups().empty() || domain.Contains(x).ok());
  }

  // Whether x is noised: it is not proved that every member gives x the label of `decision`, which
  // is N's. Scalar and spatial guards take one path for all inputs of a class.
  bool Noised(const Decision& decision, std::span<const float> x) const {
    if (!Covers(x)) return true;  // nothing is known of inputs that should have been refused
    // A lower bound of f(x). It may be NaN after an overflow, and NaN is above no bound.
    const double at_least = NextDown(decision.confidence - network_error);
    double bound = bounds[decision.label];
    if (parts.spatial) bound = std::min(bound, parts.spatial->Bound(decision.label, x));
    const bool proved = at_least > bound;
    if (!parts.index || proved) return !proved;
    return parts.index->AnyMemberDisagrees(x);
  }

  GuardedAnswer Answer(const Decision& decision, std::span<const float> x, Budget budget,
                       const Draw& draw) const {
    const bool noised = Noised(decision, x);
    return {For(budget).mechanism.Answer(decision.label, noised, draw), noised};
  }

  Decision Decide(std::span<const float> x) const {
    thread_local PassMemory memory;
    network.SetInput(x, memory);
    return DecisionOf(network.Logits(0, memory));
  }
};

Guard::Guard(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Guard::~Guard() = default;
Guard::Guard(Guard&&) noexcept = default;
Guard& Guard::operator=(Guard&&) noexcept = default;

Result<Guard> Guard::Create(const Network& network, const VerifiedCertificate& verified,
                            const Schema& schema, const GuardOptions& options, const GuardKey& key,
                            const Parts& parts) {
  LUCID_TRY(options.Validate());
  const Certificate& certificate = verified.certificate();
  LUCID_TRY(CheckCertificate(network, certificate, schema, options.domain));
  LUCID_ASSIGN(Parts used, PartsFor(options.guard, certificate, parts));
  std::vector<double> bounds;
  for (const ClassBound& bound : certificate.classes) bounds.push_back(verified.beta(bound.label));
  return Make(network, schema, certificate.domain, certificate.network_error, std::move(bounds),
              certificate, std::move(used), options, key);
}

Result<Guard> Guard::CreateDeclared(const RunNetwork& run, const GuardOptions& options,
                                    const GuardKey& key) {
  LUCID_TRY(options.Validate());
  if (!HasDeclaredAccess(run.manifest)) {
    return Mismatch("the run is not private, or declared no bounds: its guard needs a certificate");
  }
  if (options.guard != GuardKind::kScalar) {
    return InvalidInput(
        fmt::format("declared bounds are for the scalar guard, not for {}", NameOf(options.guard)));
  }
  const std::vector<double> bounds(static_cast<std::size_t>(run.manifest.schema.classes()),
                                   run.manifest.declared->bound());
  return Make(
      run.network, run.manifest.schema, options.domain.value_or(DefaultDomain(run.manifest.schema)),
      Evaluator(run.network).ConfidenceErrorBound(), bounds, std::nullopt, {}, options, key);
}

// What both ways to a guard have in common.
Result<Guard> Guard::Make(const Network& network, const Schema& schema, DomainKind domain_kind,
                          double network_error, std::vector<double> bounds,
                          std::optional<Certificate> certificate, Parts parts,
                          const GuardOptions& options, const GuardKey& key) {
  LUCID_TRY(PrepareSodium());
  LUCID_TRY(CheckNetwork(network, schema));
  Domain domain = Domain::Of(domain_kind, schema);
  const NoisedSet noised{options.guard, bounds, parts.spatial ? parts.spatial->digest() : Digest(),
                         parts.index ? parts.index->digest() : Digest()};
  LUCID_ASSIGN(Terms left, TermsFor(options.mechanism, options.epsilon, network, noised, key));
  LUCID_ASSIGN(Terms spent, TermsFor(options.mechanism, 0, network, noised, key));
  PackedNetworks packed(network.architecture, 1);
  LUCID_TRY(packed.Set(0, network.parameters));
  std::vector<std::size_t> free = FreeFeatures(domain);
  return Guard(std::make_unique<const Impl>(
      Impl{std::move(certificate), network_error, schema, std::move(domain), options,
           std::move(left), std::move(spent), std::move(parts), std::move(packed),
           std::move(bounds), std::move(free), Encoder(schema)}));
}

std::int64_t Guard::features() const { return impl_->schema.features(); }
std::int64_t Guard::classes() const { return impl_->schema.classes(); }
const Schema& Guard::schema() const { return impl_->schema; }
const Certificate* Guard::certificate() const {
  return impl_->certificate ? &*impl_->certificate : nullptr;
}
std::span<const double> Guard::bounds() const { return impl_->bounds; }
DomainKind Guard::domain() const { return impl_->domain.kind(); }
const GuardOptions& Guard::options() const { return impl_->options; }
const Mechanism& Guard::mechanism() const { return impl_->left.mechanism; }

Status Guard::Canonicalize(std::span<float> x) const {
  if (std::ssize(x) != features()) {
    return InvalidInput(fmt::format("the input has {} values, must have {}", x.size(), features()));
  }
  for (float& value : x) {
    // -0, subnormals, and cosines that came out below 0. (Above 1 there is no float32 within
    // kEncodingSlack.)
    const bool is_zero =
        value >= static_cast<float>(-kEncodingSlack) && value < std::numeric_limits<float>::min();
    if (is_zero) value = 0;
  }
  LUCID_TRY(impl_->domain.Contains(x));
  if (impl_->options.grid_bits == 0) return Ok();
  const float scale = std::ldexp(1.0F, impl_->options.grid_bits);  // products and quotients: exact
  for (const std::size_t j : impl_->free_features) x[j] = std::round(x[j] * scale) / scale;
  return Ok();
}

Result<std::int32_t> Guard::LabelRecord(std::span<const std::string_view> cells) const {
  std::vector<float> x(static_cast<std::size_t>(features()));
  LUCID_TRY(impl_->encoder.EncodeRow(cells, x));
  LUCID_TRY(Canonicalize(x));
  return Label(x);
}

GuardedAnswer Guard::Ask(std::span<const float> x, Budget budget) const {
  return Ask(x, budget, impl_->For(budget).draws.For(x));
}

GuardedAnswer Guard::Ask(std::span<const float> x, Budget budget, const Draw& draw) const {
  return impl_->Answer(impl_->Decide(x), x, budget, draw);
}

std::array<std::uint8_t, 16> Guard::Fingerprint(std::span<const float> x) const {
  return impl_->left.draws.Fingerprint(x);
}

std::vector<std::string> Guard::Warnings() const {
  std::vector<std::string> warnings;
  const Certificate* certificate = this->certificate();
  if (certificate != nullptr && certificate->partial) {
    warnings.push_back(
        fmt::format("the certificate is partial: the {} training rows without a leave-one-out "
                    "network (of {}) are not protected",
                    certificate->rows - certificate->members, certificate->rows));
  }
  for (std::size_t i = 0; i < bounds().size(); ++i) {
    if (std::isfinite(bounds()[i]) || options().guard != GuardKind::kScalar) continue;
    warnings.push_back(
        fmt::format("nothing is proved about class {} ({}): every answer that would be this class "
                    "is noised",
                    i, schema().label().categories[i]));
  }
  return warnings;
}

void Guard::AskBatch(std::span<const float> rows, std::span<GuardedAnswer> answers,
                     Budget budget) const {
  const auto width = static_cast<std::size_t>(features());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    answers[i] = Ask(rows.subspan(i * width, width), budget);
  }
}

void Guard::AskBatch(std::span<const float> rows, std::span<GuardedAnswer> answers,
                     std::span<const Budget> budgets, std::span<const Draw> draws) const {
  const auto width = static_cast<std::size_t>(features());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto x = rows.subspan(i * width, width);
    answers[i] = draws.empty() ? Ask(x, budgets[i]) : Ask(x, budgets[i], draws[i]);
  }
}

}  // namespace lucid
