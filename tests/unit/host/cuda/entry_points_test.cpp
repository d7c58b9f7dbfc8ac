// Tests finding the driver's functions by their names, and the last error after a call of a
// function that is not implemented.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace {

TEST(EntryPoints, WhatTheRuntimeLacksIsTheThreadsLastError) {
  EXPECT_EQ(cudaGraphAddEmptyNode(nullptr, nullptr, nullptr, 0), cudaErrorNotSupported);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

TEST(EntryPoints, ChannelDescriptionIsWhatItWasMadeOf) {
  const cudaChannelFormatDesc made =
      cudaCreateChannelDesc(32, 16, 8, 4, cudaChannelFormatKindFloat);
  EXPECT_EQ(made.x, 32);
  EXPECT_EQ(made.y, 16);
  EXPECT_EQ(made.z, 8);
  EXPECT_EQ(made.w, 4);
  EXPECT_EQ(made.f, cudaChannelFormatKindFloat);
}

TEST(EntryPoints, UnversionedNamesMeanTheNewestTheCallerKnows) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  ASSERT_EQ(cuGetProcAddress("cuMemAlloc", &function, 13000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuMemAlloc));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  void* old = nullptr;
  ASSERT_EQ(cuGetProcAddress("cuEventElapsedTime", &old, 12000, 0, &status), CUDA_SUCCESS);
  ASSERT_EQ(cuGetProcAddress("cuEventElapsedTime", &function, 13000, 0, &status), CUDA_SUCCESS);
  EXPECT_NE(old, nullptr);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuEventElapsedTime));
  EXPECT_NE(old, function);
}

TEST(EntryPoints, UnimplementedAndPrivateNamesAreNotFound) {
  for (const char* name : {"cuGraphClone", "cuNoSuchFunction", "hostgpuHostAlias", "malloc"}) {
    void* function = this;
    CUdriverProcAddressQueryResult status;
    EXPECT_EQ(cuGetProcAddress(name, &function, 13000, 0, &status), CUDA_SUCCESS) << name;
    EXPECT_EQ(function, nullptr) << name;
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) << name;
  }
}

}  // namespace
