#include "command/report_check.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/byte_size.h"
#include "base/json_place.h"
#include "base/text.h"
#include "base/version.h"
#include "command/report_file.h"
#include "command/spatial_check.h"
#include "convolution/columns.h"
#include "convolution/division_text.h"
#include "convolution/engine_name.h"
#include "convolution/json_kernel.h"
#include "db/sqlite_store.h"
#include "db/store_choice.h"

namespace ucudnn::command {
namespace {

// Members of any type may be missing or of another type: the file is not ours alone.
std::string TextOf(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) && json[name].is_string()
             ? json[name].get<std::string>()
             : std::string();
}

double NumberOf(const Json& json, const char* name, double absent = 0) {
  return json.is_object() && json.contains(name) && json[name].is_number()
             ? json[name].get<double>()
             : absent;
}

const Json& ListOf(const Json& json, const char* name) {
  static const Json* const empty = new Json(Json::array());
  return json.is_object() && json.contains(name) && json[name].is_array() ? json[name] : *empty;
}

// A whole number from 0 on; 0 for what cannot be one.
int64_t CountOf(const Json& json, const char* name) {
  const double count = NumberOf(json, name);
  return count > 0 && count < 1e18 ? static_cast<int64_t>(count) : 0;
}

size_t BytesOf(const Json& json, const char* name) {
  return static_cast<size_t>(CountOf(json, name));
}

std::optional<ConvolutionProblem> ProblemOf(const Json& kernel) {
  std::map<std::string, std::string> fields = {{"op", TextOf(kernel, "op")}};
  if (kernel.is_object() && kernel.contains("problem") && kernel["problem"].is_object()) {
    for (const auto& [column, value] : kernel["problem"].items()) {
      fields[column] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  const Result<ConvolutionProblem> problem = FromColumns([&](const std::string& column) {
    const auto found = fields.find(column);
    return found != fields.end() && !found->second.empty() ? &found->second : nullptr;
  });
  return problem.ok() ? std::optional(*problem) : std::nullopt;
}

// What the stores know of engines that run undivided.
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

// DivisionText of a kernel's plan; empty where the report's plan is none.
std::string DivisionWords(const Json& kernel) {
  const Result<JsonValue> value = ParseJson(kernel.dump());
  if (!value.ok()) return {};
  Status fault;
  const JsonPlace place(&*value, "", fault);
  const ConvolutionProblem problem = ReadProblem(place);
  Division division = Configuration{};
  if (fault.ok()) ReadPlan(place.Member("plan"), problem, division);
  return fault.ok() ? DivisionText(division) : std::string();
}

// Milliseconds of the whole plan; none when nobody measured it.
std::optional<double> PlanTime(const Json& plan) {
  double total_ms = 0;
  for (const Json& run : plan) {
    const double piece_ms = NumberOf(run, "piece_ms", -1);
    if (piece_ms < 0) return std::nullopt;
    total_ms += piece_ms * static_cast<double>(CountOf(run, "count"));
  }
  return total_ms;
}

// Milliseconds of the undivided engine that the member `name` has; none when nobody measured it.
std::optional<double> UndividedTime(const Json& kernel, const char* name) {
  if (!kernel.is_object() || !kernel.contains(name)) return std::nullopt;
  const double total_ms = NumberOf(kernel[name], "total_ms", -1);
  return total_ms < 0 ? std::nullopt : std::optional(total_ms);
}

// "68 ms; undivided within the limit 118 ms, 75 ms by the best engine of any API"; empty where a
// time is not known.
std::string TimesText(const Json& kernel) {
  const std::optional<double> planned = PlanTime(ListOf(kernel, "plan"));
  const std::optional<double> undivided = UndividedTime(kernel, "undivided");
  const std::optional<double> best = UndividedTime(kernel, "best_undivided");
  if (!planned || !undivided || !best) return {};
  std::string text =
      Milliseconds(*planned) + "; undivided within the limit " + Milliseconds(*undivided);
  if (*best < *undivided) text += ", " + Milliseconds(*best) + " by the best engine of any API";
  return text;
}

// The name of the plan's first engine.
std::string EngineText(const Json& kernel, const std::optional<ConvolutionProblem>& problem) {
  const std::string engine = TextOf(ListOf(kernel, "plan")[0], "engine");
  return problem ? EngineName(problem->operation, engine) : engine;
}

std::string WhyDivided(const Json& kernel, const std::optional<ConvolutionProblem>& problem,
                       UndividedNeeds& needs) {
  const Json& plan = ListOf(kernel, "plan");
  const size_t limit = BytesOf(kernel, "limit_bytes");
  const std::string engine = TextOf(plan[0], "engine");
  const std::optional<size_t> need = problem ? needs.Of(*problem, engine) : std::nullopt;
  std::string text;
  if (need && *need > limit) {
    text = EngineText(kernel, problem) + " needs " + FormatByteSize(*need) + ", limit " +
           FormatByteSize(limit) + ": ";
  }
  const std::string division = DivisionWords(kernel);
  text += (division.empty() ? "divided" : "divided into " + division) + " in " +
          FormatByteSize(BytesOf(kernel, "workspace_bytes"));
  const std::string times = TimesText(kernel);
  return times.empty() ? text : text + "; " + times;
}

bool IsDivided(const Json& kernel) {
  double pieces = 0;
  for (const Json& run : ListOf(kernel, "plan")) pieces += NumberOf(run, "count");
  return pieces > 1;
}

KernelFinding Explain(const Json& kernel, UndividedNeeds& needs) {
  const std::optional<ConvolutionProblem> problem = ProblemOf(kernel);
  KernelFinding finding;
  finding.kernel = problem ? Describe(*problem) : TextOf(kernel, "op");
  const int64_t calls = CountOf(kernel, "calls");
  finding.kernel += calls == 1 ? ", 1 call" : ", " + std::to_string(calls) + " calls";
  if (IsDivided(kernel)) {
    finding.what = WhyDivided(kernel, problem, needs);
    return finding;
  }
  const Json& plan = ListOf(kernel, "plan");
  if (!plan.empty()) {
    finding.what = EngineText(kernel, problem) + " in " +
                   FormatByteSize(BytesOf(kernel, "workspace_bytes")) + " of " +
                   FormatByteSize(BytesOf(kernel, "limit_bytes")) + ": ";
  }
  finding.what += TextOf(kernel, "reason");
  return finding;
}

}  // namespace

Result<ReportSummary> CheckReport(const std::string& path, const Options& options,
                                  Diagnosis& diagnosis) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::Error(path + " cannot be read");
  const Json report = Json::parse(file, nullptr, false);
  if (TextOf(report, "format") != "ucudnn-report") return Status::Error(path + " is no report");
  if (CountOf(report, "version") != kReportVersion) {
    return Status::Error(path + " is a report of version " +
                         std::to_string(CountOf(report, "version")) + "; expected " +
                         std::to_string(kReportVersion) + ", as this ucudnn writes it");
  }
  UndividedNeeds needs(options,
                       {TextOf(report, "device"),
                        static_cast<int>(std::min<int64_t>(CountOf(report, "cudnn"), INT_MAX)), 0});
  ReportSummary summary;
  for (const Json& kernel : ListOf(report, "kernels")) {
    ++summary.kernels;
    if (IsDivided(kernel)) ++summary.divided;
    diagnosis.kernels.push_back(Explain(kernel, needs));
  }
  for (const Json& fallback : ListOf(report, "fallbacks")) {
    const int64_t count = CountOf(fallback, "count");
    diagnosis.Add(Severity::kWarning, TextOf(fallback, "kernel") + ": " + TextOf(fallback, "cause"),
                  "it happened " + std::to_string(count) + (count == 1 ? " time" : " times") +
                      "; such calls run as the program asked");
  }
  if (const Result<RunReport> read = ReadReport(path); read.ok() && read->split) {
    CheckSplitJob(*read->split, diagnosis);
  }
  return summary;
}

}  // namespace ucudnn::command
