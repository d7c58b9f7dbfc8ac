#include "command/multigrid/report.h"

#include <algorithm>
#include <utility>

#include "base/json_place.h"
#include "base/text.h"

namespace ucudnn::command {
namespace {

constexpr int64_t kMultigridVersion = 1;
constexpr int64_t kMostLayers = int64_t{1} << 40;
constexpr int64_t kMostCount = int64_t{1} << 53;
constexpr int64_t kMostTimelineLanes = 1024;

std::string ReadShape(const JsonPlace& place) {
  std::vector<std::string> extents;
  for (const JsonPlace& extent : place.Items()) {
    extents.push_back(std::to_string(extent.Integer(1, kMostLayers)));
  }
  return Join(extents, "x");
}

// Reads a stage, with or without a solve.
ReportedStage ReadStage(const JsonPlace& place) {
  ReportedStage stage;
  place.Object();
  stage.steps = place.Member("steps").Integer(1, kMostLayers);
  stage.shape = ReadShape(place.Member("shape"));
  stage.step = place.Member("step").Quantity();
  const JsonPlace levels = place.Member("levels");
  for (const JsonPlace& level : levels.Items()) {
    stage.levels.push_back(level.Integer(1, kMostLayers));
  }
  for (const JsonPlace& factor : place.Member("coarsening").Items()) {
    stage.coarsening.push_back(factor.Integer(2, kMostLayers));
  }
  if (!levels.ok()) return stage;
  bool fits = !stage.levels.empty() && stage.levels.front() == stage.steps &&
              stage.coarsening.size() + 1 == stage.levels.size();
  for (size_t at = 0; fits && at < stage.coarsening.size(); ++at) {
    fits = stage.levels[at] / stage.coarsening[at] == stage.levels[at + 1];
  }
  if (!fits) levels.Fault("are not those of 'steps' and 'coarsening'");
  return stage;
}

double ReadNumber(const JsonPlace& place) {
  const std::optional<double> number = place.Quantity();
  if (!number) place.Refuse("a number of 0 or more");
  return number.value_or(0);
}

ReportedSpan ReadStepSpan(const JsonPlace& place, int64_t lanes,
                          const std::vector<int64_t>& levels) {
  ReportedSpan span;
  place.Object();
  span.lane = place.Member("lane").Integer(0, lanes - 1);
  span.level = place.Member("level").Integer(0, static_cast<int64_t>(levels.size()) - 1);
  if (!place.ok()) return span;
  const int64_t steps = levels[span.level];
  span.first = place.Member("first").Integer(0, steps - 1);
  span.steps = place.Member("steps").Integer(1, steps - span.first);
  span.begin_ms = ReadNumber(place.Member("begin_ms"));
  span.end_ms = ReadNumber(place.Member("end_ms"));
  if (place.ok() && span.end_ms < span.begin_ms) place.Fault("ends before it begins");
  return span;
}

std::optional<ReportedTimeline> ReadTimeline(const JsonPlace& place,
                                             const std::vector<int64_t>& levels) {
  if (place.absent()) return std::nullopt;
  ReportedTimeline timeline;
  place.Object();
  timeline.cycle = place.Member("cycle").Integer(1, kMostCount);
  timeline.lanes = place.Member("lanes").Integer(1, kMostTimelineLanes);
  timeline.ms = ReadNumber(place.Member("ms"));
  timeline.concurrency = ReadNumber(place.Member("concurrency"));
  for (const JsonPlace& span : place.Member("spans").Items()) {
    if (!span.ok()) break;
    timeline.spans.push_back(ReadStepSpan(span, timeline.lanes, levels));
  }
  return timeline;
}

ReportedStage ReadSolvedStage(const JsonPlace& place) {
  ReportedStage stage = ReadStage(place);
  for (const JsonPlace& residual : place.Member("residuals").Items()) {
    stage.residuals.push_back(residual.Quantity());
  }
  stage.cycles = place.Member("cycles").Integer(0, kMostCount);
  stage.status = place.Member("status").Text();
  stage.fallback = place.Member("fallback").TextIfThere();
  stage.largest_state = place.Member("largest_state").Quantity();
  if (place.ok()) stage.timeline = ReadTimeline(place.Member("timeline"), stage.levels);
  return stage;
}

template <typename Read>
std::vector<ReportedStage> ReadStages(const JsonPlace& place, Read&& read) {
  std::vector<ReportedStage> stages;
  const std::vector<JsonPlace> items = place.Items();
  if (items.empty()) place.Refuse("a list of stages");
  for (const JsonPlace& item : items) {
    if (!item.ok()) break;
    stages.push_back(read(item));
  }
  return stages;
}

ReportedSolve ReadSolve(const JsonPlace& place) {
  ReportedSolve solve;
  place.Object();
  solve.layers = place.Member("layers").Integer(0, kMostCount);
  solve.parameters = place.Member("parameters").Integer(0, kMostCount);
  solve.stages = ReadStages(place.Member("stages"), ReadSolvedStage);
  solve.output_error = place.Member("output_error").Quantity();
  solve.seconds = place.Member("seconds").Quantity();
  solve.serial_seconds = place.Member("serial_seconds").Quantity();
  return solve;
}

void KeepLarger(const std::optional<double>& number, std::optional<double>& largest) {
  if (number) largest = std::max(largest.value_or(0), *number);
}

ReportedEpoch ReadEpoch(const JsonPlace& place) {
  ReportedEpoch epoch;
  place.Object();
  epoch.loss = place.Member("loss").Quantity();
  epoch.top1 = ReadShare(place.Member("top1"));
  epoch.solves = place.Member("solves").Integer(0, kMostCount);
  epoch.cycles = place.Member("cycles").Integer(0, kMostCount);
  epoch.serial_solves = place.Member("serial_solves").Integer(0, kMostCount);
  epoch.fallback = place.Member("fallback").TextIfThere();
  epoch.far_solves = place.Member("far_solves").IntegerIfThere(kMostCount).value_or(0);
  epoch.residual = place.Member("residual").Quantity();
  epoch.backward_residual = place.Member("backward_residual").Quantity();
  epoch.seconds = place.Member("seconds").Quantity();
  for (const JsonPlace& check : place.Member("checks").Items()) {
    KeepLarger(check.Member("output_error").Quantity(), epoch.output_error);
    KeepLarger(check.Member("gradient_error").Quantity(), epoch.gradient_error);
  }
  return epoch;
}

ReportedTraining ReadReportedTraining(const JsonPlace& root) {
  const JsonPlace place = root.Member("training");
  ReportedTraining training;
  place.Object();
  training.stages = ReadStages(root.Member("stages"), ReadStage);
  training.data = place.Member("data").Text();
  training.examples = place.Member("examples").Integer(0, kMostCount);
  training.test_examples = place.Member("test_examples").Integer(0, kMostCount);
  training.rate = place.Member("rate").Quantity();
  training.momentum = place.Member("momentum").Quantity();
  training.repeats = place.Member("repeats").IntegerIfThere(kMostCount).value_or(1);
  training.most_backward_cycles =
      root.Member("most_backward_cycles").IntegerIfThere(kMostCount).value_or(0);
  for (const JsonPlace& epoch : place.Member("epochs").Items()) {
    if (!epoch.ok()) break;
    training.epochs.push_back(ReadEpoch(epoch));
  }
  return training;
}

void ReadMultigridHead(const JsonPlace& root, MultigridReport& report) {
  root.Member("version").Version(kMultigridVersion, "solve again with --report");
  report.ucudnn = root.Member("ucudnn").TextIfThere();
  report.network = root.Member("network").Text();
  report.layers = root.Member("layers").Integer(0, kMostCount);
  report.parameters = root.Member("parameters").Integer(0, kMostCount);
  report.weights = root.Member("weights").Text();
  report.backend = root.Member("backend").Text();
  report.precision = root.Member("precision").Text();
  report.machine = root.Member("machine").Text();
  report.method = root.Member("method").Text();
  report.devices = root.Member("devices").Integer(1, kMostCount);
  report.has_cpu_times = ReadFlag(root.Member("cpu_times"));
  report.batch = root.Member("batch").Integer(1, kMostCount);
  report.norm = root.Member("norm").Text();
  report.tolerance = root.Member("tolerance").Quantity();
  report.most_cycles = root.Member("most_cycles").Integer(1, kMostCount);
  report.coarse = root.Member("coarse").Text();
  report.relaxation = root.Member("relaxation").Text();
  report.start = root.Member("start").Text();
  report.storage = root.Member("storage").TextIfThere();
  report.state_bytes = root.Member("state_bytes").IntegerIfThere(kMostJsonBytes);
}

}  // namespace

std::string FormatNamedIn(const std::string& json) {
  const Result<JsonValue> parsed = ParseJson(json);
  const JsonValue* const format = parsed.ok() ? parsed->Find("format") : nullptr;
  return format != nullptr ? format->text : "";
}

bool ReadFlag(const JsonPlace& place) {
  const bool is_told = !place.absent() && place.value()->is(JsonValue::Kind::kBoolean);
  if (!is_told) place.Refuse("true or false");
  return is_told && place.value()->boolean;
}

double ReadShare(const JsonPlace& place) {
  const double share = place.Quantity().value_or(-1);
  if (!(share >= 0 && share <= 1)) place.Refuse("a number from 0 to 1");
  return share;
}

Result<MultigridReport> ParseMultigridReport(const std::string& json) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue value, ParseJson(json));
  Status fault;
  const JsonPlace root(&value, "", fault);
  root.Object();
  UCUDNN_RETURN_IF_ERROR(fault);
  MultigridReport report;
  ReadMultigridHead(root, report);
  if (!root.Member("training").absent()) {
    report.training = ReadReportedTraining(root);
  } else if (!root.Member("depths").absent()) {
    const std::vector<JsonPlace> depths = root.Member("depths").Items();
    if (depths.empty()) root.Member("depths").Refuse("a list of solves");
    for (const JsonPlace& depth : depths) {
      if (!depth.ok()) break;
      report.solves.push_back(ReadSolve(depth));
    }
  } else {
    report.solves.push_back(ReadSolve(root));
  }
  UCUDNN_RETURN_IF_ERROR(fault);
  return report;
}

}  // namespace ucudnn::command
