// One convolution as a grid of smaller ones, its tiles: each is a convolution of its own on views
// of the whole tensors, and together they compute what the whole does. Plain values and pure
// functions; thread-compatible.
//
// Forward and backward_filter are cut in windows (rows of y and dy). backward_data is cut in
// elements (rows of dx), at the first elements of windows alone: cut anywhere, a tile may need
// negative padding, which cuDNN refuses, or no window at all. The tiles of backward_filter that
// have the same filters add to one result, in their order. What is summed over inside one result of
// forward (c) or backward_data (k) is never cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/partition.h"
#include "convolution/problem.h"

namespace ucudnn {

// Each tile is a launch of its own in every call, and at least one node of a captured graph.
constexpr int kMostTiles = 256;
// Elements from the first to the last of a view. cuDNN's engines count them in 32 bits, and cuDNN
// itself looks at the stride of n alone.
constexpr int64_t kMostViewSpan = (int64_t{1} << 31) - 1;
// Bytes. With channels last, engines that need no workspace are lost below it.
constexpr int32_t kChannelsLastAlignment = 16;

// What tiles that differ in their places alone have in common.
struct TileKind {
  // The strides are those of the whole tensors, or of a packed copy. The stride of n is, for a
  // single image, the span of the view. The alignment is that of all tiles of the grid: what all of
  // their places in x, w and y are multiples of, and at most the whole problem's.
  ConvolutionProblem problem;
  // The view's span exceeds what engines take, so the tile has to be computed on a packed copy.
  bool packs_x = false;
  bool packs_y = false;
  TileLengths lengths;

  bool operator==(const TileKind&) const = default;
};

// Workspace for the packed copies of a tile, x before y; multiples of kPartialSumAlignment.
size_t PackedImageBytes(const TileKind& kind);  // 0: x is a view
size_t PackedBytes(const TileKind& kind);       // of both

// The tile as a part of tensors that are hardly larger than it: packed, but for one place more
// along each axis that is cut (so many as keep the alignment where they lie side by side). Plans of
// it need the workspace of plans of the tile itself, which those of a packed tensor do not: engines
// are measured on it, whatever the whole takes.
ConvolutionProblem SlackTwin(const TileKind& kind);
// The slack twin with the tile's own views in place of the packed copies: copies are measured and
// compared from these views and back to them.
ConvolutionProblem SlackViews(TileKind kind);

// The engine in whose name it is measured what the copies of a packed tile take, under its twin and
// its images. Its workspace is PackedBytes.
inline constexpr EngineId::Packing kPacking;

struct Tile {
  size_t kind = 0;  // its index
  Box x, y;         // of the whole tensors; the channels of y are its filters, too
  // Elements from the beginnings of the whole tensors. Filters are packed.
  int64_t x_offset = 0, w_offset = 0, y_offset = 0;
  // The index of the first tile with the same result, which a gradient of the filter replaces and
  // later tiles add to. Its own in all other operations.
  size_t result = 0;
};

struct Tiles {
  TileGrid grid;
  std::vector<TileKind> kinds;
  std::vector<Tile> tiles;  // those of one kind side by side, by rising kind

  int CountOf(size_t kind) const;
  // Whether tiles add to what others leave.
  bool AddUp() const;
};

// How a convolution is divided: a configuration and, where that has tiles, where they lie. Tiles
// are immutable, so copies share them.
struct Division {
  // REQUIRES: with `cut`, the configuration has one run for each of its kinds, in the same order.
  Division(Configuration of, std::shared_ptr<const Tiles> cut = nullptr)  // NOLINT: implicit
      : configuration(std::move(of)), tiles(std::move(cut)) {
    if (tiles != nullptr) configuration.grid = tiles->grid;
  }

  // An error that names what the division leaves out of `problem`, or computes beside it.
  Status CheckCovers(const ConvolutionProblem& problem) const;
  // Whether parts add to what others leave.
  bool AddsUp(const ConvolutionProblem& problem) const;

  Configuration configuration;
  std::shared_ptr<const Tiles> tiles;
};

// Cuts `whole` into the tiles of `grid`. Packs a tensor of a tile whose view spans more than
// `most_span` elements. The error names the axis and what prevents the cut: more parts than the
// axis has places to cut at, more than kMostTiles, padding as wide as the dilated filter, an axis
// that the operation sums over, groups or filters of a 16-bit gradient beside an axis over which
// tiles add up, or, with channels last, places below kChannelsLastAlignment.
// REQUIRES: whole.n >= 1, and all parts >= 1.
Result<Tiles> CutIntoTiles(const ConvolutionProblem& whole, const TileGrid& grid,
                           int64_t most_span = kMostViewSpan);

// `configuration` of `whole`, cut where it has tiles. An error where its grid cannot cut it.
Result<Division> DivisionOf(const ConvolutionProblem& whole, const Configuration& configuration);

// Elements from the first to the last of a tensor with n images, its spans along each axis added.
int64_t ViewSpan(int64_t n, int64_t channels, const Spatial& extents, const Strides& strides);

}  // namespace ucudnn
