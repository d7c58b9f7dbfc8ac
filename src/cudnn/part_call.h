// The call of a part of a convolution: the call of the whole convolution with moved pointers. Plain
// values.
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

// The beginning of a part, in bytes from the beginning of each whole tensor.
struct Offsets {
  size_t x = 0, w = 0, y = 0;
  std::array<size_t, kMostFusedOperands> fused = {};  // in the order of the call's operands
};

// Returns the offsets of the part that begins after `images` images of `problem`. `fused` are the
// operands of fused operations. All images share the filter, so its offset is 0.
Offsets AtImage(const ConvolutionProblem& problem, std::span<const FusedOperand> fused,
                int64_t images);

// Returns the offsets of a tile of `whole`. For tensors that the tile packs,
// execution/tile_packing.h replaces the pointers by the addresses of the copies.
Offsets AtTile(const ConvolutionProblem& whole, std::span<const FusedOperand> fused,
               const Tile& tile);

// Fails if the tiles of `kind` write packed copies of their results and a fused operand is batched:
// such an operand is laid out like the whole output and is not packed. The error names the first
// such operand.
Status CheckReads(const TileKind& kind, std::span<const FusedOperand> fused);

// The call of a part of `whole`. Keeps a reference to `whole`. Neither copied nor moved, because
// the part's call points into this object.
class PartCall {
 public:
  // Until MoveTo is called, the part begins at the beginning of the tensors of `whole`.
  explicit PartCall(const ConvolutionCall& whole);
  PartCall(const ConvolutionCall& whole, const Offsets& at) : PartCall(whole) { MoveTo(at); }
  PartCall(const PartCall&) = delete;
  PartCall& operator=(const PartCall&) = delete;

  // Sets all pointers to the beginning of the part at `at`. z is moved by the offset of y, and the
  // tensors of a pooling by the offsets of x and y. A bias is not moved.
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
