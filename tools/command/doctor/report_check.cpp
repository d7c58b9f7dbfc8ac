#include "command/doctor/report_check.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/byte_size.h"
#include "base/json_value.h"
#include "base/text.h"
#include "base/text_file.h"
#include "base/version.h"
#include "command/doctor/spatial_check.h"
#include "command/numbers.h"
#include "command/report/file.h"
#include "convolution/division_text.h"
#include "convolution/engine_name.h"
#include "db/sqlite_store.h"
#include "db/store_choice.h"

namespace ucudnn::command {
namespace {

// Fails unless the file is a report of this version.
Status CheckVersion(const std::string& path) {
  const Result<JsonValue> json = ParseJson(TextFileOrEmpty(path));
  const JsonValue* const format = json.ok() ? json->Find("format") : nullptr;
  if (format == nullptr || format->text != "ucudnn-report") {
    return Status::Error(path + " is no report");
  }
  const JsonValue* const version = json->Find("version");
  const int64_t number = version != nullptr ? version->integer : 0;
  if (number == kReportVersion) return Status::Ok();
  return Status::Error(path + " is a report of version " + std::to_string(number) + "; expected " +
                       std::to_string(kReportVersion) + ", as this ucudnn writes it");
}

// Finds in the stores how much workspace an engine needs to run a kernel undivided.
class UndividedNeeds {
 public:
  UndividedNeeds(const Options& options, planning::Platform platform)
      : platform_(std::move(platform)) {
    if (!options.stores.empty()) {
      store_ = std::make_unique<db::SqliteStore>(db::ChooseStores(options.stores).paths);
    }
  }

  std::optional<size_t> Of(const ConvolutionProblem& problem, const EngineId& engine) {
    if (store_ == nullptr) return std::nullopt;
    const Result<planning::KernelMeasurements> measured = store_->Read(problem, platform_);
    if (!measured.ok()) return std::nullopt;
    for (const planning::Measurement& row : measured->rows) {
      if (row.micro.engine == engine && row.micro.IsWhole(problem.n)) {
        return row.micro.workspace_bytes;
      }
    }
    return std::nullopt;
  }

 private:
  planning::Platform platform_;
  std::unique_ptr<db::SqliteStore> store_;
};

// Formats as "68 ms; undivided within the limit 118 ms, 75 ms by the best engine of any API".
// Returns an empty text if a time is unknown.
std::string TimesText(const ReportedKernel& kernel) {
  const std::optional<double> undivided = KnownTime(kernel.undivided),
                              best = KnownTime(kernel.best_undivided);
  if (!kernel.plan_ms || !undivided || !best) return {};
  return Milliseconds(*kernel.plan_ms) + "; undivided within the limit " +
         Milliseconds(*undivided) +
         (*best < *undivided ? ", " + Milliseconds(*best) + " by the best engine of any API" : "");
}

std::string LimitText(const ReportedKernel& kernel) {
  return FormatByteSize(kernel.limit_bytes.value_or(0));
}

std::string WhyDivided(const ReportedKernel& kernel, UndividedNeeds& needs) {
  const EngineId& engine = kernel.division.configuration.runs.front().micro.engine;
  const std::optional<size_t> need = needs.Of(kernel.problem, engine);
  std::string text;
  if (need && kernel.limit_bytes && *need > *kernel.limit_bytes) {
    text = EngineName(kernel.problem.operation, engine) + " needs " + FormatByteSize(*need) +
           ", limit " + LimitText(kernel) + ": ";
  }
  text += "divided into " + DivisionText(kernel.division) + " in " +
          FormatByteSize(kernel.workspace_bytes);
  const std::string times = TimesText(kernel);
  return times.empty() ? text : text + "; " + times;
}

KernelFinding Explain(const ReportedKernel& kernel, UndividedNeeds& needs) {
  KernelFinding finding;
  finding.kernel = Describe(kernel.problem) + ", " + Counted(kernel.calls, "call");
  if (kernel.divided()) {
    finding.what = WhyDivided(kernel, needs);
    return finding;
  }
  if (const auto& runs = kernel.division.configuration.runs; !runs.empty()) {
    finding.what = EngineName(kernel.problem.operation, runs.front().micro.engine) + " in " +
                   FormatByteSize(kernel.workspace_bytes) + " of " + LimitText(kernel) + ": ";
  }
  finding.what += kernel.reason;
  return finding;
}

}  // namespace

Result<ReportSummary> CheckReport(const std::string& path, const Options& options,
                                  Diagnosis& diagnosis) {
  UCUDNN_RETURN_IF_ERROR(CheckVersion(path));
  UCUDNN_ASSIGN_OR_RETURN(const RunReport report, ReadReport(path));
  UndividedNeeds needs(options, {report.device, report.cudnn, 0});
  ReportSummary summary;
  for (const ReportedKernel& kernel : report.kernels) {
    ++summary.kernels;
    if (kernel.divided()) ++summary.divided;
    diagnosis.kernels.push_back(Explain(kernel, needs));
  }
  for (const ReportedFallback& fallback : report.fallbacks) {
    diagnosis.Add(
        Severity::kWarning, fallback.kernel + ": " + fallback.cause,
        "it happened " + Counted(fallback.count, "time") + "; such calls run as the program asked");
  }
  if (report.split) CheckSplitJob(*report.split, diagnosis);
  return summary;
}

}  // namespace ucudnn::command
