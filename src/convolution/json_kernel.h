// Kernels and their plans in JSON: the parts that reports and workspace plans share, read and
// written. The places keep faults. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_place.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn {

// Reads the convolution from an object's `op` and `problem`.
ConvolutionProblem ReadProblem(const JsonPlace& kernel);

// Reads the runs of a plan: equal micro-batches that make up the problem's images, or the kinds of
// tiles of a grid that makes up the problem. Returns the time of all runs, in milliseconds, if each
// has one.
std::optional<double> ReadPlan(const JsonPlace& list, const ConvolutionProblem& problem,
                               Division& division);

// Returns the members of a run, with values that are JSON text: engine, micro_batch, for a kind of
// tiles also `tile` and `border`, count, workspace_bytes and piece_ms, which is null if the time is
// unknown (negative).
std::vector<std::pair<std::string, std::string>> RunMembers(const Division& division, size_t run);

}  // namespace ucudnn
