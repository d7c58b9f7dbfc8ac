// What the entry points of the three convolutions share. They differ in their names, in the order
// of their operands, and in the names of their enumerations and result structs.
#pragma once

#include "shim/host/cudnn/execution.h"
#include "shim/host/cudnn/problem.h"

namespace hostgpu {

// The descriptors of a call. Their types say which operation an entry point is for: it takes those
// of its two inputs before the convolution's, and that of its result behind it.
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
  // The operands come in the order of the descriptors.
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

// Calls define(name, its short form, the kinds of the descriptors of both inputs and of the result)
// for each operation.
#define HOSTGPU_FOR_EACH_OPERATION(define)                  \
  define(Forward, Fwd, Tensor, Filter, Tensor)              \
      define(BackwardData, BwdData, Filter, Tensor, Tensor) \
          define(BackwardFilter, BwdFilter, Tensor, Tensor, Filter)
