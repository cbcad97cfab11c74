#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/files.h"
#include "command.h"
#include "lucid/report/card.h"
#include "lucid/report/report.h"

namespace lucid::app {
namespace {

struct ReportArguments {
  std::string run, out, csv, latex;
  bool card = false;
  CardOptions card_options;
  ReportOptions report;
};

Status WriteTables(const Report& report, const std::string& folder, std::string_view ending,
                   std::string (*encode)(const ReportTable&)) {
  if (folder.empty()) return Ok();
  LUCID_TRY(MakeDirectories(folder));
  for (const ReportTable& table : ReportTables(report)) {
    const auto path = std::filesystem::path(folder) / fmt::format("{}.{}", table.name, ending);
    LUCID_TRY(WriteFileAtomically(path.string(), encode(table)));
  }
  return Ok();
}

// The id of the card that is there: it names the service, not the card.
std::string KnownService(const std::string& path) {
  const Result<std::string> text = ReadTextFile(path, 1 << 20);
  if (!text.ok()) return "";
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("service") && json["service"].is_string()
             ? json["service"].get<std::string>()
             : "";
}

Result<ExitCode> WriteCard(const Session& session, const ReportArguments& arguments) {
  const std::string path = GivenOrInRun("", arguments.run, kCardFile);
  CardOptions options = arguments.card_options;
  options.certificate = arguments.report.certificate;
  options.service = KnownService(path);
  LUCID_ASSIGN(const PrivacyCard card, MakeCard(arguments.run, options));
  const std::string page = GivenOrInRun(arguments.out, arguments.run, kCardPage);
  LUCID_TRY(WriteFileAtomically(path, CardJson(card)));
  LUCID_TRY(WriteFileAtomically(page, CardPage(card)));
  LUCID_TRY(session.json
                ? Print(CardJson(card))
                : Print(fmt::format("promise: {}\ncard: {}, {}\n", card.promise, path, page)));
  return kDone;
}

Result<ExitCode> RunReport(const Session& session, const ReportArguments& arguments) {
  if (arguments.card) return WriteCard(session, arguments);
  ReportOptions options = arguments.report;
  options.threads = session.threads;
  LUCID_ASSIGN(const Report report,
               GatherReport(arguments.run, options, session.Progress(), session.stop));
  const std::string path = GivenOrInRun(arguments.out, arguments.run, kReportFile);
  LUCID_TRY(WriteFileAtomically(path, ReportPage(report)));
  LUCID_TRY(WriteTables(report, arguments.csv, "csv", TableCsv));
  LUCID_TRY(WriteTables(report, arguments.latex, "tex", TableLatex));
  std::vector<std::string> missing;
  for (const std::string& why : {report.certificate.missing, report.evaluation.missing,
                                 report.audit.missing, report.dataset.missing}) {
    if (!why.empty()) missing.push_back(why);
  }
  if (session.json) {
    LUCID_TRY(PrintJson({{"run", arguments.run}, {"report", path}, {"missing", missing}}));
    return kDone;
  }
  std::string text;
  for (const std::string& why : missing) text += why + "\n";
  LUCID_TRY(Print(text + fmt::format("report: {}\n", path)));
  return kDone;
}

}  // namespace

void AddReportCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = AddCommand(
      root, session, "report", "One self-contained page of all that is known of a run",
      "lucid data synth2d --rows 40 --out points && lucid train --data points --arch 2x10 --out "
      "run && lucid bound run && lucid report run",
      [&session, arguments] { return RunReport(session, *arguments); });
  command->add_option("run", arguments->run, "Folder of the run")->required();
  command->add_option("--out", arguments->out, "The page (default: RUN/report.html)");
  command->add_option("--certificate", arguments->report.certificate,
                      "The certificate (default: RUN/certificate.json)");
  command->add_option("--beside", arguments->report.beside,
                      "Another run on the same rows, to show the promises of both side by side");
  command->add_flag("--card", arguments->card,
                    "The privacy card instead: what may be published (RUN/card.json, card.html)");
  command
      ->add_option("--answer-epsilon", arguments->card_options.answer_epsilon,
                   "Of the card: the epsilon that the service answers with")
      ->capture_default_str();
  AddDomain(*command, "Of the card: what the service may be asked, box or schema",
            [arguments](DomainKind kind) { arguments->card_options.domain = kind; })
      ->default_str("as lucid serve has it");
  command->add_option("--csv", arguments->csv, "Folder for the tables as CSV, exact numbers");
  command->add_option("--latex", arguments->latex, "Folder for the tables as LaTeX");
  command
      ->add_option("--grid", arguments->report.leak.grid,
                   "Two features: inputs per axis at which networks are compared")
      ->check(CLI::Range(2, 2000))
      ->capture_default_str();
}

}  // namespace lucid::app
