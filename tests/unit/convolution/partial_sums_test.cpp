#include "convolution/partial_sums.h"
#include "tests/support/problem.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

ConvolutionProblem FilterGradient(DataType type = DataType::kHalf) {
  return test::ProblemWith({.operation = Operation::kBackwardFilter,
                            .c = 6,
                            .k = 10,
                            .groups = 2,
                            .w = {1, 3, 5},
                            .type = type});
}

TEST(PartialSums, AreThoseOfSixteenBitFilterGradients) {
  EXPECT_TRUE(SumsPartials(FilterGradient(DataType::kHalf)));
  EXPECT_TRUE(SumsPartials(FilterGradient(DataType::kBfloat16)));
  EXPECT_FALSE(SumsPartials(FilterGradient(DataType::kFloat)));
  EXPECT_FALSE(SumsPartials(FilterGradient(DataType::kDouble)));
  ConvolutionProblem problem = FilterGradient();
  problem.operation = Operation::kForward;
  EXPECT_FALSE(SumsPartials(problem));
  problem.operation = Operation::kBackwardData;
  EXPECT_FALSE(SumsPartials(problem));
}

TEST(PartialSums, TheWholeIsNoPartial) {
  EXPECT_TRUE(IsPartial(FilterGradient(), 7));
  EXPECT_FALSE(IsPartial(FilterGradient(), 8));
  EXPECT_FALSE(IsPartial(FilterGradient(DataType::kFloat), 7));
}

TEST(PartialSums, TakeFourAndTwoBytesAnElementOnAligned) {
  // 10 filters of 3 channels and 3x5 taps have 450 elements: 1800 bytes in fp32, and 900 in 16
  // bits.
  EXPECT_EQ(AccumulatorBytes(FilterGradient()), 2048u);
  EXPECT_EQ(PartialSumBytes(FilterGradient()), 2048u + 1024u);
  ConvolutionProblem volume = FilterGradient(DataType::kBfloat16);
  volume.w[0] = 4;  // 1800 elements: 7200 bytes in fp32, 3600 in 16 bits
  EXPECT_EQ(AccumulatorBytes(volume), 7424u);
  EXPECT_EQ(PartialSumBytes(volume), 7424u + 3840u);
  ConvolutionProblem exact = FilterGradient();
  exact.w = {1, 8, 16};  // 3840 elements: 15360 and 7680 bytes, multiples of the alignment
  EXPECT_EQ(PartialSumBytes(exact), 3840u * 6);
}

TEST(PartialSums, PiecesCostTheirEngineAndTheSum) {
  const MicroConfiguration measured = {"legacy:1", 4, 2.5, 1000, true};
  const MicroConfiguration piece = AsPartial(FilterGradient(), measured, 0.25);
  EXPECT_EQ(piece, (MicroConfiguration{"legacy:1", 4, 2.75, 4072, true}));
  EXPECT_EQ(EngineBytes(FilterGradient(), piece), 1000u);
  EXPECT_EQ(EngineBytes(FilterGradient(), measured), 0u);  // 1000 bytes cannot hold the sum's 3072
  const MicroConfiguration whole = {"legacy:1", 8, 2.5, 1000, true};
  EXPECT_EQ(EngineBytes(FilterGradient(), whole), 1000u);
  EXPECT_EQ(EngineBytes(FilterGradient(DataType::kFloat), measured), 1000u);
}

}  // namespace
}  // namespace ucudnn
