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

// convolution/ does not include cuDNN's header, so convolution/engine_name spells the names of the
// algorithms itself.
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

}  // namespace
}  // namespace ucudnn::cudnn
