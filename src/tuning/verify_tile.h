// Verifies one kind of tile without the whole convolution (docs/design.md, invariant 9), in device
// memory of ucudnn's own. In a real call other elements of the whole tensors are around a tile;
// here these elements are NaN. If an engine reads beyond its tile, the result becomes NaN even if
// the engine multiplies the value by zero. Writes beyond the tile are found, too.
#pragma once

#include <cstddef>

#include "convolution/problem.h"
#include "convolution/tiles.h"
#include "tuning/engine_scope.h"
#include "tuning/measure.h"
#include "tuning/verify.h"

namespace ucudnn::tuning {

// An engine on one kind of tile. Two equal ComparedTiles need only one comparison.
struct ComparedTile {
  // How the tile's result gets into the output.
  enum class Effect { kReplaces, kAdds, kIsSummed };

  TileKind kind;              // with the strides that its engine gets
  ConvolutionProblem around;  // the same tile with the strides of the tensors around it
  EngineId engine;
  size_t workspace_bytes = 0;  // includes copies of the tile, but no sums of partials
  Effect effect = Effect::kReplaces;

  bool operator==(const ComparedTile&) const = default;
};

// Describes how the kind number `kind` of a division of `problem` is compared. The tile's tensors
// are parts of tensors that are slightly larger than the tile (SlackTwin). If a view of the tile
// spans 2^31 bytes or more, the tile's tensors have the strides of the whole convolution's tensors
// instead. A packed tile is copied from tensors with these strides. REQUIRES: the division has
// tiles.
ComparedTile ComparedTileOf(const ConvolutionProblem& problem, const Division& division,
                            size_t kind);

// Runs the tile's engine on integer operands, in exactly its workspace. For a packed tile, also
// runs the copies before and after the engine. With Effect::kAdds the engine runs twice, and adds
// its second result to the first; with kIsSummed its result passes through the sum of partials.
//
// Compares the result with a reference, which computes the tile as a separate convolution, on
// packed tensors with zeros in place of the padding. The reference is an undivided algorithm of the
// legacy API. If no such algorithm supports the convolution, or if an operation is fused, the
// reference is another engine of `scope` or, if there is no other, the tile's own engine.
//
// For bounds, memory and threads see VerifyPlan.
Verification VerifyTile(const Device& device, const ComparedTile& tile, const MeasureLimits& budget,
                        const EngineScope& scope);

}  // namespace ucudnn::tuning
