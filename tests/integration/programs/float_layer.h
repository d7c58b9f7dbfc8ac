// A convolution layer of fp32 tensors in device memory, with its descriptors.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>

#include "check_calls.h"
#include "descriptors.h"
#include "device_tensor.h"

// Images have `size` x `size` positions, filters have `filter` x `filter`.
struct LayerShape {
  int c, size, k, filter, pad, stride;
};

class FloatLayer {
 public:
  FloatLayer(cudnnHandle_t handle, const LayerShape& s, int n, uint32_t seed)
      : handle_(handle),
        out_((s.size + 2 * s.pad - s.filter) / s.stride + 1),
        x_desc_(MakeTensor(CUDNN_DATA_FLOAT, n, s.c, s.size, s.size)),
        y_desc_(MakeTensor(CUDNN_DATA_FLOAT, n, s.k, out_, out_)),
        w_desc_(MakeFilter(CUDNN_DATA_FLOAT, s.k, s.c, s.filter)),
        convolution_(MakeConvolution(CUDNN_DATA_FLOAT, s.pad, s.stride)),
        x_(size_t{1} * n * s.c * s.size * s.size, seed),
        w_(size_t{1} * s.k * s.c * s.filter * s.filter, seed + 1),
        y_(size_t{1} * n * s.k * out_ * out_, seed + 2),
        dx_(size_t{1} * n * s.c * s.size * s.size, seed + 3),
        dw_(size_t{1} * s.k * s.c * s.filter * s.filter, seed + 4),
        dy_(size_t{1} * n * s.k * out_ * out_, seed + 5) {}
  ~FloatLayer() {
    cudnnDestroyConvolutionDescriptor(convolution_);
    cudnnDestroyFilterDescriptor(w_desc_);
    cudnnDestroyTensorDescriptor(y_desc_);
    cudnnDestroyTensorDescriptor(x_desc_);
  }
  FloatLayer(const FloatLayer&) = delete;
  FloatLayer& operator=(const FloatLayer&) = delete;

 protected:
  void Forward(cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes) {
    CHECK_CUDNN(cudnnConvolutionForward(handle_, &kOne, x_desc_, x_.get(), w_desc_, w_.get(),
                                        convolution_, algorithm, workspace, bytes, &kZero, y_desc_,
                                        y_.get()));
  }
  void BackwardData(cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, size_t bytes) {
    CHECK_CUDNN(cudnnConvolutionBackwardData(handle_, &kOne, w_desc_, w_.get(), y_desc_, dy_.get(),
                                             convolution_, algorithm, workspace, bytes, &kZero,
                                             x_desc_, dx_.get()));
  }
  void BackwardFilter(cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, size_t bytes) {
    CHECK_CUDNN(cudnnConvolutionBackwardFilter(handle_, &kOne, x_desc_, x_.get(), y_desc_,
                                               dy_.get(), convolution_, algorithm, workspace, bytes,
                                               &kZero, w_desc_, dw_.get()));
  }

  static constexpr float kOne = 1, kZero = 0;
  const cudnnHandle_t handle_;
  const int out_;  // height and width of the results
  const cudnnTensorDescriptor_t x_desc_, y_desc_;
  const cudnnFilterDescriptor_t w_desc_;
  const cudnnConvolutionDescriptor_t convolution_;
  DeviceTensor x_, w_, y_, dx_, dw_, dy_;
};
