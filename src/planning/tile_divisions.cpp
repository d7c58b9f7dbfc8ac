#include "planning/tile_divisions.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <set>
#include <tuple>
#include <utility>

#include "convolution/partial_sums.h"

namespace ucudnn::planning {
namespace {

// The fastest of `rows` within `limit_bytes`, by engine where two take as long; null: none fits.
const MicroConfiguration* Fastest(const std::vector<MicroConfiguration>& rows, size_t limit_bytes) {
  const MicroConfiguration* fastest = nullptr;
  for (const MicroConfiguration& row : rows) {
    if (row.workspace_bytes > limit_bytes) continue;
    if (fastest == nullptr ||
        std::tie(row.time_ms, row.workspace_bytes, row.engine) <
            std::tie(fastest->time_ms, fastest->workspace_bytes, fastest->engine)) {
      fastest = &row;
    }
  }
  return fastest;
}

}  // namespace

std::vector<MicroConfiguration> RowsOfTiles(const ConvolutionProblem& problem, const Tiles& tiles,
                                            size_t kind,
                                            std::span<const MicroConfiguration> measured) {
  const bool sums = SumsPartials(problem) && tiles.AddUp();
  const auto sum = std::find_if(measured.begin(), measured.end(),
                                [](const auto& row) { return row.engine.is_partial_sum(); });
  const size_t packed_bytes = PackedBytes(tiles.kinds[kind]);
  // Another tensor of a tile like this may be the packed one.
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
  std::set<size_t> sizes;
  for (const auto& kind : rows) {
    for (const MicroConfiguration& row : kind) sizes.insert(row.workspace_bytes);
  }
  std::vector<Division> all;
  for (const size_t bytes : sizes) {
    Configuration configuration;
    for (size_t kind = 0; kind < rows.size(); ++kind) {
      const MicroConfiguration* const fastest = Fastest(rows[kind], bytes);
      if (fastest == nullptr) break;
      configuration.runs.push_back({*fastest, tiles->CountOf(kind)});
    }
    if (configuration.runs.size() == rows.size()) {
      all.emplace_back(std::move(configuration), tiles);
    }
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
