// Verifies one kind of tile apart from its whole (docs/design.md, invariant 9), in device memory of
// its own. The tile's tensors lie between elements that are NaN, where in the whole their
// neighbours lie. If an engine reads beyond its tile, the result becomes NaN, even if it multiplies
// that by zero, and writes beyond the tile are noticed.
#pragma once

#include <cstddef>

#include "convolution/problem.h"
#include "convolution/tiles.h"
#include "tuning/engine_scope.h"
#include "tuning/measure.h"
#include "tuning/verify.h"

namespace ucudnn::tuning {

// An engine on one kind of tile. Equal values stand for one comparison.
struct ComparedTile {
  // The use of the tile's result.
  enum class Effect { kReplaces, kAdds, kIsSummed };

  TileKind kind;              // with the strides that its engine gets
  ConvolutionProblem around;  // the same tile, with the strides of the tensors around it
  EngineId engine;
  size_t workspace_bytes = 0;  // includes copies of the tile, but no sums of partials
  Effect effect = Effect::kReplaces;

  bool operator==(const ComparedTile&) const = default;
};

// Describes how `kind` of a division of `problem` is compared: in tensors that are hardly larger
// than it (SlackTwin) or, if a view of it spans 2^31 bytes or more, with the strides that it has in
// the whole. A packed tile is copied from such tensors. REQUIRES: the division has tiles.
ComparedTile ComparedTileOf(const ConvolutionProblem& problem, const Division& division,
                            size_t kind);

// Runs the tile's engine on integer operands, in exactly its workspace, between the copies of a
// packed tile. A gradient that adds up is added to itself; a gradient that is summed runs through
// the sum. Compares the result with that of an engine that computes the tile as a convolution of
// its own, on packed tensors with zeros in place of the padding. That is an undivided algorithm of
// the legacy API or, if none serves or an operation is fused, another engine of `scope`, at last
// the same one. Bounds, memory and threads are as for VerifyPlan.
Verification VerifyTile(const Device& device, const ComparedTile& tile, const MeasureLimits& budget,
                        const EngineScope& scope);

}  // namespace ucudnn::tuning
