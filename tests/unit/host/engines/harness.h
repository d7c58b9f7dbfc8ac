// Runs one engine on integer-valued data and compares every byte it could have touched with what a
// naive convolution in fp64 says. Sums of small integers are exact in fp32, so a result is right to
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

// A convolution without type, layout and operation; the extents of y follow.
struct Problem {
  const char* name;
  int64_t n, c, k, groups;
  std::array<int64_t, 3> x, w, pad, stride, dilation;
};

// kMixed: x NCHW, y NHWC, filter k, h, w, c.
ConvolutionShape MakeShape(const Problem& problem, Operation operation,
                           DataType type = DataType::kFloat, Layout layout = Layout::kNchw,
                           bool flip = false);
std::string Describe(const Problem& problem, const ConvolutionShape& shape, int algorithm);

struct Operands {
  std::vector<double> x, w, y;  // dense, n c d h w and k c d h w
};
// Values -2 … 2 by a fixed rule, so that a failure can be repeated.
Operands MakeOperands(const ConvolutionShape& shape, uint32_t seed);

// The convolution that the operation names, dense, before alpha and beta.
std::vector<double> NaiveConvolution(const ConvolutionShape& shape, const Operands& operands);

struct Blend {
  double alpha, beta;
};

// Runs algorithm `algorithm` and returns what was wrong, "" if nothing: a wrong element of the
// result, a byte written beside it, beyond WorkspaceBytes or into an input. With beta = 0 the
// output holds NaN before. `tolerance` is the largest accepted difference of an element.
std::string RunAndCompare(const ConvolutionShape& shape, int algorithm, Blend blend,
                          const Operands& operands, const std::vector<double>& convolution,
                          double tolerance = 0);

// Runs and returns the output, dense.
std::vector<double> RunEngine(const ConvolutionShape& shape, int algorithm,
                              const Operands& operands);

}  // namespace hostgpu::test
