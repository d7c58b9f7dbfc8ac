// Tests what engines promise in addition to the result: workspace, determinism, independence of the
// batch, alignment, use by several threads at once, and Winograd's larger tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "shim/host/engines/engine.h"
#include "shim/host/engines/parallel.h"
#include "tests/unit/host/engines/harness.h"

namespace hostgpu::test {
namespace {

Problem Square(int64_t n, int64_t c, int64_t k, int64_t size, int64_t filter) {
  return {"square",
          n,
          c,
          k,
          1,
          {1, size, size},
          {1, filter, filter},
          {0, filter / 2, filter / 2},
          {1, 1, 1},
          {1, 1, 1}};
}

TEST(EngineWorkspace, AlgorithmZeroNeedsNone) {
  for (Operation operation : kOperations) {
    for (DataType type : kTypes) {
      const auto shape =
          MakeShape(Square(8, 8, 8, 30, 3), operation, type, Layout::kPaddedNhwc, true);
      EXPECT_EQ(WorkspaceBytes(shape, 0), 0u);
    }
  }
}

TEST(EngineWorkspace, FastEngineGrowsWithTheBatchAndGemmDoesNot) {
  for (Operation operation : kOperations) {
    const auto small = MakeShape(Square(8, 64, 64, 28, 3), operation);
    const auto large = MakeShape(Square(32, 64, 64, 28, 3), operation);
    EXPECT_GT(*WorkspaceBytes(large, 1), 3 * *WorkspaceBytes(small, 1));
  }
  const auto small = MakeShape(Square(8, 64, 64, 28, 3), Operation::kForward);
  const auto large = MakeShape(Square(32, 64, 64, 28, 3), Operation::kForward);
  EXPECT_GT(*WorkspaceBytes(small, 2), 0u);
  EXPECT_EQ(*WorkspaceBytes(small, 2), *WorkspaceBytes(large, 2));
}

TEST(EngineWorkspace, StrideOfAnAxisOfOneElementCostsNothing) {
  auto shape = MakeShape(Square(8, 32, 32, 14, 3), Operation::kForward);
  const auto blocked = WorkspaceBytes(shape, 1), plain = WorkspaceBytes(shape, 2);
  shape.x_strides[2] = shape.y_strides[2] = 12345;
  EXPECT_EQ(WorkspaceBytes(shape, 1), blocked);
  EXPECT_EQ(WorkspaceBytes(shape, 2), plain);
}

TEST(EngineWorkspace, ThreeChannelsAreNotPaddedToSixteen) {
  // Each image may add at most the following to the workspace: the planes of y's 16 channels, two
  // copies of x's 3 planes, and one plane of slack.
  constexpr size_t kPlane = 128 * 128 * sizeof(float);
  for (Operation operation : kOperations) {
    for (Layout layout : kLayouts) {
      const auto bytes = [&](int64_t n) {
        return WorkspaceBytes(
            MakeShape(Square(n, 3, 16, 128, 3), operation, DataType::kFloat, layout), 1);
      };
      ASSERT_TRUE(bytes(32) && bytes(64));
      EXPECT_LT((*bytes(64) - *bytes(32)) / 32, (16 + 2 * 3 + 1) * kPlane);
    }
  }
}

TEST(EngineWorkspace, UnknownAlgorithmsAndFp64BeyondZeroAreNotServed) {
  for (Operation operation : kOperations) {
    const auto shape = MakeShape(Square(2, 16, 16, 8, 3), operation);
    EXPECT_FALSE(WorkspaceBytes(shape, 7));
    EXPECT_FALSE(WorkspaceBytes(shape, -1));
    const auto fp64 = MakeShape(Square(2, 16, 16, 8, 3), operation, DataType::kDouble);
    EXPECT_FALSE(WorkspaceBytes(fp64, 1));
  }
}

TEST(EngineDeterminism, IsReportedAsCudnnReportsIt) {
  const Problem problem = Square(2, 16, 16, 8, 3);
  for (Operation operation : kOperations) {
    const auto shape = MakeShape(problem, operation);
    EXPECT_EQ(IsDeterministic(shape, 0), operation == Operation::kForward);
    EXPECT_TRUE(IsDeterministic(shape, 1));
  }
}

// Makes operands whose values are thirds of integers. Their sums are rounded, so another order of
// summation gives other bits.
Operands Rounding(const ConvolutionShape& shape) {
  Operands operands = MakeOperands(shape, 5);
  for (auto* values : {&operands.x, &operands.w, &operands.y}) {
    for (size_t i = 0; i < values->size(); ++i) {
      (*values)[i] = static_cast<float>(((*values)[i] * 7 + static_cast<double>(i % 11)) / 3);
    }
  }
  return operands;
}

// Returns the most by which two orders of summing an element in fp32 may differ. Each order is off
// by at most (terms * epsilon / 2) times the sum of the terms' magnitudes.
double RoundingBound(const ConvolutionShape& shape, const Operands& operands) {
  const auto most = [](const std::vector<double>& values) {
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    return largest;
  };
  const auto channels =
      static_cast<double>(shape.operation == Operation::kForward ? shape.c : shape.k);
  const double terms = channels * static_cast<double>(shape.w[0] * shape.w[1] * shape.w[2]);
  const double exchanged =
      shape.operation == Operation::kForward ? most(operands.x) : most(operands.y);
  return terms * std::numeric_limits<float>::epsilon() * terms * exchanged * most(operands.w);
}

bool AreWithin(const std::vector<double>& a, const std::vector<double>& b, double bound) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](double one, double other) { return std::abs(one - other) <= bound; });
}

// An image must have the same bits in any batch. But without AVX-512, oneDNN uses another order of
// summation at the edges of its tiles. So on processors without AVX-512, results may differ by
// RoundingBound().
TEST(EngineBatch, EveryImageIsComputedAsInAnyOtherBatch) {
  const bool same_order = __builtin_cpu_supports("avx512f") != 0;
  for (const auto& [c, k, size, filter] :
       {std::array<int64_t, 4>{24, 40, 13, 3}, {3, 16, 30, 5}, {64, 48, 5, 3}}) {
    for (Operation operation : {Operation::kForward, Operation::kBackwardData}) {
      const auto whole = MakeShape(Square(13, c, k, size, filter), operation);
      const Operands operands = Rounding(whole);
      for (int algorithm : {0, 1, 2}) {
        if (!WorkspaceBytes(whole, algorithm)) continue;
        const std::vector<double> together = RunEngine(whole, algorithm, operands);
        for (int64_t n : {1, 4}) {
          const auto part = MakeShape(Square(n, c, k, size, filter), operation);
          Operands first = operands;
          first.x.resize(operands.x.size() / 13 * n);
          first.y.resize(operands.y.size() / 13 * n);
          std::vector<double> expected(together.begin(),
                                       together.begin() + together.size() / 13 * n);
          const std::vector<double> apart = RunEngine(part, algorithm, first);
          const double bound = same_order ? 0 : RoundingBound(whole, operands);
          EXPECT_TRUE(AreWithin(apart, expected, bound))
              << Describe(Square(n, c, k, size, filter), part, algorithm) << " n=" << n
              << " c=" << c;
        }
      }
    }
  }
}

// A batch of one image has too few tiles for two threads, so its tiles have fewer channels than the
// tiles of a larger batch. Every sum must still consist of the same parts. Without AVX-512, oneDNN
// adds these parts in the same order in both batches. With AVX-512 it does not, so results may
// differ by RoundingBound().
TEST(EngineBatch, TilesWithFewerChannelsHaveTheSamePartsOfSums) {
  const ScopedThreadCount threads(2);
  const auto whole = MakeShape(Square(4, 512, 64, 8, 3), Operation::kBackwardData);
  const auto part = MakeShape(Square(1, 512, 64, 8, 3), Operation::kBackwardData);
  const Operands operands = Rounding(whole);
  Operands first = operands;
  first.x.resize(operands.x.size() / 4);
  first.y.resize(operands.y.size() / 4);
  std::vector<double> expected = RunEngine(whole, 0, operands);
  expected.resize(first.x.size());
  const bool same_order = __builtin_cpu_supports("avx512f") == 0;
  EXPECT_TRUE(AreWithin(RunEngine(part, 0, first), expected,
                        same_order ? 0 : RoundingBound(whole, operands)));
}

TEST(EngineDeterminism, RepeatedRunsAgreeToTheBit) {
  for (Operation operation : kOperations) {
    const auto shape = MakeShape(Square(6, 24, 40, 13, 3), operation);
    const Operands operands = Rounding(shape);
    for (int algorithm = 0; algorithm < kAlgorithmCount; ++algorithm) {
      if (!WorkspaceBytes(shape, algorithm)) continue;
      const std::vector<double> once = RunEngine(shape, algorithm, operands);
      for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(RunEngine(shape, algorithm, operands) == once) << algorithm;
    }
  }
}

// Lavin and Gray's transforms for F(4x4, 3x3) multiply by up to 8 and divide by up to 24. The error
// may be 100 * 2^-24 of the sum of the products' magnitudes, which are at most 2 * 2 = 4 each.
TEST(EngineWinograd, ServesThreeByThreeWithinItsTolerance) {
  const Problem problem = Square(4, 32, 48, 14, 3);
  int served = 0;
  for (Operation operation : kOperations) {
    const int algorithm = WinogradOf(operation);
    for (Layout layout : kLayouts) {
      const auto shape =
          MakeShape(problem, operation, DataType::kFloat, layout, layout == Layout::kNhwc);
      if (!WorkspaceBytes(shape, algorithm)) continue;
      ++served;
      const Operands operands = MakeOperands(shape, 9);
      const int64_t length = operation == Operation::kForward        ? shape.c * 9
                             : operation == Operation::kBackwardData ? shape.k * 9
                                                                     : shape.n * 14 * 14;
      const double tolerance = 100 * std::ldexp(1.0, -24) * 4 * static_cast<double>(length);
      EXPECT_EQ(RunAndCompare(shape, algorithm, {2, 1}, operands, NaiveConvolution(shape, operands),
                              tolerance),
                "")
          << Describe(problem, shape, algorithm);
    }
  }
  // oneDNN has no Winograd for processors without AVX-512.
  if (__builtin_cpu_supports("avx512f")) {
    EXPECT_GT(served, 0);
  }
}

TEST(EngineWinograd, DoesNotServeOtherFilters) {
  for (Operation operation : kOperations) {
    const int algorithm = WinogradOf(operation);
    EXPECT_FALSE(WorkspaceBytes(MakeShape(Square(4, 32, 48, 14, 5), operation), algorithm));
  }
}

TEST(EngineAlignment, AlgorithmZeroTakesElementAlignedPointers) {
  for (Operation operation : kOperations) {
    const Problem problem = Square(3, 5, 6, 9, 3);
    const auto shape = MakeShape(problem, operation);
    const Operands operands = MakeOperands(shape, 3);
    std::vector<float> x(operands.x.size() + 1), w(operands.w.size() + 1), y(operands.y.size() + 1);
    std::copy(operands.x.begin(), operands.x.end(), x.begin() + 1);
    std::copy(operands.w.begin(), operands.w.end(), w.begin() + 1);
    std::copy(operands.y.begin(), operands.y.end(), y.begin() + 1);
    ASSERT_TRUE(hostgpu::Run(shape, 0, 1, x.data() + 1, w.data() + 1, y.data() + 1, 0, nullptr));
    const auto& out = operation == Operation::kForward        ? y
                      : operation == Operation::kBackwardData ? x
                                                              : w;
    EXPECT_EQ(std::vector<double>(out.begin() + 1, out.end()), NaiveConvolution(shape, operands));
  }
}

TEST(EngineThreads, CallsAtOnceDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  std::array<std::string, 6> faults;
  for (size_t t = 0; t < faults.size(); ++t) {
    threads.emplace_back([t, &faults] {
      const Operation operation = kOperations[t % 3];
      const Problem problem = Square(4, 16, 24, 9 + static_cast<int64_t>(t / 3), 3);
      const auto shape = MakeShape(problem, operation);
      const Operands operands = MakeOperands(shape, static_cast<uint32_t>(t));
      const std::vector<double> convolution = NaiveConvolution(shape, operands);
      for (int i = 0; i < 20; ++i) {
        for (int algorithm : {0, 1, 2}) {
          if (!WorkspaceBytes(shape, algorithm)) continue;
          faults[t] += RunAndCompare(shape, algorithm, {1, double(i % 2)}, operands, convolution);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& fault : faults) EXPECT_EQ(fault, "");
}

}  // namespace
}  // namespace hostgpu::test
