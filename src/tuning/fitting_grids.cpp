#include "tuning/fitting_grids.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "convolution/partial_sums.h"
#include "planning/decision/tile_use.h"

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

// Whether the grid cuts more than one axis of an image.
bool CutsSeveral(const TileGrid& grid) {
  const int parts[] = {grid.groups, grid.k, grid.spatial[0], grid.spatial[1], grid.spatial[2]};
  return std::count_if(std::begin(parts), std::end(parts), [](int of) { return of > 1; }) > 1;
}

// The workspace that `engine` needs for `part`, at most `limit_bytes`.
Result<size_t> NeedOf(cudnn::Engines& engines, const ConvolutionProblem& part,
                      const EngineId& engine, const cudnn::PieceScales& scales,
                      size_t limit_bytes) {
  if (engine.legacy() == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<cudnn::Piece> piece,
                            engines.MakePiece(part, engine, scales, limit_bytes));
    return piece->workspace_bytes();
  }
  // What a legacy engine needs the library says of those that it lists.
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<cudnn::ListedEngine> listed, engines.List(part));
  for (const cudnn::ListedEngine& other : listed) {
    if (other.choice.engine == engine && other.choice.workspace_bytes <= limit_bytes) {
      return other.choice.workspace_bytes;
    }
  }
  return Status::Error("it is not listed within " + std::to_string(limit_bytes) + " bytes");
}

}  // namespace

std::vector<TileGrid> GridsOf(const ConvolutionProblem& problem, BatchSizePolicy policy) {
  std::vector<TileGrid> grids;
  if (problem.n > kMostTiles) return grids;
  TileGrid grid;
  grid.n = problem.n;
  for (int* const parts : AxesOf(problem, grid)) {
    // Groups and filters are cut where nothing else is.
    if ((parts == &grid.groups || parts == &grid.k) && !grids.empty()) break;
    while (2 * grid.Parts() <= kMostTiles) {
      *parts *= 2;
      if (!CutIntoTiles(problem, grid).ok()) {
        *parts /= 2;
        break;
      }
      grids.push_back(grid);
    }
  }
  if (policy == BatchSizePolicy::kPowerOfTwo) std::erase_if(grids, CutsSeveral);
  return grids;
}

std::vector<ConvolutionProblem> TypicalTiles(const ConvolutionProblem& problem,
                                             BatchSizePolicy policy, int64_t most_span) {
  std::vector<std::pair<int, ConvolutionProblem>> kinds;  // with their numbers of tiles
  for (const TileGrid& grid : GridsOf(problem, policy)) {
    const auto tiles = CutIntoTiles(problem, grid, most_span);
    if (!tiles.ok()) continue;
    kinds.clear();
    bool any_vast = false;
    for (size_t kind = 0; kind < tiles->kinds.size(); ++kind) {
      kinds.emplace_back(tiles->CountOf(kind), tiles->kinds[kind].problem);
      any_vast |= planning::IsVast(tiles->kinds[kind].problem, most_span);
    }
    std::stable_sort(kinds.begin(), kinds.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    if (!any_vast && 2 * kinds.front().first > grid.Parts()) break;
  }
  std::vector<ConvolutionProblem> typical;
  for (auto& [count, tile] : kinds) typical.push_back(tile);
  return typical;
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
    const auto need = NeedOf(engines, of.problem, engine, scales, limit_bytes - beside);
    if (!need.ok()) {
      return Status::Error(engine.Text() + " does not serve its tiles " + Describe(of.problem) +
                           ": " + need.message());
    }
    MicroConfiguration micro = {engine, of.problem.n, 0, *need + beside};
    micro.tile = of.lengths;
    division.configuration.runs.push_back({micro, tiles.CountOf(kind)});
  }
  return division;
}

FoundGrids FittingGrids(cudnn::Engines& engines, const ConvolutionProblem& problem,
                        const EngineId& engine, const GridLimits& limits) {
  constexpr size_t kAny = std::numeric_limits<size_t>::max();
  FoundGrids found;
  std::vector<Division> all;
  const std::vector<TileGrid> grids = GridsOf(problem, limits.policy);
  if (grids.empty()) {
    const int outermost = kMaxSpatial - problem.spatial_rank;
    TileGrid halves;
    halves.spatial[static_cast<size_t>(outermost)] = 2;
    found.why = CutIntoTiles(problem, halves).status().message();
  }
  for (const TileGrid& grid : grids) {
    auto division = DivideBy(grid, engines, problem, engine, kAny);
    if (!division.ok()) {
      found.why = division.message();
      continue;
    }
    const size_t bytes = division->configuration.WorkspaceBytes();
    if (bytes <= limits.workspace_bytes) {
      all.push_back(std::move(*division));
    } else if (found.least_bytes == 0 || bytes < found.least_bytes) {
      found.least_bytes = bytes;
    }
  }
  std::set<size_t> chosen;
  for (size_t i = 0; i < std::min<size_t>(2, all.size()); ++i) chosen.insert(i);
  for (const size_t bytes : {limits.cache_bytes, limits.cache_bytes / 2}) {
    const auto fits = std::find_if(all.begin(), all.end(), [&](const Division& division) {
      return division.configuration.WorkspaceBytes() <= bytes;
    });
    if (fits != all.end()) chosen.insert(static_cast<size_t>(fits - all.begin()));
  }
  for (const size_t i : chosen) found.fitting.push_back(std::move(all[i]));
  if (!found.fitting.empty()) found.least_bytes = 0;
  if (!found.fitting.empty() || found.least_bytes > 0) found.why.clear();
  return found;
}

}  // namespace ucudnn::tuning
