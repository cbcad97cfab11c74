#include "join_team.h"
#include "program.h"

int main(int argc, char** argv) {
  using namespace lucid::app;
  return RunProgram(
      argc, argv, "lucid",
      "LUCID: individually differentially private label-only access to neural networks",
      [](CLI::App& root, Session& session) -> lucid::Status {
        LUCID_ASSIGN(session.team, JoinTeam(session.processes_here));
        root.require_subcommand(1);
        root.footer("Start with:  lucid demo --out demo");
        AddDataCommand(root, session);
        AddFitCommand(root, session);
        AddTrainCommand(root, session);
        AddImportCommand(root, session);
        AddBoundCommand(root, session);
        AddAblationCommand(root, session);
        AddPredictCommand(root, session);
        AddKeysCommand(root, session);
        AddLedgerCommand(root, session);
        AddServeCommand(root, session);
        AddEvaluateCommand(root, session);
        AddAuditCommand(root, session);
        AddReportCommand(root, session);
        AddStatusCommand(root, session);
        AddDemoCommand(root, session);
        AddCompletionCommand(root, session);
        return lucid::Ok();
      });
}
