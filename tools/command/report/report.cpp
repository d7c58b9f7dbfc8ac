// `ucudnn report`: shows a run's report, the reports of a split job's ranks, an offline plan, or
// outputs of `ucudnn multigrid`, as a page for people.
#include <algorithm>
#include <climits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/text_file.h"
#include "command/command.h"
#include "command/multigrid/page.h"
#include "command/offline_kernels.h"
#include "command/report/file.h"
#include "command/report/page.h"
#include "options/options.h"

namespace ucudnn::command {
namespace {

struct ReportOptions {
  std::vector<std::string> files;
  std::string page;
  VariableOptions variables;
};

// Sets the desirable sets of the report's kernels, from measurements of the report's device in the
// stores.
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

int FirstRankOf(const RunReport& report) {
  return report.split->ranks.empty() ? INT_MAX : report.split->ranks.front().rank;
}

// Reads one report, or joins the reports of a split job's ranks. The result is the report of the
// lowest rank, and its split job gets the ranks of all reports. Sorts `files` by rank.
Result<RunReport> ReadReports(std::vector<std::string>& files) {
  std::vector<std::pair<RunReport, std::string>> reports;
  for (const std::string& file : files) {
    UCUDNN_ASSIGN_OR_RETURN(RunReport report, ReadReport(file));
    if (files.size() > 1 && !report.split) {
      return Status::Error(Quoted(file) +
                           ": splits nothing; several reports are those of the ranks of one job");
    }
    reports.emplace_back(std::move(report), file);
  }
  if (reports.size() == 1) return std::move(reports.front().first);
  std::stable_sort(reports.begin(), reports.end(), [](const auto& a, const auto& b) {
    return FirstRankOf(a.first) < FirstRankOf(b.first);
  });
  RunReport joined = std::move(reports.front().first);
  for (size_t at = 1; at < reports.size(); ++at) {
    auto& [report, file] = reports[at];
    if (Status status = JoinSplitJob(std::move(*report.split), *joined.split); !status.ok()) {
      return Status::Error(Quoted(file) + ": " + status.message());
    }
  }
  for (size_t at = 0; at < reports.size(); ++at) files[at] = reports[at].second;
  return joined;
}

// Appends the parsed contents of `file` to `all`.
template <typename Parsed>
Status Keep(Result<Parsed> parsed, const std::string& file, std::vector<Parsed>& all) {
  if (!parsed.ok()) return Status::Error(Quoted(file) + ": " + parsed.message());
  parsed->source = file;
  all.push_back(std::move(*parsed));
  return Status::Ok();
}

// Reads files of `ucudnn multigrid`. The result is empty if none of `files` is such a file. Fails
// if only some of them are.
Result<MultigridFiles> ReadMultigridFiles(const std::vector<std::string>& files) {
  MultigridFiles read;
  std::string one, other;  // a file of `ucudnn multigrid`, and a file of another format
  for (const std::string& file : files) {
    UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file));
    const std::string format = FormatNamedIn(text);
    if (format == "ucudnn-multigrid") {
      UCUDNN_RETURN_IF_ERROR(Keep(json::Parse<MultigridReport>(text), file, read.reports));
      one = file;
    } else if (format == "ucudnn-multigrid-analysis") {
      UCUDNN_RETURN_IF_ERROR(Keep(json::Parse<MultigridAnalysisReport>(text), file, read.analyses));
      one = file;
    } else {
      other = file;
    }
  }
  if (one.empty() || other.empty()) return read;
  return Status::Error(Quoted(other) + " is no report of `ucudnn multigrid`, and " + Quoted(one) +
                       " is one; expected one kind on a page");
}

Result<int> Report(const CLI::App& app, const ReportOptions& words) {
  UCUDNN_RETURN_IF_ERROR(words.variables.Check());
  UCUDNN_ASSIGN_OR_RETURN(const MultigridFiles multigrid, ReadMultigridFiles(words.files));
  const bool asks_store = words.variables.Given("UCUDNN_DATABASE");
  if (!multigrid.reports.empty() || !multigrid.analyses.empty()) {
    if (!asks_store) return WriteOutput(app, FormatMultigridPage(multigrid), words.page);
    return Status::Error("--db: a report of `ucudnn multigrid` has no kernels that are looked up");
  }
  std::vector<std::string> files = words.files;
  UCUDNN_ASSIGN_OR_RETURN(RunReport report, ReadReports(files));
  if (asks_store && report.offline) {
    return Status::Error("--db: an offline plan holds its desirable sets itself");
  }
  if (asks_store) {
    words.variables.Export();
    UCUDNN_RETURN_IF_ERROR(AddDesirableSets(PlanningOptionsOf(app), report));
  }
  return WriteOutput(app, FormatReportPage(report, files), words.page);
}

}  // namespace

Command AddReport(CLI::App& ucudnn) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* app =
      AddSubcommand(ucudnn, "report", "report FILE.json... [-o report.html] [--db PATH]",
                    "show a report as an HTML page");
  AddWord(*app, "FILE.json", options->files,
          "what --report wrote, or `ucudnn workspace --json` printed; several files are those of\n"
          "the ranks of a split job, each of which gets a track, or of `ucudnn multigrid`");
  AddOption(*app, "-o", options->page, "report.html",
            "write the page to a file, not to the terminal");
  options->variables.Describe("UCUDNN_DATABASE", "paths separated by colons",
                              "none: desirable sets are not shown");
  options->variables.AddOnly(*app, "UCUDNN_DATABASE");
  return {app, [app, options](const ProgramWords&) { return Report(*app, *options); }};
}

}  // namespace ucudnn::command
