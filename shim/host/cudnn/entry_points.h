// Code that the functions of the three convolutions share. These functions differ only in their
// names, in the order of their operands, and in their enumerations and result structs.
#pragma once

#include "shim/host/cudnn/execution.h"
#include "shim/host/cudnn/problem.h"

namespace hostgpu {

// The descriptors of a call. The parameter types of the constructor determine the operation. As in
// cuDNN's functions, the descriptors of both inputs precede the convolution's, and the result's
// descriptor follows it.
struct ConvolutionDescriptors {
  ConvolutionDescriptors(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                         cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y)
      : operation(Operation::kForward), x(x), w(w), convolution(convolution), y(y) {}
  ConvolutionDescriptors(cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
                         cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t dx)
      : operation(Operation::kBackwardData), x(dx), w(w), convolution(convolution), y(dy) {}
  ConvolutionDescriptors(cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
                         cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t dw)
      : operation(Operation::kBackwardFilter), x(x), w(dw), convolution(convolution), y(dy) {}

  cudnnStatus_t Describe(Problem* problem) const {
    return hostgpu::Describe(operation, x, w, convolution, y, problem);
  }
  // Returns the pointers of a call; `first`, `second` and `result` are in the order of the
  // constructor's descriptors.
  DevicePointers Pointers(const void* first, const void* second, const void* result,
                          void* workspace, size_t workspace_bytes) const {
    switch (operation) {
      case Operation::kForward:
        return {first, second, result, workspace, workspace_bytes};
      case Operation::kBackwardData:
        return {result, first, second, workspace, workspace_bytes};
      case Operation::kBackwardFilter:
        break;
    }
    return {first, result, second, workspace, workspace_bytes};
  }

  Operation operation;
  cudnnTensorDescriptor_t x;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t convolution;
  cudnnTensorDescriptor_t y;
};

}  // namespace hostgpu

// Calls the macro `define` for each operation. The arguments of `define` are the operation's name,
// the short form of the name, and the kinds of descriptors of the first input, the second input and
// the result.
#define HOSTGPU_FOR_EACH_OPERATION(define)                  \
  define(Forward, Fwd, Tensor, Filter, Tensor)              \
      define(BackwardData, BwdData, Filter, Tensor, Tensor) \
          define(BackwardFilter, BwdFilter, Tensor, Tensor, Filter)
