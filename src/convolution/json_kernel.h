// Kernels and their plans as JSON files have them: the parts that reports and workspace plans
// share, read and written. Faults are kept by the places. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_place.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn {

// The convolution of an object's `op` and `problem`.
ConvolutionProblem ReadProblem(const JsonPlace& kernel);

// The runs of a plan: equal micro-batches that make up the problem's images, or the kinds of tiles
// of a grid that makes up the problem. Gives the time of all, in milliseconds, where all have one.
std::optional<double> ReadPlan(const JsonPlace& list, const ConvolutionProblem& problem,
                               Division& division);

// The members of a run, with values that are JSON text: engine, micro_batch, of a kind of tiles
// `tile` and `border`, count, workspace_bytes and piece_ms, which is null where the time is
// negative: unknown.
std::vector<std::pair<std::string, std::string>> RunMembers(const Division& division, size_t run);

}  // namespace ucudnn
