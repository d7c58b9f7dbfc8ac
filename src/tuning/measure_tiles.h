// Measures divisions into tiles. Each kind of tile is measured alone, on a twin that takes little
// memory, whatever the whole takes. As thread-safe as measure.h.
#pragma once

#include "base/status.h"
#include "convolution/tiles.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

// The fastest division of `problem` into the tiles of `grid`: of each kind of tile, its edges
// included, the engine of `scope` that takes least time of those within limits.fit_bytes (copies
// and partial sums included; none: any workspace). Times are in milliseconds, those of partials
// with their sum. An error where the grid cannot cut the problem, where it has packed tiles, whose
// copies are not timed, and where a kind has no such engine, or none was measured in time.
Result<Division> MeasureTiles(const Device& device, const ConvolutionProblem& problem,
                              const TileGrid& grid, const EngineScope& scope,
                              const MeasureLimits& limits);

}  // namespace ucudnn::tuning
