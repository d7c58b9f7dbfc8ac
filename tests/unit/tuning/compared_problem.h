// What the tests that compare plans with the undivided engine share: a small problem of which
// 4 + 4 + 2 images are a plan, and the device they are compared on.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include "convolution/problem.h"

namespace ucudnn::test {

constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                     Operation::kBackwardFilter};

// 10 images with 8 channels of 9x12, 3x3 filters to 16 channels.
inline ConvolutionProblem ComparedProblem(Operation operation, DataType type = DataType::kFloat) {
  ConvolutionProblem problem;
  problem.operation = operation;
  problem.n = 10;
  problem.c = 8;
  problem.k = 16;
  problem.x = {1, 9, 12};
  problem.w = {1, 3, 3};
  problem.pad = {0, 1, 1};
  problem.type = type;
  problem.compute = type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  SetPackedStrides(problem);
  return problem;
}

// Of the current context's device.
inline size_t FreeBytes() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free;
}

// The first device's primary context, current on this thread from now on.
inline CUcontext MakeContextCurrent() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGet(&device, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  return context;
}

}  // namespace ucudnn::test
