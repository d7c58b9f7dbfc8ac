// Prints how much device memory cudnnFind...Ex uses, and how much it leaves allocated. There is a
// line for each operation and mini-batch, with the free bytes before and after the call, and the
// fewest free bytes during the call. Under ucudnn the call measures, and must free all that it
// allocates. Only code that cuDNN loads may remain, which is far smaller than an output or a
// workspace.
//
//   find_memory [LARGEST_BATCH [BATCHES]]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <span>
#include <thread>

#include "convolution.h"

namespace {

using namespace ucudnn::gpu_tests;  // NOLINT: a short program

size_t FreeBytes() {
  size_t free_bytes = 0, total_bytes = 0;
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  Check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return free_bytes;
}

// Observes the device's free memory from its construction on, until Stop() returns the smallest
// value.
class FreeWatch {
 public:
  explicit FreeWatch(size_t free_bytes) : fewest_(free_bytes) {}
  ~FreeWatch() { Stop(); }
  size_t Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return fewest_;
  }

 private:
  void Watch() {
    while (!stop_) {
      size_t free_bytes = 0, total_bytes = 0;
      Check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
      fewest_ = std::min(fewest_, free_bytes);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  size_t fewest_;
  std::atomic<bool> stop_ = false;
  std::thread thread_{[this] { Watch(); }};
};

}  // namespace

int main(int argc, char** argv) {
  const int largest = argc > 1 ? std::atoi(argv[1]) : 128;
  const int batches[] = {largest / 4, largest / 2, largest};
  const size_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::size(batches);
  if (largest < 4 || count < 1 || count > std::size(batches)) {
    std::fprintf(stderr, "usage: find_memory [LARGEST_BATCH [BATCHES]], at least 4, 1 to 3\n");
    return 2;
  }
  cudnnHandle_t handle;
  Check(cudnnCreate(&handle), "cudnnCreate");
  constexpr size_t kWorkspace = size_t{256} << 20;
  void* workspace = nullptr;
  Check(cudaMalloc(&workspace, kWorkspace), "cudaMalloc");
  // The smaller batches run first, so that cuDNN has loaded its code before the largest one.
  for (const int n : std::span(batches).last(count)) {
    for (const Operation operation : kOperations) {
      const Shape shape{"", n, 64, 55, 64, 3, 1, 1, 1};
      Convolution convolution(handle, shape, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, operation);
      const size_t before = FreeBytes();
      FreeWatch watch(before);
      if (!convolution.Find(workspace, kWorkspace)) return 1;
      const size_t fewest = watch.Stop();
      std::printf("%d %s %zu %zu %zu\n", n, Name(operation), before, FreeBytes(), fewest);
      convolution.Run(workspace, 0);
    }
  }
  Check(cudaFree(workspace), "cudaFree");
  Check(cudnnDestroy(handle), "cudnnDestroy");
  return 0;
}
