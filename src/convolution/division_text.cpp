#include "convolution/division_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr char kAxisNames[] = {'d', 'h', 'w'};

// Returns the tile's box of the tensor that is cut: of dx in backward_data, of y in forward, of dy
// in a gradient of the filter.
const Box& ComputedBy(const Tiles& tiles, const Tile& tile) {
  const bool by_elements = tiles.kinds[tile.kind].problem.operation == Operation::kBackwardData;
  return by_elements ? tile.x : tile.y;
}

int64_t EndOf(const Tiles& tiles, size_t axis) {
  int64_t end = 0;
  for (const Tile& tile : tiles.tiles) end = std::max(end, ComputedBy(tiles, tile)[axis].end);
  return end;
}

// Returns whether all tiles of the kind lie at the beginning of an axis or, if `first` is false, at
// the end of the axis.
bool LieAt(const Tiles& tiles, size_t kind, size_t axis, bool first) {
  const int64_t end = EndOf(tiles, axis);
  return std::all_of(tiles.tiles.begin(), tiles.tiles.end(), [&](const Tile& tile) {
    if (tile.kind != kind) return true;
    const Interval& part = ComputedBy(tiles, tile)[axis];
    return first ? part.begin == 0 : part.end == end;
  });
}

// Formats lengths in their order and counts equal neighbours: "63x17 + 63x16" is 63 times 17, then
// 63 times 16.
std::string LengthsText(const std::vector<int64_t>& lengths) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < lengths.size();) {
    size_t next = i;
    while (next < lengths.size() && lengths[next] == lengths[i]) ++next;
    runs.push_back(std::to_string(next - i) + "x" + std::to_string(lengths[i]));
    i = next;
  }
  return Join(runs, " + ");
}

// Returns the lengths of the parts of an axis, in their order: of y if `of_y`, otherwise of the
// tensor that is cut (ComputedBy).
std::vector<int64_t> LengthsAlong(const Tiles& tiles, size_t axis, bool of_y) {
  std::set<std::pair<int64_t, int64_t>> parts;
  for (const Tile& tile : tiles.tiles) {
    const Interval& part = of_y ? tile.y[axis] : ComputedBy(tiles, tile)[axis];
    parts.emplace(part.begin, part.end);
  }
  std::vector<int64_t> lengths;
  for (const auto& [begin, end] : parts) lengths.push_back(end - begin);
  return lengths;
}

std::string SpatialText(const Tiles& tiles, size_t spatial) {
  const size_t axis = kAxisD + spatial;
  std::vector<int64_t> lengths = LengthsAlong(tiles, axis, false);
  const std::string name = std::string(1, kAxisNames[spatial]) + " ";
  bool first = false, last = false;
  for (size_t kind = 0; kind < tiles.kinds.size(); ++kind) {
    first |= LieAt(tiles, kind, axis, true);
    last |= LieAt(tiles, kind, axis, false);
  }
  const size_t edges = size_t{first} + size_t{last};
  if (edges == 0 || edges >= lengths.size()) return name + LengthsText(lengths);
  if (first) lengths.erase(lengths.begin());
  if (last) lengths.pop_back();
  return name + LengthsText(lengths) + " + " + std::to_string(edges) +
         (edges == 1 ? " edge" : " edges");
}

std::string TilesText(const Tiles& tiles) {
  const TileGrid& grid = tiles.grid;
  std::vector<std::string> axes;
  if (grid.n > 1) axes.push_back("n " + LengthsText(LengthsAlong(tiles, kAxisN, true)));
  if (grid.groups > 1) {
    const int64_t filters = tiles.kinds[0].problem.k / tiles.kinds[0].problem.groups;
    std::vector<int64_t> lengths = LengthsAlong(tiles, kAxisC, true);
    for (int64_t& length : lengths) length /= filters;
    axes.push_back("groups " + LengthsText(lengths));
  }
  if (grid.k > 1) axes.push_back("k " + LengthsText(LengthsAlong(tiles, kAxisC, true)));
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (grid.spatial[axis] > 1) axes.push_back(SpatialText(tiles, axis));
  }
  return Join(axes, ", ");
}

// Returns the number of parts into which a grid of `tiles` tiles cuts an axis of `extent` elements.
// `sum` is the sum of all tiles' lengths along the axis; 0 if the axis is not cut. Each part of the
// axis belongs to tiles / parts tiles, so sum = extent * tiles / parts. Returns 0 if the number of
// parts is not whole.
int64_t PartsOfAxis(int64_t extent, int64_t tiles, int64_t sum) {
  if (sum == 0) return 1;
  return extent * tiles % sum == 0 ? extent * tiles / sum : 0;
}

}  // namespace

std::string DivisionText(const Division& division) {
  if (division.tiles != nullptr) return TilesText(*division.tiles);
  std::string text;
  for (const Run& run : division.configuration.runs) {
    if (!text.empty()) text += " + ";
    if (run.count > 1) text += std::to_string(run.count) + " x ";
    text += std::to_string(run.micro.micro_batch);
  }
  return text;
}

std::string BorderOf(const Tiles& tiles, size_t kind) {
  std::string border;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (tiles.grid.spatial[axis] < 2) continue;
    for (const bool first : {true, false}) {
      if (!LieAt(tiles, kind, kAxisD + axis, first)) continue;
      border += kAxisNames[axis];
      border += first ? '-' : '+';
    }
  }
  return border;
}

Result<TileGrid> GridOfRuns(const ConvolutionProblem& whole, const std::vector<Run>& runs) {
  int64_t tiles = 0, images = 0, groups = 0, k = 0;
  std::array<int64_t, kMaxSpatial> spatial = {0, 0, 0};
  for (const Run& run : runs) {
    tiles += run.count;
    images += int64_t{run.micro.micro_batch} * run.count;
    groups += int64_t{run.micro.tile.groups} * run.count;
    k += int64_t{run.micro.tile.k} * run.count;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      spatial[axis] += int64_t{run.micro.tile.spatial[axis]} * run.count;
    }
    if (tiles > kMostTiles) {
      return Status::Error("more than " + std::to_string(kMostTiles) + " tiles");
    }
  }
  const bool by_elements = whole.operation == Operation::kBackwardData;
  const Spatial extents = by_elements ? whole.x : OutputExtents(whole);
  const auto parts = [&](int64_t extent, int64_t sum) {
    return static_cast<int>(PartsOfAxis(extent, tiles, sum));
  };
  TileGrid grid = {parts(whole.n, images), parts(whole.groups, groups), parts(whole.k, k), {}};
  int64_t made = int64_t{grid.n} * grid.groups * grid.k;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    grid.spatial[axis] = parts(extents[axis], spatial[axis]);
    made *= grid.spatial[axis];
  }
  if (made != tiles) {
    return Status::Error("tiles that make up no grid of " + Describe(whole));
  }
  return grid;
}

}  // namespace ucudnn
