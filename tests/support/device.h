// Helpers for tests on the first device of the stand-in: its context, its free memory, and a
// fixture.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

namespace ucudnn::test {

// Makes the first device's primary context current on this thread, as cudnnCreate does, and returns
// it.
inline CUcontext MakeContextCurrent() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGet(&device, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  return context;
}

// Returns the free memory of the current context's device.
inline size_t FreeBytes() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free;
}

// A test on the first device. The destructor releases the device's primary context, and with it
// everything that the test left on the device.
class DeviceTest : public ::testing::Test {
 protected:
  ~DeviceTest() override {
    EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }

  const CUcontext context = MakeContextCurrent();
};

}  // namespace ucudnn::test
