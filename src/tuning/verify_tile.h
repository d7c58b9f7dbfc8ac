// Verifies one kind of tile apart from its whole (docs/design.md, invariant 9), in device memory of
// our own: what a tile reads and writes lies between elements that are NaN, as its neighbours lie
// in the whole. An engine that reads beyond its tile makes the result NaN, even where it multiplies
// that by zero, and one that writes beyond it is seen.
#pragma once

#include <cstddef>

#include "convolution/problem.h"
#include "convolution/tiles.h"
#include "tuning/engine_scope.h"
#include "tuning/measure.h"
#include "tuning/verify.h"

namespace ucudnn::tuning {

// An engine on one kind of tile. Two that are equal are one comparison.
struct ComparedTile {
  // What becomes of the tile's result.
  enum class Effect { kReplaces, kAdds, kIsSummed };

  TileKind kind;              // with the strides that its engine gets
  ConvolutionProblem around;  // the same tile, with the strides of the tensors that it lies in
  EngineId engine;
  size_t workspace_bytes = 0;  // with copies of the tile, without sums of partials
  Effect effect = Effect::kReplaces;

  bool operator==(const ComparedTile&) const = default;
};

// How `kind` of a division of `problem` is compared: in tensors that are hardly larger than it
// (SlackTwin); where a view of it spans 2^31 bytes or more, with the strides that it has in the
// whole. A packed tile is copied from such tensors. REQUIRES: the division has tiles.
ComparedTile ComparedTileOf(const ConvolutionProblem& problem, const Division& division,
                            size_t kind);

// Runs the tile's engine on integer operands, in exactly its workspace, between the copies of a
// packed tile. A gradient that adds up is added to itself, one that is summed runs through the sum.
// Compares with an engine that computes the tile as a convolution of its own: on packed tensors,
// with zeros in place of the padding, by an undivided algorithm of the legacy API or, where none
// serves or something is fused, by another engine of `scope`, at last by the same one. Bounds,
// memory and threads are VerifyPlan's.
Verification VerifyTile(const Device& device, const ComparedTile& tile, const MeasureLimits& budget,
                        const EngineScope& scope);

}  // namespace ucudnn::tuning
