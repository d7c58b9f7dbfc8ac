// This ordinary cuDNN program knows nothing of ucudnn and never asks which algorithm is the best.
// It names every algorithm of every operation, with every math type. It asks for the algorithm's
// workspace, and runs the algorithm in exactly that many bytes, followed by guard bytes. It prints
// a line for each algorithm and math type that the library supports:
//
//   OPERATION ALGORITHM MATH told BYTES sum CHECKSUM
//
// "overran" follows if guard bytes changed, and "differs" if the same call gave different results.
// The program is linked with the real libraries.
//
//   named_algorithms [BATCH]
#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../programs/check_calls.h"
#include "../programs/device_tensor.h"

namespace {

constexpr int kChannels = 4, kSize = 12, kFilters = 8, kWindow = 3, kRuns = 3;
// An upper bound for all operations. The library refuses numbers that an operation does not use.
constexpr int kAlgorithms = 8;
constexpr cudnnMathType_t kMathTypes[] = {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH,
                                          CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, CUDNN_FMA_MATH};
const float kOne = 1, kZero = 0;

// Owns `bytes` bytes of device memory, followed by guard bytes. get() returns null if `bytes` is 0.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : bytes_(bytes) {
    CHECK_CUDA(cudaMalloc(&memory_, bytes + kBehind));
    CHECK_CUDA(cudaMemset(Behind(), kPattern, kBehind));
  }
  ~Workspace() { cudaFree(memory_); }
  Workspace(const Workspace&) = delete;

  void* get() const { return bytes_ > 0 ? memory_ : nullptr; }
  bool Overrun() const {
    std::vector<unsigned char> behind(kBehind);
    CHECK_CUDA(cudaMemcpy(behind.data(), Behind(), kBehind, cudaMemcpyDeviceToHost));
    return std::any_of(behind.begin(), behind.end(),
                       [](unsigned char byte) { return byte != kPattern; });
  }

 private:
  static constexpr size_t kBehind = 1 << 16;
  static constexpr unsigned char kPattern = 0x5A;
  char* Behind() const { return static_cast<char*>(memory_) + bytes_; }

  const size_t bytes_;
  void* memory_ = nullptr;
};

class Layer {
 public:
  explicit Layer(int batch)
      : x_count_(size_t{1} * batch * kChannels * kSize * kSize),
        y_count_(size_t{1} * batch * kFilters * kSize * kSize),
        x_(x_count_, 1),
        w_(kFilterCount, 2),
        y_(y_count_, 3) {
    CHECK_CUDNN(cudnnCreate(&handle_));
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&x_shape_));
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&y_shape_));
    CHECK_CUDNN(cudnnCreateFilterDescriptor(&w_shape_));
    CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&convolution_));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(x_shape_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch,
                                           kChannels, kSize, kSize));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(y_shape_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch,
                                           kFilters, kSize, kSize));
    CHECK_CUDNN(cudnnSetFilter4dDescriptor(w_shape_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, kFilters,
                                           kChannels, kWindow, kWindow));
    CHECK_CUDNN(cudnnSetConvolution2dDescriptor(convolution_, 1, 1, 1, 1, 1, 1,
                                                CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  }
  ~Layer() {
    cudnnDestroyConvolutionDescriptor(convolution_);
    cudnnDestroyFilterDescriptor(w_shape_);
    cudnnDestroyTensorDescriptor(y_shape_);
    cudnnDestroyTensorDescriptor(x_shape_);
    cudnnDestroy(handle_);
  }
  Layer(const Layer&) = delete;

  void UseMath(cudnnMathType_t math) {
    CHECK_CUDNN(cudnnSetConvolutionMathType(convolution_, math));
  }

  void RunForward(int algorithm, cudnnMathType_t math) {
    const auto named = static_cast<cudnnConvolutionFwdAlgo_t>(algorithm);
    size_t bytes = 0;
    if (cudnnGetConvolutionForwardWorkspaceSize(handle_, x_shape_, w_shape_, convolution_, y_shape_,
                                                named, &bytes) != CUDNN_STATUS_SUCCESS) {
      return;
    }
    Run("forward", algorithm, math, bytes, y_count_, [&](void* workspace, float* output) {
      CHECK_CUDNN(cudnnConvolutionForward(handle_, &kOne, x_shape_, x_.get(), w_shape_, w_.get(),
                                          convolution_, named, workspace, bytes, &kZero, y_shape_,
                                          output));
    });
  }
  void RunBackwardData(int algorithm, cudnnMathType_t math) {
    const auto named = static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm);
    size_t bytes = 0;
    if (cudnnGetConvolutionBackwardDataWorkspaceSize(handle_, w_shape_, y_shape_, convolution_,
                                                     x_shape_, named,
                                                     &bytes) != CUDNN_STATUS_SUCCESS) {
      return;
    }
    Run("backward_data", algorithm, math, bytes, x_count_, [&](void* workspace, float* output) {
      CHECK_CUDNN(cudnnConvolutionBackwardData(handle_, &kOne, w_shape_, w_.get(), y_shape_,
                                               y_.get(), convolution_, named, workspace, bytes,
                                               &kZero, x_shape_, output));
    });
  }
  void RunBackwardFilter(int algorithm, cudnnMathType_t math) {
    const auto named = static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm);
    size_t bytes = 0;
    if (cudnnGetConvolutionBackwardFilterWorkspaceSize(handle_, x_shape_, y_shape_, convolution_,
                                                       w_shape_, named,
                                                       &bytes) != CUDNN_STATUS_SUCCESS) {
      return;
    }
    Run("backward_filter", algorithm, math, bytes, kFilterCount,
        [&](void* workspace, float* output) {
          CHECK_CUDNN(cudnnConvolutionBackwardFilter(handle_, &kOne, x_shape_, x_.get(), y_shape_,
                                                     y_.get(), convolution_, named, workspace,
                                                     bytes, &kZero, w_shape_, output));
        });
  }

 private:
  static constexpr size_t kFilterCount = size_t{1} * kFilters * kChannels * kWindow * kWindow;

  // Calls `convolve` several times, because ucudnn may run later calls differently from the first.
  template <typename Convolve>
  void Run(const char* operation, int algorithm, cudnnMathType_t math, size_t bytes, size_t count,
           Convolve convolve) {
    const Workspace workspace(bytes);
    uint64_t first = 0;
    bool differs = false;
    for (uint32_t run = 0; run < kRuns; ++run) {
      // The seed differs in each run, so an element that `convolve` does not write changes the sum.
      DeviceTensor output(count, 10 + run);
      convolve(workspace.get(), output.get());
      CHECK_CUDA(cudaDeviceSynchronize());
      const uint64_t sum = output.Checksum();
      if (run == 0) first = sum;
      differs |= sum != first;
    }
    std::printf("%s %d %d told %zu sum %016llx%s%s\n", operation, algorithm, static_cast<int>(math),
                bytes, static_cast<unsigned long long>(first),
                workspace.Overrun() ? " overran" : "", differs ? " differs" : "");
  }

  const size_t x_count_, y_count_;
  DeviceTensor x_, w_, y_;
  cudnnHandle_t handle_ = nullptr;
  cudnnTensorDescriptor_t x_shape_ = nullptr, y_shape_ = nullptr;
  cudnnFilterDescriptor_t w_shape_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  Layer layer(argc > 1 ? std::atoi(argv[1]) : 16);
  for (const cudnnMathType_t math : kMathTypes) {
    layer.UseMath(math);
    for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
      layer.RunForward(algorithm, math);
      layer.RunBackwardData(algorithm, math);
      layer.RunBackwardFilter(algorithm, math);
    }
  }
  return 0;
}
