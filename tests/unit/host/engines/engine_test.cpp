// Tests that all algorithms but Winograd, which rounds, equal a naive convolution to the bit.
// IsExactForEveryKindOfProblem runs each problem with all operations, types, layouts and both
// filter modes, and with several alpha and beta.
#include "shim/host/engines/engine.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/host/engines/harness.h"

namespace hostgpu::test {
namespace {

constexpr std::array<Blend, 4> kBlends{Blend{1, 0}, {-2, 0}, {1, 1}, {0.5, -3}};

// Compares all algorithms but Winograd, which rounds, with a naive convolution. Returns the
// algorithms that support at least one case.
std::set<int> CheckEverything(const Problem& problem) {
  std::set<int> served;
  uint32_t seed = 1;
  for (Operation operation : kOperations) {
    for (bool flip : {false, true}) {
      const auto plain = MakeShape(problem, operation, DataType::kFloat, Layout::kNchw, flip);
      const Operands operands = MakeOperands(plain, seed++);
      const std::vector<double> convolution = NaiveConvolution(plain, operands);
      for (DataType type : kTypes) {
        for (Layout layout : kLayouts) {
          const ConvolutionShape shape = MakeShape(problem, operation, type, layout, flip);
          for (int algorithm = 0; algorithm < kAlgorithmCount; ++algorithm) {
            if (algorithm == WinogradOf(operation) || !WorkspaceBytes(shape, algorithm)) continue;
            served.insert(algorithm);
            for (Blend blend : kBlends) {
              const std::string fault =
                  RunAndCompare(shape, algorithm, blend, operands, convolution);
              EXPECT_EQ(fault, "") << Describe(problem, shape, algorithm) << " alpha "
                                   << blend.alpha << " beta " << blend.beta;
              if (!fault.empty()) return served;
            }
          }
        }
      }
    }
  }
  return served;
}

TEST(Engine, IsExactForEveryKindOfProblem) {
  const Problem problems[] = {
      {"3x3", 3, 3, 5, 1, {1, 7, 6}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
      {"stride", 2, 4, 6, 1, {1, 11, 9}, {1, 5, 5}, {0, 2, 2}, {1, 2, 2}, {1, 1, 1}},
      {"dilation", 2, 3, 4, 1, {1, 11, 10}, {1, 3, 3}, {0, 2, 1}, {1, 1, 2}, {1, 2, 3}},
      {"lattice", 2, 3, 4, 1, {1, 12, 11}, {1, 3, 2}, {0, 1, 2}, {1, 2, 4}, {1, 2, 2}},
      {"groups", 2, 6, 4, 2, {1, 7, 7}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
      {"depthwise", 2, 16, 16, 16, {1, 7, 7}, {1, 3, 3}, {0, 1, 1}, {1, 2, 2}, {1, 1, 1}},
      {"multiplier", 2, 5, 10, 5, {1, 6, 6}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
      {"1x1", 3, 20, 33, 1, {1, 5, 4}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}},
      {"sparse", 2, 4, 5, 1, {1, 8, 10}, {1, 1, 2}, {0, 0, 0}, {1, 2, 3}, {1, 1, 1}},
      {"asymmetric", 2, 3, 4, 1, {1, 9, 5}, {1, 1, 5}, {0, 0, 3}, {1, 2, 1}, {1, 1, 1}},
      {"wide padding", 2, 3, 4, 1, {1, 4, 4}, {1, 2, 2}, {0, 2, 3}, {1, 1, 1}, {1, 1, 1}},
      {"fc", 5, 4, 7, 1, {1, 4, 3}, {1, 4, 3}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}},
      {"3-D", 2, 3, 4, 1, {5, 6, 4}, {3, 2, 3}, {1, 0, 1}, {2, 1, 1}, {1, 2, 1}},
      {"3-D groups", 2, 4, 6, 2, {3, 5, 4}, {2, 3, 3}, {0, 1, 1}, {1, 1, 2}, {1, 1, 1}},
      {"n=1", 1, 16, 32, 1, {1, 6, 6}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
  };
  for (const Problem& problem : problems) {
    const std::set<int> served = CheckEverything(problem);
    EXPECT_TRUE(served.count(0)) << problem.name;
    EXPECT_TRUE(&problem != problems || served == (std::set<int>{0, 1, 2}));
  }
}

TEST(Engine, StrideOfAnAxisOfOneElementDoesNotMatter) {
  const Problem problem{"strides",   1,         4,         5,         1,
                        {1, 10, 11}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}};
  for (Operation operation : kOperations) {
    for (Layout layout : kLayouts) {
      for (int64_t odd : {int64_t{0}, int64_t{110}, int64_t{12345}}) {
        ConvolutionShape shape = MakeShape(problem, operation, DataType::kFloat, layout);
        shape.x_strides[0] = shape.x_strides[2] = shape.y_strides[0] = shape.y_strides[2] = odd;
        const Operands operands = MakeOperands(shape, 4);
        for (int algorithm : {0, 1, 2}) {
          if (!WorkspaceBytes(shape, algorithm)) continue;
          EXPECT_EQ(
              RunAndCompare(shape, algorithm, {1, 0}, operands, NaiveConvolution(shape, operands)),
              "")
              << Describe(problem, shape, algorithm);
        }
      }
    }
  }
}

// The problems are so large that algorithm 0 cuts every axis of its matrix products into tiles. The
// last tiles of an axis are smaller.
class EngineTiles : public testing::TestWithParam<Problem> {};

TEST_P(EngineTiles, SumsAcrossThem) {
  const Problem& problem = GetParam();
  for (Operation operation : kOperations) {
    const auto plain = MakeShape(problem, operation);
    const Operands operands = MakeOperands(plain, 77);
    const std::vector<double> convolution = NaiveConvolution(plain, operands);
    for (auto [type, layout] : {std::pair{DataType::kFloat, Layout::kNchw},
                                {DataType::kFloat, Layout::kNhwc},
                                {DataType::kFloat, Layout::kPaddedNchw},
                                {DataType::kHalf, Layout::kNchw},
                                {DataType::kBfloat16, Layout::kPaddedNhwc},
                                {DataType::kDouble, Layout::kMixed}}) {
      const ConvolutionShape shape = MakeShape(problem, operation, type, layout);
      for (int algorithm : {0, 1, 2}) {
        if (!WorkspaceBytes(shape, algorithm)) continue;
        EXPECT_EQ(RunAndCompare(shape, algorithm, {1, 1}, operands, convolution), "")
            << Describe(problem, shape, algorithm);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , EngineTiles,
    testing::Values(
        Problem{"pixels", 2, 3, 20, 1, {1, 67, 71}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
        Problem{"planes", 2, 30, 20, 1, {1, 40, 60}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
        Problem{"channels", 2, 150, 70, 1, {1, 9, 9}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
        Problem{"filters", 3, 40, 600, 1, {1, 7, 7}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}},
        Problem{"images", 40, 30, 40, 1, {1, 3, 3}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
        Problem{"conv1", 2, 3, 64, 1, {1, 79, 79}, {1, 11, 11}, {0, 2, 2}, {1, 4, 4}, {1, 1, 1}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hostgpu::test
