#include "planning/tile_divisions.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <set>
#include <tuple>
#include <utility>

#include "convolution/partial_sums.h"
#include "planning/promise.h"

namespace ucudnn::planning {

std::vector<MicroConfiguration> RowsOfTiles(const ConvolutionProblem& problem, const Tiles& tiles,
                                            size_t kind,
                                            std::span<const MicroConfiguration> measured) {
  const bool sums = SumsPartials(problem) && tiles.AddUp();
  const auto sum = std::find_if(measured.begin(), measured.end(),
                                [](const auto& row) { return row.engine.is_partial_sum(); });
  const size_t packed_bytes = PackedBytes(tiles.kinds[kind]);
  // `measured` may have the packing rows of other kinds of tiles that have the same slack twin, but
  // pack different tensors. The packing row of this kind is the one whose workspace has
  // `packed_bytes`.
  const auto pack = std::find_if(measured.begin(), measured.end(), [&](const auto& row) {
    return row.engine.is_packing() && row.workspace_bytes == packed_bytes;
  });
  std::vector<MicroConfiguration> rows;
  if (sums && sum == measured.end()) return rows;
  if (packed_bytes > 0 && pack == measured.end()) return rows;
  for (MicroConfiguration row : measured) {
    if (row.engine.is_auxiliary()) continue;
    if (sums) row = AsPartial(problem, std::move(row), sum->time_ms);
    row.tile = tiles.kinds[kind].lengths;
    if (packed_bytes > 0) {
      row.workspace_bytes += packed_bytes;
      row.time_ms += pack->time_ms;
      row.pack_ms = pack->time_ms;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Division> DesirableTiles(const std::shared_ptr<const Tiles>& tiles,
                                     std::span<const std::vector<MicroConfiguration>> rows) {
  assert(rows.size() == tiles->kinds.size());
  Tiling tiling{tiles->grid, {}};
  std::set<size_t> sizes;
  for (size_t kind = 0; kind < rows.size(); ++kind) {
    auto& candidates = tiling.kinds.emplace_back(Tiling::Kind{tiles->CountOf(kind), {}}).candidates;
    for (const MicroConfiguration& row : rows[kind]) {
      candidates.push_back({row});
      sizes.insert(row.workspace_bytes);
    }
  }
  std::vector<Division> all;
  for (const size_t bytes : sizes) {
    auto fastest = FastestTiles({&tiling, 1}, {.limit_bytes = bytes}, NumericClass::kDirect);
    if (fastest) all.emplace_back(std::move(*fastest), tiles);
  }
  return Desirable(std::move(all));
}

std::vector<Division> Desirable(std::vector<Division> divisions) {
  const auto costs = [](const Division& division) {
    const Configuration& configuration = division.configuration;
    return std::tuple(configuration.WorkspaceBytes(), configuration.TimeMs(),
                      configuration.Pieces());
  };
  std::stable_sort(divisions.begin(), divisions.end(),
                   [&](const Division& a, const Division& b) { return costs(a) < costs(b); });
  std::vector<Division> front;
  for (Division& division : divisions) {
    const bool is_faster =
        front.empty() || division.configuration.TimeMs() < front.back().configuration.TimeMs();
    if (is_faster) front.push_back(std::move(division));
  }
  return front;
}

}  // namespace ucudnn::planning
