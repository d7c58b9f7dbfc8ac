#include "tuning/measure_tiles.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "convolution/partial_sums.h"

namespace ucudnn::tuning {
namespace {

using planning::Measurement;

bool IsFaster(const MicroConfiguration& a, const MicroConfiguration& b) {
  return a.time_ms < b.time_ms;
}

}  // namespace

Result<KindMeasurements> MeasureKinds(const Device& device, const ConvolutionProblem& problem,
                                      const TileGrid& grid, const EngineScope& scope,
                                      const MeasureLimits& limits) {
  UCUDNN_ASSIGN_OR_RETURN(const Tiles tiles, CutIntoTiles(problem, grid));
  const bool sums = SumsPartials(problem) && tiles.AddUp();
  const size_t beside = sums ? PartialSumBytes(problem) : 0;
  const size_t limit_bytes = limits.fit_bytes.value_or(std::numeric_limits<size_t>::max());
  KindMeasurements kinds;
  std::optional<double> sum_ms;
  for (const TileKind& of : tiles.kinds) {
    const std::string tile = Describe(of.problem);
    if (PackedBytes(of) > 0) return Status::Error("copies are not timed: " + tile + " is packed");
    if (beside > limit_bytes) {
      return Status::Error("partial sums take " + std::to_string(beside) + " bytes, more than " +
                           std::to_string(limit_bytes));
    }
    MeasureLimits own = limits;
    own.fit_bytes = limit_bytes - beside;
    const IsKnown knows_sum = [&](const EngineId& engine, int) {
      return engine.is_partial_sum() && sum_ms.has_value();
    };
    UCUDNN_ASSIGN_OR_RETURN(const EngineMeasurements measured,
                            MeasureEngines(device,
                                           {.problem = SlackTwin(of),
                                            .sizes = {of.problem.n},
                                            .scope = scope,
                                            .is_known = knows_sum,
                                            .are_partials = sums},
                                           own));
    for (const Measurement& row : measured.measurements) {
      if (row.micro.engine.is_partial_sum()) sum_ms = row.micro.time_ms;
    }
    if (sums && !sum_ms) return Status::Error("what sums partials was not measured");
    std::vector<MicroConfiguration>& rows = kinds.emplace_back();
    for (const Measurement& row : measured.measurements) {
      if (row.micro.engine.is_partial_sum() || row.micro.workspace_bytes > limit_bytes - beside) {
        continue;
      }
      rows.push_back(sums ? AsPartial(problem, row.micro, *sum_ms) : row.micro);
      rows.back().tile = of.lengths;
    }
    if (rows.empty()) {
      return Status::Error("no engine was measured within " + std::to_string(limit_bytes - beside) +
                           " bytes for " + tile);
    }
  }
  return kinds;
}

Result<Division> MeasureTiles(const Device& device, const ConvolutionProblem& problem,
                              const TileGrid& grid, const EngineScope& scope,
                              const MeasureLimits& limits) {
  UCUDNN_ASSIGN_OR_RETURN(Tiles cut, CutIntoTiles(problem, grid));
  UCUDNN_ASSIGN_OR_RETURN(const KindMeasurements kinds,
                          MeasureKinds(device, problem, grid, scope, limits));
  Configuration fastest;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const auto best = std::min_element(kinds[kind].begin(), kinds[kind].end(), IsFaster);
    fastest.runs.push_back({*best, cut.CountOf(kind)});
  }
  return Division(std::move(fastest), std::make_shared<const Tiles>(std::move(cut)));
}

}  // namespace ucudnn::tuning
