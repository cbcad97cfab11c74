#include "certify/earlier_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <variant>

#include "base/files.h"
#include "certificate/proof_reader.h"
#include "lucid/certificate/proof.h"

namespace lucid {
namespace {

namespace fs = std::filesystem;

bool IsFile(const std::string& path, const Digest& digest) {
  const Result<Digest> found = Sha256OfFile(path);
  return found.ok() && *found == digest;
}

// A second name for the file: who replaces the first one leaves this one alone.
Status Link(const std::string& from, const std::string& to) {
  std::error_code code;
  fs::create_hard_link(from, to, code);
  if (!code) return Ok();
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, code);  // no links there
  if (!code) return Ok();
  return IoError(fmt::format("cannot keep '{}' as '{}': {}", from, to, code.message()));
}

bool NoTighter(const Certificate& a, const Certificate& b) {
  return std::ranges::equal(a.classes, b.classes, [](const ClassBound& x, const ClassBound& y) {
    return x.beta_upper >= y.beta_upper;
  });
}

}  // namespace

Result<EarlierBounds> EarlierBounds::Find(const std::string& path, const std::string& proof,
                                          const Ensemble& ensemble, DomainKind domain) {
  EarlierBounds bounds;
  bounds.proof_ = proof;
  bounds.kept_ = proof.empty() ? "" : proof + ".kept";
  const Result<Certificate> found = LoadCertificate(path);
  const Manifest& manifest = ensemble.manifest();
  if (!found.ok() || found->run_key != manifest.run_key ||
      found->ensemble_digest != manifest.ensemble_digest ||
      found->schema_digest != manifest.schema_digest || found->members != ensemble.members() ||
      found->network_digest != ensemble.network().digest() || found->domain != domain ||
      std::ssize(found->classes) != manifest.schema.classes()) {
    return bounds;
  }
  // A bound that nothing proves may come from a version with a mistake, or from anybody's hand.
  if (!found->proof) return bounds;
  const fs::path file = fs::path(path).parent_path() / found->proof->file;
  if (proof.empty()) {
    if (IsFile(file.string(), found->proof->digest)) bounds.earlier_ = *found;
    return bounds;
  }
  // Killed between the new proof and its certificate: the earlier proof is there by its other name.
  if (IsFile(bounds.kept_, found->proof->digest)) {
    LUCID_TRY(RenameDurably(bounds.kept_, proof));
  }
  std::error_code ignored;
  fs::remove(bounds.kept_, ignored);
  if (file != fs::path(proof) || !IsFile(proof, found->proof->digest)) return bounds;
  LUCID_TRY(Link(proof, bounds.kept_));
  bounds.earlier_ = *found;
  return bounds;
}

Result<std::vector<std::int32_t>> EarlierBounds::Improve(Certificate& made, double gap) {
  if (!earlier_) return std::vector<std::int32_t>();
  const Certificate& earlier = *earlier_;
  std::vector<std::int32_t> stay;
  std::vector<bool> keep;
  const bool mixable = made.proof.has_value() && earlier.member_error == made.member_error &&
                       earlier.network_error == made.network_error;
  const bool whole = !mixable && NoTighter(made, earlier);
  for (std::size_t c = 0; c < made.classes.size(); ++c) {
    const ClassBound &old = earlier.classes[c], &now = made.classes[c];
    keep.push_back((mixable || whole) && old.beta_upper <= now.beta_upper);
    if (keep.back() && old.beta_upper < now.beta_upper) {
      stay.push_back(static_cast<std::int32_t>(c));
    }
  }
  LUCID_TRY(MixProofs(keep, made));
  bool all = true, lower_found = false;
  for (std::size_t c = 0; c < made.classes.size(); ++c) {
    const ClassBound& old = earlier.classes[c];
    ClassBound& now = made.classes[c];
    ClassBound best = keep[c] ? old : now;
    const ClassBound& other = keep[c] ? now : old;
    if (other.beta_lower > best.beta_lower) {
      best.beta_lower = other.beta_lower;
      best.witness = other.witness;
      lower_found = lower_found || keep[c];
    }
    if (best.beta_lower > best.beta_upper) {
      return InternalError(fmt::format(
          "class {}: a witness at {} contradicts the proved bound {}: one of two searches is wrong",
          c, best.beta_lower, best.beta_upper));
    }
    if (best.status == BoundStatus::kDeadline && best.Gap() <= gap) best.status = BoundStatus::kGap;
    all = all && keep[c];
    now = std::move(best);
  }
  // Nothing is new: the file stays as it is, and with it the checker's receipt.
  if (all && !lower_found && earlier.declared == made.declared) made = earlier;
  return stay;
}

Status EarlierBounds::MixProofs(const std::vector<bool>& keep, Certificate& made) const {
  if (std::ranges::all_of(keep, std::identity())) {
    made.proof = earlier_->proof;
    return kept_.empty() ? Ok() : RenameDurably(kept_, proof_);
  }
  if (std::ranges::any_of(keep, std::identity())) {
    LUCID_ASSIGN(const ProofFile old, ProofFile::Open(kept_));
    LUCID_ASSIGN(const ProofFile now, ProofFile::Open(proof_));
    if (!(old.header() == now.header())) {
      return InternalError("two proofs of one run have different headers");
    }
    LUCID_ASSIGN(ProofWriter writer, ProofWriter::Create(proof_, now.header()));
    for (const bool kept : {true, false}) {
      const ProofFile& file = kept ? old : now;
      for (std::size_t block = 0; block < file.blocks(); ++block) {
        LUCID_ASSIGN(const std::vector<ProofRecord> records, file.ReadBlock(block));
        for (const ProofRecord& record : records) {
          if (keep[static_cast<std::size_t>(record.label)] != kept) continue;
          LUCID_TRY(std::visit([&](const auto& what) { return writer.Add(record.label, what); },
                               record.what));
        }
      }
    }
    LUCID_TRY(writer.Finish());
    LUCID_ASSIGN(made.proof->digest, Sha256OfFile(proof_));
    made.proof->bytes = static_cast<std::int64_t>(fs::file_size(proof_));
  }
  std::error_code ignored;
  fs::remove(kept_, ignored);
  return Ok();
}

}  // namespace lucid
