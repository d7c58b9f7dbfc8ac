// One convolution kernel: operation, shapes, strides, types and math. A plain value without padding
// bytes: operator== compares members, and Hash() is the same for equal problems within one process.
// Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ucudnn {

enum class Operation : int32_t { kForward, kBackwardData, kBackwardFilter };
enum class DataType : int32_t { kFloat, kHalf, kBfloat16, kDouble };
enum class Layout : int32_t { kNchw, kNhwc };
enum class ConvolutionMode : int32_t { kCrossCorrelation, kConvolution };
// The values of cudnnMathType_t.
enum class MathType : int32_t { kDefault, kTensorOp, kTensorOpAllowConversion, kFma };

constexpr int kMaxSpatial = 3;
using Spatial = std::array<int32_t, kMaxSpatial>;      // axis order d, h, w; d is 1 (pad 0) in 2-D
using Strides = std::array<int64_t, kMaxSpatial + 2>;  // in elements, order n, c, d, h, w

struct ConvolutionProblem {
  Operation operation = Operation::kForward;
  int32_t spatial_rank = 2;  // 2 or 3
  int32_t n = 1;             // mini-batch
  int32_t c = 1;             // input channels, of all groups together
  int32_t k = 1;             // output channels, of all groups together
  int32_t groups = 1;
  Spatial x = {1, 1, 1};  // image extents
  Spatial w = {1, 1, 1};  // filter extents
  Spatial pad = {0, 0, 0};
  // The padding after the image along an axis, minus `pad`, the padding before the image; pad +
  // extra_pad >= 0.
  Spatial extra_pad = {0, 0, 0};
  Spatial stride = {1, 1, 1};
  Spatial dilation = {1, 1, 1};
  DataType type = DataType::kFloat;     // of x, w and y
  DataType compute = DataType::kFloat;  // of the accumulation
  Layout layout = Layout::kNchw;        // of the filter
  ConvolutionMode mode = ConvolutionMode::kCrossCorrelation;
  MathType math = MathType::kDefault;  // allowed by the caller's convolution descriptor
  // In bytes. Every piece of a batched tensor must begin at a multiple of `alignment`, counted from
  // the beginning of the tensor.
  int32_t alignment = 1;
  Strides x_strides = {};
  Strides y_strides = {};

  bool operator==(const ConvolutionProblem&) const = default;
  uint64_t Hash() const;
  bool HasEvenPads() const { return extra_pad == Spatial{0, 0, 0}; }
};

// Returns the output extent of each axis: 1 + (x + 2 * pad + extra_pad - ((w - 1) * dilation + 1))
// / stride, rounded down.
Spatial OutputExtents(const ConvolutionProblem& problem);

// Returns the extent of the image with its padding on both sides, along axis 0 (d), 1 (h) or 2 (w).
inline int64_t PaddedExtent(const ConvolutionProblem& problem, size_t axis) {
  return int64_t{problem.x[axis]} + 2 * int64_t{problem.pad[axis]} + problem.extra_pad[axis];
}

// Returns the strides of a packed tensor with `channels` channels and `extents` in `layout`.
Strides PackedStrides(Layout layout, int64_t channels, const Spatial& extents);

// Fills x_strides and y_strides for packed tensors in problem.layout.
void SetPackedStrides(ConvolutionProblem& problem);

size_t ElementBytes(DataType type);

// Returns the smallest number of images whose bytes are a multiple of `alignment` in x and in y. A
// batch boundary is legal only at multiples of this number.
int LegalStep(const ConvolutionProblem& problem);

// Returns the kernel without its mini-batch (n = 0). The store keeps measurements at all
// micro-batches under this key.
ConvolutionProblem KernelFamily(ConvolutionProblem problem);

// Formats a problem for messages: "forward 256x64x27x27 -> 192, 5x5 pad 2x2 fp32 nchw".
std::string Describe(const ConvolutionProblem& problem);

const char* OperationName(Operation operation);
const char* DataTypeName(DataType type);

}  // namespace ucudnn
