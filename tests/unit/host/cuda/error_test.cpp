// Tests error codes, their texts, and the runtime's last error.
#include <thread>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {
namespace {

using Errors = HostCuda;

TEST_F(Errors, LastErrorStaysUntilItIsRead) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Errors, LastErrorBelongsToTheThread) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST_F(Errors, DriverCallsLeaveTheRuntimesLastErrorAlone) {
  EXPECT_EQ(cuMemFree(8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(Errors, NamesAndTextsAreThoseOfTheApi) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
  const char* text = nullptr;
  EXPECT_OK(cuGetErrorName(CUDA_ERROR_INVALID_CONTEXT, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_INVALID_CONTEXT");
  EXPECT_OK(cuGetErrorString(CUDA_ERROR_INVALID_CONTEXT, &text));
  EXPECT_STREQ(text, "invalid device context");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

TEST_F(Errors, NullOutputsAreRefused) {
  EXPECT_EQ(cudaMalloc(nullptr, 64), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetDeviceCount(nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace hostgpu::testing
