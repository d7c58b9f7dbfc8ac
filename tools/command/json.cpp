#include "command/json.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "command/numbers.h"
#include "convolution/columns.h"
#include "convolution/json_kernel.h"

namespace ucudnn::command {

Json ProblemJson(const ConvolutionProblem& problem) {
  Json json;
  for (const auto& [column, text] : ToColumns(problem)) {
    if (text.empty()) continue;
    const auto number = WholeNumber<int64_t>(text, std::numeric_limits<int64_t>::min());
    json[column] = number ? Json(*number) : Json(text);
  }
  return json;
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

Json PlanJson(const Division& division) {
  Json json = Json::array();
  for (size_t run = 0; run < division.configuration.runs.size(); ++run) {
    // The files have always had this order of members.
    Json members = {{"engine", {}}, {"workspace_bytes", {}}, {"piece_ms", {}}, {"micro_batch", {}}};
    for (const auto& [name, text] : RunMembers(division, run)) members[name] = Json::parse(text);
    json.push_back(std::move(members));
  }
  return json;
}

Json FiniteOrNull(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? Json(*number) : Json();
}

std::string JsonText(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ucudnn::command
