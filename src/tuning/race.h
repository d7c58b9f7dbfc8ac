// Times divisions of one kernel in place: in turns, so that a disturbance affects all of them, on
// tensors of the kernel's real size. Tiles that are measured one by one on small twins stay in the
// cache, and seem faster than they are. Results are not compared (verify.h).
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
  size_t workspace_bytes = 0;  // what it runs in, as in a program that grants no more
  EngineScope scope;           // its engines
};

struct RaceResult {
  Status status;
  bool lacks_memory = false;     // it failed: it takes more than MeasureLimits::memory_bytes
  std::vector<double> times_ms;  // the median time of each racer
};

// Runs all racers with the operands of the first one's scope, in memory of ucudnn's own.
// Bounds, memory and threads are as for VerifyPlan; if time runs out, the runs so far count.
RaceResult Race(const Device& device, const ConvolutionProblem& problem,
                const std::vector<Racer>& racers, const MeasureLimits& limits);

}  // namespace ucudnn::tuning
