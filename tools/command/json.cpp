#include "command/json.h"

#include "convolution/json_kernel.h"

namespace ucudnn::command {

Json ProblemJson(const ConvolutionProblem& problem) {
  return Json::parse(json::FormatObject(ProblemMembers(problem), json::kOneLine));
}

Json EngineJson(const MicroConfiguration& micro) {
  return {{"engine", micro.engine.Text()},
          {"workspace_bytes", micro.workspace_bytes},
          {"time_ms", micro.time_ms}};
}

Json DivisionJson(const Division& division) {
  return {{"time_ms", division.configuration.TimeMs()},
          {"workspace_bytes", division.configuration.WorkspaceBytes()},
          {"plan", PlanJson(division)}};
}

Json PlanJson(Division division) {
  std::optional<double> total_ms;
  const PlanRuns runs{division, {}, total_ms, RunOrder::kCommand};
  return Json::parse(runs.Write(json::kOneLine));
}

}  // namespace ucudnn::command
