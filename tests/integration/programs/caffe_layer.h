// A convolution layer as BVLC Caffe 1.0 runs it on cuDNN. Each group of channels has three handles
// on three streams. A group's tensors are views of the whole tensors, with the strides of the whole
// tensors. Algorithms come from cudnnGetConvolution*Algorithm, which cuDNN 8 removed, within a
// workspace limit. Every handle has a slice of one workspace. Filter gradients are added with beta
// = 1, while another stream computes the gradients of the images.
//
// With CAFFE_WITH_UCUDNN, handles are ucudnn's, and layers tell ucudnn their names.
#pragma once

#include <cuda_runtime.h>
#include <ucudnn/handle.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check_calls.h"

namespace caffe {

#ifdef CAFFE_WITH_UCUDNN
typedef UcudnnHandle_t Handle;
#else
typedef cudnnHandle_t Handle;
#endif

struct Shape {
  int num, channels, height, width;
  int outputs, kernel, pad, group;  // the stride is 1
  int OutHeight() const { return height + 2 * pad - kernel + 1; }
  int OutWidth() const { return width + 2 * pad - kernel + 1; }
  size_t BottomCount() const { return size_t{1} * num * channels * height * width; }
  size_t TopCount() const { return size_t{1} * num * outputs * OutHeight() * OutWidth(); }
  size_t WeightCount() const { return size_t{1} * outputs * (channels / group) * kernel * kernel; }
};

class ConvolutionLayer {
 public:
  // Makes a layer for `bottoms` inputs of `shape`. Chooses algorithms that need at most
  // `limit_bytes` of workspace. If `limit_bytes` is 0, chooses the fastest algorithms.
  ConvolutionLayer(const std::string& name, const Shape& shape, int bottoms, size_t limit_bytes)
      : shape_(shape) {
    LayerSetUp(bottoms);
    Reshape(name, limit_bytes);
  }
  ~ConvolutionLayer();
  ConvolutionLayer(const ConvolutionLayer&) = delete;

  // All pointers are device pointers. Each input has its own bottom and top; all inputs share
  // weight, bias and their gradients.
  void Forward(const std::vector<float*>& bottom, const float* weight, const float* bias,
               const std::vector<float*>& top);
  // Adds to weight_diff and bias_diff, and writes bottom_diff.
  void Backward(const std::vector<float*>& top_diff, const std::vector<float*>& bottom,
                const float* weight, float* weight_diff, float* bias_diff,
                const std::vector<float*>& bottom_diff);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Returns ucudnn's plan for the first input: sizes, counts and engines of its micro-batches, for
  // example "16x2 legacy:1 + ...".
  std::string PlanOf(int operation) const;

 private:
  static const int kStreamsPerGroup = 3;

  struct Input {
    cudnnTensorDescriptor_t bottom, top;
    cudnnConvolutionDescriptor_t convolution;
    cudnnConvolutionFwdAlgo_t forward;
    cudnnConvolutionBwdFilterAlgo_t backward_filter;
    cudnnConvolutionBwdDataAlgo_t backward_data;
    size_t forward_bytes, backward_filter_bytes, backward_data_bytes;
  };

  void LayerSetUp(int bottoms);
  void Reshape(const std::string& name, size_t limit_bytes);
  void ChooseAlgorithms(Input& input, size_t limit_bytes);
  // Makes later work on all streams wait for all earlier work: the default stream waits for all
  // other streams, and all other streams wait for the default stream.
  void SyncGroups() { CHECK_CUDA(cudaMemsetAsync(sync_, 0, 1, nullptr)); }

  const Shape shape_;
  Handle* handle_ = nullptr;
  cudaStream_t* stream_ = nullptr;
  std::vector<Input> inputs_;
  cudnnFilterDescriptor_t filter_ = nullptr;
  cudnnTensorDescriptor_t bias_ = nullptr;
  size_t bottom_offset_ = 0, top_offset_ = 0, weight_offset_ = 0, bias_offset_ = 0;
  size_t workspace_bytes_ = 0;  // size of one handle's slice
  char* workspace_data_ = nullptr;
  std::vector<void*> workspace_;
  void* sync_ = nullptr;
};

}  // namespace caffe
