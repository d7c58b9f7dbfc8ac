// Tests that pointers which would fault on a GPU fault on the stand-in: a line on stderr, a failed
// call, and a lost device. Each case that faults runs in a separate process.
#include <gtest/gtest.h>

#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {
namespace {

void* Offset(void* data, size_t bytes) { return static_cast<char*>(data) + bytes; }

template <class Call>
[[noreturn]] void ExitByOutcome(Convolution& convolution, const Call& call) {
  const cudnnStatus_t status = call();
  test::ExitByOutcome(status, convolution.Run(0, nullptr, 0));
}

// Returns a fast algorithm that needs workspace; -1 if there is none. Sets `needed` to its bytes of
// workspace.
int HungryAlgorithm(Convolution& convolution, size_t* needed) {
  for (int algorithm = 1; algorithm < 8; ++algorithm) {
    if (convolution.WorkspaceSize(algorithm, needed) == CUDNN_STATUS_SUCCESS && *needed > 0) {
      return algorithm;
    }
  }
  return -1;
}

TEST_F(DeviceFault, FastAlgorithmNeedsSixteenByteAlignment) {
  for (int operand = 0; operand < 4; ++operand) {
    EXPECT_EXIT(
        {
          Convolution c{ConvolutionCase{}};
          size_t needed = 0;
          const int algorithm = HungryAlgorithm(c, &needed);
          DeviceMemory workspace(needed + 64);
          const auto shifted = [&](int which, void* data) {
            return which == operand ? Offset(data, sizeof(float)) : data;
          };
          ExitByOutcome(c, [&] {
            return c.RunAt(algorithm, shifted(3, workspace.data), needed, shifted(0, c.x.data),
                           shifted(1, c.w.data), shifted(2, c.y.data));
          });
        },
        testing::ExitedWithCode(0), "misaligned address");
  }
}

TEST_F(DeviceFault, AlgorithmZeroTakesAnyElement) {
  Convolution c(ConvolutionCase{}, 2);
  // All operands begin one element later. They still fit, because a DeviceTensor has kSlack
  // additional bytes.
  EXPECT_OK(c.RunAt(0, nullptr, 0, Offset(c.x.data, 4), Offset(c.w.data, 4), Offset(c.y.data, 4)));
  EXPECT_OK(cudaDeviceSynchronize());
}

TEST_F(DeviceFault, AlgorithmZeroNeedsElementAlignment) {
  EXPECT_EXIT(
      {
        Convolution c{ConvolutionCase{}};
        ExitByOutcome(
            c, [&] { return c.RunAt(0, nullptr, 0, Offset(c.x.data, 2), c.w.data, c.y.data); });
      },
      testing::ExitedWithCode(0), "misaligned address: the image");
}

TEST_F(DeviceFault, TensorReachingPastItsAllocation) {
  EXPECT_EXIT(
      {
        Convolution c{ConvolutionCase{}};
        ExitByOutcome(c, [&] {
          return c.RunAt(0, nullptr, 0, c.x.data, c.w.data,
                         Offset(c.y.data, c.y.bytes.size() - 64));
        });
      },
      testing::ExitedWithCode(0), "illegal address: the output");
}

TEST_F(DeviceFault, WorkspaceLargerThanItsAllocation) {
  EXPECT_EXIT(
      {
        Convolution c{ConvolutionCase{}};
        size_t needed = 0;
        const int algorithm = HungryAlgorithm(c, &needed);
        DeviceMemory workspace(needed);
        ExitByOutcome(c, [&] { return c.Run(algorithm, workspace.data, needed + 4096); });
      },
      testing::ExitedWithCode(0), "illegal address: the workspace");
}

TEST_F(DeviceFault, HostMemory) {
  EXPECT_EXIT(
      {
        Convolution c{ConvolutionCase{}};
        static float host[10000];
        ExitByOutcome(c, [&] { return c.RunAt(0, nullptr, 0, host, c.w.data, c.y.data); });
      },
      testing::ExitedWithCode(0), "illegal address: the image");
}

TEST_F(DeviceFault, FindExLeavesOutWhatTheAlignmentForbids) {
  Convolution c(ConvolutionCase{}, 2);
  DeviceMemory workspace(1 << 20);
  int count = 0;
  cudnnConvolutionFwdAlgoPerf_t results[8];
  ASSERT_OK(cudnnFindConvolutionForwardAlgorithmEx(
      c.handle, c.x_desc, Offset(c.x.data, 4), c.w_desc, c.w.data, c.conv_desc, c.y_desc, c.y.data,
      8, &count, results, workspace.data, 1 << 20));
  ASSERT_GE(count, 2);
  EXPECT_EQ(results[0].algo, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  EXPECT_OK(results[0].status);
  EXPECT_EQ(results[1].status, CUDNN_STATUS_NOT_SUPPORTED);
}

}  // namespace
}  // namespace hostgpu::test
