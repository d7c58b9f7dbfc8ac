// An ordinary cuDNN program that knows nothing of ucudnn. One handle runs two convolution layers,
// forward and backward, on one stream, and then the same layers with other data on a second stream.
// The program chooses algorithms itself and only asks for their workspace. It prints a checksum of
// every output, so that two runs can be compared. It is linked with the real libraries.
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
#include "float_layer.h"

namespace {

constexpr LayerShape kShapes[] = {{4, 10, 16, 5, 2, 1}, {16, 10, 16, 3, 1, 1}};

class Layer : public FloatLayer {
 public:
  Layer(cudnnHandle_t handle, const LayerShape& shape, int batch, uint32_t seed)
      : FloatLayer(handle, shape, batch, seed) {
    size_t bytes[3] = {};
    CHECK_CUDNN(cudnnGetConvolutionForwardWorkspaceSize(handle, x_desc_, w_desc_, convolution_,
                                                        y_desc_, kForward, &bytes[0]));
    CHECK_CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w_desc_, y_desc_, convolution_,
                                                             x_desc_, kBackwardData, &bytes[1]));
    CHECK_CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle, x_desc_, y_desc_, convolution_, w_desc_, kBackwardFilter, &bytes[2]));
    workspace_bytes_ = *std::max_element(bytes, bytes + 3);
    if (workspace_bytes_ > 0) CHECK_CUDA(cudaMalloc(&workspace_, workspace_bytes_));
  }
  ~Layer() { cudaFree(workspace_); }

  void Run() {
    Forward(kForward, workspace_, workspace_bytes_);
    BackwardData(kBackwardData, workspace_, workspace_bytes_);
    BackwardFilter(kBackwardFilter, workspace_, workspace_bytes_);
  }
  void Print(int stream, int layer) {
    std::printf("stream %d layer %d %016llx %016llx %016llx\n", stream, layer, y_.Checksum(),
                dx_.Checksum(), dw_.Checksum());
  }

 private:
  static constexpr auto kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  static constexpr auto kBackwardData = CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
  static constexpr auto kBackwardFilter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0;
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
    for (const LayerShape& shape : kShapes) {
      const auto seed = static_cast<uint32_t>(10 * stream + shape.c);
      layers[stream].push_back(std::make_unique<Layer>(handle, shape, batch, seed));
    }
  }
  for (int step = 0; step < steps; ++step) {
    for (int stream = 0; stream < kStreams; ++stream) {
      CHECK_CUDNN(cudnnSetStream(handle, streams[stream]));
      for (const auto& layer : layers[stream]) layer->Run();
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
