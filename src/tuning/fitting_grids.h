// Finds the grids of tiles that bring an engine under a workspace limit; these are measured for a
// convolution of which not even one image fits. Thread-safe as far as cuDNN is; nothing is run.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/tiles.h"
#include "cudnn/engine.h"
#include "cudnn/fused_operands.h"
#include "options/options.h"
#include "tuning/budget.h"

namespace ucudnn::tuning {

// Returns the grids to consider, in ascending order of the number of tiles. They cut single images
// into 2, 4, 8, ... parts along h, in three dimensions along d, h or both, whichever gives the
// smallest tiles, and along w where the places to cut run out. If no spatial axis can be cut, they
// cut groups, then k. Policy powerOfTwo cuts only one axis, and no single images. The grids are the
// same in every process, so one process finds the measurements of another without asking cuDNN.
std::vector<TileGrid> GridsOf(const ConvolutionProblem& problem,
                              BatchSizePolicy policy = BatchSizePolicy::kAuto);

// Returns tiles whose engines are representative of all grids of GridsOf: every kind of the first
// grid in which most tiles are of one kind and none is vast, or else of the last grid; the most
// frequent kind comes first. Empty if nothing can be cut. `most_span` has the meaning that it has
// in planning::IsVast and CutIntoTiles.
std::vector<ConvolutionProblem> TypicalTiles(const ConvolutionProblem& problem,
                                             BatchSizePolicy policy,
                                             int64_t most_span = kMostViewSpan);

// Returns `engine` on every kind of tile of `grid`, each with its workspace in bytes (copies and
// partial sums included) and without a time. Fails if the grid cannot cut `problem`, or if a tile
// cannot read what is fused behind it; if the engine does not serve a kind within `limit_bytes`,
// the error names that kind.
Result<Division> DivideBy(const TileGrid& grid, cudnn::Engines& engines,
                          const ConvolutionProblem& problem, const EngineId& engine,
                          size_t limit_bytes, std::span<const cudnn::FusedOperand> fused = {});

// The limits that tiles must fit.
struct GridLimits {
  size_t workspace_bytes = 0;
  size_t cache_bytes = 0;  // size of the device's L2 cache; 0: unknown
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  // No plan is made after this time; grids that were not looked at are left out.
  Clock::time_point deadline = Clock::time_point::max();
};

struct FoundGrids {
  // At most four grids within the workspace, in ascending order of the number of tiles: the fewest
  // tiles that fit, twice as many, and the fewest whose workspace is at most the cache, or half of
  // it.
  std::vector<Division> fitting;
  size_t least_bytes = 0;  // if none fits: the need of the grid that needs least; 0: none is served
  std::string why;         // if none is served: the obstacle of the last grid
};
// Finds grids of GridsOf for `engine`, behind which operations may read `fused`. The workspaces of
// two grids give an affine estimate for the other grids. Plans are made only for grids that fit by
// this estimate, or for all grids once a plan contradicts it.
FoundGrids FittingGrids(cudnn::Engines& engines, const ConvolutionProblem& problem,
                        const EngineId& engine, const GridLimits& limits,
                        std::span<const cudnn::FusedOperand> fused = {});

}  // namespace ucudnn::tuning
