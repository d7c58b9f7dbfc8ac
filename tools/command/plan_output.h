// How the commands show problems, engines and plans: as JSON and in words. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn::command {

using Json = nlohmann::ordered_json;

// The layer columns, numbers where they are numbers.
Json ProblemJson(const ConvolutionProblem& problem);

// An engine that takes the whole mini-batch, as engine, workspace_bytes and time_ms.
Json EngineJson(const MicroConfiguration& micro);

// Runs of equal micro-batches: engine, workspace_bytes, piece_ms (of one of them), micro_batch and
// count.
Json PlanJson(const Configuration& configuration);

// "128 + 2 x 64": the micro-batches in their order.
std::string DivisionText(const Configuration& configuration);

// One line of JSON text per member, whatever bytes a name holds.
std::string JsonText(const Json& json);

}  // namespace ucudnn::command
