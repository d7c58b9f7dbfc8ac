// Which grids of tiles bring an engine under a workspace: what is measured for a convolution of
// which not even one image fits. Thread-safe as far as cuDNN is; nothing is run.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "convolution/tiles.h"
#include "cudnn/engine.h"

namespace ucudnn::tuning {

// The grids that are looked at, by rising number of tiles: single images, cut into 2, 4, 8, ...
// parts of their outermost spatial axis, then of the next ones, where places to cut run out; of
// groups, then of k, where no spatial axis can be cut. The same in every process, so that one finds
// the measurements of another without asking cuDNN.
std::vector<TileGrid> GridsOf(const ConvolutionProblem& problem);

// `engine` on every kind of tile of `grid`, each with its workspace in bytes (copies and partial
// sums included) and without a time. An error where the grid cannot cut `problem`, or the engine
// does not serve a kind within `limit_bytes`, names that kind.
Result<Division> DivideBy(const TileGrid& grid, cudnn::Engines& engines,
                          const ConvolutionProblem& problem, const EngineId& engine,
                          size_t limit_bytes);

// At most four divisions of GridsOf within `limit_bytes`: the fewest tiles that fit, twice as many,
// and the fewest whose workspace is at most `cache_bytes` and half of that, by rising number of
// tiles. Empty where no grid fits.
std::vector<Division> FittingGrids(cudnn::Engines& engines, const ConvolutionProblem& problem,
                                   const EngineId& engine, size_t limit_bytes, size_t cache_bytes);

}  // namespace ucudnn::tuning
