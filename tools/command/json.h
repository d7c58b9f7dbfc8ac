// Problems, engines and plans as JSON, for the outputs of the commands. Pure functions.
#pragma once

#include "base/ordered_json.h"
#include "convolution/division_text.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn::command {

// Returns the layer columns; numbers are JSON numbers.
Json ProblemJson(const ConvolutionProblem& problem);

// Returns an engine that runs the whole mini-batch: engine, workspace_bytes and time_ms.
Json EngineJson(const MicroConfiguration& micro);

// Returns a division: time_ms, workspace_bytes and plan.
Json DivisionJson(const Division& division);

// Returns the runs of equal micro-batches, or of the kinds of tiles, as files have them (PlanRuns).
Json PlanJson(Division division);

}  // namespace ucudnn::command
