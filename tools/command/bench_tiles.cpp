#include "command/bench_tiles.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "cudnn/problem_graph.h"
#include "planning/tile_divisions.h"
#include "tuning/fitting_grids.h"
#include "tuning/stored_tiles.h"
#include "tuning/verify.h"
#include "tuning/verify_tile.h"

namespace ucudnn::command {
namespace {

constexpr size_t kMostChoices = 3;  // engines of a tile
constexpr size_t kMostGrids = 4;

// The engines that may serve the tiles of a grid, and the grids that they bring under the limit.
struct FittingEngines {
  std::vector<cudnn::GraphTemplate> templates;
  std::vector<TileGrid> grids;  // by rising number of tiles
};

std::vector<const cudnn::GraphTemplate*> Pointers(
    const std::vector<cudnn::GraphTemplate>& templates) {
  std::vector<const cudnn::GraphTemplate*> pointers;
  for (const cudnn::GraphTemplate& one : templates) pointers.push_back(&one);
  return pointers;
}

// What the heuristics choose for the kind of which there are most tiles.
std::vector<cudnn::GraphTemplate> EnginesOfTiles(const cudnn::Functions& functions,
                                                 const cudnn::PlanDevice& device,
                                                 const Tiles& tiles, const Options& options) {
  size_t most = 0;
  for (size_t kind = 1; kind < tiles.kinds.size(); ++kind) {
    if (tiles.CountOf(kind) > tiles.CountOf(most)) most = kind;
  }
  const auto graph = cudnn::ProblemGraph::Create(functions, device, tiles.kinds[most].problem);
  if (!graph.ok()) return {};
  std::vector<cudnn::GraphTemplate> engines = graph->Heuristics(kMostChoices);
  std::erase_if(engines, [&](const cudnn::GraphTemplate& engine) {
    return options.deterministic && !engine.deterministic;
  });
  return engines;
}

FittingEngines FindFitting(const cudnn::Functions& functions, const cudnn::PlanDevice& device,
                           const ConvolutionProblem& problem, const Options& options,
                           size_t limit_bytes) {
  FittingEngines fitting;
  for (const TileGrid& grid : tuning::GridsOf(problem)) {
    if (fitting.grids.size() == kMostGrids) break;
    const auto tiles = CutIntoTiles(problem, grid);
    if (!tiles.ok()) continue;
    // The engines of the first grid that fits serve the ones behind it, too.
    std::vector<cudnn::GraphTemplate> own;
    if (fitting.grids.empty()) own = EnginesOfTiles(functions, device, *tiles, options);
    const std::vector<cudnn::GraphTemplate>& templates =
        fitting.grids.empty() ? own : fitting.templates;
    cudnn::GraphEngines engines(functions, device, Pointers(templates));
    const bool fits = std::any_of(templates.begin(), templates.end(), [&](const auto& engine) {
      return tuning::DivideBy(grid, engines, problem, engine.convolution.engine, limit_bytes).ok();
    });
    if (!fits) continue;
    if (fitting.grids.empty()) fitting.templates = std::move(own);
    fitting.grids.push_back(grid);
  }
  return fitting;
}

// Compares each kind of tile, and all of them in place with the whole by one of the scope's
// engines, whatever workspace that takes.
void Compare(const tuning::Device& device, const ConvolutionProblem& problem,
             const tuning::GraphScope& scope, cudnnHandle_t handle,
             planning::MeasurementStore* store, BenchedTiles& tiles) {
  for (size_t kind = 0; kind < tiles.division->tiles->kinds.size(); ++kind) {
    const tuning::Verification of_kind = tuning::VerifyTile(
        device, tuning::ComparedTileOf(problem, *tiles.division, kind), {}, scope);
    if (of_kind.verdict == tuning::Verdict::kEqual) continue;
    const bool is_wrong = of_kind.verdict != tuning::Verdict::kNotCompared;
    (is_wrong ? tiles.wrong : tiles.unverified) = of_kind.message;
    return;
  }
  const std::unique_ptr<cudnn::Engines> engines = scope.make(handle);
  const auto whole = engines->MakePiece(problem, scope.engine, {.are_plain = true},
                                        std::numeric_limits<size_t>::max());
  if (!whole.ok()) {
    tiles.unverified = whole.message();
    return;
  }
  const MicroConfiguration undivided = {scope.engine, problem.n, 0, (*whole)->workspace_bytes()};
  const tuning::Verification verification =
      tuning::VerifyPlan(device, problem, *tiles.division, undivided, {}, scope);
  tiles.verified = verification.verdict == tuning::Verdict::kEqual;
  if (verification.verdict == tuning::Verdict::kNotCompared) {
    tiles.unverified = verification.message;
  } else if (!tiles.verified) {
    tiles.wrong = verification.message;
  }
  if (!tiles.verified || store == nullptr) return;
  for (size_t kind = 0; kind < tiles.division->tiles->kinds.size(); ++kind) {
    MicroConfiguration row = tiles.division->configuration.runs[kind].micro;
    row.tile = {};
    const Status marked =
        store->MarkVerified(SlackTwin(tiles.division->tiles->kinds[kind]), device.platform, {row});
    if (!marked.ok()) return;  // a store that fails costs no result
  }
}

}  // namespace

BenchedTiles BenchTiles(const tuning::Device& device, cudnnHandle_t handle,
                        const ConvolutionProblem& problem, const Options& options,
                        size_t limit_bytes, planning::MeasurementStore* store) {
  const cudnn::Functions& functions = *device.functions;
  const FittingEngines fitting =
      FindFitting(functions, {handle, nullptr}, problem, options, limit_bytes);
  BenchedTiles benched;
  if (fitting.grids.empty()) return benched;
  tuning::TileEngines engines;
  tuning::GraphScope scope;
  for (const cudnn::GraphTemplate& engine : fitting.templates) {
    engines.names.push_back(engine.convolution.engine);
    scope.numeric = Coarsest({scope.numeric, engine.numeric});
  }
  scope.engine = engines.names.front();
  scope.make = [&](cudnnHandle_t of_ours) {
    return std::make_unique<cudnn::GraphEngines>(functions, cudnn::PlanDevice{of_ours, nullptr},
                                                 Pointers(fitting.templates));
  };
  engines.scope = scope;
  engines.store = store;
  tuning::MeasureLimits limits;
  limits.fit_bytes = limit_bytes;
  for (const TileGrid& grid : fitting.grids) {
    auto cut = CutIntoTiles(problem, grid);
    if (!cut.ok()) continue;
    const auto tiles = std::make_shared<const Tiles>(std::move(*cut));
    const auto kinds = tuning::MeasureStoredKinds(device, problem, *tiles, engines, limits);
    if (!kinds.ok()) continue;
    benched.measured += kinds->measured;
    for (Division& division : planning::DesirableTiles(tiles, kinds->rows)) {
      const bool is_faster = !benched.division || division.configuration.TimeMs() <
                                                      benched.division->configuration.TimeMs();
      if (is_faster) benched.division = std::move(division);
    }
  }
  if (benched.division) Compare(device, problem, scope, handle, store, benched);
  if (!benched.wrong.empty()) benched.division.reset();
  return benched;
}

}  // namespace ucudnn::command
