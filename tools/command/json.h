// Shows problems, engines and plans for the commands: as JSON and in words. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "convolution/division_text.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn::command {

using Json = nlohmann::ordered_json;

// Returns the layer columns, with numbers as numbers.
Json ProblemJson(const ConvolutionProblem& problem);

// Returns an engine that takes the whole mini-batch, as engine, workspace_bytes and time_ms.
Json EngineJson(const MicroConfiguration& micro);

// Returns a division as time_ms, workspace_bytes and plan.
Json DivisionJson(const Division& division);

// Runs of equal micro-batches, or of the kinds of tiles, as in files (PlanRuns).
Json PlanJson(Division division);

// Returns null if there is none.
template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}
// Returns null if there is none, or it is not finite.
Json FiniteOrNull(const std::optional<double>& number);

// Returns the list of `json_of` each item.
template <typename Items, typename JsonOf>
Json ListOf(const Items& items, const JsonOf& json_of) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(json_of(item));
  return list;
}

// Returns JSON text with one line per member. Names may hold any bytes.
std::string JsonText(const Json& json);

}  // namespace ucudnn::command
