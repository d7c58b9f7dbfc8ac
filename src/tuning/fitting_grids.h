// Finds the grids of tiles with which an engine's workspace fits a limit or the L2 cache.
// planning::TileUse says for which purpose a kernel's tiles are measured. Thread-safe as far as
// cuDNN is. Makes plans of the graph API, but runs nothing.
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
// into 2, 4, 8, ... parts: along h or, in three dimensions, along d, h or both, whichever gives the
// smallest tiles. They cut w when the other spatial axes have no more places to cut. If no spatial
// axis can be cut, they cut groups, then k. Grids of policy powerOfTwo cut only one axis, and do
// not divide the mini-batch. Every process gets the same grids, so it finds the measurements of
// another process without asking cuDNN.
std::vector<TileGrid> GridsOf(const ConvolutionProblem& problem,
                              BatchSizePolicy policy = BatchSizePolicy::kAuto);

// Returns the tiles on which engines for the tiles of all grids of GridsOf are sought. They are the
// kinds of one grid: the first grid in which most tiles are of one kind and no kind is vast or, if
// there is no such grid, the last grid. The most frequent kind comes first. Empty if nothing can be
// cut. For `most_span` see planning::IsVast and CutIntoTiles.
std::vector<ConvolutionProblem> TypicalTiles(const ConvolutionProblem& problem,
                                             BatchSizePolicy policy,
                                             int64_t most_span = kMostViewSpan);

// Returns the division of `problem` into the tiles of `grid`, with `engine` on every kind of tile.
// The division states workspaces in bytes (copies and partial sums included), but no times. Fails
// if the grid cannot cut `problem`, or if a tile cannot read a fused operand. If the engine does
// not serve a kind within `limit_bytes`, the error names that kind.
Result<Division> DivideBy(const TileGrid& grid, cudnn::Engines& engines,
                          const ConvolutionProblem& problem, const EngineId& engine,
                          size_t limit_bytes, std::span<const cudnn::FusedOperand> fused = {});

// The limits within which grids are found.
struct GridLimits {
  size_t workspace_bytes = 0;
  size_t cache_bytes = 0;  // bytes of the device's L2 cache; 0: unknown
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  // After this time no more plans are made, and the grids that were not tried yet are left out.
  Clock::time_point deadline = Clock::time_point::max();
};

struct FoundGrids {
  // At most four grids within the workspace, in ascending order of the number of tiles: the first
  // grid of GridsOf that fits, the next one that fits, the first one whose workspace also fits the
  // L2 cache, and the first one whose workspace also fits half of the cache.
  std::vector<Division> fitting;
  // If no grid fits: the smallest workspace of any grid in bytes; 0: the engine can run no grid.
  size_t least_bytes = 0;
  std::string why;  // why the engine cannot run the last grid, if it can run none
};
// Finds the grids of GridsOf that fit `limits` with `engine`; fused operations read `fused`. If
// there are several grids, the workspaces of two of them give an affine estimate for the others,
// and plans are made only for grids that fit by this estimate. If a plan contradicts the estimate,
// the grids are searched again without it.
FoundGrids FittingGrids(cudnn::Engines& engines, const ConvolutionProblem& problem,
                        const EngineId& engine, const GridLimits& limits,
                        std::span<const cudnn::FusedOperand> fused = {});

}  // namespace ucudnn::tuning
