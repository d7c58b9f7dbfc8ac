// Tests that the engines with a descriptor's own math type are measured, whatever this math type
// is. This must hold even if the library lists the engines only with another math type.
#include <algorithm>
#include <map>
#include <mutex>

#include "measured_kernels_setting.h"

namespace ucudnn::tuning {
namespace {

constexpr MathType kMathTypes[] = {MathType::kDefault, MathType::kTensorOp,
                                   MathType::kTensorOpAllowConversion, MathType::kFma};

std::mutex mutex;
std::map<cudnnMathType_t, long> runs;  // runs of convolutions, by the math type of their descriptor

cudnnMathType_t MathOf(cudnnConvolutionDescriptor_t convolution) {
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  EXPECT_EQ(::cudnnGetConvolutionMathType(convolution, &math), CUDNN_STATUS_SUCCESS);
  return math;
}

// Returns the stand-in's functions, which count each convolution in `runs`.
cudnn::Functions Noting() {
  return ObservedStandIn([](cudnnConvolutionDescriptor_t convolution) {
    std::lock_guard lock(mutex);
    ++runs[MathOf(convolution)];
    return CUDNN_STATUS_SUCCESS;
  });
}

// Returns Noting's functions, except that a query for a descriptor with the default math type lists
// every engine with CUDNN_FMA_MATH. So such a query lists no engine with the descriptor's own math
// type. Queries for other descriptors still list engines with the default math type.
cudnn::Functions SayingOtherwise() {
  cudnn::Functions functions = Noting();
  functions.cudnnGetConvolutionForwardAlgorithm_v7 =
      [](cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
         cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y, int requested,
         int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
        const cudnnStatus_t status = ::cudnnGetConvolutionForwardAlgorithm_v7(
            handle, x, w, convolution, y, requested, returned, results);
        if (status != CUDNN_STATUS_SUCCESS || MathOf(convolution) != CUDNN_DEFAULT_MATH) {
          return status;
        }
        for (int i = 0; i < *returned; ++i) results[i].mathType = CUDNN_FMA_MATH;
        return status;
      };
  return functions;
}

std::set<EngineId> OwnEngines(const Rows& rows, int size) {
  std::set<EngineId> engines = EnginesAt(rows, size);
  std::erase_if(engines, [](const EngineId& engine) { return engine.legacy()->math.has_value(); });
  return engines;
}

class MathTypesTest : public MeasuredKernelsTest {
 protected:
  MathTypesTest() { runs.clear(); }

  static ConvolutionProblem WithMath(MathType math) {
    ConvolutionProblem problem = Problem();
    problem.math = math;
    return problem;
  }
};

TEST_F(MathTypesTest, EveryDescriptorsOwnEnginesAreMeasuredWithItsMathTypeAlone) {
  const cudnn::Functions noting = Noting();
  device_.functions = &noting;
  std::set<EngineId> engines;
  long measured = 0;
  for (const MathType math : kMathTypes) {
    SCOPED_TRACE(static_cast<int>(math));
    runs.clear();
    MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
    const Rows rows = Must(Get(kernels, WithMath(math)));
    if (math == MathType::kDefault) {
      engines = EnginesAt(rows, 8);
      measured = kernels.measured();
      ASSERT_GE(engines.size(), 2u);
    }
    for (const int size : {1, 2, 4, 8}) EXPECT_EQ(OwnEngines(rows, size), engines);
    // The library says that all math types run alike, so each engine is measured once.
    EXPECT_EQ(kernels.measured(), measured);
    EXPECT_EQ(runs.size(), 1u);
    EXPECT_GT(runs[static_cast<cudnnMathType_t>(math)], 0);
  }
}

TEST_F(MathTypesTest, WhatTheLibraryListsOtherwiseIsThereToo) {
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  const Rows rows = Must(Get(kernels, WithMath(MathType::kTensorOp)));
  EXPECT_FALSE(OwnEngines(rows, 8).empty());
  for (const MicroConfiguration& row : rows) {
    if (row.engine.legacy()->math) continue;
    const EngineId listed = EngineId::Legacy{row.engine.legacy()->algorithm, MathType::kDefault};
    MicroConfiguration same = row;
    same.engine = listed;
    EXPECT_EQ(std::count(rows.begin(), rows.end(), same), 1) << listed;
  }
}

TEST_F(MathTypesTest, WhatTheLibrarySaysDifferentlyOfIsMeasuredTwice) {
  const cudnn::Functions otherwise = SayingOtherwise();
  device_.functions = &otherwise;
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  const Rows rows = Must(Get(kernels, WithMath(MathType::kTensorOp)));
  EXPECT_EQ(kernels.measured(), static_cast<long>(rows.size()));
  EXPECT_EQ(2 * OwnEngines(rows, 8).size(), EnginesAt(rows, 8).size());
  EXPECT_GT(runs[CUDNN_TENSOR_OP_MATH], 0);
  EXPECT_GT(runs[CUDNN_DEFAULT_MATH], 0);
}

TEST_F(MathTypesTest, AStoreWithoutADescriptorsOwnEnginesIsNotComplete) {
  const ConvolutionProblem problem = WithMath(MathType::kTensorOp);
  ASSERT_TRUE(store_
                  .Write(problem, device_.platform,
                         {{{"legacy:0[math=0]", 8, 5, 0, true}, 5, false}}, {1, 2, 4, 8})
                  .ok());
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  const MeasuredRows unread = kernels.Get(device_, Asking(problem, false));
  EXPECT_FALSE(unread.settled);
  const Rows rows = Must(Get(kernels, problem));
  EXPECT_GE(OwnEngines(rows, 8).size(), 2u);
  MeasuredKernels warm(&store_, std::nullopt, kNoFolder);
  EXPECT_TRUE(warm.Get(device_, Asking(problem, false)).settled);
}

}  // namespace
}  // namespace ucudnn::tuning
