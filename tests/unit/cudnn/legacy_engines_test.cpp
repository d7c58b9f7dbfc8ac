#include "cudnn/legacy_engines.h"

#include <gtest/gtest.h>

#include "convolution/engine_name.h"

namespace ucudnn::cudnn {
namespace {

TEST(LegacyNumericClass, FollowsTheAlgorithmOfEachOperation) {
  EXPECT_EQ(LegacyNumericClass(Operation::kForward, CUDNN_CONVOLUTION_FWD_ALGO_GEMM),
            NumericClass::kDirect);
  EXPECT_EQ(LegacyNumericClass(Operation::kForward, CUDNN_CONVOLUTION_FWD_ALGO_FFT),
            NumericClass::kFft);
  EXPECT_EQ(LegacyNumericClass(Operation::kForward, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD),
            NumericClass::kWinograd);
  EXPECT_EQ(
      LegacyNumericClass(Operation::kBackwardData, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING),
      NumericClass::kFft);
  EXPECT_EQ(LegacyNumericClass(Operation::kBackwardFilter,
                               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED),
            NumericClass::kWinograd);
}

// The names are written apart from cuDNN's header, which convolution/ does not include.
TEST(EngineName, IsThatOfCudnnsHeader) {
  const auto expect = [](Operation operation, int algorithm, const std::string& name) {
    EXPECT_EQ(EngineName(operation, EngineId::Legacy{algorithm, std::nullopt}),
              name + " (legacy:" + std::to_string(algorithm) + ")");
  };
#define EXPECT_NAME(operation, prefix, name) \
  expect(Operation::operation, CUDNN_CONVOLUTION_##prefix##name, #name)
  EXPECT_NAME(kForward, FWD_ALGO_, IMPLICIT_GEMM);
  EXPECT_NAME(kForward, FWD_ALGO_, IMPLICIT_PRECOMP_GEMM);
  EXPECT_NAME(kForward, FWD_ALGO_, GEMM);
  EXPECT_NAME(kForward, FWD_ALGO_, DIRECT);
  EXPECT_NAME(kForward, FWD_ALGO_, FFT);
  EXPECT_NAME(kForward, FWD_ALGO_, FFT_TILING);
  EXPECT_NAME(kForward, FWD_ALGO_, WINOGRAD);
  EXPECT_NAME(kForward, FWD_ALGO_, WINOGRAD_NONFUSED);
  EXPECT_NAME(kBackwardData, BWD_DATA_, ALGO_0);
  EXPECT_NAME(kBackwardData, BWD_DATA_, ALGO_1);
  EXPECT_NAME(kBackwardData, BWD_DATA_ALGO_, FFT);
  EXPECT_NAME(kBackwardData, BWD_DATA_ALGO_, FFT_TILING);
  EXPECT_NAME(kBackwardData, BWD_DATA_ALGO_, WINOGRAD);
  EXPECT_NAME(kBackwardData, BWD_DATA_ALGO_, WINOGRAD_NONFUSED);
  EXPECT_NAME(kBackwardFilter, BWD_FILTER_, ALGO_0);
  EXPECT_NAME(kBackwardFilter, BWD_FILTER_, ALGO_1);
  EXPECT_NAME(kBackwardFilter, BWD_FILTER_, ALGO_3);
  EXPECT_NAME(kBackwardFilter, BWD_FILTER_ALGO_, FFT);
  EXPECT_NAME(kBackwardFilter, BWD_FILTER_ALGO_, WINOGRAD);
  EXPECT_NAME(kBackwardFilter, BWD_FILTER_ALGO_, WINOGRAD_NONFUSED);
  EXPECT_NAME(kBackwardFilter, BWD_FILTER_ALGO_, FFT_TILING);
#undef EXPECT_NAME
  EXPECT_EQ(EngineName(Operation::kForward, EngineId::Legacy{CUDNN_CONVOLUTION_FWD_ALGO_COUNT, {}}),
            "legacy:8");
}

TEST(GroupByMath, KeepsEachMathTypeApartAndLeavesOtherEnginesOut) {
  ConvolutionProblem problem;
  problem.math = MathType::kTensorOp;
  const std::vector<MicroConfiguration> measured = {{"legacy:1", 4, 1, 0, true},
                                                    {"legacy:1[math=0]", 4, 2, 0, true},
                                                    {"graph:3", 4, 0.5, 0, true},
                                                    {"legacy:2", 4, 3, 0, true}};
  const auto groups = GroupByMath(problem, measured);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].math, MathType::kTensorOp);
  EXPECT_EQ(groups[0].candidates.size(), 2u);
  EXPECT_EQ(groups[1].math, MathType::kDefault);
  ASSERT_EQ(groups[1].candidates.size(), 1u);
  EXPECT_EQ(groups[1].candidates[0].micro.engine, "legacy:1");
  EXPECT_EQ(OwnMathCandidates(problem, measured).size(), 2u);
  problem.math = MathType::kFma;
  EXPECT_TRUE(OwnMathCandidates(problem, {measured[1]}).empty());
}

}  // namespace
}  // namespace ucudnn::cudnn
