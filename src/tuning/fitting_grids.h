// Which grids of tiles bring an engine under a workspace: what is measured for a convolution of
// which not even one image fits. Thread-safe as far as cuDNN is; nothing is run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "convolution/tiles.h"
#include "cudnn/engine.h"
#include "tuning/budget.h"

namespace ucudnn::tuning {

// The grids that are looked at, by rising number of tiles: single images, cut into 2, 4, 8, ...
// parts of their outermost spatial axis, then of the next ones, where places to cut run out; of
// groups, then of k, where no spatial axis can be cut. Policy powerOfTwo cuts one axis alone. The
// same in every process, so that one finds the measurements of another without asking cuDNN.
std::vector<TileGrid> GridsOf(const ConvolutionProblem& problem,
                              BatchSizePolicy policy = BatchSizePolicy::kAuto);

// Tiles whose engines stand for those of all grids of GridsOf: every kind of the first grid in
// which most tiles are of one kind and none is vast, else of the last grid; the commonest first.
// Empty where nothing can be cut. `most_span` is that of planning::IsVast and CutIntoTiles.
std::vector<ConvolutionProblem> TypicalTiles(const ConvolutionProblem& problem,
                                             BatchSizePolicy policy,
                                             int64_t most_span = kMostViewSpan);

// `engine` on every kind of tile of `grid`, each with its workspace in bytes (copies and partial
// sums included) and without a time. An error where the grid cannot cut `problem`, or the engine
// does not serve a kind within `limit_bytes`, names that kind.
Result<Division> DivideBy(const TileGrid& grid, cudnn::Engines& engines,
                          const ConvolutionProblem& problem, const EngineId& engine,
                          size_t limit_bytes);

// What tiles have to fit.
struct GridLimits {
  size_t workspace_bytes = 0;
  size_t cache_bytes = 0;  // of the device; 0: unknown
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  // No plan is begun behind it, and what was not looked at is left out.
  Clock::time_point deadline = Clock::time_point::max();
};

struct FoundGrids {
  // At most four, within the workspace: the fewest tiles that fit, twice as many, and the fewest
  // whose workspace is at most the cache and half of that, by rising number of tiles.
  std::vector<Division> fitting;
  size_t least_bytes =
      0;            // where none fits: what the grid that needs least needs; 0: none is served
  std::string why;  // where none is served: what prevents the last one
};
// `engine` in the grids of GridsOf. The workspaces of two of them say, by an affine law, which
// others may fit; plans are made for those alone and, where what they need is not as the law says,
// for all.
FoundGrids FittingGrids(cudnn::Engines& engines, const ConvolutionProblem& problem,
                        const EngineId& engine, const GridLimits& limits);

}  // namespace ucudnn::tuning
