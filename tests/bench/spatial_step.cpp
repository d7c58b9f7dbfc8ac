// A cuDNN program for spatial_bench.py. It calls one 3x3 convolution again and again, with as many
// filters as channels and padding that keeps the size. With WORLD_SIZE processes, process RANK
// holds its stripe of each image on device LOCAL_RANK. The program uses three functions of ucudnn.
// ucudnnSpatialEnable lets calls with and without the exchange take turns in one run.
// ucudnnSpatialDefer and ucudnnSpatialAwait are for the operation backward. Each process prints one
// JSON object. The object has counts of COUNTED calls after warming up, and the milliseconds of
// SAMPLES samples with and SAMPLES samples without the exchange. A sample is CALLS calls.
//
//   spatial_step OPERATION IMAGES CHANNELS EXTENT DILATION COUNTED SAMPLES CALLS [no-device]
//
// OPERATION is forward, backward_data, backward_filter, or backward, which runs both gradients and
// defers the sum of the filter's gradient until both gradients are computed. EXTENT is the height
// and the width of an image. With no-device, libucudnn's calls to the driver and to NCCL do nothing
// after warming up (device_calls.h), so that samples are libucudnn's own time.
#include <cuda_runtime.h>
#include <ucudnn/ucudnn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/allocation_count.h"
#include "tests/bench/device_calls.h"
#include "tests/bench/statistics.h"
#include "tests/integration/programs/check_calls.h"
#include "tests/integration/programs/descriptors.h"
#include "tests/integration/programs/device_numbers.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFilter = 3;
constexpr float kOne = 1, kZero = 0;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Returns device memory with random numbers that depend on `seed`.
float* MakeNumbers(size_t count, uint32_t seed) {
  constexpr size_t kBlock = size_t{1} << 18;
  std::vector<float> block(std::min(count, kBlock));
  for (float& number : block) {
    seed = seed * 1664525u + 1013904223u;
    number = static_cast<float>(seed >> 8) / 8388608.0f - 1;
  }
  float* memory = nullptr;
  CHECK_CUDA(cudaMalloc(&memory, count * sizeof(float)));
  for (size_t begin = 0; begin < count; begin += block.size()) {
    CHECK_CUDA(cudaMemcpy(memory + begin, block.data(),
                          std::min(block.size(), count - begin) * sizeof(float),
                          cudaMemcpyHostToDevice));
  }
  return memory;
}

struct Shape {
  int images, channels, rows, width, dilation;
};

class Convolution {
 public:
  Convolution(cudnnHandle_t handle, const std::string& operation, const Shape& shape, uint32_t seed)
      : handle_(handle), operation_(operation) {
    image_ = MakeTensor(CUDNN_DATA_FLOAT, shape.images, shape.channels, shape.rows, shape.width);
    filter_ = MakeFilter(CUDNN_DATA_FLOAT, shape.channels, shape.channels, kFilter);
    convolution_ = MakeConvolution(CUDNN_DATA_FLOAT, shape.dilation, 1, shape.dilation);
    const size_t elements = size_t{1} * shape.images * shape.channels * shape.rows * shape.width;
    const size_t taps = static_cast<size_t>(shape.channels * shape.channels * kFilter * kFilter);
    x_ = MakeNumbers(elements, seed);
    y_ = MakeNumbers(elements, seed + 1);
    w_ = MakeNumbers(taps, 7);
    tensor_bytes_ = (2 * elements + taps) * sizeof(float);
    // The operation backward needs x for one gradient and w for the other, so it overwrites
    // neither. In the other operations the gradient overwrites x or w, to save memory.
    dx_ = x_;
    dw_ = w_;
    if (operation_ == "backward") {
      dx_ = MakeNumbers(elements, seed);
      dw_ = MakeNumbers(taps, seed);
      tensor_bytes_ += (elements + taps) * sizeof(float);
    }
    Choose();
    if (workspace_bytes_ > 0) CHECK_CUDA(cudaMalloc(&workspace_, workspace_bytes_));
  }

  size_t tensor_bytes() const { return tensor_bytes_; }
  size_t workspace_bytes() const { return workspace_bytes_; }

  void Run() const {
    if (operation_ == "forward") RunForward();
    if (operation_ == "backward_filter" || operation_ == "backward") RunBackwardFilter();
    if (operation_ == "backward_data" || operation_ == "backward") RunBackwardData();
    if (operation_ == "backward") CHECK_CUDNN(ucudnnSpatialAwait(handle_));
  }

 private:
  void RunForward() const {
    CHECK_CUDNN(cudnnConvolutionForward(handle_, &kOne, image_, x_, filter_, w_, convolution_,
                                        forward_.algo, workspace_, workspace_bytes_, &kZero, image_,
                                        y_));
  }
  void RunBackwardData() const {
    CHECK_CUDNN(cudnnConvolutionBackwardData(handle_, &kOne, filter_, w_, image_, y_, convolution_,
                                             data_.algo, workspace_, workspace_bytes_, &kZero,
                                             image_, dx_));
  }
  void RunBackwardFilter() const {
    CHECK_CUDNN(cudnnConvolutionBackwardFilter(handle_, &kOne, image_, x_, image_, y_, convolution_,
                                               gradient_.algo, workspace_, workspace_bytes_, &kZero,
                                               filter_, dw_));
  }

  // Chooses the algorithms that cuDNN's heuristics rank first.
  void Choose() {
    if (operation_ == "forward") {
      Take(forward_, cudnnGetConvolutionForwardAlgorithm_v7,
           cudnnGetConvolutionForwardWorkspaceSize, image_, filter_, convolution_, image_);
      return;
    }
    if (operation_ != "backward_filter") {
      Take(data_, cudnnGetConvolutionBackwardDataAlgorithm_v7,
           cudnnGetConvolutionBackwardDataWorkspaceSize, filter_, image_, convolution_, image_);
    }
    if (operation_ == "backward_data") return;
    Take(gradient_, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
         cudnnGetConvolutionBackwardFilterWorkspaceSize, image_, image_, convolution_, filter_);
  }
  template <typename Best, typename Get, typename Need, typename... Descriptors>
  void Take(Best& best, Get get, Need need, Descriptors... descriptors) {
    int count = 0;
    size_t bytes = 0;
    CHECK_CUDNN(get(handle_, descriptors..., 1, &count, &best));
    CHECK_CUDNN(need(handle_, descriptors..., best.algo, &bytes));
    workspace_bytes_ = std::max(workspace_bytes_, bytes);
  }

  cudnnHandle_t handle_;
  const std::string operation_;
  cudnnTensorDescriptor_t image_ = nullptr;  // describes both x and y
  cudnnFilterDescriptor_t filter_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  float *x_ = nullptr, *y_ = nullptr, *w_ = nullptr, *dx_ = nullptr, *dw_ = nullptr;
  void* workspace_ = nullptr;
  size_t tensor_bytes_ = 0, workspace_bytes_ = 0;
  cudnnConvolutionFwdAlgoPerf_t forward_ = {};
  cudnnConvolutionBwdDataAlgoPerf_t data_ = {};
  cudnnConvolutionBwdFilterAlgoPerf_t gradient_ = {};
};

void Synchronize() { CHECK_CUDA(cudaDeviceSynchronize()); }

// Waits for the device, and gives ucudnn's threads time to send the other ranks their messages
// about each call.
void Settle() {
  Synchronize();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

struct Window {
  ucudnn::bench::DeviceCalls counts;
  long all_allocations = 0;  // the number of allocations by all code of the process
};

Window CountCalls(const Convolution& convolution, int calls) {
  const long heap = ucudnn::bench::Allocations();
  const ucudnn::bench::DeviceCalls before = ucudnn::bench::Counted();
  for (int i = 0; i < calls; ++i) convolution.Run();
  Settle();
  return {ucudnn::bench::Counted() - before, ucudnn::bench::Allocations() - heap};
}

// The times of the samples. issue_ms ends when the calls have returned, ms when the device has
// finished them, and cpu_ms is the processor time of all threads of the process.
struct Times {
  std::vector<double> issue_ms, ms;
  std::vector<double> cpu_ms;
};

void Sample(const Convolution& convolution, int calls, Times& times) {
  const double used_ms = ucudnn::bench::ProcessorMs();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < calls; ++i) convolution.Run();
  times.issue_ms.push_back(MillisecondsSince(begin));
  Synchronize();
  times.ms.push_back(MillisecondsSince(begin));
  times.cpu_ms.push_back(ucudnn::bench::ProcessorMs() - used_ms);
}

void Print(const char* name, const std::vector<double>& values) {
  std::printf(", \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.6f", i > 0 ? ", " : "", values[i]);
  std::printf("]");
}

void Print(const ucudnn::bench::DeviceCalls& counts) {
  std::printf(
      ", \"sends\": %ld, \"sent_bytes\": %ld, \"receives\": %ld, \"received_bytes\": %ld, "
      "\"reductions\": %ld, \"reduced_bytes\": %ld, \"copies\": %ld, \"fills\": %ld, "
      "\"events\": %ld, \"waits\": %ld, \"host_functions\": %ld, \"allocations\": %ld, "
      "\"calling_allocations\": %ld",
      counts.sends, counts.sent_bytes, counts.receives, counts.received_bytes, counts.reductions,
      counts.reduced_bytes, counts.copies, counts.fills, counts.events, counts.waits,
      counts.host_functions, counts.allocations, counts.calling_allocations);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 9) {
    std::fprintf(stderr,
                 "usage: spatial_step OPERATION IMAGES CHANNELS EXTENT DILATION COUNTED SAMPLES "
                 "CALLS [no-device]\n");
    return 2;
  }
  const std::string operation = argv[1];
  const int extent = std::atoi(argv[4]), counted = std::atoi(argv[6]);
  const int samples = std::atoi(argv[7]), calls = std::atoi(argv[8]);
  const bool has_device = argc == 9;
  const int rank = Variable("RANK", 0), ranks = Variable("WORLD_SIZE", 1);
  // If the stripes cannot be equal, the first ones have a row more.
  const int rows = extent / ranks + (rank < extent % ranks ? 1 : 0);
  const Shape shape = {std::atoi(argv[2]), std::atoi(argv[3]), rows, extent, std::atoi(argv[5])};

  CHECK_CUDA(cudaSetDevice(Variable("LOCAL_RANK", 0)));
  cudnnHandle_t handle = nullptr;
  CHECK_CUDNN(cudnnCreate(&handle));
  const Convolution convolution(handle, operation, shape, 1000u * static_cast<uint32_t>(rank) + 1);
  if (operation == "backward") CHECK_CUDNN(ucudnnSpatialDefer(1));
  for (int i = 0; i < 3; ++i) convolution.Run();  // warms up and agrees with the other ranks

  Synchronize();
  if (!has_device) ucudnn::bench::LeaveOutDevice();
  Window window;
  if (counted > 0) {
    Settle();
    // Calls are counted twice, since a buffer of ucudnn's threads may still grow in one of the
    // runs. The run with fewer allocations counts.
    window = CountCalls(convolution, counted);
    const Window second = CountCalls(convolution, counted);
    if (second.counts.allocations < window.counts.allocations) window = second;
  }

  Times split, alone;
  if (samples > 0) {
    // A small convolution makes this rank wait for its neighbours, so no rank begins a sample
    // before the others are ready.
    const Convolution meeting(handle, "forward", {1, 1, 4, 4, 1},
                              1000u * static_cast<uint32_t>(rank) + 5);
    const auto meet = [&] {
      meeting.Run();
      Synchronize();
    };
    CHECK_CUDNN(ucudnnSpatialEnable(0));
    convolution.Run();
    Synchronize();
    CHECK_CUDNN(ucudnnSpatialEnable(1));
    for (int i = 0; i < samples; ++i) {
      meet();
      Sample(convolution, calls, split);
      meet();
      CHECK_CUDNN(ucudnnSpatialEnable(0));
      Sample(convolution, calls, alone);
      CHECK_CUDNN(ucudnnSpatialEnable(1));
    }
  }

  std::printf("{\"rank\": %d, \"rows\": %d, \"counted\": %d, \"calls\": %d", rank, rows, counted,
              calls);
  std::printf(", \"tensor_bytes\": %zu, \"workspace_bytes\": %zu, \"all_allocations\": %ld",
              convolution.tensor_bytes(), convolution.workspace_bytes(), window.all_allocations);
  Print(window.counts);
  Print("split_ms", split.ms);
  Print("split_issue_ms", split.issue_ms);
  Print("split_cpu_ms", split.cpu_ms);
  Print("alone_ms", alone.ms);
  Print("alone_issue_ms", alone.issue_ms);
  Print("alone_cpu_ms", alone.cpu_ms);
  std::printf("}\n");
  CHECK_CUDNN(cudnnDestroy(handle));
  return 0;
}
