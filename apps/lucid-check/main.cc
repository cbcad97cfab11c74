// lucid-check: is this certificate to be believed? A program of its own, without the engines' code.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "lucid/check/accept.h"
#include "lucid/check/check.h"
#include "program.h"

namespace lucid::app {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string certificate, run;
  std::string level;  // empty: as far as there is something to check
  std::vector<std::string> proofs;
  FalsifyOptions falsify;
};

// Everything that was asked and answered; what was not is in it by name, too.
struct Verdict {
  CheckReport checks;
  std::vector<Check> beyond;  // checks of higher levels, which were not asked for
  std::vector<Leak> leaks;
  std::vector<std::optional<Leak>> largest;
  std::vector<double> beta;
  std::int64_t points = 0, ascents = 0;
};

Json ToJson(const Leak& d, double beta) {
  return {{"class", d.label},
          {"confidence", d.confidence},
          {"beta_upper", std::isfinite(beta) ? Json(beta) : Json(nullptr)},
          {"member", d.witness.member},
          {"row", d.witness.row},
          {"x", d.witness.x}};
}

Json ToJson(const Verdict& verdict, const Arguments& arguments) {
  Json json = {{"certificate", arguments.certificate},
               {"run", arguments.run},
               {"level", arguments.level},
               {"accepted", verdict.checks.accepted()}};
  json["checks"] = Json::array();
  for (const std::vector<Check>* list : {&verdict.checks.checks, &verdict.beyond}) {
    for (const Check& check : *list) {
      json["checks"].push_back(
          {{"name", check.name}, {"outcome", NameOf(check.outcome)}, {"detail", check.detail}});
    }
  }
  json["leaks"] = Json::array();
  for (const Leak& leak : verdict.leaks) {
    json["leaks"].push_back(ToJson(leak, verdict.beta[leak.label]));
  }
  json["largest"] = Json::array();
  for (const std::optional<Leak>& largest : verdict.largest) {
    json["largest"].push_back(largest.has_value() ? ToJson(*largest, verdict.beta[largest->label])
                                                  : Json(nullptr));
  }
  json["points"] = verdict.points;
  json["ascents"] = verdict.ascents;
  return json;
}

std::string ToText(const Verdict& verdict, const Arguments& arguments) {
  std::string text;
  if (const Check* problem = verdict.checks.FirstProblem(); problem != nullptr) {
    text = fmt::format("refused: {}: {}\n", problem->name, problem->detail);
  } else {
    text = fmt::format("accepted at level {}: {} checks passed\n", arguments.level,
                       verdict.checks.checks.size());
  }
  for (const Leak& leak : verdict.leaks) {
    text += fmt::format("leak: class {}, f = {}, beta = {}, member {}, row {}, x = [{}]\n",
                        leak.label, leak.confidence, verdict.beta[leak.label], leak.witness.member,
                        leak.witness.row, fmt::join(leak.witness.x, ", "));
  }
  for (const std::vector<Check>* list : {&verdict.checks.checks, &verdict.beyond}) {
    for (const Check& check : *list) {
      text += fmt::format("  {:<8}  {}{}{}\n", NameOf(check.outcome), check.name,
                          check.detail.empty() ? "" : ": ", check.detail);
    }
  }
  if (verdict.points > 0) {
    text += fmt::format("searched {} points against every member, {} ascents, seed {}\n",
                        verdict.points, verdict.ascents, arguments.falsify.seed);
  }
  return text;
}

Result<ExitCode> Show(const Session& session, const Verdict& verdict, const Arguments& arguments) {
  LUCID_TRY(session.json ? PrintJson(ToJson(verdict, arguments))
                         : Print(ToText(verdict, arguments)));
  return verdict.checks.accepted() ? kDone : kAnswerIsNo;
}

Check NotDone(std::string name, std::string why) {
  return {std::move(name), Check::Outcome::kNotDone, std::move(why)};
}

Status RunFalsify(const Session& session, const Certificate& certificate, const Ensemble& ensemble,
                  const FalsifyOptions& options, Verdict& verdict) {
  LUCID_ASSIGN(FalsifyReport report,
               Falsify(certificate, ensemble, options, session.Progress(), session.stop));
  std::ranges::move(report.checks.checks, std::back_inserter(verdict.checks.checks));
  verdict.leaks = std::move(report.leaks);
  verdict.largest = std::move(report.largest);
  verdict.points = report.points;
  verdict.ascents = report.ascents;
  return Ok();
}

// The proof is the one that was given, or the file that the certificate names, beside it.
std::vector<std::string> ProofsOf(const Arguments& arguments, const Certificate& certificate) {
  if (!arguments.proofs.empty() || !certificate.proof) return arguments.proofs;
  const std::filesystem::path folder = std::filesystem::path(arguments.certificate).parent_path();
  return {(folder / certificate.proof->file).string()};
}

// What was asked for besides the certificate, if it does not make sense. Nothing is checked then.
Status CheckArguments(const Arguments& arguments) {
  if (arguments.level == "proof" || arguments.proofs.empty()) return Ok();
  return InvalidInput(fmt::format(
      "--proof is for --level proof, not for --level {}: nothing was checked", arguments.level));
}

// The checks of the level that come after binding, and the names of those that were not asked for.
Status RunLevel(const Session& session, const Arguments& arguments, const Certificate& certificate,
                const Ensemble& ensemble, Verdict& verdict) {
  const Check no_search = NotDone("falsify", "no leak was looked for");
  const Check no_proof = NotDone("proof", "whether the bounds are true: no proof was checked");
  if (arguments.level == "binding") {
    verdict.beyond = {no_search, no_proof};
  } else if (arguments.level == "falsify") {
    verdict.beyond = {no_proof};
    return RunFalsify(session, certificate, ensemble, arguments.falsify, verdict);
  } else {
    verdict.beyond = {no_search};
    const std::vector<std::string> proofs = ProofsOf(arguments, certificate);
    if (proofs.empty()) {
      verdict.checks.checks.push_back(NotDone(
          "proof", fmt::format("the certificate names no proof, and no --proof was given; lucid "
                               "bound --engine native writes one (engine {})",
                               NameOf(certificate.engine))));
      return Ok();
    }
    verdict.checks.checks.push_back(CheckNamedProof(certificate, proofs));
    LUCID_ASSIGN(CheckReport proof, CheckProof(certificate, ensemble, proofs, {session.threads},
                                               session.Progress(), session.stop));
    std::ranges::move(proof.checks, std::back_inserter(verdict.checks.checks));
    LUCID_ASSIGN(CheckReport guards,
                 CheckGuardProofs(certificate, ensemble, arguments.run, {session.threads},
                                  session.Progress(), session.stop));
    std::ranges::move(guards.checks, std::back_inserter(verdict.checks.checks));
    if (verdict.checks.accepted())
      LUCID_TRY(LeaveReceipt(arguments.certificate, certificate, proofs));
  }
  return Ok();
}

Result<ExitCode> RunCheck(const Session& session, Arguments arguments) {
  arguments.falsify.threads = session.threads;
  arguments.falsify.seed = session.seed;
  LUCID_TRY(arguments.falsify.Validate());
  const Result<Certificate> certificate = LoadCertificate(arguments.certificate);
  Verdict verdict;
  const auto nothing_beyond = [&](const std::string& why) {
    verdict.beyond = {NotDone("falsify", why), NotDone("proof", why)};
  };
  if (!certificate.ok()) {
    if (certificate.error().kind == ErrorKind::kIo) return certificate.error();
    if (arguments.level.empty()) arguments.level = "proof";
    // A file that is no certificate is not accepted; that is an answer, not a usage error.
    verdict.checks.checks.push_back(
        {"certificate", Check::Outcome::kFailed, certificate.error().message});
    verdict.beyond = {NotDone("binding", "the certificate cannot be read"),
                      NotDone("falsify", "the certificate cannot be read"),
                      NotDone("proof", "the certificate cannot be read")};
    return Show(session, verdict, arguments);
  }
  if (arguments.level.empty()) {
    const bool proof = certificate->proof || !arguments.proofs.empty();
    arguments.level = proof ? "proof" : "falsify";
  }
  LUCID_TRY(CheckArguments(arguments));
  verdict.checks.checks.push_back({"certificate", Check::Outcome::kPassed, ""});
  for (const ClassBound& bound : certificate->classes) verdict.beta.push_back(bound.beta_upper);

  const Result<Ensemble> ensemble = Ensemble::Open(arguments.run, session.Progress());
  if (!ensemble.ok()) {
    if (ensemble.error().kind != ErrorKind::kMismatch) return ensemble.error();
    verdict.checks.checks.push_back(
        {"files of the run", Check::Outcome::kFailed, ensemble.error().message});
    nothing_beyond("the run is not whole");
    return Show(session, verdict, arguments);
  }
  LUCID_ASSIGN(CheckReport binding, CheckBinding(*certificate, *ensemble, {session.threads},
                                                 session.Progress(), session.stop));
  std::ranges::move(CheckFiles(*certificate, arguments.run), std::back_inserter(binding.checks));
  const bool bound = binding.accepted();
  std::ranges::move(binding.checks, std::back_inserter(verdict.checks.checks));
  if (bound) {
    LUCID_TRY(RunLevel(session, arguments, *certificate, *ensemble, verdict));
  } else {
    nothing_beyond("the certificate is not of this run");
  }
  return Show(session, verdict, arguments);
}

Status MakeCheck(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<Arguments>();
  MakeCommand(root, session,
              "lucid demo --out demo && lucid bound demo/run && "
              "lucid-check demo/run/certificate.json --run demo/run",
              [&session, arguments] { return RunCheck(session, *arguments); });
  root.add_option("certificate", arguments->certificate, "The certificate")
      ->required()
      ->type_name("FILE");
  root.add_option("--run", arguments->run, "The run it was made for")->required()->type_name("DIR");
  root.add_option("--level", arguments->level,
                  "binding: it is of this run; falsify: that, and a search for a leak above its "
                  "bounds finds none; proof: binding, and its proof holds, which leaves a receipt "
                  "(default: "
                  "proof; falsify where the certificate names no proof)")
      ->check(CLI::IsMember({"binding", "falsify", "proof"}));
  root.add_option("--proof", arguments->proofs,
                  "The proof, or parts of it (default: the file that the certificate names)")
      ->type_name("FILE")
      ->take_all();
  root.add_option("--starts", arguments->falsify.starts,
                  "Points the search begins at; time grows in proportion")
      ->capture_default_str();
  return Ok();
}

}  // namespace
}  // namespace lucid::app

int main(int argc, char** argv) {
  return lucid::app::RunProgram(argc, argv, "lucid-check",
                                "Checks a LUCID certificate with code of its own",
                                lucid::app::MakeCheck);
}
