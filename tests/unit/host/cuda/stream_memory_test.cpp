// Tests stream memory operations: streams that wait for words and write them.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {
namespace {

class StreamMemory : public HostCuda {
 protected:
  void SetUp() override {
    HostCuda::SetUp();
    ASSERT_OK(cudaMallocHost(reinterpret_cast<void**>(&words_), 64));
    std::fill(words_, words_ + 16, 0u);
  }
  void TearDown() override {
    EXPECT_OK(cudaFreeHost(words_));
    HostCuda::TearDown();
  }

  CUdeviceptr Address(int word) { return reinterpret_cast<CUdeviceptr>(words_ + word); }
  // Stores from the program itself, not from a stream.
  void Store(int word, uint32_t value) { std::atomic_ref(words_[word]).store(value); }

  // Returns whether a stream's wait for `value` ends while the word has the value `found`.
  bool Passes(uint32_t found, uint32_t value, unsigned flags) {
    Store(0, found);
    EXPECT_OK(cuStreamWaitValue32(waiter_, Address(0), value, flags));
    for (int look = 0; look < 20 && cudaStreamQuery(waiter_) != cudaSuccess; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return cudaStreamQuery(waiter_) == cudaSuccess;
  }

  uint32_t* words_ = nullptr;
  Stream waiter_, writer_;
};

TEST_F(StreamMemory, WaitsUntilAnotherStreamWritesTheWord) {
  Journal journal;
  ASSERT_OK(cuStreamWaitValue32(waiter_, Address(0), 3, CU_STREAM_WAIT_VALUE_GEQ));
  journal.Launch(waiter_, 2);
  for (const uint32_t value : {1u, 2u}) {
    ASSERT_OK(cuStreamWriteValue32(writer_, Address(0), value, CU_STREAM_WRITE_VALUE_DEFAULT));
  }
  ASSERT_OK(cudaStreamSynchronize(writer_));
  EXPECT_EQ(cudaStreamQuery(waiter_), cudaErrorNotReady);
  journal.Launch(writer_, 1);
  ASSERT_OK(cuStreamWriteValue32(writer_, Address(0), 3, CU_STREAM_WRITE_VALUE_DEFAULT));
  ASSERT_OK(cudaStreamSynchronize(waiter_));
  EXPECT_EQ(journal.Read(), (std::vector<int>{1, 2}));
  EXPECT_EQ(words_[0], 3u);
}

TEST_F(StreamMemory, SeesWhatTheProgramStores) {
  ASSERT_OK(cuStreamWaitValue32(waiter_, Address(1), 7, CU_STREAM_WAIT_VALUE_EQ));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(cudaStreamQuery(waiter_), cudaErrorNotReady);
  Store(1, 7);
  EXPECT_OK(cudaStreamSynchronize(waiter_));
}

TEST_F(StreamMemory, ConditionsAreThoseOfTheHeader) {
  struct Case {
    uint32_t found, value;
    unsigned flags;
  };
  for (const Case& pass :
       {Case{5, 5, CU_STREAM_WAIT_VALUE_GEQ}, Case{6, 5, CU_STREAM_WAIT_VALUE_GEQ},
        Case{2, UINT32_MAX, CU_STREAM_WAIT_VALUE_GEQ},  // the comparison is cyclic
        Case{5, 5, CU_STREAM_WAIT_VALUE_EQ}, Case{6, 2, CU_STREAM_WAIT_VALUE_AND},
        Case{0xf0, 0x0e, CU_STREAM_WAIT_VALUE_NOR},
        Case{9, 8, CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_FLUSH}}) {
    EXPECT_TRUE(Passes(pass.found, pass.value, pass.flags)) << pass.found << " " << pass.flags;
  }
}

TEST_F(StreamMemory, WaitsWhereTheConditionDoesNotHold) {
  struct Case {
    uint32_t found, value;
    unsigned flags;
    uint32_t then;  // the value that ends the wait
  };
  for (const Case& wait :
       {Case{4, 5, CU_STREAM_WAIT_VALUE_GEQ, 5}, Case{UINT32_MAX, 2, CU_STREAM_WAIT_VALUE_GEQ, 2},
        Case{6, 5, CU_STREAM_WAIT_VALUE_EQ, 5}, Case{4, 3, CU_STREAM_WAIT_VALUE_AND, 2},
        Case{0xfffffff0, 0x0f, CU_STREAM_WAIT_VALUE_NOR, 0}}) {
    EXPECT_FALSE(Passes(wait.found, wait.value, wait.flags)) << wait.found << " " << wait.flags;
    Store(0, wait.then);
    ASSERT_OK(cudaStreamSynchronize(waiter_));
  }
}

TEST_F(StreamMemory, WorksOnDeviceMemory) {
  const DeviceMemory word(8);
  ASSERT_OK(cuMemsetD8(word, 0, 8));
  ASSERT_OK(cudaDeviceSynchronize());
  ASSERT_OK(cuStreamWaitValue32(waiter_, word + 4, 1, CU_STREAM_WAIT_VALUE_GEQ));
  ASSERT_OK(cuMemsetD8Async(word, 9, 4, waiter_));
  EXPECT_EQ(cudaStreamQuery(waiter_), cudaErrorNotReady);
  ASSERT_OK(cuStreamWriteValue32(writer_, word + 4, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
  ASSERT_OK(cudaStreamSynchronize(waiter_));
  uint32_t found[2] = {};
  ASSERT_OK(cuMemcpyDtoH(found, word, sizeof found));
  EXPECT_EQ(found[0], 0x09090909u);
  EXPECT_EQ(found[1], 1u);
}

// One page is mapped twice, as in two processes, and only one of the mappings is registered.
TEST_F(StreamMemory, IsSeenThroughAnotherMappingOfTheMemory) {
  const int file = memfd_create("words", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  void* const ours = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* const theirs = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  ASSERT_OK(cuMemHostRegister(ours, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr word = 0;
  ASSERT_OK(cuMemHostGetDevicePointer(&word, ours, 0));
  ASSERT_OK(cuStreamWaitValue32(waiter_, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  ASSERT_OK(cuStreamWriteValue32(waiter_, word + 4, 2, CU_STREAM_WRITE_VALUE_DEFAULT));
  std::atomic_ref(*static_cast<uint32_t*>(theirs)).store(1);
  ASSERT_OK(cudaStreamSynchronize(waiter_));
  EXPECT_EQ(static_cast<uint32_t*>(theirs)[1], 2u);
  EXPECT_OK(cuMemHostUnregister(ours));
  munmap(ours, 4096);
  munmap(theirs, 4096);
}

TEST_F(StreamMemory, AStreamThatWaitsBurnsNoCore) {
  const auto used_ms = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
  };
  ASSERT_OK(cuStreamWaitValue32(waiter_, Address(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
  const long before = used_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(used_ms() - before, 100);
  Store(0, 1);
  EXPECT_OK(cudaStreamSynchronize(waiter_));
}

TEST_F(StreamMemory, IsRecordedByACapture) {
  const auto wait_and_write = [&] {
    EXPECT_OK(cuStreamWaitValue32(waiter_, Address(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_OK(cuStreamWriteValue32(waiter_, Address(1), 5, CU_STREAM_WRITE_VALUE_DEFAULT));
  };
  const Executable exec = Captured(waiter_, wait_and_write, cudaStreamCaptureModeThreadLocal);
  ASSERT_OK(cudaGraphLaunch(exec, waiter_));
  EXPECT_EQ(cudaStreamQuery(waiter_), cudaErrorNotReady);
  Store(0, 1);
  ASSERT_OK(cudaStreamSynchronize(waiter_));
  EXPECT_EQ(words_[1], 5u);
}

TEST_F(StreamMemory, RefusesWhatADeviceCannotReach) {
  uint32_t pageable[2] = {};
  for (const CUdeviceptr address :
       {CUdeviceptr{0}, reinterpret_cast<CUdeviceptr>(pageable), Address(0) + 2, Address(16)}) {
    EXPECT_EQ(cuStreamWaitValue32(waiter_, address, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamWriteValue32(waiter_, address, 0, 0), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuStreamWaitValue32(waiter_, Address(0), 0, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue32(waiter_, Address(0), 0, 2), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamMemory, IsFoundByNameFromCuda11_7On) {
  for (const char* name : {"cuStreamWaitValue32", "cuStreamWriteValue32"}) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult found = {};
    ASSERT_OK(cuGetProcAddress(name, &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &found));
    EXPECT_NE(function, nullptr) << name;
    ASSERT_OK(cuGetProcAddress(name, &function, 11060, CU_GET_PROC_ADDRESS_DEFAULT, &found));
    EXPECT_EQ(function, nullptr) << name;
    EXPECT_EQ(found, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  }
  void* function = nullptr;
  ASSERT_OK(
      cuGetProcAddress("cuMemcpy3DAsync", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuMemcpy3DAsync));
}

}  // namespace
}  // namespace hostgpu::testing
