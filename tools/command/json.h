// Problems, engines and plans as JSON, for the outputs of the commands. Pure functions.
#pragma once

#include "base/ordered_json.h"
#include "convolution/division_text.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn::command {

// Returns the columns of a layer file (ToColumns) as members; numbers are JSON numbers.
Json ProblemJson(const ConvolutionProblem& problem);

// Returns the members engine, workspace_bytes and time_ms. `micro` runs the whole mini-batch.
Json EngineJson(const MicroConfiguration& micro);

// Returns the members time_ms, workspace_bytes and plan.
Json DivisionJson(const Division& division);

// Returns the list of the division's runs in the format of ucudnn's files (PlanRuns). A run is a
// number of equal micro-batches, or the tiles of one kind.
Json PlanJson(Division division);

}  // namespace ucudnn::command
