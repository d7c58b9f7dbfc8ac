// Tests allocations: the limit, the protection from host accesses, the host alias, the attributes
// of pointers.
#include <cstdint>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {
namespace {

using Memory = HostCuda;
using MemoryDeathTest = HostCuda;

TEST_F(Memory, AllocatesUpToTheLimitAndNoFurther) {
  void* all = nullptr;
  void* more = nullptr;
  ASSERT_OK(cudaMalloc(&all, kDeviceBytes));
  size_t free_bytes = 1, total_bytes = 0;
  ASSERT_OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  EXPECT_EQ(free_bytes, 0u);
  EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(more, nullptr);
  ASSERT_OK(cudaFree(all));
  EXPECT_OK(cudaMalloc(&more, 1));
  EXPECT_OK(cudaFree(more));
}

TEST_F(Memory, FreedNeighboursMakeOneGapAgain) {
  void* parts[4];
  for (void*& part : parts) ASSERT_OK(cudaMalloc(&part, kDeviceBytes / 4));
  for (const int i : {1, 3, 2, 0}) ASSERT_OK(cudaFree(parts[i]));
  void* all = nullptr;
  EXPECT_OK(cudaMalloc(&all, kDeviceBytes));
  EXPECT_OK(cudaFree(all));
}

TEST_F(Memory, AddressesAreMultiplesOf512) {
  const DeviceMemory odd(3), next(3);
  EXPECT_EQ(CUdeviceptr{odd} % 512, 0u);
  EXPECT_EQ(CUdeviceptr{next} % 512, 0u);
}

TEST_F(MemoryDeathTest, HostAccessFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        void* pointer = nullptr;
        cudaMalloc(&pointer, 64);
        *static_cast<volatile char*>(pointer) = 1;
      },
      "");
  EXPECT_DEATH(
      {
        void* pointer = nullptr;
        cudaMalloc(&pointer, 64);
        [[maybe_unused]] const char read = *static_cast<volatile char*>(pointer);
      },
      "");
}

TEST_F(Memory, AliasReadsAndWritesWhatCopiesSee) {
  const DeviceMemory memory(1000);
  auto* alias = static_cast<char*>(hostgpuHostAlias(memory.data));
  ASSERT_NE(alias, nullptr);
  alias[7] = 42;
  char read = 0;
  ASSERT_OK(cudaMemcpy(&read, memory.As<char>() + 7, 1, cudaMemcpyDeviceToHost));
  EXPECT_EQ(read, 42);
  EXPECT_EQ(hostgpuHostAlias(memory.As<char>() + 7), alias + 7);
}

TEST_F(Memory, AliasEndsWithTheAllocation) {
  void* pointer = nullptr;
  ASSERT_OK(cudaMalloc(&pointer, 1000));
  char* bytes = static_cast<char*>(pointer);
  EXPECT_EQ(hostgpuBytesFrom(bytes + 1), 999u);
  EXPECT_NE(hostgpuHostAlias(bytes + 999), nullptr);
  EXPECT_EQ(hostgpuHostAlias(bytes + 1000), nullptr);
  EXPECT_EQ(hostgpuBytesFrom(bytes + 1000), 0u);
  ASSERT_OK(cudaFree(pointer));
  EXPECT_EQ(hostgpuHostAlias(bytes), nullptr);
  EXPECT_EQ(hostgpuBytesFrom(bytes), 0u);
  EXPECT_EQ(hostgpuHostAlias(nullptr), nullptr);
  int local = 0;
  EXPECT_EQ(hostgpuHostAlias(&local), nullptr);
}

TEST_F(Memory, FreeRefusesWhatIsNoAllocation) {
  void* pointer = nullptr;
  ASSERT_OK(cudaMalloc(&pointer, 1000));
  int local = 0;
  EXPECT_EQ(cudaFree(static_cast<char*>(pointer) + 512), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(&local), cudaErrorInvalidValue);
  EXPECT_OK(cudaFree(nullptr));
  EXPECT_OK(cudaFree(pointer));
  EXPECT_EQ(cudaFree(pointer), cudaErrorInvalidValue);
}

TEST_F(Memory, FreeWaitsForTheDevice) {
  void* pointer = nullptr;
  ASSERT_OK(cudaMalloc(&pointer, 64));
  const Stream stream;
  Journal journal;
  journal.Launch(stream, 1);
  ASSERT_OK(cudaFree(pointer));
  EXPECT_EQ(journal.Read(), std::vector<int>{1});
}

TEST_F(Memory, PointerAttributesTellTheKinds) {
  const DeviceMemory device(64);
  void* pinned = nullptr;
  int pageable = 0;
  ASSERT_OK(cudaMallocHost(&pinned, 64));
  cudaPointerAttributes attributes;
  ASSERT_OK(cudaPointerGetAttributes(&attributes, device.data));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.devicePointer, device.data);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  ASSERT_OK(cudaPointerGetAttributes(&attributes, pinned));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.hostPointer, pinned);
  ASSERT_OK(cudaPointerGetAttributes(&attributes, &pageable));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(attributes.devicePointer, nullptr);
  EXPECT_OK(cudaFreeHost(pinned));
}

TEST_F(Memory, HostMemoryIsRegisteredOnce) {
  std::vector<char> host(4096);
  ASSERT_OK(cudaHostRegister(host.data(), host.size(), cudaHostRegisterDefault));
  EXPECT_EQ(cudaHostRegister(host.data() + 10, 10, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(hostgpuHostAlias(host.data() + 1), host.data() + 1);
  ASSERT_OK(cudaHostUnregister(host.data()));
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(Memory, TheFaultIsTheOneAskedForAndOnlyThatOne) {
  void* pointer = nullptr;
  hostgpuInjectFault("alloc", 2);
  ASSERT_OK(cudaMalloc(&pointer, 64));
  EXPECT_OK(cudaFree(pointer));
  EXPECT_EQ(cudaMalloc(&pointer, 64), cudaErrorMemoryAllocation);
  ASSERT_OK(cudaMalloc(&pointer, 64));
  EXPECT_OK(cudaFree(pointer));
  EXPECT_EQ(hostgpuFaultCount("alloc"), 3);
  hostgpuInjectFault("alloc", 0);
  EXPECT_EQ(hostgpuFaultCount("alloc"), 0);
}

}  // namespace
}  // namespace hostgpu::testing
