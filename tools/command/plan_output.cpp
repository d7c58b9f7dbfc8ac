#include "command/plan_output.h"

#include <charconv>
#include <cstdint>

#include "convolution/columns.h"

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

Json PlanJson(const Configuration& configuration) {
  Json json = Json::array();
  for (const Run& run : configuration.runs) {
    json.push_back({{"engine", run.micro.engine.Text()},
                    {"workspace_bytes", run.micro.workspace_bytes},
                    {"piece_ms", run.micro.time_ms},
                    {"micro_batch", run.micro.micro_batch},
                    {"count", run.count}});
  }
  return json;
}

std::string DivisionText(const Configuration& configuration) {
  std::string text;
  for (const Run& run : configuration.runs) {
    if (!text.empty()) text += " + ";
    if (run.count > 1) text += std::to_string(run.count) + " x ";
    text += std::to_string(run.micro.micro_batch);
  }
  return text;
}

std::string JsonText(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ucudnn::command
