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

// The properties that tiles share which differ in their places alone.
struct TileKind {
  // The strides are the strides of the whole tensors, or of a packed copy. If there is a single
  // image, the stride of n is the span of the view. The alignment holds for all tiles of the grid:
  // all their places in x, w and y are multiples of it, and it is at most the whole problem's.
  ConvolutionProblem problem;
  // The view spans more than engines accept, so the tile has to be computed on a packed copy.
  bool packs_x = false;
  bool packs_y = false;
  TileLengths lengths;

  bool operator==(const TileKind&) const = default;
};

// Workspace for the packed copies of a tile, x before y; multiples of kPartialSumAlignment.
size_t PackedImageBytes(const TileKind& kind);  // 0: x is a view
size_t PackedBytes(const TileKind& kind);       // bytes of both copies

// Returns the tile as a part of tensors that are hardly larger: packed, but with one more place
// along each axis that is cut (or as many more as keep the alignment if tiles lie side by side).
// Plans of it need as much workspace as plans of the tile itself, unlike plans of a packed tensor.
// Engines are measured on it, however large the whole is.
ConvolutionProblem SlackTwin(const TileKind& kind);
// Returns the slack twin with the tile's own views in place of the packed copies. Copies are
// measured and compared from these views and back to them.
ConvolutionProblem SlackViews(TileKind kind);

// The engine under whose name the copies of a packed tile are measured, for its twin and its number
// of images. Its workspace is PackedBytes.
inline constexpr EngineId::Packing kPacking;

struct Tile {
  size_t kind = 0;  // its index
  Box x, y;         // boxes of the whole tensors; the channels of y are its filters, too
  // Elements from the beginnings of the whole tensors. Filters are packed.
  int64_t x_offset = 0, w_offset = 0, y_offset = 0;
  // The index of the first tile with the same result, which a gradient of the filter replaces and
  // later tiles add to. Its own in all other operations.
  size_t result = 0;
};

struct Tiles {
  TileGrid grid;
  std::vector<TileKind> kinds;
  std::vector<Tile> tiles;  // tiles of one kind follow each other, in ascending order of kinds

  int CountOf(size_t kind) const;
  // Returns whether a tile adds to the result of another one.
  bool AddUp() const;
};

// The division of a convolution: a configuration and, if it is into tiles, their places. Tiles are
// immutable, so copies share them.
struct Division {
  // REQUIRES: with `cut`, the configuration has one run for each of its kinds, in the same order.
  Division(Configuration of, std::shared_ptr<const Tiles> cut = nullptr)  // NOLINT: implicit
      : configuration(std::move(of)), tiles(std::move(cut)) {
    if (tiles != nullptr) configuration.grid = tiles->grid;
  }

  // Fails if the division leaves out parts of `problem`, or computes beyond it; the error names
  // them.
  Status CheckCovers(const ConvolutionProblem& problem) const;
  // Returns whether a part adds to the result of another one.
  bool AddsUp(const ConvolutionProblem& problem) const;

  Configuration configuration;
  std::shared_ptr<const Tiles> tiles;
};

// Cuts `whole` into the tiles of `grid`. Packs a tensor of a tile if its view spans more than
// `most_span` elements. The error names the axis and what prevents the cut: more parts than the
// axis has places to cut at, more than kMostTiles tiles, padding as wide as the dilated filter, an
// axis that the operation sums over, groups or filters of a 16-bit gradient together with an axis
// over which tiles add up, or, with channels last, places that are aligned to less than
// kChannelsLastAlignment. REQUIRES: whole.n >= 1, and all parts >= 1.
Result<Tiles> CutIntoTiles(const ConvolutionProblem& whole, const TileGrid& grid,
                           int64_t most_span = kMostViewSpan);

// Returns `configuration` of `whole` with its tiles, if it has a grid. Fails if the grid cannot cut
// `whole`.
Result<Division> DivisionOf(const ConvolutionProblem& whole, const Configuration& configuration);

// Returns the number of elements from the first to the last of a tensor with n images: its spans
// along all axes, added.
int64_t ViewSpan(int64_t n, int64_t channels, const Spatial& extents, const Strides& strides);

}  // namespace ucudnn
