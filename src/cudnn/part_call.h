// A part of a convolution as a call: the whole call with its pointers moved. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"
#include "cudnn/convolution_call.h"
#include "cudnn/fused_operands.h"

namespace ucudnn::cudnn {

// Where a part begins, in bytes from the first elements of the whole tensors.
struct Offsets {
  size_t x = 0, w = 0, y = 0;
  std::array<size_t, kMostFusedOperands> fused = {};  // in the order of the call's operands
};

// Returns the offsets of the first element behind the first `images` images of `problem`, whose
// fused operations read `fused`. All images share the filter.
Offsets AtImage(const ConvolutionProblem& problem, std::span<const FusedOperand> fused,
                int64_t images);

// Returns the offsets of a tile of `whole`. Tensors that the tile packs are moved to their copies
// separately (execution/tile_packing.h).
Offsets AtTile(const ConvolutionProblem& whole, std::span<const FusedOperand> fused,
               const Tile& tile);

// Fails if the tiles of `kind`, which write packed copies of their results, would read tensors that
// lie like the whole output; the error names the first one.
Status CheckReads(const TileKind& kind, std::span<const FusedOperand> fused);

// Refers to the whole call; neither copied nor moved, since the part's call points into it.
class PartCall {
 public:
  // Begins with the part that begins where the whole does.
  explicit PartCall(const ConvolutionCall& whole);
  PartCall(const ConvolutionCall& whole, const Offsets& at) : PartCall(whole) { MoveTo(at); }
  PartCall(const PartCall&) = delete;
  PartCall& operator=(const PartCall&) = delete;

  // Sets the pointers to the beginning of the part at `at`, whatever they were. z moves with y, and
  // the tensors of a pooling with x and y. A bias stays where it is.
  void MoveTo(const Offsets& at) {
    call_.x = static_cast<char*>(whole_.x) + at.x;
    call_.w = static_cast<char*>(whole_.w) + at.w;
    call_.y = static_cast<char*>(whole_.y) + at.y;
    if (bias_ || fused_ || pooling_) MoveOthersTo(at);
  }

  ConvolutionCall& get() { return call_; }

 private:
  // Moves the pointers other than x, w and y to the part at `at`.
  void MoveOthersTo(const Offsets& at);

  const ConvolutionCall& whole_;
  ConvolutionCall call_;
  std::optional<BiasActivation> bias_;
  std::optional<FusedPointers> fused_;
  std::optional<PoolingOperands> pooling_;
};

}  // namespace ucudnn::cudnn
