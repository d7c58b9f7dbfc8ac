// Tests that pointers which would fault on a GPU fault here: a line on stderr, a failed call, and a
// lost device. Each case that faults runs in a process of its own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {
namespace {

void* Offset(void* data, size_t bytes) { return static_cast<char*>(data) + bytes; }

class DeviceFault : public testing::Test {
 protected:
  // Re-executes the test: a fork would lack the streams' threads.
  DeviceFault() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Exits 0 when the call failed as a device fault and so did a correct one after it.
template <class Call>
[[noreturn]] void ExitByOutcome(Convolution& convolution, const Call& call) {
  const cudnnStatus_t status = call();
  const cudnnStatus_t later = convolution.Run(0, nullptr, 0);
  std::fprintf(stderr, "status %d, then %d\n", status, later);
  std::_Exit(status == CUDNN_STATUS_EXECUTION_FAILED_CUDART &&
                     later == CUDNN_STATUS_EXECUTION_FAILED_CUDART
                 ? 0
                 : 1);
}

// A fast algorithm that needs workspace, and how much; -1 if there is none.
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
          DeviceBytes workspace(needed + 64);
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
  std::mt19937 random(2);
  Convolution c{ConvolutionCase{}};
  c.FillAll(random);
  // All operands lie one element further on: their slack makes room.
  EXPECT_EQ(c.RunAt(0, nullptr, 0, Offset(c.x.data, 4), Offset(c.w.data, 4), Offset(c.y.data, 4)),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
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
        DeviceBytes workspace(needed);
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
  std::mt19937 random(2);
  Convolution c{ConvolutionCase{}};
  c.FillAll(random);
  DeviceBytes workspace(1 << 20);
  int count = 0;
  cudnnConvolutionFwdAlgoPerf_t results[8];
  ASSERT_EQ(cudnnFindConvolutionForwardAlgorithmEx(
                c.handle, c.x_desc, Offset(c.x.data, 4), c.w_desc, c.w.data, c.conv_desc, c.y_desc,
                c.y.data, 8, &count, results, workspace.data, 1 << 20),
            CUDNN_STATUS_SUCCESS);
  ASSERT_GE(count, 2);
  EXPECT_EQ(results[0].algo, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  EXPECT_EQ(results[0].status, CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(results[1].status, CUDNN_STATUS_NOT_SUPPORTED);
}

}  // namespace
}  // namespace hostgpu::test
