// Measures divisions into tiles. Each kind of tile is measured alone, on a twin that takes little
// memory, whatever the whole takes. As thread-safe as measure.h.
#pragma once

#include <vector>

#include "base/status.h"
#include "convolution/tiles.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

// Of each kind of tile of `grid`, its edges included, the engines of `scope` that run it within
// limits.fit_bytes (copies and partial sums included; none: any workspace), with the length of the
// kind. Times are in milliseconds, those of partials with their sum. An error where the grid cannot
// cut the problem, where it has packed tiles, whose copies are not timed, and where a kind has no
// such engine, or none was measured in time.
using KindMeasurements = std::vector<std::vector<MicroConfiguration>>;
Result<KindMeasurements> MeasureKinds(const Device& device, const ConvolutionProblem& problem,
                                      const TileGrid& grid, const EngineScope& scope,
                                      const MeasureLimits& limits);

// The fastest of these divisions.
Result<Division> MeasureTiles(const Device& device, const ConvolutionProblem& problem,
                              const TileGrid& grid, const EngineScope& scope,
                              const MeasureLimits& limits);

}  // namespace ucudnn::tuning
