// Times divisions of one kernel on tensors of the kernel's real size. Tiles that are measured one
// by one on small tensors (SlackTwin) stay in the cache, so they seem faster than they are. The
// divisions run in turn, so that a disturbance affects all of them. Results are not compared here,
// but in verify.h.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"
#include "tuning/engine_scope.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

struct Racer {
  Division division = Configuration{};
  // The bytes of workspace that the racer gets: as many as the program would pass for it.
  size_t workspace_bytes = 0;
  EngineScope scope;  // the racer's engines
};

struct RaceResult {
  Status status;
  // True if the race failed because it needs more than MeasureLimits::memory_bytes.
  bool lacks_memory = false;
  std::vector<double> times_ms;  // median time of each racer
};

// Runs all racers with the fused operands of the first racer's scope, in device memory of ucudnn's
// own. For limits, memory and threads see VerifyPlan. If time runs out, returns the medians of the
// runs so far; fails if a racer has no sample by then.
RaceResult Race(const Device& device, const ConvolutionProblem& problem,
                const std::vector<Racer>& racers, const MeasureLimits& limits);

}  // namespace ucudnn::tuning
