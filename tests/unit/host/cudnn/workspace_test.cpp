// Tests that workspace is really used, and exactly as much as was reported.
#include <gtest/gtest.h>

#include <vector>

#include "shim/host/cudnn/workspace_guard.h"
#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {
namespace {

constexpr size_t kTail = 4096;

// Calls body(convolution, algorithm, needed) for every algorithm that needs workspace.
template <class Body>
void ForEachHungryAlgorithm(const Body& body) {
  std::mt19937 random(11);
  int found = 0;
  for (Operation operation :
       {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
    ConvolutionCase c;
    c.operation = operation;
    for (int algorithm = 0; algorithm < AlgorithmCount(operation); ++algorithm) {
      Convolution convolution(c);
      convolution.FillAll(random);
      size_t needed = 0;
      if (convolution.WorkspaceSize(algorithm, &needed) != CUDNN_STATUS_SUCCESS || needed == 0)
        continue;
      SCOPED_TRACE(testing::Message() << "operation " << static_cast<int>(operation)
                                      << ", algorithm " << algorithm << ", " << needed << " bytes");
      ++found;
      body(convolution, algorithm, needed);
    }
  }
  EXPECT_GE(found, 3) << "each operation has a fast engine";
}

TEST(Workspace, OneByteTooFewOrNoneIsRefusedAndNothingRuns) {
  ForEachHungryAlgorithm([](Convolution& convolution, int algorithm, size_t needed) {
    DeviceBytes workspace(needed);
    EXPECT_EQ(convolution.Run(algorithm, workspace.data, needed - 1),
              CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    EXPECT_EQ(convolution.Run(algorithm, workspace.data, 0),
              CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    EXPECT_EQ(convolution.Run(algorithm, nullptr, needed),
              CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    cudaDeviceSynchronize();
    EXPECT_TRUE(convolution.Result().Matches());
  });
}

TEST(Workspace, NothingBehindTheNeedIsTouchedThoughMoreWasPassed) {
  ForEachHungryAlgorithm([](Convolution& convolution, int algorithm, size_t needed) {
    DeviceBytes workspace(needed + kTail);
    ASSERT_EQ(cudaMemset(workspace.data, 0x3C, needed + kTail), cudaSuccess);
    ASSERT_EQ(convolution.Run(algorithm, workspace.data, needed + kTail), CUDNN_STATUS_SUCCESS);
    convolution.ComputeExpected();
    std::vector<unsigned char> after(needed + kTail);
    ASSERT_EQ(cudaMemcpy(after.data(), workspace.data, after.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_TRUE(convolution.Result().Matches());
    EXPECT_EQ(std::vector<unsigned char>(after.begin() + needed, after.end()),
              std::vector<unsigned char>(kTail, 0x3C));
    EXPECT_NE(std::vector<unsigned char>(after.begin(), after.begin() + needed),
              std::vector<unsigned char>(needed, 0x3C))
        << "the workspace was never used";
  });
}

TEST(Workspace, WhatItHeldBeforeDoesNotMatter) {
  ForEachHungryAlgorithm([](Convolution& convolution, int algorithm, size_t needed) {
    DeviceBytes workspace(needed);
    convolution.ComputeExpected();
    for (int garbage : {0x00, 0xFF}) {
      ASSERT_EQ(cudaMemset(workspace.data, garbage, needed), cudaSuccess);
      ASSERT_EQ(convolution.Run(algorithm, workspace.data, needed), CUDNN_STATUS_SUCCESS);
      cudaDeviceSynchronize();
      EXPECT_TRUE(convolution.Result().Matches());
    }
  });
}

TEST(WorkspaceGuard, OverwritesTheNeedAndNothingElse) {
  std::vector<unsigned char> workspace(1000, 1);
  WorkspaceGuard guard(workspace.data(), 600, 900);
  EXPECT_EQ(workspace[0], WorkspaceGuard::kPattern);
  EXPECT_EQ(workspace[599], WorkspaceGuard::kPattern);
  EXPECT_EQ(workspace[600], 1);
  EXPECT_TRUE(guard.RestoreBehind());
}

TEST(WorkspaceGuard, OneByteBehindIsDetectedAndPutBack) {
  std::vector<unsigned char> workspace(1000, 1);
  WorkspaceGuard guard(workspace.data(), 600, 900);
  workspace[600] = 2;
  EXPECT_FALSE(guard.RestoreBehind());
  EXPECT_EQ(workspace[600], 1);
}

TEST(WorkspaceGuard, NoWorkspaceNeedsNoGuard) {
  WorkspaceGuard guard(nullptr, 0, 0);
  EXPECT_TRUE(guard.RestoreBehind());
}

}  // namespace
}  // namespace hostgpu::test
