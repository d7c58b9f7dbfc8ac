// Runs ranks as threads of this process, each with its own device, and gives them device memory.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <type_traits>
#include <vector>

#include "tests/unit/host/nccl/api.h"
#include "tests/unit/host/shared.h"

namespace hostgpu::nccl::testing {

using test::Event;
using test::Executable;
using test::Stream;

constexpr int kDevices = 5;
constexpr std::chrono::milliseconds kMoment{50};  // long enough for another rank to act

#define EXPECT_NCCL(call) EXPECT_EQ(call, ncclSuccess) << ncclGetLastError(nullptr)
#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

// Owns memory on the calling thread's device.
template <class T>
class Array {
 public:
  explicit Array(const std::vector<T>& values) : count_(values.size()) {
    EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), bytes() + 1));
    EXPECT_CUDA(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  Array(size_t count, T value) : Array(std::vector<T>(count, value)) {}
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { EXPECT_CUDA(cudaFree(data_)); }

  T* data() const { return data_; }
  size_t size() const { return count_; }
  size_t bytes() const { return count_ * sizeof(T); }
  // Waits for all work that was enqueued on the stream so far, and returns the content.
  std::vector<T> Read(cudaStream_t stream) const {
    std::vector<T> values(count_);
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_CUDA(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  const size_t count_;
  T* data_ = nullptr;
};

template <class T>
constexpr ncclDataType_t kTypeOf = std::is_same_v<T, int> ? ncclInt : ncclFloat;

struct Rank {
  int rank = 0;
  int ranks = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  // These functions call NCCL for all elements of an array. Sum reduces the array in place.
  template <class T>
  ncclResult_t Sum(const Array<T>& array) const {
    return ncclAllReduce(array.data(), array.data(), array.size(), kTypeOf<T>, ncclSum, comm,
                         stream);
  }
  template <class T>
  ncclResult_t Send(const Array<T>& from, int peer) const {
    return ncclSend(from.data(), from.size(), kTypeOf<T>, peer, comm, stream);
  }
  template <class T>
  ncclResult_t Receive(const Array<T>& to, int peer) const {
    return ncclRecv(to.data(), to.size(), kTypeOf<T>, peer, comm, stream);
  }
  // Sends the array from rank 0 to rank 1.
  template <class T>
  ncclResult_t Pass(const Array<T>& array) const {
    return rank == 0 ? Send(array, 1) : Receive(array, 0);
  }

  void Synchronize() const { EXPECT_CUDA(cudaStreamSynchronize(stream)); }
  ncclResult_t AsyncError() const {
    ncclResult_t error = ncclInternalError;
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &error));
    return error;
  }
};

inline ncclUniqueId NewId() {
  ncclUniqueId id = {};
  EXPECT_NCCL(ncclGetUniqueId(&id));
  return id;
}

// Runs `body` for each rank on a separate thread. Destroys the communicator afterwards, unless
// `body` has set it to null.
void WithRanks(int ranks, const std::function<void(Rank&)>& body);

// Lets `count` threads wait for each other, for bodies that share host memory.
class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}
  void Wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const int count_;
  int waiting_ = 0;
  int round_ = 0;
};

}  // namespace hostgpu::nccl::testing
