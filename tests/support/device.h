// The stand-in's first device: its context on the test's thread, its memory.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

namespace ucudnn::test {

// Returns the first device's primary context, which it makes current on this thread, as cudnnCreate
// leaves it.
inline CUcontext MakeContextCurrent() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGet(&device, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  return context;
}

// Free memory of the current context's device.
inline size_t FreeBytes() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free;
}

// A test with the context current. The context is reset behind it, with everything that the test
// left in it.
class DeviceTest : public ::testing::Test {
 protected:
  ~DeviceTest() override {
    EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }

  const CUcontext context = MakeContextCurrent();
};

}  // namespace ucudnn::test
