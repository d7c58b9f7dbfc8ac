// Tests memory pools: which memory counts as used on the device, what a synchronisation gives back,
// and which stream may use freed memory again.
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
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

class Pools : public HostCuda {
 protected:
  void SetUp() override {
    HostCuda::SetUp();
    const CUmemPoolProps properties = OnDevice(0);
    ASSERT_OK(cuMemPoolCreate(&pool_, &properties));
  }
  void TearDown() override {
    if (pool_) {
      EXPECT_OK(cuMemPoolDestroy(pool_));
    }
    HostCuda::TearDown();
    EXPECT_EQ(FreeBytes(), kDeviceBytes);
  }
  CUdeviceptr Allocate(size_t bytes, CUstream stream) {
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemAllocFromPoolAsync(&address, bytes, pool_, stream));
    return address;
  }

  Stream stream_, other_;
  CUmemoryPool pool_ = nullptr;
};

TEST_F(Pools, TheNextSynchronisationGivesBackWhatIsFree) {
  const CUdeviceptr address = Allocate(8 * kMiB, stream_);
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 8 * kMiB);
  EXPECT_OK(cuMemFreeAsync(address, stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 8 * kMiB);
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes);
}

TEST_F(Pools, EverySynchronisationGivesBackButNoOtherCall) {
  const Event event;
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
}

TEST_F(Pools, WhatIsInUseOrWaitsForItsFreeIsNotGivenBack) {
  Gate gate;
  const CUdeviceptr used = Allocate(2 * kMiB, stream_);
  const CUdeviceptr freed = Allocate(4 * kMiB, stream_);
  gate.Launch(stream_);
  EXPECT_OK(cuMemFreeAsync(freed, stream_));
  EXPECT_OK(cuStreamSynchronize(other_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 6 * kMiB);
  gate.Open();
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 2 * kMiB);
  EXPECT_OK(cuMemFree(used));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes);
}

TEST_F(Pools, FreedMemoryServesItsOwnStreamAtOnce) {
  Gate gate;
  gate.Launch(stream_);
  const CUdeviceptr first = Allocate(4 * kMiB, stream_);
  EXPECT_OK(cuMemFreeAsync(first, stream_));
  const CUdeviceptr second = Allocate(kMiB, stream_);
  EXPECT_EQ(second, first);
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 4 * kMiB);
  EXPECT_OK(cuMemFreeAsync(second, stream_));
  // The freed megabyte and the rest of the first range are one range again.
  const CUdeviceptr third = Allocate(4 * kMiB, stream_);
  EXPECT_EQ(third, first);
  EXPECT_EQ(FreeBytes(), kDeviceBytes - 4 * kMiB);
  EXPECT_OK(cuMemFreeAsync(third, stream_));
}

TEST_F(Pools, AnotherStreamTakesFreshMemoryWhileTheFreeIsToCome) {
  const Event freed;
  Gate gate;
  const CUdeviceptr first = Allocate(kMiB, stream_);
  gate.Launch(stream_);
  EXPECT_OK(cuMemFreeAsync(first, stream_));
  ASSERT_OK(cudaEventRecord(freed, stream_));
  const CUdeviceptr second = Allocate(kMiB, other_);
  EXPECT_NE(second, first);
  gate.Open();
  while (cudaEventQuery(freed) == cudaErrorNotReady) {  // a query gives no memory back
  }
  const CUdeviceptr third = Allocate(kMiB, other_);
  EXPECT_EQ(third, first);
  EXPECT_OK(cuMemFreeAsync(second, other_));
  EXPECT_OK(cuMemFreeAsync(third, other_));
}

TEST_F(Pools, WhenTheDeviceIsFullAnotherStreamsFreeIsWaitedFor) {
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
  EXPECT_OK(cuMemFreeAsync(Allocate(kDeviceBytes / 2, stream_), stream_));
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
  CUdeviceptr more = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&more, kMiB, pool_, stream_), CUDA_ERROR_INVALID_VALUE);
  pool_ = nullptr;
  EXPECT_OK(cuMemsetD8Async(address, 1, kMiB, stream_));
  EXPECT_OK(cuMemFreeAsync(address, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(FreeBytes(), kDeviceBytes);
}

TEST_F(Pools, AStreamOfAnotherDeviceMayAllocate) {
  ASSERT_OK(cudaSetDevice(1));
  const Stream there(cudaStreamDefault);
  const CUdeviceptr address = Allocate(kMiB, there);
  cudaPointerAttributes attributes;
  EXPECT_OK(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(address)));
  EXPECT_EQ(attributes.device, 0);
  EXPECT_OK(cuMemFreeAsync(address, there));
  EXPECT_OK(cudaStreamSynchronize(there));
}

TEST_F(Pools, FreedMemoryIsNobodysAndIsFreedOnce) {
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
  EXPECT_EQ(hostgpuFaultCount("alloc"), 1);
  CUmemoryPool pool = nullptr;
  const CUmemPoolProps properties = OnDevice(0);
  hostgpuInjectFault("pool", 1);
  EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace hostgpu::testing
