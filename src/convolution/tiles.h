// One convolution as a grid of smaller ones, its tiles. Each tile is a separate convolution on
// views of the whole tensors, and together the tiles compute what the whole convolution computes.
// Plain values and pure functions; thread-compatible.
//
// Forward and backward_filter are cut between windows (rows of y and dy). backward_data is cut
// between elements (rows of dx), and only before the first element of a window. If it were cut
// elsewhere, a tile might need negative padding, which cuDNN refuses, or have no window at all. The
// tiles of backward_filter that have the same filters add to one result, in their order. Forward is
// never cut along c, and backward_data never along k, because each of their results is a sum over
// that axis.
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

// The most tiles of a grid. Each tile is a separate launch in every call, and at least one node of
// a captured graph.
constexpr int kMostTiles = 256;
// The most elements of memory that a view may span, from its first to its last element. cuDNN's
// engines count these elements in 32 bits, but cuDNN itself checks only the stride of n.
constexpr int64_t kMostViewSpan = (int64_t{1} << 31) - 1;
// Alignment in bytes. With channels last, cuDNN has no engine without workspace for tensors with a
// smaller alignment.
constexpr int32_t kChannelsLastAlignment = 16;

// The properties that tiles share if they differ only in their places.
struct TileKind {
  // Each tensor has the strides of the whole tensor, or of its packed copy; if there is a single
  // image, the stride of n is the span of the view. All tiles of the grid have the same alignment:
  // it divides the offsets of all their views, and is at most the alignment of the whole problem.
  ConvolutionProblem problem;
  // True if the tile's view of the tensor spans more elements than engines accept, so that a packed
  // copy replaces the view.
  bool packs_x = false;
  bool packs_y = false;
  TileLengths lengths;

  bool operator==(const TileKind&) const = default;
};

// PackedImageBytes returns the bytes of workspace for the packed copy of a tile's x, and
// PackedBytes the bytes for the copies of x and y, in this order. Both are multiples of
// kPartialSumAlignment.
size_t PackedImageBytes(const TileKind& kind);  // 0: x is a view
size_t PackedBytes(const TileKind& kind);       // 0: x and y are views

// Returns the tile's problem as a part of slightly larger tensors, the slack twin. Each view has
// the strides of a packed tensor that is one position longer along each cut axis. If the axis that
// is contiguous in memory is cut, the packed tensor is longer by as many positions as keep the
// alignment. A plan of the slack twin needs as much workspace as a plan of the tile itself, unlike
// a plan of packed tensors. Engines are measured on the slack twin, however large the whole tensors
// are.
ConvolutionProblem SlackTwin(const TileKind& kind);
// Returns the slack twin in which the tensors that the tile packs are views, too. Packing is
// measured and compared by copies from these views and back to them.
ConvolutionProblem SlackViews(TileKind kind);

// Measurements of packing are stored under this engine, for the tile's slack twin and number of
// images. Their workspace is PackedBytes.
inline constexpr EngineId::Packing kPacking;

struct Tile {
  size_t kind = 0;  // index in Tiles::kinds
  Box x, y;         // boxes of the whole tensors; y's channels are also the tile's filters
  // Offsets in elements from the beginnings of the whole tensors. Filters are packed.
  int64_t x_offset = 0, w_offset = 0, y_offset = 0;
  // The index of the first tile with the same result. In a gradient of the filter that tile
  // replaces the result, and later tiles add to it. In all other operations it is this tile's own
  // index.
  size_t result = 0;
};

struct Tiles {
  TileGrid grid;
  std::vector<TileKind> kinds;
  std::vector<Tile> tiles;  // tiles of one kind follow each other, in ascending order of kinds

  int CountOf(size_t kind) const;
  // Returns whether a tile adds to the result of another tile.
  bool AddUp() const;
};

// The division of a convolution: a configuration and, if it divides into tiles, the tiles. The
// tiles are immutable, so copies share them.
struct Division {
  // REQUIRES: the configuration has one run for each of the kinds of `cut`, in the same order.
  Division(Configuration of, std::shared_ptr<const Tiles> cut = nullptr)  // NOLINT: implicit
      : configuration(std::move(of)), tiles(std::move(cut)) {
    if (tiles != nullptr) configuration.grid = tiles->grid;
  }

  // Without tiles, fails unless the configuration has as many images as `problem` and no grid. With
  // tiles, fails unless each kind of tile has one run with the kind's lengths, images and number of
  // tiles. The error names the images or the first run that differs.
  Status CheckCovers(const ConvolutionProblem& problem) const;
  // Returns whether any piece or tile adds to the result of another one.
  bool AddsUp(const ConvolutionProblem& problem) const;

  Configuration configuration;
  std::shared_ptr<const Tiles> tiles;
};

// Cuts `whole` into the tiles of `grid`. If a tile's view of a tensor spans more than `most_span`
// elements, a packed copy replaces the view. The error says what prevents the cut:
//  - an axis with fewer places to cut than `grid` needs, or more than kMostTiles tiles
//  - padding as wide as the dilated filter, along an axis that is cut
//  - cutting k if there are several groups, or in backward_data, which sums over k
//  - groups or filters of a 16-bit gradient together with an axis over which tiles add up
//  - with channels last, offsets that are aligned to less than kChannelsLastAlignment
// REQUIRES: whole.n >= 1, and all parts >= 1.
Result<Tiles> CutIntoTiles(const ConvolutionProblem& whole, const TileGrid& grid,
                           int64_t most_span = kMostViewSpan);

// Returns `configuration` of `whole` as a division, with its tiles if it has a grid. Fails if
// `whole` cannot be cut by the grid.
Result<Division> DivisionOf(const ConvolutionProblem& whole, const Configuration& configuration);

// Returns the number of elements from the first to the last element of a tensor with n images,
// inclusive.
int64_t ViewSpan(int64_t n, int64_t channels, const Spatial& extents, const Strides& strides);

}  // namespace ucudnn
