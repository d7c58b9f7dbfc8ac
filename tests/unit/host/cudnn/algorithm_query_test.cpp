// Tests that each algorithm in the answers of the Get, Find and FindEx functions runs with the
// reported workspace and status.
#include <gtest/gtest.h>

#include <set>

#include "shim/host/hostgpu.h"
#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {
namespace {

// Holds one entry of any of the three result structs.
struct Result {
  int algorithm;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t math_type;
};

enum class Query { kGet, kFind, kFindEx };

// Makes the query with cuDNN's function for the operation of `c`.
cudnnStatus_t Ask(Convolution& c, Query query, int requested, void* workspace,
                  size_t workspace_bytes, std::vector<Result>* results) {
  const auto ask = [&](auto api, auto first, auto second, auto result) {
    int returned = 0;
    std::vector<typename decltype(api)::Performance> perf(16);
    const auto status =
        query == Query::kFindEx
            ? api.kFindEx(c.handle, first.desc, first.data, second.desc, second.data, c.conv_desc,
                          result.desc, result.data, requested, &returned, perf.data(), workspace,
                          workspace_bytes)
            : (query == Query::kGet ? api.kGet : api.kFind)(c.handle, first.desc, second.desc,
                                                            c.conv_desc, result.desc, requested,
                                                            &returned, perf.data());
    results->clear();
    if (status != CUDNN_STATUS_SUCCESS) return status;
    for (int i = 0; i < returned; ++i) {
      results->push_back({static_cast<int>(perf[i].algo), perf[i].status, perf[i].time,
                          perf[i].memory, perf[i].determinism, perf[i].mathType});
    }
    return status;
  };
  return c.Dispatch(c.x.data, c.w.data, c.y.data, ask);
}

constexpr size_t kPlenty = size_t{64} << 20;

class EachOperation : public testing::TestWithParam<Operation> {
 protected:
  ConvolutionCase Case() const {
    return {.operation = GetParam(), .x = {4, 16, 1, 12, 12}, .w = {16, 16, 1, 3, 3}};
  }
};
INSTANTIATE_TEST_SUITE_P(All, EachOperation, testing::ValuesIn(kOperations));

TEST_P(EachOperation, MemoryReportedIsTheWorkspaceSize) {
  Convolution c(Case());
  DeviceMemory workspace(kPlenty);
  for (Query query : {Query::kGet, Query::kFind, Query::kFindEx}) {
    std::vector<Result> results;
    ASSERT_OK(Ask(c, query, 16, workspace.data, kPlenty, &results));
    EXPECT_EQ(results.size(), static_cast<size_t>(AlgorithmCount(GetParam())));
    std::set<int> algorithms;
    int successes = 0;
    for (const Result& result : results) {
      algorithms.insert(result.algorithm);
      size_t bytes = 0;
      EXPECT_EQ(c.WorkspaceSize(result.algorithm, &bytes), result.status);
      if (result.status != CUDNN_STATUS_SUCCESS) continue;
      ++successes;
      EXPECT_EQ(result.memory, bytes);
      EXPECT_EQ(result.math_type, CUDNN_DEFAULT_MATH);
    }
    EXPECT_EQ(algorithms.size(), results.size()) << "an algorithm was reported twice";
    EXPECT_GE(successes, 2);
  }
}

TEST_P(EachOperation, FoundAlgorithmsAreSortedByTimeFailuresLast) {
  Convolution c(Case());
  DeviceMemory workspace(kPlenty);
  for (Query query : {Query::kFind, Query::kFindEx}) {
    std::vector<Result> results;
    ASSERT_OK(Ask(c, query, 16, workspace.data, kPlenty, &results));
    ASSERT_OK(results.front().status);
    EXPECT_GT(results.front().time, 0);
    for (size_t i = 1; i < results.size(); ++i) {
      if (results[i].status == CUDNN_STATUS_SUCCESS) {
        EXPECT_OK(results[i - 1].status);
        EXPECT_GE(results[i].time, results[i - 1].time);
      } else {
        EXPECT_EQ(results[i].time, -1);
      }
    }
  }
}

TEST_P(EachOperation, FindExStaysInsideTheWorkspaceItWasGiven) {
  Convolution c(Case());
  size_t largest = 0;
  std::vector<Result> all;
  ASSERT_OK(Ask(c, Query::kGet, 16, nullptr, 0, &all));
  for (const Result& result : all) {
    if (result.status == CUDNN_STATUS_SUCCESS) largest = std::max(largest, result.memory);
  }
  ASSERT_GT(largest, 0u);
  DeviceMemory workspace(largest);
  std::vector<Result> results;
  ASSERT_OK(Ask(c, Query::kFindEx, 16, workspace.data, largest - 1, &results));
  int too_large = 0;
  for (const Result& result : results) {
    if (result.memory == largest) {
      ++too_large;
      EXPECT_EQ(result.status, CUDNN_STATUS_ALLOC_FAILED);
    }
  }
  EXPECT_GE(too_large, 1);
  ASSERT_OK(Ask(c, Query::kFindEx, 16, nullptr, 0, &results));
  EXPECT_OK(results.front().status);
  EXPECT_EQ(results.front().memory, 0u);
}

TEST_P(EachOperation, FindExLeavesInputsAlone) {
  std::mt19937 random(8);
  Convolution c(Case());
  c.FillAll(random);
  DeviceMemory workspace(kPlenty);
  std::vector<Result> results;
  ASSERT_OK(Ask(c, Query::kFindEx, 16, workspace.data, kPlenty, &results));
  for (DeviceTensor* tensor : {&c.x, &c.w, &c.y}) {
    if (tensor != &c.Result()) {
      EXPECT_TRUE(tensor->Matches());
    }
  }
}

TEST_P(EachOperation, NoMoreResultsThanRequested) {
  Convolution c(Case());
  std::vector<Result> results;
  ASSERT_OK(Ask(c, Query::kGet, 1, nullptr, 0, &results));
  EXPECT_EQ(results.size(), 1u);
  EXPECT_EQ(Ask(c, Query::kGet, 0, nullptr, 0, &results), CUDNN_STATUS_BAD_PARAM);
}

TEST_P(EachOperation, FmaMathIsKept) {
  Convolution c(Case());
  ASSERT_OK(cudnnSetConvolutionMathType(c.conv_desc, CUDNN_FMA_MATH));
  std::vector<Result> results;
  ASSERT_OK(Ask(c, Query::kGet, 16, nullptr, 0, &results));
  for (const Result& result : results) EXPECT_EQ(result.math_type, CUDNN_FMA_MATH);
}

TEST_P(EachOperation, AnInjectedFaultFailsTheQueryOnce) {
  Convolution c(Case());
  hostgpuInjectFault("query", 1);
  std::vector<Result> results;
  EXPECT_EQ(Ask(c, Query::kGet, 16, nullptr, 0, &results), CUDNN_STATUS_ALLOC_FAILED);
  EXPECT_OK(Ask(c, Query::kGet, 16, nullptr, 0, &results));
  EXPECT_EQ(hostgpuFaultCount("query"), 2);
}

TEST_P(EachOperation, AnInjectedFaultFailsTheConvolutionOnce) {
  Convolution c(Case());
  hostgpuInjectFault("convolution", 2);
  EXPECT_OK(c.Run(0, nullptr, 0));
  EXPECT_EQ(c.Run(0, nullptr, 0), CUDNN_STATUS_EXECUTION_FAILED);
  EXPECT_OK(c.Run(0, nullptr, 0));
}

TEST(MaxCount, IsTheNumberOfAlgorithms) {
  Convolution c{ConvolutionCase{}};
  int forward = 0, data = 0, filter = 0;
  EXPECT_OK(cudnnGetConvolutionForwardAlgorithmMaxCount(c.handle, &forward));
  EXPECT_OK(cudnnGetConvolutionBackwardDataAlgorithmMaxCount(c.handle, &data));
  EXPECT_OK(cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(c.handle, &filter));
  EXPECT_EQ(forward, 8);
  EXPECT_EQ(data, 6);
  EXPECT_EQ(filter, 7);
}

TEST(Handle, CreationFailsWhereAFaultIsInjected) {
  hostgpuInjectFault("handle", 1);
  cudnnHandle_t handle = reinterpret_cast<cudnnHandle_t>(1);
  EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(handle, nullptr);
  EXPECT_OK(cudnnCreate(&handle));
  const Stream stream(cudaStreamDefault);
  cudaStream_t now = nullptr;
  EXPECT_OK(cudnnSetStream(handle, stream));
  EXPECT_OK(cudnnGetStream(handle, &now));
  EXPECT_EQ(now, stream);
  EXPECT_OK(cudnnDestroy(handle));
}

}  // namespace
}  // namespace hostgpu::test
