// Runs one engine on small integers. Every byte that the engine could have touched is compared with
// a naive convolution in fp64. Sums of small integers are exact in fp32, so a result is right to
// the bit or wrong.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shim/host/engines/engine.h"

namespace hostgpu::test {

enum class Layout { kNchw, kNhwc, kPaddedNchw, kPaddedNhwc, kMixed };
constexpr std::array<Layout, 5> kLayouts{Layout::kNchw, Layout::kNhwc, Layout::kPaddedNchw,
                                         Layout::kPaddedNhwc, Layout::kMixed};
constexpr std::array<DataType, 4> kTypes{DataType::kFloat, DataType::kHalf, DataType::kBfloat16,
                                         DataType::kDouble};
constexpr std::array<Operation, 3> kOperations{Operation::kForward, Operation::kBackwardData,
                                               Operation::kBackwardFilter};

// Describes a convolution without type, layout and operation. The extents of y follow from it.
struct Problem {
  const char* name;
  int64_t n, c, k, groups;
  std::array<int64_t, 3> x, w, pad, stride, dilation;
};

// With Layout::kMixed x is NCHW, y is NHWC, and the filter has the order k, h, w, c.
ConvolutionShape MakeShape(const Problem& problem, Operation operation,
                           DataType type = DataType::kFloat, Layout layout = Layout::kNchw,
                           bool flip = false);
std::string Describe(const Problem& problem, const ConvolutionShape& shape, int algorithm);

struct Operands {
  std::vector<double> x, w, y;  // dense, in the order n c d h w, filters k c d h w
};
// Returns integers from -2 to 2 that follow from the seed, so that a failure can be repeated.
Operands MakeOperands(const ConvolutionShape& shape, uint32_t seed);

// Returns the dense result of the shape's operation, before alpha and beta.
std::vector<double> NaiveConvolution(const ConvolutionShape& shape, const Operands& operands);

struct Blend {
  double alpha, beta;
};

// Runs algorithm `algorithm`. Returns "" or what was wrong: a wrong element of the result, or a
// byte written outside the result, beyond WorkspaceBytes or into an input. `convolution` is the
// result of NaiveConvolution. With beta = 0 the output first holds NaN. `tolerance` is the largest
// accepted difference of an element.
std::string RunAndCompare(const ConvolutionShape& shape, int algorithm, Blend blend,
                          const Operands& operands, const std::vector<double>& convolution,
                          double tolerance = 0);

// Runs the algorithm and returns the dense output.
std::vector<double> RunEngine(const ConvolutionShape& shape, int algorithm,
                              const Operands& operands);

}  // namespace hostgpu::test
