#include "convolution/report_format.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <utility>

#include "base/json_members.h"
#include "base/text.h"
#include "base/version.h"
#include "convolution/json_kernel.h"

namespace ucudnn {
namespace {

constexpr size_t kMostKernels = 100'000;
constexpr size_t kMostSplitKernels = 4096;
constexpr int64_t kMostLanes = 64;  // lanes that a report distinguishes
constexpr const char* kReportName = "ucudnn-report";
constexpr const char* kTableName = "ucudnn-workspace-table";
constexpr int64_t kMostExtent = std::numeric_limits<int32_t>::max();
constexpr const char* kSpanNames[] = {"call",           "own", "exchange",
                                      "await_exchange", "sum", "await_sum"};

// The lanes (handles on streams) of a kernel: in memory a number with a bit for each lane, in JSON
// a list of lane numbers.
struct LaneNumbers {
  uint64_t& lanes;

  std::string Write(int) const {
    std::vector<std::string> numbers;
    for (uint64_t rest = lanes; rest != 0; rest &= rest - 1) {
      numbers.push_back(std::to_string(std::countr_zero(rest)));
    }
    return json::FormatList(numbers, json::kOneLine);
  }
  void Read(const JsonPlace& place) const {
    for (const JsonPlace& lane : place.Items()) {
      if (!lane.ok()) return;
      lanes |= uint64_t{1} << lane.Integer(0, kMostLanes - 1);
    }
  }
};

// The fastest engine that computes the whole mini-batch in one piece.
struct UndividedEngine {
  MicroConfiguration& micro;
  const char* time_name = "total_ms";

  void Members(json::Object& member) {
    std::optional<double> total_ms = KnownTime(micro);
    member("engine", micro.engine);
    member("workspace_bytes", micro.workspace_bytes);
    member(time_name, json::Milliseconds{total_ms});
    micro.time_ms = total_ms.value_or(-1);
  }
  bool empty() const { return micro.engine.empty(); }
};

struct PlannedDivision {
  Division& division;
  const ConvolutionProblem& problem;
  size_t workspace_bytes = division.configuration.WorkspaceBytes();
  std::optional<double> total_ms = {};

  void Members(json::Object& member) {
    member("time_ms", division.configuration.TimeMs(), json::kUnread);
    member("workspace_bytes", workspace_bytes);
    member("plan", PlanRuns{division, problem, total_ms, RunOrder::kCommand});
  }
};

struct DesirableSet {
  std::vector<Division>& divisions;
  const ConvolutionProblem& problem;

  std::string Write(int depth) const {
    std::vector<std::string> texts;
    for (Division& division : divisions) {
      texts.push_back(json::Write(PlannedDivision{division, problem}, json::Inside(depth)));
    }
    return json::FormatList(texts, depth);
  }
  void Read(const JsonPlace& place) const {
    for (const JsonPlace& one : place.Items()) {
      if (!one.ok()) return;
      Division division = Configuration{};
      const JsonPlace plan = one.Member("plan");
      if (!ReadPlan(plan, problem, division)) plan.Refuse("runs that all have a time");
      if (!divisions.empty() && division.configuration.WorkspaceBytes() <=
                                    divisions.back().configuration.WorkspaceBytes()) {
        one.Fault("does not need more workspace than the one before it");
      }
      divisions.push_back(std::move(division));
    }
  }
};

// Positions along an axis, as a list of [begin, end).
struct Intervals {
  std::vector<Interval>& intervals;

  std::string Write(int depth) const {
    std::vector<std::string> texts;
    for (const Interval& one : intervals) {
      texts.push_back(
          json::FormatList({std::to_string(one.begin), std::to_string(one.end)}, depth));
    }
    return json::FormatList(texts, depth);
  }
  void Read(const JsonPlace& place) const {
    for (const JsonPlace& one : place.Items()) {
      if (!one.ok()) return;
      const std::vector<JsonPlace> ends = one.Items();
      if (ends.size() != 2) return one.Refuse("two positions");
      intervals.push_back({ends[0].Integer(0, kMostExtent), ends[1].Integer(0, kMostExtent)});
    }
  }
};

// The axes that are cut, as a JSON object with one member for each axis.
struct SplitAxes {
  std::vector<SplitAxis>& axes;
  const SpatialGrid& grid;

  std::string Write(int depth) const {
    json::Fields fields;
    for (SplitAxis& axis : axes) {
      fields.emplace_back(std::string(1, axis.letter), json::Write(axis, json::kOneLine));
    }
    return json::FormatObject(fields, depth);
  }
  void Read(const JsonPlace& place) const {
    place.Object();
    constexpr const char* kNames[] = {"d", "h", "w"};
    for (size_t at = 0; at < std::size(kNames); ++at) {
      const JsonPlace one = place.Member(kNames[at]);
      if (one.absent() || !one.ok()) continue;
      SplitAxis axis{kNames[at][0], {}, {}};
      json::Read(one, axis);
      const auto parts = static_cast<size_t>(grid.Parts()[at]);
      if (parts > kMostAxisParts) one.Refuse("an axis of at most 64 parts");
      if (axis.owned.size() != parts || axis.needed.size() != parts) {
        one.Refuse("an entry for each of " + std::to_string(parts) + " parts");
      }
      axes.push_back(std::move(axis));
    }
  }
};

struct GridText {
  SpatialGrid& grid;

  std::string Write(int) const { return json::FormatText(grid.Text()); }
  void Read(const JsonPlace& place) const {
    const Result<SpatialGrid> read = SpatialGrid::Parse(place.Text());
    if (!read.ok()) return place.Refuse(kSpatialGridForm);
    grid = *read;
  }
};

struct CellParts {
  GridCell cell;

  void Members(json::Object& member) {
    member("n", cell.n);
    member("d", cell.d);
    member("h", cell.h);
    member("w", cell.w);
  }
};

// A split job. Objects without `tracks` were written by an older ucudnn and are ignored.
struct TrackedJob {
  std::optional<SplitJob>& job;

  std::string Write(int depth) const { return json::Write(job, depth); }
  void Read(const JsonPlace& place) const {
    place.Object();
    if (!place.Member("tracks").absent()) json::Read(place, job.emplace());
  }
  bool empty() const { return !job; }
};

}  // namespace

void SplitAxis::Members(json::Object& member) {
  member("owned", Intervals{owned});
  member("needed", Intervals{needed});
}

void ReportedKernel::Members(json::Object& member, bool offline) {
  offline ? PlannedMembers(member) : RunMembers(member);
  undivided.micro_batch = best_undivided.micro_batch = problem.n;
}

void ReportedKernel::RunMembers(json::Object& member) {
  member("layers", layers, json::kLeftOutIfEmpty);
  member("op", OperationName(problem.operation), json::kUnread);
  member("problem", ProblemColumns{problem, member.place()});
  member("api", api, json::kMayLack);
  member("calls", calls);
  member("undivided_calls", undivided_calls, json::kMayLack);
  member("lanes", LaneNumbers{lanes}, json::kMayLack);
  member("asked", asked, json::kMayLack);
  member("limit_bytes", limit_bytes);
  member("workspace_bytes", workspace_bytes);
  member("owned_workspace_bytes", owned_workspace_bytes, json::kMayLack);
  member("plan", PlanRuns{division, problem, plan_ms});
  member("total_ms", plan_ms, json::kUnread);
  member("undivided", UndividedEngine{undivided}, json::kNullIfEmpty);
  member("best_undivided", UndividedEngine{best_undivided}, json::kNullIfEmpty);
  member("reason", reason, json::kMayLack);
  member("graph_nodes", steps, {.left_out_if_empty = true, .unread = true});
  if (!layers.empty()) name = Join(layers, ", ");
}

void ReportedKernel::PlannedMembers(json::Object& member) {
  member("name", name, json::kMayLack);
  member("op", OperationName(problem.operation), json::kUnread);
  member("problem", ProblemColumns{problem, member.place()});
  member("api", api, json::kMayLack);
  member("segment", segment);
  member("lanes", copies,
         {.may_lack = true, .left_out = copies == 1, .least = 1, .most = kMostLanes});
  member("undivided", UndividedEngine{best_undivided, "time_ms"}, json::kNullIfEmpty);
  PlannedDivision chosen{division, problem};
  member("chosen", chosen);
  workspace_bytes = chosen.workspace_bytes;
  plan_ms = chosen.total_ms;
  member("desirable_set", DesirableSet{desirable_set, problem}, json::kMayLack);
}

std::optional<double> KnownTime(const MicroConfiguration& micro) {
  return micro.engine.empty() || micro.time_ms < 0 ? std::nullopt : std::optional(micro.time_ms);
}

std::optional<double> ReportedKernel::UndividedMs() const {
  if (!undivided.engine.empty()) return KnownTime(undivided);
  const bool own_api =
      division.configuration.Pieces() == 1 &&
      division.configuration.runs[0].micro.engine.of_graph_api() == (api == "graph");
  return own_api ? plan_ms : std::nullopt;
}

std::optional<double> ReportedKernel::BestUndividedMs(bool offline) const {
  if (!best_undivided.engine.empty()) return KnownTime(best_undivided);
  return !offline && division.configuration.Pieces() == 1 ? plan_ms : std::nullopt;
}

void ReportedFallback::Members(json::Object& member) {
  member("kernel", kernel);
  member("cause", cause);
  member("count", count);
}

void ReportedBudget::Members(json::Object& member) {
  member("total_bytes", total_bytes);
  member("planned_bytes", planned_bytes, json::kUnread);
  member("division", division, json::kMayLack);
  member("divided", divided, json::kUnread);
  member("kernels", kernels, json::kUnread);
  member("total_workspace_bytes", total_workspace_bytes);
  member("capture_bytes", capture_bytes, json::kUnread);
  member("solver", solver, json::kNullIfEmpty);
  member("optimal", optimal, json::kUnread);
  member("other_devices", other_devices, {.left_out_if_empty = true, .unread = true});
}

void SplitTimes::Members(json::Object& member) {
  member("calls", calls, {.least = 1});
  member("call_ms", json::Thousandths{call_ms});
  member("own_ms", json::Thousandths{own_ms});
  member("exchange_ms", json::Thousandths{exchange_ms});
  member("exposed_ms", json::Thousandths{exposed_ms});
  member("hidden_ms", json::Thousandths{hidden_ms});
  member("sum_ms", json::Thousandths{sum_ms});
  member("exposed_sum_ms", json::Thousandths{exposed_sum_ms});
}

void SplitKernelEntry::Members(json::Object& member, const SpatialGrid& grid) {
  member("kind", kind);
  member("op", op);
  member("problem", PossibleProblem{problem, member.place()});
  member("common", common);
  member("verdict", verdict);
  member("reason", reason, json::kMayLack);
  member("calls", calls);
  member("paired_calls", paired_calls, json::kMayLack);
  member("sent_bytes", sent_bytes);
  member("received_bytes", received_bytes);
  member("least_sent_bytes", least_sent_bytes);
  member("least_received_bytes", least_received_bytes);
  member("summed_bytes", summed_bytes, json::kMayLack);
  member("slices", slices, {.least = 1, .most = kMostExtent});
  member("axes", SplitAxes{axes, grid}, json::kMayLack);
  member("times", times);
}

std::string StepSpanEntry::Write(int depth) {
  return json::FormatList(
      {json::FormatText(kSpanNames[static_cast<size_t>(span)]),
       json::Thousandths{begin_ms}.Write(depth), json::Thousandths{length_ms}.Write(depth)},
      depth);
}

void StepSpanEntry::Read(const JsonPlace& place) {
  const std::vector<JsonPlace> parts = place.Items();
  if (parts.size() != 3) return place.Refuse("what, its beginning and its length");
  const std::string name = parts[0].Text();
  const auto known = std::find(std::begin(kSpanNames), std::end(kSpanNames), name);
  if (known == std::end(kSpanNames)) {
    return parts[0].Refuse("call, own, exchange, await_exchange, sum or await_sum");
  }
  span = static_cast<StepSpan>(known - std::begin(kSpanNames));
  json::Thousandths{begin_ms}.Read(parts[1]);
  json::Thousandths{length_ms}.Read(parts[2]);
}

void StepCallEntry::Members(json::Object& member, size_t kernels) {
  member("kernel", kernel, {.most = static_cast<int64_t>(kernels) - 1});
  member("spans", spans);
}

void StepEntry::Members(json::Object& member, size_t kernels) {
  member("number", number, {.least = 1});
  member("calls", calls, {.on_one_line = true}, kernels);
}

void RankEntry::Members(json::Object& member, const SpatialGrid& grid) {
  member("rank", rank, {.most = grid.Ranks() - 1});
  CellParts cell{grid.CellOf(rank)};
  member("cell", cell, {.unread = true, .on_one_line = true});
  member("transport", transport, json::kNullIfEmpty);
  member("library", library, json::kNullIfEmpty);
  member("calls", calls);
  member("owned_workspace_bytes", owned_bytes, json::kMayLack);
  member("unlisted_calls", unlisted_calls, json::kUnread);
  member("kernels", kernels, {.most_items = kMostSplitKernels}, grid);
  member("step", step, json::kNullIfEmpty, kernels.size());
}

void RefusedEntry::Members(json::Object& member) {
  member("what", what);
  member("count", count);
}

void SplitJob::Members(json::Object& member) {
  member("grid", GridText{grid});
  member("rank", rank, json::kUnread);
  member("ranks", size, json::kUnread);
  member("calls", calls, json::kUnread);
  member("exchanged_bytes", exchanged_bytes, json::kUnread);
  member("owned_workspace_bytes", owned_bytes, json::kUnread);
  member("tracks", ranks, {}, grid);
  member("refused", refused);
}

void RunReport::Members(json::Object& member) {
  std::string format = offline ? kTableName : kReportName;
  member("format", format);
  offline = format == kTableName;
  if (offline) return TableMembers(member);
  if (format == kReportName) return RunMembers(member);
  member.place().Member("format").Refuse(
      "\"ucudnn-report\", \"ucudnn-workspace-table\" or \"ucudnn-multigrid\"");
}

void RunReport::RunMembers(json::Object& member) {
  member("version", json::Version{kReportVersion, "run the program again with --report"});
  member("ucudnn", ucudnn, json::kMayLack);
  member("cudnn", cudnn, json::kMayLack);
  member("device", device);
  member("mode", mode, json::kMayLack);
  member("measured", measured, json::kMayLack);
  member("total_workspace", budget, json::kLeftOutIfEmpty);
  member("spatial", TrackedJob{split}, json::kLeftOutIfEmpty);
  member("kernels", kernels, {.may_lack = true, .most_items = kMostKernels}, offline);
  member("fallbacks", fallbacks, json::kMayLack);
}

void RunReport::TableMembers(json::Object& member) {
  const bool has_budget = budget.total_bytes.has_value();
  member("version",
         json::Version{kWorkspaceTableVersion, "plan again with `ucudnn workspace --json`"});
  member("device", device);
  member("cudnn", cudnn, json::kMayLack);
  member("driver", driver, json::kUnread);
  member("policy", policy, json::kMayLack);
  member("total_bytes", budget.total_bytes, json::kLeftOutIfEmpty);
  member("limit_bytes", limit_bytes, has_budget ? json::kLeftOutIfEmpty : json::kMayLack);
  member("division", budget.division, json::kMayLack);
  member("solver", budget.solver, json::kNullIfEmpty);
  member("optimal", budget.optimal, json::kUnread);
  member("gap_ms", gap_ms, {.unread = true, .left_out = budget.optimal != false});
  member("total_time_ms", total_time_ms, json::kUnread);
  member("total_workspace_bytes", budget.total_workspace_bytes);
  member("undivided_limit_bytes", undivided_limit_bytes);
  member("kernels", kernels, {.may_lack = true, .most_items = kMostKernels}, offline);
  for (ReportedKernel& kernel : kernels) kernel.limit_bytes = limit_bytes;
}

}  // namespace ucudnn
