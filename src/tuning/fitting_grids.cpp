#include "tuning/fitting_grids.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "convolution/partial_sums.h"
#include "cudnn/part_call.h"
#include "planning/decision/tile_use.h"

namespace ucudnn::tuning {
namespace {

// A grid that cuts a second axis has more kinds of tiles, each of which is measured. So it is
// preferred only if its tiles have at most half the elements.
constexpr double kSecondAxis = 2;

double ElementsOf(const ConvolutionProblem& part) {
  const auto elements = [](double channels, const Spatial& extents) {
    return channels * extents[0] * extents[1] * extents[2];
  };
  return part.n * (elements(part.c, part.x) + elements(part.k, OutputExtents(part))) +
         part.k * elements(static_cast<double>(part.c) / part.groups, part.w);
}

const TileKind& LargestOf(const Tiles& tiles) {
  return *std::max_element(tiles.kinds.begin(), tiles.kinds.end(),
                           [](const TileKind& a, const TileKind& b) {
                             return ElementsOf(a.problem) < ElementsOf(b.problem);
                           });
}

// Returns `grid` with `parts` parts along h or, in three dimensions, along d, h or both. Chooses
// the grid whose largest tile has the fewest elements; if both axes are cut, the elements count
// kSecondAxis times. Among equal grids, chooses the one with the most parts along d. With
// `one_axis` never cuts both axes. Returns none if the axes have too few places to cut.
std::optional<TileGrid> OuterGrid(const ConvolutionProblem& problem, TileGrid grid, int parts,
                                  bool one_axis) {
  std::optional<TileGrid> best;
  double least = 0;
  for (int h = problem.spatial_rank == 3 ? 1 : parts; h <= parts; h *= 2) {
    const bool cuts_one = h == 1 || h == parts;
    if (one_axis && !cuts_one) continue;
    grid.spatial = {parts / h, h, 1};
    const Result<Tiles> tiles = CutIntoTiles(problem, grid);
    if (!tiles.ok()) continue;
    const double cost = (cuts_one ? 1 : kSecondAxis) * ElementsOf(LargestOf(*tiles).problem);
    if (best && cost >= least) continue;
    best = grid;
    least = cost;
  }
  return best;
}

// Returns the alpha and beta with which the pieces of `tiles` are called.
cudnn::PieceScales ScalesOf(const ConvolutionProblem& problem, const Tiles& tiles) {
  return {.are_plain = true, .may_add = !SumsPartials(problem) && tiles.AddUp()};
}

// Returns the workspace that `engine` needs for `part`; fails if it is more than `limit_bytes`.
Result<size_t> NeedOf(cudnn::Engines& engines, const ConvolutionProblem& part,
                      const EngineId& engine, const cudnn::PieceScales& scales,
                      size_t limit_bytes) {
  if (engine.legacy() == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<cudnn::Piece> piece,
                            engines.MakePiece(part, engine, scales, limit_bytes));
    return piece->workspace_bytes();
  }
  // The library's list states the workspace of a legacy engine.
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
  const bool one_axis = policy == BatchSizePolicy::kPowerOfTwo;
  TileGrid grid;
  grid.n = one_axis ? 1 : problem.n;
  for (int parts = 2; int64_t{parts} * grid.n <= kMostTiles; parts *= 2) {
    const std::optional<TileGrid> found = OuterGrid(problem, grid, parts, one_axis);
    if (!found) break;
    grids.push_back(*found);
  }
  // After d and h have no more places to cut, w is cut, too. Groups and k are cut only if no
  // spatial axis can be cut.
  if (!grids.empty()) grid = grids.back();
  for (int* const parts : {&grid.spatial[2], &grid.groups, &grid.k}) {
    if (!grids.empty() && (one_axis || parts != &grid.spatial[2])) break;
    while (2 * int64_t{grid.Parts()} <= kMostTiles) {
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

std::vector<ConvolutionProblem> TypicalTiles(const ConvolutionProblem& problem,
                                             BatchSizePolicy policy, int64_t most_span) {
  std::vector<std::pair<int, ConvolutionProblem>> kinds;  // with the number of tiles of each kind
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
                          size_t limit_bytes, std::span<const cudnn::FusedOperand> fused) {
  UCUDNN_ASSIGN_OR_RETURN(Tiles cut, CutIntoTiles(problem, grid));
  Division division({}, std::make_shared<const Tiles>(std::move(cut)));
  const Tiles& tiles = *division.tiles;
  const bool sums = SumsPartials(problem) && tiles.AddUp();
  const cudnn::PieceScales scales = ScalesOf(problem, tiles);
  for (size_t kind = 0; kind < tiles.kinds.size(); ++kind) {
    const TileKind& of = tiles.kinds[kind];
    UCUDNN_RETURN_IF_ERROR(cudnn::CheckReads(of, fused));
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

namespace {

// GridSearch relies on a law: the workspace of an engine is an affine function of the elements of a
// tile. If a workspace differs from the law by more than this fraction of itself plus kSmall bytes,
// the law does not hold.
constexpr double kLawError = 0.02;
// The law is estimated from the plans of two grids. With fewer grids than this it saves hardly any
// plans.
constexpr size_t kFewestForLaw = 4;

// Searches the grids for one engine, in ascending order of the number of tiles. Making plans takes
// long. So plans for a grid are made at most once, and not at all if the law says that the grid
// does not fit. The law is estimated from the largest tiles of the first and the last grid.
class GridSearch {
 public:
  // `why` receives the reason why the last refused grid was refused.
  GridSearch(cudnn::Engines& engines, const ConvolutionProblem& problem, const EngineId& engine,
             const GridLimits& limits, std::span<const cudnn::FusedOperand> fused, std::string& why)
      : engines_(engines),
        problem_(problem),
        engine_(engine),
        fused_(fused),
        grids_(GridsOf(problem, limits.policy)),
        deadline_(limits.deadline),
        divisions_(grids_.size()),
        why_(why) {
    FindLaw();
  }

  size_t size() const { return grids_.size(); }
  // Returns the first grid from `begin` on that needs at most `bytes` of workspace; none if no grid
  // does.
  std::optional<size_t> First(size_t begin, size_t bytes) {
    for (size_t i = begin; i < grids_.size(); ++i) {
      const double estimate = estimates_.empty() ? 0 : estimates_[i];
      if ((1 - kLawError) * estimate - kSmall > static_cast<double>(bytes)) continue;
      const std::optional<size_t> need = NeedOfGrid(i);
      if (!need) continue;
      // If the estimates are wrong, the search may have skipped a grid that fits. So it begins
      // again without estimates.
      if (!estimates_.empty() && !Confirms(i, *need)) return First(begin, bytes);
      if (*need <= bytes) return i;
    }
    return std::nullopt;
  }
  // Returns the smallest workspace of a grid in bytes; 0 if the engine can run no grid.
  size_t Least() {
    size_t least = 0;
    const auto take = [&](size_t i) {
      const std::optional<size_t> need = NeedOfGrid(i);
      if (need && (least == 0 || *need < least)) least = *need;
      return need;
    };
    if (!estimates_.empty()) {
      const auto fewest = std::min_element(estimates_.begin(), estimates_.end());
      const auto i = static_cast<size_t>(fewest - estimates_.begin());
      const std::optional<size_t> need = take(i);
      if (need && Confirms(i, *need)) return least;
    }
    for (size_t i = 0; i < grids_.size(); ++i) take(i);
    return least;
  }
  Division Take(size_t i) { return std::move(**divisions_[i]); }

 private:
  // Estimates the workspaces of all grids by the law, from the largest tiles of the first and the
  // last grid.
  void FindLaw() {
    if (grids_.size() < kFewestForLaw) return;
    struct Point {
      double elements = 0, beside = 0;
    };
    std::vector<Point> points;
    double needs[2] = {};
    for (size_t i = 0; i < grids_.size(); ++i) {
      const auto tiles = CutIntoTiles(problem_, grids_[i]);
      if (!tiles.ok()) return;
      const TileKind& largest = LargestOf(*tiles);
      const size_t sum = SumsPartials(problem_) && tiles->AddUp() ? PartialSumBytes(problem_) : 0;
      points.push_back(
          {ElementsOf(largest.problem), static_cast<double>(PackedBytes(largest) + sum)});
      if (i > 0 && i + 1 < grids_.size()) continue;
      if (Clock::now() >= deadline_) return;
      const auto need = NeedOf(engines_, largest.problem, engine_, ScalesOf(problem_, *tiles),
                               std::numeric_limits<size_t>::max());
      if (!need.ok()) return;
      needs[i == 0 ? 0 : 1] = static_cast<double>(*need);
    }
    if (points.front().elements == points.back().elements) return;
    const double slope = (needs[0] - needs[1]) / (points.front().elements - points.back().elements);
    for (const Point& point : points) {
      estimates_.push_back(needs[1] + slope * (point.elements - points.back().elements) +
                           point.beside);
    }
  }
  // Returns whether `need`, the workspace of grid `i`, agrees with the estimate of that workspace.
  // If not, drops all estimates.
  bool Confirms(size_t i, size_t need) {
    const double actual = static_cast<double>(need);
    if (std::abs(actual - estimates_[i]) <= kLawError * actual + kSmall) return true;
    estimates_.clear();
    return false;
  }
  std::optional<size_t> NeedOfGrid(size_t i) {
    if (!divisions_[i]) {
      if (Clock::now() >= deadline_) {
        why_ = "finding tiles takes too long";
        return std::nullopt;
      }
      divisions_[i] = DivideBy(grids_[i], engines_, problem_, engine_,
                               std::numeric_limits<size_t>::max(), fused_);
    }
    const Result<Division>& division = *divisions_[i];
    if (division.ok()) return division->configuration.WorkspaceBytes();
    why_ = division.message();
    return std::nullopt;
  }

  // The bytes by which a workspace may differ from the law in addition to kLawError.
  static constexpr double kSmall = 4096;

  cudnn::Engines& engines_;
  const ConvolutionProblem& problem_;
  const EngineId& engine_;
  const std::span<const cudnn::FusedOperand> fused_;
  const std::vector<TileGrid> grids_;
  const Clock::time_point deadline_;
  std::vector<std::optional<Result<Division>>> divisions_;  // the divisions made so far, by grid
  std::vector<double> estimates_;  // estimated workspace of each grid in bytes; empty: unknown
  std::string& why_;
};

}  // namespace

FoundGrids FittingGrids(cudnn::Engines& engines, const ConvolutionProblem& problem,
                        const EngineId& engine, const GridLimits& limits,
                        std::span<const cudnn::FusedOperand> fused) {
  FoundGrids found;
  GridSearch search(engines, problem, engine, limits, fused, found.why);
  if (search.size() == 0) {
    const int outermost = kMaxSpatial - problem.spatial_rank;
    TileGrid halves;
    halves.spatial[static_cast<size_t>(outermost)] = 2;
    found.why = CutIntoTiles(problem, halves).status().message();
  }
  const std::optional<size_t> first = search.First(0, limits.workspace_bytes);
  if (!first) {
    found.least_bytes = search.Least();
    if (found.least_bytes > 0) found.why.clear();
    return found;
  }
  std::set<size_t> chosen = {*first};
  const auto choose = [&](size_t begin, size_t bytes) {
    const auto grid = search.First(begin, std::min(bytes, limits.workspace_bytes));
    if (grid) chosen.insert(*grid);
  };
  choose(*first + 1, limits.workspace_bytes);
  if (limits.cache_bytes > 0) {
    choose(*first, limits.cache_bytes);
    choose(*first, limits.cache_bytes / 2);
  }
  for (const size_t i : chosen) found.fitting.push_back(search.Take(i));
  found.why.clear();
  return found;
}

}  // namespace ucudnn::tuning
