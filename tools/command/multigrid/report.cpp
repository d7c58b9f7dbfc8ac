#include "command/multigrid/report.h"

#include <algorithm>

#include "command/multigrid/facts.h"

namespace ucudnn::command {
namespace {

constexpr int64_t kMultigridVersion = 1;
constexpr int64_t kMostLayers = int64_t{1} << 40;
constexpr int64_t kMostCount = int64_t{1} << 53;
constexpr int64_t kMostTimelineLanes = 1024;
constexpr json::Use kCount = {.most = kMostCount};
constexpr json::Use kFromOne = {.least = 1, .most = kMostCount};

// The member `ways`: for each way to run blocks, the seconds of a cycle.
struct WaySeconds {
  std::vector<std::pair<std::string, double>>& ways;

  void Members(json::Object& member) {
    for (auto& [way, seconds] : ways) member(way.c_str(), seconds);
  }
  bool empty() const { return ways.empty(); }
};

// Returns whether stage.levels are the levels that stage.steps and stage.coarsening define.
bool Fits(const ReportedStage& stage) {
  bool fits = !stage.levels.empty() && stage.levels.front() == stage.steps &&
              stage.coarsening.size() + 1 == stage.levels.size();
  for (size_t at = 0; fits && at < stage.coarsening.size(); ++at) {
    fits = stage.levels[at] / stage.coarsening[at] == stage.levels[at + 1];
  }
  return fits;
}

}  // namespace

void ReportedSpan::Members(json::Object& member, int64_t lanes,
                           const std::vector<int64_t>& levels) {
  member("lane", lane, {.most = lanes - 1});
  member("level", level, {.most = static_cast<int64_t>(levels.size()) - 1});
  const int64_t all_steps = levels[static_cast<size_t>(level)];
  member("first", first, {.most = all_steps - 1});
  member("steps", steps, {.least = 1, .most = all_steps - first});
  member("begin_ms", begin_ms);
  member("end_ms", end_ms);
  if (end_ms < begin_ms) member.place().Fault("ends before it begins");
}

void ReportedTimeline::Members(json::Object& member, const std::vector<int64_t>& levels) {
  member("cycle", cycle, kFromOne);
  member("lanes", lanes, {.least = 1, .most = kMostTimelineLanes});
  member("ms", ms);
  member("concurrency", concurrency);
  member("spans", spans, json::kMayLack, lanes, levels);
}

void ReportedStage::Members(json::Object& member, const WithoutSolve&) {
  member("steps", steps, {.least = 1, .most = kMostLayers});
  member("shape", shape, {.may_lack = true, .least = 1, .most = kMostLayers});
  member("step", step);
  member("levels", levels, {.may_lack = true, .least = 1, .most = kMostLayers});
  member("coarsening", coarsening, {.may_lack = true, .least = 2, .most = kMostLayers});
  if (!Fits(*this))
    member.place().Member("levels").Fault("are not those of 'steps' and 'coarsening'");
}

void ReportedStage::Members(json::Object& member) {
  Members(member, WithoutSolve());
  member("residuals", residuals, json::kMayLack);
  member("cycles", cycles, kCount);
  member("status", status);
  member("fallback", fallback, json::kMayLack);
  member("largest_state", largest_state);
  member("timeline", timeline, json::kLeftOutIfEmpty, levels);
}

void ReportedSolve::SolveMembers(json::Object& member) {
  // A solve repeats members of its longest stage, for readers that want only one stage.
  ReportedStage longest = stages.empty() ? ReportedStage() : LongestOf(stages);
  member("residuals", longest.residuals, json::kUnread);
  member("cycles", longest.cycles, json::kUnread);
  member("status", longest.status, json::kUnread);
  member("output_error", output_error);
  member("seconds", seconds);
  member("serial_seconds", serial_seconds);
  member("stages", stages);
  if (stages.empty()) member.place().Member("stages").Refuse("a list of stages");
}

void ReportedSolve::Members(json::Object& member) {
  member("layers", layers, kCount);
  member("parameters", parameters, kCount);
  SolveMembers(member);
}

void ReportedCheck::Members(json::Object& member) {
  member("step", step, json::kUnread);
  member("output_error", output_error);
  member("gradient_error", gradient_error);
}

void ReportedEpoch::Members(json::Object& member) {
  member("loss", loss);
  member("top1", Share{top1});
  member("solves", solves, kCount);
  member("cycles", cycles, kCount);
  member("serial_solves", serial_solves, kCount);
  member("fallback", fallback, json::kMayLack);
  member("far_solves", far_solves, {.may_lack = true, .most = kMostCount});
  member("residual", residual);
  member("backward_residual", backward_residual);
  member("seconds", seconds);
  member("checks", checks, json::kMayLack);
}

std::optional<double> ReportedEpoch::Largest(std::optional<double> ReportedCheck::*error) const {
  std::optional<double> largest;
  for (const ReportedCheck& check : checks) {
    if (check.*error) largest = std::max(largest.value_or(0), *(check.*error));
  }
  return largest;
}

void ReportedTraining::Members(json::Object& member) {
  member("data", data);
  member("replicas", replicas, json::kUnread);
  member("examples", examples, kCount);
  member("test_examples", test_examples, kCount);
  member("rate", rate);
  member("momentum", momentum);
  member("seed", seed, json::kUnread);
  member("repeats", repeats, {.may_lack = true, .most = kMostCount});
  member("epochs", epochs, json::kMayLack);
}

void MultigridReport::Members(json::Object& member) {
  member("format", "ucudnn-multigrid", json::kUnread);
  member("version", json::Version{kMultigridVersion, "solve again with --report"});
  member("ucudnn", ucudnn, json::kMayLack);
  member("network", network);
  member("layers", layers, kCount);
  member("parameters", parameters, kCount);
  member("machine", machine);
  member("cpu_times", has_cpu_times);
  member("devices", devices, kFromOne);
  member("way", way, {.left_out_if_empty = true, .unread = true});
  member("launch", launch, {.left_out_if_empty = true, .unread = true});
  member("ways", WaySeconds{ways}, {.left_out_if_empty = true, .unread = true});
  member("threads", threads, {.left_out_if_empty = true, .unread = true});
  member("weights", weights);
  member("most_cycles", most_cycles, kFromOne);
  member("tolerance", tolerance);
  member("norm", norm);
  member("relaxation", relaxation);
  member("coarse", coarse);
  member("start", start);
  member("storage", storage, json::kMayLack);
  member("backend", backend);
  member("precision", precision);
  member("batch", batch, kFromOne);
  member("method", method);
  member("state_bytes", state_bytes);
  if (member.Has("training", training.has_value())) {
    if (!training) training.emplace();
    member("most_backward_cycles", training->most_backward_cycles,
           {.may_lack = true, .most = kMostCount});
    member("stages", training->stages, {}, WithoutSolve());
    if (training->stages.empty()) member.place().Member("stages").Refuse("a list of stages");
    return member("training", *training);
  }
  if (!member.Has("depths", has_depths)) {
    ReportedSolve& solve = solves.empty() ? solves.emplace_back() : solves.front();
    solve.layers = layers;
    solve.parameters = parameters;
    return solve.SolveMembers(member);
  }
  if (!solves.empty()) {
    std::max_element(solves.begin(), solves.end(), [](const auto& a, const auto& b) {
      return a.layers < b.layers;
    })->SolveMembers(member);
  }
  member("depths", solves);
  if (solves.empty()) member.place().Member("depths").Refuse("a list of solves");
}

std::string FormatNamedIn(const std::string& json) {
  const Result<JsonValue> parsed = ParseJson(json);
  const JsonValue* const format = parsed.ok() ? parsed->Find("format") : nullptr;
  return format != nullptr ? format->text : "";
}

void Share::Read(const JsonPlace& place) const {
  share = place.Quantity().value_or(-1);
  if (!(share >= 0 && share <= 1)) place.Refuse("a number from 0 to 1");
}

}  // namespace ucudnn::command
