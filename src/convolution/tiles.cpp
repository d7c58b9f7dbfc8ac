#include "convolution/tiles.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>

#include "convolution/partial_sums.h"

namespace ucudnn {
namespace {

constexpr char kSpatialNames[] = {'d', 'h', 'w'};

Status NotCut(const std::string& axis, int parts, const std::string& why) {
  return Status::Error(axis + " cannot be cut into " + std::to_string(parts) + " parts: " + why);
}

// One part of a spatial axis, in elements and windows of the whole axis.
struct AxisTile {
  Interval elements, windows;
  int32_t pad = 0, extra_pad = 0;
};

// Returns the part that computes the interval `computed` of the axis. The part has the elements or
// windows that it reads, and a share of the axis's padding.
AxisTile TileOf(const ConvolutionProblem& whole, size_t axis, const Interval& computed) {
  const SlidingWindow window = WindowOf(whole, axis);
  AxisTile tile;
  if (whole.operation == Operation::kBackwardData) {
    tile.elements = computed;
    tile.windows = WindowsOver(window, computed, OutputExtents(whole)[axis]);
  } else {
    tile.windows = computed;
    tile.elements = UnderWindows(window, computed, whole.x[axis]);
  }
  const int64_t first = tile.windows.begin * window.stride - window.pad;
  const int64_t end = (tile.windows.end - 1) * window.stride - window.pad + window.Extent();
  tile.pad = static_cast<int32_t>(tile.elements.begin - first);
  // Fewer than `stride` elements may follow the last window. Then the part has no padding behind
  // its elements.
  const int64_t behind = std::max<int64_t>(0, end - tile.elements.end);
  tile.extra_pad = static_cast<int32_t>(behind) - tile.pad;
  return tile;
}

Result<std::vector<AxisTile>> CutSpatialAxis(const ConvolutionProblem& whole, size_t axis,
                                             int parts) {
  const Spatial outputs = OutputExtents(whole);
  if (parts == 1) {
    return std::vector<AxisTile>{
        {{0, whole.x[axis]}, {0, outputs[axis]}, whole.pad[axis], whole.extra_pad[axis]}};
  }
  const std::string name(1, kSpatialNames[axis]);
  const SlidingWindow window = WindowOf(whole, axis);
  const int64_t behind = window.pad + whole.extra_pad[axis];
  if (std::max(window.pad, behind) >= window.Extent()) {
    return NotCut(name, parts,
                  "its padding of " + std::to_string(std::max(window.pad, behind)) +
                      " is not less than the filter's extent of " +
                      std::to_string(window.Extent()));
  }
  // Cuts may be at windows `least` to `most`: backward_data cuts x before a window's first element,
  // the other operations cut y before a window.
  const bool by_elements = whole.operation == Operation::kBackwardData;
  const int64_t extent = by_elements ? whole.x[axis] : outputs[axis];
  const int64_t least =
      by_elements ? std::max<int64_t>(1, FloorDivide(window.pad, window.stride) + 1) : 1;
  const int64_t most =
      by_elements ? std::min<int64_t>(outputs[axis],
                                      CeilDivide(whole.x[axis] + window.pad, window.stride)) -
                        1
                  : outputs[axis] - 1;
  const int64_t pieces = std::max<int64_t>(0, most - least + 1) + 1;
  if (parts > pieces) {
    return NotCut(name, parts, "there are " + std::to_string(pieces - 1) + " places to cut it");
  }
  std::vector<AxisTile> tiles;
  int64_t begin = 0;
  for (int part = 0; part < parts; ++part) {
    const int64_t cut = least - 1 + Part(pieces, parts, part).end;
    const int64_t end = part + 1 == parts ? extent
                        : by_elements     ? cut * window.stride - window.pad
                                          : cut;
    tiles.push_back(TileOf(whole, axis, {begin, end}));
    begin = end;
  }
  return tiles;
}

// Fails unless n, groups and k may be cut as `grid` says.
Status CheckOtherAxes(const ConvolutionProblem& whole, const TileGrid& grid) {
  const auto fewer = [](const char* name, int parts, int extent) {
    return parts <= extent ? Status::Ok()
                           : NotCut(name, parts, "its extent is " + std::to_string(extent));
  };
  UCUDNN_RETURN_IF_ERROR(fewer("n", grid.n, whole.n));
  UCUDNN_RETURN_IF_ERROR(fewer("groups", grid.groups, whole.groups));
  if (grid.k > 1 && whole.groups > 1) {
    return NotCut("k", grid.k, "it has " + std::to_string(whole.groups) + " groups");
  }
  if (grid.k > 1 && whole.operation == Operation::kBackwardData) {
    return NotCut("k", grid.k, "backward_data sums over it");
  }
  UCUDNN_RETURN_IF_ERROR(fewer("k", grid.k, whole.k));
  const bool adds_up = grid.n > 1 || std::any_of(grid.spatial.begin(), grid.spatial.end(),
                                                 [](int32_t parts) { return parts > 1; });
  if (SumsPartials(whole) && adds_up && grid.groups * int64_t{grid.k} > 1) {
    return Status::Error("a 16-bit gradient that is summed has one sum of all its filters");
  }
  return Status::Ok();
}

// Changes `strides` from those of the whole tensor to those of the tile's tensor. Returns whether
// the tile's tensor has to be packed.
bool SetViewStrides(const ConvolutionProblem& tile, int64_t channels, const Spatial& extents,
                    int64_t most_span, Strides& strides) {
  // A 2-D tensor has no separate stride along d.
  if (tile.spatial_rank == 2) strides[2] = strides[3] * extents[1];
  const int64_t span = ViewSpan(tile.n, channels, extents, strides);
  const bool packs = span > most_span;
  if (packs) {
    strides = PackedStrides(tile.layout, channels, extents);
  } else if (tile.n == 1) {
    strides[0] = span;
  }
  return packs;
}

int64_t OffsetOf(const Box& box, const Strides& strides) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < kTensorAxes; ++axis) offset += box[axis].begin * strides[axis];
  return offset;
}

// Cuts each axis of a grid into parts, and combines the parts into tiles.
class TileCutter {
 public:
  TileCutter(const ConvolutionProblem& whole, const TileGrid& grid, int64_t most_span)
      : whole_(whole), grid_(grid), most_span_(most_span) {}

  Result<Tiles> Cut() {
    UCUDNN_RETURN_IF_ERROR(CheckOtherAxes(whole_, grid_));
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      UCUDNN_ASSIGN_OR_RETURN(axes_[axis], CutSpatialAxis(whole_, axis, grid_.spatial[axis]));
    }
    Tiles cut;
    cut.grid = grid_;
    for (int n = 0; n < grid_.n; ++n) {
      for (int group = 0; group < grid_.groups; ++group) {
        for (int k = 0; k < grid_.k; ++k) AddSpatial(cut, n, group, k);
      }
    }
    std::stable_sort(cut.tiles.begin(), cut.tiles.end(),
                     [](const Tile& a, const Tile& b) { return a.kind < b.kind; });
    NumberResults(cut);
    UCUDNN_RETURN_IF_ERROR(Align(cut));
    return cut;
  }

 private:
  void AddSpatial(Tiles& cut, int n, int group, int k) const {
    Tile tile;
    const Interval groups = Part(whole_.groups, grid_.groups, group);
    const int64_t channels = whole_.c / whole_.groups, filters = whole_.k / whole_.groups;
    tile.x[kAxisN] = tile.y[kAxisN] = Part(whole_.n, grid_.n, n);
    tile.x[kAxisC] = {groups.begin * channels, groups.end * channels};
    tile.y[kAxisC] = grid_.k > 1 ? Part(whole_.k, grid_.k, k)
                                 : Interval{groups.begin * filters, groups.end * filters};
    TileKind kind = {whole_};
    kind.problem.n = static_cast<int32_t>(tile.x[kAxisN].Length());
    kind.problem.c = static_cast<int32_t>(tile.x[kAxisC].Length());
    kind.problem.k = static_cast<int32_t>(tile.y[kAxisC].Length());
    kind.problem.groups = static_cast<int32_t>(groups.Length());
    for (const AxisTile& d : axes_[0]) {
      for (const AxisTile& h : axes_[1]) {
        for (const AxisTile& w : axes_[2]) Add(cut, tile, kind, {&d, &h, &w});
      }
    }
  }

  // Adds the tile that `parts` make up. REQUIRES: `tile` and `kind` are complete except for their
  // spatial axes.
  void Add(Tiles& cut, Tile tile, TileKind kind,
           const std::array<const AxisTile*, kMaxSpatial>& parts) const {
    ConvolutionProblem& problem = kind.problem;
    Spatial outputs;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      const AxisTile& part = *parts[axis];
      tile.x[kAxisD + axis] = part.elements;
      tile.y[kAxisD + axis] = part.windows;
      problem.x[axis] = static_cast<int32_t>(part.elements.Length());
      problem.pad[axis] = part.pad;
      problem.extra_pad[axis] = part.extra_pad;
      outputs[axis] = static_cast<int32_t>(part.windows.Length());
      if (grid_.spatial[axis] > 1) {
        const bool by_elements = whole_.operation == Operation::kBackwardData;
        kind.lengths.spatial[axis] = by_elements ? problem.x[axis] : outputs[axis];
      }
    }
    if (grid_.groups > 1) kind.lengths.groups = problem.groups;
    if (grid_.k > 1) kind.lengths.k = problem.k;
    kind.packs_x = SetViewStrides(problem, problem.c, problem.x, most_span_, problem.x_strides);
    kind.packs_y = SetViewStrides(problem, problem.k, outputs, most_span_, problem.y_strides);
    tile.x_offset = OffsetOf(tile.x, whole_.x_strides);
    tile.y_offset = OffsetOf(tile.y, whole_.y_strides);
    tile.w_offset =
        tile.y[kAxisC].begin * (whole_.c / whole_.groups) * whole_.w[0] * whole_.w[1] * whole_.w[2];
    const auto known = std::find(cut.kinds.begin(), cut.kinds.end(), kind);
    tile.kind = static_cast<size_t>(known - cut.kinds.begin());
    if (known == cut.kinds.end()) cut.kinds.push_back(kind);
    cut.tiles.push_back(tile);
  }

  void NumberResults(Tiles& cut) const {
    for (size_t i = 0; i < cut.tiles.size(); ++i) {
      Tile& tile = cut.tiles[i];
      tile.result = i;
      if (whole_.operation != Operation::kBackwardFilter) continue;
      const auto first =
          std::find_if(cut.tiles.begin(), cut.tiles.begin() + static_cast<std::ptrdiff_t>(i),
                       [&](const Tile& other) { return other.w_offset == tile.w_offset; });
      tile.result = static_cast<size_t>(first - cut.tiles.begin());
    }
  }

  // Sets the alignment of all kinds. The offsets of packed tensors are ignored, because their
  // copies are aligned in the workspace.
  Status Align(Tiles& cut) const {
    const auto element = static_cast<int64_t>(ElementBytes(whole_.type));
    int64_t alignment = whole_.alignment;
    for (const Tile& tile : cut.tiles) {
      const TileKind& kind = cut.kinds[tile.kind];
      alignment = std::gcd(alignment, tile.w_offset * element);
      if (!kind.packs_x) alignment = std::gcd(alignment, tile.x_offset * element);
      if (!kind.packs_y) alignment = std::gcd(alignment, tile.y_offset * element);
    }
    if (whole_.layout == Layout::kNhwc &&
        alignment < std::min(whole_.alignment, kChannelsLastAlignment)) {
      return Status::Error("tiles of channels that come last would begin on " +
                           std::to_string(alignment) + " bytes, and not on " +
                           std::to_string(std::min(whole_.alignment, kChannelsLastAlignment)));
    }
    for (TileKind& kind : cut.kinds) kind.problem.alignment = static_cast<int32_t>(alignment);
    return Status::Ok();
  }

  const ConvolutionProblem& whole_;
  const TileGrid& grid_;
  const int64_t most_span_;
  std::array<std::vector<AxisTile>, kMaxSpatial> axes_;
};

}  // namespace

int Tiles::CountOf(size_t kind) const {
  return static_cast<int>(std::count_if(tiles.begin(), tiles.end(),
                                        [&](const Tile& tile) { return tile.kind == kind; }));
}

bool Tiles::AddUp() const {
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (tiles[i].result != i) return true;
  }
  return false;
}

size_t PackedImageBytes(const TileKind& kind) {
  const ConvolutionProblem& problem = kind.problem;
  if (!kind.packs_x) return 0;
  return InWorkspace(static_cast<size_t>(problem.n * problem.x_strides[0]) *
                     ElementBytes(problem.type));
}

size_t PackedBytes(const TileKind& kind) {
  const ConvolutionProblem& problem = kind.problem;
  const size_t image_bytes = PackedImageBytes(kind);
  if (!kind.packs_y) return image_bytes;
  return image_bytes + InWorkspace(static_cast<size_t>(problem.n * problem.y_strides[0]) *
                                   ElementBytes(problem.type));
}

Status Division::CheckCovers(const ConvolutionProblem& problem) const {
  const std::vector<Run>& runs = configuration.runs;
  if (tiles == nullptr) {
    if (configuration.IsTiled())
      return Status::Error("tiles of " + Describe(problem) + " lack places");
    if (configuration.Covers(problem.n)) return Status::Ok();
    return Status::Error("a configuration of " + std::to_string(configuration.Images()) +
                         " images does not divide " + Describe(problem));
  }
  if (runs.size() != tiles->kinds.size()) {
    return Status::Error(std::to_string(runs.size()) + " runs for " +
                         std::to_string(tiles->kinds.size()) + " kinds of tiles of " +
                         Describe(problem));
  }
  for (size_t kind = 0; kind < runs.size(); ++kind) {
    const TileKind& of = tiles->kinds[kind];
    if (runs[kind].count != tiles->CountOf(kind) || runs[kind].micro.tile != of.lengths ||
        runs[kind].micro.micro_batch != of.problem.n) {
      return Status::Error("run " + std::to_string(kind) + " does not compute the tiles " +
                           Describe(of.problem) + " of " + Describe(problem));
    }
  }
  return Status::Ok();
}

ConvolutionProblem SlackTwin(const TileKind& kind) {
  ConvolutionProblem twin = kind.problem;
  const auto element = static_cast<int32_t>(ElementBytes(twin.type));
  const int32_t side_by_side = std::max(1, twin.alignment / element);
  const bool channels_last = twin.layout == Layout::kNhwc;
  const bool cuts_channels = kind.lengths.groups > 0 || kind.lengths.k > 0;
  const auto loosen = [&](Strides& strides, int32_t channels, bool is_cut, const Spatial& extents) {
    Spatial wider = extents;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      if (kind.lengths.spatial[axis] == 0) continue;
      wider[axis] += axis + 1 == kMaxSpatial && !channels_last ? side_by_side : 1;
    }
    const int32_t more = !is_cut ? 0 : channels_last ? side_by_side : 1;
    strides = PackedStrides(twin.layout, channels + more, wider);
    if (twin.spatial_rank == 2) strides[2] = strides[3] * extents[1];
    if (twin.n == 1) strides[0] = ViewSpan(1, channels, extents, strides);
  };
  if (!kind.packs_x) loosen(twin.x_strides, twin.c, kind.lengths.groups > 0, twin.x);
  if (!kind.packs_y) loosen(twin.y_strides, twin.k, cuts_channels, OutputExtents(twin));
  return twin;
}

ConvolutionProblem SlackViews(TileKind kind) {
  kind.packs_x = kind.packs_y = false;
  return SlackTwin(kind);
}

bool Division::AddsUp(const ConvolutionProblem& problem) const {
  if (problem.operation != Operation::kBackwardFilter) return false;
  return tiles != nullptr ? tiles->AddUp() : configuration.Pieces() > 1;
}

int64_t ViewSpan(int64_t n, int64_t channels, const Spatial& extents, const Strides& strides) {
  return 1 + (n - 1) * strides[0] + (channels - 1) * strides[1] + (extents[0] - 1) * strides[2] +
         (extents[1] - 1) * strides[3] + (extents[2] - 1) * strides[4];
}

Result<Tiles> CutIntoTiles(const ConvolutionProblem& whole, const TileGrid& grid,
                           int64_t most_span) {
  int64_t tiles = 1;
  for (const int64_t parts :
       {grid.n, grid.groups, grid.k, grid.spatial[0], grid.spatial[1], grid.spatial[2]}) {
    tiles *= parts;
    if (tiles > kMostTiles) {
      return Status::Error("more than " + std::to_string(kMostTiles) + " tiles");
    }
  }
  return TileCutter(whole, grid, most_span).Cut();
}

Result<Division> DivisionOf(const ConvolutionProblem& whole, const Configuration& configuration) {
  if (!configuration.IsTiled()) return Division(configuration);
  UCUDNN_ASSIGN_OR_RETURN(Tiles cut, CutIntoTiles(whole, configuration.grid));
  Division division(configuration, std::make_shared<const Tiles>(std::move(cut)));
  UCUDNN_RETURN_IF_ERROR(division.CheckCovers(whole));
  return division;
}

}  // namespace ucudnn
