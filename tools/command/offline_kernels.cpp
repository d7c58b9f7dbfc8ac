#include "command/offline_kernels.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "command/numbers.h"
#include "command/offline_rows.h"
#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "planning/desirable_set.h"
#include "planning/micro_batch_sizes.h"
#include "planning/tile_divisions.h"
#include "tuning/fitting_grids.h"

namespace ucudnn::command {
namespace {

// Returns the rows that a call through `api` may use and that `options` permit.
std::vector<MicroConfiguration> UsableRows(const ConvolutionProblem& problem, Api api,
                                           const Options& options,
                                           const std::vector<MicroConfiguration>& rows) {
  const std::vector<int> sizes =
      planning::MicroBatchSizes(options.policy, problem.n, LegalStep(problem));
  const auto sum = std::find_if(rows.begin(), rows.end(),
                                [](const auto& row) { return row.engine.is_partial_sum(); });
  std::vector<MicroConfiguration> usable;
  for (MicroConfiguration row : rows) {
    if (row.engine.is_auxiliary()) continue;
    if (options.deterministic && !row.deterministic) continue;
    if (IsPartial(problem, row.micro_batch)) {
      if (sum == rows.end()) continue;
      row = AsPartial(problem, std::move(row), sum->time_ms);
    }
    if (options.policy != BatchSizePolicy::kAuto &&
        !std::binary_search(sizes.begin(), sizes.end(), row.micro_batch)) {
      continue;
    }
    if (ServesApi(problem, api, row)) usable.push_back(std::move(row));
  }
  return usable;
}

// Returns the rows for the whole mini-batch that no other such row beats in both time and
// workspace, with ascending workspace.
std::vector<MicroConfiguration> UndividedOf(std::vector<MicroConfiguration> usable, int n) {
  std::erase_if(usable, [&](const MicroConfiguration& row) { return !row.IsWhole(n); });
  // Of rows with equal workspace and time, the first engine wins, whatever the store's order is.
  std::sort(usable.begin(), usable.end(), [](const auto& a, const auto& b) {
    return std::tie(a.workspace_bytes, a.time_ms, a.engine) <
           std::tie(b.workspace_bytes, b.time_ms, b.engine);
  });
  std::vector<MicroConfiguration> front;
  for (MicroConfiguration& row : usable) {
    if (front.empty() || row.time_ms < front.back().time_ms) front.push_back(std::move(row));
  }
  return front;
}

// Returns divisions into tiles that run with engines of `api`. Considers each grid for which all
// kinds of tiles were measured.
std::vector<Division> TiledDivisions(const ConvolutionProblem& problem, Api api,
                                     const Options& options, const Measurements& measurements) {
  std::vector<Division> divisions;
  if (!options.tiles || options.policy == BatchSizePolicy::kUndivided) return divisions;
  for (const TileGrid& grid : tuning::GridsOf(problem)) {
    auto cut = CutIntoTiles(problem, grid);
    if (!cut.ok()) continue;
    const auto tiles = std::make_shared<const Tiles>(std::move(*cut));
    std::vector<std::vector<MicroConfiguration>> rows;
    for (size_t kind = 0; kind < tiles->kinds.size(); ++kind) {
      const TileKind& of = tiles->kinds[kind];
      const auto known = measurements.find(KernelFamily(SlackTwin(of)));
      if (known == measurements.end()) break;
      std::vector<MicroConfiguration> usable;
      for (MicroConfiguration row : known->second) {
        const bool serves =
            row.engine.is_auxiliary() ||
            (row.micro_batch == of.problem.n && (row.deterministic || !options.deterministic) &&
             ServesApi(problem, api, row));
        if (serves) usable.push_back(std::move(row));
      }
      rows.push_back(planning::RowsOfTiles(problem, *tiles, kind, usable));
    }
    if (rows.size() != tiles->kinds.size()) continue;
    std::vector<Division> of_grid = planning::DesirableTiles(tiles, rows);
    std::move(of_grid.begin(), of_grid.end(), std::back_inserter(divisions));
  }
  return divisions;
}

// Tries each alignment with each API, and returns the first kernel whose desirable set is not
// empty. If all are empty, returns a kernel with an empty desirable set.
OfflineKernel PlanOffline(const Layer& layer, const Options& options,
                          const Measurements& measurements, std::initializer_list<int> alignments,
                          std::initializer_list<Api> apis) {
  OfflineKernel kernel{layer};
  ConvolutionProblem& problem = kernel.layer.problem;
  for (const int alignment : alignments) {
    problem.alignment = alignment;
    const auto rows = measurements.find(KernelFamily(problem));
    for (const Api api : apis) {
      kernel.api = api == Api::kLegacy ? "legacy" : "graph";
      std::vector<MicroConfiguration> usable;
      if (rows != measurements.end()) usable = UsableRows(problem, api, options, rows->second);
      std::vector<Division> divisions;
      for (Configuration& configuration : planning::DesirableSet(
               usable, problem.n, LegalStep(problem), std::numeric_limits<size_t>::max())) {
        divisions.emplace_back(std::move(configuration));
      }
      std::vector<Division> tiled = TiledDivisions(problem, api, options, measurements);
      std::move(tiled.begin(), tiled.end(), std::back_inserter(divisions));
      kernel.desirable_set = planning::Desirable(std::move(divisions));
      kernel.undivided = UndividedOf(std::move(usable), problem.n);
      if (!kernel.desirable_set.empty()) return kernel;
    }
  }
  return kernel;
}

std::string PlatformText(const planning::Platform& platform) {
  if (platform.cudnn == 0) return platform.device;
  return platform.device + " with cuDNN " + CudnnVersion(static_cast<size_t>(platform.cudnn));
}

}  // namespace

std::string Disagreement(size_t rows) {
  return std::to_string(rows) + (rows == 1 ? " row differs from the first store's, which counts"
                                           : " rows differ from the first store's, which count");
}

std::string KernelNames(const std::vector<const Layer*>& layers) {
  std::vector<std::string> names;
  for (const Layer* layer : layers) {
    names.push_back(layer->name + " " + OperationName(layer->problem.operation));
  }
  return FirstOf(names);
}

Result<OfflineKernels> ReadOfflineKernels(const std::vector<Layer>& layers, const Options& options,
                                          const std::string& device) {
  UCUDNN_ASSIGN_OR_RETURN(const OfflineRows rows, ReadOfflineRows(options, device));
  std::string newest_lacks;
  for (const auto& [versions, measurements] : rows.platforms) {
    OfflineKernels found{{rows.device, versions.first, versions.second}, {}, rows.differing};
    std::vector<const Layer*> missing;
    for (const Layer& layer : layers) {
      found.kernels.push_back(PlanOffline(layer, options, measurements,
                                          {cudnn::kLegacyAlignment, layer.problem.alignment},
                                          {Api::kLegacy, Api::kGraph}));
      if (found.kernels.back().desirable_set.empty()) missing.push_back(&layer);
    }
    if (missing.empty()) return found;
    if (newest_lacks.empty()) {
      newest_lacks = "no measurements that make up the mini-batch of " + KernelNames(missing) +
                     ", on " + PlatformText(found.platform) + "; `ucudnn bench` makes them";
    }
  }
  return Status::Error(newest_lacks);
}

Result<std::vector<std::vector<Division>>> ReadDesirableSets(const std::vector<ApiKernel>& kernels,
                                                             const Options& options,
                                                             const std::string& device, int cudnn) {
  UCUDNN_ASSIGN_OR_RETURN(const OfflineRows rows,
                          ReadOfflineRows(options, device, "the report's device"));
  std::vector<std::vector<Division>> sets(kernels.size());
  for (size_t at = 0; at < kernels.size(); ++at) {
    for (const auto& [versions, measurements] : rows.platforms) {
      if (cudnn != 0 && versions.first != cudnn) continue;
      OfflineKernel planned = PlanOffline({"", kernels[at].problem}, options, measurements,
                                          {kernels[at].problem.alignment}, {kernels[at].api});
      sets[at] = std::move(planned.desirable_set);
      if (!sets[at].empty()) break;
    }
  }
  return sets;
}

}  // namespace ucudnn::command
