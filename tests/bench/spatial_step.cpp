// A cuDNN program for spatial_bench.py: calls one 3x3 convolution, with as many filters as channels
// and "same" padding, again and again. With WORLD_SIZE processes, process RANK holds its stripe of
// each image on device LOCAL_RANK. The program knows two things of ucudnn: that its calls can be
// taken out, so that calls with and without exchange take turns in one run, and that sums can be
// deferred. Each process prints one JSON object: counts of `counted` steady calls, and milliseconds
// of each of `samples` samples of `calls` calls, both ways.
//
//   spatial_step OPERATION IMAGES CHANNELS EXTENT DILATION COUNTED SAMPLES CALLS [no-device]
//
// OPERATION: forward, backward_data, backward_filter, or backward: both of the latter, where the
// filter's sum over ranks is deferred until both are done. EXTENT: height and width of an image.
// no-device: from the counts on, what libucudnn asks of the driver and of NCCL is not done
// (device_calls.h), and samples are libucudnn's own time.
#include <cuda_runtime.h>
#include <time.h>
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
#include "tests/integration/programs/check_calls.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFilter = 3;
constexpr float kOne = 1, kZero = 0;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

int Variable(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : otherwise;
}

// Returns device memory with numbers that differ between ranks.
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
    const int image[4] = {shape.images, shape.channels, shape.rows, shape.width};
    const int plane = shape.rows * shape.width;
    const int strides[4] = {shape.channels * plane, plane, shape.width, 1};
    const int filter[4] = {shape.channels, shape.channels, kFilter, kFilter};
    const int spread[2] = {shape.dilation, shape.dilation}, ones[2] = {1, 1};
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&image_));
    CHECK_CUDNN(cudnnSetTensorNdDescriptor(image_, CUDNN_DATA_FLOAT, 4, image, strides));
    CHECK_CUDNN(cudnnCreateFilterDescriptor(&filter_));
    CHECK_CUDNN(
        cudnnSetFilterNdDescriptor(filter_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, filter));
    CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&convolution_));
    CHECK_CUDNN(cudnnSetConvolutionNdDescriptor(convolution_, 2, spread, ones, spread,
                                                CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    const size_t elements = static_cast<size_t>(shape.images) * static_cast<size_t>(strides[0]);
    const size_t taps = static_cast<size_t>(shape.channels * shape.channels * kFilter * kFilter);
    x_ = MakeNumbers(elements, seed);
    y_ = MakeNumbers(elements, seed + 1);
    w_ = MakeNumbers(taps, 7);
    tensor_bytes_ = (2 * elements + taps) * sizeof(float);
    // Gradients overwrite the tensors that they belong to, unless the next call reads these.
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
                                        forward_, workspace_, workspace_bytes_, &kZero, image_,
                                        y_));
  }
  void RunBackwardData() const {
    CHECK_CUDNN(cudnnConvolutionBackwardData(handle_, &kOne, filter_, w_, image_, y_, convolution_,
                                             data_, workspace_, workspace_bytes_, &kZero, image_,
                                             dx_));
  }
  void RunBackwardFilter() const {
    CHECK_CUDNN(cudnnConvolutionBackwardFilter(handle_, &kOne, image_, x_, image_, y_, convolution_,
                                               gradient_, workspace_, workspace_bytes_, &kZero,
                                               filter_, dw_));
  }

  // Chooses what cuDNN's heuristics rank first.
  void Choose() {
    int count = 0;
    size_t bytes = 0;
    if (operation_ == "forward") {
      cudnnConvolutionFwdAlgoPerf_t best;
      CHECK_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(handle_, image_, filter_, convolution_,
                                                         image_, 1, &count, &best));
      forward_ = best.algo;
      CHECK_CUDNN(cudnnGetConvolutionForwardWorkspaceSize(handle_, image_, filter_, convolution_,
                                                          image_, forward_, &bytes));
      workspace_bytes_ = bytes;
      return;
    }
    if (operation_ != "backward_filter") {
      cudnnConvolutionBwdDataAlgoPerf_t best;
      CHECK_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(
          handle_, filter_, image_, convolution_, image_, 1, &count, &best));
      data_ = best.algo;
      CHECK_CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize(
          handle_, filter_, image_, convolution_, image_, data_, &bytes));
      workspace_bytes_ = bytes;
    }
    if (operation_ == "backward_data") return;
    cudnnConvolutionBwdFilterAlgoPerf_t best;
    CHECK_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, image_, image_, convolution_,
                                                              filter_, 1, &count, &best));
    gradient_ = best.algo;
    CHECK_CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle_, image_, image_, convolution_, filter_, gradient_, &bytes));
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
  cudnnConvolutionFwdAlgo_t forward_ = {};
  cudnnConvolutionBwdDataAlgo_t data_ = {};
  cudnnConvolutionBwdFilterAlgo_t gradient_ = {};
};

void Synchronize() { CHECK_CUDA(cudaDeviceSynchronize()); }

// Waits also for what ucudnn's own threads do after calls: they tell each other of each call.
void Settle() {
  Synchronize();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

struct Window {
  ucudnn::bench::DeviceCalls counts;
  long all_allocations = 0;  // by all code of the process
};

Window CountCalls(const Convolution& convolution, int calls) {
  const long heap = ucudnn::bench::Allocations();
  const ucudnn::bench::DeviceCalls before = ucudnn::bench::Counted();
  for (int i = 0; i < calls; ++i) convolution.Run();
  Settle();
  return {ucudnn::bench::Counted() - before, ucudnn::bench::Allocations() - heap};
}

// Times of the samples.
struct Times {
  std::vector<double> issue_ms, ms;  // until the calls have returned, and until they are done
  std::vector<double> cpu_ms;        // of all threads of the process
};

double ProcessorMilliseconds() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) * 1e-6;
}

void Sample(const Convolution& convolution, int calls, Times& times) {
  const double used_ms = ProcessorMilliseconds();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < calls; ++i) convolution.Run();
  times.issue_ms.push_back(MillisecondsSince(begin));
  Synchronize();
  times.ms.push_back(MillisecondsSince(begin));
  times.cpu_ms.push_back(ProcessorMilliseconds() - used_ms);
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
  // The first stripes have a row more if not all can be equal.
  const int rows = extent / ranks + (rank < extent % ranks ? 1 : 0);
  const Shape shape = {std::atoi(argv[2]), std::atoi(argv[3]), rows, extent, std::atoi(argv[5])};

  CHECK_CUDA(cudaSetDevice(Variable("LOCAL_RANK", 0)));
  cudnnHandle_t handle = nullptr;
  CHECK_CUDNN(cudnnCreate(&handle));
  const Convolution convolution(handle, operation, shape, 1000u * static_cast<uint32_t>(rank) + 1);
  if (operation == "backward") CHECK_CUDNN(ucudnnSpatialDefer(1));
  for (int i = 0; i < 3; ++i) convolution.Run();  // agrees with the other ranks and warms up

  Synchronize();
  if (!has_device) ucudnn::bench::LeaveOutDevice();
  Window window;
  if (counted > 0) {
    Settle();
    // Counting runs twice, since buffers of ucudnn's threads may still grow in the first run.
    window = CountCalls(convolution, counted);
    const Window second = CountCalls(convolution, counted);
    if (second.counts.allocations < window.counts.allocations) window = second;
  }

  Times split, alone;
  if (samples > 0) {
    // No rank begins a sample before all are there: a small convolution waits for its neighbours.
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
