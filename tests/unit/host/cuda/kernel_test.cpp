// Tests launches of CUDA kernels on the stand-in. The kernels are registered as nvcc's programs
// register them. The stand-in computes the few kernels that it knows. A launch of any other kernel
// is an error that names the kernel.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/unit/host/shared.h"

// nvcc generates calls of these functions in programs with kernels; no public header declares them.
extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
}

namespace hostgpu {
namespace {

// Registers a kernel of this name for the rest of the process.
const void* KernelOf(const char* name) {
  __cudaRegisterFunction(nullptr, name, const_cast<char*>(name), name, -1, nullptr, nullptr,
                         nullptr, nullptr, nullptr);
  return name;
}

cudaError_t Launch(const void* function) {
  return cudaLaunchKernel(function, dim3(1), dim3(1), nullptr, 0, nullptr);
}

TEST(Kernels, AreAcceptedAndALaunchIsAnErrorThatNamesTheKernelOnce) {
  void** handle = __cudaRegisterFatBinary(nullptr);
  const void* const add = KernelOf("_Z3addPfS_");
  const void* const plain = KernelOf("plain_c_name");
  __cudaRegisterFatBinaryEnd(handle);
  ::testing::internal::CaptureStderr();
  for (int launch = 0; launch < 3; ++launch) {
    EXPECT_EQ(Launch(add), cudaErrorNotSupported);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
    EXPECT_EQ(Launch(plain), cudaErrorNotSupported);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hostgpu: the kernel add(float*, float*) cannot run: the CPU stand-in runs no device "
            "code; its launches return cudaErrorNotSupported\n"
            "hostgpu: the kernel plain_c_name cannot run: the CPU stand-in runs no device code; "
            "its launches return cudaErrorNotSupported\n");
  EXPECT_OK(cudaDeviceSynchronize()) << "the device is as it was";
  __cudaUnregisterFatBinary(handle);
}

// nvcc 13.0 gives these names to the kernels that thrust::fill and thrust::copy launch.
constexpr char kFillFloat[] =
    "_ZN3cub17CUB_300001_SM_7506detail8for_each13static_kernelINS2_12policy_hub_t12policy_500_tElN6"
    "thrust23THRUST_300001_SM_750_NS8cuda_cub6__fill7functorINS7_10device_ptrIfEEfEEEEvT0_T1_";
constexpr char kFillBytes[] =
    "_ZN3cub17CUB_300001_SM_7506detail8for_each13static_kernelINS2_12policy_hub_t12policy_500_tElN6"
    "thrust23THRUST_300001_SM_750_NS8cuda_cub6__fill7functorINS7_10device_ptrIhEEfEEEEvT0_T1_";
constexpr char kCopyFloatToShort[] =
    "_ZN3cub17CUB_300001_SM_7506detail9transform16transform_kernelINS2_10policy_"
    "hubILb1EN4cuda3std3_"
    "_45tupleIJN6thrust23THRUST_300001_SM_750_NS10device_ptrIfEEEEEE10policy1000EiNS7_10__"
    "identityEN"
    "SB_ItEEJPfEEEvT0_iT1_T2_DpNS2_10kernel_argIT3_EE";

template <class T>
struct FillFunctor {
  T* to;
  float value;
};

TEST(Kernels, ThrustsFillIsComputedInStreamOrder) {
  constexpr long kCount = 1000;
  const test::DeviceMemory float_memory(kCount * sizeof(float)), byte_memory(kCount);
  auto* const floats = float_memory.As<float>();
  auto* const bytes = byte_memory.As<unsigned char>();
  ASSERT_OK(cudaMemset(floats, 0, kCount * sizeof(float)));
  ASSERT_OK(cudaMemset(bytes, 7, kCount));
  const auto fill = [](const char* name, long count, auto functor) {
    void* arguments[] = {&count, &functor};
    return cudaLaunchKernel(KernelOf(name), dim3(1), dim3(1), arguments, 0, nullptr);
  };
  EXPECT_OK(fill(kFillFloat, kCount - 1, FillFunctor<float>{floats, 2.5f}));
  EXPECT_OK(fill(kFillBytes, kCount, FillFunctor<unsigned char>{bytes, 300.0f}));
  EXPECT_OK(fill(kFillBytes, 0, FillFunctor<unsigned char>{bytes, 1.0f}));
  std::vector<float> filled(kCount);
  std::vector<unsigned char> small(kCount);
  ASSERT_OK(cudaMemcpy(filled.data(), floats, kCount * sizeof(float), cudaMemcpyDeviceToHost));
  ASSERT_OK(cudaMemcpy(small.data(), bytes, kCount, cudaMemcpyDeviceToHost));
  EXPECT_EQ(std::count(filled.begin(), filled.end(), 2.5f), kCount - 1);
  EXPECT_EQ(filled.back(), 0.0f) << "behind the count nothing is written";
  EXPECT_EQ(std::count(small.begin(), small.end(), 255), kCount) << "the nearest it can hold";
  EXPECT_EQ(fill(kFillFloat, kCount + 200, FillFunctor<float>{floats, 1.0f}),
            cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
}

TEST(Kernels, ThrustsCopyConverts) {
  const std::vector<float> values = {0, 1.75f, 65535, 1e9f, -1, NAN};
  const size_t bytes = values.size() * sizeof(float);
  const test::DeviceMemory read(bytes), written(bytes);
  void* from = read.data;
  void* to = written.data;
  ASSERT_OK(cudaMemcpy(from, values.data(), bytes, cudaMemcpyHostToDevice));
  int count = static_cast<int>(values.size()), a_thread = 4;
  char identity = 0;
  void* arguments[] = {&count, &a_thread, &identity, &to, &from};
  const void* const kernel = KernelOf(kCopyFloatToShort);
  EXPECT_OK(cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, nullptr));
  std::vector<unsigned short> copied(values.size());
  ASSERT_OK(cudaMemcpy(copied.data(), to, copied.size() * sizeof(short), cudaMemcpyDeviceToHost));
  EXPECT_EQ(copied, (std::vector<unsigned short>{0, 1, 65535, 65535, 0, 0}));
  cudaFuncAttributes attributes;
  EXPECT_OK(cudaFuncGetAttributes(&attributes, kernel));
  EXPECT_EQ(attributes.ptxVersion, 80);
  int blocks = 0;
  EXPECT_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 512, 0));
  EXPECT_EQ(blocks, 4);
}

TEST(Kernels, WhatWasNeverRegisteredIsNoKernel) {
  static const char function = 0;
  EXPECT_EQ(Launch(&function), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
  cudaFuncAttributes attributes;
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, &function), cudaErrorInvalidDeviceFunction);
}

}  // namespace
}  // namespace hostgpu
