#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/files.h"
#include "command.h"
#include "lucid/audit/audit.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid::app {
namespace {

struct AuditArguments {
  std::string run, out, mechanism = "paper";
  std::vector<std::string> attacks = {"all"}, accesses;
  bool clip = false;
  AuditOptions audit;
};

Result<AuditOptions> OptionsOf(const Session& session, const AuditArguments& arguments) {
  AuditOptions options = arguments.audit;
  if (arguments.attacks != std::vector<std::string>{"all"}) {
    for (const std::string& name : arguments.attacks) {
      LUCID_ASSIGN(const Attack attack, AttackNamed(name));
      if (!std::ranges::count(options.attacks, attack)) options.attacks.push_back(attack);
    }
  }
  for (const std::string& name : arguments.accesses) {
    LUCID_ASSIGN(const Method access, MethodNamed(name));
    if (!std::ranges::count(options.accesses, access)) options.accesses.push_back(access);
  }
  LUCID_ASSIGN(options.mechanism, MechanismNamed(arguments.mechanism));
  options.seed = session.seed;
  return options;
}

Result<ExitCode> RunAuditCommand(const Session& session, const AuditArguments& arguments) {
  LUCID_ASSIGN(const AuditOptions options, OptionsOf(session, arguments));
  LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(arguments.run));
  LUCID_ASSIGN(const Dataset dataset,
               LoadDataset(opened.manifest.data_directory,
                           {.clip = arguments.clip, .max_rows = opened.manifest.rows}));
  LUCID_ASSIGN(Audit audit,
               RunAudit(arguments.run, dataset.train, options, session.Progress(), session.stop));
  audit.command = session.arguments;
  for (const std::string& line : audit.left_out) session.Say("left out: " + line);
  const std::string path = GivenOrInRun(arguments.out, arguments.run, kAuditFile);
  LUCID_TRY(WriteFileAtomically(path, AuditJson(audit)));
  LUCID_TRY(session.json ? Print(AuditJson(audit))
                         : Print(AuditText(audit) + fmt::format("audit: {}\n", path)));
  return audit.Holds() ? kDone : kAnswerIsNo;
}

}  // namespace

void AddAuditCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<AuditArguments>();
  CLI::App* command = AddCommand(
      root, session, "audit", "Attacks guarded and unguarded access: does it hold what it claims?",
      "lucid data synth2d --rows 40 --out points && lucid train --data points --arch 2x10 --out "
      "run && lucid bound run && lucid audit run",
      [&session, arguments] { return RunAuditCommand(session, *arguments); });
  command->add_option("run", arguments->run, "Folder of the run")->required();
  command
      ->add_option("--attacks", arguments->attacks,
                   "all, or some of gap,noise,boundary,distinguisher,averaging,timing")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--access", arguments->accesses,
                   "Some of none,scalar,spatial,exact,naive-noise (default: all that the run has "
                   "files for)")
      ->delimiter(',');
  command->add_option("--epsilon", arguments->audit.epsilons, "Privacy per query")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--mechanism", arguments->mechanism, "paper or krr (spends all of epsilon)")
      ->check(CLI::IsMember({"paper", "krr"}))
      ->capture_default_str();
  command->add_option("--certificate", arguments->audit.certificate,
                      "The guards' certificate (default: RUN/certificate.json)");
  command->add_option("--targets", arguments->audit.targets, "Rows to attack, at most")
      ->capture_default_str();
  command
      ->add_option("--duplicates", arguments->audit.duplicates,
                   "averaging: near-duplicates that are asked for one guess")
      ->capture_default_str();
  command->add_flag("--clip", arguments->clip,
                    "Clip values of rows outside [0,1] instead of refusing them");
  command->add_option("--out", arguments->out, "The result (default: RUN/audit.json)");
}

}  // namespace lucid::app
