// Tests that algorithms use exactly the workspace that they report.
#include <gtest/gtest.h>

#include <vector>

#include "shim/host/cudnn/workspace_guard.h"
#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {
namespace {

// Calls body(convolution, algorithm, needed) for every algorithm that needs workspace.
template <class Body>
void ForEachHungryAlgorithm(const Body& body) {
  std::mt19937 random(11);
  int found = 0;
  for (const Operation operation : kOperations) {
    ConvolutionCase c{.operation = operation};
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
    DeviceMemory workspace(needed);
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
    const TailedWorkspace workspace(needed);
    ASSERT_OK(convolution.Run(algorithm, workspace.data, workspace.bytes));
    convolution.ComputeExpected();
    EXPECT_TRUE(convolution.Result().Matches());
    workspace.ExpectOnlyTheNeedIsWritten();
  });
}

TEST(Workspace, WhatItHeldBeforeDoesNotMatter) {
  ForEachHungryAlgorithm([](Convolution& convolution, int algorithm, size_t needed) {
    DeviceMemory workspace(needed);
    convolution.ComputeExpected();
    for (int garbage : {0x00, 0xFF}) {
      ASSERT_OK(cudaMemset(workspace.data, garbage, needed));
      ASSERT_OK(convolution.Run(algorithm, workspace.data, needed));
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
