// Functions that make cuDNN descriptors; the caller destroys them.
#pragma once

#include <cudnn.h>

#include "check_calls.h"

inline cudnnTensorDescriptor_t MakeTensor(cudnnDataType_t type, int n, int c, int h, int w,
                                          cudnnTensorFormat_t layout = CUDNN_TENSOR_NCHW) {
  cudnnTensorDescriptor_t tensor = nullptr;
  CHECK_CUDNN(cudnnCreateTensorDescriptor(&tensor));
  CHECK_CUDNN(cudnnSetTensor4dDescriptor(tensor, layout, type, n, c, h, w));
  return tensor;
}

// Makes a filter of `size` x `size` elements.
inline cudnnFilterDescriptor_t MakeFilter(cudnnDataType_t type, int k, int c, int size,
                                          cudnnTensorFormat_t layout = CUDNN_TENSOR_NCHW) {
  cudnnFilterDescriptor_t filter = nullptr;
  CHECK_CUDNN(cudnnCreateFilterDescriptor(&filter));
  CHECK_CUDNN(cudnnSetFilter4dDescriptor(filter, type, layout, k, c, size, size));
  return filter;
}

inline cudnnConvolutionDescriptor_t MakeConvolution(cudnnDataType_t type, int pad, int stride = 1,
                                                    int dilation = 1) {
  cudnnConvolutionDescriptor_t convolution = nullptr;
  CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&convolution));
  CHECK_CUDNN(cudnnSetConvolution2dDescriptor(convolution, pad, pad, stride, stride, dilation,
                                              dilation, CUDNN_CROSS_CORRELATION, type));
  return convolution;
}
