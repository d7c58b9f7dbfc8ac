// An ordinary cuDNN program that knows nothing of ucudnn. It runs the five convolutions of AlexNet
// (as in Krizhevsky's "one weird trick") forward and backward, on memory from cudaMalloc. It gets
// algorithms from cudnnFind...Ex (`find` or `lazy`) or cudnnGet..._v7 (`get`). With `lazy` it gets
// each algorithm before the convolution that needs it, otherwise all of them before the first
// convolution. It prints a checksum of every output, so that two runs can be compared. It also
// prints the time of the fastest step, and the time of the first step with its queries. It is
// linked with the real libraries.
//
//   alexnet_step [BATCH [STEPS [WORKSPACE_MIB [find|get|lazy [C,SIZE,K,FILTER,PAD,STRIDE]]]]]
//
// With a fifth argument, it runs that one layer in place of AlexNet's.
#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "check_calls.h"
#include "float_layer.h"

namespace {

struct NamedShape {
  const char* name;
  LayerShape shape;
};

const std::vector<NamedShape> kAlexNet = {{"conv1", {3, 224, 64, 11, 2, 4}},
                                          {"conv2", {64, 27, 192, 5, 2, 1}},
                                          {"conv3", {192, 13, 384, 3, 1, 1}},
                                          {"conv4", {384, 13, 256, 3, 1, 1}},
                                          {"conv5", {256, 13, 256, 3, 1, 1}}};

template <typename Answer>
Answer FirstWithin(const Answer* answers, int count, size_t bytes) {
  for (int i = 0; i < count; ++i) {
    if (answers[i].status == CUDNN_STATUS_SUCCESS && answers[i].memory <= bytes) return answers[i];
  }
  std::fprintf(stderr, "no algorithm fits the workspace\n");
  std::exit(1);
}

class Layer : public FloatLayer {
 public:
  Layer(cudnnHandle_t handle, const NamedShape& named, int n)
      : FloatLayer(handle, named.shape, n, 1), name_(named.name) {}

  // Takes the first algorithm that cudnnFind...Ex returns, as frameworks do.
  void FindForward(void* workspace, size_t bytes) {
    int count = 0;
    CHECK_CUDNN(cudnnFindConvolutionForwardAlgorithmEx(handle_, x_desc_, x_.get(), w_desc_,
                                                       w_.get(), convolution_, y_desc_, y_.get(), 1,
                                                       &count, &forward_, workspace, bytes));
  }
  void FindBackward(void* workspace, size_t bytes) {
    int count = 0;
    CHECK_CUDNN(cudnnFindConvolutionBackwardDataAlgorithmEx(
        handle_, w_desc_, w_.get(), y_desc_, dy_.get(), convolution_, x_desc_, dx_.get(), 1, &count,
        &backward_data_, workspace, bytes));
    CHECK_CUDNN(cudnnFindConvolutionBackwardFilterAlgorithmEx(
        handle_, x_desc_, x_.get(), y_desc_, dy_.get(), convolution_, w_desc_, dw_.get(), 1, &count,
        &backward_filter_, workspace, bytes));
  }

  // Takes the first algorithm in cudnnGet..._v7's ranking that fits the workspace.
  void GetAlgorithms(size_t bytes) {
    constexpr int kMost = 8;
    int count = 0;
    cudnnConvolutionFwdAlgoPerf_t forward[kMost];
    CHECK_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(handle_, x_desc_, w_desc_, convolution_,
                                                       y_desc_, kMost, &count, forward));
    forward_ = FirstWithin(forward, count, bytes);
    cudnnConvolutionBwdDataAlgoPerf_t data[kMost];
    CHECK_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, w_desc_, y_desc_, convolution_,
                                                            x_desc_, kMost, &count, data));
    backward_data_ = FirstWithin(data, count, bytes);
    cudnnConvolutionBwdFilterAlgoPerf_t filter[kMost];
    CHECK_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        handle_, x_desc_, y_desc_, convolution_, w_desc_, kMost, &count, filter));
    backward_filter_ = FirstWithin(filter, count, bytes);
  }

  void Forward(void* workspace) { FloatLayer::Forward(forward_.algo, workspace, forward_.memory); }
  void Backward(void* workspace) {
    BackwardData(backward_data_.algo, workspace, backward_data_.memory);
    BackwardFilter(backward_filter_.algo, workspace, backward_filter_.memory);
  }

  void PrintChecksums() {
    std::printf("%s  y %016llx  dx %016llx  dw %016llx\n", name_, y_.Checksum(), dx_.Checksum(),
                dw_.Checksum());
  }

  double WorkspaceMiB() const {
    const size_t most = std::max({forward_.memory, backward_data_.memory, backward_filter_.memory});
    return static_cast<double>(most) / (1 << 20);
  }

 private:
  const char* const name_;
  cudnnConvolutionFwdAlgoPerf_t forward_ = {};
  cudnnConvolutionBwdDataAlgoPerf_t backward_data_ = {};
  cudnnConvolutionBwdFilterAlgoPerf_t backward_filter_ = {};
};

}  // namespace

int main(int argc, char** argv) {
  const int batch = argc > 1 ? std::atoi(argv[1]) : 128;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 3;
  const size_t workspace_bytes = (argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 512) << 20;
  const std::string asking = argc > 4 ? argv[4] : "find";
  LayerShape s = {};
  const bool is_one_layer = argc > 5;
  if (batch < 1 || steps < 1 || (asking != "find" && asking != "get" && asking != "lazy") ||
      (is_one_layer && std::sscanf(argv[5], "%d,%d,%d,%d,%d,%d", &s.c, &s.size, &s.k, &s.filter,
                                   &s.pad, &s.stride) != 6)) {
    std::fprintf(stderr,
                 "usage: alexnet_step [BATCH [STEPS [WORKSPACE_MIB [find|get|lazy "
                 "[C,SIZE,K,FILTER,PAD,STRIDE]]]]]\n");
    return 2;
  }
  const std::vector<NamedShape> shapes =
      is_one_layer ? std::vector<NamedShape>{{"layer", s}} : kAlexNet;
  cudnnHandle_t handle;
  CHECK_CUDNN(cudnnCreate(&handle));
  void* workspace = nullptr;
  if (workspace_bytes > 0) CHECK_CUDA(cudaMalloc(&workspace, workspace_bytes));
  std::vector<Layer*> layers;
  for (const NamedShape& one : shapes) layers.push_back(new Layer(handle, one, batch));
  double best_ms = 1e30, first_ms = 0;
  for (int step = 0; step < steps; ++step) {
    CHECK_CUDA(cudaDeviceSynchronize());
    const auto asked = std::chrono::steady_clock::now();
    for (Layer* layer : layers) {
      if (step > 0) break;
      if (asking == "find") {
        layer->FindForward(workspace, workspace_bytes);
        layer->FindBackward(workspace, workspace_bytes);
      } else if (asking == "get") {
        layer->GetAlgorithms(workspace_bytes);
      }
    }
    const auto begin = std::chrono::steady_clock::now();
    const bool asks = step == 0 && asking == "lazy";
    for (Layer* layer : layers) {
      if (asks) layer->FindForward(workspace, workspace_bytes);
      layer->Forward(workspace);
    }
    for (size_t i = layers.size(); i-- > 0;) {
      if (asks) layers[i]->FindBackward(workspace, workspace_bytes);
      layers[i]->Backward(workspace);
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    const auto end = std::chrono::steady_clock::now();
    using Milliseconds = std::chrono::duration<double, std::milli>;
    if (step == 0) first_ms = Milliseconds(end - asked).count();
    best_ms = std::min(best_ms, Milliseconds(end - begin).count());
  }
  double most_mib = 0;
  for (Layer* layer : layers) {
    layer->PrintChecksums();
    most_mib = std::max(most_mib, layer->WorkspaceMiB());
  }
  std::printf("batch %d, workspace %.1f MiB, step %.1f ms, first with its queries %.1f ms\n", batch,
              most_mib, best_ms, first_ms);
  for (Layer* layer : layers) delete layer;
  if (workspace != nullptr) CHECK_CUDA(cudaFree(workspace));
  CHECK_CUDNN(cudnnDestroy(handle));
  return 0;
}
