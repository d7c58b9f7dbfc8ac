// The engines of the stand-in cuDNN. They compute one convolution on host memory with a choice of
// algorithms. Most of the work is oneDNN's. The stand-in's own loops compute fp64, and cases that
// oneDNN does not support. Thread-safe. Of the caller's memory, only the output and the workspace
// are written. Sums are accumulated in fp32 (in fp64 for fp64 and int8 data).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace hostgpu {

enum class Operation { kForward, kBackwardData, kBackwardFilter };
enum class DataType { kFloat, kHalf, kBfloat16, kDouble, kInt8, kInt32 };

constexpr size_t BytesOf(DataType type) {
  constexpr size_t kBytes[] = {4, 2, 2, 8, 1, 4};
  return kBytes[static_cast<int>(type)];
}

// A convolution with up to three spatial dimensions, in the order d, h, w. With two dimensions, all
// values for d describe an axis of extent 1.
struct ConvolutionShape {
  Operation operation;
  DataType type;  // type of x, w and y; for kInt8, of x and w only
  int64_t n, c, k, groups;
  std::array<int64_t, 3> x, w, y;         // spatial extents of image, filter, output
  std::array<int64_t, 3> pad, upper_pad;  // padding before the first pixel and after the last one
  std::array<int64_t, 3> stride, dilation;
  std::array<int64_t, 5> x_strides, y_strides;  // in elements, order n, c, d, h, w
  bool filter_nhwc;  // filter memory is k, d, h, w, c/groups instead of k, c/groups, d, h, w
  bool flip;         // CUDNN_CONVOLUTION (filter mirrored) instead of CUDNN_CROSS_CORRELATION
  DataType int8_result = DataType::kInt32;  // type of y if `type` is kInt8: kInt8, kInt32 or kFloat
};

// Returns the type of the tensor that the operation writes.
inline DataType ResultType(const ConvolutionShape& shape) {
  return shape.type == DataType::kInt8 ? shape.int8_result : shape.type;
}

// Algorithm numbers come from cuDNN's enumeration for each operation:
//   0  implicit GEMM: no workspace, every shape and type, pointers aligned to an element
//   1  oneDNN's fastest direct convolution: workspace grows with the batch; not fp64
//   forward 2  oneDNN on fp32 in the caller's dense layout: workspace does not grow with the batch
//   forward 6, backward_data 4, backward_filter 5  Winograd, 3x3 without stride; coarser rounding
//      (needs oneDNN 2 and AVX-512: oneDNN 3 has no Winograd for x86)
// All algorithms except 0 need pointers that are aligned to 16 bytes. int8 is supported only by
// forward algorithm 1, which is then an implicit GEMM without workspace. Its sums are exact; a
// value outside the result's type becomes the nearest value of that type.
constexpr int kAlgorithmCount = 8;

constexpr int WinogradOf(Operation operation) {
  constexpr int kAlgorithms[] = {6, 4, 5};
  return kAlgorithms[static_cast<int>(operation)];
}

// Returns the bytes of workspace that `algorithm` needs; nullopt if it does not support this shape.
std::optional<size_t> WorkspaceBytes(const ConvolutionShape& shape, int algorithm);

bool IsDeterministic(const ConvolutionShape& shape, int algorithm);

// Computes the following, where conv is the operation's convolution. If beta is 0, the output is
// not read. `workspace` has WorkspaceBytes bytes. Returns false if the engine cannot run because of
// an error of the caller or of oneDNN.
//   forward:         y = alpha * conv(x, w) + beta * y
//   backward_data:   x = alpha * conv(w, y) + beta * x
//   backward_filter: w = alpha * conv(x, y) + beta * w
bool Run(const ConvolutionShape& shape, int algorithm, double alpha, void* x, void* w, void* y,
         double beta, void* workspace);

}  // namespace hostgpu
