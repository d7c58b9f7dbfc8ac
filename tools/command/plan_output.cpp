#include "command/plan_output.h"

#include <charconv>
#include <cstdint>
#include <utility>

#include "convolution/columns.h"
#include "convolution/json_kernel.h"

namespace ucudnn::command {

Json ProblemJson(const ConvolutionProblem& problem) {
  Json json;
  for (const auto& [column, text] : ToColumns(problem)) {
    if (text.empty()) continue;
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    json[column] = whole ? Json(number) : Json(text);
  }
  return json;
}

Json EngineJson(const MicroConfiguration& micro) {
  return {{"engine", micro.engine.Text()},
          {"workspace_bytes", micro.workspace_bytes},
          {"time_ms", micro.time_ms}};
}

Json PlanJson(const Division& division) {
  Json json = Json::array();
  for (size_t run = 0; run < division.configuration.runs.size(); ++run) {
    // The order of members that these files have always had.
    Json members = {{"engine", {}}, {"workspace_bytes", {}}, {"piece_ms", {}}, {"micro_batch", {}}};
    for (const auto& [name, text] : RunMembers(division, run)) members[name] = Json::parse(text);
    json.push_back(std::move(members));
  }
  return json;
}

std::string JsonText(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ucudnn::command
