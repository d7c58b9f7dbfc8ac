#include "command/report_file.h"

#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "base/csv.h"
#include "base/json_value.h"
#include "base/text.h"
#include "convolution/columns.h"

namespace ucudnn::command {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 62;
constexpr double kMostMs = 1e9;
constexpr size_t kMostKernels = 100'000;

// A value of the file, or its absence, and where it is. The first fault of all is kept.
class Place {
 public:
  Place(const JsonValue* value, std::string path, Status& fault)
      : value_(value), path_(std::move(path)), fault_(&fault) {}

  Place Member(const char* name) const {
    const JsonValue* member = value_ == nullptr ? nullptr : value_->Find(name);
    return {member, path_.empty() ? name : path_ + "." + name, *fault_};
  }
  bool absent() const { return value_ == nullptr || value_->is(JsonValue::Kind::kNull); }
  const JsonValue* value() const { return value_; }

  std::string Text() const {
    if (absent()) return Refuse("text"), "";
    if (!value_->is(JsonValue::Kind::kText)) Refuse("text");
    return value_->text;
  }
  std::string TextIfThere() const { return absent() ? std::string() : Text(); }

  int64_t Whole(int64_t least, int64_t most) const {
    if (absent() || !value_->is(JsonValue::Kind::kInteger) || value_->integer < least ||
        value_->integer > most) {
      Refuse("a whole number from " + std::to_string(least) + " to " + std::to_string(most));
      return least;
    }
    return value_->integer;
  }
  std::optional<int64_t> WholeIfThere(int64_t most) const {
    return absent() ? std::nullopt : std::optional(Whole(0, most));
  }
  size_t Bytes() const { return static_cast<size_t>(Whole(0, kMostBytes)); }
  size_t BytesIfThere() const { return absent() ? 0 : Bytes(); }

  // None where it is null, absent, or more than any memory: there is no limit then.
  std::optional<size_t> Limit() const {
    if (absent()) return std::nullopt;
    if (value_->is_number() && value_->real > static_cast<double>(kMostBytes)) return std::nullopt;
    return Bytes();
  }

  std::optional<double> Time() const {
    if (absent()) return std::nullopt;
    if (!value_->is_number() || !(value_->real >= 0 && value_->real <= kMostMs)) {
      Refuse("milliseconds from 0 to 1e9, or null");
      return std::nullopt;
    }
    return value_->real;
  }

  // Of a list that is absent: none.
  std::vector<Place> Items() const {
    std::vector<Place> items;
    if (absent()) return items;
    if (!value_->is(JsonValue::Kind::kArray)) Refuse("a list");
    for (const JsonValue& item : value_->items) {
      items.push_back({&item, path_ + "[" + std::to_string(items.size()) + "]", *fault_});
    }
    return items;
  }
  void Object() const {
    if (value_ == nullptr || !value_->is(JsonValue::Kind::kObject)) Refuse("an object");
  }

  void Refuse(const std::string& expected) const {
    Fault((value_ == nullptr ? "is missing" : "is " + Shown(*value_)) + "; expected " + expected);
  }
  void Fault(const std::string& what) const {
    if (fault_->ok()) *fault_ = Status::Error(path_.empty() ? what : path_ + " " + what);
  }
  bool ok() const { return fault_->ok(); }

 private:
  const JsonValue* value_;
  std::string path_;
  Status* fault_;
};

ConvolutionProblem ReadProblem(const Place& kernel) {
  const Place place = kernel.Member("problem");
  place.Object();
  std::map<std::string, std::string> fields = {{"op", kernel.Member("op").Text()}};
  if (!place.ok()) return {};
  place.Member("n").Whole(1, std::numeric_limits<int32_t>::max());
  for (const JsonMember& column : place.value()->members) {
    const JsonValue& value = column.value;
    fields[column.name] = value.is(JsonValue::Kind::kText) ? value.text : Shown(value);
  }
  const Result<ConvolutionProblem> problem =
      FromColumns([&](const std::string& column) -> const std::string* {
        const auto found = fields.find(column);
        return found == fields.end() || found->second.empty() ? nullptr : &found->second;
      });
  if (problem.ok()) return *problem;
  place.Fault("makes no convolution: " + problem.message());
  return {};
}

// Runs of equal micro-batches that make up `images`; gives the time of all, where all have one.
std::optional<double> ReadRuns(const Place& list, int images, Configuration& plan) {
  int64_t sum = 0;
  std::optional<double> total_ms = 0;
  for (const Place& place : list.Items()) {
    if (!place.ok()) return std::nullopt;
    Run run;
    run.micro.engine = place.Member("engine").Text();
    run.micro.micro_batch = static_cast<int>(place.Member("micro_batch").Whole(1, images));
    run.count = static_cast<int>(place.Member("count").Whole(1, images));
    run.micro.workspace_bytes = place.Member("workspace_bytes").Bytes();
    const std::optional<double> time_ms = place.Member("time_ms").Time();
    run.micro.time_ms = time_ms.value_or(0);
    total_ms = total_ms && time_ms ? std::optional(*total_ms + *time_ms * run.count) : std::nullopt;
    sum += int64_t{run.micro.micro_batch} * run.count;
    plan.runs.push_back(std::move(run));
    if (sum > images) break;
  }
  if (plan.runs.empty()) return std::nullopt;
  if (sum != images) {
    list.Fault("has " + std::string(sum > images ? "more" : "fewer") + " images than the " +
               std::to_string(images) + " of its problem");
  }
  return total_ms;
}

void ReadUndivided(const Place& place, ReportedKernel& kernel) {
  if (place.absent()) return;
  place.Object();
  MicroConfiguration undivided;
  undivided.engine = place.Member("engine").Text();
  undivided.micro_batch = kernel.problem.n;
  undivided.workspace_bytes = place.Member("workspace_bytes").Bytes();
  kernel.undivided_ms = place.Member("time_ms").Time();
  undivided.time_ms = kernel.undivided_ms.value_or(0);
  kernel.undivided = std::move(undivided);
}

ReportedKernel ReadKernel(const Place& place) {
  ReportedKernel kernel;
  place.Object();
  kernel.problem = ReadProblem(place);
  kernel.name = place.Member("name").TextIfThere();
  std::vector<std::string> layers;
  for (const Place& layer : place.Member("layers").Items()) layers.push_back(layer.Text());
  if (!layers.empty()) kernel.name = Join(layers, ", ");
  kernel.api = place.Member("api").TextIfThere();
  return kernel;
}

ReportedKernel ReadRunKernel(const Place& place) {
  ReportedKernel kernel = ReadKernel(place);
  kernel.calls = place.Member("calls").Whole(0, kMostBytes);
  kernel.limit_bytes = place.Member("limit_bytes").Limit();
  kernel.workspace_bytes = place.Member("workspace_bytes").Bytes();
  kernel.library_bytes = place.Member("library_bytes").BytesIfThere();
  kernel.plan_ms = ReadRuns(place.Member("plan"), kernel.problem.n, kernel.plan);
  ReadUndivided(place.Member("undivided"), kernel);
  kernel.reason = place.Member("reason").TextIfThere();
  return kernel;
}

ReportedKernel ReadOfflineKernel(const Place& place, const RunReport& report) {
  ReportedKernel kernel = ReadKernel(place);
  kernel.limit_bytes = report.limit_bytes;
  const Place chosen = place.Member("chosen");
  chosen.Object();
  kernel.workspace_bytes = chosen.Member("workspace_bytes").Bytes();
  kernel.plan_ms = ReadRuns(chosen.Member("plan"), kernel.problem.n, kernel.plan);
  for (const Place& one : place.Member("desirable_set").Items()) {
    if (!one.ok()) break;
    Configuration configuration;
    const Place plan = one.Member("plan");
    if (!ReadRuns(plan, kernel.problem.n, configuration)) plan.Refuse("runs that all have a time");
    if (!kernel.desirable_set.empty() &&
        configuration.WorkspaceBytes() <= kernel.desirable_set.back().WorkspaceBytes()) {
      one.Fault("does not need more workspace than the one before it");
    }
    kernel.desirable_set.push_back(std::move(configuration));
  }
  return kernel;
}

void ReadHead(const Place& root, RunReport& report) {
  const std::string format = root.Member("format").Text();
  report.offline = format == "ucudnn-workspace";
  if (!report.offline && format != "ucudnn-report") {
    root.Member("format").Refuse("\"ucudnn-report\" or \"ucudnn-workspace\"");
  }
  root.Member("version").Whole(1, 1);
  report.ucudnn = root.Member("ucudnn").TextIfThere();
  report.cudnn = static_cast<int>(
      root.Member("cudnn").WholeIfThere(std::numeric_limits<int32_t>::max()).value_or(0));
  report.device = root.Member("device").Text();
  report.mode = root.Member("mode").TextIfThere();
  report.policy = root.Member("policy").TextIfThere();
  report.measured = root.Member("measured").WholeIfThere(kMostBytes);
  report.limit_bytes = root.Member("limit_bytes").Limit();
  // A run's report has an object of its own for its budget.
  const Place budget = report.offline ? root : root.Member("total_workspace");
  if (!report.offline && !budget.absent()) budget.Object();
  report.total_bytes = budget.Member("total_bytes").Limit();
  report.division = budget.Member("division").TextIfThere();
  report.reserved_bytes = budget.Member("total_workspace_bytes").Limit();
}

}  // namespace

std::optional<double> ReportedKernel::BaselineMs() const {
  if (undivided_ms) return undivided_ms;
  return plan.Pieces() == 1 ? plan_ms : std::nullopt;
}

Result<RunReport> ParseReport(const std::string& json) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue value, ParseJson(json));
  Status fault;
  const Place root(&value, "", fault);
  root.Object();
  UCUDNN_RETURN_IF_ERROR(fault);
  RunReport report;
  ReadHead(root, report);
  const std::vector<Place> kernels = root.Member("kernels").Items();
  if (kernels.size() > kMostKernels) {
    root.Member("kernels").Refuse("at most " + std::to_string(kMostKernels));
  }
  for (const Place& place : kernels) {
    if (!fault.ok()) return fault;
    report.kernels.push_back(report.offline ? ReadOfflineKernel(place, report)
                                            : ReadRunKernel(place));
  }
  for (const Place& place : root.Member("fallbacks").Items()) {
    if (!fault.ok()) return fault;
    report.fallbacks.push_back({place.Member("kernel").Text(), place.Member("cause").Text(),
                                place.Member("count").Whole(0, kMostBytes)});
  }
  if (!fault.ok()) return fault;
  return report;
}

Result<RunReport> ReadReport(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  Result<RunReport> report = ParseReport(text);
  if (!report.ok()) return Status::Error(Quoted(path) + ": " + report.message());
  return report;
}

}  // namespace ucudnn::command
