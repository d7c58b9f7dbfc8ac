// The tensors that operations fused behind a convolution read, beside its own three: a bias, a
// scale, a residual, the image of a ReLU whose gradient is taken. Plain values.
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
  // Bytes from one image to the next; 0 where all images read the same elements.
  size_t image_bytes = 0;
  size_t span_bytes = 0;  // from the first to the last element that one image reads

  // The memory that `images` images read.
  size_t Bytes(int64_t images) const {
    return static_cast<size_t>(images - 1) * image_bytes + span_bytes;
  }
  bool operator==(const FusedOperand&) const = default;
};

// The operands of one call, each with its pointer.
struct FusedPointers {
  std::span<const FusedOperand> operands;  // at most kMostFusedOperands
  std::array<void*, kMostFusedOperands> pointers = {};
};

}  // namespace ucudnn::cudnn
