// Computes with vectors in device memory that have one number for each channel. The numbers are
// packed. Each operation enqueues one function of cuDNN on the handle's stream, and allocates
// nothing. Not thread-safe.
#pragma once

#include <cuda.h>

#include <memory>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/functions.h"

namespace ucudnn::spatial {

class ChannelNumbers {
 public:
  // `type` is the type of the numbers: fp64 for fp64 tensors, otherwise fp32. Fails if cuDNN lacks
  // a function that the operations call.
  static Result<std::unique_ptr<ChannelNumbers>> Make(const cudnn::Functions& functions,
                                                      DataType type, int channels);
  ~ChannelNumbers();
  ChannelNumbers(const ChannelNumbers&) = delete;
  ChannelNumbers& operator=(const ChannelNumbers&) = delete;

  // Returns the bytes of one vector, rounded up so that the next object in memory is aligned for
  // any function of cuDNN.
  size_t bytes() const;

  Status Set(cudnnHandle_t handle, double value, CUdeviceptr to) const;
  // Computes to = alpha * from + beta * to. Neither Add nor Multiply reads `to` if beta is 0.
  Status Add(cudnnHandle_t handle, double alpha, CUdeviceptr from, double beta,
             CUdeviceptr to) const;
  // Computes to = a_scale * a + b_scale * b. `to` may be `a`.
  Status Sum(cudnnHandle_t handle, double a_scale, CUdeviceptr a, double b_scale, CUdeviceptr b,
             CUdeviceptr to) const;
  // Computes to = scale * a * b + beta * to. `to` may be `a`.
  Status Multiply(cudnnHandle_t handle, double scale, CUdeviceptr a, CUdeviceptr b, double beta,
                  CUdeviceptr to) const;
  // Computes to = 1 / sqrt(variance + epsilon). The numbers at `zeros` must be 0, and the numbers
  // at `ones` must be 1.
  Status InverseDeviation(cudnnHandle_t handle, double epsilon, CUdeviceptr variance,
                          CUdeviceptr zeros, CUdeviceptr ones, CUdeviceptr to) const;

 private:
  ChannelNumbers(const cudnn::Functions& functions, DataType type, int channels)
      : functions_(functions), type_(type), channels_(channels) {}
  Status Describe();

  const cudnn::Functions& functions_;
  const DataType type_;
  const int channels_;
  cudnnTensorDescriptor_t numbers_ = nullptr;
  cudnnOpTensorDescriptor_t add_ = nullptr, multiply_ = nullptr;
};

}  // namespace ucudnn::spatial
