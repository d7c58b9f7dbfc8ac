// Memory pools: what counts against the device, what a synchronisation gives back, who may use
// freed memory again.
#include <cstdint>
#include <optional>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

size_t FreeBytes() {
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_OK(cuMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

CUmemPoolProps OnDevice(int device) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {};
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

class Pools : public HostCuda {
 protected:
  void SetUp() override {
    HostCuda::SetUp();
    ASSERT_OK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    ASSERT_OK(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking));
    const CUmemPoolProps properties = OnDevice(0);
    ASSERT_OK(cuMemPoolCreate(&pool_, &properties));
  }
  void TearDown() override {
    if (pool_) {
      EXPECT_OK(cuMemPoolDestroy(pool_));
    }
    EXPECT_OK(cudaStreamDestroy(stream_));
    EXPECT_OK(cudaStreamDestroy(other_));
    HostCuda::TearDown();
    EXPECT_EQ(FreeBytes(), kDeviceBytes);
  }
  void KeepEverything() {
    cuuint64_t threshold = UINT64_MAX;
    EXPECT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  }
  void Switch(CUmemPool_attribute attribute, int value) {
    EXPECT_OK(cuMemPoolSetAttribute(pool_, attribute, &value));
  }
  cuuint64_t Bytes(CUmemPool_attribute attribute) {
    cuuint64_t bytes = 0;
    EXPECT_OK(cuMemPoolGetAttribute(pool_, attribute, &bytes));
    return bytes;
  }
  CUdeviceptr Allocate(size_t bytes, CUstream stream) {
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemAllocFromPoolAsync(&address, bytes, pool_, stream));
    return address;
  }

  cudaStream_t stream_ = nullptr, other_ = nullptr;
  CUmemoryPool pool_ = nullptr;
};

TEST_F(Pools, AreSupportedAndEachDeviceHasADefaultOne) {
  int supported = 0;
  EXPECT_OK(
      cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, CUdevice{0}));
  EXPECT_EQ(supported, 1);
  CUmemoryPool standard = nullptr, other = nullptr;
  EXPECT_OK(cuDeviceGetDefaultMemPool(&standard, 0));
  EXPECT_OK(cuDeviceGetDefaultMemPool(&other, 1));
  EXPECT_NE(standard, nullptr);
  EXPECT_NE(other, standard);
  EXPECT_EQ(cuDeviceGetDefaultMemPool(&other, kDevices), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemPoolDestroy(standard), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pools, WithoutAThresholdTheNextSynchronisationGivesBackWhatIsFree) {
  const CUdeviceptr address = Allocate(8 * kMiB, stream_);
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 8 * kMiB);
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 8 * kMiB);
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 8 * kMiB);
  EXPECT_OK(cuMemFreeAsync(address, stream_));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 8 * kMiB);
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  EXPECT_EQ(FreeBytes(), kDeviceBytes);
}

TEST_F(Pools, EverySynchronisationGivesBackButNoOtherCall) {
  cudaEvent_t event;
  ASSERT_OK(cudaEventCreate(&event));
  for (const int kind : {0, 1, 2}) {
    EXPECT_OK(cuMemFreeAsync(Allocate(kMiB, stream_), stream_));
    ASSERT_OK(cudaEventRecord(event, stream_));
    while (cudaEventQuery(event) == cudaErrorNotReady) {
    }
    EXPECT_EQ(FreeBytes(), kDeviceBytes - kMiB) << kind;
    EXPECT_OK(kind == 0   ? cuStreamSynchronize(other_)
              : kind == 1 ? cuEventSynchronize(event)
                          : cuCtxSynchronize());
    EXPECT_EQ(FreeBytes(), kDeviceBytes) << kind;
  }
  EXPECT_OK(cudaEventDestroy(event));
}

TEST_F(Pools, WhatIsBelowTheThresholdStays) {
  cuuint64_t threshold = 3 * kMiB;
  EXPECT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 3 * kMiB);
  EXPECT_OK(cuMemFreeAsync(Allocate(8 * kMiB, stream_), stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 3 * kMiB);
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 3 * kMiB);
  EXPECT_OK(cuMemPoolTrimTo(pool_, 5 * kMiB));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 3 * kMiB);
  EXPECT_OK(cuMemPoolTrimTo(pool_, kMiB));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), kMiB);
  EXPECT_OK(cuMemPoolTrimTo(pool_, 0));
  EXPECT_EQ(FreeBytes(), kDeviceBytes);
}

TEST_F(Pools, WhatIsInUseOrWaitsForItsFreeIsNotGivenBack) {
  Gate gate;
  const CUdeviceptr used = Allocate(2 * kMiB, stream_);
  const CUdeviceptr freed = Allocate(4 * kMiB, stream_);
  gate.Launch(stream_);
  EXPECT_OK(cuMemFreeAsync(freed, stream_));
  EXPECT_OK(cuStreamSynchronize(other_));
  EXPECT_OK(cuMemPoolTrimTo(pool_, 0));
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 6 * kMiB);
  gate.Open();
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 2 * kMiB);
  EXPECT_OK(cuMemFree(used));
  EXPECT_OK(cuMemPoolTrimTo(pool_, 0));
  EXPECT_EQ(FreeBytes(), kDeviceBytes);
}

TEST_F(Pools, FreedMemoryServesItsOwnStreamAtOnce) {
  KeepEverything();
  Gate gate;
  gate.Launch(stream_);
  const CUdeviceptr first = Allocate(4 * kMiB, stream_);
  EXPECT_OK(cuMemFreeAsync(first, stream_));
  const CUdeviceptr second = Allocate(kMiB, stream_);
  EXPECT_EQ(second, first);
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 4 * kMiB);
  EXPECT_OK(cuMemFreeAsync(second, stream_));
  // The rest and what came back are one range again.
  const CUdeviceptr third = Allocate(4 * kMiB, stream_);
  EXPECT_EQ(third, first);
  EXPECT_OK(cuMemFreeAsync(third, stream_));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 4 * kMiB);
}

TEST_F(Pools, AnotherStreamTakesFreshMemoryWhileTheFreeIsToCome) {
  KeepEverything();
  Gate gate;
  const CUdeviceptr first = Allocate(kMiB, stream_);
  gate.Launch(stream_);
  EXPECT_OK(cuMemFreeAsync(first, stream_));
  const CUdeviceptr second = Allocate(kMiB, other_);
  EXPECT_NE(second, first);
  gate.Open();
  EXPECT_OK(cuStreamSynchronize(stream_));
  const CUdeviceptr third = Allocate(kMiB, other_);
  EXPECT_EQ(third, first);
  Switch(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0);
  EXPECT_OK(cuMemFreeAsync(third, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  const CUdeviceptr fourth = Allocate(kMiB, other_);
  EXPECT_NE(fourth, first);
  EXPECT_OK(cuMemFreeAsync(second, other_));
  EXPECT_OK(cuMemFreeAsync(fourth, other_));
}

TEST_F(Pools, WhenTheDeviceIsFullAnotherStreamsFreeIsWaitedFor) {
  KeepEverything();
  const CUdeviceptr all = Allocate(kDeviceBytes, stream_);
  Gate gate;
  Journal journal;
  gate.Launch(stream_);
  journal.Launch(stream_, 1);
  EXPECT_OK(cuMemFreeAsync(all, stream_));
  const CUdeviceptr again = Allocate(kDeviceBytes, other_);  // returns while the gate is shut
  EXPECT_EQ(again, all);
  journal.Launch(other_, 2);
  gate.Open();
  EXPECT_OK(cuStreamSynchronize(other_));
  EXPECT_EQ(journal.Read(), (std::vector<int>{1, 2}));
  EXPECT_OK(cuMemFreeAsync(again, other_));
}

TEST_F(Pools, OrdinaryAllocationTakesBackWhatPoolsHold) {
  KeepEverything();
  EXPECT_OK(cuMemFreeAsync(Allocate(kDeviceBytes / 2, stream_), stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes / 2);
  CUdeviceptr all = 0;
  EXPECT_OK(cuMemAlloc(&all, kDeviceBytes));
  EXPECT_OK(cuMemFree(all));
}

TEST_F(Pools, TheDevicesLimitHolds) {
  CUdeviceptr most = 0;
  ASSERT_OK(cuMemAlloc(&most, kDeviceBytes - kMiB));
  CUdeviceptr address = 1;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&address, 2 * kMiB, pool_, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 0u);
  EXPECT_EQ(cuMemAllocAsync(&address, 2 * kMiB, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuMemFree(most));
}

TEST_F(Pools, APoolsOwnLimitHolds) {
  CUmemPoolProps properties = OnDevice(0);
  properties.maxSize = 4 * kMiB;
  CUmemoryPool small = nullptr;
  ASSERT_OK(cuMemPoolCreate(&small, &properties));
  CUdeviceptr address = 0, more = 0;
  EXPECT_OK(cuMemAllocFromPoolAsync(&address, 3 * kMiB, small, stream_));
  EXPECT_EQ(cuMemAllocFromPoolAsync(&more, 2 * kMiB, small, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuMemFreeAsync(address, stream_));
  EXPECT_OK(cuMemAllocFromPoolAsync(&more, 4 * kMiB, small, stream_));
  EXPECT_OK(cuMemFreeAsync(more, stream_));
  EXPECT_OK(cuMemPoolDestroy(small));
}

TEST_F(Pools, MemoryOutlivesItsDestroyedPool) {
  CUdeviceptr address = Allocate(kMiB, stream_);
  EXPECT_OK(cuMemPoolDestroy(pool_));
  EXPECT_EQ(cuMemPoolDestroy(pool_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPoolTrimTo(pool_, 0), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr more = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&more, kMiB, pool_, stream_), CUDA_ERROR_INVALID_VALUE);
  pool_ = nullptr;
  EXPECT_OK(cuMemsetD8Async(address, 1, kMiB, stream_));
  EXPECT_OK(cuMemFreeAsync(address, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes);
}

TEST_F(Pools, TheDefaultPoolServesWhoNamesNone) {
  ASSERT_OK(cuMemPoolDestroy(pool_));
  ASSERT_OK(cuDeviceGetDefaultMemPool(&pool_, 0));
  CUdeviceptr address = 0;
  EXPECT_OK(cuMemAllocAsync(&address, kMiB, stream_));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), kMiB);
  EXPECT_OK(cuMemFreeAsync(address, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  pool_ = nullptr;
}

TEST_F(Pools, AStreamOfAnotherDeviceMayAllocate) {
  ASSERT_OK(cudaSetDevice(1));
  cudaStream_t there;
  ASSERT_OK(cudaStreamCreate(&there));
  const CUdeviceptr address = Allocate(kMiB, there);
  int device = -1;
  EXPECT_OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
  EXPECT_EQ(device, 0);
  EXPECT_OK(cuMemFreeAsync(address, there));
  EXPECT_OK(cudaStreamSynchronize(there));
  EXPECT_OK(cudaStreamDestroy(there));
}

TEST_F(Pools, FreedMemoryIsNobodysAndIsFreedOnce) {
  KeepEverything();
  const CUdeviceptr address = Allocate(kMiB, stream_);
  EXPECT_NE(hostgpuHostAlias(reinterpret_cast<void*>(address)), nullptr);
  EXPECT_OK(cuMemFreeAsync(address, stream_));
  EXPECT_EQ(hostgpuHostAlias(reinterpret_cast<void*>(address)), nullptr);
  EXPECT_EQ(cuMemFreeAsync(address, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pools, OrdinaryMemoryMayBeFreedInStreamOrder) {
  CUdeviceptr address = 0;
  ASSERT_OK(cuMemAlloc(&address, kMiB));
  EXPECT_OK(cuMemFreeAsync(address, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes);
}

TEST_F(Pools, HighWatermarksAreOnlyReset) {
  EXPECT_OK(cuMemFreeAsync(Allocate(2 * kMiB, stream_), stream_));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 2 * kMiB);
  cuuint64_t value = 1;
  for (const auto high : {CU_MEMPOOL_ATTR_USED_MEM_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH}) {
    EXPECT_EQ(cuMemPoolSetAttribute(pool_, high, &value), CUDA_ERROR_INVALID_VALUE);
  }
  value = 0;
  EXPECT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
  EXPECT_EQ(Bytes(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0u);
  EXPECT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pools, OtherKindsOfPoolAreRefused) {
  CUmemoryPool pool = nullptr;
  CUmemPoolProps properties = OnDevice(kDevices);
  EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_ERROR_INVALID_VALUE);
  properties = OnDevice(0);
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_ERROR_NOT_SUPPORTED);
  properties = OnDevice(0);
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_ERROR_NOT_SUPPORTED);
  properties = OnDevice(0);
  properties.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
  EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pools, InjectedFaultsReachThem) {
  CUdeviceptr address = 0;
  hostgpuInjectFault("alloc", 1);
  EXPECT_EQ(cuMemAllocFromPoolAsync(&address, kMiB, pool_, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  hostgpuInjectFault("alloc", 1);
  EXPECT_EQ(cuMemAllocAsync(&address, kMiB, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(hostgpuFaultCount("alloc"), 1);
  CUmemoryPool pool = nullptr;
  const CUmemPoolProps properties = OnDevice(0);
  hostgpuInjectFault("pool", 1);
  EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(Pools, TheRuntimeSpeaksOfTheSamePools) {
  cudaMemPool_t standard = nullptr;
  CUmemoryPool driver = nullptr;
  ASSERT_OK(cudaDeviceGetDefaultMemPool(&standard, 0));
  ASSERT_OK(cuDeviceGetDefaultMemPool(&driver, 0));
  EXPECT_EQ(standard, driver);
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.maxSize = 2 * kMiB;
  cudaMemPool_t pool = nullptr;
  ASSERT_OK(cudaMemPoolCreate(&pool, &properties));
  uint64_t threshold = kMiB, read = 0;
  EXPECT_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  EXPECT_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &read));
  EXPECT_EQ(read, kMiB);
  void* pointer = nullptr;
  EXPECT_EQ(cudaMallocFromPoolAsync(&pointer, 3 * kMiB, pool, stream_), cudaErrorMemoryAllocation);
  EXPECT_OK(cudaMallocFromPoolAsync(&pointer, 2 * kMiB, pool, stream_));
  EXPECT_OK(cudaFreeAsync(pointer, stream_));
  EXPECT_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes - kMiB);
  EXPECT_OK(cudaMemPoolTrimTo(pool, 0));
  EXPECT_OK(cudaMemPoolDestroy(pool));
}

}  // namespace
}  // namespace hostgpu::testing
