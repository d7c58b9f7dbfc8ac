// An ordinary cuDNN program that knows nothing of ucudnn: one handle runs two convolution layers,
// forward and backward, on one stream, and the same layers with other data on a second one. It asks
// only for the workspace of the algorithms that it names. It prints a checksum of every output, so
// that two runs can be compared, and is linked with the real libraries.
//
//   switching_streams [BATCH [STEPS]]
#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "check_calls.h"
#include "device_tensor.h"

namespace {

struct Shape {
  int c, size, k, filter;
};
constexpr Shape kShapes[] = {{4, 10, 16, 5}, {16, 10, 16, 3}};

class Layer {
 public:
  Layer(cudnnHandle_t handle, const Shape& s, int batch, uint32_t seed)
      : x_(static_cast<size_t>(batch) * s.c * s.size * s.size, seed),
        w_(static_cast<size_t>(s.k) * s.c * s.filter * s.filter, seed + 1),
        dy_(static_cast<size_t>(batch) * s.k * s.size * s.size, seed + 2),
        y_(static_cast<size_t>(batch) * s.k * s.size * s.size, seed),
        dx_(static_cast<size_t>(batch) * s.c * s.size * s.size, seed),
        dw_(static_cast<size_t>(s.k) * s.c * s.filter * s.filter, seed) {
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&x_shape_));
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&y_shape_));
    CHECK_CUDNN(cudnnCreateFilterDescriptor(&w_shape_));
    CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&convolution_));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(x_shape_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch,
                                           s.c, s.size, s.size));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(y_shape_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch,
                                           s.k, s.size, s.size));
    CHECK_CUDNN(cudnnSetFilter4dDescriptor(w_shape_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, s.k, s.c,
                                           s.filter, s.filter));
    CHECK_CUDNN(cudnnSetConvolution2dDescriptor(convolution_, s.filter / 2, s.filter / 2, 1, 1, 1,
                                                1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    size_t bytes[3] = {};
    CHECK_CUDNN(cudnnGetConvolutionForwardWorkspaceSize(handle, x_shape_, w_shape_, convolution_,
                                                        y_shape_, kForward, &bytes[0]));
    CHECK_CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize(
        handle, w_shape_, y_shape_, convolution_, x_shape_, kBackwardData, &bytes[1]));
    CHECK_CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle, x_shape_, y_shape_, convolution_, w_shape_, kBackwardFilter, &bytes[2]));
    workspace_bytes_ = *std::max_element(bytes, bytes + 3);
    if (workspace_bytes_ > 0) CHECK_CUDA(cudaMalloc(&workspace_, workspace_bytes_));
  }
  ~Layer() {
    cudaFree(workspace_);
    cudnnDestroyConvolutionDescriptor(convolution_);
    cudnnDestroyFilterDescriptor(w_shape_);
    cudnnDestroyTensorDescriptor(y_shape_);
    cudnnDestroyTensorDescriptor(x_shape_);
  }
  Layer(const Layer&) = delete;

  void Run(cudnnHandle_t handle) {
    const float one = 1, zero = 0;
    CHECK_CUDNN(cudnnConvolutionForward(handle, &one, x_shape_, x_.get(), w_shape_, w_.get(),
                                        convolution_, kForward, workspace_, workspace_bytes_, &zero,
                                        y_shape_, y_.get()));
    CHECK_CUDNN(cudnnConvolutionBackwardData(handle, &one, w_shape_, w_.get(), y_shape_, dy_.get(),
                                             convolution_, kBackwardData, workspace_,
                                             workspace_bytes_, &zero, x_shape_, dx_.get()));
    CHECK_CUDNN(cudnnConvolutionBackwardFilter(handle, &one, x_shape_, x_.get(), y_shape_,
                                               dy_.get(), convolution_, kBackwardFilter, workspace_,
                                               workspace_bytes_, &zero, w_shape_, dw_.get()));
  }
  void Print(int stream, int layer) {
    std::printf("stream %d layer %d %016llx %016llx %016llx\n", stream, layer,
                static_cast<unsigned long long>(y_.Checksum()),
                static_cast<unsigned long long>(dx_.Checksum()),
                static_cast<unsigned long long>(dw_.Checksum()));
  }

 private:
  static constexpr auto kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  static constexpr auto kBackwardData = CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
  static constexpr auto kBackwardFilter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0;
  cudnnTensorDescriptor_t x_shape_ = nullptr, y_shape_ = nullptr;
  cudnnFilterDescriptor_t w_shape_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  DeviceTensor x_, w_, dy_, y_, dx_, dw_;
  void* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const int batch = argc > 1 ? std::atoi(argv[1]) : 16, steps = argc > 2 ? std::atoi(argv[2]) : 6;
  constexpr int kStreams = 2;
  cudaStream_t streams[kStreams] = {};
  cudnnHandle_t handle = nullptr;
  CHECK_CUDNN(cudnnCreate(&handle));
  std::vector<std::unique_ptr<Layer>> layers[kStreams];
  for (int stream = 0; stream < kStreams; ++stream) {
    CHECK_CUDA(cudaStreamCreateWithFlags(&streams[stream], cudaStreamNonBlocking));
    for (const Shape& shape : kShapes) {
      const auto seed = static_cast<uint32_t>(10 * stream + shape.c);
      layers[stream].push_back(std::make_unique<Layer>(handle, shape, batch, seed));
    }
  }
  for (int step = 0; step < steps; ++step) {
    for (int stream = 0; stream < kStreams; ++stream) {
      CHECK_CUDNN(cudnnSetStream(handle, streams[stream]));
      for (const auto& layer : layers[stream]) layer->Run(handle);
    }
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int stream = 0; stream < kStreams; ++stream) {
    int number = 0;
    for (const auto& layer : layers[stream]) layer->Print(stream, ++number);
  }
  CHECK_CUDNN(cudnnDestroy(handle));
  for (cudaStream_t stream : streams) CHECK_CUDA(cudaStreamDestroy(stream));
  return 0;
}
