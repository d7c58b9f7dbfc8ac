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

// The fastest engine of `rows` that takes at most `limit_bytes`; none where there is no row.
std::optional<MicroConfiguration> Fastest(const std::vector<Measurement>& rows,
                                          size_t limit_bytes) {
  std::optional<MicroConfiguration> fastest;
  for (const Measurement& row : rows) {
    if (row.micro.engine.is_partial_sum() || row.micro.workspace_bytes > limit_bytes) continue;
    if (!fastest || row.micro.time_ms < fastest->time_ms) fastest = row.micro;
  }
  return fastest;
}

}  // namespace

Result<Division> MeasureTiles(const Device& device, const ConvolutionProblem& problem,
                              const TileGrid& grid, const EngineScope& scope,
                              const MeasureLimits& limits) {
  UCUDNN_ASSIGN_OR_RETURN(Tiles cut, CutIntoTiles(problem, grid));
  Division division({}, std::make_shared<const Tiles>(std::move(cut)));
  const Tiles& tiles = *division.tiles;
  const bool sums = SumsPartials(problem) && tiles.AddUp();
  const size_t beside = sums ? PartialSumBytes(problem) : 0;
  const size_t limit_bytes = limits.fit_bytes.value_or(std::numeric_limits<size_t>::max());
  std::optional<double> sum_ms;
  for (size_t kind = 0; kind < tiles.kinds.size(); ++kind) {
    const TileKind& of = tiles.kinds[kind];
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
    auto fastest = Fastest(measured.measurements, limit_bytes - beside);
    if (!fastest) {
      return Status::Error("no engine was measured within " + std::to_string(limit_bytes - beside) +
                           " bytes for " + tile);
    }
    fastest->tile = of.lengths;
    if (sums) *fastest = AsPartial(problem, *fastest, *sum_ms);
    division.configuration.runs.push_back({*fastest, tiles.CountOf(kind)});
  }
  return division;
}

}  // namespace ucudnn::tuning
