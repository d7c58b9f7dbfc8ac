// Problems, engines and plans as JSON, for the outputs of the commands. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "convolution/division_text.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn::command {

using Json = nlohmann::ordered_json;

// Returns the layer columns; numbers are JSON numbers.
Json ProblemJson(const ConvolutionProblem& problem);

// Returns an engine that runs the whole mini-batch: engine, workspace_bytes and time_ms.
Json EngineJson(const MicroConfiguration& micro);

// Returns a division: time_ms, workspace_bytes and plan.
Json DivisionJson(const Division& division);

// Returns the runs of equal micro-batches, or of the kinds of tiles, as files have them (PlanRuns).
Json PlanJson(Division division);

// Returns the value; null if there is none.
template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

// Returns the list of json_of(item) for each item.
template <typename Items, typename JsonOf>
Json ListOf(const Items& items, const JsonOf& json_of) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(json_of(item));
  return list;
}

// Returns JSON text with one line per member. Names may have any bytes.
std::string JsonText(const Json& json);

}  // namespace ucudnn::command
