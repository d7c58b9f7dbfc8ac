// How the commands show problems, engines and plans: as JSON and in words. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "convolution/division_text.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn::command {

using Json = nlohmann::ordered_json;

// The layer columns, numbers where they are numbers.
Json ProblemJson(const ConvolutionProblem& problem);

// An engine that takes the whole mini-batch, as engine, workspace_bytes and time_ms.
Json EngineJson(const MicroConfiguration& micro);

// Runs of equal micro-batches, or of the kinds of tiles, as files have them (RunMembers).
Json PlanJson(const Division& division);

// One line of JSON text per member, whatever bytes a name holds.
std::string JsonText(const Json& json);

}  // namespace ucudnn::command
