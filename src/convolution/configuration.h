// Configurations: how a mini-batch is divided, and which engine runs each micro-batch. Plain
// values. Source: mu-cuDNN, section III-A.
#pragma once

#include <cstddef>
#include <vector>

#include "convolution/engine_id.h"
#include "convolution/problem.h"

namespace ucudnn {

// The lengths of a tile along the axes other than n, in groups, filters and positions of the
// result. A length is 0 along an axis that is not cut. In a gradient of the filter, `spatial` has
// the lengths of the box of dy over which the tile sums.
struct TileLengths {
  int32_t groups = 0;
  int32_t k = 0;
  Spatial spatial = {0, 0, 0};

  bool operator==(const TileLengths&) const = default;
};

// One engine at one micro-batch size: a measurement, or a piece that is about to run.
struct MicroConfiguration {
  EngineId engine;      // with math type, knobs and fused operations
  int micro_batch = 0;  // images
  double time_ms = 0;
  size_t workspace_bytes = 0;
  bool deterministic = false;
  TileLengths tile = {};
  double pack_ms = 0;  // the part of time_ms for packing a tile and copying its result back

  bool operator==(const MicroConfiguration&) const = default;
  // Returns whether the engine computes a whole mini-batch of `n` images in one piece.
  bool IsWhole(int n) const { return micro_batch == n && tile == TileLengths{}; }
};

// The number of parts of each axis. Parts of one axis have equal lengths, except that the first
// ones may be one window longer (along n, groups and k: one element). In backward_data the lengths
// of the first and the last part also depend on where the image may be cut (tiles.h).
struct TileGrid {
  int n = 1;
  int groups = 1;  // each part has whole groups
  int k = 1;       // more than 1 only if there is one group
  Spatial spatial = {1, 1, 1};

  bool operator==(const TileGrid&) const = default;
  int Parts() const { return n * PartsOfImages(); }
  // Returns the number of tiles that each of the `n` parts of the mini-batch has.
  int PartsOfImages() const { return groups * k * spatial[0] * spatial[1] * spatial[2]; }
};

// `count` equal micro-batches, or all tiles of one kind, one after the other.
struct Run {
  MicroConfiguration micro;
  int count = 0;

  bool operator==(const Run&) const = default;
};

// A division of a whole mini-batch, in the order of execution. Without tiles, all micro-batches but
// the last have a legal size (a multiple of LegalStep()), so every piece starts aligned. A division
// into tiles has one run for each kind of tile, in the order of Tiles::kinds (tiles.h), and its
// `grid` says where the tiles lie.
struct Configuration {
  std::vector<Run> runs;
  TileGrid grid = {};  // 1 part of each axis: only n is divided, into the runs

  bool operator==(const Configuration&) const = default;
  bool IsTiled() const { return grid != TileGrid{}; }
  int Pieces() const;
  // Returns whether the pieces together compute a mini-batch of `n` images.
  bool Covers(int n) const { return Images() == n; }
  int Images() const;                         // the mini-batch: all images that the pieces compute
  double TimeMs() const;                      // sum over the pieces, which run one after the other
  size_t WorkspaceBytes() const;              // maximum over the pieces: they share one workspace
  bool Deterministic() const;                 // whether all pieces are deterministic
  const MicroConfiguration& Largest() const;  // piece with most images; runs must not be empty
};

}  // namespace ucudnn
