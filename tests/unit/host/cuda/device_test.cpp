// Tests devices: their attributes, that they are independent of each other, and copies between
// them.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {
namespace {

// Sets the variables before the program's first CUDA call, which reads them.
[[maybe_unused]] const int kEnvironment =
    setenv("HOSTGPU_DEVICES", "2", 1) | setenv("HOSTGPU_MEMORY", "64MiB", 1);

using Device = HostCuda;

TEST_F(Device, CountAndMemoryFollowTheEnvironment) {
  int count = 0;
  ASSERT_OK(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, kDevices);
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  EXPECT_EQ(total_bytes, kDeviceBytes);
}

TEST_F(Device, PropertiesNameTheStandInAndAgreeWithAttributes) {
  cudaDeviceProp properties;
  std::memset(&properties, 0xff, sizeof properties);
  ASSERT_OK(cudaGetDeviceProperties(&properties, 1));
  EXPECT_STREQ(properties.name, "Host stand-in (CPU times)");
  EXPECT_EQ(properties.totalGlobalMem, kDeviceBytes);
  int value = 0;
  ASSERT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 1));
  EXPECT_EQ(properties.multiProcessorCount, value);
  ASSERT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 1));
  EXPECT_EQ(properties.major, value);
  EXPECT_EQ(properties.hostNumaMultinodeIpcSupported, 0);
}

TEST_F(Device, VersionsAreThirteenPointZero) {
  int driver = 0, runtime = 0;
  ASSERT_OK(cudaDriverGetVersion(&driver));
  ASSERT_OK(cudaRuntimeGetVersion(&runtime));
  EXPECT_EQ(driver, 13000);
  EXPECT_EQ(runtime, 13000);
}

TEST_F(Device, UnknownOrdinalsAreRefused) {
  EXPECT_EQ(cudaSetDevice(kDevices), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  int device = -1;
  ASSERT_OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, kDevices), cudaErrorInvalidDevice);
}

TEST_F(Device, UuidsDiffer) {
  CUuuid first, second;
  ASSERT_OK(cuDeviceGetUuid(&first, 0));
  ASSERT_OK(cuDeviceGetUuid(&second, 1));
  EXPECT_NE(std::memcmp(&first, &second, sizeof first), 0);
}

TEST_F(Device, CacheIsTheMachinesLargest) {
  long largest = 0;
  for (const int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE}) {
    largest = std::max(largest, sysconf(level));
  }
  int bytes = -1;
  ASSERT_OK(cuDeviceGetAttribute(&bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 0));
  EXPECT_EQ(bytes, largest);
}

TEST_F(Device, MemoryOfOneDoesNotCountAgainstTheOther) {
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_OK(cudaMalloc(&first, kDeviceBytes));
  EXPECT_EQ(cudaMalloc(&second, 512), cudaErrorMemoryAllocation);
  ASSERT_OK(cudaSetDevice(1));
  ASSERT_OK(cudaMalloc(&second, kDeviceBytes));
  cudaPointerAttributes attributes;
  ASSERT_OK(cudaPointerGetAttributes(&attributes, second));
  EXPECT_EQ(attributes.device, 1);
  ASSERT_OK(cudaPointerGetAttributes(&attributes, first));
  EXPECT_EQ(attributes.device, 0);
  EXPECT_OK(cudaFree(second));
  EXPECT_OK(cudaFree(first));
}

TEST_F(Device, SynchronisingOneDoesNotWaitForTheOther) {
  Gate gate;
  ASSERT_OK(cudaSetDevice(1));
  gate.Launch(nullptr);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  ASSERT_OK(cudaSetDevice(0));
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_OK(cudaStreamQuery(nullptr));
  gate.Open();
  ASSERT_OK(cudaSetDevice(1));
  EXPECT_OK(cudaDeviceSynchronize());
}

TEST_F(Device, EventsAreRecordedOnTheirOwnDeviceOnly) {
  const Event event;
  ASSERT_OK(cudaSetDevice(1));
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
}

TEST_F(Device, PeerAccessIsEnabledOnce) {
  int can = 0;
  ASSERT_OK(cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  CUcontext peer = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&peer, 1));
  EXPECT_OK(cuCtxEnablePeerAccess(peer, 0));
  EXPECT_EQ(cuCtxEnablePeerAccess(peer, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_OK(cuDevicePrimaryCtxRelease(1));
}

TEST_F(Device, PeerCopyCarriesTheBytes) {
  const DeviceMemory first(4096);
  ASSERT_OK(cudaMemset(first.data, 0x5a, 4096));
  ASSERT_OK(cudaDeviceSynchronize());
  ASSERT_OK(cudaSetDevice(1));
  const DeviceMemory second(4096);
  ASSERT_OK(cuMemcpyPeerAsync(second, nullptr, first, nullptr, 4096, nullptr));
  std::vector<unsigned char> host(4096);
  ASSERT_OK(cudaMemcpy(host.data(), second.data, 4096, cudaMemcpyDeviceToHost));
  EXPECT_EQ(host, std::vector<unsigned char>(4096, 0x5a));
}

}  // namespace
}  // namespace hostgpu::testing
