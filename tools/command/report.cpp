// `ucudnn report`: a run's report, or an offline plan, as a page for people.
#include <memory>
#include <string>

#include "base/options.h"
#include "command/command.h"
#include "command/offline_kernels.h"
#include "command/output_file.h"
#include "command/report_file.h"
#include "command/report_page.h"

namespace ucudnn::command {
namespace {

struct ReportOptions {
  std::string file;
  std::string page;
  VariableOptions variables;
};

// What the stores know of the report's kernels on its device.
Status AddDesirableSets(const Options& options, RunReport& report) {
  std::vector<ApiKernel> kernels;
  for (const ReportedKernel& kernel : report.kernels) {
    kernels.push_back({kernel.problem, kernel.api != "graph" ? Api::kLegacy : Api::kGraph});
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto sets,
                          ReadDesirableSets(kernels, options, report.device, report.cudnn));
  for (size_t at = 0; at < sets.size(); ++at) report.kernels[at].desirable_set = sets[at];
  return Status::Ok();
}

int Report(const CLI::App& app, const ReportOptions& words) {
  const auto refuse = [&](const Status& status) { return Refuse(app, status.message()); };
  if (Status status = words.variables.Check(); !status.ok()) return refuse(status);
  Result<RunReport> report = ReadReport(words.file);
  if (!report.ok()) return refuse(report.status());
  if (words.variables.Given("UCUDNN_DATABASE")) {
    if (report->offline) {
      return Refuse(app, "--db: an offline plan holds its desirable sets itself");
    }
    words.variables.Export();
    std::vector<std::string> warnings;
    const Options options = OptionsOfEnvironment(warnings, Use::kPlanning);
    for (const std::string& warning : warnings) Tell(app, warning);
    if (Status status = AddDesirableSets(options, *report); !status.ok()) return refuse(status);
  }
  return WriteOutput(app, FormatReportPage(*report, words.file), words.page);
}

}  // namespace

Command AddReport(CLI::App& ucudnn) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* app = AddSubcommand(ucudnn, "report", "report FILE.json [-o report.html] [--db PATH]",
                                "show a report as an HTML page");
  app->add_option("FILE.json", options->file,
                  "what --report wrote, or `ucudnn workspace --json` printed")
      ->required()
      ->type_name("");
  app->add_option("-o", options->page, "write the page to a file, not to the terminal")
      ->type_name("report.html");
  options->variables.Describe("UCUDNN_DATABASE", "paths separated by colons",
                              "none: desirable sets are not shown");
  options->variables.AddOnly(*app, "UCUDNN_DATABASE");
  return {app, [app, options](const ProgramWords&) { return Report(*app, *options); }};
}

}  // namespace ucudnn::command
