#include "tuning/fitting_grids.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "convolution/partial_sums.h"

namespace ucudnn::tuning {
namespace {

// How many parts each axis of `grid` has, in the order in which axes are cut.
std::vector<int*> AxesOf(const ConvolutionProblem& problem, TileGrid& grid) {
  std::vector<int*> axes;
  for (int axis = kMaxSpatial - problem.spatial_rank; axis < kMaxSpatial; ++axis) {
    axes.push_back(&grid.spatial[static_cast<size_t>(axis)]);
  }
  axes.push_back(&grid.groups);
  axes.push_back(&grid.k);
  return axes;
}

int TilesOf(const TileGrid& grid) {
  return grid.n * grid.groups * grid.k * grid.spatial[0] * grid.spatial[1] * grid.spatial[2];
}

}  // namespace

std::vector<TileGrid> GridsOf(const ConvolutionProblem& problem) {
  std::vector<TileGrid> grids;
  if (problem.n > kMostTiles) return grids;
  TileGrid grid;
  grid.n = problem.n;
  for (int* const parts : AxesOf(problem, grid)) {
    // Groups and filters are cut where nothing else is.
    if ((parts == &grid.groups || parts == &grid.k) && !grids.empty()) break;
    while (2 * TilesOf(grid) <= kMostTiles) {
      *parts *= 2;
      if (!CutIntoTiles(problem, grid).ok()) {
        *parts /= 2;
        break;
      }
      grids.push_back(grid);
    }
  }
  return grids;
}

Result<Division> DivideBy(const TileGrid& grid, cudnn::Engines& engines,
                          const ConvolutionProblem& problem, const EngineId& engine,
                          size_t limit_bytes) {
  UCUDNN_ASSIGN_OR_RETURN(Tiles cut, CutIntoTiles(problem, grid));
  Division division({}, std::make_shared<const Tiles>(std::move(cut)));
  const Tiles& tiles = *division.tiles;
  const bool sums = SumsPartials(problem) && tiles.AddUp();
  const cudnn::PieceScales scales = {.are_plain = true, .may_add = !sums && tiles.AddUp()};
  for (size_t kind = 0; kind < tiles.kinds.size(); ++kind) {
    const TileKind& of = tiles.kinds[kind];
    const size_t beside = PackedBytes(of) + (sums ? PartialSumBytes(problem) : 0);
    if (beside > limit_bytes) {
      return Status::Error(std::to_string(beside) + " bytes for what lies beside " +
                           Describe(of.problem) + " exceed " + std::to_string(limit_bytes));
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<cudnn::Piece> piece,
                            engines.MakePiece(of.problem, engine, scales, limit_bytes - beside));
    MicroConfiguration micro = {engine, of.problem.n, 0, piece->workspace_bytes() + beside};
    micro.tile = of.lengths;
    division.configuration.runs.push_back({micro, tiles.CountOf(kind)});
  }
  return division;
}

std::vector<Division> FittingGrids(cudnn::Engines& engines, const ConvolutionProblem& problem,
                                   const EngineId& engine, size_t limit_bytes, size_t cache_bytes) {
  std::vector<Division> all;
  for (const TileGrid& grid : GridsOf(problem)) {
    auto division = DivideBy(grid, engines, problem, engine, limit_bytes);
    if (division.ok()) all.push_back(std::move(*division));
  }
  std::set<size_t> chosen;
  for (size_t i = 0; i < std::min<size_t>(2, all.size()); ++i) chosen.insert(i);
  for (const size_t bytes : {cache_bytes, cache_bytes / 2}) {
    const auto fits = std::find_if(all.begin(), all.end(), [&](const Division& division) {
      return division.configuration.WorkspaceBytes() <= bytes;
    });
    if (fits != all.end()) chosen.insert(static_cast<size_t>(fits - all.begin()));
  }
  std::vector<Division> fitting;
  for (const size_t i : chosen) fitting.push_back(std::move(all[i]));
  return fitting;
}

}  // namespace ucudnn::tuning
