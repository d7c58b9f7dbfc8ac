// The tensors that fused operations read, besides x, w and y of the convolution before them: for
// example a bias, a scale, a residual, or the image of a ReLU whose gradient is computed. Plain
// values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "convolution/problem.h"

namespace ucudnn::cudnn {

constexpr size_t kMostFusedOperands = 8;

struct FusedOperand {
  int64_t uid = 0;
  DataType type = DataType::kFloat;
  // In elements; 0 along an axis if all positions along it read the same element.
  Strides strides = {};
  size_t span_bytes = 0;  // bytes from the first to the last element that one image reads

  // Returns whether each image reads its own elements.
  bool is_batched() const { return strides[0] > 0; }
  // Returns whether all images share the elements, and these differ from position to position.
  bool differs_by_place() const {
    return !is_batched() && (strides[2] > 0 || strides[3] > 0 || strides[4] > 0);
  }
  // Returns the bytes that `images` images read.
  size_t Bytes(int64_t images) const {
    return static_cast<size_t>((images - 1) * strides[0]) * ElementBytes(type) + span_bytes;
  }
  bool operator==(const FusedOperand&) const = default;
};

// The operands of one call, each with its pointer.
struct FusedPointers {
  std::span<const FusedOperand> operands;  // at most kMostFusedOperands
  std::array<void*, kMostFusedOperands> pointers = {};
};

}  // namespace ucudnn::cudnn
